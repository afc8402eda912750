package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/protocol/errorcode"
)

// CreatePartitions (37), v0 to v3.
//
// Behaviour (ReplicationControlManager.createPartitions):
//   - Count is the new total and must be higher than the current one. Unknown topics, illegal names too, are UNKNOWN_TOPIC_OR_PARTITION.
//   - A topic named twice is refused once. TimeoutMs <= 0 creates nothing: REQUEST_TIMED_OUT.
//   - New partitions begin at offset 0 and leader epoch 0.
//   - Internal topics may grow too. Their coordinators go by the former number of partitions until the next start; those of new partitions of __transaction_state
//     load until then.

const createPartitionsKey = 37

func init() {
	handlers[createPartitionsKey] = needing(writing(locked((*Cluster).createPartitions)),
		onEach(acl.Alter, acl.Topic, fault.Topic),
	)
}

func (c *Cluster) createPartitions(_ *request, q *kmsg.CreatePartitionsRequest) kmsg.Response {
	p := response[*kmsg.CreatePartitionsResponse](q)
	count := map[string]int{}
	for _, t := range q.Topics {
		count[t.Topic]++
	}
	answered := map[string]bool{}
	for i := range q.Topics {
		t := &q.Topics[i]
		if answered[t.Topic] {
			continue
		}
		answered[t.Topic] = true
		var no *refusal
		switch {
		case count[t.Topic] > 1:
			no = refused(errorcode.InvalidRequest, "Duplicate topic name.")
		case q.TimeoutMillis <= 0:
			no = &refusal{code: errorcode.RequestTimedOut}
		default:
			no = c.growTopic(t, q.ValidateOnly)
		}
		entry := kmsg.NewCreatePartitionsResponseTopic()
		entry.Topic = t.Topic
		if no != nil {
			entry.ErrorCode, entry.ErrorMessage = no.code, no.text()
		}
		p.Topics = append(p.Topics, entry)
	}
	return p
}

// growTopic adds partitions to a topic, or checks that they could be.
func (c *Cluster) growTopic(q *kmsg.CreatePartitionsRequestTopic, validateOnly bool) *refusal {
	t := c.topics[q.Topic]
	if t == nil {
		return &refusal{code: errorcode.UnknownTopicOrPartition}
	}
	current := int32(len(t.partitions))
	switch {
	case q.Count == current:
		return refused(errorcode.InvalidPartitions, "Topic already has %d partition(s).", current)
	case q.Count < current:
		return refused(errorcode.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", q.Topic, current, q.Count)
	}
	added := int(q.Count - current)
	if q.Assignment != nil && len(q.Assignment) != added {
		return refused(errorcode.InvalidReplicaAssignment, "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", added, len(q.Assignment))
	}
	replicationFactor := len(t.partitions[0].replicas)
	var assignment [][]int32
	for i, a := range q.Assignment {
		if no := c.checkReplicas(current+int32(i), a.Replicas, replicationFactor); no != nil {
			return no
		}
		assignment = append(assignment, a.Replicas)
	}
	if validateOnly {
		return nil
	}
	if added > maxPartitionsPerTopic-int(current) {
		return refused(errorcode.InvalidPartitions, "kshare keeps all partitions in one process and makes at most %d for a topic.", maxPartitionsPerTopic)
	}
	if assignment == nil {
		assignment = c.place(added, replicationFactor)
	}
	for _, replicas := range assignment {
		if err := c.addPartition(t, replicas); err != nil {
			return c.storageRefusal(err)
		}
	}
	if t.name == transactionStateTopic {
		for _, p := range t.partitions[current:] {
			c.transactionsMoved(p)
		}
	}
	if err := c.storeTopic(t); err != nil {
		return c.storageRefusal(err)
	}
	c.groupsTopicsChanged(t.name)
	return nil
}

// maxPartitionsPerTopic bounds what one request can make the process hold.
const maxPartitionsPerTopic = 100_000
