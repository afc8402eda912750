package sharepartition

import (
	"math"
	"time"
)

// NextDeadline is the moment at which the next lock ends, false where there is none.
func (p *Partition) NextDeadline() (time.Time, bool) {
	id := p.locks.top()
	if id == 0 {
		return time.Time{}, false
	}
	return p.locks.base.Add(p.locks.all[id].deadline), true
}

// Expire ends all locks whose deadline is at or before now. Their records are available at once, archived where
// they were delivered lim.DeliveryCount times or the log start has passed them; the Write says so to the share
// coordinator and its answer changes none of it. ID 0 means that no record changed.
func (p *Partition) Expire(now time.Time, lim Limits) Write { return p.expire(now, lim, false) }

// ExpireNext is Expire for what Kafka has one timer for: a batch as it was acquired, or one record of a batch
// that was split since. Kafka serves waiting fetches after each timer, so the first of them finds no more than
// that. Called again it goes on; ID 0 means that nothing is left to end.
func (p *Partition) ExpireNext(now time.Time, lim Limits) Write { return p.expire(now, lim, true) }

func (p *Partition) expire(now time.Time, lim Limits, one bool) Write {
	defer p.verify("Expire")
	id := p.locks.top()
	if id == 0 || p.locks.all[id].deadline > now.Sub(p.locks.base) {
		return Write{}
	}
	e := expiry{p: p, lim: &lim, write: p.writes.begin(), one: one}
	for ; id != 0 && p.locks.all[id].deadline <= now.Sub(p.locks.base); id = p.locks.top() {
		if e.end(id) && one {
			break
		}
		e.ended += p.locks.all[id].n // those that wait for an answer
		p.locks.disarm()
	}
	if p.counters != nil {
		p.counters.LockTimeouts += e.ended
	}
	return p.writes.finish(e.write, p, false, lim.DeliveryCount)
}

// expiry is one Expire under way.
type expiry struct {
	p     *Partition
	lim   *Limits
	write *write
	one   bool
	ended int64 // records whose lock has ended
}

// end takes the records of a lock from their holder; where one is set those of its first timer. It tells whether
// there were any.
func (e *expiry) end(id uint32) bool {
	p := e.p
	l := &p.locks.all[id]
	first, last := l.first, l.last
	found := false
	for n := max(p.floor(first), p.head); n < p.tail && l.n > 0; n++ {
		b := p.at(n)
		if b.first > last {
			break
		}
		if b.last < first {
			continue
		}
		if b.sp != nil {
			if e.endRecords(n, b, id, e.one) {
				found = true
			}
		} else if b.lock == id && b.state == Acquired {
			e.endBatch(n, b, id)
			found = true
		}
		if found && e.one {
			return true
		}
	}
	return found
}

func (e *expiry) endBatch(n int, b *batch, id uint32) {
	p := e.p
	if b.first < p.start && p.start <= b.last {
		p.split(n)
		e.endRecords(n, b, id, false)
		return
	}
	s, why := e.after(b.last, b.count)
	p.putWhole(n, s, b.count, 0, false)
	e.write.note(b.first, b.last, s, b.count, why)
	e.ended += b.size()
	p.locks.all[id].first = max(p.locks.all[id].first, b.last+1)
}

func (e *expiry) endRecords(n int, b *batch, id uint32, one bool) bool {
	p := e.p
	l := &p.locks.all[id]
	found := false
	for i := int(max(l.first-b.first, 0)); i < len(b.sp.lock) && l.n > 0; i++ {
		if b.sp.lock[i] != id || b.sp.state(i) != Acquired {
			continue
		}
		offset, count := b.first+int64(i), b.sp.count(i)
		s, why := e.after(offset, count)
		p.put(n, b, i, s, count, 0, false)
		e.write.note(offset, offset, s, count, why)
		e.ended++
		found = true
		if one {
			l.first = offset + 1
			break
		}
	}
	return found
}

// after is the state of a record whose delivery ends without an acknowledgement.
func (e *expiry) after(offset int64, count uint8) (State, Reason) {
	if offset < e.p.start {
		return Archived, ReasonNone
	}
	return outcome(TypeRelease, count, e.lim)
}

// ReleaseMember takes all records from a member whose share session is closed or whose connection is gone, as if
// it had released each. The records wait for the answer to the Write like acknowledged ones.
func (p *Partition) ReleaseMember(member string, lim Limits) Write {
	defer p.verify("ReleaseMember")
	m := p.locks.members.find(member)
	if m == 0 {
		return Write{}
	}
	first, last := int64(math.MaxInt64), int64(-1)
	for i := range p.locks.all {
		if l := &p.locks.all[i]; l.n > 0 && l.member == m {
			first, last = min(first, l.first), max(last, l.last)
		}
	}
	e := expiry{p: p, lim: &lim, write: p.writes.begin()}
	for n := max(p.floor(first), p.head); n < p.tail && p.at(n).first <= last; n++ {
		e.release(n, m)
	}
	return p.writes.finish(e.write, p, true, lim.DeliveryCount)
}

func (e *expiry) release(n int, m uint32) {
	p, b := e.p, e.p.at(n)
	if b.sp == nil {
		if b.state != Acquired || p.locks.all[b.lock].member != m {
			return
		}
		if b.first >= p.start || b.last < p.start {
			s, why := e.after(b.last, b.count)
			e.write.note(b.first, b.last, s, b.count, why)
			p.putWhole(n, s, b.count, b.lock, true)
			return
		}
		p.split(n)
	}
	for i, id := range b.sp.lock {
		if b.sp.state(i) != Acquired || p.locks.all[id].member != m {
			continue
		}
		offset, count := b.first+int64(i), b.sp.count(i)
		s, why := e.after(offset, count)
		e.write.note(offset, offset, s, count, why)
		p.put(n, b, i, s, count, id, true)
	}
}

// CompleteArchiving archives the records of [first, last] that have gone to the dead-letter queue, or could not.
// The answer to the Write lets the start offset move over them.
func (p *Partition) CompleteArchiving(first, last int64) Write {
	defer p.verify("CompleteArchiving")
	w := p.writes.begin()
	p.each(first, last, func(n int, b *batch, i int) {
		if i < 0 {
			if b.state == Archiving && !b.pending {
				p.putWhole(n, Archived, b.count, 0, false)
				w.note(b.first, b.last, Archived, b.count, ReasonNone)
			}
		} else if b.sp.state(i) == Archiving && !b.sp.pending(i) {
			offset, count := b.first+int64(i), b.sp.count(i)
			p.put(n, b, i, Archived, count, 0, false)
			w.note(offset, offset, Archived, count, ReasonNone)
		}
	}, func(b *batch) bool { return b.state == Archiving && !b.pending })
	return p.writes.finish(w, p, false, 0)
}

// Archiving appends to dst the records that wait for the dead-letter queue, which a partition that was restored
// has to go on with. Their reason is inferred from the delivery count limit.
func (p *Partition) Archiving(dst []StateBatch, deliveryCount int) []StateBatch {
	w := write{batches: dst}
	for n := p.head; n < p.tail; n++ {
		b := p.at(n)
		for first := b.first; first <= b.last; {
			s, count, last, pending := b.run(first)
			if s == Archiving && !pending {
				why := ReasonRejected
				if int(count) >= deliveryCount {
					why = ReasonExceeded
				}
				w.note(first, last, s, count, why)
			}
			first = last + 1
		}
	}
	return w.batches
}

// LogStartMoved archives what the log no longer holds: available records below the new log start at once, held
// ones when their lock ends. Nothing is persisted for it. It tells whether the start offset moved, which it does
// not where it is at or above the log start already.
func (p *Partition) LogStartMoved(logStart int64) bool {
	if logStart <= p.start {
		return false
	}
	defer p.verify("LogStartMoved")
	p.archive(p.start, logStart-1, Available)
	p.forgetStaged(logStart)
	p.complete, p.below = 0, 0
	p.start = logStart
	p.end = max(p.end, logStart)
	if p.gapOpen() {
		p.passGap(logStart)
	} else {
		p.gap.open = false
	}
	for n := p.head; n < p.tail; n++ {
		p.recount(p.at(n))
	}
	return true
}

// recount adds the records of a batch to complete and below.
func (p *Partition) recount(b *batch) {
	for first := b.first; first <= b.last; {
		s, _, last, pending := b.run(first)
		under := min(max(p.start-first, 0), last-first+1)
		if s.terminal() {
			p.complete += last - first + 1 - under
		}
		if !s.terminal() || pending {
			p.below += under
		}
		first = last + 1
	}
}

// archive takes all records of [first, last] in one state, available or acquired, out of circulation for good:
// no later answer or lock changes them.
func (p *Partition) archive(first, last int64, from State) {
	p.each(first, last, func(n int, b *batch, i int) {
		if i < 0 {
			if b.state == from {
				p.putWhole(n, Archived, b.count, 0, false)
			}
		} else if b.sp.state(i) == from {
			p.put(n, b, i, Archived, b.sp.count(i), 0, false)
		}
	}, func(b *batch) bool { return b.state == from })
}

// each calls f for the unsplit batches within [first, last] with record -1, and for each record in it of the
// others. A batch that is only partly within is split where cut says so, else left alone.
func (p *Partition) each(first, last int64, f func(n int, b *batch, i int), cut func(b *batch) bool) {
	for n := max(p.floor(first), p.head); n < p.tail && p.at(n).first <= last; n++ {
		b := p.at(n)
		if b.last < first {
			continue
		}
		if b.sp == nil {
			if first <= b.first && b.last <= last {
				f(n, b, -1)
				continue
			}
			if !cut(b) {
				continue
			}
			p.split(n)
		}
		for i := int(max(first-b.first, 0)); i < len(b.sp.rec) && b.first+int64(i) <= last; i++ {
			f(n, b, i)
		}
	}
}

// Archive takes offsets of aborted transactions out of what was just acquired: they are archived, and what is
// left of the ranges is returned with the number of records in it, which may be 0. aborted are the bounds of
// aborted data batches, ascending.
func (p *Partition) Archive(aborted []Bounds, acquired []AcquiredRange) ([]AcquiredRange, int64) {
	defer p.verify("Archive")
	for _, b := range aborted {
		p.archive(b.BaseOffset, b.LastOffset, Acquired)
	}
	var left []AcquiredRange
	count := int64(0)
	keep := func(first, last int64, r *AcquiredRange) {
		if first <= last {
			left = append(left, AcquiredRange{FirstOffset: first, LastOffset: last, DeliveryCount: r.DeliveryCount})
			count += last - first + 1
		}
	}
	for i := range acquired {
		r := &acquired[i]
		first := r.FirstOffset
		for _, b := range aborted {
			if b.LastOffset < first || b.BaseOffset > r.LastOffset {
				continue
			}
			keep(first, b.BaseOffset-1, r)
			first = b.LastOffset + 1
		}
		keep(first, r.LastOffset, r)
	}
	return left, count
}
