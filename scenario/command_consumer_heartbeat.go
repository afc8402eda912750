package scenario

import (
	"fmt"
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name: "consumer-heartbeat",
		usage: "consumer-heartbeat GROUP MEMBER [topics=TOPIC,...] [regex=PATTERN] [assignor=uniform|range] [instance=ID] [rack=RACK] [rebalance=5m] [epoch=N] [owned=P,...|assigned] [id=MEMBER] " +
			"[version=N]",
		summary: "Sends one ConsumerGroupHeartbeat of a member of a consumer group, with its epoch unless another is given; epoch=0 joins. It says what the options name and else that nothing has " +
			"changed: owned=assigned says that the member owns what it is assigned. A regex that can be compiled gets the topics' prefix where they have one.",
		example: `
topic orders partitions=2
consumer-heartbeat readers m1 epoch=0 topics=orders
consumer-heartbeat readers m1 owned=assigned
consumer-heartbeat readers m1 epoch=9
----
orders: 2 partitions
m1: epoch 2, assigned orders-0, orders-1
m1: epoch 2
m1: FENCED_MEMBER_EPOCH (110): The consumer group member has a greater member epoch (9) than the one known by the group coordinator (2). The member must abandon all its partitions and rejoin.
`,
		optionNames: consumerOptions("topics", "epoch", "owned", "id", "version"),
		least:       2, most: 2,
		check: func(c *call) error {
			if c.options["owned"] == "assigned" {
				return nil
			}
			_, err := ownedOption(c, nil)
			return err
		},
		run: func(s *step, c *call) error {
			m := s.member(c.words[0], c.words[1])
			if _, ok := c.options["id"]; !ok {
				m = s.shareMember(m.group, m.name)
			}
			q, err := s.consumerRequest(c, m)
			if err != nil {
				return err
			}
			p, err := s.consumerHeartbeat(m, q)
			if err != nil {
				return err
			}
			s.showConsumerHeartbeat(m, p, false)
			return nil
		},
	})
}

// consumerOptions are the options of what a member of a consumer group says of itself, and others.
func consumerOptions(others ...string) []string {
	return append([]string{"regex", "assignor", "instance", "rack", "rebalance"}, others...)
}

// consumerRequest is the heartbeat that the options of a command ask for. One that joins says everything.
func (s *step) consumerRequest(c *call, m *member) (*kmsg.ConsumerGroupHeartbeatRequest, error) {
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	if err := s.version(q, c); err != nil {
		return nil, err
	}
	epoch, err := c.numberOption("epoch", int64(m.epoch), -1<<31, 1<<31-1)
	if err != nil {
		return nil, err
	}
	m.instance = instanceOption(c, m.instance)
	q.Group, q.MemberID, q.MemberEpoch, q.InstanceID = s.wire(m.group), s.idOption(c, m), int32(epoch), m.instance
	q.RebalanceTimeoutMillis = -1
	if _, ok := c.options["rebalance"]; ok || epoch == 0 {
		d, err := c.durationOption("rebalance", rebalanceTimeout)
		if err != nil {
			return nil, err
		}
		q.RebalanceTimeoutMillis = int32(d.Milliseconds())
	}
	if rack, ok := c.options["rack"]; ok {
		q.RackID = &rack
	}
	if assignor, ok := c.options["assignor"]; ok {
		q.ServerAssignor = &assignor
	}
	if pattern, ok := c.options["regex"]; ok {
		pattern = s.pattern(pattern)
		q.SubscribedTopicRegex = &pattern
	}
	if list, ok := c.options["topics"]; ok {
		q.SubscribedTopicNames = s.subscription(nonEmpty(list))
	}
	owned := m.assigned
	if c.options["owned"] != "assigned" {
		if owned, err = ownedOption(c, nil); err != nil {
			return nil, err
		}
	}
	if epoch == 0 && owned == nil {
		owned = []topicPartition{}
	}
	q.Topics, err = s.owned(owned)
	return q, err
}

// pattern is a regular expression on the names of topics and the like as brokers know them. One that cannot be compiled stays as it is.
func (w *world) pattern(p string) string {
	if _, err := regexp.Compile(p); err != nil || w.prefix == "" || p == "" {
		return p
	}
	wire := regexp.QuoteMeta(w.prefix) + "(?:" + p + ")"
	w.names.add(wire, p)
	return wire
}

// subscription is topics as brokers know them, never nil.
func (w *world) subscription(topics []string) []string {
	wire := []string{}
	for _, t := range topics {
		wire = append(wire, w.wire(t))
	}
	return wire
}

// owned is partitions as a heartbeat names them, nil for nil.
func (s *step) owned(all []topicPartition) (topics []kmsg.ConsumerGroupHeartbeatRequestTopic, err error) {
	if all == nil {
		return nil, nil
	}
	topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, t := range byTopic(all) {
		id, err := s.topicID(t.topic)
		if err != nil {
			return nil, err
		}
		topics = append(topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: t.partitions})
	}
	return topics, nil
}

// consumerHeartbeat sends a heartbeat and takes in what it is answered with.
func (s *step) consumerHeartbeat(m *member, q *kmsg.ConsumerGroupHeartbeatRequest) (*kmsg.ConsumerGroupHeartbeatResponse, error) {
	node, err := s.coordinator(m.group)
	if err != nil {
		return nil, err
	}
	p, err := ask[*kmsg.ConsumerGroupHeartbeatResponse](s, m.client(), node, q)
	if err != nil || p.ErrorCode != errorcode.None {
		return p, err
	}
	if p.MemberID != nil {
		s.known(m, *p.MemberID)
	}
	m.epoch = p.MemberEpoch
	if p.Assignment != nil {
		m.assigned = []topicPartition{}
		for _, t := range p.Assignment.Topics {
			for _, x := range t.Partitions {
				m.assigned = append(m.assigned, topicPartition{s.topicName(t.TopicID), x})
			}
		}
		sorted(m.assigned)
	}
	return p, nil
}

// usualHeartbeat is the interval that is not worth a word (group.consumer.heartbeat.interval.ms).
const usualHeartbeat = 5 * time.Second

// showConsumerHeartbeat shows what a heartbeat was answered with. The assignment is only in an answer where it is new.
func (s *step) showConsumerHeartbeat(m *member, p *kmsg.ConsumerGroupHeartbeatResponse, assignment bool) {
	if p.ErrorCode != errorcode.None {
		s.printf("%s: %s", m.name, failure(p.ErrorCode, p.ErrorMessage))
		return
	}
	text := fmt.Sprintf("%s: epoch %d", m.name, p.MemberEpoch)
	switch p.MemberEpoch {
	case -1:
		text = m.name + ": left"
	case -2:
		text = m.name + ": left for a while"
	}
	if assignment && p.MemberEpoch >= 0 || p.Assignment != nil {
		text += ", assigned " + partitionNames(m.assigned)
	}
	if d := time.Duration(p.HeartbeatIntervalMillis) * time.Millisecond; d != usualHeartbeat && d != 0 {
		text += ", heartbeat " + show(d)
	}
	s.printf("%s", text)
}
