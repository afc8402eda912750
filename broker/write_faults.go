package broker

import (
	"fmt"
	"slices"
	"time"

	"kshare/fault"
	"kshare/protocol/errorcode"
)

// faultyWrites says which writes go wrong that brokers make by themselves, and how. It is what the exported kinds have in common.
type faultyWrites struct {
	owner, topic string // "" for all
	partition    int32  // -1 for all of topic
	count        int    // 0 for all
	hold         bool
	delay        time.Duration
	code         int16
	stage        fault.Stage // "" is fault.Before
}

// check tells why nothing would go wrong, or not as it says.
func (w *faultyWrites) check() error {
	switch {
	case w.partition < -1 || w.partition > 0 && w.topic == "":
		return fmt.Errorf("partition %d of topic %q: name a topic and a partition of it, or -1 for all", w.partition, w.topic)
	case w.count < 0:
		return fmt.Errorf("a count of %d writes: name how many, or 0 for all", w.count)
	case w.delay < 0:
		return fmt.Errorf("a delay of %s: it cannot be negative", w.delay)
	case w.hold && w.delay > 0:
		return fmt.Errorf("held and a delay of %s: a write is held or delayed, not both", w.delay)
	case w.stage != "" && w.stage != fault.Before && w.stage != fault.After:
		return fmt.Errorf("stage %q: a write goes wrong before it is done or after", w.stage)
	case !w.hold && w.delay == 0 && w.code == errorcode.None:
		return fmt.Errorf("nothing goes wrong: name an error code, a delay, or have the writes held")
	}
	return nil
}

// faultyWrite is a write that may be kept.
type faultyWrite interface {
	// doFirst does the write, whose answer is what goes wrong then.
	doFirst()
	// goOn ends what has kept the write: it is answered with a code, or done where the code is 0 and it is not done yet. What doFirst could not do is
	// answered as such.
	goOn(code int16)
}

// WriteFault is a fault of writes that brokers make by themselves, begun with FaultShareWrites or FaultMarkers.
type WriteFault struct {
	cluster *Cluster
	among   *[]*WriteFault // the faults of its kind, in the order in which they were begun
	writes  faultyWrites
	left    int // of the count
	held    []faultyWrite
}

// addWriteFault begins a fault of a kind.
func (c *Cluster) addWriteFault(among *[]*WriteFault, w faultyWrites) (*WriteFault, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(*among) >= fault.MaxRules {
		return nil, fmt.Errorf("there are %d already: remove those that are no longer needed first", fault.MaxRules)
	}
	f := &WriteFault{cluster: c, among: among, writes: w, left: w.count}
	*among = append(*among, f)
	return f, nil
}

// writeFaultOf is the first fault that a write matches, nil without one.
func writeFaultOf(faults []*WriteFault, owner string, p *partition) *WriteFault {
	for _, f := range faults {
		w := &f.writes
		if (w.owner == "" || w.owner == owner) && (w.topic == "" || w.topic == p.topic.name && (w.partition == -1 || w.partition == p.index)) {
			return f
		}
	}
	return nil
}

// Held is the number of writes that are held.
func (f *WriteFault) Held() int {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	return len(f.held)
}

// Over tells whether the fault has done what it was to do, or is removed, and holds no write any more.
func (f *WriteFault) Over() bool {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	return len(f.held) == 0 && !slices.Contains(*f.among, f)
}

// Release lets the writes go on that are held, and returns how many they were. Later ones are held as before.
func (f *WriteFault) Release() int {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	return f.release()
}

// Remove ends the fault and lets the writes go on that are held. A write that is delayed goes on in its time.
func (f *WriteFault) Remove() {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	f.remove()
	f.release()
}

func (f *WriteFault) remove() {
	*f.among = slices.DeleteFunc(slices.Clone(*f.among), func(other *WriteFault) bool { return other == f })
}

func (f *WriteFault) release() int {
	held := f.held
	f.held = nil
	if f.cluster.closed {
		return 0
	}
	for _, w := range held {
		w.goOn(f.writes.code)
	}
	return len(held)
}

// take does to a write what the fault is about.
func (f *WriteFault) take(w faultyWrite) {
	if f.left--; f.left == 0 {
		f.remove()
	}
	if f.writes.stage == fault.After {
		w.doFirst()
	}
	switch {
	case f.writes.hold:
		f.held = append(f.held, w)
	case f.writes.delay > 0:
		f.cluster.after(f.writes.delay, func() { w.goOn(f.writes.code) })
	default:
		w.goOn(f.writes.code)
	}
}
