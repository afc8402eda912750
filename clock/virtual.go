package clock

import (
	"container/heap"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Last is the latest time to start a virtual clock at or to move it to: RFC 3339 and JSON have no form for a year of five digits, and what is
// due later is still to have one.
var Last = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// CheckReach tells why a virtual clock cannot be moved to a time, nil where it can.
func CheckReach(end time.Time) error {
	if end.After(Last) {
		return fmt.Errorf("time would be %s: it can be moved to %s at most", end.UTC().Format("2006-01-02T15:04:05Z"), Last.Format(time.RFC3339))
	}
	return nil
}

// Virtual is a clock that stands still until it is advanced.
//
// Timers fire in the order of (deadline, order of AfterFunc), each with Now() equal to its own deadline, in
// the goroutine that advances. The same calls in the same order therefore give the same run.
type Virtual struct {
	advancing sync.Mutex // held over a whole Advance, so that two of them do not interleave
	mu        sync.Mutex // guards what follows; never held while a timer's function runs
	now       time.Time
	seq       uint64
	timers    timerHeap
	onMove    []*func(to time.Time)
}

// NewVirtual returns a clock that stands at now.
func NewVirtual(now time.Time) *Virtual { return &Virtual{now: now} }

// Now implements Clock.
func (v *Virtual) Now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

// AfterFunc implements Clock.
func (v *Virtual) AfterFunc(d time.Duration, f func()) Timer {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := &virtualTimer{clock: v, deadline: v.now.Add(max(d, 0)), seq: v.seq, f: f}
	v.seq++
	heap.Push(&v.timers, t)
	return t
}

// Advance moves the clock by d, firing on the way every timer whose deadline is not after the new time,
// also those armed by the timers that fire. d must not be negative.
func (v *Virtual) Advance(d time.Duration) {
	if d < 0 {
		panic("clock: Advance by a negative duration")
	}
	v.advancing.Lock()
	defer v.advancing.Unlock()
	v.mu.Lock()
	end := v.now.Add(d)
	if hooks := slices.Clone(v.onMove); d > 0 && len(hooks) > 0 {
		v.mu.Unlock()
		for _, f := range hooks {
			(*f)(end)
		}
		v.mu.Lock()
	}
	for len(v.timers) > 0 && !v.timers[0].deadline.After(end) {
		t := heap.Pop(&v.timers).(*virtualTimer)
		if t.deadline.After(v.now) {
			v.now = t.deadline
		}
		v.mu.Unlock()
		t.f()
		v.mu.Lock()
	}
	v.now = end
	v.mu.Unlock()
}

// OnMove has f called before each move of the clock with the time that it moves to, in the goroutine that advances, until stop is called. f must not advance
// the clock.
func (v *Virtual) OnMove(f func(to time.Time)) (stop func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	hook := &f
	v.onMove = append(v.onMove, hook)
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.onMove = slices.DeleteFunc(v.onMove, func(other *func(time.Time)) bool { return other == hook })
	}
}

// AdvanceToNext moves the clock to the next timer, as Advance does, but no further than limit: there it stands where no timer is due by then.
// A limit that is not after now moves nothing, but fires what is due now.
func (v *Virtual) AdvanceToNext(limit time.Time) {
	next, ok := v.NextDeadline()
	if !ok || next.After(limit) {
		next = limit
	}
	v.Advance(max(0, next.Sub(v.Now())))
}

// NextDeadline returns when the next timer fires, and false when none is armed.
func (v *Virtual) NextDeadline() (time.Time, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.timers) == 0 {
		return time.Time{}, false
	}
	return v.timers[0].deadline, true
}

type virtualTimer struct {
	clock    *Virtual
	deadline time.Time
	seq      uint64
	index    int // place in the heap, -1 once fired or stopped
	f        func()
}

// Stop implements Timer.
func (t *virtualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if t.index < 0 {
		return false
	}
	heap.Remove(&t.clock.timers, t.index)
	return true
}

type timerHeap []*virtualTimer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if !h[i].deadline.Equal(h[j].deadline) {
		return h[i].deadline.Before(h[j].deadline)
	}
	return h[i].seq < h[j].seq
}
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	t := x.(*virtualTimer)
	t.index = len(*h)
	*h = append(*h, t)
}
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}
