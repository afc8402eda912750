// Package faulty is a store whose reads and writes fail when they are told to, around any other store.
package faulty

import (
	"sync"
	"sync/atomic"
	"syscall"

	"kshare/protocol"
	"kshare/storage"
)

// Store is a store that can be told to fail. A write that fails has changed nothing. Unlike the rest of a Store, what tells it may be called beside
// other calls.
type Store struct {
	storage.Store
	logs   map[storage.PartitionID]*log
	faults faults
}

// faults are what goes wrong with a store and its logs.
type faults struct{ reads, writes fault }

// fault is what goes wrong with one kind of access. The zero value is nothing.
type fault struct {
	on   atomic.Bool // so that what does not fail costs a look
	mu   sync.Mutex
	err  error
	left int // how many fail, 0 for all
}

// begin has the next n accesses fail, all of them where n is 0.
func (f *fault) begin(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.left = err, n
	f.on.Store(true)
}

func (f *fault) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on.Store(false)
}

// check is the error of an access.
func (f *fault) check() error {
	if !f.on.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on.Load() {
		return nil
	}
	if f.left > 0 {
		f.left--
		f.on.Store(f.left > 0)
	}
	return f.err
}

// New makes a store that can fail of one that works. Nothing fails at first.
func New(s storage.Store) *Store { return &Store{Store: s, logs: map[storage.PartitionID]*log{}} }

// FailWrites has the next n writes fail, all of them where n is 0: of records, log starts, what cleaning leaves and metadata. Without an error the disk is full (ENOSPC). It
// takes the place of what was told before.
func (s *Store) FailWrites(n int, err error) {
	if err == nil {
		err = syscall.ENOSPC
	}
	s.faults.writes.begin(n, err)
}

// FailReads has the next n reads of records fail, all of them where n is 0. Without an error the disk cannot be read (EIO). It takes the place of what
// was told before.
func (s *Store) FailReads(n int, err error) {
	if err == nil {
		err = syscall.EIO
	}
	s.faults.reads.begin(n, err)
}

// Mend has reads and writes succeed again.
func (s *Store) Mend() {
	s.faults.reads.end()
	s.faults.writes.end()
}

// OpenLog implements storage.Store. Making a log is no write of its own.
func (s *Store) OpenLog(id storage.PartitionID, internal bool) (storage.Log, error) {
	l, err := s.Store.OpenLog(id, internal)
	if err != nil {
		return nil, err
	}
	if old := s.logs[id]; old != nil && old.Log == l {
		return old, nil
	}
	s.logs[id] = &log{l, &s.faults}
	return s.logs[id], nil
}

// DeleteLog implements storage.Store.
func (s *Store) DeleteLog(id storage.PartitionID) error {
	if err := s.faults.writes.check(); err != nil {
		return err
	}
	delete(s.logs, id)
	return s.Store.DeleteLog(id)
}

// PutMetadata implements storage.Store.
func (s *Store) PutMetadata(key string, value []byte) error {
	if err := s.faults.writes.check(); err != nil {
		return err
	}
	return s.Store.PutMetadata(key, value)
}

// log is a log of a store that can fail.
type log struct {
	storage.Log
	faults *faults
}

func (l *log) Append(header *protocol.BatchHeader, batch []byte) error {
	if err := l.faults.writes.check(); err != nil {
		return err
	}
	return l.Log.Append(header, batch)
}

func (l *log) SetStartOffset(offset int64) error {
	if err := l.faults.writes.check(); err != nil {
		return err
	}
	return l.Log.SetStartOffset(offset)
}

func (l *log) Truncate(offset int64) error {
	if err := l.faults.writes.check(); err != nil {
		return err
	}
	return l.Log.Truncate(offset)
}

func (l *log) Replace(base, end int64, batches [][]byte) error {
	if err := l.faults.writes.check(); err != nil {
		return err
	}
	return l.Log.Replace(base, end, batches)
}

func (l *log) Read(offset, end int64, maxBytes int, atLeastOne bool) ([][]byte, error) {
	if err := l.faults.reads.check(); err != nil {
		return nil, err
	}
	return l.Log.Read(offset, end, maxBytes, atLeastOne)
}

func (l *log) Batches(offset int64, f func(storage.Batch) bool) error {
	if err := l.faults.reads.check(); err != nil {
		return err
	}
	return l.Log.Batches(offset, f)
}
