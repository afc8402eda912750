package sharepartition

import "math"

// AcquireReach is the last offset that an Acquire with this FetchOffset and MaxRecords looks at. What Batches hold behind the producer
// batch with that offset makes no difference to it, so the log need not be read further; math.MaxInt64 where it may look at all of them.
func (p *Partition) AcquireReach(fetchOffset int64, maxRecords int32) int64 {
	if p.gapOpen() {
		return math.MaxInt64
	}
	left := int64(maxRecords)
	for n := p.next(p.head); n < p.tail && left > 0; n = p.next(n + 1) {
		b := p.at(n)
		switch {
		case b.first < fetchOffset: // it may hold records that cannot be read any more
		case b.sp != nil:
			left -= int64(b.sp.nAvail)
		default:
			left -= b.size()
		}
		if left <= 0 {
			return b.last
		}
	}
	return max(p.end, fetchOffset) + left - 1
}
