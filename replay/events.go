package replay

import (
	"encoding/binary"
	"fmt"
	"time"

	"kshare/protocol/errorcode"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pollEvery is how long the recorder waited between requests that only pass time.
const pollEvery = 20 * time.Millisecond

// mostPolls ends polling that leads nowhere.
const mostPolls = 1500

// do does what the recorder did unrecorded.
func (p *player) do(a action) error {
	switch a := a.(type) {
	case closeConn:
		if c := p.conns[a.conn]; c != nil {
			c.Close()
			c.broken = true
		}
	case awaitCoordinator:
		p.awaitCoordinator(a)
	case joinShareGroup:
		p.awaitCoordinator(awaitCoordinator{a.conn, a.group})
		p.join(a)
	case initProducer:
		p.coordinator(a.conn, 1, a.transactionalID)
		p.poll(a.conn, "InitProducerId of "+a.transactionalID, func() (kmsg.Request, func(kmsg.Response) bool) {
			q := kmsg.NewPtrInitProducerIDRequest()
			q.SetVersion(4)
			q.TransactionalID, q.TransactionTimeoutMillis = &a.transactionalID, 60000
			return q, func(r kmsg.Response) bool { return r.(*kmsg.InitProducerIDResponse).ErrorCode == 0 }
		})
	case awaitLeaders:
		p.awaitLeaders(a)
	case learnTopicID:
		return p.learnTopicID(a)
	}
	return nil
}

// coordinator polls FindCoordinator for a group (0) or a transactional id (1).
func (p *player) coordinator(conn string, kind int8, key string) {
	p.poll(conn, "FindCoordinator of "+key, func() (kmsg.Request, func(kmsg.Response) bool) {
		q := kmsg.NewPtrFindCoordinatorRequest()
		q.SetVersion(6)
		q.CoordinatorType, q.CoordinatorKeys = kind, []string{key}
		return q, func(r kmsg.Response) bool {
			c := r.(*kmsg.FindCoordinatorResponse).Coordinators
			return len(c) == 1 && c[0].ErrorCode == 0
		}
	})
}

func (p *player) awaitCoordinator(a awaitCoordinator) {
	p.coordinator(a.conn, 0, a.group)
	p.poll(a.conn, "the coordinator of "+a.group, func() (kmsg.Request, func(kmsg.Response) bool) {
		q := kmsg.NewPtrShareGroupHeartbeatRequest()
		q.SetVersion(1)
		q.GroupID, q.MemberID, q.MemberEpoch = a.group, "nobody", 5
		return q, func(r kmsg.Response) bool {
			switch r.(*kmsg.ShareGroupHeartbeatResponse).ErrorCode {
			case errorcode.CoordinatorLoadInProgress, errorcode.CoordinatorNotAvailable, errorcode.NotCoordinator:
				return false
			}
			return true
		}
	})
}

func (p *player) awaitLeaders(a awaitLeaders) {
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.SetVersion(10)
	p.poll(a.conn, "leaders of "+a.topic, func() (kmsg.Request, func(kmsg.Response) bool) {
		return metadataOf(a.topic), func(r kmsg.Response) bool {
			topics := r.(*kmsg.MetadataResponse).Topics
			if len(topics) != 1 || topics[0].ErrorCode != 0 || len(topics[0].Partitions) == 0 {
				return false
			}
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = a.topic
			for _, x := range topics[0].Partitions {
				q := kmsg.NewListOffsetsRequestTopicPartition()
				q.Partition, q.Timestamp = x.Partition, -1
				t.Partitions = append(t.Partitions, q)
				if x.ErrorCode != 0 || x.Leader < 0 {
					return false
				}
			}
			offsets.Topics = []kmsg.ListOffsetsRequestTopic{t}
			return true
		}
	})
	p.poll(a.conn, "leaders of "+a.topic, func() (kmsg.Request, func(kmsg.Response) bool) {
		return offsets, func(r kmsg.Response) bool {
			for _, t := range r.(*kmsg.ListOffsetsResponse).Topics {
				for _, x := range t.Partitions {
					if x.ErrorCode != 0 {
						return false
					}
				}
			}
			return true
		}
	})
}

func metadataOf(topic string) *kmsg.MetadataRequest {
	q := kmsg.NewPtrMetadataRequest()
	q.SetVersion(12)
	q.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	return q
}

func (p *player) join(a joinShareGroup) {
	epoch := int32(0)
	p.poll(a.conn, "joining "+a.group, func() (kmsg.Request, func(kmsg.Response) bool) {
		q := kmsg.NewPtrShareGroupHeartbeatRequest()
		q.SetVersion(1)
		q.GroupID, q.MemberID, q.MemberEpoch = a.group, a.member, epoch
		if epoch == 0 {
			q.SubscribedTopicNames = []string{a.topic}
		}
		return q, func(r kmsg.Response) bool {
			h := r.(*kmsg.ShareGroupHeartbeatResponse)
			if h.ErrorCode == 0 {
				epoch = h.MemberEpoch
			}
			return h.ErrorCode == 0 && h.Assignment != nil && len(h.Assignment.TopicPartitions) > 0
		}
	})
}

// learnTopicID asks for a topic's id, which the next step is the first to name.
func (p *player) learnTopicID(a learnTopicID) error {
	var recorded [16]byte
	next := p.session.Steps[len(p.report.Steps)]
	for _, id := range topicIDs(next) {
		if _, known := p.compare.ids.ours[uuidID][id]; !known && id != recorded {
			recorded = id
		}
	}
	if recorded == [16]byte{} {
		return fmt.Errorf("step %s names no topic id that is new", next)
	}
	p.poll(a.conn, "Metadata of "+a.topic, func() (kmsg.Request, func(kmsg.Response) bool) {
		return metadataOf(a.topic), func(r kmsg.Response) bool {
			m := r.(*kmsg.MetadataResponse)
			if len(m.Topics) != 1 || m.Topics[0].ErrorCode != 0 {
				return false
			}
			p.compare.ids.pair(uuidID, recorded, m.Topics[0].TopicID)
			return true
		}
	})
	return nil
}

// topicIDs are the ids that a DeleteTopics step names.
func topicIDs(st *Step) [][16]byte {
	q, _, err := decodeRequest(st)
	if err != nil {
		return nil
	}
	var ids [][16]byte
	if d, ok := q.(*kmsg.DeleteTopicsRequest); ok {
		for _, t := range d.Topics {
			ids = append(ids, t.TopicID)
		}
	}
	return ids
}

// poll sends requests until one is answered as wished. Polling that takes longer than the recorder's, or
// leads nowhere, is a difference of the next step.
func (p *player) poll(conn, what string, next func() (kmsg.Request, func(kmsg.Response) bool)) {
	answered := "no answer"
	for range mostPolls {
		q, ok := next()
		r, err := p.ask(conn, q)
		if err != nil {
			answered = err.Error()
			break
		}
		if ok(r) {
			if over := p.overdue(); over > clockError {
				p.late = append(p.late, Diff{"polling", "polling", what + " before the step", fmt.Sprintf("%v after its time", over)})
			}
			return
		}
		answered = fmt.Sprintf("%+v", r)
		time.Sleep(pollEvery)
	}
	p.late = append(p.late, Diff{"polling", "polling", what + " before the step", answered})
}

// overdue is the time by which the next step is late; negative where it still has time.
func (p *player) overdue() time.Duration {
	if len(p.report.Steps) == len(p.session.Steps) {
		return -1
	}
	return time.Since(p.began.Add(p.session.Steps[len(p.report.Steps)].Start()))
}

// ask sends an unrecorded request.
func (p *player) ask(conn string, q kmsg.Request) (kmsg.Response, error) {
	c, err := p.live(conn)
	if err != nil {
		return nil, err
	}
	const correlation = 1 << 30
	client := "replay"
	b := binary.BigEndian.AppendUint16(nil, uint16(q.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(q.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, correlation)
	b = kbin.AppendNullableString(b, &client)
	if q.IsFlexible() {
		b = append(b, 0)
	}
	go c.Write(withLength(q.AppendTo(b)))
	frame, outcome := readFrame(c, answerTimeout)
	if outcome != Answered {
		c.broken = true
		return nil, fmt.Errorf("%s %s", kmsg.NameForKey(q.Key()), outcome)
	}
	a, err := decodeAnswer(q.Key(), q.GetVersion(), frame)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kmsg.NameForKey(q.Key()), err)
	}
	return a.body, nil
}
