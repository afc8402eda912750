package sharepartition

import "math/bits"

// keepLock as the lock of putRun leaves each record the lock that it has.
const keepLock = ^uint32(0)

// putRun does what put does to each of the records [from, to) of the split batch n, whose delivery counts rise by more. A member acknowledges
// hundreds of neighbours at once.
func (p *Partition) putRun(n int, b *batch, from, to int, s State, more uint8, lock uint32, pending bool) {
	sp := b.sp
	for ; from < to && b.first+int64(from) < p.start; from++ { // the counts are others below the start
		l := lock
		if l == keepLock {
			l = sp.lock[from]
		}
		p.put(n, b, from, s, min(sp.count(from)+more, MaxDeliveryCount), l, pending)
	}
	if from >= to {
		return
	}
	terminal := 0
	for i, rec := range sp.rec[from:to] {
		if State(rec >> 5).terminal() {
			terminal++
		}
		count := min(rec&MaxDeliveryCount+more, MaxDeliveryCount)
		sp.high = max(sp.high, count)
		sp.rec[from+i] = pack(s, count)
	}
	if s.terminal() {
		terminal -= to - from
	}
	sp.nTerm -= terminal
	p.complete -= int64(terminal)

	if is := s == Available && !pending; sp.nAvail > 0 || is {
		d := setBits(sp.avail, from, to, is)
		p.available += int64(d)
		sp.nAvail += d
		if d != 0 {
			p.mark(n, sp.nAvail > 0)
		}
	}
	if pending && sp.pend == nil {
		sp.pend = make([]uint64, len(sp.avail))
	}
	if pending || sp.nPend > 0 {
		sp.nPend += setBits(sp.pend, from, to, pending)
	}
	if lock != keepLock {
		p.lockRun(sp, from, to, lock)
	}
}

// lockRun gives the records [from, to) a lock in place of those that they have.
func (p *Partition) lockRun(sp *split, from, to int, lock uint32) {
	held := int64(0)
	for i := from; i < to; {
		l, first := sp.lock[i], i
		for ; i < to && sp.lock[i] == l; i++ {
			sp.lock[i] = lock
		}
		if l != lock {
			p.locks.drop(l, int64(i-first))
			held += int64(i - first)
		}
	}
	p.locks.hold(lock, held)
}

// setBits sets or clears the bits [from, to) and returns by how many the set ones rose.
func setBits(words []uint64, from, to int, on bool) int {
	d := 0
	for from < to {
		w, low := from>>6, from&63
		n := min(64-low, to-from)
		mask := ^uint64(0) >> (64 - n) << low
		before := bits.OnesCount64(words[w] & mask)
		if on {
			words[w] |= mask
			d += n - before
		} else {
			words[w] &^= mask
			d -= before
		}
		from += n
	}
	return d
}

// alike is the end of the run of records from i on that have the same state and delivery count, at most to.
func (s *split) alike(i, to int) int {
	rec := s.rec[i]
	for i++; i < to && s.rec[i] == rec; i++ {
	}
	return i
}
