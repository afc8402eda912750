package sharepartition

import (
	"slices"
	"time"
)

// model is the same machine a record at a time: no bits, no shared locks, no counts, everything found by looking
// at every record. An acknowledgement is applied in order and undone where a later part fails.
type model struct {
	start, end int64
	gapOpen    bool
	gapStart   int64
	gapEnd     int64
	batches    []*modelBatch
	writes     []*modelWrite
	lastWrite  uint64
	lastLock   int
}

type modelBatch struct {
	first, last int64
	split       bool
	recs        map[int64]*rec
}

type rec struct {
	state    State
	count    int
	member   string // "" without a lock
	lock     int    // the acquisition or renewal
	deadline time.Duration
	expired  bool // the lock ended while the write was unanswered
	write    uint64
	staged   Staged // where state is TxPending
	stagedBy string
}

type modelWrite struct {
	id      uint64
	waits   bool
	limit   int
	records []StateBatch // one record each
}

func newModel(start int64, batches []StateBatch) *model {
	m := &model{start: start, end: start}
	for _, s := range batches {
		if s.FirstOffset > m.end && !m.gapOpen {
			m.gapOpen, m.gapStart = true, m.end
		}
		b := m.insert(s.FirstOffset, s.LastOffset)
		for _, r := range b.recs {
			r.state, r.count, r.staged = s.State, int(s.DeliveryCount), s.Staged
		}
		m.end = s.LastOffset + 1
	}
	m.gapEnd = m.end
	m.advance()
	return m
}

func (m *model) insert(first, last int64) *modelBatch {
	b := &modelBatch{first: first, last: last, recs: map[int64]*rec{}}
	for o := first; o <= last; o++ {
		b.recs[o] = &rec{}
	}
	m.batches = append(m.batches, b)
	slices.SortFunc(m.batches, func(a, b *modelBatch) int { return int(a.first - b.first) })
	return b
}

func (m *model) gap() bool { return m.gapOpen && m.gapEnd == m.end }

func (m *model) passGap(o int64) {
	if m.gapOpen && m.gap() && o < m.gapEnd {
		m.gapStart = max(m.gapStart, o)
		return
	}
	m.gapOpen = false
}

// each calls f for every record in offset order until it returns false.
func (m *model) each(f func(o int64, b *modelBatch, r *rec) bool) {
	for _, b := range m.batches {
		for o := b.first; o <= b.last; o++ {
			if !f(o, b, b.recs[o]) {
				return
			}
		}
	}
}

func (r *rec) free() bool { return r.state == Available && r.write == 0 }

func (m *model) complete() int64 {
	n := int64(0)
	m.each(func(o int64, _ *modelBatch, r *rec) bool {
		if o >= m.start && r.state.terminal() {
			n++
		}
		return true
	})
	return n
}

func (m *model) inFlight() int64 {
	if len(m.batches) == 0 {
		return 0
	}
	return m.end - m.start
}

func (m *model) next() int64 {
	if len(m.batches) == 0 || m.start > m.batches[len(m.batches)-1].last {
		return m.end
	}
	covered := map[int64]bool{}
	found := m.end
	m.each(func(o int64, _ *modelBatch, r *rec) bool {
		covered[o] = true
		if r.free() {
			found = min(found, o)
		}
		return true
	})
	if m.gap() {
		for o := m.gapStart; o < found; o++ {
			if !covered[o] {
				return o
			}
		}
	}
	return found
}

func (m *model) archive(first, last int64, from State) {
	for _, b := range m.batches {
		lo, hi := max(first, b.first), min(last, b.last)
		if lo > hi {
			continue
		}
		if !b.split && (lo > b.first || hi < b.last) && b.recs[b.first].state == from {
			b.split = true
		}
		for o := lo; o <= hi; o++ {
			if b.recs[o].state == from {
				b.recs[o] = &rec{state: Archived, count: b.recs[o].count}
			}
		}
	}
}

func (m *model) floor(o int64) int {
	n := -1
	for i, b := range m.batches {
		if b.first <= o {
			n = i
		}
	}
	return n
}

func (m *model) acknowledge(now time.Duration, member string, acks []Acknowledgement, lim Limits) (Write, *Refusal) {
	type change struct {
		at  *modelBatch
		o   int64
		was *rec
	}
	var undo []change
	w := &modelWrite{id: m.lastWrite + 1, waits: true, limit: lim.DeliveryCount}
	m.lastLock++
	batchLevel := map[*modelBatch]bool{}
	one := func(b *modelBatch, o int64, t int8) *Refusal {
		r := b.recs[o]
		if r.state != Acquired {
			return refusedRecordState
		}
		if r.member != member {
			return refusedRecordOwner
		}
		if t == TypeRenew {
			r.lock, r.deadline = m.lastLock, now+lim.LockDuration
			return nil
		}
		undo = append(undo, change{b, o, r})
		changed := *r
		changed.write = w.id
		var why Reason
		changed.state, why = outcome(t, uint8(r.count), &lim)
		b.recs[o] = &changed
		w.records = append(w.records, StateBatch{o, o, changed.state, int16(r.count), why, Staged{}})
		return nil
	}
	try := func(a *Acknowledgement) *Refusal {
		if !lim.Renew && slices.Contains(a.Types, TypeRenew) {
			return refusedRenewal
		}
		if a.LastOffset < m.start {
			return nil
		}
		n, refusal := m.find(a)
		if refusal != nil {
			return refusal
		}
		for _, b := range m.batches[n:] {
			if b.first > a.LastOffset {
				break
			}
			if b.last < m.start {
				continue
			}
			if !b.split {
				if r := b.recs[b.first]; r.state != Acquired {
					return refusedBatchState
				} else if r.member != member {
					return refusedBatchOwner
				}
			}
			if !b.split && a.FirstOffset <= b.first && b.last <= a.LastOffset && len(a.Types) == 1 && b.first >= m.start {
				batchLevel[b] = true
			} else {
				b.split = true
			}
			for o := max(a.FirstOffset, b.first, m.start); o <= min(a.LastOffset, b.last); o++ {
				t := a.Types[0]
				if len(a.Types) > 1 {
					t = a.Types[o-a.FirstOffset]
				}
				if refusal := one(b, o, t); refusal != nil {
					return refusal
				}
			}
		}
		return nil
	}
	for i := range acks {
		if refusal := try(&acks[i]); refusal != nil {
			for _, c := range slices.Backward(undo) {
				c.at.recs[c.o] = c.was
			}
			return Write{}, refusal
		}
	}
	return m.finish(w), nil
}

// find is the first batch that a range touches.
func (m *model) find(a *Acknowledgement) (int, *Refusal) {
	n := m.floor(a.FirstOffset)
	if n < 0 {
		if a.FirstOffset >= m.start {
			return 0, refusedUnknown
		}
		if n = m.floor(m.start); n < 0 {
			return 0, refusedException
		}
	}
	end := m.batches[m.floor(a.LastOffset)].last
	if end < a.FirstOffset {
		return 0, refusedPastFirst
	}
	if end < a.LastOffset {
		return 0, refusedPastLast
	}
	return n, nil
}

func (m *model) finish(w *modelWrite) Write {
	if len(w.records) == 0 {
		return Write{}
	}
	m.lastWrite = w.id
	m.writes = append(m.writes, w)
	return Write{ID: w.id, StartOffset: m.start, DeliveryCompleteCount: int32(m.complete()), Batches: merged(w.records)}
}

func merged(records []StateBatch) []StateBatch {
	var out []StateBatch
	for _, r := range records {
		if n := len(out) - 1; n >= 0 && out[n].LastOffset == r.FirstOffset-1 {
			if out[n].State == r.State && out[n].DeliveryCount == r.DeliveryCount && out[n].Reason == r.Reason && out[n].Staged == r.Staged {
				out[n].LastOffset = r.LastOffset
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

func (m *model) at(o int64) (*modelBatch, *rec) {
	for _, b := range m.batches {
		if r := b.recs[o]; r != nil {
			return b, r
		}
	}
	return nil, nil
}

func (m *model) persisted(id uint64, ok bool) (s Settled) {
	n := slices.IndexFunc(m.writes, func(w *modelWrite) bool { return w.id == id })
	if n < 0 {
		return s
	}
	w := m.writes[n]
	m.writes = slices.Delete(m.writes, n, n+1)
	straddled := map[*modelBatch]bool{}
	for _, c := range w.records {
		b, r := m.at(c.FirstOffset)
		if r == nil || r.write != id {
			continue
		}
		switch {
		case ok && r.state == TxPending:
			*r = rec{state: r.state, count: r.count, staged: r.staged, stagedBy: r.stagedBy}
		case ok:
			*r = rec{state: r.state, count: r.count}
		case !r.expired:
			r.state, r.write, r.staged, r.stagedBy = Acquired, 0, Staged{}, ""
		case c.FirstOffset < m.start || r.count >= w.limit:
			*r = rec{state: Archived, count: r.count}
		default:
			*r = rec{state: Available, count: r.count}
		}
		if !ok && b.first < m.start && m.start <= b.last {
			straddled[b] = true
		}
		s.Available = s.Available || r.free()
	}
	for b := range straddled {
		b.split = true
	}
	if ok || !w.waits {
		s.StartMoved = m.advance()
		for _, b := range merged(w.records) {
			if b.State == Archiving {
				s.Archiving = append(s.Archiving, b)
			}
		}
	}
	return s
}

func (m *model) advance() bool {
	m.trim()
	before := m.start
	start := m.start
	gone := 0
	stop := false
	for _, b := range m.batches {
		if m.gap() && b.last >= m.gapStart {
			break
		}
		for o := b.first; o <= b.last; o++ {
			if r := b.recs[o]; !r.state.terminal() || r.write != 0 {
				if o < m.start {
					return false
				}
				stop = true
				break
			}
			start = max(start, o+1)
		}
		if stop {
			break
		}
		gone++
	}
	m.batches = m.batches[gone:]
	m.start = start
	if len(m.batches) == 0 {
		m.end = max(m.end, m.start)
		m.start = m.end
	} else if gone > 0 {
		next := m.batches[0].first
		if m.gap() {
			next = min(next, max(m.gapStart, m.start))
		}
		m.start = max(m.start, next)
	}
	return m.start > before
}

func (m *model) after(o int64, r *rec, lim Limits) (State, Reason) {
	if o < m.start {
		return Archived, ReasonNone
	}
	return outcome(TypeRelease, uint8(r.count), &lim)
}

// dueLock is the lock that ends first among those that have ended.
func (m *model) dueLock(now time.Duration) (lock int) {
	deadline := now
	m.each(func(_ int64, _ *modelBatch, r *rec) bool {
		if r.member != "" && !r.expired && (r.deadline < deadline || r.deadline == deadline && (lock == 0 || r.lock < lock)) {
			lock, deadline = r.lock, r.deadline
		}
		return true
	})
	return lock
}

func (m *model) expire(now time.Duration, lim Limits, one bool) Write {
	w := &modelWrite{id: m.lastWrite + 1, limit: lim.DeliveryCount}
	for lock := m.dueLock(now); lock != 0; lock = m.dueLock(now) {
		found := false
		var batch *modelBatch
		m.each(func(o int64, b *modelBatch, r *rec) bool {
			if r.lock != lock || r.state != Acquired || one && batch != nil && batch != b {
				return true
			}
			found = true
			if !b.split && b.first < m.start && m.start <= b.last {
				b.split = true
				if one {
					batch = b
				}
			}
			s, why := m.after(o, r, lim)
			*r = rec{state: s, count: r.count}
			w.records = append(w.records, StateBatch{o, o, s, int16(r.count), why, Staged{}})
			if one && batch == nil && b.split {
				return false
			}
			if one {
				batch = b
			}
			return true
		})
		if found && one {
			break
		}
		m.each(func(_ int64, _ *modelBatch, r *rec) bool {
			r.expired = r.expired || r.lock == lock && r.member != ""
			return true
		})
	}
	return m.finish(w)
}

func (m *model) release(member string, lim Limits) Write {
	w := &modelWrite{id: m.lastWrite + 1, waits: true, limit: lim.DeliveryCount}
	m.each(func(o int64, b *modelBatch, r *rec) bool {
		if r.state != Acquired || r.member != member {
			return true
		}
		if b.first < m.start && m.start <= b.last {
			b.split = true
		}
		s, why := m.after(o, r, lim)
		r.state, r.write = s, w.id
		w.records = append(w.records, StateBatch{o, o, s, int16(r.count), why, Staged{}})
		return true
	})
	return m.finish(w)
}

func (m *model) completeArchiving(first, last int64) Write {
	w := &modelWrite{id: m.lastWrite + 1}
	for _, b := range m.batches {
		lo, hi := max(first, b.first), min(last, b.last)
		for o := lo; o <= hi; o++ {
			if r := b.recs[o]; r.state == Archiving && r.write == 0 {
				if lo > b.first || hi < b.last {
					b.split = true
				}
				r.state = Archived
				w.records = append(w.records, StateBatch{o, o, Archived, int16(r.count), ReasonNone, Staged{}})
			}
		}
	}
	return m.finish(w)
}

func (m *model) logStartMoved(to int64) bool {
	if to <= m.start {
		return false
	}
	m.archive(m.start, to-1, Available)
	m.archive(m.start, to-1, TxPending)
	m.start = to
	m.end = max(m.end, to)
	if m.gap() {
		m.passGap(to)
	} else {
		m.gapOpen = false
	}
	return true
}

// trim forgets leading batches below the start in which nothing can happen any more.
func (m *model) trim() {
	for len(m.batches) > 0 && m.batches[0].last < m.start {
		for _, r := range m.batches[0].recs {
			if !r.state.terminal() || r.write != 0 {
				return
			}
		}
		m.batches = m.batches[1:]
	}
}

func (m *model) deadline() (first time.Duration, found bool) {
	m.each(func(_ int64, _ *modelBatch, r *rec) bool {
		if r.member != "" && !r.expired && (!found || r.deadline < first) {
			first, found = r.deadline, true
		}
		return true
	})
	return first, found
}
