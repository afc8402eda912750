package sharepartition

import (
	"fmt"
	"math"
)

// tally is what the records of a partition add up to.
type tally struct {
	available, complete, below int64
	locked                     []int64
	pending                    []stagedRun // what is TX_PENDING
}

// Check counts everything anew and returns an error that shows the arithmetic which does not hold. Built with the
// tag invariants, every operation ends with it and panics on an error.
func (p *Partition) Check() error {
	if p.head > p.tail || p.tail-p.head > len(p.slots) || len(p.slots)&(len(p.slots)-1) != 0 {
		return fmt.Errorf("ring of %d slots holds batches [%d, %d)", len(p.slots), p.head, p.tail)
	}
	if p.start > p.end || p.empty() && p.start != p.end {
		return fmt.Errorf("start %d, end %d, %d batches", p.start, p.end, p.tail-p.head)
	}
	t := tally{locked: make([]int64, max(len(p.locks.all), 1))}
	next := int64(math.MinInt64)
	for n := p.head; n < p.tail; n++ {
		b := p.at(n)
		if b.first < next || b.last < b.first || b.last >= p.end {
			return fmt.Errorf("batch %d is %d-%d; the one before ends before %d and end is %d", n, b.first, b.last, next, p.end)
		}
		next = b.last + 1
		if err := p.checkBatch(n, b, &t); err != nil {
			return err
		}
	}
	if t.available != p.available || t.complete != p.complete || t.below != p.below {
		return fmt.Errorf("available %d, complete %d, below %d, but counted %d, %d, %d",
			p.available, p.complete, p.below, t.available, t.complete, t.below)
	}
	if err := p.checkStaged(t.pending); err != nil {
		return err
	}
	return p.locks.check(t.locked)
}

func (p *Partition) checkBatch(n int, b *batch, t *tally) error {
	before := t.available
	size := b.size()
	if b.sp != nil && int64(len(b.sp.rec)) != size {
		return fmt.Errorf("batch %d-%d has state for %d records", b.first, b.last, len(b.sp.rec))
	}
	terminal, pending := 0, 0
	for first := b.first; first <= b.last; {
		s, count, last, waits := b.run(first)
		lock := b.lock
		if b.sp != nil {
			lock = b.sp.lock[first-b.first]
			if count > b.sp.high {
				return fmt.Errorf("record %d has delivery count %d, the highest of its batch is %d", first, count, b.sp.high)
			}
		}
		if (lock != 0) != (s == Acquired || waits) {
			return fmt.Errorf("records %d-%d: %s, waiting %v, lock %d", first, last, s, waits, lock)
		}
		if lock != 0 {
			l := &p.locks.all[lock]
			t.locked[lock] += last - first + 1
			if first < l.first && s == Acquired || last > l.last {
				return fmt.Errorf("records %d-%d have lock %d, which covers %d-%d", first, last, lock, l.first, l.last)
			}
			if s == Acquired && !l.armed {
				return fmt.Errorf("records %d-%d: %s by lock %d, which has ended", first, last, s, lock)
			}
		}
		if s == TxPending {
			t.pending = append(t.pending, stagedRun{first: first, last: last})
		}
		under := min(max(p.start-first, 0), last-first+1)
		if s.terminal() {
			terminal += int(last - first + 1)
			t.complete += last - first + 1 - under
		}
		if waits {
			pending += int(last - first + 1)
		}
		if !s.terminal() || waits {
			t.below += under
		}
		if s == Available && !waits {
			t.available += last - first + 1
			if under > 0 {
				return fmt.Errorf("records %d-%d are %s below start %d", first, last, s, p.start)
			}
		}
		first = last + 1
	}
	available := t.available - before
	if b.sp != nil {
		if err := b.sp.check(terminal, pending, available); err != nil {
			return fmt.Errorf("batch %d-%d: %w", b.first, b.last, err)
		}
	}
	if p.holds(n) != (available > 0) || available > 0 && n < p.hint {
		return fmt.Errorf("batch %d has %d available records, bit %v, hint %d", n, available, p.holds(n), p.hint)
	}
	return nil
}

func (s *split) check(terminal, pending int, available int64) error {
	if s.nTerm != terminal || s.nPend != pending || int64(s.nAvail) != available {
		return fmt.Errorf("terminal %d, waiting %d, available %d, but counted %d, %d, %d",
			s.nTerm, s.nPend, s.nAvail, terminal, pending, available)
	}
	for i := range s.rec {
		bit := s.avail[i>>6]>>(i&63)&1 != 0
		if bit != (s.state(i) == Available && !s.pending(i)) {
			return fmt.Errorf("record %d is %s, its available bit %v", i, s.state(i), bit)
		}
	}
	return nil
}

// check compares the records of each lock with those counted, and the heap with its order.
func (t *lockTable) check(counted []int64) error {
	armed, dead := 0, 0
	for id := range t.all {
		l := &t.all[id]
		if l.n != counted[id] {
			return fmt.Errorf("lock %d has %d records, but counted %d", id, l.n, counted[id])
		}
		if l.armed {
			armed++
			if l.n == 0 {
				dead++
			}
		}
	}
	if armed != len(t.heap) || dead != t.dead {
		return fmt.Errorf("heap of %d with %d dead, but counted %d and %d", len(t.heap), t.dead, armed, dead)
	}
	for i := 1; i < len(t.heap); i++ {
		if t.before(t.heap[i], t.heap[(i-1)/2]) {
			return fmt.Errorf("lock %d at %d of the heap ends before its parent", t.heap[i], i)
		}
	}
	return nil
}
