package probe

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// pollEvery and pollTimeout bound the asking for something that passes by itself.
const (
	pollEvery   = 30 * time.Millisecond
	pollTimeout = 30 * time.Second
)

// ownConn is the number of the connection for questions that are not compared.
const ownConn = 9

// poll asks a broker until the answer is as wished.
func (p *Prober) poll(s *side, what string, make func() kmsg.Request, done func(kmsg.Response) bool) error {
	until := time.Now().Add(pollTimeout)
	for {
		q := make()
		r, err := s.ask(ownConn, encode(q, 0))
		if err != nil {
			return err
		}
		answer := decode(q, r.frame)
		if answer != nil && done(answer) {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s: not within %v; the last answer is %+v", what, pollTimeout, answer)
		}
		time.Sleep(pollEvery)
	}
}

// follow waits until the first broker has done what it answered, and learns the ids of topics that it made.
func (p *Prober) follow(x request, first kmsg.Response) error {
	switch r := first.(type) {
	case *kmsg.CreateTopicsResponse:
		if x.Request.(*kmsg.CreateTopicsRequest).ValidateOnly {
			return nil
		}
		for _, t := range r.Topics {
			if t.ErrorCode == 0 {
				if err := p.awaitTopic(t.Topic); err != nil {
					return err
				}
				p.mu.Lock()
				p.ids[t.Topic] = append(p.ids[t.Topic], p.world.ids[t.Topic])
				p.mu.Unlock()
			}
		}
	case *kmsg.DeleteTopicsResponse:
		for _, t := range r.Topics {
			if t.ErrorCode == 0 && t.Topic != nil {
				if err := p.awaitDeleted(*t.Topic); err != nil {
					return err
				}
			}
		}
	case *kmsg.CreatePartitionsResponse:
		for _, t := range r.Topics {
			if t.ErrorCode == 0 {
				if err := p.awaitTopic(t.Topic); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func metadataOf(topic string) kmsg.Request {
	q := kmsg.NewPtrMetadataRequest()
	q.SetVersion(12)
	q.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	return q
}

// awaitTopic waits until every partition of a topic has a leader that answers, and remembers its id.
func (p *Prober) awaitTopic(topic string) error {
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.SetVersion(10)
	offsets.ReplicaID = -1
	err := p.poll(p.first, "Metadata of "+topic, func() kmsg.Request { return metadataOf(topic) }, func(r kmsg.Response) bool {
		topics := r.(*kmsg.MetadataResponse).Topics
		if len(topics) != 1 || topics[0].ErrorCode != 0 || len(topics[0].Partitions) == 0 {
			return false
		}
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for _, x := range topics[0].Partitions {
			if x.ErrorCode != 0 || x.Leader < 0 {
				return false
			}
			q := kmsg.NewListOffsetsRequestTopicPartition()
			q.Partition, q.Timestamp = x.Partition, -1
			t.Partitions = append(t.Partitions, q)
		}
		offsets.Topics = []kmsg.ListOffsetsRequestTopic{t}
		p.world.ids[topic] = topics[0].TopicID
		return true
	})
	if err != nil {
		return err
	}
	return p.poll(p.first, "leaders of "+topic, func() kmsg.Request { return offsets }, func(r kmsg.Response) bool {
		for _, t := range r.(*kmsg.ListOffsetsResponse).Topics {
			for _, x := range t.Partitions {
				if x.ErrorCode != 0 {
					return false
				}
			}
		}
		return true
	})
}

func (p *Prober) awaitDeleted(topic string) error {
	if id, ok := p.world.ids[topic]; ok {
		p.world.gone = append(p.world.gone, id)
		delete(p.world.ids, topic)
	}
	return p.poll(p.first, "the end of "+topic, func() kmsg.Request { return metadataOf(topic) }, func(r kmsg.Response) bool {
		topics := r.(*kmsg.MetadataResponse).Topics
		return len(topics) == 1 && topics[0].ErrorCode == errorcode.UnknownTopicOrPartition
	})
}

// prepare makes the stable topics, and has both brokers load what they load when it is first asked for: coordinators
// of the groups, and the share partitions of the share groups.
func (p *Prober) prepare() (*Difference, error) {
	for _, topic := range p.world.stable() {
		q := kmsg.NewPtrCreateTopicsRequest()
		q.SetVersion(7)
		q.TimeoutMillis = 10000
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 2, 1
		q.Topics = append(q.Topics, t)
		if d, err := p.step(of(q)); d != nil || err != nil {
			return d, err
		}
	}
	for _, s := range []*side{p.first, p.second} {
		for _, groups := range p.world.groups {
			for _, group := range groups {
				if err := p.awaitCoordinator(s, group); err != nil {
					return nil, err
				}
			}
		}
		if err := p.awaitProducerIDs(s); err != nil {
			return nil, err
		}
		for _, group := range p.world.groups[shareGroup] {
			if err := p.warm(s, group); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

func (p *Prober) awaitCoordinator(s *side, group string) error {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.SetVersion(6)
	find.CoordinatorKeys = []string{group}
	err := p.poll(s, "the coordinator of "+group, func() kmsg.Request { return find }, func(r kmsg.Response) bool {
		c := r.(*kmsg.FindCoordinatorResponse).Coordinators
		return len(c) == 1 && c[0].ErrorCode == 0
	})
	if err != nil {
		return err
	}
	return p.poll(s, "the coordinator of "+group, func() kmsg.Request { return heartbeat(group, 5, nil) }, func(r kmsg.Response) bool {
		code := r.(*kmsg.ShareGroupHeartbeatResponse).ErrorCode
		return code == errorcode.UnknownMemberID || code == errorcode.GroupIDNotFound
	})
}

// awaitProducerIDs waits until a broker has a block of producer ids to give away.
func (p *Prober) awaitProducerIDs(s *side) error {
	q := protocol.NewInitProducerIDRequest()
	q.SetVersion(4)
	q.TransactionTimeoutMillis, q.ProducerID, q.ProducerEpoch = 60000, -1, -1
	return p.poll(s, "producer ids", func() kmsg.Request { return q }, func(r kmsg.Response) bool {
		return r.(*protocol.InitProducerIDResponse).ErrorCode == 0
	})
}

const warmMember = "warm"

func heartbeat(group string, epoch int32, topics []string) kmsg.Request {
	q := kmsg.NewPtrShareGroupHeartbeatRequest()
	q.SetVersion(1)
	q.GroupID, q.MemberID, q.MemberEpoch, q.SubscribedTopicNames = group, warmMember, epoch, topics
	return q
}

// warm lets a member join a share group, fetch from all partitions of the stable topics, and leave.
func (p *Prober) warm(s *side, group string) error {
	epoch := int32(0)
	beat := func() kmsg.Request {
		if epoch == 0 {
			return heartbeat(group, 0, p.world.stable())
		}
		return heartbeat(group, epoch, nil)
	}
	err := p.poll(s, "joining "+group, beat, func(r kmsg.Response) bool {
		h := r.(*kmsg.ShareGroupHeartbeatResponse)
		if h.ErrorCode != 0 {
			return false
		}
		epoch = h.MemberEpoch
		return h.Assignment != nil && len(h.Assignment.TopicPartitions) == len(p.world.stable())
	})
	if err != nil {
		return err
	}
	session := int32(0)
	fetch := func() kmsg.Request { return p.warmFetch(group, session) }
	err = p.poll(s, "fetching in "+group, fetch, func(r kmsg.Response) bool {
		f := r.(*kmsg.ShareFetchResponse)
		if f.ErrorCode != 0 {
			return false
		}
		session = next(session)
		return session > 2 // the second waits until all partitions are loaded
	})
	if err != nil {
		return err
	}
	session, epoch = -1, -1
	if err := p.poll(s, "closing the session in "+group, fetch, func(kmsg.Response) bool { return true }); err != nil {
		return err
	}
	return p.poll(s, "leaving "+group, beat, func(kmsg.Response) bool { return true })
}

func (p *Prober) warmFetch(group string, session int32) kmsg.Request {
	q := kmsg.NewPtrShareFetchRequest()
	q.SetVersion(1)
	member := warmMember
	q.GroupID, q.MemberID, q.ShareSessionEpoch = &group, &member, session
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.MaxRecords, q.BatchSize = 500, 1, 1<<20, 1, 1
	if session == 0 {
		for _, topic := range p.world.stable() {
			t := kmsg.NewShareFetchRequestTopic()
			t.TopicID = p.world.ids[topic]
			for i := range int32(2) {
				x := kmsg.NewShareFetchRequestTopicPartition()
				x.Partition = i
				t.Partitions = append(t.Partitions, x)
			}
			q.Topics = append(q.Topics, t)
		}
	}
	return q
}
