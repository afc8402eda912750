package sharecoordinator

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// txPending is the state of records that wait for a transaction (KIP-1289).
const txPending int8 = 5

// Staged is what is persisted of a batch in state TX_PENDING: the producer whose transaction decides about it, how it was acknowledged, and the
// state that it has once the transaction is committed. A batch in another state has the zero value.
type Staged struct {
	ProducerID    int64
	ProducerEpoch int16
	Type          int8
	DeliveryState int8
}

// NoStaged is what the fields are where a record, or who writes the state, leaves them out.
var NoStaged = Staged{-1, -1, -1, -1}

// Tags of the fields of Staged, which KIP-1289 adds to a state batch.
const (
	stagedProducerIDTag = iota
	stagedProducerEpochTag
	stagedTypeTag
	stagedDeliveryStateTag
	stagedTags
)

// encodeStaged writes the tagged fields of a batch, none unless it waits for a transaction: others are as KIP-932 has them, byte for byte.
func encodeStaged(e *protocol.Encoder, b *Batch) {
	if b.State != txPending || b.Staged == NoStaged {
		e.EndTags()
		return
	}
	e.Uvarint(stagedTags)
	e.Tag(stagedProducerIDTag, func() { e.Int64(b.Staged.ProducerID) })
	e.Tag(stagedProducerEpochTag, func() { e.Int16(b.Staged.ProducerEpoch) })
	e.Tag(stagedTypeTag, func() { e.Int8(b.Staged.Type) })
	e.Tag(stagedDeliveryStateTag, func() { e.Int8(b.Staged.DeliveryState) })
}

// decode reads a tagged field; one that is unknown or of another length is passed over.
func (s *Staged) decode(tag int, value []byte) {
	switch {
	case tag == stagedProducerIDTag && len(value) == 8:
		s.ProducerID = int64(binary.BigEndian.Uint64(value))
	case tag == stagedProducerEpochTag && len(value) == 2:
		s.ProducerEpoch = int16(binary.BigEndian.Uint16(value))
	case tag == stagedTypeTag && len(value) == 1:
		s.Type = int8(value[0])
	case tag == stagedDeliveryStateTag && len(value) == 1:
		s.DeliveryState = int8(value[0])
	}
}

// Draft is what the draft implementation of KIP-1289 does, and this coordinator does not: with the zero value every
// acknowledgement of a transaction takes effect once or not at all.
type Draft struct {
	// NoLateStageFence stores what is staged for a transaction that has ended: nothing ever resolves it.
	NoLateStageFence bool
	// ExactEpochs has a marker end only what was staged in the epoch before its own, or from transaction.version 1 down in its own.
	ExactEpochs bool
	// NoCoordinatorEpochs takes markers of transaction coordinators that have been replaced.
	NoCoordinatorEpochs bool
	// HigherStateWins merges TX_PENDING as it does other states: no later write of the same delivery gets past it.
	HigherStateWins bool
}

// transactions is what is known of transactions: where they wait, and which can be staged for.
type transactions struct {
	// staged are the share partitions in which a producer's transaction waits. Those that it does not wait in any more may be among them.
	staged map[int64]map[Key]struct{}
	producers
}

func newTransactions() transactions {
	return transactions{map[int64]map[Key]struct{}{}, newProducers()}
}

func (c *Coordinator) rule() mergeRule {
	if c.config.Draft.HigherStateWins {
		return higherWins
	}
	return lastWriterWins
}

// indexStaged notes where transactions wait after a record.
func (c *Coordinator) indexStaged(r *Record, s *state) {
	var batches []Batch
	switch {
	case s == nil:
	case r.Snapshot != nil:
		batches = s.Batches
	case r.Update != nil:
		batches = r.Update.Batches
	}
	for i := range batches {
		if b := &batches[i]; b.State == txPending {
			in := c.staged[b.Staged.ProducerID]
			if in == nil {
				in = map[Key]struct{}{}
				c.staged[b.Staged.ProducerID] = in
			}
			in[r.Key] = struct{}{}
		}
	}
}

// Marker is the end of a producer's transaction as its coordinator tells it.
type Marker struct {
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32
	Commit           bool
	Version          int8 // transaction.version: from 2 on the epoch is above that of the transaction, before it may be the same
}

// Ending is what the end of a transaction makes of one share partition: the record to be stored, and the batches that are decided, each with what
// was staged and the state that follows.
type Ending struct {
	Record  Record
	Decided []Batch
}

// EndTransaction decides what becomes of all that waits for a transaction in a partition of __share_group_state, of so many. after is the state that
// a batch of a share partition has then. The caller stores all records and applies them, and calls TransactionEnded. Nothing waiting is no error.
func (c *Coordinator) EndTransaction(nowMs int64, partition, partitions int32, m Marker, after func(Key, *Batch) int8) ([]Ending, *Refusal) {
	if end, ok := c.ended[m.ProducerID]; ok && !c.config.Draft.NoCoordinatorEpochs && m.CoordinatorEpoch < end.coordinatorEpoch {
		return nil, &Refusal{errorcode.TransactionCoordinatorFenced, "A later transaction coordinator has ended a transaction of the producer."}
	}
	return c.endings(nowMs, partition, partitions, m.ProducerID, func(b *Batch) bool { return c.ends(&m, b) }, after), nil
}

// Release decides what becomes of all that waits for a producer's transactions in a partition of __share_group_state, of so many, where no marker will come: as EndTransaction does
// with that of an abort. It is no end of a transaction, and needs no TransactionEnded.
func (c *Coordinator) Release(nowMs int64, partition, partitions int32, producerID int64, after func(Key, *Batch) int8) []Ending {
	return c.endings(nowMs, partition, partitions, producerID, func(b *Batch) bool { return waitsFor(producerID, b) }, after)
}

// waitsFor tells whether a batch waits for a transaction of a producer.
func waitsFor(producerID int64, b *Batch) bool {
	return b.State == txPending && b.Staged.ProducerID == producerID
}

func (c *Coordinator) endings(nowMs int64, partition, partitions int32, producerID int64, ends func(*Batch) bool, after func(Key, *Batch) int8) []Ending {
	var endings []Ending
	for _, k := range slices.SortedFunc(maps.Keys(c.staged[producerID]), compareKeys) {
		if s := c.states[k]; s != nil && PartitionFor(k, partitions) == partition {
			if e, ok := ending(nowMs, k, s, ends, after); ok {
				endings = append(endings, e)
			}
		}
	}
	return endings
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), slices.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
}

// ends tells whether a marker is that of the transaction that a batch waits for.
func (c *Coordinator) ends(m *Marker, b *Batch) bool {
	return waitsFor(m.ProducerID, b) && c.endsEpoch(m, b.Staged.ProducerEpoch)
}

// endsEpoch tells whether a marker is that of its producer's transaction in an epoch.
func (c *Coordinator) endsEpoch(m *Marker, epoch int16) bool {
	if c.config.Draft.ExactEpochs {
		return epoch == m.ProducerEpoch-1 && m.Version >= 2
	}
	if m.Version >= 2 {
		return epoch < m.ProducerEpoch
	}
	return epoch <= m.ProducerEpoch
}

// ending is what the end of some batches makes of one share partition, false where it has none of them.
func ending(nowMs int64, k Key, s *state, ends func(*Batch) bool, after func(Key, *Batch) int8) (Ending, bool) {
	e := Ending{}
	next := s.State
	next.Batches = make([]Batch, 0, len(s.Batches))
	for i := range s.Batches {
		b := s.Batches[i]
		if ends(&b) {
			decided := b
			decided.State = after(k, &b)
			e.Decided = append(e.Decided, decided)
			b.State, b.Staged = decided.State, Staged{}
			if terminal(b.State) && next.DeliveryCompleteCount >= 0 {
				next.DeliveryCompleteCount += int32(b.LastOffset - b.FirstOffset + 1)
			}
		}
		next.Batches = join(next.Batches, b)
	}
	if len(e.Decided) == 0 {
		return e, false
	}
	e.Record = Record{Key: k, Snapshot: &Snapshot{State: next, SnapshotEpoch: s.snapshotEpoch + 1, CreateTimestamp: nowMs, WriteTimestamp: nowMs}}
	return e, true
}

// terminal tells whether nothing leads out of a state: ACKNOWLEDGED and ARCHIVED.
func terminal(state int8) bool { return state == 2 || state == 4 }

// TransactionEnded takes in that a marker has taken effect in a partition of __share_group_state.
func (c *Coordinator) TransactionEnded(nowMs int64, partition int32, m Marker) {
	before, ok := c.ended[m.ProducerID]
	if !ok || m.ProducerEpoch >= before.epoch {
		c.ended[m.ProducerID] = ended{m.ProducerEpoch, max(m.CoordinatorEpoch, before.coordinatorEpoch), nowMs}
	}
	if at := (place{partition, m.ProducerID}); c.guards[at] != nil && c.endsEpoch(&m, c.guards[at].epoch) {
		delete(c.guards, at)
	}
	for k := range c.staged[m.ProducerID] {
		if s := c.states[k]; s == nil || !slices.ContainsFunc(s.Batches, func(b Batch) bool { return waitsFor(m.ProducerID, &b) }) {
			delete(c.staged[m.ProducerID], k)
		}
	}
	if len(c.staged[m.ProducerID]) == 0 {
		delete(c.staged, m.ProducerID)
	}
}

// Waiting are the share partitions in which transactions wait, and the producers that they are of, in no order.
func (c *Coordinator) Waiting() map[Key][]int64 {
	waiting := map[Key][]int64{}
	for id, keys := range c.staged {
		for k := range keys {
			if s := c.states[k]; s != nil && slices.ContainsFunc(s.Batches, func(b Batch) bool { return waitsFor(id, &b) }) {
				waiting[k] = append(waiting[k], id)
			}
		}
	}
	return waiting
}
