package scenario

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "committed",
		usage:   "committed GROUP [PARTITION ...] [member=MEMBER] [member-epoch=N] [stable=yes] [node=N] [version=N]",
		summary: "Shows the committed offsets of a group (OffsetFetch): those of the partitions, or all. stable=yes refuses those that a transaction may yet change.",
		example: `
topic orders partitions=2
commit readers orders-0=5 metadata=half leader-epoch=0
committed readers
committed readers orders-0 orders-1
committed others
----
orders: 2 partitions
orders-0: ok
orders-0: 5, leader epoch 0, metadata half
orders-0: 5, leader epoch 0, metadata half
orders-1: none
others: no offsets
`,
		optionNames: []string{"member", "member-epoch", "stable", "node", "version"},
		least:       1, most: -1,
		check: func(c *call) error { _, err := partitionWords(c.words[1:]); return err },
		run:   committed,
	})
}

func committed(s *step, c *call) error {
	group := c.words[0]
	all, err := partitionWords(c.words[1:])
	if err != nil {
		return err
	}
	by, err := s.committerOf(c, group)
	if err != nil {
		return err
	}
	q := kmsg.NewPtrOffsetFetchRequest()
	if err := s.version(q, c); err != nil {
		return err
	}
	if q.RequireStable, err = c.flag("stable"); err != nil {
		return err
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = s.wire(group), by.epoch
	if by.id != "" {
		g.MemberID = &by.id
	}
	for _, t := range byTopic(all) {
		x := kmsg.OffsetFetchRequestGroupTopic{Topic: s.wire(t.topic), Partitions: t.partitions}
		if q.Version >= 10 {
			if x.TopicID, err = s.topicID(t.topic); err != nil {
				return err
			}
		}
		g.Topics = append(g.Topics, x)
		q.Topics = append(q.Topics, kmsg.OffsetFetchRequestTopic{Topic: x.Topic, Partitions: x.Partitions})
	}
	q.Group, q.Groups = g.Group, append(q.Groups, g)
	node, err := s.groupNode(c, group)
	if err != nil {
		return err
	}
	p, err := ask[*kmsg.OffsetFetchResponse](s, by.client, node, q)
	if err != nil {
		return err
	}
	if q.Version < 8 {
		p.Groups = []kmsg.OffsetFetchResponseGroup{oldCommitted(p)}
	}
	for _, g := range p.Groups {
		if g.ErrorCode != errorcode.None {
			s.printf("%s: %s", groupLabel(group), failure(g.ErrorCode, nil))
			continue
		}
		var outcomes []outcome
		for _, t := range g.Topics {
			for _, x := range t.Partitions {
				outcomes = append(outcomes, outcome{topicPartition{s.answeredTopic(t.Topic, t.TopicID), x.Partition}, showCommitted(&x)})
			}
		}
		s.showOutcomes(outcomes, groupLabel(group)+": no offsets")
	}
	return nil
}

// oldCommitted is an answer of the versions that know one group, as the newer ones have it.
func oldCommitted(p *kmsg.OffsetFetchResponse) (g kmsg.OffsetFetchResponseGroup) {
	g.ErrorCode = p.ErrorCode
	for _, t := range p.Topics {
		x := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic}
		for _, old := range t.Partitions {
			x.Partitions = append(x.Partitions, kmsg.OffsetFetchResponseGroupTopicPartition{
				Partition: old.Partition, Offset: old.Offset, LeaderEpoch: old.LeaderEpoch, Metadata: old.Metadata, ErrorCode: old.ErrorCode,
			})
		}
		g.Topics = append(g.Topics, x)
	}
	return g
}

func showCommitted(p *kmsg.OffsetFetchResponseGroupTopicPartition) string {
	if p.ErrorCode != errorcode.None {
		return failure(p.ErrorCode, nil)
	}
	text := "none"
	if p.Offset != -1 {
		text = strconv.FormatInt(p.Offset, 10)
	}
	if p.LeaderEpoch >= 0 {
		text += fmt.Sprintf(", leader epoch %d", p.LeaderEpoch)
	}
	if p.Metadata == nil {
		text += ", metadata null"
	} else if *p.Metadata != "" {
		text += ", metadata " + showBytes([]byte(*p.Metadata), int32(len(*p.Metadata)))
	}
	return text
}
