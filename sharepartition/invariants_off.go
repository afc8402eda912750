//go:build !invariants

package sharepartition

// invariants tells whether every operation ends with Check.
const invariants = false

// verify is Check in builds with the tag invariants.
func (p *Partition) verify(string) {}
