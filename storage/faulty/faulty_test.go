package faulty_test

import (
	"errors"
	"io"
	"log/slog"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/storage"
	"kshare/storage/directory"
	"kshare/storage/faulty"
	"kshare/storage/storagetest"
)

// While nothing is told to fail, nothing is different.
func TestWorks(t *testing.T) {
	storagetest.Run(t, func() (storage.Store, func(storage.Store) (storage.Store, error), error) {
		return faulty.New(storage.NewMemory()), nil, nil
	})
}

// stores are the kinds of store that can be made to fail.
func stores(t *testing.T) map[string]storage.Store {
	dir, err := directory.Open(t.TempDir(), directory.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	return map[string]storage.Store{"memory": storage.NewMemory(), "directory": dir}
}

func TestFails(t *testing.T) {
	for name, inner := range stores(t) {
		t.Run(name, func(t *testing.T) {
			s := faulty.New(inner)
			defer func() { require.NoError(t, s.Close()) }()
			id := storage.PartitionID{Topic: [16]byte{1}}
			l, err := s.OpenLog(id, false)
			require.NoError(t, err)
			write := func() error {
				h, batch := storagetest.Batch(l.EndOffset(), l.EndOffset(), 1, 200)
				return l.Append(h, batch)
			}
			read := func() error {
				_, err := l.Read(0, l.EndOffset(), 1000, true)
				return err
			}
			require.NoError(t, write())

			s.FailWrites(2, nil)
			require.ErrorIs(t, write(), syscall.ENOSPC)
			require.ErrorIs(t, s.PutMetadata("a", []byte("b")), syscall.ENOSPC)
			require.NoError(t, write(), "it was two writes")
			require.NoError(t, read())
			assert.EqualValues(t, 2, l.EndOffset(), "what failed has changed nothing")

			own := errors.New("the disk fell down")
			s.FailWrites(0, own)
			s.FailReads(0, nil)
			for range 3 {
				require.ErrorIs(t, write(), own)
				require.ErrorIs(t, l.SetStartOffset(1), own)
				require.ErrorIs(t, l.Truncate(1), own)
				require.ErrorIs(t, s.DeleteLog(id), own)
				require.ErrorIs(t, read(), syscall.EIO)
				require.ErrorIs(t, l.Batches(0, func(storage.Batch) bool { return true }), syscall.EIO)
			}
			s.Mend()
			require.NoError(t, write())
			require.NoError(t, read())
			require.NoError(t, l.SetStartOffset(1))
		})
	}
}

// BenchmarkStore is what the possibility to fail costs: compare with BenchmarkMemory of package storage.
func BenchmarkStore(b *testing.B) {
	storagetest.Bench(b, func(*testing.B) storage.Store { return faulty.New(storage.NewMemory()) })
}
