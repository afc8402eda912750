package kshare

import (
	"errors"
	"log/slog"
	"sync"

	"kshare/config"
	"kshare/storage"
)

// Memory is what a cluster keeps in memory, where that is to outlive the cluster: another one that is started on it goes on where the last one was closed,
// as with a directory. It serves one cluster at a time.
type Memory struct {
	mu    sync.Mutex
	store storage.Store
	used  bool
}

// NewMemory makes an empty memory.
func NewMemory() *Memory { return &Memory{store: storage.NewMemory()} }

// WithMemory keeps the cluster in a memory that Close leaves as it is. Start fails while another cluster runs on it.
func WithMemory(m *Memory) Option {
	return func(o *options) error {
		o.openStore = func(*config.Static, *slog.Logger) (storage.Store, error) { return m.take() }
		return nil
	}
}

// take gives the store to a cluster until that closes it.
func (m *Memory) take() (storage.Store, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used {
		return nil, errors.New("the memory is in use by a cluster that is not closed")
	}
	m.used = true
	return takenMemory{m.store, m}, nil
}

// takenMemory is a memory's store in the hands of a cluster.
type takenMemory struct {
	storage.Store
	memory *Memory
}

// Close gives the store back.
func (t takenMemory) Close() error {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	t.memory.used = false
	return nil
}
