package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
	"kshare/txn"
)

// AddOffsetsToTxn (25), v0 to v4.
//
// Behaviour: as AddPartitionsToTxn with the partition of __consumer_offsets that keeps the group. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before v2.

const addOffsetsToTxnKey = 25

func init() {
	handlers[addOffsetsToTxnKey] = needing(locked((*Cluster).addOffsetsToTxn),
		onOne(acl.Write, acl.TransactionalID, func(q *kmsg.AddOffsetsToTxnRequest) string { return q.TransactionalID }),
		onOne(acl.Read, acl.Group, func(q *kmsg.AddOffsetsToTxnRequest) string { return q.Group }),
	)
}

func (c *Cluster) addOffsetsToTxn(r *request, q *kmsg.AddOffsetsToTxnRequest) kmsg.Response {
	p := response[*kmsg.AddOffsetsToTxnResponse](q)
	offsets := []txn.TopicPartition{c.offsetsPartition(q.Group)}
	code := c.addPartitions(r, r.node, q.TransactionalID, txn.Producer{ID: q.ProducerID, Epoch: q.ProducerEpoch}, offsets, txn.Flow0)
	p.ErrorCode = fencedBefore(2, q.Version, code)
	if code == errorcode.None {
		if _, err := c.internalTopic(consumerOffsetsTopic); err != nil {
			p.ErrorCode = c.storageRefusal(err).code
		}
	}
	return p
}

// offsetsPartition names the partition of __consumer_offsets that keeps a group.
func (c *Cluster) offsetsPartition(group string) txn.TopicPartition {
	return txn.TopicPartition{Topic: consumerOffsetsTopic, Partition: c.groups.coordinator.PartitionFor(group)}
}
