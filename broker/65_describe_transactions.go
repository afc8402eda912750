package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/internal/javamap"
	"kshare/protocol/errorcode"
	"kshare/txn"
)

// DescribeTransactions (65), v0.
//
// Behaviour:
//   - Each id stands by itself: INVALID_REQUEST for none, TRANSACTIONAL_ID_NOT_FOUND, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
//   - The start time is -1 where no transaction has begun since the owner came.

const describeTransactionsKey = 65

func init() {
	handlers[describeTransactionsKey] = needing(locked((*Cluster).describeTransactions),
		looksItself(acl.Describe, acl.TransactionalID, "each id"),
		looksItself(acl.Describe, acl.Topic, "each topic of the transaction; those without are left out").silently(),
	)
}

func (c *Cluster) describeTransactions(r *request, q *kmsg.DescribeTransactionsRequest) kmsg.Response {
	p := response[*kmsg.DescribeTransactionsResponse](q)
	for _, id := range q.TransactionalIDs {
		p.TransactionStates = append(p.TransactionStates, c.describeTransaction(r, id))
	}
	return p
}

func (c *Cluster) describeTransaction(r *request, id string) kmsg.DescribeTransactionsResponseTransactionState {
	s := kmsg.NewDescribeTransactionsResponseTransactionState()
	s.TransactionalID = id
	if id == "" {
		s.ErrorCode = errorcode.InvalidRequest
		return s
	}
	if !r.may(acl.Describe, acl.TransactionalID, id) {
		s.ErrorCode = errorcode.TransactionalIDAuthorizationFailed
		return s
	}
	if s.ErrorCode = c.notCoordinatingTransactions(r.node, id); s.ErrorCode != errorcode.None {
		return s
	}
	t, ok := c.transactions.coordinator.Lookup(id)
	if !ok {
		s.ErrorCode = errorcode.TransactionalIDNotFound
		return s
	}
	s.State, s.TimeoutMillis, s.StartTimestamp = t.State.String(), t.TimeoutMs, t.StartMs
	s.ProducerID, s.ProducerEpoch = t.ID, t.Epoch
	s.Topics = slices.DeleteFunc(describedPartitions(javamap.OrderOfPut(t.Partitions, hashOfPartition)), func(t kmsg.DescribeTransactionsResponseTransactionStateTopic) bool {
		return !r.may(acl.Describe, acl.Topic, t.Topic)
	})
	return s
}

// hashOfPartition is TopicPartition.hashCode.
func hashOfPartition(p txn.TopicPartition) int32 { return topicPartitionHash(p.Topic, p.Partition) }

// describedPartitions are a transaction's partitions by their topics, each where the first of its partitions stands.
func describedPartitions(partitions []txn.TopicPartition) []kmsg.DescribeTransactionsResponseTransactionStateTopic {
	var topics []kmsg.DescribeTransactionsResponseTransactionStateTopic
	for _, p := range partitions {
		at := slices.IndexFunc(topics, func(t kmsg.DescribeTransactionsResponseTransactionStateTopic) bool { return t.Topic == p.Topic })
		if at < 0 {
			at = len(topics)
			entry := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
			entry.Topic = p.Topic
			topics = append(topics, entry)
		}
		topics[at].Partitions = append(topics[at].Partitions, p.Partition)
	}
	return topics
}
