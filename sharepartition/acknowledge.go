package sharepartition

import (
	"math"
	"time"

	"kshare/protocol/errorcode"
)

// Acknowledge types of KIP-932 and KIP-1222. Gap is what a client sends for an offset that holds no record.
const (
	TypeGap     int8 = 0
	TypeAccept  int8 = 1
	TypeRelease int8 = 2
	TypeReject  int8 = 3
	TypeRenew   int8 = 4
)

// Acknowledgement is one AcknowledgementBatch of a request, offsets inclusive. One type applies to all offsets,
// several are one for each.
type Acknowledgement struct {
	FirstOffset, LastOffset int64
	Types                   []int8
}

// Refusal is why the acknowledgements of a partition are refused; nothing but renewals was applied.
type Refusal struct {
	ErrorCode int16
	Message   string // empty stands for null
	// WholeAnswer means that Kafka fails on the request with an exception nobody catches: the answer has
	// ErrorCode at the top and no partitions.
	WholeAnswer bool
}

// Refusals and texts of SharePartition.java.
var (
	refusedPastFirst = &Refusal{ErrorCode: errorcode.InvalidRequest,
		Message: "Batch record not found. The first offset in request is past acquired records."}
	refusedPastLast = &Refusal{ErrorCode: errorcode.InvalidRequest,
		Message: "Batch record not found. The last offset in request is past acquired records."}
	refusedUnknown = &Refusal{ErrorCode: errorcode.InvalidRecordState,
		Message: "Batch record not found. The request batch offsets are not found in the cache."}
	refusedBatchState = &Refusal{ErrorCode: errorcode.InvalidRecordState,
		Message: "The batch cannot be acknowledged. The batch is not in the acquired state."}
	refusedBatchOwner = &Refusal{ErrorCode: errorcode.InvalidRecordState,
		Message: "Member is not the owner of batch record"}
	refusedRecordState = &Refusal{ErrorCode: errorcode.InvalidRecordState,
		Message: "The offset cannot be acknowledged. The offset is not acquired."}
	refusedRecordOwner = &Refusal{ErrorCode: errorcode.InvalidRecordState,
		Message: "Member is not the owner of offset"}
	refusedRenewal = &Refusal{ErrorCode: errorcode.InvalidRecordState,
		Message: "Renewing acquisition locks is not enabled for the group."}
	refusedFormat    = &Refusal{ErrorCode: errorcode.InvalidRequest}
	refusedException = &Refusal{ErrorCode: errorcode.UnknownServerError, WholeAnswer: true}
)

// CheckFormat looks at what can be judged without state: each batch's first offset is at or below its last and at
// or above the last of the batch before (that of the first is at least -1), its types are one or one an offset, and known. Type 4 is known
// where renew is set: in version 2 and with IsRenewAck. nil means well formed.
func CheckFormat(acks []Acknowledgement, renew bool) *Refusal {
	highest := TypeReject
	if renew {
		highest = TypeRenew
	}
	last := int64(-1)
	for i := range acks {
		a := &acks[i]
		if a.FirstOffset > a.LastOffset || a.FirstOffset < last || len(a.Types) == 0 ||
			len(a.Types) > 1 && int64(len(a.Types)) != a.LastOffset-a.FirstOffset+1 {
			return refusedFormat
		}
		for _, t := range a.Types {
			if t < 0 || t > highest {
				return refusedFormat
			}
		}
		last = a.LastOffset
	}
	return nil
}

func (a *Acknowledgement) typeAt(offset int64) int8 {
	if len(a.Types) == 1 {
		return a.Types[0]
	}
	return a.Types[offset-a.FirstOffset]
}

// outcome is the state a record with this delivery count gets by an acknowledge type other than renew.
func outcome(t int8, count uint8, lim *Limits) (State, Reason) {
	switch t {
	case TypeAccept:
		return Acknowledged, ReasonNone
	case TypeRelease:
		if int(count) >= lim.DeliveryCount {
			return lim.exhausted()
		}
		return Available, ReasonNone
	case TypeReject:
		if lim.DeadLetter {
			return Archiving, ReasonRejected
		}
	}
	return Archived, ReasonNone
}

// Acknowledge applies what a member says about records it holds: all batches or none. acks have passed
// CheckFormat. The records are neither acquirable nor acknowledgeable until Persisted is told how the returned
// Write ended; a Write without ID means that nothing is to be persisted and all is done. Renewals take effect at
// once, and stay where a later offset is refused. Offsets below StartOffset and offsets without a record are
// passed over.
func (p *Partition) Acknowledge(now time.Time, member string, acks []Acknowledgement, lim Limits) (Write, *Refusal) {
	defer p.verify("Acknowledge")
	k := acknowledging{p: p, acks: acks, lim: lim, now: now, name: member, member: p.locks.members.find(member)}
	at, refusal := k.check()
	if refusal != nil {
		k.renewUpTo(at)
		return Write{}, refusal
	}
	k.write = p.writes.begin()
	for i := range acks {
		k.apply(&acks[i], math.MaxInt64, true)
	}
	return p.writes.finish(k.write, p, true, lim.DeliveryCount), nil
}

// acknowledging is one Acknowledge under way.
type acknowledging struct {
	p      *Partition
	acks   []Acknowledgement
	lim    Limits
	now    time.Time
	name   string
	member uint32
	write  *write
	lock   uint32 // of the renewals, 0 until the first

	done  int64 // while checking: the highest offset that the request batches before change
	whole int64 // while checking: the first offset of the last batch that they change as a whole
}

// position is a place in a request: everything before this offset of this batch was looked at.
type position struct {
	ack    int
	offset int64
}

// check reads the guards of the whole request, each as it would be after what comes before it.
func (k *acknowledging) check() (position, *Refusal) {
	p := k.p
	k.done, k.whole = math.MinInt64, math.MinInt64
	for i := range k.acks {
		a := &k.acks[i]
		at := position{ack: i, offset: a.FirstOffset}
		if !k.lim.Renew {
			for _, t := range a.Types {
				if t == TypeRenew {
					return at, refusedRenewal
				}
			}
		}
		if a.LastOffset < p.start {
			continue
		}
		n, refusal := p.find(a)
		if refusal != nil {
			return at, refusal
		}
		for ; n < p.tail && p.at(n).first <= a.LastOffset; n++ {
			if offset, refusal := k.checkBatch(p.at(n), a); refusal != nil {
				return position{ack: i, offset: offset}, refusal
			}
		}
		if a.Types[len(a.Types)-1] != TypeRenew {
			k.done = a.LastOffset
		}
	}
	return position{}, nil
}

// find is the first batch that a touches.
func (p *Partition) find(a *Acknowledgement) (int, *Refusal) {
	n := p.floor(a.FirstOffset)
	if n < p.head {
		if a.FirstOffset >= p.start {
			return 0, refusedUnknown
		}
		if n = p.floor(p.start); n < p.head {
			return 0, refusedException
		}
	}
	end := p.at(n).last
	if end < a.LastOffset {
		end = p.at(p.floor(a.LastOffset)).last
	}
	if end < a.FirstOffset {
		return 0, refusedPastFirst
	}
	if end < a.LastOffset {
		return 0, refusedPastLast
	}
	return n, nil
}

// checkBatch tells whether the member may acknowledge the part of a batch that a covers, and
// otherwise the first offset it may not.
func (k *acknowledging) checkBatch(b *batch, a *Acknowledgement) (int64, *Refusal) {
	p := k.p
	if b.last < p.start {
		return 0, nil
	}
	from, to := max(b.first, a.FirstOffset, p.start), min(b.last, a.LastOffset)
	if b.sp == nil {
		switch {
		case b.state != Acquired || b.first == k.whole:
			return b.first, refusedBatchState
		case p.locks.all[b.lock].member != k.member:
			return b.first, refusedBatchOwner
		case from == k.done && from <= to:
			return from, refusedRecordState
		}
		if len(a.Types) == 1 && a.Types[0] != TypeRenew && k.coversWhole(a, b) {
			k.whole = b.first
		}
		return 0, nil
	}
	lock, owned := uint32(0), false
	for offset := from; offset <= to; offset++ {
		r := int(offset - b.first)
		if b.sp.state(r) != Acquired || offset == k.done {
			return offset, refusedRecordState
		}
		if l := b.sp.lock[r]; l != lock {
			lock, owned = l, p.locks.all[l].member == k.member
		}
		if !owned {
			return offset, refusedRecordOwner
		}
	}
	return 0, nil
}

// coversWhole tells whether a, if it has one type, changes the unsplit batch b as a whole.
func (k *acknowledging) coversWhole(a *Acknowledgement, b *batch) bool {
	return a.FirstOffset <= b.first && b.last <= a.LastOffset && b.first >= k.p.start
}

// renewUpTo applies the renewals before a position, and splits what Kafka has split by then.
func (k *acknowledging) renewUpTo(at position) {
	for i := range k.acks[:at.ack] {
		k.apply(&k.acks[i], math.MaxInt64, false)
	}
	k.apply(&k.acks[at.ack], at.offset, false)
}

// apply changes the records of one request batch below the offset until. Without commit only renewals count.
func (k *acknowledging) apply(a *Acknowledgement, until int64, commit bool) {
	p := k.p
	if a.LastOffset < p.start || until <= a.FirstOffset {
		return
	}
	n := p.floor(a.FirstOffset)
	if n < p.head {
		n = max(p.floor(p.start), p.head)
	}
	for ; n < p.tail; n++ {
		b := p.at(n)
		if b.first > a.LastOffset || b.first >= until {
			return
		}
		if b.last < p.start {
			continue
		}
		whole := b.sp == nil && len(a.Types) == 1 && k.coversWhole(a, b)
		switch {
		case whole && a.Types[0] == TypeRenew:
			p.putWhole(n, Acquired, b.count, k.renewal(b.first, b.last), false)
		case whole && commit:
			s, why := outcome(a.Types[0], b.count, &k.lim)
			k.write.note(b.first, b.last, s, b.count, why)
			p.putWhole(n, s, b.count, b.lock, true)
		case !whole:
			k.applyRecords(n, a, until, commit)
		}
	}
}

func (k *acknowledging) applyRecords(n int, a *Acknowledgement, until int64, commit bool) {
	p, b := k.p, k.p.at(n)
	if b.sp == nil {
		p.split(n)
	}
	from, to := max(b.first, a.FirstOffset, p.start), min(b.last, a.LastOffset, until-1)
	for offset := from; offset <= to; {
		i := int(offset - b.first)
		t, count := a.typeAt(offset), b.sp.count(i)
		end := int(to-b.first) + 1
		if len(a.Types) > 1 {
			end = i + 1 + alikeTypes(a.Types[offset-a.FirstOffset:], end-i-1)
		}
		end = b.sp.alike(i, end)
		last := b.first + int64(end) - 1
		switch {
		case t == TypeRenew:
			p.putRun(n, b, i, end, Acquired, 0, k.renewal(offset, last), false)
		case commit:
			s, why := outcome(t, count, &k.lim)
			k.write.note(offset, last, s, count, why)
			p.putRun(n, b, i, end, s, 0, keepLock, true)
		}
		offset = last + 1
	}
}

// alikeTypes counts the types behind the first that are the same, at most n.
func alikeTypes(types []int8, n int) int {
	same := 0
	for same < n && types[same+1] == types[0] {
		same++
	}
	return same
}

// renewal is the lock of this request's renewals, which covers [first, last] from now on.
func (k *acknowledging) renewal(first, last int64) uint32 {
	if k.lock == 0 {
		k.lock = k.p.locks.take(k.now, k.name, k.lim.LockDuration)
	}
	k.p.locks.cover(k.lock, first, last)
	return k.lock
}
