package scenario

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "grow-topic",
		usage:   "grow-topic NAME PARTITIONS",
		summary: "Gives a topic more partitions (CreatePartitions).",
		example: `
topic orders
grow-topic orders 3
grow-topic orders 2
----
orders: 1 partition
orders: 3 partitions
orders: INVALID_PARTITIONS (37): The topic orders currently has 3 partition(s); 2 would not be an increase.
`,
		least: 2, most: 2,
		check: func(c *call) error { _, err := number(c.words[1], -1<<31, 1<<31-1); return err },
		run: func(s *step, c *call) error {
			name := c.words[0]
			n, err := number(c.words[1], -1<<31, 1<<31-1)
			if err != nil {
				return err
			}
			t := kmsg.NewCreatePartitionsRequestTopic()
			t.Topic, t.Count = s.wire(name), int32(n)
			q := kmsg.NewPtrCreatePartitionsRequest()
			q.Topics = append(q.Topics, t)
			p, err := request[*kmsg.CreatePartitionsResponse](s, s.as(admin), 0, q)
			if err != nil {
				return err
			}
			for _, t := range p.Topics {
				if t.ErrorCode != errorcode.None {
					s.printf("%s: %s", name, failure(t.ErrorCode, t.ErrorMessage))
					continue
				}
				if err := s.awaitTopic(name, int(n)); err != nil {
					return err
				}
				s.printf("%s: %s", name, plural(int(n), "partition"))
			}
			return nil
		},
	})
}
