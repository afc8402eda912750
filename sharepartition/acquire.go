package sharepartition

import (
	"math"
	"time"
)

// AcquireMode is the ShareAcquireMode of a ShareFetch (KIP-1206).
type AcquireMode int8

const (
	// BatchOptimized acquires whole producer batches, so MaxRecords may be exceeded by the last of them.
	BatchOptimized AcquireMode = 0
	// RecordLimit never acquires more than MaxRecords.
	RecordLimit AcquireMode = 1
)

// Bounds are the first and last offset of a producer batch, inclusive.
type Bounds struct{ BaseOffset, LastOffset int64 }

// AcquiredRange is a run of records that a member holds from now on, offsets inclusive.
type AcquiredRange struct {
	FirstOffset, LastOffset int64
	DeliveryCount           int16
}

// AcquireRequest says what one member asks for. Batches are the producer batches that the log returned for
// FetchOffset, ascending; FetchOffset is NextFetchOffset.
type AcquireRequest struct {
	Member      string
	Mode        AcquireMode
	BatchSize   int32
	MaxRecords  int32
	FetchOffset int64
	Batches     []Bounds
}

// acquisition is one Acquire under way.
type acquisition struct {
	*AcquireRequest
	p     *Partition
	lim   Limits
	now   time.Time
	lock  uint32 // 0 until the first record is acquired
	count int64
	out   []AcquiredRange
}

// Acquire gives records to a member until now + lim.LockDuration. It appends the acquired ranges to dst in offset
// order and returns the number of records in them, which the caller takes off what it may still acquire of other
// partitions. Records of the answer are the producer batches that hold a record of a range.
//
// Records that were released come first, in the batches they were acquired in. A batch that was delivered half
// as often as allowed is narrowed with each delivery, a record on its last delivery travels alone, and nothing
// else is acquired in the same call. A producer batch with aborted records is cut by Archive afterwards.
func (p *Partition) Acquire(now time.Time, req *AcquireRequest, lim Limits, dst []AcquiredRange) ([]AcquiredRange, int64) {
	if req.MaxRecords <= 0 || len(req.Batches) == 0 {
		return dst, 0
	}
	last := req.Batches[len(req.Batches)-1].LastOffset
	if last < p.start {
		return dst, 0
	}
	room := min(int64(req.MaxRecords), int64(lim.RecordLocks)-p.InFlight())
	if room <= 0 {
		// The window is full: only what lies inside it can be delivered again.
		if req.FetchOffset >= p.end {
			return dst, 0
		}
		room = min(int64(req.MaxRecords), p.end-req.FetchOffset)
		last = min(last, p.end-1)
	}
	a := acquisition{AcquireRequest: req, p: p, lim: lim, now: now, out: dst}
	a.walk(last, room)
	if a.count > 0 {
		p.passGap(a.out[len(a.out)-1].LastOffset + 1)
	}
	p.verify("Acquire")
	return a.out, a.count
}

// walk goes through the batches that overlap the fetched offsets and takes new ones behind them.
func (a *acquisition) walk(last, room int64) {
	p := a.p
	base := a.Batches[0].BaseOffset
	if a.FetchOffset < base {
		// Compaction or deletion took the offsets in between out of the log: they are no hole to be read again.
		if p.gapOpen() && p.NextFetchOffset() >= a.FetchOffset {
			p.passGap(base)
		}
		p.archive(a.FetchOffset, base-1, Available)
	}
	n, bottom := p.floor(base), p.start
	switch {
	case n >= p.head && p.at(n).last >= base:
		base = p.at(n).first
	case n < p.head && !p.empty() && p.at(p.head).first < p.start:
		// The producer batch begins before the first batch that is kept, which holds the start.
		base, n = p.at(p.head).first, p.head
	case n >= p.head && !p.gapOpen() && (a.Mode != RecordLimit || last-base < room):
		// Behind a batch that the start has passed the producer batch is taken whole, even what of it lies below the start. In part it is not: what were left of
		// it below the start could be read by nobody.
		n, bottom = n+1, base
	default:
		base, n = max(base, p.start), n+1
	}
	from := n
	behind := max(base, p.start)
	for n = a.following(n); n < p.tail && p.at(n).first <= last; n = a.following(n + 1) {
		if a.count >= room {
			return
		}
		if p.gapOpen() {
			if first := p.at(n).first; behind < first {
				n += a.fresh(n, behind, first-1, room-a.count)
			}
			behind = max(p.at(n).last+1, p.start)
			if a.count >= room {
				return
			}
		}
		if a.again(n, last, room) {
			return
		}
	}
	if n = p.floor(last); n >= from {
		base = max(base, p.at(n).last+1, bottom)
	}
	if a.count < room && base <= last {
		a.fresh(n+1, base, last, room-a.count)
	}
}

// following is the next batch from n on worth a look: any while holes count as records, else one with an
// available record.
func (a *acquisition) following(n int) int {
	n = max(n, a.p.head)
	if a.p.gapOpen() {
		return n
	}
	return a.p.next(n)
}

// again acquires what is available of batch n, and tells whether nothing else may be acquired with it.
func (a *acquisition) again(n int, last, room int64) (alone bool) {
	p, b := a.p, a.p.at(n)
	if !p.holds(n) {
		return false
	}
	first := a.Batches[0].BaseOffset
	throttled := a.throttled(b, first, last)
	if throttled && a.count > 0 {
		return true
	}
	left := room - a.count
	covered := b.first >= first && b.last <= last
	if covered && b.sp == nil && !throttled && (a.Mode != RecordLimit || b.size() <= left) {
		count := min(b.count+1, MaxDeliveryCount)
		p.putWhole(n, Acquired, count, a.hold(b.first, b.last), false)
		a.report(b.first, b.last, count)
		return false
	}
	if b.sp == nil {
		p.split(n)
	}
	return a.pick(n, first, last, left) > 0 && throttled
}

// throttleFrom is the delivery count from which a batch is narrowed.
func throttleFrom(limit int) uint8 { return uint8(min(max(2, (limit+1)/2), MaxDeliveryCount)) }

func (a *acquisition) throttled(b *batch, first, last int64) bool {
	from := throttleFrom(a.lim.DeliveryCount)
	if b.sp == nil {
		return b.count >= from
	}
	if b.sp.high < from {
		return false
	}
	for i := b.sp.next(int(max(first-b.first, 0))); i < len(b.sp.rec) && b.first+int64(i) <= last; i = b.sp.next(i + 1) {
		if b.sp.count(i) >= from {
			return true
		}
	}
	return false
}

// pick acquires available records of the split batch n within [first, last] one by one. In batch_optimized mode
// left does not bound it.
func (a *acquisition) pick(n int, first, last, left int64) int64 {
	p, b := a.p, a.p.at(n)
	limit := uint8(min(a.lim.DeliveryCount, MaxDeliveryCount))
	from := throttleFrom(a.lim.DeliveryCount)
	narrowed := int64(0)
	got := int64(0)
	for i := b.sp.next(int(max(first-b.first, 0))); i < len(b.sp.rec); i = b.sp.next(i + 1) {
		offset := b.first + int64(i)
		if offset > last {
			break
		}
		count := b.sp.count(i)
		if limit > 2 && count == limit-1 && got > 0 {
			break
		}
		if count < from && narrowed == 0 {
			end := a.plain(b, i, last, left-got)
			through := b.first + int64(end) - 1
			p.putRun(n, b, i, end, Acquired, 1, a.hold(offset, through), false)
			a.extend(offset, through, count+1, got > 0)
			got += int64(end - i)
			i = end - 1
			if a.Mode == RecordLimit && got == left {
				break
			}
			continue
		}
		if count >= from && narrowed == 0 {
			narrowed = max(1, b.size()>>(count-from+1))
		}
		count = min(count+1, MaxDeliveryCount)
		p.put(n, b, i, Acquired, count, a.hold(offset, offset), false)
		a.extend(offset, offset, count, got > 0)
		got++
		if limit > 2 && count == limit || a.Mode == RecordLimit && got == left || got == narrowed {
			break
		}
	}
	return got
}

// plain is the end of the run of available records from i on that are like the first, whose delivery count bounds nothing.
func (a *acquisition) plain(b *batch, i int, last, left int64) int {
	to := int(min(int64(len(b.sp.rec)), last-b.first+1))
	if a.Mode == RecordLimit {
		to = int(min(int64(to), int64(i)+left))
	}
	to = b.sp.alike(i, to)
	for end := i + 1; end < to; end++ {
		if b.sp.avail[end>>6]>>(end&63)&1 == 0 {
			return end
		}
	}
	return to
}

// extend reports acquired records as part of the last range, where that ends before them and they belong to the same batch, or as another.
func (a *acquisition) extend(first, last int64, count uint8, sameBatch bool) {
	k := len(a.out) - 1
	if !sameBatch || a.out[k].LastOffset != first-1 || a.out[k].DeliveryCount != int16(count) {
		a.report(first, last, count)
		return
	}
	a.out[k].LastOffset = last
	a.count += last - first + 1
}

// fresh acquires offsets [first, last] that no batch covers, about room of them, as new batches before number n.
// It returns how many batches it inserted.
func (a *acquisition) fresh(n int, first, last, room int64) int {
	p := a.p
	if p.empty() {
		first = max(first, p.end)
	}
	bound := int64(math.MaxInt64)
	if n < p.tail {
		bound = p.at(n).first - 1
	}
	if p.gapOpen() {
		bound = min(bound, last)
	}
	if last-first+1 > room {
		last = min(a.batchEnd(first+room-1), bound)
	}
	last = min(last, bound)
	if first > last {
		return 0
	}
	if n == p.head {
		p.start = max(p.start, first)
	}
	p.end = max(p.end, last+1)
	if a.Mode == RecordLimit && last-first+1 > room {
		p.add(n, batch{first: first, last: last, state: Available})
		p.split(n)
		a.leading(n, room)
		p.passGap(first + room)
		return 1
	}
	inserted := 0
	if a.Mode != RecordLimit && last-first+1 > int64(a.BatchSize) {
		for _, b := range a.Batches {
			if b.BaseOffset > last {
				break
			}
			switch {
			case b.BaseOffset == first && a.BatchSize <= 0:
				a.report(first, first-1, 1) // Apache Kafka cuts off nothing here, and reports it
			case b.BaseOffset > first && b.BaseOffset-first >= int64(a.BatchSize):
				a.add(n+inserted, first, b.BaseOffset-1)
				first = b.BaseOffset
				inserted++
			}
		}
	}
	a.add(n+inserted, first, last)
	p.passGap(last + 1)
	return inserted + 1
}

// batchEnd is the last offset of the producer batch that holds the offset, or the offset itself in a hole.
func (a *acquisition) batchEnd(offset int64) int64 {
	for _, b := range a.Batches {
		if b.BaseOffset <= offset && offset <= b.LastOffset {
			return b.LastOffset
		}
	}
	return offset
}

func (a *acquisition) add(n int, first, last int64) {
	a.p.add(n, batch{first: first, last: last, state: Acquired, count: 1, lock: a.hold(first, last)})
	a.report(first, last, 1)
}

// leading acquires the first room records of the new split batch n.
func (a *acquisition) leading(n int, room int64) {
	b := a.p.at(n)
	lock := a.hold(b.first, b.first+room-1)
	a.p.putRun(n, b, 0, int(room), Acquired, 1, lock, false)
	a.report(b.first, b.first+room-1, 1)
}

// hold is the lock of this acquisition, which covers [first, last] from now on.
func (a *acquisition) hold(first, last int64) uint32 {
	if a.lock == 0 {
		a.lock = a.p.locks.take(a.now, a.Member, a.lim.LockDuration)
	}
	a.p.locks.cover(a.lock, first, last)
	return a.lock
}

func (a *acquisition) report(first, last int64, count uint8) {
	a.out = append(a.out, AcquiredRange{FirstOffset: first, LastOffset: last, DeliveryCount: int16(count)})
	a.count += last - first + 1
}
