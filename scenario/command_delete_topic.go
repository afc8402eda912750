package scenario

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "delete-topic",
		usage:   "delete-topic NAME",
		summary: "Deletes a topic and waits until it is gone.",
		example: `
topic orders
delete-topic orders
delete-topic orders
----
orders: 1 partition
orders: deleted
orders: UNKNOWN_TOPIC_OR_PARTITION (3): This server does not host this topic-partition.
`,
		least: 1, most: 1,
		run: func(s *step, c *call) error {
			name := c.words[0]
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = kmsg.StringPtr(s.wire(name))
			q := kmsg.NewPtrDeleteTopicsRequest()
			q.Topics = append(q.Topics, t)
			p, err := request[*kmsg.DeleteTopicsResponse](s, s.as(admin), 0, q)
			if err != nil {
				return err
			}
			for _, t := range p.Topics {
				if t.ErrorCode != errorcode.None {
					s.printf("%s: %s", name, failure(t.ErrorCode, t.ErrorMessage))
					continue
				}
				if err := s.awaitNoTopic(name); err != nil {
					return err
				}
				s.printf("%s: deleted", name)
			}
			return nil
		},
	})
}
