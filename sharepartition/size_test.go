package sharepartition

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestOneRecordBatches grows the ring, acknowledges in random order and gives the memory back.
func TestOneRecordBatches(t *testing.T) {
	const records = 1500 // beyond the slots that a quiet partition keeps
	d := newDesk(t)
	for range records {
		d.produce(1)
	}
	d.lim.RecordLocks = records
	d.fetch("m1", BatchOptimized, 1, records)
	require.Equal(t, records, d.p.tail-d.p.head)
	for i, offset := range rand.New(rand.NewPCG(1, 2)).Perm(records) {
		w, refusal := d.p.Acknowledge(d.now, "m1", []Acknowledgement{ack(int64(offset), int64(offset), TypeAccept)}, d.lim)
		require.Nil(t, refusal)
		d.p.Persisted(w.ID, 0)
		if i%100 == 0 {
			require.NoError(t, d.p.Check())
		}
	}
	require.NoError(t, d.p.Check())
	require.Equal(t, int64(records), d.p.StartOffset())
	require.Equal(t, minSlots, len(d.p.slots))
}

// TestLargeBatchIsGivenBack splits a batch of many records and keeps nothing of their size once they are settled.
func TestLargeBatchIsGivenBack(t *testing.T) {
	const records = 3 * keepRecords
	d := newDesk(t, records)
	d.fetch("m1", BatchOptimized, 1, 1)
	var evens, odds []Acknowledgement
	for o := int64(0); o < records; o += 2 {
		evens, odds = append(evens, ack(o, o, TypeReject)), append(odds, ack(o+1, o+1, TypeAccept))
	}
	d.ok("m1", evens...)
	require.NotNil(t, d.p.at(d.p.head).sp)
	d.ok("m1", odds...)
	require.Equal(t, int64(records), d.p.StartOffset())
	for _, s := range d.p.spare {
		require.LessOrEqual(t, cap(s.rec), keepRecords)
	}
	for _, b := range d.p.writes.spare {
		require.LessOrEqual(t, cap(b), keepRuns)
	}
}

// TestLocksAreGivenBack renews again and again while one lock holds on.
func TestLocksAreGivenBack(t *testing.T) {
	d := newDesk(t, 1, 1)
	d.fetch("m2", BatchOptimized, 1, 1)
	d.fetch("m1", BatchOptimized, 1, 1)
	for range 10_000 {
		d.ok("m1", ack(1, 1, TypeRenew))
	}
	require.Less(t, len(d.p.locks.all), 64)
	require.NoError(t, d.p.Check())
}

// TestSizes holds what the memory of a record depends on.
func TestSizes(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(batch{}), uintptr(32))
}

// TestRangeAllocatesNothing acquires and accepts whole batches without any allocation.
func TestRangeAllocatesNothing(t *testing.T) {
	if invariants {
		t.Skip("Check allocates")
	}
	w := newWindow()
	acks := make([]Acknowledgement, 1)
	step := func() {
		w.acquire(500, 500)
		first := w.p.StartOffset()
		acks[0] = Acknowledgement{FirstOffset: first, LastOffset: first + 499, Types: accept}
		w.ack(acks)
		w.now = w.now.Add(time.Millisecond)
	}
	step()
	require.Zero(t, testing.AllocsPerRun(100, step))
}
