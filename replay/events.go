package replay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"kshare/protocol"
	"kshare/protocol/describe"
	"kshare/protocol/errorcode"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pollEvery is the time between requests that only pass time. The recorder's was 20 ms; 17 divides none of Kafka's
// intervals, so that no request comes at the very time of a timer.
const pollEvery = 17 * time.Millisecond

// do does what the recorder did unrecorded.
func (p *player) do(a action) error {
	switch a := a.(type) {
	case closeConn:
		if c := p.conns[a.conn]; c != nil {
			c.Close()
			c.broken = true
		}
	case killBroker:
		p.closeAll()
		k, ok := p.server.(Killer)
		if !ok {
			return errors.New("the session kills its broker, which this one does not allow")
		}
		if err := k.Kill(); err != nil {
			return err
		}
		p.sleepUntil(p.nextStep().Start()) // the recorder's next request was the first that it could send
		return k.Start()
	case awaitCoordinator:
		p.awaitCoordinator(a)
	case joinShareGroup:
		p.awaitCoordinator(awaitCoordinator{a.conn, a.group})
		p.join(a, 1)
		p.polled = true
	case awaitPartitions:
		p.join(a.joinShareGroup, a.partitions)
	case produceSingly:
		return p.produceSingly(a)
	case initProducer:
		p.coordinator(a.conn, 1, a.transactionalID)
		p.initProducer(a)
	case raiseEpoch:
		p.raiseEpoch(a)
	case awaitLeaders:
		p.awaitLeaders(a)
	case learnTopicID:
		return p.learnTopicID(a)
	}
	return nil
}

// coordinator polls FindCoordinator for a group (0) or a transactional id (1).
func (p *player) coordinator(conn string, kind int8, key string) {
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.SetVersion(6)
	q.CoordinatorType, q.CoordinatorKeys = kind, []string{key}
	p.poll(conn, "the coordinator of "+key, func() (kmsg.Request, func(kmsg.Response) pollState) {
		return q, func(r kmsg.Response) pollState {
			c := r.(*kmsg.FindCoordinatorResponse).Coordinators
			if len(c) != 1 {
				return pollFailed
			}
			return pollCode(c[0].ErrorCode)
		}
	})
}

// raiseEpoch asks without a pause, as the recorder did.
func (p *player) raiseEpoch(a raiseEpoch) {
	q := protocol.NewInitProducerIDRequest()
	q.SetVersion(5)
	q.TransactionalID, q.TransactionTimeoutMillis = &a.transactionalID, 60000
	for {
		r, err := p.ask(a.conn, q)
		if err != nil {
			p.pollDiffers("epochs of "+a.transactionalID, err.Error())
			return
		}
		got := r.(*protocol.InitProducerIDResponse)
		if got.ErrorCode != errorcode.None {
			p.pollDiffers("epochs of "+a.transactionalID, describe.Message(r).String())
			return
		}
		if got.ProducerEpoch >= a.epoch {
			return
		}
	}
}

func (p *player) initProducer(a initProducer) {
	q := protocol.NewInitProducerIDRequest()
	q.SetVersion(4)
	q.TransactionalID, q.TransactionTimeoutMillis = &a.transactionalID, 60000
	p.poll(a.conn, "InitProducerId of "+a.transactionalID, func() (kmsg.Request, func(kmsg.Response) pollState) {
		return q, func(r kmsg.Response) pollState { return pollCode(r.(*protocol.InitProducerIDResponse).ErrorCode) }
	})
}

// pollState is what an answer means to polling.
type pollState uint8

const (
	pollAgain pollState = iota
	pollDone
	pollFailed
)

// pollCode takes the errors that pass by themselves as a reason to ask again.
func pollCode(code int16) pollState {
	switch code {
	case 0:
		return pollDone
	case errorcode.CoordinatorLoadInProgress, errorcode.CoordinatorNotAvailable, errorcode.NotCoordinator,
		errorcode.UnknownTopicOrPartition, errorcode.NotLeaderOrFollower, errorcode.LeaderNotAvailable, errorcode.ConcurrentTransactions:
		return pollAgain
	}
	return pollFailed
}

func (p *player) awaitCoordinator(a awaitCoordinator) {
	p.coordinator(a.conn, 0, a.group)
	p.poll(a.conn, "the coordinator of "+a.group, func() (kmsg.Request, func(kmsg.Response) pollState) {
		q := kmsg.NewPtrShareGroupHeartbeatRequest()
		q.SetVersion(1)
		q.GroupID, q.MemberID, q.MemberEpoch = a.group, "nobody", 5
		return q, func(r kmsg.Response) pollState {
			if pollCode(r.(*kmsg.ShareGroupHeartbeatResponse).ErrorCode) == pollAgain {
				return pollAgain
			}
			return pollDone // there is no such member
		}
	})
}

func (p *player) awaitLeaders(a awaitLeaders) {
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.SetVersion(10)
	p.poll(a.conn, "leaders of "+a.topic, func() (kmsg.Request, func(kmsg.Response) pollState) {
		return metadataOf(a.topic), func(r kmsg.Response) pollState {
			topics := r.(*kmsg.MetadataResponse).Topics
			if len(topics) != 1 || topics[0].ErrorCode != 0 || len(topics[0].Partitions) == 0 {
				return pollAgain
			}
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = a.topic
			for _, x := range topics[0].Partitions {
				q := kmsg.NewListOffsetsRequestTopicPartition()
				q.Partition, q.Timestamp = x.Partition, -1
				t.Partitions = append(t.Partitions, q)
				if x.ErrorCode != 0 || x.Leader < 0 {
					return pollAgain
				}
			}
			offsets.Topics = []kmsg.ListOffsetsRequestTopic{t}
			return pollDone
		}
	})
	p.poll(a.conn, "leaders of "+a.topic, func() (kmsg.Request, func(kmsg.Response) pollState) {
		return offsets, func(r kmsg.Response) pollState {
			for _, t := range r.(*kmsg.ListOffsetsResponse).Topics {
				for _, x := range t.Partitions {
					if x.ErrorCode != 0 {
						return pollAgain
					}
				}
			}
			return pollDone
		}
	})
}

func metadataOf(topic string) *kmsg.MetadataRequest {
	q := kmsg.NewPtrMetadataRequest()
	q.SetVersion(12)
	q.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	return q
}

// recordTime is the timestamp of the records that the recorder wrote.
const recordTime = 1795996800000

func (p *player) produceSingly(a produceSingly) error {
	for range a.records {
		b := protocol.NewBatchBuilder()
		err := b.Append(recordTime, nil, []byte("v"))
		if err != nil {
			return err
		}
		x := kmsg.NewProduceRequestTopicPartition()
		if x.Records, err = b.Finish(); err != nil {
			return err
		}
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.Partitions = a.topic, append(t.Partitions, x)
		q := kmsg.NewPtrProduceRequest()
		q.SetVersion(12)
		q.Acks, q.TimeoutMillis, q.Topics = -1, 10000, append(q.Topics, t)
		if _, err := p.ask(a.conn, q); err != nil {
			return fmt.Errorf("writing to %s: %w", a.topic, err)
		}
	}
	return nil
}

// join sends heartbeats of a member until it has so many partitions of its topic.
func (p *player) join(a joinShareGroup, partitions int) {
	epoch := int32(0)
	p.poll(a.conn, "joining "+a.group, func() (kmsg.Request, func(kmsg.Response) pollState) {
		q := kmsg.NewPtrShareGroupHeartbeatRequest()
		q.SetVersion(1)
		q.GroupID, q.MemberID, q.MemberEpoch = a.group, a.member, epoch
		if epoch == 0 {
			q.SubscribedTopicNames = []string{a.topic}
		}
		return q, func(r kmsg.Response) pollState {
			h := r.(*kmsg.ShareGroupHeartbeatResponse)
			if h.ErrorCode != 0 {
				return pollCode(h.ErrorCode)
			}
			epoch = h.MemberEpoch
			if h.Assignment == nil || len(h.Assignment.TopicPartitions) == 0 || len(h.Assignment.TopicPartitions[0].Partitions) < partitions {
				return pollAgain
			}
			return pollDone
		}
	})
}

// learnTopicID asks for a topic's id, which the next step is the first to name.
func (p *player) learnTopicID(a learnTopicID) error {
	var recorded [16]byte
	next := p.nextStep()
	for _, id := range topicIDs(next) {
		if _, known := p.compare.ids.ours[uuidID][id]; !known && id != recorded {
			recorded = id
		}
	}
	if recorded == [16]byte{} {
		return fmt.Errorf("step %s names no topic id that is new", next)
	}
	p.poll(a.conn, "Metadata of "+a.topic, func() (kmsg.Request, func(kmsg.Response) pollState) {
		return metadataOf(a.topic), func(r kmsg.Response) pollState {
			m := r.(*kmsg.MetadataResponse)
			if len(m.Topics) != 1 || m.Topics[0].ErrorCode != 0 {
				return pollAgain
			}
			p.compare.ids.pair(uuidID, recorded, m.Topics[0].TopicID)
			return pollDone
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

// poll sends requests until one is answered as wished. Polling that fails, or takes longer than the recorder
// had until the next step, is a difference of that step.
func (p *player) poll(conn, what string, next func() (kmsg.Request, func(kmsg.Response) pollState)) {
	for {
		q, state := next()
		r, err := p.ask(conn, q)
		if err != nil {
			p.pollDiffers(what, err.Error())
			return
		}
		s := state(r)
		if s == pollDone {
			return
		}
		if s == pollFailed || p.overdue() {
			p.pollDiffers(what, describe.Message(r).String())
			return
		}
		time.Sleep(pollEvery)
	}
}

func (p *player) pollDiffers(what, answer string) {
	p.late = append(p.late, Diff{Field: "polling", At: "polling", Recorded: what + " before the step", Ours: answer})
}

// nextStep is the step after those that have ended, nil behind the last.
func (p *player) nextStep() *Step {
	if len(p.report.Steps) == len(p.session.Steps) {
		return nil
	}
	return p.session.Steps[len(p.report.Steps)]
}

// overdue tells whether the time of the next step has come, and patience is at its end.
func (p *player) overdue() bool {
	next := p.nextStep()
	return next == nil || time.Since(p.began.Add(p.shift)) > next.Start()+clockError+p.script.Patience
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
