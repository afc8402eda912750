package scenario

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&command{
		name:    "alter-share-offsets",
		usage:   "alter-share-offsets GROUP PARTITION=OFFSET ...",
		summary: "Sets the start offsets of a share group that has no members (AlterShareGroupOffsets).",
		example: `
topic orders
produce orders-0 a b c
join workers m1 orders
alter-share-offsets workers orders-0=1
leave workers m1
alter-share-offsets workers orders-0=1
share-offsets workers
----
orders: 1 partition
orders-0: offsets 0-2
m1: epoch 3, assigned orders-0
workers: NON_EMPTY_GROUP (68): The group is not empty.
m1: left
orders-0: ok
orders-0: start 1, leader epoch 0, lag 2
`,
		freeWords: true, least: 2, most: -1,
		check: func(c *call) error { _, err := offsetWords(c.words[1:]); return err },
		run: func(s *step, c *call) error {
			group := c.words[0]
			all, err := offsetWords(c.words[1:])
			if err != nil {
				return err
			}
			q := kmsg.NewPtrAlterShareGroupOffsetsRequest()
			q.GroupID = s.wire(group)
			for _, x := range all {
				i := slices.IndexFunc(q.Topics, func(t kmsg.AlterShareGroupOffsetsRequestTopic) bool { return t.Topic == s.wire(x.at.topic) })
				if i < 0 {
					q.Topics = append(q.Topics, kmsg.AlterShareGroupOffsetsRequestTopic{Topic: s.wire(x.at.topic)})
					i = len(q.Topics) - 1
				}
				q.Topics[i].Partitions = append(q.Topics[i].Partitions, kmsg.AlterShareGroupOffsetsRequestTopicPartition{Partition: x.at.partition, StartOffset: x.offset})
			}
			node, err := s.coordinator(group)
			if err != nil {
				return err
			}
			p, err := request[*kmsg.AlterShareGroupOffsetsResponse](s, s.as(admin), node, q)
			if err != nil {
				return err
			}
			if p.ErrorCode != 0 {
				s.printf("%s: %s", group, failure(p.ErrorCode, p.ErrorMessage))
				return nil
			}
			lines := map[topicPartition]string{}
			for _, t := range p.Topics {
				for _, x := range t.Partitions {
					at := topicPartition{s.script(t.Topic), x.Partition}
					if lines[at] = "ok"; x.ErrorCode != 0 {
						lines[at] = failure(x.ErrorCode, x.ErrorMessage)
					}
				}
			}
			s.showPartitions(group, lines)
			return nil
		},
	})
}
