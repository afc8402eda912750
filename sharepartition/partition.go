// Package sharepartition is the state machine of one share partition: which records of a topic partition a share
// group has in flight, who holds them until when, and how often they were delivered (KIP-932,
// core/src/main/java/kafka/server/share/SharePartition.java).
//
// A Partition has no clock, goroutine, lock or file. Its caller passes the time, persists the Write values it
// returns and reports their answers with Persisted; one caller at a time.
//
// Records are kept in batches of the size they were acquired in, in a ring in offset order. A batch whose records
// differ is split into packed per-record state and stays split until it leaves the ring: Kafka's rules for
// redelivery and throttling depend on these boundaries, so equal neighbours are never merged.
package sharepartition

import (
	"fmt"
	"math"
	"time"
)

// State is where a record stands. The numbers are those of WriteShareGroupState.
type State uint8

// Acquired is never persisted. Acknowledged and Archived are terminal: nothing leads out of them. A record that is
// TxPending was acknowledged in a transaction, whose end decides what becomes of it (KIP-1289).
const (
	Available    State = 0
	Acquired     State = 1
	Acknowledged State = 2
	Archiving    State = 3
	Archived     State = 4
	TxPending    State = 5
)

// String is the name Kafka uses.
func (s State) String() string {
	switch s {
	case Available:
		return "AVAILABLE"
	case Acquired:
		return "ACQUIRED"
	case Acknowledged:
		return "ACKNOWLEDGED"
	case Archiving:
		return "ARCHIVING"
	case Archived:
		return "ARCHIVED"
	case TxPending:
		return "TX_PENDING"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

func (s State) terminal() bool { return s == Acknowledged || s == Archived }

// Reason is why a record goes to the dead-letter queue.
type Reason uint8

// Reasons of KIP-1191; ReasonNone everywhere but at Archiving.
const (
	ReasonNone     Reason = 0
	ReasonRejected Reason = 1
	ReasonExceeded Reason = 2
)

// StateBatch is a run of records in one state, offsets inclusive, as it is persisted. Reason is not persisted.
type StateBatch struct {
	FirstOffset   int64
	LastOffset    int64
	State         State
	DeliveryCount int16
	Reason        Reason
	Staged        Staged // where State is TxPending
}

// Limits are the group's configs that apply to one call. They are read at each call, so a changed config counts
// from the next call on.
type Limits struct {
	DeliveryCount int           // share.delivery.count.limit: deliveries after which a record is archived, at least 2
	RecordLocks   int           // share.partition.max.record.locks: offsets that may be in flight
	LockDuration  time.Duration // share.record.lock.duration.ms
	Renew         bool          // share.renew.acknowledge.enable
	DeadLetter    bool          // a dead-letter queue is active: rejected and exhausted records go through Archiving
}

// exhausted is the state of a record whose last allowed delivery has ended without success.
func (l *Limits) exhausted() (State, Reason) {
	if l.DeadLetter {
		return Archiving, ReasonExceeded
	}
	return Archived, ReasonNone
}

// MaxDeliveryCount is the highest delivery count a record can carry; further deliveries leave it there.
// Kafka's own limit for a delivery count is below it.
const MaxDeliveryCount = 31

// maxBatchRecords bounds a persisted batch, and with it the memory that splitting it takes (5 bytes a record).
const maxBatchRecords = 1 << 24

// Partition is the in-flight state of one share partition.
//
// Invariants, which Check proves:
//
//	batches are disjoint and ascending, and the last one ends below end
//	available = records AVAILABLE without an unanswered write; none of them lies below start
//	complete = terminal records at or above start, unanswered writes included
//	below = records under start that are not terminal or wait for an answer
//	a record has a lock iff it is ACQUIRED or waits for an answer; lock.n counts them
//	a record is TX_PENDING iff one of staged covers it, and these ascend and are disjoint
type Partition struct {
	ring
	start     int64 // first offset in flight
	end       int64 // next offset never handed out
	available int64
	complete  int64
	below     int64
	gap       gapWindow
	locks     lockTable
	writes    writeTable
	staged    []stagedRun
	spare     []*split
	counters  *Counters // nil: nothing is counted
}

// gapWindow is what a former leader handed out and never persisted: offsets without a batch in [start, end) are
// records still to be delivered. It is open while the partition's end stays where loading found it.
type gapWindow struct {
	open       bool
	start, end int64
}

// New makes a share partition from which nothing was acquired yet. The first fetch reads at startOffset.
func New(startOffset int64) *Partition {
	p := &Partition{start: startOffset, end: startOffset}
	p.ring.init()
	return p
}

// Restore makes a share partition from what was persisted: the start offset and the state batches in ascending
// order. Offsets without a batch between startOffset and the last batch were delivered by a former leader and not
// acknowledged: they are delivered again with count 1, before anything new. Batches that are terminal from the
// start on are passed at once. It fails where a batch lies below startOffset, overlaps another, is longer than
// 2^24 or has a state that is never persisted.
func Restore(startOffset int64, batches []StateBatch) (*Partition, error) {
	p := New(startOffset)
	next := startOffset
	for _, s := range batches {
		switch {
		case s.FirstOffset < startOffset:
			return nil, fmt.Errorf("state batch %d-%d begins below the start offset %d", s.FirstOffset, s.LastOffset, startOffset)
		case s.LastOffset < s.FirstOffset || s.LastOffset-s.FirstOffset >= maxBatchRecords || s.LastOffset == math.MaxInt64:
			return nil, fmt.Errorf("state batch %d-%d is not 1 to %d records long", s.FirstOffset, s.LastOffset, maxBatchRecords)
		case s.FirstOffset < next:
			return nil, fmt.Errorf("state batch %d-%d begins before %d, the end of the one before", s.FirstOffset, s.LastOffset, next)
		case s.State > TxPending || s.State == Acquired || s.DeliveryCount < 0:
			return nil, fmt.Errorf("state batch %d-%d has state %d and delivery count %d, which is never persisted",
				s.FirstOffset, s.LastOffset, s.State, s.DeliveryCount)
		}
		if s.FirstOffset > next && !p.gap.open {
			p.gap = gapWindow{open: true, start: next}
		}
		next = s.LastOffset + 1
		p.add(p.tail, batch{first: s.FirstOffset, last: s.LastOffset, state: s.State,
			count: uint8(min(int(s.DeliveryCount), MaxDeliveryCount))})
		if s.State == TxPending {
			p.staged = append(p.staged, stagedRun{first: s.FirstOffset, last: s.LastOffset, Staged: s.Staged})
		}
	}
	p.end = next
	p.gap.end = next
	p.advance()
	p.verify("Restore")
	return p, nil
}

// StartOffset is the share-partition start offset: everything below it is done. What is persisted trails it, for
// a Write carries the start offset from before its own changes.
func (p *Partition) StartOffset() int64 { return p.start }

// EndOffset is the next offset that was never handed out.
func (p *Partition) EndOffset() int64 { return p.end }

// DeliveryCompleteCount is the number of records at or above StartOffset that are terminal, those included whose
// acknowledgement is not persisted yet. Lag is the log's end - StartOffset - DeliveryCompleteCount.
func (p *Partition) DeliveryCompleteCount() int64 { return p.complete }

// InFlight is the number of offsets that count against the limit of record locks: all from StartOffset to
// EndOffset, whatever their state.
func (p *Partition) InFlight() int64 {
	if p.empty() {
		return 0
	}
	return p.end - p.start
}

// AvailableCount is the number of records that were handed out before and can be acquired again.
func (p *Partition) AvailableCount() int64 { return p.available }

// NextFetchOffset is the offset from which the log is to be read for the next Acquire: the first record that can
// be acquired again, or the first hole of what a former leader left behind, or EndOffset.
func (p *Partition) NextFetchOffset() int64 {
	if p.empty() || p.start > p.at(p.tail-1).last {
		return p.end
	}
	if p.gapOpen() {
		return p.nextInGap()
	}
	if p.available == 0 {
		return p.end
	}
	return p.firstAvailable(p.next(p.head))
}

func (p *Partition) firstAvailable(n int) int64 {
	b := p.at(n)
	if b.sp == nil {
		return b.first
	}
	return b.first + int64(b.sp.next(0))
}

// nextInGap walks the batches, as holes between them have no bit to be found by.
func (p *Partition) nextInGap() int64 {
	hole := p.gap.start
	for n := p.head; n < p.tail; n++ {
		b := p.at(n)
		if b.first > hole {
			return hole
		}
		hole = max(hole, b.last+1)
		if p.holds(n) {
			return p.firstAvailable(n)
		}
	}
	return p.end
}

// CanAcquire tells whether a fetch may find anything: records to deliver again, or room for new ones.
func (p *Partition) CanAcquire(recordLocks int) bool {
	return p.InFlight() < int64(recordLocks) || p.NextFetchOffset() != p.end
}

func (p *Partition) gapOpen() bool { return p.gap.open && p.gap.end == p.end }

// passGap notes that everything below the offset was acquired. The window closes at its end.
func (p *Partition) passGap(offset int64) {
	if !p.gap.open {
		return
	}
	if p.gap.end != p.end || offset >= p.gap.end {
		p.gap.open = false
		return
	}
	p.gap.start = max(p.gap.start, offset)
}
