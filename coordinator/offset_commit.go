package coordinator

import (
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

const (
	commitHasGroupErrors    = 9 // GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH
	commitHasTopicIDs       = 10
	txnCommitHasGroupErrors = 6
	txnCommitHasTopicIDs    = 6
	noRetention             = -1
)

// OffsetCommit (key 8, versions 2 to 10) stores offsets of a group. Partitions that cannot be committed to
// come first in the answer.
func (g *Groups) OffsetCommit(now time.Time, c Caller, req *kmsg.OffsetCommitRequest, e *Effects) *kmsg.OffsetCommitResponse {
	t := commit{g: g, now: now, c: c, group: req.Group, e: e, producerID: noProducerID, expireMs: noExpiry}
	t.member = offsetMember{id: req.MemberID, instance: req.InstanceID, generation: req.Generation}
	t.byID, t.newErrors = c.Version >= commitHasTopicIDs, c.Version >= commitHasGroupErrors
	if req.RetentionTimeMillis != noRetention {
		t.expireMs = now.UnixMilli() + req.RetentionTimeMillis
	}
	topics := make([]commitTopic, len(req.Topics))
	for i, x := range req.Topics {
		topics[i] = commitTopic{name: x.Topic, id: x.TopicID}
		for _, p := range x.Partitions {
			topics[i].partitions = append(topics[i].partitions, commitPartition{
				partition: p.Partition, offset: p.Offset, leaderEpoch: p.LeaderEpoch, metadata: p.Metadata,
			})
		}
	}
	t.run(topics)
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Version = c.Version
	for _, x := range t.answer {
		y := kmsg.NewOffsetCommitResponseTopic()
		y.Topic, y.TopicID = x.name, x.id
		for _, p := range x.partitions {
			z := kmsg.NewOffsetCommitResponseTopicPartition()
			z.Partition, z.ErrorCode = p.partition, p.code
			y.Partitions = append(y.Partitions, z)
		}
		resp.Topics = append(resp.Topics, y)
	}
	return resp
}

// TxnOffsetCommit (key 28, versions 0 to 6) stores offsets that take effect when the producer's transaction is
// committed. The rights to the transactional id are the caller's to check. Where a topic that is named is known, enrol makes the offsets
// part of the transaction; it returns the code that refuses them all, or 0.
func (g *Groups) TxnOffsetCommit(now time.Time, c Caller, req *kmsg.TxnOffsetCommitRequest, enrol func() int16, e *Effects) *kmsg.TxnOffsetCommitResponse {
	t := commit{g: g, now: now, c: c, group: req.Group, e: e, txn: true, enrol: enrol, expireMs: noExpiry}
	t.producerID, t.producerEpoch = req.ProducerID, req.ProducerEpoch
	t.member = offsetMember{id: req.MemberID, instance: req.InstanceID, generation: req.Generation}
	t.byID, t.newErrors = c.Version >= txnCommitHasTopicIDs, c.Version >= txnCommitHasGroupErrors
	topics := make([]commitTopic, len(req.Topics))
	for i, x := range req.Topics {
		topics[i] = commitTopic{name: x.Topic, id: x.TopicID}
		for _, p := range x.Partitions {
			topics[i].partitions = append(topics[i].partitions, commitPartition{
				partition: p.Partition, offset: p.Offset, leaderEpoch: p.LeaderEpoch, metadata: p.Metadata,
			})
		}
	}
	t.run(topics)
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	resp.Version = c.Version
	for _, x := range t.answer {
		y := kmsg.NewTxnOffsetCommitResponseTopic()
		y.Topic, y.TopicID = x.name, x.id
		for _, p := range x.partitions {
			z := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			z.Partition, z.ErrorCode = p.partition, p.code
			y.Partitions = append(y.Partitions, z)
		}
		resp.Topics = append(resp.Topics, y)
	}
	return resp
}

// commit is an OffsetCommit or TxnOffsetCommit under way.
type commit struct {
	g             *Groups
	now           time.Time
	c             Caller
	group         string
	member        offsetMember
	e             *Effects
	txn           bool
	enrol         func() int16 // of a TxnOffsetCommit
	producerID    int64
	producerEpoch int16
	expireMs      int64
	byID          bool // topics are named by id
	newErrors     bool // the version knows the codes of KIP-848
	answer        []commitTopic
	index         map[commitKey]int // into answer
}

type commitKey struct {
	name string
	id   [16]byte
}

type commitTopic struct {
	name       string
	id         [16]byte
	partitions []commitPartition
}

type commitPartition struct {
	partition   int32
	offset      int64
	leaderEpoch int32
	metadata    *string
	code        int16
}

// run fills the answer.
func (t *commit) run(topics []commitTopic) {
	t.index = make(map[commitKey]int, len(topics))
	if !t.c.allowed(kmsg.ACLOperationRead, kmsg.ACLResourceTypeGroup, t.group) {
		t.reply(topics, errorcode.GroupAuthorizationFailed)
		return
	}
	known := t.known(topics)
	if len(known) == 0 && len(topics) > 0 {
		return
	}
	if t.enrol != nil {
		if code := t.enrol(); code != errorcode.None {
			t.reply(known, code)
			return
		}
	}
	check, code := t.checkGroup()
	if code == errorcode.None && check != nil {
		code = firstError(check, known)
	}
	if code != errorcode.None {
		t.reply(known, code)
		return
	}
	for _, x := range known {
		for i := range x.partitions {
			p := &x.partitions[i]
			if tooLong(p.metadata, t.g.config.OffsetMetadataMaxBytes) {
				p.code = errorcode.OffsetMetadataTooLarge
				continue
			}
			t.store(x, *p)
		}
	}
	t.reply(known, errorcode.None)
}

// known sorts out, as failed, what the metadata has not or the caller may not read.
func (t *commit) known(topics []commitTopic) []commitTopic {
	var known []commitTopic
	for _, x := range topics {
		topic, ok := t.g.lookUp(x.name, x.id, t.byID)
		if ok {
			x.name, x.id = topic.Name, topic.ID
		}
		switch {
		case !ok && t.byID:
			t.reply([]commitTopic{x}, errorcode.UnknownTopicID)
			continue
		case !t.c.allowed(kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, x.name):
			t.reply([]commitTopic{x}, errorcode.TopicAuthorizationFailed)
			continue
		case !ok:
			t.reply([]commitTopic{x}, errorcode.UnknownTopicOrPartition)
			continue
		}
		good, bad := x, x
		good.partitions, bad.partitions = nil, nil
		for _, p := range x.partitions {
			if p.partition < 0 || p.partition >= topic.Partitions {
				bad.partitions = append(bad.partitions, p)
			} else {
				good.partitions = append(good.partitions, p)
			}
		}
		if len(bad.partitions) > 0 {
			t.reply([]commitTopic{bad}, errorcode.UnknownTopicOrPartition)
		}
		if len(good.partitions) > 0 {
			known = append(known, good)
		}
	}
	return known
}

// lookUp finds a topic by its id or by its name.
func (g *Groups) lookUp(name string, id [16]byte, byID bool) (Topic, bool) {
	if byID {
		return g.topics.TopicByID(id)
	}
	return g.topics.TopicByName(name)
}

// checkGroup finds the group, or makes a simple one for a committer that names no generation.
func (t *commit) checkGroup() (partitionCheck, int16) {
	if t.txn && t.group == "" {
		return nil, errorcode.InvalidGroupID
	}
	gr := t.g.groups[t.group]
	if gr == nil {
		if t.member.generation >= 0 {
			if t.newErrors {
				return nil, errorcode.GroupIDNotFound
			}
			return nil, errorcode.IllegalGeneration
		}
		gr = t.g.newClassicGroup(t.group)
	}
	return gr.checkOffsetCommit(t.now, t.member, t.c.Version, t.txn)
}

func firstError(check partitionCheck, topics []commitTopic) int16 {
	for _, x := range topics {
		for _, p := range x.partitions {
			if code := check(x.name, x.id, p.partition); code != errorcode.None {
				return code
			}
		}
	}
	return errorcode.None
}

func (t *commit) store(x commitTopic, p commitPartition) {
	o := committedOffset{
		offset: p.offset, leaderEpoch: p.leaderEpoch, committedMs: t.now.UnixMilli(), expireMs: t.expireMs, topicID: x.id,
	}
	if p.metadata != nil {
		o.metadata = *p.metadata
	}
	name := partitionName{x.name, p.partition}
	t.g.offsets.commit(t.group, name, t.producerID, o)
	t.e.Records = append(t.e.Records, Record{
		Group: t.group, Key: appendOffsetKey(t.group, name), Value: o.appendValue(),
		Transactional: t.txn, ProducerID: t.producerID, ProducerEpoch: t.producerEpoch,
	})
}

// reply adds topics to the answer with a code for each partition; None leaves the code that it has. Partitions
// of a topic that is in the answer already are added to it.
func (t *commit) reply(topics []commitTopic, code int16) {
	for _, x := range topics {
		key := commitKey{x.name, x.id}
		i, ok := t.index[key]
		if !ok {
			i = len(t.answer)
			t.index[key] = i
			t.answer = append(t.answer, commitTopic{name: x.name, id: x.id})
		}
		for _, p := range x.partitions {
			if code != errorcode.None {
				p.code = code
			}
			t.answer[i].partitions = append(t.answer[i].partitions, p)
		}
	}
}

// tooLong reports whether a string has more than limit UTF-16 units, which are never more than its bytes.
func tooLong(s *string, limit int) bool {
	return s != nil && len(*s) > limit && len(utf16.Encode([]rune(*s))) > limit
}
