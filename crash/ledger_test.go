package crash

import (
	"fmt"
	"maps"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// place is where a record lies.
type place struct {
	partition int32
	offset    int64
}

// ledger is what clients were answered, and what must therefore hold from then on.
type ledger struct {
	mu       sync.Mutex
	produced map[place]string // answered records
	// committed are the largest answered commits of each group by partition.
	committed map[string]map[int32]int64
	// delivered is how often each record was delivered to a share consumer; deliveries of a record are numbered from 1 on.
	delivered map[place]int
	// settled is the delivery that was answered to be accepted or rejected: none may follow it.
	settled map[place]int
	// released is the delivery count that a released record had: the next is larger.
	released   map[place]int32
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
		delivered: map[place]int{},
		settled:   map[place]int{},
		released:  map[place]int32{},
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

// noteDelivered numbers a delivery to a share consumer and checks that it may happen.
func (l *ledger) noteDelivered(at place, count int32) (number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delivered[at]++
	if settled, ok := l.settled[at]; ok {
		l.violate("%v was delivered again (count %d) after its delivery %d was settled", at, count, settled)
	}
	if released, ok := l.released[at]; ok && count <= released {
		l.violate("%v was delivered with count %d after it was released with count %d", at, count, released)
	}
	return l.delivered[at]
}

// noteSettled takes the answer to an acknowledgement that ends a record's deliveries.
func (l *ledger) noteSettled(at place, number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.delivered[at]; n > number {
		l.violate("%v was delivered %d times though its delivery %d was settled", at, n, number)
	}
	l.settled[at] = number
	l.event()
}

func (l *ledger) noteReleased(at place, number int, count int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.delivered[at] == number { // else the next delivery was noted before this answer
		l.released[at] = count
	}
	l.event()
}

// snapshot is the ledger at a moment.
type snapshot struct {
	produced  map[place]string
	committed map[string]map[int32]int64
	topics    map[string]topicFate
	settled   map[place]int
	released  map[place]int32
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
