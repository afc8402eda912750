package scenario

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "join",
		usage:   "join GROUP MEMBER TOPIC,... [rack=RACK] [once=yes]",
		summary: "Joins a share group (ShareGroupHeartbeat with epoch 0) and goes on with heartbeats until partitions are assigned; once=yes sends one heartbeat.",
		example: `
topic orders partitions=2
join workers m1 orders
----
orders: 2 partitions
m1: epoch 3, assigned orders-0, orders-1
`,
		optionNames: []string{"rack", "once"},
		least:       3, most: 3, waits: false,
		run: func(s *step, c *call) error {
			m := s.shareMember(c.words[0], c.words[1])
			m.epoch, m.assigned, m.subscribed = 0, nil, strings.Split(c.words[2], ",")
			once, err := c.flag("once")
			if err != nil {
				return err
			}
			b := heartbeat{rack: c.options["rack"], full: true}
			for tries := joinTries; ; tries-- {
				p, err := s.shareHeartbeat(m, b)
				if err != nil {
					return err
				}
				if p.ErrorCode != errorcode.None || once || len(m.assigned) > 0 || tries == 0 {
					s.showHeartbeat(m, p, true)
					return nil
				}
				if err := s.sleep(joinPause); err != nil {
					return err
				}
				b = heartbeat{}
			}
		},
	})
}

// A join asks again for the assignment so often, with a pause between: Apache Kafka assigns a second after the first heartbeat.
const (
	joinTries = 10
	joinPause = 500 * time.Millisecond
)

// heartbeat is what a ShareGroupHeartbeat says beyond the member and its epoch.
type heartbeat struct {
	rack  string
	full  bool // it names the subscribed topics
	epoch *int32
}

// shareHeartbeat sends a heartbeat and takes in what it is answered with.
func (s *step) shareHeartbeat(m *member, b heartbeat) (*kmsg.ShareGroupHeartbeatResponse, error) {
	node, err := s.coordinator(m.group)
	if err != nil {
		return nil, err
	}
	q := kmsg.NewPtrShareGroupHeartbeatRequest()
	q.GroupID, q.MemberID, q.MemberEpoch = s.wire(m.group), m.id, m.epoch
	if b.epoch != nil {
		q.MemberEpoch = *b.epoch
	}
	if b.rack != "" {
		q.RackID = &b.rack
	}
	if b.full {
		q.SubscribedTopicNames = s.subscription(m.subscribed)
	}
	p, err := request[*kmsg.ShareGroupHeartbeatResponse](s, m.client(), node, q)
	if err != nil || p.ErrorCode != errorcode.None {
		return p, err
	}
	news := b.full || m.epoch != p.MemberEpoch
	m.epoch = p.MemberEpoch
	if p.Assignment != nil {
		m.assigned = s.assign(p.Assignment.TopicPartitions)
	}
	if news { // the group coordinator may have share partitions to make after its answer
		err = s.settle()
	}
	return p, err
}

// showHeartbeat shows what a heartbeat was answered with. The assignment is only in an answer where it is new.
func (s *step) showHeartbeat(m *member, p *kmsg.ShareGroupHeartbeatResponse, assignment bool) {
	switch {
	case p.ErrorCode != errorcode.None:
		s.printf("%s: %s", m.name, failure(p.ErrorCode, p.ErrorMessage))
	case p.MemberEpoch < 0:
		s.printf("%s: left", m.name)
	case assignment || p.Assignment != nil:
		s.printf("%s: epoch %d, assigned %s", m.name, p.MemberEpoch, partitionNames(m.assigned))
	default:
		s.printf("%s: epoch %d", m.name, p.MemberEpoch)
	}
}
