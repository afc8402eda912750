package scenario

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&command{
		name:  "txn-markers",
		usage: "txn-markers PRODUCER commit|abort PARTITION ... [id=PRODUCER|N] [epoch=N] [coordinator-epoch=0] [transaction-version=0] [node=N] [version=N]",
		summary: "Writes the markers that end a transaction on partitions, as a transaction coordinator does (WriteTxnMarkers). transaction-version is in version 2: from 2 on the epoch is to be " +
			"greater than that of the transaction.",
		example: `
topic orders
init-producer p1 txn=payments
produce orders-0 a producer=p1 txn=yes
txn-markers p1 abort orders-0 epoch=1
read orders-0
----
orders: 1 partition
p1: producer <p1>, epoch 0
orders-0: offset 0
orders-0: ok
orders-0: to 2
  0 a | 1 (abort)
`,
		optionNames: []string{"id", "epoch", "coordinator-epoch", "transaction-version", "node", "version"},
		least:       3, most: -1,
		check: func(c *call) error {
			if _, err := commits(c.words[1]); err != nil {
				return err
			}
			_, err := partitionWords(c.words[2:])
			return err
		},
		run: txnMarkers,
	})
}

func txnMarkers(s *step, c *call) error {
	by, err := s.producer(c.words[0])
	if err != nil {
		return err
	}
	all, err := partitionWords(c.words[2:])
	if err != nil {
		return err
	}
	q := kmsg.NewPtrWriteTxnMarkersRequest()
	if err := s.version(q, c); err != nil {
		return err
	}
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	if m.ProducerID, m.ProducerEpoch, err = s.asProducer(c, by); err != nil {
		return err
	}
	if m.Committed, err = commits(c.words[1]); err != nil {
		return err
	}
	coordinator, err := c.numberOption("coordinator-epoch", 0, -1<<31, 1<<31-1)
	if err != nil {
		return err
	}
	transaction, err := c.numberOption("transaction-version", 0, -1<<7, 1<<7-1)
	if err != nil {
		return err
	}
	m.CoordinatorEpoch, m.TransactionVersion = int32(coordinator), int8(transaction)
	nodes, of, err := s.byNode(c, all)
	if err != nil {
		return err
	}
	var outcomes []outcome
	for _, node := range nodes {
		m.Topics = nil
		for _, t := range byTopic(of[node]) {
			m.Topics = append(m.Topics, kmsg.WriteTxnMarkersRequestMarkerTopic{Topic: s.wire(t.topic), Partitions: t.partitions})
		}
		q.Markers = []kmsg.WriteTxnMarkersRequestMarker{m}
		p, err := ask[*kmsg.WriteTxnMarkersResponse](s, s.as(admin), node, q)
		if err != nil {
			return err
		}
		outcomes = slices.Concat(outcomes, s.markerOutcomes(p))
	}
	s.showOutcomes(outcomes, by.name+": an answer about nothing")
	return nil
}

func (s *step) markerOutcomes(p *kmsg.WriteTxnMarkersResponse) (all []outcome) {
	for _, m := range p.Markers {
		for _, t := range m.Topics {
			for _, x := range t.Partitions {
				all = append(all, outcome{topicPartition{s.script(t.Topic), x.Partition}, result(x.ErrorCode)})
			}
		}
	}
	return all
}
