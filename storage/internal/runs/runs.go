// Package runs keeps record batches in memory so that reading them copies nothing.
package runs

import (
	"encoding/binary"
	"slices"
	"sort"
)

// keepSize is the number of bytes from which a batch stays in the slice it came in: copying it would cost more
// than the end of an arena that it leaves unused.
const keepSize = 64 << 10

// Arenas grow with the list from minArena to maxArena, so that an idle partition costs little and a busy one
// makes few slices.
const (
	minArena = 1 << 10
	maxArena = 1 << 20
)

// List is a sequence of batches of magic 2 in offset order. The zero List is empty.
//
// Small batches are copied behind each other into arenas, large ones are kept as they are. Bytes that once
// belonged to a batch are never written again, so slices that Read returned stay valid for good.
type List struct {
	runs  []run
	arena []byte // free room behind the last batch that was copied: length 0
	open  bool   // the last run ends where arena begins
	size  int64
}

// run is a stretch of batches that follow each other in memory without a gap. It is never empty.
type run struct {
	data []byte
	at   []uint32 // where each batch begins in data; batch i ends where i+1 begins, the last at len(data)
}

func (r *run) begin(i int) int { return int(r.at[i]) }

func (r *run) finish(i int) int {
	if i+1 < len(r.at) {
		return int(r.at[i+1])
	}
	return len(r.data)
}

func (r *run) batch(i int) []byte { return r.data[r.begin(i):r.finish(i):r.finish(i)] }
func (r *run) base(i int) int64   { return baseOffset(r.data[r.at[i]:]) }
func (r *run) last(i int) int64   { return lastOffset(r.data[r.at[i]:]) }
func (r *run) size() int          { return len(r.data) - r.begin(0) }
func (r *run) lastOfAll() int64   { return r.last(len(r.at) - 1) }
func (r *run) baseFrom(o int64) int {
	return sort.Search(len(r.at), func(i int) bool { return r.base(i) >= o })
}
func (r *run) lastFrom(o int64) int {
	return sort.Search(len(r.at), func(i int) bool { return r.last(i) >= o })
}
func (r *run) fitting(i, n int) int {
	from := r.begin(i)
	return i + sort.Search(len(r.at)-i, func(k int) bool { return r.finish(i+k)-from > n })
}

func baseOffset(batch []byte) int64 { return int64(binary.BigEndian.Uint64(batch)) }

func lastOffset(batch []byte) int64 {
	return baseOffset(batch) + int64(int32(binary.BigEndian.Uint32(batch[23:])))
}

// Append adds a whole batch at the end and takes the slice over. Its offsets lie above those of the list.
// It tells whether the batch began a new run.
func (l *List) Append(batch []byte) bool {
	l.size += int64(len(batch))
	if len(batch) >= keepSize {
		l.runs = append(l.runs, run{data: batch[:len(batch):len(batch)], at: []uint32{0}})
		l.open = false
		return true
	}
	if cap(l.arena) < len(batch) {
		l.arena = make([]byte, 0, max(len(batch), min(max(int(l.size), minArena), maxArena)))
		l.open = false
	}
	room := l.arena[:cap(l.arena)]
	copy(room, batch)
	l.arena = room[len(batch):][:0]
	if l.open {
		r := &l.runs[len(l.runs)-1]
		r.at = append(r.at, uint32(len(r.data)))
		r.data = r.data[:len(r.data)+len(batch)]
		return false
	}
	l.runs = append(l.runs, run{data: room[:len(batch)], at: []uint32{0}})
	l.open = true
	return true
}

// Size is the number of bytes of the batches in the list.
func (l *List) Size() int64 { return l.size }

// Empty tells whether the list holds no batch.
func (l *List) Empty() bool { return len(l.runs) == 0 }

// First is the base offset of the first batch. The list must not be empty.
func (l *List) First() int64 { return l.runs[0].base(0) }

// Last is the last offset of the last batch. The list must not be empty.
func (l *List) Last() int64 { return l.runs[len(l.runs)-1].lastOfAll() }

// FirstFrom is the base offset of the batch that holds offset, or of the first behind it. There may be none.
func (l *List) FirstFrom(offset int64) (int64, bool) {
	n, i := l.find(offset)
	if n == len(l.runs) {
		return 0, false
	}
	return l.runs[n].base(i), true
}

// find returns the run and the batch in it that holds offset, or the first batch behind it; the number of runs
// where there is none.
func (l *List) find(offset int64) (int, int) {
	n := sort.Search(len(l.runs), func(i int) bool { return l.runs[i].lastOfAll() >= offset })
	if n == len(l.runs) {
		return n, 0
	}
	return n, l.runs[n].lastFrom(offset)
}

// Read returns whole batches from the one that holds offset, or the first behind it, up to but not including the
// first whose base offset is at or above end. They take no more than maxBytes, except that the first is returned
// whatever its size where atLeastOne is set. Batches of one slice follow each other in it without a gap.
func (l *List) Read(offset, end int64, maxBytes int, atLeastOne bool) [][]byte {
	var out [][]byte
	n, i := l.find(offset)
	for ; n < len(l.runs); n, i = n+1, 0 {
		r := &l.runs[n]
		stop := r.baseFrom(end)
		k := min(r.fitting(i, maxBytes), stop)
		if k <= i && i < stop && atLeastOne && out == nil {
			k = i + 1
		}
		if k > i {
			from, to := r.begin(i), r.finish(k-1)
			out = append(out, r.data[from:to:to])
			maxBytes -= to - from
		}
		if k < len(r.at) {
			return out
		}
	}
	return out
}

// Batches calls f for the batches from the one that holds offset on, or the first behind it, until f returns false.
func (l *List) Batches(offset int64, f func(batch []byte) bool) {
	n, i := l.find(offset)
	for ; n < len(l.runs); n, i = n+1, 0 {
		for ; i < len(l.runs[n].at); i++ {
			if !f(l.runs[n].batch(i)) {
				return
			}
		}
	}
}

// DropBelow drops the batches whose last offset is below offset. Memory is freed run by run.
func (l *List) DropBelow(offset int64) {
	n, i := l.find(offset)
	l.dropRuns(n)
	if i > 0 {
		r := &l.runs[0]
		l.size -= int64(r.begin(i) - r.begin(0))
		r.at = r.at[i:]
	}
}

// DropOldestRun drops the first run and returns how many bytes its batches took; 0 where the list is empty.
func (l *List) DropOldestRun() int64 {
	before := l.size
	l.dropRuns(min(1, len(l.runs)))
	return before - l.size
}

// Replace puts the batches of another list, which is used up, in place of those that lie in [base, end). Both are bounds between batches.
func (l *List) Replace(base, end int64, with *List) {
	behind := List{runs: slices.Clone(l.runs), arena: l.arena, open: l.open, size: l.size}
	behind.DropBelow(end)
	l.Truncate(base)
	l.runs = append(slices.Clip(l.runs), with.runs...)
	l.size += with.size + behind.size
	l.arena, l.open = with.arena, with.open
	if behind.Empty() {
		return
	}
	l.runs = append(l.runs, behind.runs...)
	l.arena, l.open = behind.arena, behind.open
}

func (l *List) dropRuns(n int) {
	for i := range n {
		l.size -= int64(l.runs[i].size())
	}
	clear(l.runs[:n])
	l.runs = l.runs[n:]
	if len(l.runs) == 0 {
		*l = List{}
	}
}

// Truncate drops every batch whose last offset is at or above offset. Their bytes are not used again.
func (l *List) Truncate(offset int64) {
	n, i := l.find(offset)
	if n == len(l.runs) {
		return
	}
	for k := n + 1; k < len(l.runs); k++ {
		l.size -= int64(l.runs[k].size())
	}
	r := &l.runs[n]
	l.size -= int64(len(r.data) - r.begin(i))
	if i > 0 {
		r.data = r.data[:r.begin(i):r.begin(i)]
		r.at = slices.Clip(r.at[:i])
		n++
	}
	clear(l.runs[n:])
	l.runs = l.runs[:n]
	l.open = false
	if n == 0 {
		*l = List{}
	}
}
