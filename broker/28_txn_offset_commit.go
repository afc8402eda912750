package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
	"kshare/fault"
	"kshare/logvalidator"
	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/txn"
)

// TxnOffsetCommit (28), v0 to v6.
//
// Behaviour: package coordinator; for all partitions together, but those that are not there:
//   - No group id is INVALID_GROUP_ID; a node that does not coordinate the group NOT_COORDINATOR.
//   - The transaction coordinator is asked as for a Produce: from v5 on the group's partition of __consumer_offsets becomes part of the transaction,
//     before it must be.
//   - v6 names topics by id.

const txnOffsetCommitKey = 28

func init() {
	handlers[txnOffsetCommitKey] = needing(writing(locked((*Cluster).txnOffsetCommit)),
		onOne(acl.Write, acl.TransactionalID, func(q *kmsg.TxnOffsetCommitRequest) string { return q.TransactionalID }, fault.Partition),
		onOne(acl.Read, acl.Group, func(q *kmsg.TxnOffsetCommitRequest) string { return q.Group }, fault.Partition),
		looksItself(acl.Read, acl.Topic, "each partition"),
	)
}

// firstAddingCommit is the first version of TxnOffsetCommit that makes the offsets part of the transaction itself.
const firstAddingCommit = 5

func (c *Cluster) txnOffsetCommit(r *request, q *kmsg.TxnOffsetCommitRequest) kmsg.Response {
	c.expireProducers()
	return callGroups(c, r, q, func(g *coordinator.Groups, now time.Time, by coordinator.Caller, q *kmsg.TxnOffsetCommitRequest, e *coordinator.Effects) *kmsg.TxnOffsetCommitResponse {
		return g.TxnOffsetCommit(now, by, q, func() int16 { return c.offsetsInTransaction(r, q) }, e)
	})
}

// offsetsInTransaction makes sure that a commit is part of its producer's transaction; it returns the code that refuses it otherwise.
func (c *Cluster) offsetsInTransaction(r *request, q *kmsg.TxnOffsetCommitRequest) int16 {
	if q.Group == "" {
		return errorcode.InvalidGroupID
	}
	if code := c.notCoordinating(r.node, q.Group); code != errorcode.None {
		return code
	}
	h := &protocol.BatchHeader{ProducerID: q.ProducerID, ProducerEpoch: q.ProducerEpoch, BaseSequence: -1, Attributes: protocol.AttributeTransactional}
	p := c.keeper(consumerOffsetsTopic, q.Group)
	e := &enrolment{id: q.TransactionalID, by: txn.Producer{ID: q.ProducerID, Epoch: q.ProducerEpoch}, add: q.Version >= firstAddingCommit, newErrors: q.Version >= 4}
	if no := e.enter(p, h, c.now()); no != nil {
		return no.Code
	}
	if code := e.ask(c, r); code != errorcode.None {
		return code
	}
	if code := e.codes[p]; code != errorcode.None {
		return code
	}
	if _, no := p.producers.Check(h, logvalidator.Coordinator, p.producers.Verified(q.ProducerID)); no != nil {
		return no.Code
	}
	return errorcode.None
}
