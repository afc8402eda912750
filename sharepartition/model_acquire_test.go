package sharepartition

import "time"

func (m *model) acquire(now time.Duration, q *AcquireRequest, lim Limits) []AcquiredRange {
	if q.MaxRecords <= 0 || len(q.Batches) == 0 {
		return nil
	}
	last := q.Batches[len(q.Batches)-1].LastOffset
	if last < m.start {
		return nil
	}
	room := min(int64(q.MaxRecords), int64(lim.RecordLocks)-m.inFlight())
	if room <= 0 {
		if q.FetchOffset >= m.end {
			return nil
		}
		room = min(int64(q.MaxRecords), m.end-q.FetchOffset)
		last = min(last, m.end-1)
	}
	m.lastLock++
	a := &modelAcquire{m: m, q: q, lim: lim, now: now, fetched: q.Batches[0].BaseOffset, last: last, room: room}
	a.run()
	if len(a.out) > 0 {
		m.passGap(a.out[len(a.out)-1].LastOffset + 1)
	}
	return a.out
}

type modelAcquire struct {
	m             *model
	q             *AcquireRequest
	lim           Limits
	now           time.Duration
	fetched, last int64
	room, count   int64
	out           []AcquiredRange
}

func (a *modelAcquire) run() {
	m := a.m
	if a.q.FetchOffset < a.fetched {
		if m.gap() && m.next() >= a.q.FetchOffset {
			m.passGap(a.fetched)
		}
		m.archive(a.q.FetchOffset, a.fetched-1, Available)
	}
	from := a.fetched
	if n := m.floor(from); n < 0 || m.batches[n].last >= from || m.gap() || a.q.Mode == RecordLimit && a.last-from >= a.room {
		from = max(from, m.start)
	}
	var overlap []*modelBatch
	for _, b := range m.batches {
		if b.last >= from && b.first <= a.last {
			overlap = append(overlap, b)
		}
	}
	for _, b := range overlap {
		if a.count >= a.room {
			return
		}
		if m.gap() {
			if from < b.first {
				a.fresh(from, b.first-1)
			}
			if a.count >= a.room {
				return
			}
		}
		from = max(from, b.last+1)
		if !a.again(b) {
			return
		}
	}
	if a.count < a.room && from <= a.last {
		a.fresh(from, a.last)
	}
}

// again acquires what it can of a batch and tells whether to go on.
func (a *modelAcquire) again(b *modelBatch) bool {
	limit := a.lim.DeliveryCount
	threshold := max(2, (limit+1)/2)
	var free []int64
	throttled := false
	for o := max(b.first, a.fetched); o <= min(b.last, a.last); o++ {
		if b.recs[o].free() {
			free = append(free, o)
			throttled = throttled || b.recs[o].count >= threshold
		}
	}
	if len(free) == 0 {
		return true
	}
	if throttled && a.count > 0 {
		return false
	}
	size := b.last - b.first + 1
	left := a.room - a.count
	if !b.split && !throttled && b.first >= a.fetched && b.last <= a.last && (a.q.Mode == BatchOptimized || size <= left) {
		for _, o := range free {
			a.take(b, o)
		}
		a.out = append(a.out, AcquiredRange{b.first, b.last, int16(b.recs[b.first].count)})
		a.count += size
		return true
	}
	b.split = true
	limitHere := int64(0)
	var out []AcquiredRange
	got := int64(0)
	for _, o := range free {
		count := b.recs[o].count
		if limit > 2 && count == limit-1 && got > 0 {
			break
		}
		if count >= threshold && limitHere == 0 {
			limitHere = max(1, size>>(count-threshold+1))
		}
		a.take(b, o)
		got++
		count++
		if n := len(out); n > 0 && out[n-1].LastOffset == o-1 && out[n-1].DeliveryCount == int16(count) {
			out[n-1].LastOffset = o
		} else {
			out = append(out, AcquiredRange{o, o, int16(count)})
		}
		if limit > 2 && count == limit || a.q.Mode == RecordLimit && got == left || got == limitHere {
			break
		}
	}
	a.out = append(a.out, out...)
	a.count += got
	return !throttled
}

func (a *modelAcquire) take(b *modelBatch, o int64) {
	b.recs[o] = &rec{state: Acquired, count: b.recs[o].count + 1, member: a.q.Member, lock: a.m.lastLock,
		deadline: a.now + a.lim.LockDuration}
}

func (a *modelAcquire) fresh(first, last int64) {
	m, room := a.m, a.room-a.count
	end := last
	if last-first+1 > room {
		end = first + room - 1
		for _, p := range a.q.Batches {
			if p.BaseOffset <= end && end <= p.LastOffset {
				end = p.LastOffset
				break
			}
		}
	}
	if m.gap() {
		end = min(end, last)
	}
	for _, b := range m.batches {
		if b.first >= first {
			end = min(end, b.first-1)
		}
	}
	if first > end {
		return
	}
	if len(m.batches) == 0 || first < m.batches[0].first {
		m.start = max(m.start, first)
	}
	m.end = max(m.end, end+1)
	var ranges []Bounds
	if a.q.Mode == BatchOptimized && end-first+1 > int64(a.q.BatchSize) {
		for _, p := range a.q.Batches {
			if p.BaseOffset <= end && p.BaseOffset == first && a.q.BatchSize <= 0 {
				a.out = append(a.out, AcquiredRange{first, first - 1, 1})
			}
			if p.BaseOffset <= end && p.BaseOffset > first && p.BaseOffset-first >= int64(a.q.BatchSize) {
				ranges = append(ranges, Bounds{first, p.BaseOffset - 1})
				first = p.BaseOffset
			}
		}
	}
	ranges = append(ranges, Bounds{first, end})
	for _, r := range ranges {
		b := m.insert(r.BaseOffset, r.LastOffset)
		if a.q.Mode == RecordLimit && r.LastOffset-r.BaseOffset+1 > room {
			b.split = true
			r.LastOffset = r.BaseOffset + room - 1
		}
		for o := r.BaseOffset; o <= r.LastOffset; o++ {
			a.take(b, o)
		}
		a.out = append(a.out, AcquiredRange{r.BaseOffset, r.LastOffset, 1})
		a.count += r.LastOffset - r.BaseOffset + 1
		m.passGap(r.LastOffset + 1)
	}
}
