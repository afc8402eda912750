package scenario

import "github.com/twmb/franz-go/pkg/kmsg"

func init() {
	register(&command{
		name:    "txn-add-offsets",
		usage:   "txn-add-offsets PRODUCER GROUP [id=PRODUCER|N] [epoch=N] [version=N]",
		summary: "Adds the offsets of a group to the producer's transaction (AddOffsetsToTxn).",
		example: `
topic orders
init-producer p1 txn=payments
txn-add-offsets p1 readers version=3
txn-describe payments
----
orders: 1 partition
p1: producer <p1>, epoch 0
p1: ok
payments: Ongoing, producer <p1>, epoch 0, timeout 1m, __consumer_offsets
`,
		optionNames: []string{"id", "epoch", "version"},
		least:       2, most: 2,
		run: func(s *step, c *call) error {
			by, id, node, err := s.inTransaction(c.words[0])
			if err != nil {
				return err
			}
			q := kmsg.NewPtrAddOffsetsToTxnRequest()
			if err := s.version(q, c); err != nil {
				return err
			}
			q.TransactionalID, q.Group = id, s.wire(c.words[1])
			if q.ProducerID, q.ProducerEpoch, err = s.asProducer(c, by); err != nil {
				return err
			}
			p, err := ask[*kmsg.AddOffsetsToTxnResponse](s, by.name, node, q)
			if err != nil {
				return err
			}
			s.printf("%s: %s", by.name, result(p.ErrorCode))
			return nil
		},
	})
}
