package scenario

import (
	"fmt"

	"kshare"
)

func init() {
	register(&command{
		name:  "open-transactions",
		usage: "open-transactions",
		summary: "Lists the transactions that are not complete, how long each lasts already, and the records of share groups whose acknowledgements wait for its end (KIP-1289). Acknowledgements for " +
			"which no end will come are listed by their producers.",
		example: `
topic orders
init-producer p1 txn=payments
init-producer p2 txn=refunds
produce orders-0 a producer=p1 txn=yes
advance 30s
open-transactions
txn-end p1 commit
open-transactions
----
orders: 1 partition
p1: producer <p1>, epoch 0
p2: producer <p2>, epoch 0
orders-0: offset 0
payments: Ongoing, producer <p1>, epoch 0, timeout 1m, lasts 30s, partitions orders-0
p1: committed, producer <p1>, epoch 1
no open transactions
`,
		reach: inside, looks: true,
		run: func(s *step, _ *call) error {
			all := s.target.cluster().InspectTransactions()
			if len(all) == 0 {
				s.printf("no open transactions")
			}
			for i := range all {
				s.showOpenTransaction(&all[i])
			}
			return nil
		},
	})
}

func (s *step) showOpenTransaction(t *kshare.OpenTransaction) {
	if t.ID == "" {
		s.printf("producer %s: no open transaction", s.producerName(t.ProducerID))
	} else {
		text := fmt.Sprintf("%s: %s, producer %s, %s, lasts %s", s.script(t.ID), t.State, s.showEpoch(t.ProducerID, int32(t.ProducerEpoch)), transactionTimeoutText(t.Timeout), show(s.target.now().Sub(t.Began)))
		var all []topicPartition
		for _, p := range t.Partitions {
			all = append(all, topicPartition{p.Topic, p.Partition})
		}
		s.printf("%s%s", text, s.transactionPartitions(all))
	}
	for _, r := range t.Staged {
		s.printf("  %s of %s waits: %s", topicPartition{s.script(r.Topic), r.Partition}, s.script(r.Group), offsets(r.FirstOffset, r.LastOffset))
	}
}
