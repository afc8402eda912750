package sharepartition

import (
	"maps"
	"slices"
)

// Clone returns a share partition that stands where p does and goes its own way from then on. Neither Counters nor what is kept for reuse goes along. What p
// has returned, the Batches of a Write among it, stays p's.
func (p *Partition) Clone() *Partition {
	c := *p
	c.slots, c.has = slices.Clone(p.slots), slices.Clone(p.has)
	for n := c.head; n < c.tail; n++ {
		if b := c.at(n); b.sp != nil {
			b.sp = b.sp.clone()
		}
	}
	c.locks = p.locks.clone()
	c.writes = writeTable{lastID: p.writes.lastID}
	if len(p.writes.open) > 0 {
		c.writes.open = slices.Clone(p.writes.open)
		for i := range c.writes.open {
			c.writes.open[i].batches = slices.Clone(c.writes.open[i].batches)
		}
	}
	c.staged = slices.Clone(p.staged)
	c.spare, c.counters = nil, nil
	return &c
}

// clone copies no more than there is room for in each of the slices: newSplit goes by that of one.
func (s *split) clone() *split {
	c := *s
	c.rec, c.lock, c.avail = exactly(s.rec), exactly(s.lock), exactly(s.avail)
	if s.pend != nil {
		c.pend = exactly(s.pend)
	}
	return &c
}

func exactly[T any](s []T) []T {
	c := make([]T, len(s))
	copy(c, s)
	return c
}

func (t *lockTable) clone() lockTable {
	c := *t
	c.all, c.free, c.heap = slices.Clone(t.all), slices.Clone(t.free), slices.Clone(t.heap)
	c.members = memberTable{
		ids: maps.Clone(t.members.ids), names: slices.Clone(t.members.names), refs: slices.Clone(t.members.refs),
		free: slices.Clone(t.members.free), last: t.members.last,
	}
	return c
}

// Gap is the part of the offsets in flight whose holes are records that are still to be delivered, of what a former leader left behind: from first on, below
// end. It is open until all of them were handed out, or something is acquired behind them.
func (p *Partition) Gap() (first, end int64, open bool) {
	if !p.gapOpen() {
		return 0, 0, false
	}
	return p.gap.start, p.gap.end, true
}
