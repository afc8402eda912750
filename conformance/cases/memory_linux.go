package cases

import (
	"fmt"
	"os"
)

// memory is how much memory the client's processes have, in bytes; 0 where that is not known.
func (s *Stage) memory() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.driver.Pid()))
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
