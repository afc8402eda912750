package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
)

// OffsetForLeaderEpoch (23), v2 to v4.
//
// Behaviour:
//   - The largest epoch that is not above the asked one, and the offset at which the next began: see leaderEpochs.endOffset.
//   - Any replica id is a client's. CurrentLeaderEpoch -1 is not checked.

const offsetForLeaderEpochKey = 23

func init() {
	handlers[offsetForLeaderEpochKey] = needing(locked((*Cluster).offsetForLeaderEpoch),
		looksItself(acl.Describe, acl.Topic, "or CLUSTER ACTION CLUSTER, each partition"),
	)
}

func (c *Cluster) offsetForLeaderEpoch(r *request, q *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := response[*kmsg.OffsetForLeaderEpochResponse](q)
	for _, t := range q.Topics {
		entry := kmsg.NewOffsetForLeaderEpochResponseTopic()
		entry.Topic = t.Topic
		for _, asked := range t.Partitions {
			e := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			e.Partition = asked.Partition
			e.LeaderEpoch, e.EndOffset = -1, -1
			if !r.mayOnCluster(acl.ClusterAction) && !r.may(acl.Describe, acl.Topic, t.Topic) {
				e.ErrorCode = errorcode.TopicAuthorizationFailed
				entry.Partitions = append(entry.Partitions, e)
				continue
			}
			p, code := c.led(r.node, t.Topic, asked.Partition, asked.CurrentLeaderEpoch)
			if e.ErrorCode = code; code == errorcode.None {
				e.LeaderEpoch, e.EndOffset = p.epochs.endOffset(asked.LeaderEpoch, p.leaderEpoch, p.log.StartOffset(), p.log.EndOffset())
			}
			entry.Partitions = append(entry.Partitions, e)
		}
		resp.Topics = append(resp.Topics, entry)
	}
	return resp
}

// led returns a partition that is named by its topic, if the node leads it in the epoch that the client knows.
func (c *Cluster) led(n *node, topic string, index, epoch int32) (*partition, int16) {
	t := c.topics[topic]
	if t == nil || t.partition(index) == nil {
		return nil, errorcode.UnknownTopicOrPartition
	}
	p := t.partition(index)
	return p, p.checkLeader(n, epoch)
}
