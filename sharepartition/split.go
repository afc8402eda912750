package sharepartition

import "math/bits"

// split is the state of a batch whose records differ: 5 bytes and a bit a record, and another bit once one of
// them waited for an answer.
type split struct {
	rec    []uint8  // state<<5 | delivery count
	lock   []uint32 // index into the locks, 0 none
	avail  []uint64 // one bit a record: AVAILABLE and no unanswered write
	pend   []uint64 // one bit a record: its write is unanswered; nil before the first
	nAvail int
	nTerm  int
	nPend  int
	high   uint8 // no record has a higher delivery count
}

func pack(s State, count uint8) uint8 { return uint8(s)<<5 | count }

func (s *split) state(i int) State  { return State(s.rec[i] >> 5) }
func (s *split) count(i int) uint8  { return s.rec[i] & MaxDeliveryCount }
func (s *split) pending(i int) bool { return s.nPend > 0 && s.pend[i>>6]>>(i&63)&1 != 0 }

// next is the first available record from i on, or len(rec).
func (s *split) next(i int) int {
	for w := i >> 6; w < len(s.avail); w++ {
		word := s.avail[w]
		if w == i>>6 {
			word &= ^uint64(0) << (i & 63)
		}
		if word != 0 {
			return w<<6 + bits.TrailingZeros64(word)
		}
	}
	return len(s.rec)
}

// keepSplits is how many splits a partition keeps for reuse, keepRecords of how many records each at most: what a batch of an unusual size took is given back.
const (
	keepSplits  = 8
	keepRecords = 4096
)

func (p *Partition) newSplit(size int) *split {
	words := (size + 63) / 64
	for i := len(p.spare) - 1; i >= 0; i-- {
		s := p.spare[i]
		if cap(s.rec) < size || cap(s.rec) > 4*max(size, 64) {
			continue
		}
		p.spare[i] = p.spare[len(p.spare)-1]
		p.spare = p.spare[:len(p.spare)-1]
		*s = split{rec: s.rec[:size], lock: s.lock[:size], avail: s.avail[:words]}
		clear(s.avail)
		return s
	}
	return &split{rec: make([]uint8, size), lock: make([]uint32, size), avail: make([]uint64, words)}
}

func (p *Partition) freeSplit(s *split) {
	if len(p.spare) < keepSplits && cap(s.rec) <= keepRecords {
		p.spare = append(p.spare, s)
	}
}

// split gives each record of batch n a state of its own.
func (p *Partition) split(n int) *split {
	b := p.at(n)
	size := int(b.size())
	s := p.newSplit(size)
	rec := pack(b.state, b.count)
	for i := range s.rec {
		s.rec[i] = rec
		s.lock[i] = b.lock
	}
	s.high = b.count
	if b.state.terminal() {
		s.nTerm = size
	}
	if b.pending {
		s.pend = filled(make([]uint64, len(s.avail)), size)
		s.nPend = size
	} else if b.state == Available {
		filled(s.avail, size)
		s.nAvail = size
	}
	b.sp, b.lock, b.pending = s, 0, false
	return s
}

func filled(words []uint64, n int) []uint64 {
	for w := range words {
		words[w] = ^uint64(0)
	}
	if n&63 != 0 {
		words[len(words)-1] = 1<<(n&63) - 1
	}
	return words
}

// add inserts a batch before number n and counts it.
func (p *Partition) add(n int, b batch) {
	p.insert(n, b)
	if b.state == Available {
		p.available += b.size()
		p.mark(n, true)
	}
	if b.state.terminal() {
		p.complete += b.size()
	} else {
		p.below += max(p.start-b.first, 0)
	}
	p.locks.hold(b.lock, b.size())
	if p.counters != nil {
		p.counters.Batches.Add(b.size())
	}
}

// putWhole sets the state of an unsplit batch. Every change of it goes through here, so the counts hold.
func (p *Partition) putWhole(n int, s State, count uint8, lock uint32, pending bool) {
	b := p.at(n)
	size := b.size()
	under := min(max(p.start-b.first, 0), size)
	if was, is := b.state.terminal(), s.terminal(); was != is {
		p.complete += delta(is) * (size - under)
	}
	if was, is := b.settled(), s.terminal() && !pending; was != is {
		p.below -= delta(is) * under
	}
	if was, is := b.state == Available && !b.pending, s == Available && !pending; was != is {
		p.available += delta(is) * size
		p.mark(n, is)
	}
	if b.lock != lock {
		p.locks.drop(b.lock, size)
		p.locks.hold(lock, size)
	}
	b.state, b.count, b.lock, b.pending = s, count, lock, pending
}

// put sets the state of record i of the split batch n. Every change of it goes through here or putRun, so the counts hold.
func (p *Partition) put(n int, b *batch, i int, s State, count uint8, lock uint32, pending bool) {
	sp := b.sp
	old := sp.state(i)
	word, bit := i>>6, uint64(1)<<(i&63)
	wasPending := sp.pending(i)
	offset := b.first + int64(i)
	if was, is := old.terminal(), s.terminal(); was != is {
		d := delta(is)
		sp.nTerm += int(d)
		if offset >= p.start {
			p.complete += d
		}
	}
	if offset < p.start {
		if was, is := old.terminal() && !wasPending, s.terminal() && !pending; was != is {
			p.below -= delta(is)
		}
	}
	if was, is := sp.avail[word]&bit != 0, s == Available && !pending; was != is {
		sp.avail[word] ^= bit
		d := delta(is)
		p.available += d
		sp.nAvail += int(d)
		if is && sp.nAvail == 1 {
			p.mark(n, true)
		} else if sp.nAvail == 0 {
			p.mark(n, false)
		}
	}
	if wasPending != pending {
		if sp.pend == nil {
			sp.pend = make([]uint64, len(sp.avail))
		}
		sp.pend[word] ^= bit
		sp.nPend += int(delta(pending))
	}
	if l := sp.lock[i]; l != lock {
		p.locks.drop(l, 1)
		p.locks.hold(lock, 1)
		sp.lock[i] = lock
	}
	sp.rec[i] = pack(s, count)
	sp.high = max(sp.high, count)
}

// delta is +1 where a property holds from now on, -1 where it no longer does.
func delta(is bool) int64 {
	if is {
		return 1
	}
	return -1
}
