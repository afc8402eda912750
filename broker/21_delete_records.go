package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/protocol/errorcode"
)

// DeleteRecords (21), v0 to v2.
//
// Behaviour:
//   - Offset -1 is the high watermark; above it or below -1 is OFFSET_OUT_OF_RANGE. Below the current start nothing changes and nothing is wrong.
//   - A topic that is only compacted is POLICY_VIOLATION, an internal one INVALID_TOPIC_EXCEPTION.
//   - The answer's LowWatermark is the log start. The start may lie inside a batch. Nobody who waits is woken.

const deleteRecordsKey = 21

func init() {
	handlers[deleteRecordsKey] = needing(writing(locked((*Cluster).deleteRecords)),
		onEach(acl.Delete, acl.Topic, fault.Partition),
	)
}

func (c *Cluster) deleteRecords(r *request, q *kmsg.DeleteRecordsRequest) kmsg.Response {
	p := response[*kmsg.DeleteRecordsResponse](q)
	type key struct {
		topic string
		index int32
	}
	last := map[key]*kmsg.DeleteRecordsRequestTopicPartition{} // the last entry for a partition counts
	for i := range q.Topics {
		for j := range q.Topics[i].Partitions {
			dp := &q.Topics[i].Partitions[j]
			last[key{q.Topics[i].Topic, dp.Partition}] = dp
		}
	}
	entries := map[string]int{}
	for i := range q.Topics {
		t := &q.Topics[i]
		for j := range t.Partitions {
			dp := &t.Partitions[j]
			if last[key{t.Topic, dp.Partition}] != dp {
				continue
			}
			at, ok := entries[t.Topic]
			if !ok {
				at = len(p.Topics)
				entries[t.Topic] = at
				entry := kmsg.NewDeleteRecordsResponseTopic()
				entry.Topic = t.Topic
				p.Topics = append(p.Topics, entry)
			}
			pe := kmsg.NewDeleteRecordsResponseTopicPartition()
			pe.Partition = dp.Partition
			pe.LowWatermark, pe.ErrorCode = c.deletePartitionRecords(r.node, t.Topic, *dp)
			p.Topics[at].Partitions = append(p.Topics[at].Partitions, pe)
		}
	}
	return p
}

func (c *Cluster) deletePartitionRecords(n *node, name string, dp kmsg.DeleteRecordsRequestTopicPartition) (lowWatermark int64, code int16) {
	t := c.topics[name]
	if t == nil || t.partition(dp.Partition) == nil {
		return -1, errorcode.UnknownTopicOrPartition
	}
	p := t.partition(dp.Partition)
	switch {
	case isInternal(name):
		return -1, errorcode.InvalidTopicException
	case p.leader != n.id:
		return -1, errorcode.NotLeaderOrFollower
	case !t.config.deletes:
		return -1, errorcode.PolicyViolation
	}
	offset := dp.Offset
	if offset == -1 {
		offset = p.highWatermark()
	}
	if offset < 0 || offset > p.highWatermark() {
		return -1, errorcode.OffsetOutOfRange
	}
	if offset > p.log.StartOffset() {
		if err := p.moveStart(offset); err != nil {
			c.log.Error("the log start could not be moved", "partition", p, "error", err)
			return -1, errorcode.KafkaStorageError
		}
	}
	return p.log.StartOffset(), errorcode.None
}
