package scenario

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:  "txn-end",
		usage: "txn-end PRODUCER commit|abort [id=PRODUCER|N] [epoch=N] [once=yes] [version=N]",
		summary: "Ends the producer's transaction (EndTxn) and waits until its markers are written, which once=yes does not. From version 5 on the producer has a new epoch with each transaction, or " +
			"a new id.",
		example: `
topic orders
init-producer p1 txn=payments
produce orders-0 a producer=p1 txn=yes
txn-end p1 abort
produce orders-0 b producer=p1 txn=yes
txn-end p1 commit
read orders-0 isolation=read_committed
txn-end p1 commit
----
orders: 1 partition
p1: producer <p1>, epoch 0
orders-0: offset 0
p1: aborted, producer <p1>, epoch 1
orders-0: offset 2
p1: committed, producer <p1>, epoch 2
orders-0: to 4; aborted: <p1> from 0
  0 a | 1 (abort) | 2 b | 3 (commit)
p1: INVALID_TXN_STATE (48)
`,
		optionNames: []string{"id", "epoch", "once", "version"},
		least:       2, most: 2,
		check: func(c *call) error { _, err := commits(c.words[1]); return err },
		run:   txnEnd,
	})
}

// commits reads how a transaction ends.
func commits(word string) (bool, error) {
	if word != "commit" && word != "abort" {
		return false, mistakef("%q: commit or abort", word)
	}
	return word == "commit", nil
}

func txnEnd(s *step, c *call) error {
	by, id, node, err := s.inTransaction(c.words[0])
	if err != nil {
		return err
	}
	q := kmsg.NewPtrEndTxnRequest()
	if err := s.version(q, c); err != nil {
		return err
	}
	once, err := c.flag("once")
	if err != nil {
		return err
	}
	if q.Commit, err = commits(c.words[1]); err != nil {
		return err
	}
	q.TransactionalID = id
	if q.ProducerID, q.ProducerEpoch, err = s.asProducer(c, by); err != nil {
		return err
	}
	p, err := ask[*kmsg.EndTxnResponse](s, by.name, node, q)
	if err != nil {
		return err
	}
	if p.ErrorCode != errorcode.None {
		s.printf("%s: %s", by.name, failure(p.ErrorCode, nil))
		return nil
	}
	text := "aborted"
	if q.Commit {
		text = "committed"
	}
	if q.Version >= 5 {
		s.become(by, p.ProducerID, p.ProducerEpoch)
		text += ", producer " + s.showEpoch(p.ProducerID, int32(p.ProducerEpoch))
	}
	if !once {
		if err := s.awaitMarkers(id); err != nil {
			return err
		}
	}
	s.printf("%s: %s", by.name, text)
	return nil
}

// awaitMarkers waits until a transaction that was ended has its markers.
func (s *step) awaitMarkers(id string) error {
	return s.until("the markers of "+id+" are not written", func() (bool, error) {
		t, err := s.transaction(id)
		return err == nil && !strings.HasPrefix(t.State, "Prepare"), err
	})
}
