package coordinator

import (
	"encoding/binary"
	"fmt"
	"time"

	"kshare/protocol/errorcode"
)

// Versions of the keys in __consumer_offsets, which tell what a record is.
// Source: CoordinatorRecordType.
const (
	keyLegacyOffsetCommit  int16 = 0
	keyOffsetCommit        int16 = 1
	keyGroupMetadata       int16 = 2
	keyConsumerGroupFirst  int16 = 3
	keyConsumerGroupLast   int16 = 8
	keyShareGroupFirst     int16 = 10
	keyShareGroupLast      int16 = 15
	keyConsumerRegularExpr int16 = 16
)

// noProducerID is the producer id of a record that belongs to no transaction.
const noProducerID int64 = -1

// Replay takes in a record of __consumer_offsets, a nil value being a tombstone. Records of one partition come
// in the order of their offsets. producerID is that of the record's batch if the batch is transactional, else -1.
// A record of a type that is not known here, streams groups included, is passed over as Kafka does; one that
// cannot be read is an error that names it.
func (g *Groups) Replay(producerID int64, key, value []byte) error {
	if len(key) < 2 {
		return fmt.Errorf("coordinator: a record key of %d bytes has no version", len(key))
	}
	version := int16(binary.BigEndian.Uint16(key))
	var err error
	switch {
	case version == keyLegacyOffsetCommit || version == keyOffsetCommit:
		err = g.replayOffset(producerID, key, value)
	case version == keyGroupMetadata:
		err = g.replayClassic(key, value)
	case version >= keyConsumerGroupFirst && version <= keyConsumerGroupLast || version == keyConsumerRegularExpr:
		err = g.replayConsumer(version, key, value)
	case version >= keyShareGroupFirst && version <= keyShareGroupLast:
		err = g.replayShare(version, key, value)
	}
	if err != nil {
		return fmt.Errorf("coordinator: record of key version %d: %w", version, err)
	}
	return nil
}

// Loaded tells that all records of a partition of __consumer_offsets were replayed, none if it is new: the
// groups in it begin their sessions anew at now, and offsets are looked through for expired ones from now on.
func (g *Groups) Loaded(now time.Time, partition int32, e *Effects) {
	for _, gr := range g.inPartition(partition) {
		gr.loaded(now, e)
	}
	if g.retentionAt.IsZero() {
		g.retentionAt = now.Add(g.config.OffsetsRetentionCheckPeriod)
	}
}

// Unload forgets the groups and offsets of a partition of __consumer_offsets, as when its leader stops. What
// is parked there is answered with NOT_COORDINATOR.
func (g *Groups) Unload(partition int32, e *Effects) {
	for _, gr := range g.inPartition(partition) {
		gr.unload(errorcode.NotCoordinator, e)
		g.forget(gr.id())
	}
	g.offsets.unload(func(group string) bool { return g.PartitionFor(group) == partition })
}
