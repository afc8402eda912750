package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/kip1289"
	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
	"kshare/txn"
)

// TxnShareAcknowledge (95 unless set otherwise), v0, of KIP-1289. It is offered where the cluster is told to and share.version 3 and
// transaction.version 2 are finalised.
//
// Behaviour:
//   - Refused as a whole, in this order: feature off UNSUPPORTED_VERSION; no transactional id, no member or one of more than 36 characters INVALID_REQUEST. Then each
//     partition: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION. Where none is left, the answer has these alone.
//   - Then again as a whole: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; what the transaction coordinator says as the partitions of
//     __share_group_state become part of the transaction, PRODUCER_FENCED as INVALID_PRODUCER_EPOCH. A top-level error leaves out all partitions.
//   - Each partition stands by itself: all its batches are staged or none (package sharepartition), and its answer waits for the share coordinator's.
//   - What the share coordinator gets of it only after the transaction's marker, or another share coordinator, is INVALID_PRODUCER_EPOCH or TRANSACTION_ABORTABLE
//     (sharecoordinator.Guard).
//   - Staging the same again is no error.

var txnShareAcknowledgeHandler = needing(writing(locked((*Cluster).txnShareAcknowledge)),
	looksItself(acl.Write, acl.TransactionalID, ""),
	looksItself(acl.Read, acl.Group, ""),
	looksItself(acl.Read, acl.Topic, "each partition"),
)

func (c *Cluster) txnShareAcknowledge(r *request, q *protocol.TxnShareAcknowledgeRequest) kmsg.Response {
	s := &staging{cluster: c, request: r, q: q, answer: &protocol.TxnShareAcknowledgeResponse{APIKey: q.APIKey}}
	if code := s.refused(); code != errorcode.None {
		return s.fail(code)
	}
	if s.find(); len(s.entries) == 0 {
		return s.answer
	}
	if code := s.enter(); code != errorcode.None {
		return s.fail(code)
	}
	for _, e := range s.entries {
		s.stage(e)
	}
	if s.writes.n == 0 {
		return s.complete()
	}
	s.writes.then = func() { r.complete(s.complete()) }
	r.park(nil)
	return nil
}

// staging is a TxnShareAcknowledge on its way.
type staging struct {
	cluster *Cluster
	request *request
	q       *protocol.TxnShareAcknowledgeRequest
	answer  *protocol.TxnShareAcknowledgeResponse
	entries []*stagingEntry // those that are not refused yet
	writes  openWrites
}

// stagingEntry is a partition of the request that exists.
type stagingEntry struct {
	topic, partition int // places in the request and the answer
	target           *partition
	guard            *sharecoordinator.Guard // of the transaction
	result           *shareAckResult
}

// fail makes the answer to a request that is refused as a whole.
func (s *staging) fail(code int16) kmsg.Response {
	return &protocol.TxnShareAcknowledgeResponse{APIKey: s.q.APIKey, ErrorCode: code}
}

// refused is why the request is refused before anything is looked up.
func (s *staging) refused() int16 {
	q := s.q
	switch {
	case !s.cluster.transactionalAcksOn():
		return errorcode.UnsupportedVersion
	case q.TransactionalID == nil, *q.TransactionalID == "":
		return errorcode.InvalidRequest
	case !s.request.may(acl.Write, acl.TransactionalID, *q.TransactionalID):
		return errorcode.TransactionalIDAuthorizationFailed
	case !s.request.may(acl.Read, acl.Group, q.GroupID):
		return errorcode.GroupAuthorizationFailed
	case q.MemberID == "", tooLongForMember(q.MemberID):
		return errorcode.InvalidRequest
	}
	return errorcode.None
}

// find makes the entries of the answer, with the errors of partitions that do not exist.
func (s *staging) find() {
	for i := range s.q.Topics {
		t := &s.q.Topics[i]
		topic := protocol.TxnShareAcknowledgeTopicResponse{TopicID: t.TopicID}
		for j := range t.Partitions {
			x := protocol.TxnShareAcknowledgePartitionResponse{Partition: t.Partitions[j].Partition}
			found := s.cluster.topicsByID[t.TopicID]
			switch {
			case found == nil:
				x.ErrorCode = errorcode.UnknownTopicID
			case !s.request.may(acl.Read, acl.Topic, found.name):
				x.ErrorCode = errorcode.TopicAuthorizationFailed
			case found.partition(x.Partition) == nil:
				x.ErrorCode = errorcode.UnknownTopicOrPartition
			default:
				s.entries = append(s.entries, &stagingEntry{topic: i, partition: j, target: found.partition(x.Partition)})
			}
			topic.Partitions = append(topic.Partitions, x)
		}
		s.answer.Topics = append(s.answer.Topics, topic)
	}
}

// enter checks the member and makes the partitions that keep the share partitions' state part of the transaction.
func (s *staging) enter() int16 {
	c, q := s.cluster, s.q
	if c.kip1289.Is(kip1289.Route, "coordinators") {
		if code := c.notCoordinating(s.request.node, q.GroupID); code != errorcode.None {
			return code
		}
	}
	if c.kip1289.Is(kip1289.MemberValidation, "coordinator") {
		if code := c.checkShareMember(q.GroupID, q.MemberID, q.MemberEpoch); code != errorcode.None {
			return code
		}
	}
	if _, err := c.internalTopic(shareStateTopic); err != nil {
		return c.storageRefusal(err).code
	}
	kept := make([]txn.TopicPartition, len(s.entries))
	for i, e := range s.entries {
		p := c.shareStatePartition(e.target.shareKey(q.GroupID))
		if p == nil {
			return errorcode.CoordinatorNotAvailable
		}
		kept[i] = txn.TopicPartition{Topic: shareStateTopic, Partition: p.index}
	}
	c.expireProducers()
	by := c.transactionPartition(*q.TransactionalID)
	if by == nil || c.node(by.leader) == nil {
		return errorcode.CoordinatorNotAvailable
	}
	code := c.addPartitions(s.request, c.node(by.leader), *q.TransactionalID, txn.Producer{ID: q.ProducerID, Epoch: q.ProducerEpoch}, kept, txn.Flow2)
	switch code {
	case errorcode.None:
		for i, e := range s.entries {
			e.guard = c.share.coordinator.Guard(c.now(), kept[i].Partition, q.ProducerID, q.ProducerEpoch)
		}
	case errorcode.ProducerFenced:
		return errorcode.InvalidProducerEpoch
	}
	return code
}

// checkShareMember asks the coordinator of a group, wherever it is, for a member.
func (c *Cluster) checkShareMember(group, member string, epoch int32) int16 {
	p := c.keeper(consumerOffsetsTopic, group)
	if p == nil || p.leader == noLeader {
		return errorcode.CoordinatorNotAvailable
	}
	if code := p.notCoordinating(c.node(p.leader)); code != errorcode.None {
		return code
	}
	return c.groups.coordinator.CheckShareMember(group, member, epoch)
}

// stage stages what the request says of one partition.
func (s *staging) stage(e *stagingEntry) {
	c, p := s.cluster, e.target
	asked := &s.q.Topics[e.topic].Partitions[e.partition]
	acks := make([]sharepartition.Acknowledgement, len(asked.AcknowledgementBatches))
	for i, b := range asked.AcknowledgementBatches {
		acks[i] = sharepartition.Acknowledgement{FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, Types: b.AcknowledgeTypes}
	}
	if no := sharepartition.CheckFormat(acks, false); no != nil {
		e.result = ackRefused(no)
		return
	}
	if p.leader != s.request.node.id && c.kip1289.Is(kip1289.Route, "leader") || c.node(p.leader) == nil {
		e.result = ackFailed(errorcode.NotLeaderOrFollower, "")
		return
	}
	sp, code := c.sharePartitionOf(p, s.q.GroupID)
	if code != errorcode.None {
		e.result = ackFailed(code, "")
		return
	}
	w, no := sp.state.Stage(s.q.MemberID, acks, sharepartition.Staging{
		ProducerID: s.q.ProducerID, ProducerEpoch: s.q.ProducerEpoch,
		Gap: c.kip1289.Is(kip1289.AllowGap, "true"), Release: c.kip1289.Is(kip1289.AllowRelease, "true"),
		PassBelowStart: c.kip1289.Is(kip1289.StageBelowStart, "pass"), LoseLock: c.kip1289.Is(kip1289.StageRevertRearms, "off"),
	}, c.shareLimits(s.q.GroupID))
	if no != nil {
		e.result = ackRefused(no)
		return
	}
	sp.tell(ActionStage, func(t *ShareChange) {
		t.Member, t.Acks, t.Staged = s.q.MemberID, acks, sharepartition.Staged{ProducerID: s.q.ProducerID, ProducerEpoch: s.q.ProducerEpoch}
	})
	e.result = &shareAckResult{change: shareChange{sp, w, e.guard}}
	e.result.settle(&s.writes)
}

// complete is the answer once everything that is staged is stored.
func (s *staging) complete() kmsg.Response {
	for _, e := range s.entries {
		x := &s.answer.Topics[e.topic].Partitions[e.partition]
		x.ErrorCode, x.ErrorMessage = e.result.code, e.result.message
	}
	return s.answer
}
