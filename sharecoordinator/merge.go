package sharecoordinator

import (
	"cmp"
	"math"
	"slices"
)

// lastOffset is the last offset that a record can have: the one after it is an offset too.
const lastOffset = math.MaxInt64 - 1

// merge merges changed batches into those that are stored, in place: where they overlap, the higher delivery count wins and, if that is the
// same, the higher state, unless the rule says otherwise. What lies below start is dropped, and neighbours that are alike become one
// (PersisterStateBatchCombiner). stored keeps State's invariant; changed may be in any order and overlap, though it costs more.
func merge(stored, changed []Batch, start int64, rule mergeRule) []Batch {
	for len(changed) > 0 {
		run := 0 // the leading batches that are not empty, ascend and are disjoint
		for run < len(changed) && changed[run].FirstOffset <= changed[run].LastOffset && (run == 0 || changed[run-1].LastOffset < changed[run].FirstOffset) {
			run++
		}
		stored = mergeRun(stored, changed[:run], max(start, 0), rule)
		changed = changed[max(run, 1):]
	}
	return clip(stored, start)
}

// clip drops what lies below start.
func clip(batches []Batch, start int64) []Batch {
	gone := 0
	for gone < len(batches) && batches[gone].LastOffset < start {
		gone++
	}
	batches = batches[gone:]
	if len(batches) > 0 {
		batches[0].FirstOffset = max(batches[0].FirstOffset, start)
	}
	return batches
}

// mergeRun merges batches that ascend and are disjoint, as far as they lie in [start, lastOffset], in one walk.
func mergeRun(stored, run []Batch, start int64, rule mergeRule) []Batch {
	for len(run) > 0 && run[0].LastOffset < start {
		run = run[1:]
	}
	for len(run) > 0 && run[len(run)-1].FirstOffset > lastOffset {
		run = run[:len(run)-1]
	}
	if len(run) == 0 {
		return stored
	}
	// [from, to) are the stored batches that the run overlaps, touches or surrounds.
	first, last := max(run[0].FirstOffset, start), min(run[len(run)-1].LastOffset, lastOffset)
	from := firstEndingFrom(stored, first-1)
	to := from + firstBeginningAfter(stored[from:], last+1)
	if from == to && len(run) == 1 {
		return slices.Insert(stored, from, part(run[0], first, last))
	}
	if len(stored) == 0 {
		stored = slices.Grow(stored, len(run))
		for _, b := range run {
			stored = join(stored, part(b, first, last))
		}
		return stored
	}
	merged := make([]Batch, 0, to-from+2*len(run)+1)
	var x Batch // what is left of the stored batch under way
	x.LastOffset = -1
	old := stored[from:to]
	for _, b := range run {
		b = part(b, first, last)
		for b.FirstOffset <= b.LastOffset {
			if x.FirstOffset > x.LastOffset && len(old) > 0 {
				x, old = old[0], old[1:]
			}
			switch {
			case x.FirstOffset > x.LastOffset || b.LastOffset < x.FirstOffset:
				merged = join(merged, b)
				b.FirstOffset = b.LastOffset + 1
			case x.FirstOffset < b.FirstOffset:
				end := min(x.LastOffset, b.FirstOffset-1)
				merged = join(merged, part(x, x.FirstOffset, end))
				x.FirstOffset = end + 1
			case b.FirstOffset < x.FirstOffset:
				merged = join(merged, part(b, b.FirstOffset, x.FirstOffset-1))
				b.FirstOffset = x.FirstOffset
			default:
				end, winner := min(x.LastOffset, b.LastOffset), x
				if rule(b, x) {
					winner = b
				}
				merged = join(merged, part(winner, x.FirstOffset, end))
				x.FirstOffset, b.FirstOffset = end+1, end+1
			}
		}
	}
	merged = join(merged, x)
	for _, x := range old {
		merged = join(merged, x)
	}
	return slices.Replace(stored, from, to, merged...)
}

// firstEndingFrom is the index of the first batch whose last offset is at or above the offset.
func firstEndingFrom(batches []Batch, offset int64) int {
	i, _ := slices.BinarySearchFunc(batches, offset, func(x Batch, o int64) int { return cmp.Compare(x.LastOffset, o) })
	return i
}

// firstBeginningAfter is the index of the first batch whose first offset is above the offset.
func firstBeginningAfter(batches []Batch, offset int64) int {
	i, _ := slices.BinarySearchFunc(batches, offset, func(x Batch, o int64) int {
		if x.FirstOffset <= o {
			return -1
		}
		return 1
	})
	return i
}

// mergeRule tells whether a changed batch stands where a stored one says something too.
type mergeRule func(changed, stored Batch) bool

// higherWins is Kafka's rule.
func higherWins(changed, stored Batch) bool {
	return changed.DeliveryCount > stored.DeliveryCount || changed.DeliveryCount == stored.DeliveryCount && changed.State > stored.State
}

// lastWriterWins is higherWins, except that the highest state, that of records which wait for a transaction, neither yields to a higher one nor keeps
// later ones off: it is left by what is written last.
func lastWriterWins(changed, stored Batch) bool {
	if changed.State == txPending || stored.State == txPending {
		return true
	}
	return higherWins(changed, stored)
}

// part is the part of a batch in [first, last], empty where first > last.
func part(b Batch, first, last int64) Batch {
	first, last = max(first, b.FirstOffset), min(last, b.LastOffset)
	b.FirstOffset, b.LastOffset = first, last
	return b
}

// join appends a batch that is not empty, to the last one where the two are alike and touch.
func join(batches []Batch, b Batch) []Batch {
	if b.FirstOffset > b.LastOffset {
		return batches
	}
	if n := len(batches) - 1; n >= 0 && batches[n].LastOffset+1 == b.FirstOffset && batches[n].State == b.State && batches[n].DeliveryCount == b.DeliveryCount && batches[n].Staged == b.Staged {
		batches[n].LastOffset = b.LastOffset
		return batches
	}
	return append(batches, b)
}
