package sharepartition

import (
	"math"
	"time"
)

// lock is one acquisition or one renewal: all its records have the same owner and end at the same moment.
type lock struct {
	deadline    time.Duration // since lockTable.base
	seq         uint64        // order of taking, which breaks ties
	first, last int64         // no record outside has this lock
	n           int64         // records that have it
	member      uint32
	armed       bool // in the heap: the deadline has not passed
}

// lockTable holds the locks of a partition and a heap of them by deadline. Index 0 stands for no lock.
// Invariant: a lock is armed, or has records whose write was unanswered when it ended, or is free.
type lockTable struct {
	base    time.Time // of the first lock; deadlines count from it so that a monotonic clock stays one
	all     []lock
	free    []uint32
	heap    []uint32
	dead    int // locks in the heap without records
	seq     uint64
	members memberTable
}

// take makes a lock without records.
func (t *lockTable) take(now time.Time, member string, duration time.Duration) uint32 {
	if len(t.all) == 0 {
		t.base = now
		t.all = append(t.all, lock{})
	}
	id := uint32(len(t.all))
	if len(t.free) > 0 {
		id = t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
	} else {
		t.all = append(t.all, lock{})
	}
	t.seq++
	t.all[id] = lock{deadline: now.Sub(t.base) + duration, seq: t.seq, first: math.MaxInt64, last: -1,
		member: t.members.hold(member), armed: true}
	if t.dead > 16 && 2*t.dead > len(t.heap) {
		t.sweep()
	}
	t.heap = append(t.heap, id)
	t.up(len(t.heap) - 1)
	return id
}

// cover widens the range that expiry has to look through.
func (t *lockTable) cover(id uint32, first, last int64) {
	l := &t.all[id]
	l.first, l.last = min(l.first, first), max(l.last, last)
}

func (t *lockTable) hold(id uint32, n int64) {
	if id != 0 {
		t.all[id].n += n
	}
}

func (t *lockTable) drop(id uint32, n int64) {
	if id == 0 {
		return
	}
	l := &t.all[id]
	if l.n -= n; l.n > 0 {
		return
	}
	if l.armed {
		t.dead++
		return
	}
	t.release(id)
}

func (t *lockTable) release(id uint32) {
	t.members.drop(t.all[id].member)
	t.all[id] = lock{}
	t.free = append(t.free, id)
}

// top is the armed lock that ends first and still has records, or 0.
func (t *lockTable) top() uint32 {
	for len(t.heap) > 0 {
		id := t.heap[0]
		if t.all[id].n > 0 {
			return id
		}
		t.disarm()
	}
	return 0
}

// disarm takes the top out of the heap. Records that keep the lock wait for an answer; its end is known to them
// by armed.
func (t *lockTable) disarm() {
	id := t.heap[0]
	last := len(t.heap) - 1
	t.heap[0] = t.heap[last]
	t.heap = t.heap[:last]
	t.down(0)
	t.all[id].armed = false
	if t.all[id].n == 0 {
		t.dead--
		t.release(id)
	}
}

// sweep drops the locks without records from the heap, which costs no more than taking them did.
func (t *lockTable) sweep() {
	live := t.heap[:0]
	for _, id := range t.heap {
		if t.all[id].n > 0 {
			live = append(live, id)
			continue
		}
		t.release(id)
	}
	t.heap, t.dead = live, 0
	for i := len(live)/2 - 1; i >= 0; i-- {
		t.down(i)
	}
}

func (t *lockTable) before(a, b uint32) bool {
	x, y := &t.all[a], &t.all[b]
	if x.deadline != y.deadline {
		return x.deadline < y.deadline
	}
	return x.seq < y.seq
}

func (t *lockTable) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.before(t.heap[i], t.heap[parent]) {
			return
		}
		t.heap[i], t.heap[parent] = t.heap[parent], t.heap[i]
		i = parent
	}
}

func (t *lockTable) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(t.heap) {
			return
		}
		if child+1 < len(t.heap) && t.before(t.heap[child+1], t.heap[child]) {
			child++
		}
		if !t.before(t.heap[child], t.heap[i]) {
			return
		}
		t.heap[i], t.heap[child] = t.heap[child], t.heap[i]
		i = child
	}
}

// memberTable numbers the members that hold a lock. Number 0 is nobody.
type memberTable struct {
	ids   map[string]uint32
	names []string
	refs  []int
	free  []uint32
	last  uint32 // asked for last, likely to be asked for next
}

// find is the number of a member, 0 where it holds no lock.
func (t *memberTable) find(name string) uint32 {
	if t.last != 0 && t.refs[t.last] > 0 && t.names[t.last] == name {
		return t.last
	}
	id := t.ids[name]
	t.last = id
	return id
}

func (t *memberTable) hold(name string) uint32 {
	id := t.find(name)
	if id != 0 {
		t.refs[id]++
		return id
	}
	if t.ids == nil {
		t.ids = make(map[string]uint32)
		t.names, t.refs = make([]string, 1), make([]int, 1)
	}
	if n := len(t.free); n > 0 {
		id, t.free = t.free[n-1], t.free[:n-1]
		t.names[id], t.refs[id] = name, 1
	} else {
		id = uint32(len(t.names))
		t.names, t.refs = append(t.names, name), append(t.refs, 1)
	}
	t.ids[name] = id
	return id
}

func (t *memberTable) drop(id uint32) {
	if t.refs[id]--; t.refs[id] > 0 {
		return
	}
	delete(t.ids, t.names[id])
	t.names[id] = ""
	t.free = append(t.free, id)
}
