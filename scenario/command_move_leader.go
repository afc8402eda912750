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
		check: func(c *call) error { _, err := parseMoveLeader(c); return err },
		run: func(s *step, c *call) error {
			m, err := parseMoveLeader(c)
			if err != nil {
				return err
			}
			switch cluster := s.target.cluster(); {
			case cluster != nil:
				if err := cluster.MoveLeader(s.wire(m.at.topic), m.at.partition, m.to, m.hint); err != nil {
					return mistakeFrom(err)
				}
			case !m.hint:
				return endsComparison{"a real Kafka says who leads now, whatever hint says"}
			default:
				if err := s.moveLeader(m.at.topic, m.at.partition, m.to); err != nil {
					return err
				}
			}
			s.printf("%s: moved to node %d", m.at, m.to)
			return nil
		},
	})
}

type moveLeader struct {
	at   topicPartition
	to   int32
	hint bool
}

func parseMoveLeader(c *call) (m moveLeader, err error) {
	if m.at, err = parsePartition(c.words[0]); err != nil {
		return m, err
	}
	to, err := number(c.words[1], 0, 1<<31-1)
	if err != nil {
		return m, mistakef("the node: %v", err)
	}
	m.to, m.hint = int32(to), true
	if _, ok := c.options["hint"]; ok {
		m.hint, err = c.flag("hint")
	}
	return m, err
}
