package broker

import (
	"encoding/binary"

	"kshare/coordinator"
	"kshare/protocol"
)

// spreadKeys notes over how many partitions of each internal topic keys are spread: as many as the topic has as the cluster starts, or as are configured where it is
// not there yet. As in Apache Kafka, whose coordinators ask once, as they start, partitions that are added and another topic in its place count from the next start on.
func (c *Cluster) spreadKeys() {
	c.spread = map[string]int32{}
	for name, spec := range internalTopics {
		c.spread[name] = c.brokerInt(spec.partitions)
		if t := c.topics[name]; t != nil {
			c.spread[name] = int32(len(t.partitions))
		}
	}
}

// keptAt is the number of the partition of an internal topic that keeps what belongs to a key.
func (c *Cluster) keptAt(topic, key string) int32 {
	return coordinator.PartitionFor(key, c.spread[topic])
}

// keeper is the partition of an internal topic that keeps what belongs to a key, nil where it is not there: the topic is yet to be made, or somebody has made it with
// fewer partitions.
func (c *Cluster) keeper(topic, key string) *partition {
	if t := c.topics[topic]; t != nil {
		return t.partition(c.keptAt(topic, key))
	}
	return nil
}

// recordKeeper is who the records of a partition of an internal topic are read for: those whose keys another partition keeps since the topic has grown are passed over.
type recordKeeper struct {
	p      *partition
	strays int
}

// keeps tells whether the partition keeps what belongs to a key.
func (k *recordKeeper) keeps(key string) bool {
	c := k.p.cluster
	if c.keptAt(k.p.topic.name, key) == k.p.index {
		return true
	}
	k.strays++
	return false
}

// keepsRecord is keeps for a record of __consumer_offsets or __transaction_state, whose keys all begin with the version and the group or transactional id.
func (k *recordKeeper) keepsRecord(r *protocol.Record) bool {
	const version, length = 2, 2
	if len(r.Key) < version+length {
		return true // who reads it says so
	}
	name := r.Key[version+length:]
	n := int(binary.BigEndian.Uint16(r.Key[version:]))
	return n > len(name) || k.keeps(string(name[:n]))
}

// report says what was passed over.
func (k *recordKeeper) report() {
	if k.strays > 0 {
		k.p.cluster.log.Warn("records of an internal topic are passed over: other partitions keep what they belong to, since the topic has more of them", "partition", k.p, "records", k.strays)
	}
}

// coordinatorChanged has what a coordinator kept in a partition of an internal topic read again by its successor, or forgotten with the topic.
func (p *partition) coordinatorChanged() {
	switch p.topic.name {
	case consumerOffsetsTopic:
		p.cluster.groupsMoved(p)
	case shareStateTopic:
		p.cluster.shareStateMoved(p)
	case transactionStateTopic:
		p.cluster.transactionsMoved(p)
	}
}
