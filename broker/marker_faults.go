package broker

import (
	"time"

	"kshare/fault"
)

// MarkerWrites says which markers of a transaction coordinator (WriteTxnMarkers) go wrong, and how. The transaction stays in PrepareCommit or PrepareAbort
// until all its partitions have answered. Markers that a client writes itself are not among them.
type MarkerWrites struct {
	TransactionalID string // the transactional id, "" for all
	Topic           string // the topic of the partition that the marker is for, "" for all; also __consumer_offsets and __share_group_state
	Partition       int32  // the partition of Topic, -1 for all; 0 where Topic is ""
	Count           int    // how many of the next markers, each partition's being one, 0 for all until Remove
	// Hold keeps the markers until Release or Remove, Delay for a time of the cluster's clock; at most one of them is set. A marker that was kept is
	// written as it goes on, with the coordinator epoch that it was sent with, whoever coordinates the transaction by then, unless Stage says otherwise.
	Hold  bool
	Delay time.Duration
	// ErrorCode is what the partition answers instead of writing, 0 where it writes. As in Apache Kafka UNKNOWN_TOPIC_OR_PARTITION counts as written, after
	// INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED the coordinator gives up until it is loaded again, and after any other it tries again, 100 ms later.
	ErrorCode int16
	// Stage is fault.Before, which "" is too, or fault.After: the marker is written at once, and what is held, delayed or an error is the partition's answer, so
	// that the transaction is not complete. A marker that the partition refuses is answered with its refusal.
	Stage fault.Stage
}

func (w *MarkerWrites) faulty() faultyWrites {
	return faultyWrites{w.TransactionalID, w.Topic, w.Partition, w.Count, w.Hold, w.Delay, w.ErrorCode, w.Stage}
}

// Check tells why nothing would go wrong, or not as it says.
func (w *MarkerWrites) Check() error {
	f := w.faulty()
	return f.check()
}

// FaultMarkers makes markers of transactions slow or has them fail. Where several faults match a marker, the first of them counts. At most fault.MaxRules
// may be at work at a time.
func (c *Cluster) FaultMarkers(w MarkerWrites) (*WriteFault, error) {
	return c.addWriteFault(&c.transactions.faults, w.faulty())
}
