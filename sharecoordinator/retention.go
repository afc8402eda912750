package sharecoordinator

import (
	"cmp"
	"slices"
)

// Redundant returns for each partition of __share_group_state that keeps any state the offset of the oldest snapshot that is a share partition's
// last one: no record below it tells anything (ShareCoordinatorOffsetsManager). In a partition without state no record does.
func (c *Coordinator) Redundant(partitions int32) map[int32]int64 {
	needed := map[int32]int64{}
	for k, s := range c.states {
		p := PartitionFor(k, partitions)
		if first, ok := needed[p]; !ok || s.offset < first {
			needed[p] = s.offset
		}
	}
	return needed
}

// ColdSnapshots returns new snapshots of the share partitions whose last one is ageMs or more old, so that what stands before it can go. A
// partition of __share_group_state in which all were written again since they last changed is left alone
// (ShareCoordinatorShard.snapshotColdPartitions).
func (c *Coordinator) ColdSnapshots(nowMs, ageMs int64, partitions int32) []Record {
	changed := map[int32]bool{}
	for k, s := range c.states {
		if s.createTimestamp == s.writeTimestamp {
			changed[PartitionFor(k, partitions)] = true
		}
	}
	var records []Record
	for k, s := range c.states {
		if changed[PartitionFor(k, partitions)] && nowMs-s.writeTimestamp >= ageMs {
			again := &Snapshot{State: s.State, SnapshotEpoch: s.snapshotEpoch + 1, CreateTimestamp: s.createTimestamp, WriteTimestamp: nowMs}
			again.Batches = slices.Clone(s.Batches)
			records = append(records, Record{Key: k, Snapshot: again})
		}
	}
	return inOrder(records)
}

// TopicDeleted returns the records that remove the state of a deleted topic's share partitions.
func (c *Coordinator) TopicDeleted(topic [16]byte) []Record {
	var records []Record
	for k := range c.states {
		if k.Topic == topic {
			records = append(records, Record{Key: k})
		}
	}
	return inOrder(records)
}

// inOrder sorts records by group, topic id and partition, so that nothing depends on the order of a map.
func inOrder(records []Record) []Record {
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Key.Group, b.Key.Group), slices.Compare(a.Key.Topic[:], b.Key.Topic[:]), cmp.Compare(a.Key.Partition, b.Key.Partition))
	})
	return records
}
