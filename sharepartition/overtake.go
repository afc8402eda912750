package sharepartition

import "slices"

// Overtake takes out of a write that is not stored yet what a later one, which is, has made of its records. Where the write acknowledges records a member waits for it,
// and it is not to be stored at all: their records were delivered again. refused tells so.
func (w *Write) Overtake(by []StateBatch, acknowledges bool) (refused bool) {
	for i := range by {
		first, last := by[i].FirstOffset, by[i].LastOffset
		if !overlap(w.Batches, first, last) {
			continue
		}
		if acknowledges {
			return true
		}
		w.Batches = without(w.Batches, first, last)
	}
	return false
}

// Decided is the part of what the end of a transaction has decided that the write stages: its leader does not take that for staged before it has the answer. What
// else was decided is not the answer's to repeat: it may be staged again by then, with the same epoch.
func (w *Write) Decided(resolved []StateBatch) (own []StateBatch) {
	for _, b := range w.Batches {
		for _, r := range resolved {
			r.FirstOffset, r.LastOffset = max(r.FirstOffset, b.FirstOffset), min(r.LastOffset, b.LastOffset)
			if b.State == TxPending && b.Staged == r.Staged && r.FirstOffset <= r.LastOffset {
				own = append(own, r)
			}
		}
	}
	return own
}

// overlap tells whether any of the batches has an offset from first to last.
func overlap(batches []StateBatch, first, last int64) bool {
	return slices.ContainsFunc(batches, func(b StateBatch) bool { return b.FirstOffset <= last && first <= b.LastOffset })
}

// without is the batches without the offsets from first to last, in a slice of their own.
func without(batches []StateBatch, first, last int64) []StateBatch {
	var left []StateBatch
	for _, b := range batches {
		if b.LastOffset < first || b.FirstOffset > last {
			left = append(left, b)
			continue
		}
		if below := b; below.FirstOffset < first {
			below.LastOffset = first - 1
			left = append(left, below)
		}
		if above := b; above.LastOffset > last {
			above.FirstOffset = last + 1
			left = append(left, above)
		}
	}
	return left
}
