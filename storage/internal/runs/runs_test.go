package runs_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"kshare/storage/internal/runs"
	"kshare/storage/storagetest"
)

func fill(l *runs.List, base int64, sizes ...int) {
	for _, size := range sizes {
		_, b := storagetest.Batch(base, base, 1, size)
		l.Append(b)
		base++
	}
}

func TestLargeBatchStaysInItsSlice(t *testing.T) {
	var l runs.List
	_, small := storagetest.Batch(0, 0, 1, 100)
	_, large := storagetest.Batch(1, 1, 1, 64<<10)
	l.Append(small)
	l.Append(large)
	got := l.Read(0, 2, 1<<20, false)
	require.Len(t, got, 2)
	require.NotSame(t, &small[0], &got[0][0])
	require.Same(t, &large[0], &got[1][0])
}

// A small batch behind a large one goes on in the arena that the one before it began.
func TestLargeBatchesLeaveTheArena(t *testing.T) {
	var l runs.List
	fill(&l, 0, 100, 64<<10, 100, 64<<10, 100)
	got := l.Read(0, 5, 1<<20, false)
	require.Len(t, got, 5)
	require.Same(t, &l.Read(2, 3, 100, false)[0][0], &got[2][0])
}

func TestTruncatedBytesAreNotWrittenAgain(t *testing.T) {
	var l runs.List
	fill(&l, 0, 100, 100, 100)
	held := l.Read(0, 3, 1<<20, false)[0]
	want := bytes.Clone(held)
	l.Truncate(1)
	fill(&l, 1, 200, 200)
	require.Equal(t, want, held)
	require.EqualValues(t, 500, l.Size())
	require.EqualValues(t, 2, l.Last())
}

func TestSlicesCannotGrowIntoTheArena(t *testing.T) {
	var l runs.List
	fill(&l, 0, 100)
	b := l.Read(0, 1, 1<<20, false)[0]
	require.Equal(t, len(b), cap(b))
}

func TestDropOldestRun(t *testing.T) {
	var l runs.List
	fill(&l, 0, 100, 100, 70_000, 100)
	require.EqualValues(t, 200, l.DropOldestRun())
	require.EqualValues(t, 2, l.First())
	require.EqualValues(t, 70_000, l.DropOldestRun())
	require.EqualValues(t, 100, l.DropOldestRun())
	require.Zero(t, l.DropOldestRun())
	require.True(t, l.Empty())
}
