package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions of OffsetCommit values: those with an expiry of their own are written as version 1, the only one
// that has the field, all others as 4, which has the topic's id. Versions 0 to 4 are read.
const offsetVersionExpiry, offsetVersion, maxOffsetVersion int16 = 1, 4, 4

// noExpiry is the expireMs of an offset that the group's retention decides on.
const noExpiry int64 = -1

var noTopicID [16]byte

// committedOffset is an offset as it was committed.
type committedOffset struct {
	offset      int64 // any value: nothing checks it
	leaderEpoch int32 // -1 unknown
	metadata    string
	committedMs int64
	expireMs    int64    // when it expires whatever the group does, or noExpiry
	topicID     [16]byte // zero if it was not known
	seq         uint64   // where it stands among all offsets: a later one has a higher
}

// partitionName is a partition of a topic by name.
type partitionName struct {
	topic     string
	partition int32
}

func comparePartitions(a, b partitionName) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// groupOffsets are the offsets of one group.
type groupOffsets struct {
	committed map[partitionName]committedOffset
	// pending are offsets of transactions that did not end yet, by producer id.
	pending map[partitionName]map[int64]committedOffset
}

// offsets are the committed offsets of all groups.
//
// Invariants: no groupOffsets is empty in both maps; producers[id] names exactly the groups in which the
// producer has a pending offset.
type offsets struct {
	groups    map[string]*groupOffsets
	producers map[int64]map[string]bool
	seq       uint64
}

func newOffsets() *offsets {
	return &offsets{groups: map[string]*groupOffsets{}, producers: map[int64]map[string]bool{}}
}

// of returns the offsets of a group; those of a group without any are empty and not to be written to.
func (o *offsets) of(group string) *groupOffsets {
	if x := o.groups[group]; x != nil {
		return x
	}
	return &groupOffsets{}
}

func (o *offsets) make(group string) *groupOffsets {
	x := o.groups[group]
	if x == nil {
		x = &groupOffsets{
			committed: map[partitionName]committedOffset{},
			pending:   map[partitionName]map[int64]committedOffset{},
		}
		o.groups[group] = x
	}
	return x
}

// commit takes an offset in; with a producer id it waits for the end of the producer's transaction.
func (o *offsets) commit(group string, p partitionName, producerID int64, x committedOffset) {
	o.seq++
	x.seq = o.seq
	of := o.make(group)
	if producerID == noProducerID {
		of.committed[p] = x
		return
	}
	if of.pending[p] == nil {
		of.pending[p] = map[int64]committedOffset{}
	}
	of.pending[p][producerID] = x
	if o.producers[producerID] == nil {
		o.producers[producerID] = map[string]bool{}
	}
	o.producers[producerID][group] = true
}

// end ends a producer's transaction in the groups that in names. A committed offset takes effect unless one
// was committed after it.
func (o *offsets) end(producerID int64, commit bool, in func(group string) bool) {
	for _, group := range slices.Sorted(maps.Keys(o.producers[producerID])) {
		if !in(group) {
			continue
		}
		of := o.groups[group]
		for p, byProducer := range of.pending {
			x, ok := byProducer[producerID]
			if ok && commit && of.committed[p].seq < x.seq {
				of.committed[p] = x
			}
		}
		o.dropPending(group, func(_ partitionName, id int64) bool { return id == producerID })
	}
}

// dropPending removes a group's pending offsets for which drop is true.
func (o *offsets) dropPending(group string, drop func(p partitionName, producerID int64) bool) {
	of := o.groups[group]
	if of == nil {
		return
	}
	dropped, left := map[int64]bool{}, map[int64]bool{}
	for p, byProducer := range of.pending {
		for id := range byProducer {
			if drop(p, id) {
				delete(byProducer, id)
				dropped[id] = true
			} else {
				left[id] = true
			}
		}
		if len(byProducer) == 0 {
			delete(of.pending, p)
		}
	}
	for id := range dropped {
		if groups := o.producers[id]; !left[id] {
			if delete(groups, group); len(groups) == 0 {
				delete(o.producers, id)
			}
		}
	}
	o.tidy(group)
}

// drop removes a partition's offset, pending ones included.
func (o *offsets) drop(group string, p partitionName) {
	of := o.groups[group]
	if of == nil {
		return
	}
	delete(of.committed, p)
	o.dropPending(group, func(q partitionName, _ int64) bool { return p == q })
}

func (o *offsets) tidy(group string) {
	if of := o.groups[group]; of != nil && len(of.committed) == 0 && len(of.pending) == 0 {
		delete(o.groups, group)
	}
}

// unload forgets the offsets of the groups for which in is true.
func (o *offsets) unload(in func(group string) bool) {
	for group := range o.groups {
		if in(group) {
			delete(o.groups, group)
		}
	}
	for id, groups := range o.producers {
		maps.DeleteFunc(groups, func(group string, _ bool) bool { return in(group) })
		if len(groups) == 0 {
			delete(o.producers, id)
		}
	}
}

// partitions are the partitions that have an offset or a pending one, in order.
func (of *groupOffsets) partitions() []partitionName {
	all := map[partitionName]bool{}
	for p := range of.committed {
		all[p] = true
	}
	for p := range of.pending {
		all[p] = true
	}
	return slices.SortedFunc(maps.Keys(all), comparePartitions)
}

func appendOffsetKey(group string, p partitionName) []byte {
	key := kmsg.OffsetCommitKey{Version: keyOffsetCommit, Group: group, Topic: p.topic, Partition: p.partition}
	return key.AppendTo(nil)
}

func (x committedOffset) appendValue() []byte {
	value := kmsg.NewOffsetCommitValue()
	value.Version = offsetVersion
	value.Offset, value.LeaderEpoch, value.Metadata = x.offset, x.leaderEpoch, x.metadata
	value.CommitTimestamp, value.ExpireTimestamp, value.TopicID = x.committedMs, x.expireMs, x.topicID
	if x.expireMs != noExpiry {
		value.Version = offsetVersionExpiry
	}
	return value.AppendTo(nil)
}

// replayOffset takes in an OffsetCommit record. A group that only it tells of is a simple one.
func (g *Groups) replayOffset(producerID int64, key, value []byte) error {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(key); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	p := partitionName{k.Topic, k.Partition}
	if value == nil {
		g.offsets.drop(k.Group, p)
		return nil
	}
	var v kmsg.OffsetCommitValue
	if err := checkVersion(value, maxOffsetVersion); err != nil {
		return fmt.Errorf("group %q, %s-%d: %w", k.Group, k.Topic, k.Partition, err)
	}
	if err := v.ReadFrom(value); err != nil {
		return fmt.Errorf("group %q, %s-%d: %w", k.Group, k.Topic, k.Partition, err)
	}
	x := committedOffset{
		offset: v.Offset, leaderEpoch: v.LeaderEpoch, metadata: v.Metadata,
		committedMs: v.CommitTimestamp, expireMs: noExpiry, topicID: v.TopicID,
	}
	if v.Version < 3 {
		x.leaderEpoch = -1
	}
	if v.Version == offsetVersionExpiry {
		x.expireMs = v.ExpireTimestamp
	}
	if g.groups[k.Group] == nil {
		g.newClassicGroup(k.Group)
	}
	g.offsets.commit(k.Group, p, producerID, x)
	return nil
}

// EndTransaction ends a producer's transaction in a partition of __consumer_offsets, as its marker there says.
// The offsets that it holds back take effect or are dropped. It is called for replayed markers too.
func (g *Groups) EndTransaction(partition int32, producerID int64, commit bool) {
	g.offsets.end(producerID, commit, func(group string) bool { return g.PartitionFor(group) == partition })
}
