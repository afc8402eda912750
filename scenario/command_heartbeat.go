package scenario

import "strings"

func init() {
	register(&command{
		name:    "heartbeat",
		usage:   "heartbeat GROUP MEMBER [topics=TOPIC,...] [epoch=N] [rack=RACK]",
		summary: "Sends one ShareGroupHeartbeat of a member of a share group, with its epoch unless another is given. topics changes what it subscribes.",
		example: `
topic orders
join workers m1 orders
heartbeat workers m1
heartbeat workers m1 epoch=7
----
orders: 1 partition
m1: epoch 3, assigned orders-0
m1: epoch 3
m1: FENCED_MEMBER_EPOCH (110): The share group member has a greater member epoch (7) than the one known by the group coordinator (3). The member must abandon all its partitions and rejoin.
`,
		optionNames: []string{"topics", "epoch", "rack"},
		least:       2, most: 2,
		run: func(s *step, c *call) error {
			m := s.shareMember(c.words[0], c.words[1])
			b := heartbeat{rack: c.options["rack"]}
			if t, ok := c.options["topics"]; ok {
				m.subscribed, b.full = strings.Split(t, ","), true
			}
			if _, ok := c.options["epoch"]; ok {
				n, err := c.numberOption("epoch", 0, -1<<31, 1<<31-1)
				if err != nil {
					return err
				}
				epoch := int32(n)
				b.epoch, b.full = &epoch, b.full || n == 0
			}
			p, err := s.shareHeartbeat(m, b)
			if err != nil {
				return err
			}
			s.showHeartbeat(m, p, false)
			return nil
		},
	})
	register(&command{
		name:    "leave",
		usage:   "leave GROUP MEMBER",
		summary: "Leaves a share group (ShareGroupHeartbeat with epoch -1). The share sessions stay as they are.",
		example: `
topic orders
join workers m1 orders
leave workers m1
----
orders: 1 partition
m1: epoch 3, assigned orders-0
m1: left
`,
		least: 2, most: 2,
		run: func(s *step, c *call) error {
			m := s.shareMember(c.words[0], c.words[1])
			epoch := int32(-1)
			p, err := s.shareHeartbeat(m, heartbeat{epoch: &epoch})
			if err != nil {
				return err
			}
			s.showHeartbeat(m, p, false)
			return nil
		},
	})
}
