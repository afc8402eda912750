package scenario

import "github.com/twmb/franz-go/pkg/kmsg"

func init() {
	register(&command{
		name:    "txn-add-offsets",
		usage:   "txn-add-offsets PRODUCER GROUP [id=PRODUCER|N] [epoch=N] [version=N]",
		summary: "Adds the offsets of a group to the producer's transaction (AddOffsetsToTxn).",
		example: `
# kshare offers no transactions yet.
init-producer p1 txn=payments
txn-add-offsets p1 readers
----
p1: UNSUPPORTED_VERSION (35)
AddOffsetsToTxn is not offered
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
