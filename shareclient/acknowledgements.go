package shareclient

import (
	"maps"
	"slices"
	"strconv"

	"kshare/protocol"
)

// AcknowledgeType says what becomes of a record.
type AcknowledgeType int8

// The types of acknowledgements, as they are on the wire.
const (
	gap     AcknowledgeType = 0 // the offset has no record
	Accept  AcknowledgeType = 1 // it was processed
	Release AcknowledgeType = 2 // it may be delivered again
	Reject  AcknowledgeType = 3 // it cannot be processed
	Renew   AcknowledgeType = 4 // its lock begins anew; the record is to be acknowledged later
)

// undecided is what was said of a record that nothing was said of.
const undecided AcknowledgeType = -1

// Partition is a partition of a topic, which the protocol names by its id.
type Partition struct {
	TopicID   [16]byte
	Topic     string
	Partition int32
}

// String is topic-partition.
func (p Partition) String() string { return p.Topic + "-" + strconv.Itoa(int(p.Partition)) }

// AcknowledgementBatch is a range of offsets, inclusive, with one type for each.
type AcknowledgementBatch struct {
	FirstOffset, LastOffset int64
	Types                   []AcknowledgeType
}

// Acknowledgements are what a transaction is to decide, by partition.
type Acknowledgements map[Partition][]AcknowledgementBatch

// GroupMetadata is who acknowledges: the broker refuses a member that has left, or one with an old epoch.
type GroupMetadata struct {
	GroupID, MemberID string
	MemberEpoch       int32
}

// batches puts offsets that follow each other into one batch.
func batches(types map[int64]AcknowledgeType) (all []AcknowledgementBatch) {
	for _, offset := range slices.Sorted(maps.Keys(types)) {
		if n := len(all); n > 0 && all[n-1].LastOffset == offset-1 {
			all[n-1].LastOffset = offset
			all[n-1].Types = append(all[n-1].Types, types[offset])
			continue
		}
		all = append(all, AcknowledgementBatch{offset, offset, []AcknowledgeType{types[offset]}})
	}
	return all
}

// wireTypes are the types as they are sent: one where all are the same.
func (b AcknowledgementBatch) wireTypes() []int8 {
	types := b.Types
	if len(slices.Compact(slices.Clone(types))) == 1 {
		types = types[:1]
	}
	wire := make([]int8, len(types))
	for i, t := range types {
		wire[i] = int8(t)
	}
	return wire
}

// request is the TxnShareAcknowledge of one partition.
func (p Partition) request(batches []AcknowledgementBatch) []protocol.TxnShareAcknowledgeTopic {
	wire := make([]protocol.TxnShareAcknowledgeBatch, len(batches))
	for i, b := range batches {
		wire[i] = protocol.TxnShareAcknowledgeBatch{FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, AcknowledgeTypes: b.wireTypes()}
	}
	return []protocol.TxnShareAcknowledgeTopic{{TopicID: p.TopicID, Partitions: []protocol.TxnShareAcknowledgePartition{{
		Partition: p.Partition, AcknowledgementBatches: wire,
	}}}}
}
