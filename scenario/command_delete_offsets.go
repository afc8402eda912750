package scenario

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "delete-offsets",
		usage:   "delete-offsets GROUP TOPIC|PARTITION ...",
		summary: "Deletes committed offsets of a group (OffsetDelete): those of the partitions, or of all partitions of a topic.",
		example: `
topic orders partitions=2
topic payments
commit readers orders-0=5 orders-1=6 payments-0=7
delete-offsets readers orders-0 payments
delete-offsets others orders-0
committed readers
----
orders: 2 partitions
payments: 1 partition
orders-0: ok
orders-1: ok
payments-0: ok
orders-0: deleted
payments-0: deleted
others: GROUP_ID_NOT_FOUND (69)
orders-1: 6
`,
		least: 2, most: -1,
		run: deleteOffsets,
	})
}

func deleteOffsets(s *step, c *call) error {
	group := c.words[0]
	var all []topicPartition
	for _, w := range c.words[1:] {
		if p, err := parsePartition(w); err == nil {
			all = append(all, p)
			continue
		}
		t, err := s.metadata(w)
		if err != nil {
			return err
		}
		if t.ErrorCode != errorcode.None {
			return mistakef("%s is no topic; its partitions can be named, like %s-0", w, w)
		}
		for _, p := range t.Partitions {
			all = append(all, topicPartition{w, p.Partition})
		}
	}
	q := kmsg.NewPtrOffsetDeleteRequest()
	q.Group = s.wire(group)
	for _, t := range byTopic(all) {
		x := kmsg.OffsetDeleteRequestTopic{Topic: s.wire(t.topic)}
		for _, p := range t.partitions {
			x.Partitions = append(x.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
		}
		q.Topics = append(q.Topics, x)
	}
	node, err := s.coordinator(group)
	if err != nil {
		return err
	}
	p, err := request[*kmsg.OffsetDeleteResponse](s, s.as(admin), node, q)
	if err != nil {
		return err
	}
	if p.ErrorCode != errorcode.None {
		s.printf("%s: %s", groupLabel(group), failure(p.ErrorCode, nil))
		return nil
	}
	var outcomes []outcome
	for _, t := range p.Topics {
		for _, x := range t.Partitions {
			text := "deleted"
			if x.ErrorCode != errorcode.None {
				text = failure(x.ErrorCode, nil)
			}
			outcomes = append(outcomes, outcome{topicPartition{s.script(t.Topic), x.Partition}, text})
		}
	}
	s.showOutcomes(outcomes, groupLabel(group)+": an answer about nothing")
	return nil
}
