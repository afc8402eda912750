package storagetest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"kshare/storage"
)

// Opener makes an empty store of the kind under test. The second function closes it and opens it again; nil where
// a store does not outlive its process.
type Opener func() (storage.Store, func(storage.Store) (storage.Store, error), error)

// Run checks that a kind of store does what storage.Store promises.
func Run(t *testing.T, open Opener) {
	t.Run("RandomOperations", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { random(t, open) })
	})
	t.Run("LargeAndSmallBatches", func(t *testing.T) { largeAndSmall(t, open) })
	t.Run("AdjacentBatchesShareASlice", func(t *testing.T) { adjacent(t, open) })
	t.Run("LogsAreApart", func(t *testing.T) { apart(t, open) })
}

func random(t *rapid.T, open Opener) {
	s, reopen, err := open()
	require.NoError(t, err)
	m := &Machine{Store: s, Model: NewModel(), MaxBatch: 3000}
	defer func() { require.NoError(t, m.Store.Close()) }()
	actions := map[string]func(*rapid.T){
		"Append": m.Append, "Append2": m.Append, "Append3": m.Append, "AppendWrong": m.AppendWrong,
		"SetStartOffset": m.SetStartOffset, "Truncate": m.Truncate, "Read": m.Read, "Read2": m.Read,
		"Roll": m.Roll, "Replace": m.Replace,
		"DeleteLog": m.DeleteLog, "PutMetadata": m.PutMetadata, "Commit": m.Commit, "Push": m.Push, "": m.Check,
	}
	if reopen != nil {
		actions["Reopen"] = func(t *rapid.T) {
			s, err := reopen(m.Store)
			require.NoError(t, err)
			m.Store = s
		}
	}
	t.Repeat(actions)
}

func appendAll(t *testing.T, l storage.Log, sizes ...int) (want []byte) {
	for _, size := range sizes {
		h, b := Batch(l.EndOffset(), l.EndOffset()+1, 7, size)
		want = append(want, b...)
		require.NoError(t, l.Append(h, b))
	}
	return want
}

func largeAndSmall(t *testing.T, open Opener) {
	s, _, err := open()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for _, internal := range []bool{false, true} {
		l, err := s.OpenLog(storage.PartitionID{Topic: [16]byte{3}, Partition: map[bool]int32{true: 1}[internal]}, internal)
		require.NoError(t, err)
		want := appendAll(t, l, 100, 1<<20, 61, 65536, 65535, 3<<20, 200, 200)
		got, err := l.Read(0, l.EndOffset(), 1<<30, false)
		require.NoError(t, err)
		require.Equal(t, want, flat(got))
		got, err = l.Read(3, l.EndOffset(), 100, true)
		require.NoError(t, err)
		require.Len(t, flat(got), 1<<20, "the batch that holds the offset, whatever its size")
		got, err = l.Read(3, l.EndOffset(), 100, false)
		require.NoError(t, err)
		require.Empty(t, flat(got))
		got, err = l.Read(l.EndOffset(), l.EndOffset(), 100, true)
		require.NoError(t, err)
		require.Empty(t, got)
	}
}

func adjacent(t *testing.T, open Opener) {
	s, _, err := open()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	l, err := s.OpenLog(storage.PartitionID{Topic: [16]byte{3}}, false)
	require.NoError(t, err)
	for range 10000 {
		appendAll(t, l, 100)
	}
	got, err := l.Read(10000, 20000, 300_000, true)
	require.NoError(t, err)
	require.Len(t, flat(got), 300_000)
	require.LessOrEqual(t, len(got), 80, "a slice holds many batches")
}

func apart(t *testing.T, open Opener) {
	s, _, err := open()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for _, internal := range []bool{false, true} {
		topic := [16]byte{9}
		if internal {
			topic[15] = 1
		}
		var logs []storage.Log
		for p := range int32(3) {
			l, err := s.OpenLog(storage.PartitionID{Topic: topic, Partition: p}, internal)
			require.NoError(t, err)
			again, err := s.OpenLog(storage.PartitionID{Topic: topic, Partition: p}, internal)
			require.NoError(t, err)
			require.Same(t, l, again)
			appendAll(t, l, 100, 100)
			logs = append(logs, l)
		}
		require.NoError(t, s.DeleteLog(storage.PartitionID{Topic: topic, Partition: 1}))
		require.NoError(t, s.DeleteLog(storage.PartitionID{Topic: topic, Partition: 77}))
		l, err := s.OpenLog(storage.PartitionID{Topic: topic, Partition: 1}, internal)
		require.NoError(t, err)
		require.Zero(t, l.EndOffset())
		require.Zero(t, l.Size())
		require.EqualValues(t, 200, logs[0].Size())
		require.EqualValues(t, 200, logs[2].Size())
	}
}
