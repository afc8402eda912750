package scenario

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&command{
		name:    "share-offsets",
		usage:   "share-offsets GROUP [PARTITION ...]",
		summary: "Shows the start offsets of a share group and how many records it has yet to finish (DescribeShareGroupOffsets): of all its topics, or of the named partitions.",
		example: `
topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a b c
join workers m1 orders
fetch workers m1
ack workers m1 orders-0 0=accept
leave workers m1
share-offsets workers
----
orders: 1 partition
workers: ok
orders-0: offsets 0-2
m1: epoch 3, assigned orders-0
orders-0: acquired 0-2 count 1, lock 30s
  0 a | 1 b | 2 c
orders-0: ok
m1: left
orders-0: start 0, leader epoch 0, lag 2
`,
		least: 1, most: -1,
		check: func(c *call) error { _, err := partitionWords(c.words[1:]); return err },
		run:   describeShareOffsets,
	})
}

func describeShareOffsets(s *step, c *call) error {
	group := c.words[0]
	g := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	g.GroupID = s.wire(group)
	all, err := partitionWords(c.words[1:])
	if err != nil {
		return err
	}
	for _, t := range byTopic(all) {
		g.Topics = append(g.Topics, kmsg.DescribeShareGroupOffsetsRequestGroupTopic{Topic: s.wire(t.topic), Partitions: t.partitions})
	}
	node, err := s.coordinator(group)
	if err != nil {
		return err
	}
	q := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	q.Groups = append(q.Groups, g)
	p, err := request[*kmsg.DescribeShareGroupOffsetsResponse](s, s.as(admin), node, q)
	if err != nil {
		return err
	}
	for _, g := range p.Groups {
		if g.ErrorCode != 0 {
			s.printf("%s: %s", group, failure(g.ErrorCode, g.ErrorMessage))
			continue
		}
		lines := map[topicPartition]string{}
		for _, t := range g.Topics {
			for _, x := range t.Partitions {
				text := fmt.Sprintf("start %d, leader epoch %d", x.StartOffset, x.LeaderEpoch)
				if p.Version >= 1 {
					text += fmt.Sprintf(", lag %d", x.Lag)
				}
				if x.ErrorCode != 0 {
					text = failure(x.ErrorCode, x.ErrorMessage)
				}
				lines[topicPartition{s.script(t.Topic), x.Partition}] = text
			}
		}
		s.showPartitions(group, lines)
	}
	return nil
}

// showPartitions shows a line for each partition, in order.
func (s *step) showPartitions(none string, lines map[topicPartition]string) {
	for _, at := range slices.SortedFunc(maps.Keys(lines), comparePartitions) {
		s.printf("%s: %s", at, lines[at])
	}
	if len(lines) == 0 {
		s.printf("%s: nothing", none)
	}
}
