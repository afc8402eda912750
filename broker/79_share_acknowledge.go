package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/sharepartition"
	"kshare/sharesession"
)

// ShareAcknowledge (79), v1 to v2.
//
// Behaviour:
//   - The session is checked and moves on by one epoch, as with ShareFetch. Any partition may be named whose records the member holds.
//   - Each partition stands by itself: all its batches are applied or none (package sharepartition).
//   - The final epoch ends the session and releases what the member still holds.
//   - The answer waits for the share coordinator's, for each partition.
//   - v2: AcquisitionLockTimeoutMs is the duration that a lock taken now would have; IsRenewAck must be set for renewals.

const shareAcknowledgeKey = 79

func init() {
	handlers[shareAcknowledgeKey] = needing(&handler{writes: true, handle: handleShareAcknowledge},
		looksItself(acl.Read, acl.Group, "the session is not looked at without"),
		looksItself(acl.Read, acl.Topic, "each partition"),
	)
}

func handleShareAcknowledge(r *request) (answer, error) {
	q, err := r.conn.shareRequests().Acknowledge(r.header.Version, r.body)
	if err != nil {
		return nil, err
	}
	c := r.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.shareAcknowledge(r, q)
	if a == nil {
		return nil, nil
	}
	r.takeCommit()
	return a, nil
}

// shareAcknowledge answers a ShareAcknowledge, or parks it until its state is written and returns nil.
func (c *Cluster) shareAcknowledge(r *request, q *kmsg.ShareAcknowledgeRequest) answer {
	a := &shareAcknowledgeAnswer{version: q.Version}
	caller, code := newShareCaller(r, q.GroupID, q.MemberID)
	if code != errorcode.None {
		a.errorCode = code
		return a
	}
	final, code := caller.sessions().Acknowledge(caller.key(), q.ShareSessionEpoch)
	if code != errorcode.None {
		a.errorCode = code
		return a
	}
	if !a.apply(&caller, q) {
		return a
	}
	a.lockTimeoutMs = caller.lockTimeoutMs()
	if final {
		caller.closeSession()
	}
	if a.writes.n == 0 {
		return a.withEndpoints(r)
	}
	a.writes.then = func() { r.complete(a.withEndpoints(r)) }
	r.park(nil)
	return nil
}

// shareAcknowledgeAnswer is the answer to a ShareAcknowledge.
type shareAcknowledgeAnswer struct {
	version       int16
	errorCode     int16
	lockTimeoutMs int32
	topics        []shareAcknowledgeTopic
	nodes         []*endpoint

	writes openWrites
}

type shareAcknowledgeTopic struct {
	id         [16]byte
	partitions []shareAcknowledgePartition
}

type shareAcknowledgePartition struct {
	index  int32
	result *shareAckResult
}

// apply applies the acknowledgements of a request. It reports false where the answer as a whole fails.
func (a *shareAcknowledgeAnswer) apply(caller *shareCaller, q *kmsg.ShareAcknowledgeRequest) bool {
	renew := q.Version >= 2 && q.IsRenewAck
	c := caller.request.cluster
	var results []shareAcknowledged
	last := lastAcknowledged(q)
	sound := false
	for i := range q.Topics {
		for j := range q.Topics[i].Partitions {
			p := &q.Topics[i].Partitions[j]
			at := sharesession.Partition{TopicID: q.Topics[i].TopicID, Partition: p.Partition}
			if last != nil && last[at] != p {
				continue
			}
			var result *shareAckResult
			if len(p.AcknowledgementBatches) > 0 {
				acks := c.share.acks
				for _, b := range p.AcknowledgementBatches {
					acks = append(acks, sharepartition.Acknowledgement{FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, Types: b.AcknowledgeTypes})
				}
				c.share.acks = kept(acks)
				result = caller.acknowledge(at, acks, renew)
				result.settle(&a.writes)
			} else if code := caller.injected(at); code != errorcode.None {
				result = ackFailed(code, "")
			} else {
				result = caller.acknowledgeNothing(at)
			}
			sound = sound || result.sound
			if result.whole {
				a.errorCode = result.code
				return false
			}
			results = append(results, shareAcknowledged{at, result})
		}
	}
	a.list(c, slices.DeleteFunc(results, func(x shareAcknowledged) bool { return x.result.empty && !sound }))
	return true
}

// shareAcknowledged is a partition that has a result.
type shareAcknowledged struct {
	at     sharesession.Partition
	result *shareAckResult
}

// list makes the topics of the answer of results, in the order in which Apache Kafka lists them.
func (a *shareAcknowledgeAnswer) list(c *Cluster, results []shareAcknowledged) {
	var room [8]hashed
	order := room[:0]
	for i := range results {
		at := results[i].at
		order = append(order, hashed{topicIDPartitionHash(at.TopicID, c.topicName(at.TopicID), at.Partition), i})
	}
	scalaResultOrder(order)
	for _, o := range order {
		x := results[o.at]
		i := slices.IndexFunc(a.topics, func(t shareAcknowledgeTopic) bool { return t.id == x.at.TopicID })
		if i < 0 {
			i = len(a.topics)
			a.topics = append(a.topics, shareAcknowledgeTopic{id: x.at.TopicID})
		}
		a.topics[i].partitions = append(a.topics[i].partitions, shareAcknowledgePartition{x.at.Partition, x.result})
	}
}

// withEndpoints adds where the leaders that partitions name can be reached.
func (a *shareAcknowledgeAnswer) withEndpoints(r *request) answer {
	for _, t := range a.topics {
		for _, p := range t.partitions {
			if p.result.leader != nil {
				a.nodes = r.addEndpoint(a.nodes, p.result.leader)
			}
		}
	}
	return a
}

// lastAcknowledged finds the entry of each partition that counts, the last; nil where there is one partition alone.
func lastAcknowledged(q *kmsg.ShareAcknowledgeRequest) map[sharesession.Partition]*kmsg.ShareAcknowledgeRequestTopicPartition {
	n := 0
	for i := range q.Topics {
		n += len(q.Topics[i].Partitions)
	}
	if n < 2 {
		return nil
	}
	last := make(map[sharesession.Partition]*kmsg.ShareAcknowledgeRequestTopicPartition, n)
	for i := range q.Topics {
		for j := range q.Topics[i].Partitions {
			p := &q.Topics[i].Partitions[j]
			last[sharesession.Partition{TopicID: q.Topics[i].TopicID, Partition: p.Partition}] = p
		}
	}
	return last
}

// AppendTo implements answer.
func (a *shareAcknowledgeAnswer) AppendTo(b []byte) []byte {
	e := protocol.Encoder{Out: b, Flexible: true}
	e.Int32(0) // throttle time
	e.Int16(a.errorCode)
	e.NullableString(nil)
	if a.version >= 2 {
		e.Int32(a.lockTimeoutMs)
	}
	e.ArrayLen(len(a.topics))
	for _, t := range a.topics {
		e.UUID(t.id)
		e.ArrayLen(len(t.partitions))
		for _, p := range t.partitions {
			e.Int32(p.index)
			e.Int16(p.result.code)
			e.NullableString(p.result.message)
			encodeShareLeader(&e, p.result.leader)
			e.EndTags()
		}
		e.EndTags()
	}
	e.ArrayLen(len(a.nodes))
	for _, n := range a.nodes {
		encodeNode(&e, n)
	}
	e.EndTags()
	return e.Out
}
