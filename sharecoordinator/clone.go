package sharecoordinator

import (
	"maps"
	"slices"
)

// Clone returns a coordinator that stands where c does and goes its own way from then on.
func (c *Coordinator) Clone() *Coordinator {
	clone := *c
	clone.states = make(map[Key]*state, len(c.states))
	for k, s := range c.states {
		own := *s
		own.Batches = slices.Clone(s.Batches) // which a merge changes in place
		clone.states[k] = &own
	}
	clone.transactions = c.transactions.clone()
	return &clone
}

func (t *transactions) clone() transactions {
	// Guards are told apart by their addresses and never change: those that were taken of one coordinator hold in its clone too.
	clone := transactions{staged: make(map[int64]map[Key]struct{}, len(t.staged)), producers: producers{maps.Clone(t.guards), maps.Clone(t.ended)}}
	for id, keys := range t.staged {
		clone.staged[id] = maps.Clone(keys)
	}
	return clone
}

// Ended is the last end of a producer's transactions that the coordinator knows of: the epoch of its marker and that of the transaction coordinator that sent
// it. It knows none before the first, and after it was made anew from its log.
func (c *Coordinator) Ended(producerID int64) (epoch int16, coordinatorEpoch int32, ok bool) {
	e, ok := c.ended[producerID]
	return e.epoch, e.coordinatorEpoch, ok
}
