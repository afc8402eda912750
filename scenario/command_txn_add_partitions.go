package scenario

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:  "txn-add-partitions",
		usage: "txn-add-partitions PRODUCER [PARTITION ...] [id=PRODUCER|N] [epoch=N] [verify=yes] [version=3]",
		summary: "Adds partitions to the producer's transaction (AddPartitionsToTxn). Clients go up to version 3; from 4 on it is the brokers' own, which verify=yes only asks whether the partitions " +
			"are in the transaction.",
		example: `
topic orders partitions=2
init-producer p1 txn=payments
txn-add-partitions p1 orders-0 orders-1 version=3
txn-add-partitions p1 orders-9 orders-0 version=3
txn-describe payments
----
orders: 2 partitions
p1: producer <p1>, epoch 0
orders-0: ok
orders-1: ok
orders-0: OPERATION_NOT_ATTEMPTED (55)
orders-9: UNKNOWN_TOPIC_OR_PARTITION (3)
payments: Ongoing, producer <p1>, epoch 0, timeout 1m, partitions orders-0, orders-1
`,
		optionNames: []string{"id", "epoch", "verify", "version"},
		least:       1, most: -1,
		check: func(c *call) error { _, err := partitionWords(c.words[1:]); return err },
		run:   txnAddPartitions,
	})
}

// lastOfClients is the last version of AddPartitionsToTxn that clients send.
const lastOfClients = 3

func txnAddPartitions(s *step, c *call) error {
	all, err := partitionWords(c.words[1:])
	if err != nil {
		return err
	}
	by, id, node, err := s.inTransaction(c.words[0])
	if err != nil {
		return err
	}
	q := kmsg.NewPtrAddPartitionsToTxnRequest()
	if err := s.version(q, c); err != nil {
		return err
	}
	if _, ok := c.options["version"]; !ok {
		q.Version = min(q.Version, lastOfClients)
	}
	q.TransactionalID = id
	if q.ProducerID, q.ProducerEpoch, err = s.asProducer(c, by); err != nil {
		return err
	}
	batch := kmsg.AddPartitionsToTxnRequestTransaction{TransactionalID: id, ProducerID: q.ProducerID, ProducerEpoch: q.ProducerEpoch}
	if batch.VerifyOnly, err = c.flag("verify"); err != nil {
		return err
	}
	for _, t := range byTopic(all) {
		q.Topics = append(q.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: s.wire(t.topic), Partitions: t.partitions})
		batch.Topics = append(batch.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: s.wire(t.topic), Partitions: t.partitions})
	}
	q.Transactions = append(q.Transactions, batch)
	p, err := ask[*kmsg.AddPartitionsToTxnResponse](s, by.name, node, q)
	if err != nil {
		return err
	}
	if p.ErrorCode != errorcode.None {
		s.printf("%s: %s", by.name, failure(p.ErrorCode, nil))
		return nil
	}
	var outcomes []outcome
	for _, t := range p.Topics {
		for _, x := range t.Partitions {
			outcomes = append(outcomes, outcome{topicPartition{s.script(t.Topic), x.Partition}, result(x.ErrorCode)})
		}
	}
	for _, of := range p.Transactions {
		for _, t := range of.Topics {
			for _, x := range t.Partitions {
				outcomes = append(outcomes, outcome{topicPartition{s.script(t.Topic), x.Partition}, result(x.ErrorCode)})
			}
		}
	}
	s.showOutcomes(outcomes, by.name+": ok, no partitions")
	return nil
}
