package cases

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/protocol"
)

// link is a connection of the judge's own to a node of the cluster, past the proxy.
type link struct{ d *kshare.Direct }

func (s *Stage) link(node int32) *link {
	d, err := s.cluster.OpenDirect(node)
	if err != nil {
		panic(err)
	}
	return &link{d}
}

func (l *link) close() { l.d.Close() }

// ask returns the answer to a request, which comes within some seconds.
func (l *link) ask(q kmsg.Request) kmsg.Response {
	l.d.Send(kmsg.NewRequestFormatter(kmsg.FormatterClientID("judge")).AppendRequest(nil, q, 1)[4:])
	for range 5000 {
		frame, err := l.d.Receive()
		if err != nil {
			panic(err)
		}
		if frame == nil {
			time.Sleep(time.Millisecond)
			continue
		}
		body := frame[4:]
		if q.IsFlexible() {
			if body, err = protocol.SkipTags(body); err != nil {
				panic(err)
			}
		}
		p := q.ResponseKind()
		if err := p.ReadFrom(body); err != nil {
			panic(err)
		}
		return p
	}
	panic("the cluster does not answer " + kmsg.NameForKey(q.Key()))
}

// rival is another member of the group, the judge's own, which takes records of t-0.
type rival struct {
	*link
	member string
	topic  [16]byte
	epoch  int32
}

// rival joins the group. The cluster has one node.
func (s *Stage) rival() *rival {
	r := &rival{link: s.link(s.Leader(defaultTopic, 0)), member: "rivalrivalrivalrivalrg", topic: s.TopicID(defaultTopic)}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{groupID}
	r.ask(find) // has the coordinator come to be
	q := kmsg.NewPtrShareGroupHeartbeatRequest()
	q.Version, q.GroupID, q.MemberID, q.SubscribedTopicNames = 1, groupID, r.member, []string{defaultTopic}
	s.Await(5*time.Second, "another member that is let in", func() bool { return r.ask(q).(*kmsg.ShareGroupHeartbeatResponse).ErrorCode == 0 })
	return r
}

// take acquires up to n records and returns the ranges.
func (r *rival) take(n int32) []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord {
	q, group := kmsg.NewPtrShareFetchRequest(), groupID
	q.Version, q.GroupID, q.MemberID, q.ShareSessionEpoch = 2, &group, &r.member, r.epoch
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.MaxRecords, q.BatchSize = 500, 1, 1<<20, n, n
	if r.epoch == 0 {
		q.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: r.topic, Partitions: []kmsg.ShareFetchRequestTopicPartition{{}}}}
	}
	r.epoch++
	p := r.ask(q).(*kmsg.ShareFetchResponse)
	if p.ErrorCode != 0 {
		panic(stop{HarnessFailed, fmt.Sprintf("the judge's own member gets no records: %d", p.ErrorCode)})
	}
	var taken []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord
	eachPart(p, func(part *part) bool { taken = append(taken, part.AcquiredRecords...); return false })
	return taken
}

// accept accepts a range and returns what came of it.
func (r *rival) accept(first, last int64) int16 {
	q, group := kmsg.NewPtrShareAcknowledgeRequest(), groupID
	q.Version, q.GroupID, q.MemberID, q.ShareSessionEpoch = 2, &group, &r.member, r.epoch
	q.Topics = []kmsg.ShareAcknowledgeRequestTopic{{TopicID: r.topic, Partitions: []kmsg.ShareAcknowledgeRequestTopicPartition{{
		AcknowledgementBatches: []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{{FirstOffset: first, LastOffset: last, AcknowledgeTypes: []int8{accept}}},
	}}}}
	r.epoch++
	p := r.ask(q).(*kmsg.ShareAcknowledgeResponse)
	if p.ErrorCode != 0 {
		return p.ErrorCode
	}
	return p.Topics[0].Partitions[0].ErrorCode
}
