package crash

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// place is where a record lies.
type place struct {
	partition int32
	offset    int64
}

// release is an answer to an acknowledgement that released a record.
type release struct {
	count int32 // the delivery count that the record had
	at    time.Time
}

// ledger is what clients were answered, and what must therefore hold from then on.
type ledger struct {
	mu       sync.Mutex
	produced map[place]string // answered records
	// committed are the largest answered commits of each group by partition.
	committed map[string]map[int32]int64
	delivered map[place]bool // to share consumers
	// accepting are the records that a share consumer has tried to accept, whatever came of it: they may be done.
	accepting map[place]bool
	// settled is when it was answered that a record is accepted or rejected: no fetch that is sent later delivers it.
	settled map[place]time.Time
	// released is the answered release with the largest delivery count: what is delivered to fetches that are sent later has a larger one.
	released   map[place]release
	topics     map[string]topicFate
	events     int // answers of all kinds
	reached    int // wake is closed once events gets here
	wake       chan struct{}
	violations []string
}

func newLedger() *ledger {
	return &ledger{
		produced:  map[place]string{},
		committed: map[string]map[int32]int64{},
		delivered: map[place]bool{},
		accepting: map[place]bool{},
		settled:   map[place]time.Time{},
		released:  map[place]release{},
		topics:    map[string]topicFate{},
	}
}

// event counts an answer. l.mu is held.
func (l *ledger) event() {
	l.events++
	if l.wake != nil && l.events >= l.reached {
		close(l.wake)
		l.wake = nil
	}
}

// after returns a channel that is closed once n more answers came.
func (l *ledger) after(n int) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reached, l.wake = l.events+n, make(chan struct{})
	return l.wake
}

// violate notes that a promise was broken. l.mu is held.
func (l *ledger) violate(format string, args ...any) {
	l.violations = append(l.violations, fmt.Sprintf(format, args...))
}

func (l *ledger) noteProduced(r *kgo.Record, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.violate("producing %s: %v", r.Value, err)
		return
	}
	at := place{r.Partition, r.Offset}
	if other, ok := l.produced[at]; ok {
		l.violate("%s and %s were both answered with %v", other, r.Value, at)
	}
	l.produced[at] = string(r.Value)
	l.event()
}

func (l *ledger) noteCommitted(group string, partition int32, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.committed[group] == nil {
		l.committed[group] = map[int32]int64{}
	}
	l.committed[group][partition] = max(l.committed[group][partition], offset)
	l.event()
}

// noteDelivered takes a delivery to a share consumer and checks that it may happen. sent is when the fetch was sent, or earlier. What was answered since
// says nothing of it: a fetch waits for the write of acknowledgements that it carries, and the locks of what it has acquired may end meanwhile.
func (l *ledger) noteDelivered(at place, count int32, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if settled, ok := l.settled[at]; ok && sent.After(settled) {
		l.violate("%v was delivered with count %d after it was settled", at, count)
	}
	if r, ok := l.released[at]; ok && sent.After(r.at) && count <= r.count {
		l.violate("%v was delivered with count %d after it was released with count %d", at, count, r.count)
	}
	l.delivered[at] = true
}

// noteAccepting takes the attempt to accept a record.
func (l *ledger) noteAccepting(at place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepting[at] = true
}

// unaccounted are the produced records of which a share group that is done with everything has lost track: nobody has tried to accept them, and they are no dead letters, which all are
// that were rejected or delivered as often as they may be.
func (l *ledger) unaccounted(dead map[place]bool) (lost []place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := range l.produced {
		if !l.accepting[at] && !dead[at] {
			lost = append(lost, at)
		}
	}
	return lost
}

// noteSettled takes the answer to an acknowledgement that ends a record's deliveries. One of a delivery whose lock has ended is answered as well where the
// record is settled and passed by then.
func (l *ledger) noteSettled(at place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.settled[at]; !ok {
		l.settled[at] = time.Now()
	}
	l.event()
}

func (l *ledger) noteReleased(at place, count int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if count > l.released[at].count {
		l.released[at] = release{count, time.Now()}
	}
	l.event()
}

// snapshot is the ledger at a moment.
type snapshot struct {
	produced  map[place]string
	committed map[string]map[int32]int64
	topics    map[string]topicFate
	settled   map[place]time.Time
	released  map[place]release
}

func (l *ledger) snapshot() snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := snapshot{produced: maps.Clone(l.produced), committed: map[string]map[int32]int64{}, topics: maps.Clone(l.topics), settled: maps.Clone(l.settled), released: maps.Clone(l.released)}
	for group, offsets := range l.committed {
		s.committed[group] = maps.Clone(offsets)
	}
	return s
}

func (l *ledger) broken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.violations
}
