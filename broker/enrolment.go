package broker

import (
	"kshare/logvalidator"
	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/txn"
)

// enrolment makes sure that the partitions that a producer is about to write to are part of its transaction: they are added to it, or it is verified that
// they are. Partitions in which the transaction is open already are not asked for.
// Source: AddPartitionsToTxnManager, ReplicaManager.maybeSendPartitionsToTransactionCoordinator.
type enrolment struct {
	id  string
	by  txn.Producer
	add bool // the request's version adds (transaction.version 2)
	// newErrors tells that the client knows TRANSACTION_ABORTABLE.
	newErrors bool

	partitions []*partition
	codes      map[*partition]int16 // of those that are refused
}

// enter notes that a batch is about to be written to a partition. It returns why it cannot be, where that is known without asking.
func (e *enrolment) enter(p *partition, h *protocol.BatchHeader, nowMs int64) *logvalidator.Refusal {
	if p.producers.OngoingTransaction(h.ProducerID, h.ProducerEpoch) {
		return nil
	}
	if no := p.producers.StartVerification(h, e.add, nowMs); no != nil {
		return no
	}
	e.partitions = append(e.partitions, p)
	return nil
}

// ask asks the transaction coordinator. It returns the code for all partitions, or fills codes.
func (e *enrolment) ask(c *Cluster, r *request) int16 {
	if len(e.partitions) == 0 || !e.add && !c.brokerValues().Bool("transaction.partition.verification.enable") {
		return errorcode.None
	}
	kept := c.transactionPartition(e.id)
	if kept == nil || c.node(kept.leader) == nil {
		return e.told(errorcode.CoordinatorNotAvailable)
	}
	n := c.node(kept.leader)
	asked := make([]txn.TopicPartition, len(e.partitions))
	for i, p := range e.partitions {
		asked[i] = txn.TopicPartition{Topic: p.topic.name, Partition: p.index}
	}
	if e.add {
		code := c.addPartitions(r, n, e.id, e.by, asked, txn.Flow2)
		if code == errorcode.None {
			code = c.pushTransactions(e.id)
		}
		return e.told(code)
	}
	codes, code := c.verifyTransaction(n, e.id, e.by, asked)
	if code != errorcode.None {
		return e.told(code)
	}
	e.codes = map[*partition]int16{}
	for i, p := range e.partitions {
		if codes[i] != errorcode.None {
			e.codes[p] = e.told(codes[i])
		}
	}
	return errorcode.None
}

// told is the coordinator's code as the producer is told it.
func (e *enrolment) told(code int16) int16 {
	switch {
	case code == errorcode.ProducerFenced:
		return errorcode.InvalidProducerEpoch
	case code == errorcode.TransactionAbortable && !e.newErrors:
		return errorcode.InvalidTxnState
	}
	return code
}
