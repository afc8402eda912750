package storage_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"kshare/storage"
	"kshare/storage/storagetest"
)

func TestMemory(t *testing.T) {
	storagetest.Run(t, func() (storage.Store, func(storage.Store) (storage.Store, error), error) {
		return storage.NewMemory(), nil, nil
	})
}

func TestMemoryHasNothingToWaitFor(t *testing.T) {
	s := storage.NewMemory()
	require.NoError(t, s.PutMetadata("a", []byte("b")))
	require.Nil(t, s.Commit())
}

// A cluster has hundreds of partitions that nobody writes to, and many that hold one small batch.
func TestMemoryOfQuietPartitions(t *testing.T) {
	const n = 10_000
	perLog := func(fill func(l storage.Log)) uint64 {
		s := storage.NewMemory()
		before := heap()
		for p := range int32(n) {
			l, err := s.OpenLog(storage.PartitionID{Partition: p}, false)
			require.NoError(t, err)
			fill(l)
		}
		used := heap() - before
		runtime.KeepAlive(s)
		return used / n
	}
	require.Less(t, perLog(func(storage.Log) {}), uint64(400))
	require.Less(t, perLog(func(l storage.Log) {
		h, b := storagetest.Batch(0, 0, 1, 100)
		require.NoError(t, l.Append(h, b))
	}), uint64(1800))
}

// What lies below the start offset is given back.
func TestMemoryIsFreed(t *testing.T) {
	s := storage.NewMemory()
	l, err := s.OpenLog(storage.PartitionID{}, false)
	require.NoError(t, err)
	before := heap()
	for range 100_000 {
		h, b := storagetest.Batch(l.EndOffset(), l.EndOffset(), 1, 500)
		require.NoError(t, l.Append(h, b))
	}
	full := heap() - before
	require.Less(t, full, uint64(55<<20), "10% above the data, the index included")
	require.NoError(t, l.SetStartOffset(99_000))
	require.Less(t, heap()-before, uint64(4<<20))
	runtime.KeepAlive(s)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkMemory(b *testing.B) {
	storagetest.Bench(b, func(*testing.B) storage.Store { return storage.NewMemory() })
}
