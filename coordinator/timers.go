package coordinator

import (
	"container/heap"
	"time"
)

// timers are the calls that groups asked for at a time, each named by its group and a name within it.
// Calls due at once run in the order of their times, then in that of their scheduling.
type timers struct {
	queue timerQueue
	byKey map[string]map[string]*timer
	seq   uint64
}

type timer struct {
	group, name string
	at          time.Time
	seq         uint64
	index       int // in the queue
	call        func(now time.Time, e *Effects)
}

// schedule asks for a call at a time, in place of an earlier one of the same name.
func (t *timers) schedule(group, name string, at time.Time, call func(now time.Time, e *Effects)) {
	t.cancel(group, name)
	if t.byKey == nil {
		t.byKey = map[string]map[string]*timer{}
	}
	names := t.byKey[group]
	if names == nil {
		names = map[string]*timer{}
		t.byKey[group] = names
	}
	t.seq++
	x := &timer{group: group, name: name, at: at, seq: t.seq, call: call}
	names[name] = x
	heap.Push(&t.queue, x)
}

// scheduled reports whether a call of the name is owed.
func (t *timers) scheduled(group, name string) bool { return t.byKey[group][name] != nil }

// at is when a call of the name is owed, zero where none is.
func (t *timers) at(group, name string) time.Time {
	if x := t.byKey[group][name]; x != nil {
		return x.at
	}
	return time.Time{}
}

func (t *timers) cancel(group, name string) {
	if x := t.byKey[group][name]; x != nil {
		heap.Remove(&t.queue, x.index)
		t.dropKey(x)
	}
}

func (t *timers) cancelAll(group string) {
	for _, x := range t.byKey[group] {
		heap.Remove(&t.queue, x.index)
	}
	delete(t.byKey, group)
}

func (t *timers) dropKey(x *timer) {
	names := t.byKey[x.group]
	delete(names, x.name)
	if len(names) == 0 {
		delete(t.byKey, x.group)
	}
}

// Expire makes the calls that are due at now, those that they schedule for now or earlier included.
func (g *Groups) Expire(now time.Time, e *Effects) {
	t := &g.timers
	for len(t.queue) > 0 && !t.queue[0].at.After(now) {
		x := heap.Pop(&t.queue).(*timer)
		t.dropKey(x)
		x.call(now, e)
	}
	if !g.retentionAt.IsZero() && !g.retentionAt.After(now) {
		g.expireOffsets(now, e)
		g.retentionAt = now.Add(g.config.OffsetsRetentionCheckPeriod)
	}
}

// NextDeadline is the earliest time at which Expire has something to do; ok is false if there is none.
func (g *Groups) NextDeadline() (at time.Time, ok bool) {
	at = g.retentionAt
	if len(g.timers.queue) > 0 && (at.IsZero() || g.timers.queue[0].at.Before(at)) {
		at = g.timers.queue[0].at
	}
	return at, !at.IsZero()
}

type timerQueue []*timer

func (q timerQueue) Len() int { return len(q) }

func (q timerQueue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].seq < q[j].seq
	}
	return q[i].at.Before(q[j].at)
}

func (q timerQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *timerQueue) Push(x any) {
	t := x.(*timer)
	t.index = len(*q)
	*q = append(*q, t)
}

func (q *timerQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return x
}
