package sharecoordinator

import (
	"cmp"
	"math"
	"slices"
)

// lastOffset is the last offset that a record can have: the one after it is an offset too.
const lastOffset = math.MaxInt64 - 1

// merge merges changed batches into those that are stored, in place: where they overlap, the higher delivery count wins and, if that is the
// same, the higher state. What lies below start is dropped, and neighbours that are alike become one
// (PersisterStateBatchCombiner). stored keeps State's invariant; changed may be in any order and overlap.
func merge(stored, changed []Batch, start int64) []Batch {
	for _, b := range changed {
		b.FirstOffset, b.LastOffset = max(b.FirstOffset, start, 0), min(b.LastOffset, lastOffset)
		if b.FirstOffset <= b.LastOffset {
			stored = insert(stored, b)
		}
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

// insert merges one batch into batches that keep the invariant.
func insert(batches []Batch, b Batch) []Batch {
	// [from, to) are those that overlap b or touch it.
	from, _ := slices.BinarySearchFunc(batches, b.FirstOffset-1, func(x Batch, first int64) int { return cmp.Compare(x.LastOffset, first) })
	to := from
	for to < len(batches) && batches[to].FirstOffset <= b.LastOffset+1 {
		to++
	}
	if from == to {
		return slices.Insert(batches, from, b)
	}
	if from == to {
		return slices.Insert(batches, from, b)
	}
	var room [8]Batch
	pieces := room[:0]
	next := b.FirstOffset // what of b is not placed yet begins here
	for _, x := range batches[from:to] {
		if x.FirstOffset > next {
			pieces = join(pieces, part(b, next, min(x.FirstOffset-1, b.LastOffset)))
		}
		pieces = join(pieces, part(x, x.FirstOffset, b.FirstOffset-1))
		winner := x
		if wins(b, x) {
			winner = b
		}
		pieces = join(pieces, part(winner, max(x.FirstOffset, b.FirstOffset), min(x.LastOffset, b.LastOffset)))
		pieces = join(pieces, part(x, max(x.FirstOffset, b.LastOffset+1), x.LastOffset))
		next = max(next, x.LastOffset+1)
	}
	pieces = join(pieces, part(b, next, b.LastOffset))
	return slices.Replace(batches, from, to, pieces...)
}

// wins tells whether batch a stands where both a and b say something.
func wins(a, b Batch) bool {
	return a.DeliveryCount > b.DeliveryCount || a.DeliveryCount == b.DeliveryCount && a.State > b.State
}

// part is the part of a batch in [first, last], empty where first > last.
func part(b Batch, first, last int64) Batch {
	first, last = max(first, b.FirstOffset), min(last, b.LastOffset)
	return Batch{first, last, b.State, b.DeliveryCount}
}

// join appends a batch that is not empty, to the last one where the two are alike and touch.
func join(batches []Batch, b Batch) []Batch {
	if b.FirstOffset > b.LastOffset {
		return batches
	}
	if n := len(batches) - 1; n >= 0 && batches[n].LastOffset+1 == b.FirstOffset && batches[n].State == b.State && batches[n].DeliveryCount == b.DeliveryCount {
		batches[n].LastOffset = b.LastOffset
		return batches
	}
	return append(batches, b)
}
