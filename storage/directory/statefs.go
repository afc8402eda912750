package directory

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// retryAfter is how long a background write of pebble waits for space before it tries again on its own.
const retryAfter = 100 * time.Millisecond

// stateFS is the file system that pebble sees. Pebble takes a failed write of its write-ahead log or manifest for
// fatal and has no way back, so a full disk must not reach it:
//
//   - Operations on write-ahead logs always succeed. One that failed, and all behind it, are queued and done again
//     in order; flush tells whether the queue is empty. Sync does nothing: the store asks for it by name (syncWAL)
//     where its policy wants it. The exception is a log that is done with, which is synced before the next one
//     begins, since pebble takes a torn log that is not the last for damage.
//   - Other writes come from pebble's background work and wait there until there is space. gate tells of it.
type stateFS struct {
	vfs.FS
	walDir string

	mu    sync.Mutex // guards what follows, and is held over the operations of the queue
	queue []walOp
	files map[string]*walFile
	lost  error // a sync failed: what the disk holds is unknown from then on

	health     sync.Mutex
	retry      *sync.Cond
	live       bool  // pebble is open and not being closed: background work may wait
	full       int   // background writes that wait for space
	fullErr    error // what the last of them met
	background error // why the last flush or compaction failed; nil after one that did not
	fatal      error // pebble cannot go on
}

type walOp struct {
	name string
	run  func() error
}

func newStateFS(inner vfs.FS, walDir string) *stateFS {
	s := &stateFS{FS: inner, walDir: walDir, files: map[string]*walFile{}}
	s.retry = sync.NewCond(&s.health)
	return s
}

func (s *stateFS) isWAL(name string) bool { return s.PathDir(name) == s.walDir }

// do runs an operation on a write-ahead log, or queues it where it fails or others are queued.
// keep is called before it is queued. s.mu is held.
func (s *stateFS) do(name string, run func() error, keep func()) {
	if len(s.queue) == 0 && run() == nil {
		return
	}
	if keep != nil {
		keep()
	}
	s.queue = append(s.queue, walOp{name: name, run: run})
}

// flush does what is queued. All that pebble wrote has reached the operating system where it returns nil.
func (s *stateFS) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 {
		if err := s.queue[0].run(); err != nil {
			return err
		}
		s.queue = s.queue[1:]
	}
	s.queue = nil
	return s.lost
}

// syncWAL makes what was flushed survive a power loss.
func (s *stateFS) syncWAL() error {
	s.mu.Lock()
	var dirty []*walFile
	for _, f := range s.files {
		if f.dirty {
			f.dirty = false
			dirty = append(dirty, f)
		}
	}
	err := s.lost
	s.mu.Unlock()
	for _, f := range dirty {
		if err == nil {
			err = f.sync()
		}
	}
	if err != nil {
		s.mu.Lock()
		s.lost = err
		s.mu.Unlock()
	}
	return err
}

// gate tells what keeps a write from being taken now, and has waiting background work try again.
func (s *stateFS) gate() error {
	s.mu.Lock()
	blocked := len(s.queue) > 0 || s.lost != nil
	s.mu.Unlock()
	if blocked {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.health.Lock()
	defer s.health.Unlock()
	if s.fatal != nil {
		return s.fatal
	}
	if s.full > 0 || s.background != nil {
		s.retry.Broadcast()
		return errors.Join(s.background, s.fullErr)
	}
	return nil
}

// opened lets background work wait for space; closing ends all waits.
func (s *stateFS) opened() { s.setLive(true) }

func (s *stateFS) closing() { s.setLive(false) }

func (s *stateFS) setLive(live bool) {
	s.health.Lock()
	s.live = live
	s.retry.Broadcast()
	s.health.Unlock()
}

func (s *stateFS) setFatal(err error) {
	s.health.Lock()
	if s.fatal == nil {
		s.fatal = err
	}
	s.health.Unlock()
}

// setBackground takes the outcome of a flush or compaction.
func (s *stateFS) setBackground(err error) {
	s.health.Lock()
	s.background = err
	s.health.Unlock()
}

// pause waits for retryAfter, a gate or closing. s.health is held.
func (s *stateFS) pause() {
	t := time.AfterFunc(retryAfter, s.retry.Broadcast)
	s.retry.Wait()
	t.Stop()
}

// waitForSpace runs f until it fails for another reason than a full disk.
func (s *stateFS) waitForSpace(f func() error) error {
	err := f()
	if !vfs.IsNoSpaceError(err) {
		return err
	}
	s.health.Lock()
	defer s.health.Unlock()
	s.full++
	for s.live && vfs.IsNoSpaceError(err) {
		s.fullErr = err
		s.pause()
		s.health.Unlock()
		err = f()
		s.health.Lock()
	}
	if s.full--; s.full == 0 {
		s.fullErr = nil
	}
	return err
}

// backOff keeps pebble, which tries a failed flush again at once, from doing so in a busy loop.
func (s *stateFS) backOff() {
	s.health.Lock()
	defer s.health.Unlock()
	if s.background != nil && s.live {
		s.pause()
	}
	for s.fatal != nil && s.live {
		s.retry.Wait()
	}
}

// Create implements vfs.FS.
func (s *stateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if s.isWAL(name) {
		return s.createWAL(name, category), nil
	}
	s.backOff()
	var file vfs.File
	err := s.waitForSpace(func() (err error) {
		file, err = s.FS.Create(name, category)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &stateFile{File: file, fs: s}, nil
}

func (s *stateFS) createWAL(name string, category vfs.DiskWriteCategory) *walFile {
	f := &walFile{fs: s, name: name}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = f
	s.do(name, func() (err error) {
		if f.inner == nil {
			if f.inner, err = s.FS.Create(name, category); err != nil {
				f.inner = nil
				return err
			}
		}
		return syncDir(s.FS, s.walDir)
	}, nil)
	return f
}

// ReuseForWrite implements vfs.FS. The old file is not reused: blocks that are there already would let writes of
// the log succeed on a full disk until pebble stalls.
func (s *stateFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := s.Remove(oldname); err != nil {
		return nil, err
	}
	return s.Create(newname, category)
}

// Remove implements vfs.FS. Pebble removes a write-ahead log once its content is safe elsewhere, so what is queued
// for it need not be written any more.
func (s *stateFS) Remove(name string) error {
	if !s.isWAL(name) {
		return s.FS.Remove(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = slices.DeleteFunc(s.queue, func(op walOp) bool { return op.name == name })
	if f := s.files[name]; f != nil {
		delete(s.files, name)
		_ = f.closeInner(false)
	}
	if err := s.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Rename implements vfs.FS.
func (s *stateFS) Rename(oldname, newname string) error {
	return s.waitForSpace(func() error { return s.FS.Rename(oldname, newname) })
}

// OpenDir implements vfs.FS.
func (s *stateFS) OpenDir(name string) (vfs.File, error) {
	dir, err := s.FS.OpenDir(name)
	if err == nil && name == s.walDir {
		return unsynced{dir}, nil
	}
	return dir, err
}

// Unwrap implements vfs.FS.
func (s *stateFS) Unwrap() vfs.FS { return s.FS }

// unsynced is the directory of the write-ahead logs, which createWAL syncs itself.
type unsynced struct{ vfs.File }

func (unsynced) Sync() error     { return nil }
func (unsynced) SyncData() error { return nil }

// stateFile is any file of pebble's but a write-ahead log.
type stateFile struct {
	vfs.File
	fs *stateFS
}

func (f *stateFile) Write(p []byte) (int, error) {
	rest := p
	err := f.fs.waitForSpace(func() error {
		n, err := f.File.Write(rest)
		rest = rest[n:]
		return err
	})
	return len(p) - len(rest), err
}

// walFile is a write-ahead log. Its fields are guarded by fs.mu, but for the closing of inner.
type walFile struct {
	vfs.File // nil: every method pebble calls on a log is below
	fs       *stateFS
	name     string
	inner    vfs.File // nil until it could be made
	dirty    bool     // written to since its last sync
	closing  sync.Mutex
	closed   bool // guarded by closing
}

func (f *walFile) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	rest := p
	f.fs.do(f.name, func() error {
		n, err := f.inner.Write(rest)
		rest = rest[n:]
		f.dirty = true
		return err
	}, func() { rest = slices.Clone(rest) })
	return len(p), nil
}

func (f *walFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.do(f.name, func() error {
		err := f.closeInner(true)
		if err != nil {
			f.fs.lost = err
		}
		delete(f.fs.files, f.name)
		return nil
	}, nil)
	return nil
}

func (f *walFile) closeInner(sync bool) (err error) {
	f.closing.Lock()
	defer f.closing.Unlock()
	if f.inner == nil || f.closed {
		return nil
	}
	if sync {
		err = f.inner.Sync()
	}
	f.closed = true
	return errors.Join(err, f.inner.Close())
}

// sync is called without fs.mu, so that pebble can go on writing.
func (f *walFile) sync() error {
	f.closing.Lock()
	defer f.closing.Unlock()
	if f.closed {
		return nil // synced as it was closed, or removed
	}
	return f.inner.Sync()
}

func (f *walFile) Sync() error                            { return nil }
func (f *walFile) SyncData() error                        { return nil }
func (f *walFile) SyncTo(int64) (bool, error)             { return false, nil }
func (f *walFile) Preallocate(offset, length int64) error { return nil }
func (f *walFile) Prefetch(offset, length int64) error    { return nil }
func (f *walFile) Fd() uintptr                            { return vfs.InvalidFd }

// Stat implements vfs.File. Pebble asks for the size of a log it believes to reuse; it is always a new one.
func (f *walFile) Stat() (vfs.FileInfo, error) { return emptyInfo{name: f.fs.PathBase(f.name)}, nil }

type emptyInfo struct{ name string }

func (i emptyInfo) Name() string         { return i.name }
func (emptyInfo) Size() int64            { return 0 }
func (emptyInfo) Mode() fs.FileMode      { return 0o644 }
func (emptyInfo) ModTime() time.Time     { return time.Time{} }
func (emptyInfo) IsDir() bool            { return false }
func (emptyInfo) Sys() any               { return nil }
func (emptyInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

var _ os.FileInfo = emptyInfo{}

// syncDir makes the names in a directory survive a power loss.
func syncDir(fs vfs.FS, dir string) error {
	f, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
