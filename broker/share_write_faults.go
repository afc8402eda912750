package broker

import (
	"time"

	"kshare/fault"
)

// ShareWrites says which writes of share state (WriteShareGroupState) go wrong, and how. A leader writes what acknowledgements, closed sessions and ended
// locks change; what waits for the answer of the share coordinator waits for a write that does not go on.
type ShareWrites struct {
	Group     string // the group, "" for all
	Topic     string // the topic, "" for all
	Partition int32  // the partition of Topic, -1 for all; 0 where Topic is ""
	Count     int    // how many of the next writes, 0 for all until Remove
	// Hold keeps the writes until Release or Remove, Delay for a time of the cluster's clock; at most one of them is set. A write that
	// was kept is stored as it goes on, not before, unless Stage says so.
	Hold  bool
	Delay time.Duration
	// ErrorCode is what the share coordinator answers instead of writing, 0 where it writes. The leader tries again after
	// NETWORK_EXCEPTION, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR, as Apache Kafka does: 2, 4, 8 and 16 s later, each
	// attempt being one write.
	ErrorCode int16
	// Stage is fault.Before, which "" is too, or fault.After: the share coordinator writes at once, and what is held, delayed or an error is its answer, so that the leader does
	// not know of what is stored. A write that the share coordinator refuses is answered with its refusal.
	Stage fault.Stage
}

func (w *ShareWrites) faulty() faultyWrites {
	return faultyWrites{w.Group, w.Topic, w.Partition, w.Count, w.Hold, w.Delay, w.ErrorCode, w.Stage}
}

// Check tells why nothing would go wrong, or not as it says.
func (w *ShareWrites) Check() error {
	f := w.faulty()
	return f.check()
}

// FaultShareWrites makes writes of share state slow or has them fail. Where several faults match a write, the first of them counts. At most fault.MaxRules may
// be at work at a time.
func (c *Cluster) FaultShareWrites(w ShareWrites) (*WriteFault, error) {
	return c.addWriteFault(&c.share.faults, w.faulty())
}
