package scenario

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&command{
		name:    "delete-share-offsets",
		usage:   "delete-share-offsets GROUP TOPIC ...",
		summary: "Makes a share group without members forget topics (DeleteShareGroupOffsets).",
		example: `
topic orders
join workers m1 orders
leave workers m1
delete-share-offsets workers orders
delete-share-offsets workers nothing
----
orders: 1 partition
m1: epoch 3, assigned orders-0
m1: left
orders: ok
nothing: UNKNOWN_TOPIC_OR_PARTITION (3): This server does not host this topic-partition.
`,
		least: 2, most: -1,
		run: func(s *step, c *call) error {
			group := c.words[0]
			q := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
			q.GroupID = s.wire(group)
			for _, t := range c.words[1:] {
				q.Topics = append(q.Topics, kmsg.DeleteShareGroupOffsetsRequestTopic{Topic: s.wire(t)})
			}
			node, err := s.coordinator(group)
			if err != nil {
				return err
			}
			p, err := request[*kmsg.DeleteShareGroupOffsetsResponse](s, s.as(admin), node, q)
			if err != nil {
				return err
			}
			if p.ErrorCode != 0 {
				s.printf("%s: %s", group, failure(p.ErrorCode, p.ErrorMessage))
				return nil
			}
			var lines []string
			for _, t := range p.Topics {
				text := "ok"
				if t.ErrorCode != 0 {
					text = failure(t.ErrorCode, t.ErrorMessage)
				}
				lines = append(lines, s.script(t.Topic)+": "+text)
			}
			slices.Sort(lines)
			for _, l := range lines {
				s.printf("%s", l)
			}
			return nil
		},
	})
}
