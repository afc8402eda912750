package sharepartition

import "math/bits"

// batch is a run of records that were acquired together, or were persisted as one. 32 bytes.
type batch struct {
	first, last int64
	sp          *split // nil: all records are in one state
	lock        uint32 // where sp is nil: index into the locks, 0 none
	state       State
	count       uint8
	pending     bool // a write that changed the whole batch is unanswered
}

func (b *batch) size() int64 { return b.last - b.first + 1 }

// settled tells whether every record is terminal and persisted.
func (b *batch) settled() bool {
	if b.sp != nil {
		return b.sp.nTerm == len(b.sp.rec) && b.sp.nPend == 0
	}
	return b.state.terminal() && !b.pending
}

const minSlots = 8

// ring holds the batches numbered [head, tail) in offset order, batch n in slot n mod len(slots). has is one bit
// a slot: the batch holds an available record. No batch below hint does.
type ring struct {
	slots      []batch
	has        []uint64
	head, tail int
	hint       int
}

func (r *ring) init() {
	*r = ring{slots: make([]batch, minSlots), has: make([]uint64, 1)}
}

func (r *ring) empty() bool      { return r.head == r.tail }
func (r *ring) at(n int) *batch  { return &r.slots[n&(len(r.slots)-1)] }
func (r *ring) holds(n int) bool { s := n & (len(r.slots) - 1); return r.has[s>>6]>>(s&63)&1 != 0 }

// mark sets or clears the bit of batch n.
func (r *ring) mark(n int, available bool) {
	s := n & (len(r.slots) - 1)
	if !available {
		r.has[s>>6] &^= 1 << (s & 63)
		return
	}
	r.has[s>>6] |= 1 << (s & 63)
	r.hint = min(r.hint, n)
}

// next is the first batch from n on that holds an available record, or tail.
func (r *ring) next(n int) int {
	fromHint := n <= r.hint
	n = max(n, r.hint)
	word := min(64, len(r.slots))
	for n < r.tail {
		s := n & (len(r.slots) - 1)
		if w := r.has[s>>6] >> (s & 63); w != 0 {
			n += bits.TrailingZeros64(w)
			break
		}
		n += word - s&(word-1)
	}
	n = min(n, r.tail)
	if fromHint {
		r.hint = n
	}
	return n
}

// floor is the last batch whose first offset is at or below the offset, or head-1.
func (r *ring) floor(offset int64) int {
	lo, hi := r.head, r.tail
	if lo < hi && r.at(hi-1).first <= offset {
		return hi - 1
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if r.at(mid).first <= offset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// insert puts a batch before number n, which is tail except inside a gap window.
func (r *ring) insert(n int, b batch) {
	if r.tail-r.head == len(r.slots) {
		r.resize(2 * len(r.slots))
	}
	r.tail++
	r.mark(r.tail-1, false)
	for i := r.tail - 1; i > n; i-- {
		*r.at(i) = *r.at(i - 1)
		r.mark(i, r.holds(i-1))
	}
	r.mark(n, false)
	*r.at(n) = b
}

func (r *ring) resize(slots int) {
	grown := ring{slots: make([]batch, slots), has: make([]uint64, (slots+63)/64), head: r.head, tail: r.tail, hint: r.tail}
	for n := r.head; n < r.tail; n++ {
		*grown.at(n) = *r.at(n)
		if r.holds(n) {
			grown.mark(n, true)
		}
	}
	*r = grown
}

// shrinkFrom is the size above which an empty ring gives its memory back.
const shrinkFrom = 1024

// pop drops the batch at the head.
func (r *ring) pop() {
	r.mark(r.head, false)
	*r.at(r.head) = batch{}
	r.head++
	r.hint = max(r.hint, r.head)
	if r.head == r.tail && len(r.slots) > shrinkFrom {
		r.init()
	}
}
