package scenario

import "github.com/twmb/franz-go/pkg/kmsg"

func init() {
	register(&command{
		name:    "classic-heartbeat",
		usage:   "classic-heartbeat GROUP MEMBER [generation=N] [instance=ID] [id=MEMBER] [version=N]",
		summary: "Sends one Heartbeat of a member of a classic group.",
		example: `
topic orders
classic-join readers m1 orders
classic-sync readers m1 m1:orders-0
classic-heartbeat readers m1
classic-heartbeat readers m1 generation=0
classic-heartbeat readers m1 id=nobody
----
orders: 1 partition
m1: generation 1, protocol range, leader m1
  m1: topics orders
m1: assigned orders-0
m1: ok
m1: ILLEGAL_GENERATION (22)
m1: UNKNOWN_MEMBER_ID (25)
`,
		optionNames: []string{"generation", "instance", "id", "version"},
		least:       2, most: 2,
		run: func(s *step, c *call) error {
			m := s.member(c.words[0], c.words[1])
			q := kmsg.NewPtrHeartbeatRequest()
			if err := s.version(q, c); err != nil {
				return err
			}
			generation, err := generationOption(c, m)
			if err != nil {
				return err
			}
			q.Group, q.MemberID, q.Generation, q.InstanceID = s.wire(m.group), s.idOption(c, m), generation, instanceOption(c, m.instance)
			node, err := s.coordinator(m.group)
			if err != nil {
				return err
			}
			p, err := ask[*kmsg.HeartbeatResponse](s, m.client(), node, q)
			if err != nil {
				return err
			}
			s.printf("%s: %s", m.name, result(p.ErrorCode))
			return nil
		},
	})
}
