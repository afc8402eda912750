//go:build invariants

package sharepartition

import "fmt"

// invariants tells whether every operation ends with Check.
const invariants = true

// verify panics where an operation has left the partition in a state that cannot be.
func (p *Partition) verify(operation string) {
	if err := p.Check(); err != nil {
		panic(fmt.Sprintf("sharepartition: after %s: %v", operation, err))
	}
}
