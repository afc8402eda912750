package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"kshare/storage"
	"kshare/storage/storagetest"
)

func TestMemoryReadsWhatWasAppended(t *testing.T) {
	store := storage.NewMemory()
	l, err := store.OpenLog(storage.PartitionID{}, false)
	require.NoError(t, err)
	var all []byte
	for i := range int64(1000) {
		h, b := storagetest.Batch(i*2, i*2+1, i, 100)
		all = append(all, b...)
		require.NoError(t, l.Append(h, b))
	}
	got, err := l.Read(0, l.EndOffset(), 1<<30, false)
	require.NoError(t, err)
	var read []byte
	for _, s := range got {
		read = append(read, s...)
	}
	require.Equal(t, all, read)
	require.EqualValues(t, len(all), l.Size())
}
