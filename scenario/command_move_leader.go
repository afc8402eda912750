package scenario

func init() {
	register(&command{
		name:    "move-leader",
		usage:   "move-leader PARTITION NODE [hint=no]",
		summary: "Makes another replica the leader of a partition. With hint=no the old leader does not say who leads now.",
		example: `
cluster brokers=2
topic orders replicas=2
move-leader orders-0 2
produce orders-0 a node=1
produce orders-0 a
----
orders: 1 partition
orders-0: moved to node 2
orders-0: NOT_LEADER_OR_FOLLOWER (6), leader 2 epoch 1
orders-0: offset 0
`,
		optionNames: []string{"hint"},
		least:       2, most: 2, reach: operated,
		check: func(c *call) error { _, _, err := partitionAndOffset(c); return err },
		run: func(s *step, c *call) error {
			at, node, err := partitionAndOffset(c)
			if err != nil {
				return err
			}
			hint := c.options["hint"] != "no"
			switch cluster := s.target.cluster(); {
			case cluster != nil:
				if err := cluster.MoveLeader(s.wire(at.topic), at.partition, int32(node), hint); err != nil {
					return mistake{err.Error()}
				}
			case !hint:
				return endsComparison{"a real Kafka says who leads now, whatever hint says"}
			default:
				if err := s.moveLeader(at.topic, at.partition, int32(node)); err != nil {
					return err
				}
			}
			s.printf("%s: moved to node %d", at, node)
			return nil
		},
	})
}
