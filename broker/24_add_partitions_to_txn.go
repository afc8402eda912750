package broker

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/internal/javamap"
	"kshare/protocol/errorcode"
	"kshare/txn"
)

// AddPartitionsToTxn (24), v0 to v5.
//
// Behaviour:
//   - v0 to v3 are clients': one transaction. v4 and v5 are brokers': several, each of which may only be verified.
//   - An unknown topic or partition has UNKNOWN_TOPIC_OR_PARTITION, an internal topic TOPIC_AUTHORIZATION_FAILED; all the others then have
//     OPERATION_NOT_ATTEMPTED and nothing is added.
//   - Otherwise every partition has the coordinator's code: package txn. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before v2.
//   - A verified partition that is not part of the transaction has TRANSACTION_ABORTABLE.

const addPartitionsToTxnKey = 24

func init() {
	handlers[addPartitionsToTxnKey] = needing(locked((*Cluster).addPartitionsToTxn),
		onOne(acl.Write, acl.TransactionalID, func(q *kmsg.AddPartitionsToTxnRequest) string { return q.TransactionalID }, fault.Partition).when(before(firstBatchedAdd)),
		looksItself(acl.Write, acl.Topic, "of clients, v0 to v3, each partition; all the others are OPERATION_NOT_ATTEMPTED then"),
		onCluster(acl.ClusterAction, nil).when(since(firstBatchedAdd)),
	)
}

// firstBatchedAdd is the first version with several transactions.
const firstBatchedAdd = 4

func (c *Cluster) addPartitionsToTxn(r *request, q *kmsg.AddPartitionsToTxnRequest) kmsg.Response {
	p := response[*kmsg.AddPartitionsToTxnResponse](q)
	if q.Version < firstBatchedAdd {
		for _, t := range c.addToTransaction(r, &addition{id: q.TransactionalID, by: txn.Producer{ID: q.ProducerID, Epoch: q.ProducerEpoch}, topics: addedTopics(q.Topics), version: q.Version}) {
			entry := kmsg.NewAddPartitionsToTxnResponseTopic()
			entry.Topic = t.topic
			for _, x := range t.partitions {
				e := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				e.Partition, e.ErrorCode = x.partition, x.code
				entry.Partitions = append(entry.Partitions, e)
			}
			p.Topics = append(p.Topics, entry)
		}
		return p
	}
	for i := range q.Transactions {
		asked := &q.Transactions[i]
		a := &addition{id: asked.TransactionalID, by: txn.Producer{ID: asked.ProducerID, Epoch: asked.ProducerEpoch}, verify: asked.VerifyOnly, version: q.Version}
		for _, t := range asked.Topics {
			a.topics = append(a.topics, addedTopic(t.Topic, t.Partitions))
		}
		answered := kmsg.NewAddPartitionsToTxnResponseTransaction()
		answered.TransactionalID = asked.TransactionalID
		for _, t := range c.addToTransaction(r, a) {
			entry := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
			entry.Topic = t.topic
			for _, x := range t.partitions {
				e := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
				e.Partition, e.ErrorCode = x.partition, x.code
				entry.Partitions = append(entry.Partitions, e)
			}
			answered.Topics = append(answered.Topics, entry)
		}
		p.Transactions = append(p.Transactions, answered)
	}
	return p
}

// addition is what is to become part of a transaction, or to be verified as part of it.
type addition struct {
	id      string
	by      txn.Producer
	topics  []additionTopic
	verify  bool
	version int16
}

type additionTopic struct {
	topic      string
	partitions []additionPartition
}

type additionPartition struct {
	partition int32
	code      int16
}

func addedTopics(asked []kmsg.AddPartitionsToTxnRequestTopic) []additionTopic {
	topics := make([]additionTopic, len(asked))
	for i, t := range asked {
		topics[i] = addedTopic(t.Topic, t.Partitions)
	}
	return topics
}

func addedTopic(topic string, partitions []int32) additionTopic {
	t := additionTopic{topic: topic, partitions: make([]additionPartition, len(partitions))}
	for i, p := range partitions {
		t.partitions[i].partition = p
	}
	return t
}

// merge makes one of the entries of a topic that is named several times.
func (a *addition) merge() {
	var merged []additionTopic
	for _, t := range a.topics {
		at := slices.IndexFunc(merged, func(other additionTopic) bool { return other.topic == t.topic })
		if at < 0 {
			at = len(merged)
			merged = append(merged, additionTopic{topic: t.topic})
		}
		merged[at].partitions = append(merged[at].partitions, t.partitions...)
	}
	a.topics = merged
}

// addToTransaction returns the topics with a code for each partition.
func (c *Cluster) addToTransaction(r *request, a *addition) []additionTopic {
	a.merge()
	var partitions []txn.TopicPartition
	refused := false
	for i := range a.topics {
		t := &a.topics[i]
		for j := range t.partitions {
			x := &t.partitions[j]
			switch {
			case a.version < firstBatchedAdd && !r.may(acl.Write, acl.Topic, t.topic):
				x.code = errorcode.TopicAuthorizationFailed
			case c.topics[t.topic] == nil || c.topics[t.topic].partition(x.partition) == nil:
				x.code = errorcode.UnknownTopicOrPartition
			case isInternal(t.topic) && a.version < firstBatchedAdd:
				x.code = errorcode.TopicAuthorizationFailed
			}
			refused = refused || x.code != errorcode.None
			partitions = append(partitions, txn.TopicPartition{Topic: t.topic, Partition: x.partition})
		}
	}
	switch {
	case refused:
		a.eachCode(func(_ int, code *int16) {
			if *code == errorcode.None {
				*code = errorcode.OperationNotAttempted
			}
		})
		for i := range a.topics { // a partition that is named twice is told once why it is refused, and twice that it is not
			told := map[additionPartition]bool{}
			a.topics[i].partitions = slices.DeleteFunc(a.topics[i].partitions, func(x additionPartition) bool {
				again := told[x]
				told[x] = true
				return again
			})
		}
	case a.verify:
		codes, code := c.verifyTransaction(r.node, a.id, a.by, partitions)
		a.eachCode(func(i int, answered *int16) {
			if *answered = code; code == errorcode.None {
				*answered = codes[i]
			}
		})
	default:
		flow := txn.Flow0
		if a.version >= firstBatchedAdd {
			flow = txn.Flow2
		}
		code := c.addPartitions(r, r.node, a.id, a.by, partitions, flow)
		a.eachCode(func(_ int, answered *int16) { *answered = fencedBefore(2, a.version, code) })
	}
	return a.answered()
}

// answered are the topics in the order in which Kafka answers them: clients have what is refused first.
func (a *addition) answered() []additionTopic {
	for i := range a.topics {
		t := &a.topics[i]
		if a.version < firstBatchedAdd {
			slices.SortStableFunc(t.partitions, func(x, y additionPartition) int { return cmp.Compare(x.place(), y.place()) })
			continue
		}
		t.partitions = inJavaOrder(t.partitions, func(x *additionPartition) int32 { return x.partition }, inTopic(t.topic))
	}
	return inJavaOrder(a.topics, func(t *additionTopic) string { return t.topic }, javamap.String)
}

// place is 0 for what a client is refused for itself, 1 for everything else.
func (x *additionPartition) place() int {
	if x.code == errorcode.UnknownTopicOrPartition || x.code == errorcode.TopicAuthorizationFailed {
		return 0
	}
	return 1
}

// eachCode calls f for the code of each partition, in their order.
func (a *addition) eachCode(f func(i int, code *int16)) {
	n := 0
	for i := range a.topics {
		for j := range a.topics[i].partitions {
			f(n, &a.topics[i].partitions[j].code)
			n++
		}
	}
}

// addPartitions makes partitions part of a transaction that a node coordinates.
func (c *Cluster) addPartitions(r *request, n *node, id string, by txn.Producer, partitions []txn.TopicPartition, flow txn.Flow) int16 {
	if id == "" {
		return errorcode.InvalidRequest
	}
	if code := c.notCoordinatingTransactions(n, id); code != errorcode.None {
		return code
	}
	code, _ := c.transact(r, c.transactions.coordinator.AddPartitions(c.clock.Now(), id, by, partitions, flow))
	return code
}

// verifyTransaction asks for each partition whether it is part of a transaction that a node coordinates.
func (c *Cluster) verifyTransaction(n *node, id string, by txn.Producer, partitions []txn.TopicPartition) (codes []int16, code int16) {
	if id == "" {
		return nil, errorcode.InvalidRequest
	}
	if code := c.notCoordinatingTransactions(n, id); code != errorcode.None {
		return nil, code
	}
	return c.transactions.coordinator.Verify(id, by, partitions)
}

// fencedBefore is the code of a fenced producer as clients know it: PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before a version.
func fencedBefore(version, of int16, code int16) int16 {
	if code == errorcode.ProducerFenced && of < version {
		return errorcode.InvalidProducerEpoch
	}
	return code
}
