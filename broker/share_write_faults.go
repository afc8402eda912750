package broker

import (
	"fmt"
	"slices"
	"time"

	"kshare/fault"
	"kshare/protocol/errorcode"
)

// ShareWrites says which writes of share state (WriteShareGroupState) go wrong, and how. A leader writes what acknowledgements, closed sessions and ended
// locks change; what waits for the answer of the share coordinator waits for a write that does not go on.
type ShareWrites struct {
	Group     string // the group, "" for all
	Topic     string // the topic, "" for all
	Partition int32  // the partition of Topic, -1 for all; 0 where Topic is ""
	Count     int    // how many of the next writes, 0 for all until Remove
	// Hold keeps the writes until Release or Remove, Delay for a time of the cluster's clock; at most one of them is set. A write that
	// was kept is stored as it goes on, not before.
	Hold  bool
	Delay time.Duration
	// ErrorCode is what the share coordinator answers instead of writing, 0 where it writes. The leader tries again after
	// NETWORK_EXCEPTION, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR, as Apache Kafka does: 2, 4, 8 and 16 s later, each
	// attempt being one write.
	ErrorCode int16
}

// Check tells why nothing would go wrong, or not as it says.
func (w *ShareWrites) Check() error {
	switch {
	case w.Partition < -1 || w.Partition > 0 && w.Topic == "":
		return fmt.Errorf("partition %d of topic %q: name a topic and a partition of it, or -1 for all", w.Partition, w.Topic)
	case w.Count < 0:
		return fmt.Errorf("a count of %d writes: name how many, or 0 for all", w.Count)
	case w.Delay < 0:
		return fmt.Errorf("a delay of %s: it cannot be negative", w.Delay)
	case w.Hold && w.Delay > 0:
		return fmt.Errorf("held and a delay of %s: a write is held or delayed, not both", w.Delay)
	case !w.Hold && w.Delay == 0 && w.ErrorCode == errorcode.None:
		return fmt.Errorf("nothing goes wrong: name an error code, a delay, or have the writes held")
	}
	return nil
}

// ShareWriteFault is a fault of share-state writes that was begun with FaultShareWrites.
type ShareWriteFault struct {
	cluster *Cluster
	writes  ShareWrites
	left    int // of Count
	held    []*shareWrite
}

// FaultShareWrites makes writes of share state slow or has them fail. Where several faults match a write, the first of them counts. At most fault.MaxRules may
// be at work at a time.
func (c *Cluster) FaultShareWrites(w ShareWrites) (*ShareWriteFault, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.share.faults) >= fault.MaxRules {
		return nil, fmt.Errorf("there are %d already: remove those that are no longer needed first", fault.MaxRules)
	}
	f := &ShareWriteFault{cluster: c, writes: w, left: w.Count}
	c.share.faults = append(c.share.faults, f)
	return f, nil
}

// Held is the number of writes that are held.
func (f *ShareWriteFault) Held() int {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	return len(f.held)
}

// Over tells whether the fault has done what it was to do, or is removed, and holds no write any more.
func (f *ShareWriteFault) Over() bool {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	return len(f.held) == 0 && !slices.Contains(f.cluster.share.faults, f)
}

// Release lets the writes go on that are held, and returns how many they were. Later ones are held as before.
func (f *ShareWriteFault) Release() int {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	return f.release()
}

// Remove ends the fault and lets the writes go on that are held. A write that is delayed goes on in its time.
func (f *ShareWriteFault) Remove() {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	f.remove()
	f.release()
}

func (f *ShareWriteFault) remove() {
	s := f.cluster.share
	s.faults = slices.DeleteFunc(slices.Clone(s.faults), func(other *ShareWriteFault) bool { return other == f })
}

func (f *ShareWriteFault) release() int {
	held := f.held
	f.held = nil
	if f.cluster.closed {
		return 0
	}
	for _, w := range held {
		w.goOn(f.writes.ErrorCode)
	}
	return len(held)
}

// matches tells whether the fault is about the writes of a share partition.
func (f *ShareWriteFault) matches(sp *sharePartition) bool {
	w := &f.writes
	return (w.Group == "" || w.Group == sp.group) && (w.Topic == "" || w.Topic == sp.partition.topic.name && (w.Partition == -1 || w.Partition == sp.partition.index))
}

// take does to a write what the fault is about.
func (f *ShareWriteFault) take(w *shareWrite) {
	if f.left--; f.left == 0 {
		f.remove()
	}
	switch {
	case f.writes.Hold:
		f.held = append(f.held, w)
	case f.writes.Delay > 0:
		f.cluster.after(f.writes.Delay, func() { w.goOn(f.writes.ErrorCode) })
	default:
		w.goOn(f.writes.ErrorCode)
	}
}
