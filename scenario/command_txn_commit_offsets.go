package scenario

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&command{
		name: "txn-commit-offsets",
		usage: "txn-commit-offsets PRODUCER GROUP PARTITION=OFFSET ... [id=PRODUCER|N] [epoch=N] [member=MEMBER] [member-epoch=N] [instance=ID] [metadata=TEXT] [leader-epoch=N] [node=N] " +
			"[version=N]",
		summary: "Commits offsets of a group in the producer's transaction (TxnOffsetCommit), as a member with its epoch or generation, or as nobody. id and epoch are the producer's.",
		example: `
topic orders
init-producer p1 txn=payments
txn-commit-offsets p1 readers orders-0=5
committed readers
txn-end p1 commit
committed readers
----
orders: 1 partition
p1: producer <p1>, epoch 0
orders-0: ok
readers: no offsets
p1: committed, producer <p1>, epoch 1
orders-0: 5
`,
		optionNames: []string{"id", "epoch", "member", "member-epoch", "instance", "metadata", "leader-epoch", "node", "version"},
		freeWords:   true, least: 3, most: -1,
		check: func(c *call) error { _, err := offsetWords(c.words[2:]); return err },
		run:   txnCommitOffsets,
	})
}

func txnCommitOffsets(s *step, c *call) error {
	group := c.words[1]
	all, err := offsetWords(c.words[2:])
	if err != nil {
		return err
	}
	producer, id, _, err := s.inTransaction(c.words[0])
	if err != nil {
		return err
	}
	by, err := s.committerOf(c, group)
	if err != nil {
		return err
	}
	metadata, leaderEpoch, err := offsetDetails(c)
	if err != nil {
		return err
	}
	q := kmsg.NewPtrTxnOffsetCommitRequest()
	if err := s.version(q, c); err != nil {
		return err
	}
	q.TransactionalID, q.Group, q.MemberID, q.Generation, q.InstanceID = id, s.wire(group), by.id, by.epoch, by.instance
	if q.ProducerID, q.ProducerEpoch, err = s.asProducer(c, producer); err != nil {
		return err
	}
	for _, o := range all {
		p := kmsg.TxnOffsetCommitRequestTopicPartition{Partition: o.at.partition, Offset: o.offset, LeaderEpoch: leaderEpoch, Metadata: &metadata}
		t := kmsg.TxnOffsetCommitRequestTopic{Topic: s.wire(o.at.topic)}
		if q.Version >= 6 {
			if t.TopicID, err = s.topicID(o.at.topic); err != nil {
				return err
			}
		}
		if last := len(q.Topics) - 1; last >= 0 && q.Topics[last].Topic == t.Topic {
			q.Topics[last].Partitions = append(q.Topics[last].Partitions, p)
			continue
		}
		t.Partitions = append(t.Partitions, p)
		q.Topics = append(q.Topics, t)
	}
	node, err := s.groupNode(c, group)
	if err != nil {
		return err
	}
	p, err := ask[*kmsg.TxnOffsetCommitResponse](s, producer.name, node, q)
	if err != nil {
		return err
	}
	var outcomes []outcome
	for _, t := range p.Topics {
		for _, x := range t.Partitions {
			outcomes = append(outcomes, outcome{topicPartition{s.answeredTopic(t.Topic, t.TopicID), x.Partition}, result(x.ErrorCode)})
		}
	}
	s.showOutcomes(outcomes, groupLabel(group)+": an answer about nothing")
	return nil
}
