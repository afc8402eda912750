package scenario

import "kshare/protocol/describe"

func init() {
	register(&command{
		name:    "describe-topic",
		usage:   "describe-topic NAME",
		summary: "Shows id, leaders, replicas, in-sync and offline replicas of a topic (Metadata).",
		example: `
cluster brokers=2
topic orders partitions=2 replicas=2
describe-topic orders
----
orders: 2 partitions
orders: id <topic:orders>
  orders-0: leader 1 epoch 0, replicas 1 2, in sync 1 2
  orders-1: leader 2 epoch 0, replicas 2 1, in sync 2 1
`,
		least: 1, most: 1,
		run: func(s *step, c *call) error {
			name := c.words[0]
			t, err := s.metadata(name)
			if err != nil {
				return err
			}
			if t.ErrorCode != 0 {
				s.printf("%s: %s", name, failure(t.ErrorCode, nil))
				return nil
			}
			s.knowTopic(name, t.TopicID)
			s.printf("%s: id %s", name, describe.UUIDText(t.TopicID))
			for _, p := range t.Partitions {
				leader := "leader " + number32(p.Leader) + " epoch " + number32(p.LeaderEpoch)
				if p.ErrorCode != 0 {
					leader = failure(p.ErrorCode, nil)
				}
				offline := ""
				if len(p.OfflineReplicas) > 0 {
					offline = ", offline " + numbers(p.OfflineReplicas)
				}
				s.printf("  %s-%d: %s, replicas %s, in sync %s%s", name, p.Partition, leader, numbers(p.Replicas), numbers(p.ISR), offline)
			}
			return nil
		},
	})
}
