package probe

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (w *world) shareHeartbeat() request {
	q := kmsg.NewPtrShareGroupHeartbeatRequest()
	m, s := w.member(shareGroup)
	q.GroupID, q.MemberID, q.MemberEpoch = m.group, m.id, w.near(s.epoch)
	if w.odds(12) {
		q.MemberEpoch = -1 // leaves
	}
	q.SubscribedTopicNames = w.subscription(q.MemberEpoch)
	return from(q, m, s)
}

func (w *world) shareFetch() request {
	q := kmsg.NewPtrShareFetchRequest()
	m, s := w.member(shareGroup)
	q.GroupID, q.MemberID, q.ShareSessionEpoch = &m.group, &m.id, w.near(s.session)
	if w.odds(20) {
		q.ShareSessionEpoch = -1 // closes the session
	}
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes = one[int32](w.rand, 0, 100, 300), one[int32](w.rand, 0, 1, 1), 1<<20
	q.MaxRecords, q.BatchSize = one[int32](w.rand, 1, 3, 500), one[int32](w.rand, 1, 500)
	q.ShareAcquireMode = int8(w.rand.IntN(2))
	for range few(w.rand) {
		t := kmsg.NewShareFetchRequestTopic()
		t.TopicID = w.shareTopic()
		p := kmsg.NewShareFetchRequestTopicPartition()
		p.Partition = w.partition()
		if q.ShareSessionEpoch > 0 && w.odds(3) {
			for _, a := range w.acknowledgements(s, t.TopicID, p.Partition) {
				b := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
				b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = a.first, a.last, a.types
				p.AcknowledgementBatches = append(p.AcknowledgementBatches, b)
			}
		}
		t.Partitions = append(t.Partitions, p)
		q.Topics = append(q.Topics, t)
	}
	if q.ShareSessionEpoch > 0 && w.odds(2) {
		q.Topics = nil
	}
	if q.ShareSessionEpoch > 0 && w.odds(10) {
		t := kmsg.NewShareFetchRequestForgottenTopicsData()
		t.TopicID, t.Partitions = w.shareTopic(), []int32{w.partition()}
		q.ForgottenTopicsData = append(q.ForgottenTopicsData, t)
	}
	return from(q, m, s)
}

// knowsStates tells whether a fetch asks for nothing but share partitions that were prepared, whose state the brokers have read.
func (w *world) knowsStates(q *kmsg.ShareFetchRequest) bool {
	return q.GroupID != nil && slices.Contains(w.groups[shareGroup], *q.GroupID) && !slices.ContainsFunc(q.Topics, func(t kmsg.ShareFetchRequestTopic) bool {
		return !slices.ContainsFunc(w.stable(), func(name string) bool { return w.ids[name] == t.TopicID })
	})
}

// shareTopic draws the id of a topic that is never deleted, seldom a wrong one.
func (w *world) shareTopic() [16]byte {
	if w.odds(15) {
		return w.topicID()
	}
	return w.ids[one(w.rand, w.stable()...)]
}

type acknowledgement struct {
	first, last int64
	types       []int8
}

// acknowledgements draws one or two, mostly of what the member has acquired.
func (w *world) acknowledgements(s *state, topic [16]byte, partition int32) []acknowledgement {
	var out []acknowledgement
	s.acquired = slices.DeleteFunc(s.acquired, func(a acquired) bool {
		if a.topic != topic || a.partition != partition || w.odds(3) || len(out) == 2 {
			return false
		}
		last := a.first + w.rand.Int64N(a.last-a.first+1)
		out = append(out, acknowledgement{a.first, last, w.types(int(last - a.first + 1))})
		return last == a.last
	})
	slices.SortFunc(out, func(a, b acknowledgement) int { return int(a.first - b.first) })
	if len(out) == 0 && w.odds(2) {
		first := max(0, w.offset()%20)
		out = append(out, acknowledgement{first, first + int64(w.rand.IntN(3)), w.types(1)})
	}
	return out
}

// types draws acknowledge types: one for all, or one for each of n.
func (w *world) types(n int) []int8 {
	if n > 1 && w.odds(2) {
		n = 1
	}
	types := make([]int8, n)
	for i := range types {
		types[i] = one[int8](w.rand, 1, 1, 2, 2, 3, 0)
		if w.odds(20) {
			types[i] = one[int8](w.rand, 4, 5, -1)
		}
	}
	return types
}

func (w *world) shareAcknowledge() request {
	q := kmsg.NewPtrShareAcknowledgeRequest()
	m, s := w.member(shareGroup)
	q.GroupID, q.MemberID, q.ShareSessionEpoch = &m.group, &m.id, w.near(s.session)
	at := acquired{topic: w.shareTopic(), partition: w.partition()}
	if len(s.acquired) > 0 && !w.odds(4) {
		at = one(w.rand, s.acquired...)
	}
	t := kmsg.NewShareAcknowledgeRequestTopic()
	t.TopicID = at.topic
	p := kmsg.NewShareAcknowledgeRequestTopicPartition()
	p.Partition = at.partition
	for _, a := range w.acknowledgements(s, at.topic, at.partition) {
		b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
		b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = a.first, a.last, a.types
		p.AcknowledgementBatches = append(p.AcknowledgementBatches, b)
	}
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return from(q, m, s)
}

func (w *world) shareDescribe() request {
	q := kmsg.NewPtrShareGroupDescribeRequest()
	q.GroupIDs, q.IncludeAuthorizedOperations = []string{w.group(shareGroup)}, w.odds(3)
	return of(q)
}

func (w *world) describeShareOffsets() request {
	q := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	g := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	g.GroupID = w.group(shareGroup)
	if w.odds(2) {
		t := kmsg.NewDescribeShareGroupOffsetsRequestGroupTopic()
		t.Topic, t.Partitions = one(w.rand, w.stable()...), []int32{int32(w.rand.IntN(2))}
		g.Topics = append(g.Topics, t)
	}
	q.Groups = append(q.Groups, g)
	return of(q)
}

func (w *world) alterShareOffsets() request {
	q := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	q.GroupID = w.group(shareGroup)
	t := kmsg.NewAlterShareGroupOffsetsRequestTopic()
	t.Topic = w.topic()
	p := kmsg.NewAlterShareGroupOffsetsRequestTopicPartition()
	p.Partition, p.StartOffset = w.partition(), w.offset()
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return of(q)
}

func (w *world) deleteShareOffsets() request {
	q := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
	q.GroupID = w.group(shareGroup)
	t := kmsg.NewDeleteShareGroupOffsetsRequestTopic()
	t.Topic = w.topic()
	q.Topics = append(q.Topics, t)
	return of(q)
}
