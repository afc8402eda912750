package scenario

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "describe-producers",
		usage:   "describe-producers PARTITION [times=yes] [node=N]",
		summary: "Shows the producers that a partition remembers (DescribeProducers). times=yes shows how old their last records are.",
		example: `
topic orders
init-producer p1
describe-producers orders-0
produce orders-0 a b producer=p1
describe-producers orders-0
describe-producers orders-7
----
orders: 1 partition
p1: producer <p1>, epoch 0
orders-0: no producers
orders-0: offsets 0-1
orders-0:
  <p1>, epoch 0, last sequence 1
orders-7: UNKNOWN_TOPIC_OR_PARTITION (3)
`,
		optionNames: []string{"times", "node"},
		least:       1, most: 1,
		check: func(c *call) error { _, err := parsePartition(c.words[0]); return err },
		run:   describeProducers,
	})
}

func describeProducers(s *step, c *call) error {
	at, err := parsePartition(c.words[0])
	if err != nil {
		return err
	}
	times, err := c.flag("times")
	if err != nil {
		return err
	}
	node, err := s.node(c, at)
	if err != nil {
		return err
	}
	q := kmsg.NewPtrDescribeProducersRequest()
	q.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: s.wire(at.topic), Partitions: []int32{at.partition}}}
	p, err := request[*kmsg.DescribeProducersResponse](s, s.as(admin), node, q)
	if err != nil {
		return err
	}
	for _, t := range p.Topics {
		for i := range t.Partitions {
			s.showProducers(at, &t.Partitions[i], times)
		}
	}
	return nil
}

func (s *step) showProducers(at topicPartition, p *kmsg.DescribeProducersResponseTopicPartition, times bool) {
	if p.ErrorCode != errorcode.None {
		s.printf("%s: %s", at, failure(p.ErrorCode, p.ErrorMessage))
		return
	}
	if len(p.ActiveProducers) == 0 {
		s.printf("%s: no producers", at)
		return
	}
	s.printf("%s:", at)
	type active = kmsg.DescribeProducersResponseTopicPartitionActiveProducer
	slices.SortFunc(p.ActiveProducers, func(a, b active) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	for _, a := range p.ActiveProducers {
		text := fmt.Sprintf("  %s, last sequence %d", s.showEpoch(a.ProducerID, a.ProducerEpoch), a.LastSequence)
		if a.CoordinatorEpoch >= 0 {
			text += fmt.Sprintf(", coordinator epoch %d", a.CoordinatorEpoch)
		}
		if a.CurrentTxnStartOffset >= 0 {
			text += fmt.Sprintf(", transaction from %d", a.CurrentTxnStartOffset)
		}
		if times {
			text += ", last at " + s.age(a.LastTimestamp)
		}
		s.printf("%s", text)
	}
}
