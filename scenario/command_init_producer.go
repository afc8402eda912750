package scenario

import (
	"time"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:  "init-producer",
		usage: "init-producer NAME [txn=ID] [timeout=1m] [id=PRODUCER|N] [epoch=N] [two-phase=yes] [keep-prepared=yes] [once=yes] [node=N] [version=N]",
		summary: "Makes an idempotent producer, or with txn a transactional one (InitProducerId). id and epoch are those to raise. While the coordinator asks to come again it is asked again; " +
			"once=yes sends one request. two-phase=yes asks for transactions without a timeout, keep-prepared=yes for the one under way to be kept rather than aborted (KIP-939): " +
			"both are in version 6, which brokers have with unstable.api.versions.enable=true.",
		example: `
topic orders
init-producer p1
produce orders-0 a b producer=p1
produce orders-0 c producer=p1 sequence=9
init-producer p1
init-producer p2 epoch=0
----
orders: 1 partition
p1: producer <p1>, epoch 0
orders-0: offsets 0-1
orders-0: OUT_OF_ORDER_SEQUENCE_NUMBER (45)
p1: producer <p1#2>, epoch 0
p2: INVALID_REQUEST (42)

init-producer p3 txn=payments
init-producer p3 txn=payments
----
p3: producer <p3>, epoch 0
p3: producer <p3>, epoch 1
`,
		optionNames: []string{"txn", "timeout", "id", "epoch", "two-phase", "keep-prepared", "once", "node", "version"},
		least:       1, most: 1,
		run: initProducer,
	})
}

// transactionTimeout is that of Java's producer.
const transactionTimeout = time.Minute

func initProducer(s *step, c *call) error {
	name := c.words[0]
	q := protocol.NewInitProducerIDRequest()
	if err := s.version(q, c); err != nil {
		return err
	}
	timeout, err := c.durationOption("timeout", transactionTimeout)
	if err != nil {
		return err
	}
	if q.ProducerID, q.ProducerEpoch, err = s.asProducer(c, &producer{id: -1, epoch: -1}); err != nil {
		return err
	}
	q.TransactionTimeoutMillis = int32(timeout.Milliseconds())
	if q.Enable2PC, err = c.flag("two-phase"); err != nil {
		return err
	}
	if q.KeepPreparedTxn, err = c.flag("keep-prepared"); err != nil {
		return err
	}
	if (q.Enable2PC || q.KeepPreparedTxn) && q.Version < protocol.InitTwoPhase {
		return mistakef("two-phase and keep-prepared are in version %d of InitProducerId, and this would be version %d; brokers have it with unstable.api.versions.enable=true",
			protocol.InitTwoPhase, q.Version)
	}
	node := s.someNode()
	if id, ok := c.options["txn"]; ok {
		id = s.wire(id)
		q.TransactionalID = &id
		if node, err = s.transactional(id); err != nil {
			return err
		}
	}
	if _, ok := c.options["node"]; ok {
		if node, err = s.node(c, topicPartition{}); err != nil {
			return err
		}
	}
	once, err := c.flag("once")
	if err != nil {
		return err
	}
	var p *protocol.InitProducerIDResponse
	err = s.until(name+" is asked to come again", func() (bool, error) {
		p, err = ask[*protocol.InitProducerIDResponse](s, name, node, q)
		return err == nil && (once || !settling(p.ErrorCode)), err
	})
	if err != nil {
		return err
	}
	by := s.producers[name]
	if by == nil {
		by = &producer{name: name, id: -1, epoch: -1, next: map[topicPartition]int32{}}
		s.producers[name] = by
	}
	by.transactionalID = q.TransactionalID
	if p.ErrorCode != errorcode.None {
		s.printf("%s: %s", name, failure(p.ErrorCode, nil))
		return nil
	}
	s.become(by, p.ProducerID, p.ProducerEpoch)
	kept := ""
	if p.OngoingTxnProducerID != -1 {
		kept = ", kept the transaction of producer " + s.showEpoch(p.OngoingTxnProducerID, int32(p.OngoingTxnProducerEpoch))
	}
	s.printf("%s: producer %s%s", name, s.showEpoch(p.ProducerID, int32(p.ProducerEpoch)), kept)
	return nil
}
