package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/protocol/errorcode"
	"kshare/txn"
)

// WriteTxnMarkers (27), v1 and v2, from a transaction coordinator or from kafka-transactions.
//
// Behaviour:
//   - Each partition stands by itself: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
//   - From TransactionVersion 2 on (v2) the marker's epoch must be above the producer's while its transaction is open.
//   - A marker for nothing is written too. Topics without partitions, and markers without topics then, are left out of the answer.
//   - A marker without a producer id, -1, fails the whole request where any of its partitions is there: UNKNOWN_SERVER_ERROR for all of them.

const writeTxnMarkersKey = 27

func init() {
	handlers[writeTxnMarkersKey] = needing(writing(locked((*Cluster).writeTxnMarkers)),
		onCluster(acl.Alter, nil, fault.Partition).or(acl.ClusterAction),
	)
}

func (c *Cluster) writeTxnMarkers(r *request, q *kmsg.WriteTxnMarkersRequest) kmsg.Response {
	p := response[*kmsg.WriteTxnMarkersResponse](q)
	failing := slices.ContainsFunc(q.Markers, func(m kmsg.WriteTxnMarkersRequestMarker) bool {
		return m.ProducerID == txn.NoProducerID && c.anyExists(m.Topics)
	})
	for i := range q.Markers {
		asked := &q.Markers[i]
		m := &marker{
			Producer: txn.Producer{ID: asked.ProducerID, Epoch: asked.ProducerEpoch}, commit: asked.Committed,
			coordinatorEpoch: asked.CoordinatorEpoch, version: asked.TransactionVersion,
		}
		answered := kmsg.NewWriteTxnMarkersResponseMarker()
		answered.ProducerID = asked.ProducerID
		for _, t := range asked.Topics {
			entry := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			entry.Topic = t.Topic
			for _, index := range t.Partitions {
				e := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				e.Partition, e.ErrorCode = index, errorcode.UnknownServerError
				if !failing {
					e.ErrorCode = c.takeMarker(r.node, t.Topic, index, m)
				}
				entry.Partitions = append(entry.Partitions, e)
			}
			entry.Partitions = inJavaOrder(entry.Partitions, func(e *kmsg.WriteTxnMarkersResponseMarkerTopicPartition) int32 { return e.Partition }, inTopic(t.Topic))
			if len(entry.Partitions) > 0 {
				answered.Topics = append(answered.Topics, entry)
			}
		}
		if len(answered.Topics) > 0 {
			p.Markers = append(p.Markers, answered)
		}
	}
	return p
}

// anyExists tells whether any partition of the topics of a marker is there.
func (c *Cluster) anyExists(topics []kmsg.WriteTxnMarkersRequestMarkerTopic) bool {
	return slices.ContainsFunc(topics, func(of kmsg.WriteTxnMarkersRequestMarkerTopic) bool {
		t := c.topics[of.Topic]
		return t != nil && slices.ContainsFunc(of.Partitions, func(index int32) bool { return t.partition(index) != nil })
	})
}

// takeMarker writes a marker to a partition that a node leads.
func (c *Cluster) takeMarker(n *node, topic string, index int32, m *marker) int16 {
	var p *partition
	if t := c.topics[topic]; t != nil {
		p = t.partition(index)
	}
	switch {
	case p == nil:
		return errorcode.UnknownTopicOrPartition
	case p.leader != n.id:
		return errorcode.NotLeaderOrFollower
	case m.version < 0:
		return errorcode.UnknownServerError
	}
	return p.endTransaction(m)
}
