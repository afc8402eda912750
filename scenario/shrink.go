package scenario

import (
	"strings"
)

// Shrink looks for a shorter scenario of which differs is still true, by leaving out commands, asking at most budget times. The first command stays.
func Shrink(f *File, budget int, differs func(*File) (bool, error)) (*File, error) {
	lines := f.commandLines()
	for size := len(lines) / 2; size > 0; {
		removed := false
		for at := len(lines) - size; at > 0 && budget > 0; at -= size {
			shorter := append(append([]string{}, lines[:at]...), lines[at+size:]...)
			budget--
			candidate, err := fromLines(f.Name, shorter)
			if err != nil {
				continue // without what was left out it is no scenario
			}
			ok, err := differs(candidate)
			if err != nil {
				continue
			}
			if ok {
				lines, removed = shorter, true
			}
		}
		if budget <= 0 {
			break
		}
		if !removed || size > len(lines)/2 {
			if size == 1 && !removed {
				break
			}
			size = max(1, min(size/2, len(lines)/2))
			if len(lines) < 2 {
				break
			}
		}
	}
	return fromLines(f.Name, lines)
}

// commandLines are the commands of all blocks.
func (f *File) commandLines() (lines []string) {
	for _, b := range f.blocks {
		for _, l := range b.commands {
			lines = append(lines, l.text)
		}
	}
	return lines
}

func fromLines(name string, lines []string) (*File, error) {
	return Parse(name, []byte(strings.Join(lines, "\n")+"\n"+separator+"\n"))
}

// Text is the scenario as it was read.
func (f *File) Text() string {
	expected := make([][]string, len(f.blocks))
	for i, b := range f.blocks {
		expected[i] = b.expected
	}
	return string(f.format(expected))
}
