//go:build invariants

package txn

import "fmt"

// checkTransition panics where an id comes into a state that does not follow its last.
func checkTransition(id string, from, to *Transaction) {
	if err := from.follows(to); err != nil {
		panic(fmt.Sprintf("txn: id %q: %v", id, err))
	}
}
