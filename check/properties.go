package check

import (
	"fmt"
	"slices"
	"time"

	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
	"kshare/txn"
)

// Properties that are looked at in every state.
const (
	OneLock        = "one lock per acquired record"
	StartForward   = "the start offset never goes back"
	NeverAgain     = "no acknowledged record is delivered again"
	LimitKept      = "the delivery limit is kept"
	OwnTransaction = "a staged record is resolved once, by its own transaction"
	NotStuck       = "no record waits for ever without an open transaction"
	ExactlyOnce    = "exactly once for consume-transform-produce"
	MembersOnly    = "members that were removed stage nothing"
)

// Properties lists all of them.
var Properties = []string{OneLock, StartForward, NeverAgain, LimitKept, OwnTransaction, NotStuck, ExactlyOnce, MembersOnly}

// Broken is a property that does not hold, what shows it, and a shortest way there.
type Broken struct {
	Property, What string
	Trace          *Trace
}

func (w *world) breaks(property, format string, args ...any) {
	if w.broken == nil {
		w.broken = &Broken{Property: property, What: fmt.Sprintf(format, args...)}
	}
}

// delivered looks at records that a member was given, and remembers that it has them.
func (w *world) delivered(m int8, ranges []sharepartition.AcquiredRange) {
	for _, a := range ranges {
		for offset := a.FirstOffset; offset <= a.LastOffset; offset++ {
			r := &w.records[offset]
			switch {
			case r.settled > 0:
				w.breaks(NeverAgain, "record %d was acknowledged, and %s has it again", offset, w.names[m])
			case int(a.DeliveryCount) > w.limits.DeliveryCount:
				w.breaks(LimitKept, "record %d is delivered for time %d, at most %d are allowed", offset, a.DeliveryCount, w.limits.DeliveryCount)
			case r.holder != noMember && !w.asks(r.holder, offset):
				w.breaks(OneLock, "%s has record %d, and so has %s, whose lock goes on", w.names[m], offset, w.names[r.holder])
			}
			r.holder, r.until = m, w.now.Add(lockDuration)
		}
	}
}

// asks tells whether a member waits for the answer to an acknowledgement of a record: whether it still has that is not for it to know.
func (w *world) asks(m int8, offset int64) bool {
	return slices.ContainsFunc(w.writes, func(x stateWrite) bool { return x.asked && x.member == m && x.record == offset })
}

// told is what a client makes of the answer to an acknowledgement.
func (w *world) told(x *stateWrite, code int16) {
	r := &w.records[x.record]
	ok := code == errorcode.None
	if ok {
		if r.holder == x.member {
			r.holder, r.until = noMember, time.Time{}
		}
		w.members[x.member].had &^= 1 << x.record
	}
	if x.stage.producer == noProducer {
		if ok && x.kind != sharepartition.TypeRelease {
			w.settled(x.record)
		}
		return
	}
	p := &w.producers[x.stage.producer]
	switch {
	case p.serial != x.stage.serial: // its transaction has ended meanwhile
	case !ok:
		p.spoiled = true
	default:
		p.staged |= 1 << x.record
		if !w.members[x.member].in {
			w.breaks(MembersOnly, "%s is not in the group any more, and has staged record %d", w.names[x.member], x.record)
		}
	}
}

// settled takes in that the acknowledgement of a record counts: it was answered, or the transaction is committed that it is part of.
func (w *world) settled(offset int64) {
	r := &w.records[offset]
	if r.settled++; r.settled > 1 {
		r.settled = 2
		w.breaks(ExactlyOnce, "record %d has a second output that counts", offset)
	}
	r.plain = false
}

// nowStaged notes what a write has staged.
func (w *world) nowStaged(x *stateWrite) {
	for _, b := range x.write.Batches {
		for offset := b.FirstOffset; offset <= b.LastOffset; offset++ {
			switch p := at(w.persisted(), offset); {
			case p == nil || p.State != int8(sharepartition.TxPending):
				w.records[offset].by = transaction{noProducer, 0}
			case b.State == sharepartition.TxPending:
				w.records[offset].by = x.stage
			}
		}
	}
}

// resolved looks at what a marker has decided.
func (w *world) resolved(decided []sharecoordinator.Batch, by *marker) {
	for _, b := range decided {
		for offset := b.FirstOffset; offset <= b.LastOffset; offset++ {
			r := &w.records[offset]
			if r.by != by.of {
				w.breaks(OwnTransaction, "record %d was staged in %s, and the end of %s decides about it", offset, w.transactionName(r.by), w.transactionName(by.of))
			}
			r.by = transaction{noProducer, 0}
		}
	}
}

func (w *world) transactionName(t transaction) string {
	if t.producer == noProducer {
		return "none"
	}
	return fmt.Sprintf("transaction %d of p%d", t.serial+1, t.producer+1)
}

// at is the batch of a persisted state that covers an offset, nil where there is none.
func at(s *sharecoordinator.State, offset int64) *sharecoordinator.Batch {
	i := slices.IndexFunc(s.Batches, func(b sharecoordinator.Batch) bool { return b.FirstOffset <= offset && offset <= b.LastOffset })
	if i < 0 {
		return nil
	}
	return &s.Batches[i]
}

// open tells whether a transaction is under way, or decided and not complete.
func (w *world) open(t transaction) bool {
	if t.producer == noProducer {
		return false
	}
	e, serial := w.entry(t.producer), w.producers[t.producer].serial
	return e.State == txn.Ongoing && t.serial == serial || e.State != txn.Ongoing && e.Open() && t.serial == serial-1
}

// look looks at a state that the one before has led to.
func (w *world) look(before *world, runs []sharepartition.Run) {
	now, then := w.persisted(), before.persisted()
	if w.part != nil && w.part != before.part {
		if err := w.part.Check(); err != nil {
			w.breaks(OneLock, "the share partition contradicts itself: %v", err)
		}
		if before.part != nil && w.term == before.term && w.part.StartOffset() < before.part.StartOffset() {
			w.breaks(StartForward, "the leader's start offset was %d and is %d", before.part.StartOffset(), w.part.StartOffset())
		}
	}
	if now != then && now.StartOffset < then.StartOffset {
		w.breaks(StartForward, "the persisted start offset was %d and is %d", then.StartOffset, now.StartOffset)
	}
	for i := range now.Batches {
		b := &now.Batches[i]
		for offset := b.FirstOffset; offset <= b.LastOffset; offset++ {
			r := &w.records[offset]
			switch {
			case b.State == int8(sharepartition.TxPending) && !w.open(r.by):
				w.breaks(NotStuck, "record %d waits for %s, which has ended", offset, w.transactionName(r.by))
			case b.State == int8(sharepartition.Acknowledged) && r.settled == 0 && !r.plain:
				w.breaks(ExactlyOnce, "record %d is ACKNOWLEDGED, and no transaction with its output is committed", offset)
			}
		}
	}
	for i := range runs {
		x := &runs[i]
		switch {
		case x.State == sharepartition.Acquired && x.LockLeft > lockDuration:
			w.breaks(NotStuck, "record %d is held by %s without an end", x.FirstOffset, x.Member)
		case x.State == sharepartition.TxPending && !x.Pending:
			if b := at(now, x.FirstOffset); b == nil || b.State != int8(sharepartition.TxPending) {
				w.breaks(NotStuck, "record %d is TX_PENDING for its leader, and for nobody else", x.FirstOffset)
			}
		}
	}
}
