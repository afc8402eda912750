package scenario

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "consumer-join",
		usage:   "consumer-join GROUP MEMBER TOPIC,...|\"\" [regex=PATTERN] [assignor=uniform|range] [instance=ID] [rack=RACK] [rebalance=5m] [version=N]",
		summary: "Joins a consumer group (ConsumerGroupHeartbeat with epoch 0) and goes on with heartbeats until partitions are assigned, which the last one says are owned.",
		example: `
topic orders partitions=2
consumer-join readers m1 orders
consumer-join readers m2 "" regex=ord.*
consumer-join readers m3 orders instance=three assignor=nobody
----
orders: 2 partitions
m1: epoch 2, assigned orders-0, orders-1
m2: epoch 3, assigned nothing
m3: UNSUPPORTED_ASSIGNOR (112): ServerAssignor nobody is not supported. Supported assignors: uniform, range.
`,
		optionNames: consumerOptions("version"),
		least:       3, most: 3,
		run: consumerJoin,
	})
}

func consumerJoin(s *step, c *call) error {
	m := s.shareMember(c.words[0], c.words[1])
	m.epoch, m.assigned = 0, nil
	q, err := s.consumerRequest(c, m)
	if err != nil {
		return err
	}
	topics := nonEmpty(c.words[2])
	q.SubscribedTopicNames = s.subscription(topics)
	for tries := joinTries; ; tries-- {
		p, err := s.consumerHeartbeat(m, q)
		if err != nil {
			return err
		}
		owns := len(q.Topics) > 0
		if p.ErrorCode != errorcode.None || owns || tries == 0 {
			s.showConsumerHeartbeat(m, p, true)
			return nil
		}
		if len(m.assigned) == 0 {
			if err := s.sleep(joinPause); err != nil {
				return err
			}
		}
		again := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		again.Version, again.Group, again.MemberID, again.MemberEpoch, again.InstanceID, again.RebalanceTimeoutMillis = q.Version, q.Group, m.id, m.epoch, m.instance, -1
		if len(m.assigned) > 0 {
			if again.Topics, err = s.owned(m.assigned); err != nil {
				return err
			}
		}
		q = again
	}
}
