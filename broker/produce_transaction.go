package broker

import (
	"slices"
	"time"

	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/txn"
)

// The first Produce version that makes its partitions part of the transaction itself, and that whose clients know TRANSACTION_ABORTABLE.
const (
	firstAddingProduce    = 12
	firstAbortableProduce = 11
)

// A Produce that finds another transaction of the producer still ending asks again, so often and so long afterwards
// (add.partitions.to.txn.retry.backoff.ms and .max.ms).
const (
	enrolmentBackoff  = 20 * time.Millisecond
	enrolmentAttempts = 6
)

// enrol makes the partitions that transactional batches go to part of the transaction. It reports false where the request waits for that; the answer then comes later.
func (pr *produce) enrol(entries []*produceEntry) bool {
	c := pr.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if ids := producersOf(entries); len(ids) > 1 {
		for _, entry := range entries {
			entry.refused = true
			pr.fail(entry, errorcode.InvalidProducerIDMapping, "Transactional records contained more than one producer ID")
		}
		return true
	}
	return pr.ask(entries, 1)
}

// enter begins to make sure that the batches are of the transaction.
func (pr *produce) enter(entries []*produceEntry) *enrolment {
	e := &enrolment{id: *pr.q.TransactionID, add: pr.q.Version >= firstAddingProduce, newErrors: pr.q.Version >= firstAbortableProduce}
	for _, entry := range entries {
		h, ok := transactionalBatch(entry)
		if !ok || entry.refused {
			continue
		}
		entry.transactional = true
		e.by = txn.Producer{ID: h.ProducerID, Epoch: h.ProducerEpoch}
		if no := e.enter(entry.target, &h, pr.cluster.now()); no != nil {
			entry.refused = true
			pr.fail(entry, no.Code, "")
		}
	}
	return e
}

// transactionalBatch is the header of an entry's batch, false where that is part of no transaction.
func transactionalBatch(e *produceEntry) (protocol.BatchHeader, bool) {
	h, err := protocol.ParseBatchHeader(e.records)
	return h, err == nil && h.IsTransactional()
}

// producersOf are the producer ids of transactional batches.
func producersOf(entries []*produceEntry) map[int64]bool {
	ids := map[int64]bool{}
	for _, e := range entries {
		if h, ok := transactionalBatch(e); ok {
			ids[h.ProducerID] = true
		}
	}
	return ids
}

// ask asks the transaction coordinator for a request's partitions. Each attempt begins anew: the markers that it waits for end what the one before has begun.
// The cluster's lock is held.
func (pr *produce) ask(entries []*produceEntry, attempt int) bool {
	e := pr.enter(entries)
	code := e.ask(pr.cluster, pr.request)
	if code == errorcode.ConcurrentTransactions && e.add && attempt < enrolmentAttempts {
		t := pr.cluster.after(enrolmentBackoff, func() {
			if pr.ask(entries, attempt+1) {
				pr.finishLater(entries)
			}
		})
		if attempt == 1 {
			pr.request.park(nil)
		}
		pr.request.cancel = func() { t.Stop() }
		return false
	}
	for _, entry := range entries {
		refused := code
		if refused == errorcode.None {
			refused = e.codes[entry.target]
		}
		if entry.transactional && refused != errorcode.None {
			entry.refused = true
			refused, message := produceRefusal(refused, pr.q.Version)
			pr.fail(entry, refused, message)
		}
	}
	return true
}

// produceRefusal is the coordinator's code as Produce answers it, with Kafka's message where that has one.
func produceRefusal(code, version int16) (refused int16, message string) {
	switch code {
	case errorcode.InvalidTxnState:
		return code, "Partition was not added to the transaction"
	case errorcode.ConcurrentTransactions:
		if version >= firstAddingProduce {
			return code, ""
		}
	case errorcode.NetworkException, errorcode.CoordinatorLoadInProgress, errorcode.CoordinatorNotAvailable, errorcode.NotCoordinator:
	default:
		return code, ""
	}
	return errorcode.NotEnoughReplicas, "Unable to verify the partition has been added to the transaction. Underlying error: " + errorcode.Name(code)
}

// finishLater goes on with a request that has waited. The cluster's lock is held, also while the batches are validated: few requests come this way.
func (pr *produce) finishLater(entries []*produceEntry) {
	pr.appendAll(pr.validate(unrefused(entries)))
	a, err := pr.answer()
	pr.request.closing = err
	pr.request.complete(a)
}

// unrefused are the entries that the transaction coordinator has nothing against.
func unrefused(entries []*produceEntry) []*produceEntry {
	return slices.DeleteFunc(entries, func(e *produceEntry) bool { return e.refused })
}

// verified tells whether an entry's batch may begin a transaction in its partition.
func (pr *produce) verified(e *produceEntry) bool {
	return !e.transactional || e.target.producers.Verified(e.result.Header.ProducerID) ||
		!pr.cluster.brokerValues().Bool("transaction.partition.verification.enable")
}
