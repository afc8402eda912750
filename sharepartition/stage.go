package sharepartition

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"kshare/protocol/errorcode"
)

// Staged is what is known of a record that is TxPending: the producer whose transaction decides about it, how it was
// acknowledged, and its state once that transaction is committed.
type Staged struct {
	ProducerID    int64
	ProducerEpoch int16
	Type          int8  // TypeAccept, TypeReject, TypeGap or TypeRelease
	Committed     State // Acknowledged, Archiving, Archived or Available
}

// stagedRun are neighbouring records that were staged alike, offsets inclusive.
type stagedRun struct {
	first, last int64
	Staged
	member string // who held them, "" after a Restore
}

// Staging is what a transaction may do with records, beyond accepting and rejecting them.
type Staging struct {
	ProducerID    int64
	ProducerEpoch int16
	Gap           bool // type 0 is allowed
	Release       bool // type 2 is allowed
	// PassBelowStart passes over what lies below StartOffset, as an acknowledgement outside of transactions does and the draft of KIP-1289 too. It is
	// refused otherwise: others are done with it, so that the transaction would commit what was made of a delivery that does not count.
	PassBelowStart bool
	// LoseLock leaves records that cannot be staged to their holder without an end, as the draft of KIP-1289 does.
	LoseLock bool
}

var (
	refusedStagedType  = &Refusal{ErrorCode: errorcode.InvalidRequest, Message: "This acknowledge type is not allowed in a transaction."}
	refusedOtherStaged = &Refusal{ErrorCode: errorcode.InvalidRecordState, Message: "The offset waits for another transaction, or for another acknowledgement of this one."}
	refusedUnanswered  = &Refusal{ErrorCode: errorcode.InvalidRecordState, Message: "The offset is staged already, and whether that is stored is not known yet."}
	refusedBelowStart  = &Refusal{ErrorCode: errorcode.InvalidRecordState, Message: "The offset is below the start offset: others are done with it."}
)

// Stage makes what a member says about records it holds part of a transaction: all batches or none. acks have passed
// CheckFormat. The records have no lock and no owner any more once Persisted is told that the returned Write has succeeded, and Resolve is told of
// the transaction's end; if the Write fails they are given back. What is staged and stored already, by the same producer, epoch and type,
// is passed over; a Write without ID means that nothing else was asked for.
func (p *Partition) Stage(member string, acks []Acknowledgement, s Staging, lim Limits) (Write, *Refusal) {
	defer p.verify("Stage")
	k := staging{p: p, s: s, lim: &lim, name: member, member: p.locks.members.find(member), last: -1}
	for i := range acks {
		if refusal := k.check(&acks[i]); refusal != nil {
			return Write{}, refusal
		}
	}
	k.write = p.writes.begin()
	k.write.loseLock = s.LoseLock
	for i := range acks {
		k.apply(&acks[i])
	}
	return p.writes.finish(k.write, p, true, lim.DeliveryCount), nil
}

// staging is one Stage under way.
type staging struct {
	p      *Partition
	s      Staging
	lim    *Limits
	name   string
	member uint32
	write  *write

	// While checking: where the range before ended, and its type there.
	last     int64
	lastType int8
}

// staged is what becomes of a record with an acknowledge type.
func (k *staging) staged(t int8) Staged {
	state := Archived
	switch t {
	case TypeAccept:
		state = Acknowledged
	case TypeRelease:
		state = Available
	case TypeReject:
		if k.lim.DeadLetter {
			state = Archiving
		}
	}
	return Staged{k.s.ProducerID, k.s.ProducerEpoch, t, state}
}

func (k *staging) check(a *Acknowledgement) *Refusal {
	p := k.p
	for _, t := range a.Types {
		if t != TypeAccept && t != TypeReject && (t != TypeGap || !k.s.Gap) && (t != TypeRelease || !k.s.Release) {
			return refusedStagedType
		}
	}
	if a.FirstOffset < p.start && !k.s.PassBelowStart {
		return refusedBelowStart
	}
	if a.LastOffset < p.start {
		return nil
	}
	n, refusal := p.find(a)
	if refusal != nil {
		return refusal
	}
	for ; n < p.tail && p.at(n).first <= a.LastOffset; n++ {
		if refusal := k.checkBatch(p.at(n), a); refusal != nil {
			return refusal
		}
	}
	k.last, k.lastType = a.LastOffset, a.Types[len(a.Types)-1]
	return nil
}

// checkBatch tells why the part of a batch that a covers cannot be staged.
func (k *staging) checkBatch(b *batch, a *Acknowledgement) *Refusal {
	p := k.p
	to := min(b.last, a.LastOffset)
	for first := max(b.first, a.FirstOffset, p.start); first <= to; {
		s, _, last, waits := b.run(first)
		last = min(last, to)
		switch {
		case s == TxPending:
			for offset := first; offset <= last; offset++ {
				if p.stagedAt(offset).Staged != k.staged(a.typeAt(offset)) {
					return refusedOtherStaged
				}
			}
			if waits { // it may yet fail, or be an earlier transaction's of the same epoch
				return refusedUnanswered
			}
		case first == k.last && a.typeAt(first) != k.lastType:
			return refusedOtherStaged
		case s != Acquired || waits:
			return refusedRecordState
		case p.locks.all[b.lockAt(first)].member != k.member:
			return refusedRecordOwner
		}
		first = last + 1
	}
	return nil
}

// lockAt is the lock of the record at an offset of the batch.
func (b *batch) lockAt(offset int64) uint32 {
	if b.sp == nil {
		return b.lock
	}
	return b.sp.lock[offset-b.first]
}

func (k *staging) apply(a *Acknowledgement) {
	p := k.p
	if a.LastOffset < p.start {
		return
	}
	n, _ := p.find(a)
	for ; n < p.tail && p.at(n).first <= a.LastOffset; n++ {
		to := min(p.at(n).last, a.LastOffset)
		for first := max(p.at(n).first, a.FirstOffset, p.start); first <= to; {
			s, count, last, _ := p.at(n).run(first)
			last = min(last, to)
			if len(a.Types) > 1 {
				last = first + int64(alikeTypes(a.Types[first-a.FirstOffset:], int(last-first)))
			}
			if s == Acquired {
				k.stage(n, first, last, count, k.staged(a.typeAt(first)))
			}
			first = last + 1
		}
	}
}

// stage makes records of batch n, which are alike, wait for the transaction.
func (k *staging) stage(n int, first, last int64, count uint8, s Staged) {
	p, b := k.p, k.p.at(n)
	if b.sp == nil && (first > b.first || last < b.last) {
		p.split(n)
	}
	if b.sp == nil {
		p.putWhole(n, TxPending, count, b.lock, true)
	} else {
		p.putRun(n, b, int(first-b.first), int(last-b.first)+1, TxPending, 0, keepLock, true)
	}
	k.write.noteStaged(first, last, TxPending, count, ReasonNone, s)
	p.staged = slices.Insert(p.staged, p.stagedFrom(first), stagedRun{first, last, s, k.name})
}

// stagedFrom is the index of the first staged run that ends at or above an offset.
func (p *Partition) stagedFrom(offset int64) int {
	return sort.Search(len(p.staged), func(i int) bool { return p.staged[i].last >= offset })
}

// stagedAt is the staged run that covers an offset.
func (p *Partition) stagedAt(offset int64) *stagedRun { return &p.staged[p.stagedFrom(offset)] }

// unstage forgets that the records of [first, last] were staged.
func (p *Partition) unstage(first, last int64) {
	from := p.stagedFrom(first)
	to := from
	var left []stagedRun
	for ; to < len(p.staged) && p.staged[to].first <= last; to++ {
		r := p.staged[to]
		if r.first < first {
			x := r
			x.last = first - 1
			left = append(left, x)
		}
		if r.last > last {
			r.first = last + 1
			left = append(left, r)
		}
	}
	p.staged = slices.Replace(p.staged, from, to, left...)
}

// stageSettled ends the wait of a run of a Stage: those that could not be persisted are staged no more.
func (p *Partition) stageSettled(w *write, run *StateBatch, commit bool) {
	if commit {
		return
	}
	p.unstage(run.FirstOffset, run.LastOffset)
	if w.loseLock {
		p.each(run.FirstOffset, run.LastOffset, func(n int, b *batch, i int) {
			if i < 0 && b.state == Acquired {
				p.putWhole(n, Acquired, b.count, p.endless(b.lock, b.first, b.last), false)
			} else if i >= 0 && b.sp.state(i) == Acquired {
				offset := b.first + int64(i)
				p.put(n, b, i, Acquired, b.sp.count(i), p.endless(b.sp.lock[i], offset, offset), false)
			}
		}, func(b *batch) bool { return b.state == Acquired })
	}
}

// endless is a lock without an end for records in place of one that has one.
func (p *Partition) endless(lock uint32, first, last int64) uint32 {
	const never = 1 << 62
	id := p.locks.take(p.locks.base, p.locks.members.names[p.locks.all[lock].member], never)
	p.locks.cover(id, first, last)
	return id
}

// forgetStaged archives what was staged below an offset that the log start has come to. A later end of the transaction finds nothing of it.
func (p *Partition) forgetStaged(logStart int64) {
	if len(p.staged) == 0 || p.staged[0].first >= logStart {
		return
	}
	p.archive(p.staged[0].first, logStart-1, TxPending)
	p.unstage(p.staged[0].first, logStart-1)
}

// Staged appends to dst the records that wait for transactions.
func (p *Partition) Staged(dst []StateBatch) []StateBatch {
	for i := range p.staged {
		r := &p.staged[i]
		dst = append(dst, StateBatch{FirstOffset: r.first, LastOffset: r.last, State: TxPending, Staged: r.Staged})
	}
	return dst
}

// Resolve takes in what the end of transactions has made of records, as the share coordinator has persisted it: the Staged of each batch names
// what ends, State and DeliveryCount are those that follow. Acquired gives the records to their former holder again, for lim.LockDuration from now, or makes
// them available where nobody is known. Records that are not staged so are left alone.
func (p *Partition) Resolve(now time.Time, resolved []StateBatch, lim Limits) Settled {
	defer p.verify("Resolve")
	before := p.available
	p.writes.archiving = p.writes.archiving[:0]
	for i := range resolved {
		p.resolve(now, &resolved[i], lim.LockDuration)
	}
	return Settled{Available: p.available > before, StartMoved: p.advance(), Archiving: p.writes.archiving}
}

func (p *Partition) resolve(now time.Time, end *StateBatch, lockDuration time.Duration) {
	for first := end.FirstOffset; first <= end.LastOffset; {
		i := p.stagedFrom(first)
		if i == len(p.staged) || p.staged[i].first > end.LastOffset {
			return
		}
		r := p.staged[i]
		from, to := max(r.first, first), min(r.last, end.LastOffset)
		if r.ProducerID == end.Staged.ProducerID && r.ProducerEpoch == end.Staged.ProducerEpoch {
			p.resolveRun(now, from, to, r.member, end, lockDuration)
		}
		first = to + 1
	}
}

func (p *Partition) resolveRun(now time.Time, first, last int64, member string, end *StateBatch, lockDuration time.Duration) {
	s, lock := end.State, uint32(0)
	if s == Acquired {
		if s = Available; member != "" {
			s, lock = Acquired, p.locks.take(now, member, lockDuration)
			p.locks.cover(lock, first, last)
		}
	}
	p.each(first, last, func(n int, b *batch, i int) {
		if i < 0 {
			if b.state == TxPending && !b.pending {
				p.unstage(b.first, b.last)
				p.putWhole(n, s, b.count, lock, false)
				p.resolvedTo(b.first, b.last, s, b.count, end)
			}
		} else if b.sp.state(i) == TxPending && !b.sp.pending(i) {
			offset, count := b.first+int64(i), b.sp.count(i)
			p.unstage(offset, offset)
			p.put(n, b, i, s, count, lock, false)
			p.resolvedTo(offset, offset, s, count, end)
		}
	}, func(b *batch) bool { return b.state == TxPending && !b.pending })
}

// resolvedTo notes what goes to the dead-letter queue.
func (p *Partition) resolvedTo(first, last int64, s State, count uint8, end *StateBatch) {
	if s == Archiving {
		w := write{batches: p.writes.archiving}
		w.note(first, last, s, count, end.Reason)
		p.writes.archiving = w.batches
	}
}

// checkStaged compares what is staged with the records that are TX_PENDING.
func (p *Partition) checkStaged(pending []stagedRun) error {
	next, at := int64(-1), 0
	for _, r := range p.staged {
		if r.first < next || r.last < r.first {
			return fmt.Errorf("staged run %d-%d, the one before ends before %d", r.first, r.last, next)
		}
		next = r.last + 1
		for offset := r.first; offset <= r.last; {
			if at == len(pending) || pending[at].first > offset {
				return fmt.Errorf("record %d is staged and not %s", offset, TxPending)
			}
			offset = min(r.last, pending[at].last) + 1
			pending[at].first = offset
			if pending[at].first > pending[at].last {
				at++
			}
		}
	}
	if at < len(pending) {
		return fmt.Errorf("records %d-%d are %s and not staged", pending[at].first, pending[at].last, TxPending)
	}
	return nil
}
