package broker

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/logvalidator"
	"kshare/protocol/errorcode"
)

// DescribeProducers (61), v0.
//
// Behaviour:
//   - The producers that a partition remembers, in the order of their ids; Kafka's order is that of a hash map.
//   - Any replica answers.
//   - An illegal name is INVALID_TOPIC_EXCEPTION, an unknown topic UNKNOWN_TOPIC_OR_PARTITION, both with a message; an unknown partition the
//     latter without.

const describeProducersKey = 61

func init() {
	handlers[describeProducersKey] = needing(locked((*Cluster).describeProducers),
		onEach(acl.Read, acl.Topic, fault.Partition).saying(saysTopic),
	)
}

func (c *Cluster) describeProducers(r *request, q *kmsg.DescribeProducersRequest) kmsg.Response {
	c.expireProducers()
	resp := response[*kmsg.DescribeProducersResponse](q)
	for _, t := range q.Topics {
		entry := kmsg.NewDescribeProducersResponseTopic()
		entry.Topic = t.Topic
		var no *refusal
		if reason := invalidTopicName(t.Topic); reason != "" {
			no = refused(errorcode.InvalidTopicException, "Topic name is invalid: %s", reason)
		} else if c.topics[t.Topic] == nil {
			no = refused(errorcode.UnknownTopicOrPartition, "This server does not host this topic-partition.")
		}
		for _, index := range t.Partitions {
			e := kmsg.NewDescribeProducersResponseTopicPartition()
			e.Partition = index
			if no != nil {
				e.ErrorCode, e.ErrorMessage = no.code, &no.message
			} else if p := c.topics[t.Topic].partition(index); p == nil {
				e.ErrorCode = errorcode.UnknownTopicOrPartition
			} else if !slices.Contains(p.replicas, r.node.id) {
				e.ErrorCode = errorcode.NotLeaderOrFollower
			} else {
				e.ActiveProducers = p.activeProducers()
			}
			entry.Partitions = append(entry.Partitions, e)
		}
		resp.Topics = append(resp.Topics, entry)
	}
	return resp
}

// activeProducers are the producers that the partition remembers.
func (p *partition) activeProducers() []kmsg.DescribeProducersResponseTopicPartitionActiveProducer {
	var active []kmsg.DescribeProducersResponseTopicPartitionActiveProducer
	p.producers.Producers(func(d logvalidator.Producer) bool {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch, a.LastSequence, a.LastTimestamp = d.ProducerID, int32(d.Epoch), d.LastSequence, d.LastTimestampMs
		a.CoordinatorEpoch, a.CurrentTxnStartOffset = d.CoordinatorEpoch, d.TxnStartOffset
		active = append(active, a)
		return true
	})
	slices.SortFunc(active, func(a, b kmsg.DescribeProducersResponseTopicPartitionActiveProducer) int {
		return cmp.Compare(a.ProducerID, b.ProducerID)
	})
	return active
}
