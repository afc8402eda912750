package directory

import (
	"errors"
	"io/fs"
	"sync"
	"time"
)

// Flush says when what was written must survive a loss of power. It always survives a kill of the process: every
// write reaches the operating system before it is answered.
//
// A positive Flush is the longest time for which written data stays unflushed (Kafka: log.flush.interval.ms).
type Flush time.Duration

const (
	// FlushNever leaves it to the operating system, which is Kafka's default: a power loss costs what it had not
	// written yet of the last segment of each log. A segment is flushed as the next one begins, as Kafka does.
	FlushNever Flush = 0
	// FlushAlways flushes before an answer (Kafka: log.flush.interval.messages=1): a power loss costs nothing that
	// was answered. Answers that wait at the same time share a flush.
	FlushAlways Flush = -1
)

// FlushInterval flushes at the latest d after a write. d is positive.
func FlushInterval(d time.Duration) Flush { return Flush(d) }

// commits numbers writes and lets those who wait for them share the work. Its lock is the innermost one.
type commits struct {
	mu      sync.Mutex
	done    *sync.Cond
	written uint64 // writes that a Commit has to wait for
	durable uint64 // all writes up to this one are safe; durable <= written
	running bool   // someone is making them so
	closed  bool

	flushing sync.Mutex // held while files are synced, so that none is closed under it
	files    map[*segment]bool
	dirs     map[string]bool
	timer    *time.Timer // runs while a FlushInterval store has unflushed data
	timers   sync.WaitGroup
	failed   error // a sync failed: what the disk holds is unknown from then on
}

// commit is a storage.Commit.
type commit struct {
	store *store
	upTo  uint64
}

func (c commit) Wait() error {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.durable < c.upTo {
		if s.closed {
			return errClosed
		}
		if s.running {
			s.done.Wait()
			continue
		}
		s.running = true
		target := s.written
		s.mu.Unlock()
		err := s.push(s.options.Flush == FlushAlways)
		s.mu.Lock()
		s.running = false
		if err == nil {
			s.durable = target
		}
		s.done.Broadcast()
		if err != nil {
			return s.errorf("commit", s.dir, err)
		}
	}
	return nil
}

// push hands all that was written to the operating system, and with flush has it written to the disk.
func (s *store) push(flush bool) error {
	if err := s.state.push(); err != nil || !flush {
		return err
	}
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.mu.Lock()
	files, dirs, err := s.files, s.dirs, s.failed
	s.files, s.dirs = map[*segment]bool{}, map[string]bool{}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for f := range files {
		if err := f.sync(); err != nil {
			return s.fail(err)
		}
	}
	for dir := range dirs {
		// A directory that was removed since is part of the one it was in.
		if err := syncDir(s.fs, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s.fail(err)
		}
	}
	return s.state.fs.syncWAL()
}

// fail makes a failed sync stick: the operating system may have dropped what it could not write and forgotten it.
func (s *store) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	return err
}

// wrote notes a write that has yet to be made safe: to the state database where seg is nil.
func (s *store) wrote(seg *segment, dirs ...string) {
	policy := s.options.Flush
	if seg != nil && policy == FlushNever {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if seg == nil || policy == FlushAlways {
		s.written++
	}
	if policy == FlushNever {
		return
	}
	if seg != nil {
		s.files[seg] = true
	}
	for _, dir := range dirs {
		s.dirs[dir] = true
	}
	if policy > 0 && s.timer == nil {
		s.timers.Add(1)
		s.timer = time.AfterFunc(time.Duration(policy), s.flushInterval)
	}
}

func (s *store) flushInterval() {
	defer s.timers.Done()
	s.mu.Lock()
	s.timer = nil
	s.mu.Unlock()
	if err := s.push(true); err != nil {
		s.log.Error("flush failed", "dir", s.dir, "error", err)
	}
}

func (s *store) stopTimer() {
	s.mu.Lock()
	if s.timer != nil && s.timer.Stop() {
		s.timers.Done()
	}
	s.timer = nil
	s.mu.Unlock()
	s.timers.Wait()
}

// beginClose waits for a running commit and keeps others from beginning. It is false where the store is closed.
func (s *store) beginClose() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running {
		s.done.Wait()
	}
	if s.closed {
		return false
	}
	s.running = true
	return true
}

func (s *store) endClose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.durable = s.written
	}
	s.running, s.closed = false, true
	s.done.Broadcast()
}
