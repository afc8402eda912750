package storage_test

import (
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
