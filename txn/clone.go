package txn

import "maps"

// Clone returns a coordinator that stands where c does and goes its own way from then on. Changes that are pending in c are pending in it
// for ever, for their Transitions are those of c: it is cloned between two changes.
func (c *Coordinator) Clone() *Coordinator {
	clone := *c
	clone.ids = maps.Clone(c.ids)
	for id, e := range c.ids {
		own := *e
		if e.pending != nil {
			pending := *e.pending
			pending.from, own.pending = &own, &pending
		}
		clone.ids[id] = &own
	}
	return &clone
}
