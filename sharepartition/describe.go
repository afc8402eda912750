package sharepartition

import "time"

// Run is a row of neighbouring records of one batch that are alike, offsets inclusive.
type Run struct {
	FirstOffset, LastOffset int64
	State                   State
	DeliveryCount           int16
	Pending                 bool          // the write of this state is unanswered
	Member                  string        // who holds the records, or held them until the pending state
	LockLeft                time.Duration // until the lock ends, 0 without a lock or where it has ended
	Batch                   int64         // first offset of the batch the records were acquired in
	Split                   bool          // the batch has a state for each record
	Staged                  Staged        // where State is TxPending
}

// Describe appends to dst what is in flight, in offset order, for people to look at.
func (p *Partition) Describe(dst []Run, now time.Time) []Run {
	for n := p.head; n < p.tail; n++ {
		b := p.at(n)
		for first := b.first; first <= b.last; {
			s, count, last, pending := b.run(first)
			r := Run{FirstOffset: first, LastOffset: last, State: s, DeliveryCount: int16(count), Pending: pending,
				Batch: b.first, Split: b.sp != nil}
			lock := b.lock
			if b.sp != nil {
				lock = b.sp.lock[first-b.first]
			}
			if lock != 0 {
				l := &p.locks.all[lock]
				r.Member = p.locks.members.names[l.member]
				r.LockLeft = max(0, l.deadline-now.Sub(p.locks.base))
			}
			if s == TxPending {
				run := p.stagedAt(first)
				r.Staged, r.Member, r.LastOffset = run.Staged, run.member, min(last, run.last)
			}
			dst = append(dst, r)
			first = r.LastOffset + 1
		}
	}
	return dst
}

// run is the state of the record at an offset of the batch, and the last offset up to which all are alike.
func (b *batch) run(first int64) (s State, count uint8, last int64, pending bool) {
	if b.sp == nil {
		return b.state, b.count, b.last, b.pending
	}
	i := int(first - b.first)
	rec, lock, pending := b.sp.rec[i], b.sp.lock[i], b.sp.pending(i)
	end := i + 1
	for end < len(b.sp.rec) && b.sp.rec[end] == rec && b.sp.lock[end] == lock && b.sp.pending(end) == pending {
		end++
	}
	return b.sp.state(i), b.sp.count(i), b.first + int64(end) - 1, pending
}
