package scenario

func init() {
	register(&command{
		name:    "consumer-leave",
		usage:   "consumer-leave GROUP MEMBER [static=yes] [version=N]",
		summary: "Leaves a consumer group (ConsumerGroupHeartbeat with epoch -1); static=yes leaves for a while, as a static member does (epoch -2).",
		example: `
topic orders
consumer-join readers m1 orders instance=one
consumer-leave readers m1 static=yes
consumer-join readers m1 orders
consumer-leave readers m1
consumer-leave readers m1
----
orders: 1 partition
m1: epoch 2, assigned orders-0
m1: left for a while
m1: epoch 2, assigned orders-0
m1: left
m1: UNKNOWN_MEMBER_ID (25): Instance id one is unknown.
`,
		optionNames: []string{"static", "version"},
		least:       2, most: 2,
		run: func(s *step, c *call) error {
			m := s.shareMember(c.words[0], c.words[1])
			q, err := s.consumerRequest(c, m)
			if err != nil {
				return err
			}
			static, err := c.flag("static")
			if err != nil {
				return err
			}
			if q.MemberEpoch = -1; static {
				q.MemberEpoch = -2
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
