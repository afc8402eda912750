// Package directory is the storage.Store that keeps a cluster in a directory.
//
//	DIR/format                          the version of the layout
//	DIR/LOCK                            held while a process has the store open
//	DIR/state/                          pebble: metadata, start offsets, internal logs
//	DIR/logs/TOPICID-PARTITION/*.log    users' logs: segment files named by their base offset, as in Kafka
//
// Everything that was answered survives a kill of the process at any moment: segment files are written to before
// Append returns, and what goes to pebble reaches the operating system before Commit.Wait returns. What survives a
// power loss is up to the Flush policy.
package directory

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kshare/storage"
	"kshare/storage/internal/runs"
)

// formatVersion is the version of the layout. A store of a newer one is refused.
const formatVersion = 1

const (
	formatFile = "format"
	formatText = "kshare store, format "
	lockFile   = "LOCK"
	stateName  = "state"
	logsName   = "logs"
	deleted    = ".deleted" // behind the name of a log that is being removed
)

// Options says how a store is kept. The zero value is a good one.
type Options struct {
	// Flush is FlushNever by default.
	Flush Flush
	// SegmentBytes is how large a segment file grows, 64 MiB by default (Kafka: log.segment.bytes). A larger batch
	// has a file of its own.
	SegmentBytes int64
	// RecentBytes is how many bytes of the newest batches of all users' logs are held in memory too, so that they
	// are read without a copy; 32 MiB by default.
	RecentBytes int64
	// Log takes the warnings about what was repaired; slog.Default() by default.
	Log *slog.Logger
}

type store struct {
	fs      vfs.FS
	dir     string
	options Options
	log     *slog.Logger
	lock    io.Closer
	state   *state
	logs    map[storage.PartitionID]storage.Log
	logDirs map[string]bool // names below logsDir
	cache   cache
	commits
}

var errClosed = errors.New("the store is closed")

// Open opens the store in a directory of the operating system, and makes it where there is none.
func Open(dir string, options Options) (storage.Store, error) {
	return OpenFS(vfs.Default, dir, options)
}

// OpenFS is Open on any file system.
func OpenFS(fs vfs.FS, dir string, options Options) (storage.Store, error) {
	if options.SegmentBytes <= 0 {
		options.SegmentBytes = 64 << 20
	}
	if options.RecentBytes <= 0 {
		options.RecentBytes = 32 << 20
	}
	if options.Log == nil {
		options.Log = slog.Default()
	}
	s := &store{
		fs: fs, dir: dir, options: options, log: options.Log,
		logs:    map[storage.PartitionID]storage.Log{},
		logDirs: map[string]bool{},
		cache:   cache{budget: options.RecentBytes},
		commits: commits{files: map[*segment]bool{}, dirs: map[string]bool{}},
	}
	s.done = sync.NewCond(&s.mu)
	if err := s.open(); err != nil {
		if s.lock != nil {
			_ = s.lock.Close()
		}
		return nil, s.errorf("open store", dir, err)
	}
	return s, nil
}

func (s *store) stateDir() string { return s.fs.PathJoin(s.dir, stateName) }
func (s *store) logsDir() string  { return s.fs.PathJoin(s.dir, logsName) }

func (s *store) open() error {
	if info, err := s.fs.Stat(s.dir); err == nil && !info.IsDir() {
		return fmt.Errorf("%w: give the name of a directory", syscall.ENOTDIR)
	}
	if err := s.fs.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if err := s.checkFormat(); err != nil {
		return err
	}
	var err error
	if s.lock, err = s.fs.Lock(s.fs.PathJoin(s.dir, lockFile)); err != nil {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || vfs.IsNoSpaceError(err) {
			return err
		}
		return fmt.Errorf("another process has it open: stop that one or choose another directory (%w)", err)
	}
	if err := s.makeFormat(); err != nil {
		return err
	}
	if s.state, err = openState(s.fs, s.stateDir(), s.log); err != nil {
		return fmt.Errorf("%s: %w", s.stateDir(), err)
	}
	if err := s.openLogsDir(); err != nil {
		_ = s.state.close()
		return err
	}
	return nil
}

// checkFormat refuses a directory that is not a store, or one of a version this program does not know. It changes
// nothing.
func (s *store) checkFormat() error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	known := []string{formatFile, formatFile + temporary, lockFile, stateName, logsName, "lost+found"}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return unknownFile(s.fs.PathJoin(s.dir, name))
		}
	}
	path := s.fs.PathJoin(s.dir, formatFile)
	f, err := s.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if slices.Contains(names, stateName) || slices.Contains(names, logsName) {
			return fmt.Errorf("%s is missing: this is not a store, or a damaged one; restore the file or choose another directory", path)
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 100))
	if err != nil {
		return err
	}
	text, ok := strings.CutPrefix(strings.TrimSuffix(string(b), "\n"), formatText)
	version, err := strconv.Atoi(text)
	switch {
	case !ok || err != nil || version < 1:
		return fmt.Errorf("%s says %q, not %q: restore the file or choose another directory", path, b, formatText+strconv.Itoa(formatVersion))
	case version > formatVersion:
		return fmt.Errorf("%s: the store has format %d, this program knows up to %d: use a newer kshare or choose another directory", path, version, formatVersion)
	}
	return nil
}

// makeFormat marks the directory as a store where it is none yet, before anything else is put there.
func (s *store) makeFormat() error {
	path := s.fs.PathJoin(s.dir, formatFile)
	if _, err := s.fs.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := s.fs.Create(path+temporary, "kshare-format")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s%d\n", formatText, formatVersion)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := s.fs.Rename(path+temporary, path); err != nil {
		return err
	}
	// The name of the directory itself is made safe too, since a FlushAlways store may begin with it.
	return errors.Join(syncDir(s.fs, s.dir), syncDir(s.fs, s.fs.PathDir(s.dir)))
}

// openLogsDir takes stock of the logs and finishes the removal of those that were being removed.
func (s *store) openLogsDir() error {
	dir := s.logsDir()
	if _, err := s.fs.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := s.fs.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return syncDir(s.fs, s.dir)
	}
	names, err := s.fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		id, ok := parseLogName(strings.TrimSuffix(name, deleted))
		if !ok {
			return unknownFile(s.fs.PathJoin(dir, name))
		}
		if !strings.HasSuffix(name, deleted) {
			s.logDirs[name] = true
			continue
		}
		if err := s.state.deleteLog(id); err != nil {
			return err
		}
		if err := s.state.push(); err != nil {
			return err
		}
		if err := s.removeDeleted(s.fs.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// logName is the name of a log's directory.
func logName(id storage.PartitionID) string {
	return hex.EncodeToString(id.Topic[:]) + "-" + strconv.Itoa(int(id.Partition))
}

func parseLogName(name string) (id storage.PartitionID, ok bool) {
	topic, partition, _ := strings.Cut(name, "-")
	b, err := hex.DecodeString(topic)
	n, numErr := strconv.ParseInt(partition, 10, 32)
	if err != nil || numErr != nil || len(b) != 16 || n < 0 {
		return id, false
	}
	id = storage.PartitionID{Topic: [16]byte(b), Partition: int32(n)}
	return id, logName(id) == name
}

func unknownFile(path string) error {
	return fmt.Errorf("%s does not belong to a store: move it away or choose another directory", path)
}

// errorf says what failed where, and what to do about it where that is known.
func (s *store) errorf(doing, path string, err error) error {
	switch {
	case vfs.IsNoSpaceError(err):
		return fmt.Errorf("%s %s: %w: free space on its file system", doing, path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s %s: %w: run as the owner of the directory or choose another", doing, path, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s %s: %w: choose a directory that can be written to", doing, path, err)
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}

func (s *store) OpenLog(id storage.PartitionID, internal bool) (storage.Log, error) {
	if l := s.logs[id]; l != nil {
		return l, nil
	}
	var l storage.Log
	var err error
	if internal {
		l, err = openStateLog(s, id)
	} else {
		l, err = openSegmentLog(s, id)
	}
	if err != nil {
		return nil, err
	}
	s.logs[id] = l
	return l, nil
}

// Logs implements storage.Store.
func (s *store) Logs() []storage.PartitionID {
	ids := make([]storage.PartitionID, 0, len(s.logDirs))
	for name := range s.logDirs {
		if id, ok := parseLogName(name); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *store) DeleteLog(id storage.PartitionID) error {
	dir := s.fs.PathJoin(s.logsDir(), logName(id))
	if err := s.deleteLog(id, dir); err != nil {
		return s.errorf("delete log", dir, err)
	}
	return nil
}

func (s *store) deleteLog(id storage.PartitionID, dir string) error {
	if l, ok := s.logs[id].(*segmentLog); ok {
		s.forget(l, func() { l.recent = runs.List{} })
		s.flushing.Lock()
		err := l.close()
		for _, seg := range l.segments {
			seg.gone = true
		}
		s.flushing.Unlock()
		if err != nil {
			return err
		}
	}
	delete(s.logs, id)
	if s.logDirs[logName(id)] {
		// The name goes first, so that a crash leaves either the whole log or none. A removal of a log of this
		// name that failed half-way is out of the way before.
		if err := s.removeDeleted(dir + deleted); err != nil {
			return err
		}
		if err := s.fs.Rename(dir, dir+deleted); err != nil {
			return err
		}
		delete(s.logDirs, logName(id))
		s.wrote(nil, s.logsDir())
	}
	if err := s.writeState(func() error { return s.state.deleteLog(id) }); err != nil {
		return err
	}
	return s.removeDeleted(dir + deleted)
}

func (s *store) removeDeleted(dir string) error {
	if err := s.fs.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// usable tells what keeps any write from being taken.
func (s *store) usable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// writeState runs a write to the state database where the database can take one now.
func (s *store) writeState(write func() error) error {
	if err := errors.Join(s.usable(), s.state.fs.gate()); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	s.wrote(nil)
	return nil
}

func (s *store) PutMetadata(key string, value []byte) error {
	if err := s.writeState(func() error { return s.state.putMetadata(key, value) }); err != nil {
		return s.errorf("put metadata in", s.stateDir(), err)
	}
	return nil
}

func (s *store) Metadata(prefix string, f func(key string, value []byte) error) error {
	var failed error // f's own error, which is handed on as it is
	err := s.state.metadata(prefix, func(key string, value []byte) error {
		failed = f(key, value)
		return failed
	})
	if err != nil && failed == nil {
		return s.errorf("read metadata from", s.stateDir(), err)
	}
	return err
}

func (s *store) Commit() storage.Commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.durable == s.written {
		return nil
	}
	return commit{store: s, upTo: s.written}
}

func (s *store) Push() error {
	s.mu.Lock()
	clean, closed := s.durable == s.written, s.closed
	s.mu.Unlock()
	if closed {
		return s.errorf("push", s.dir, errClosed)
	}
	if clean {
		return nil
	}
	if err := s.state.push(); err != nil {
		return s.errorf("push", s.dir, err)
	}
	return nil
}

func (s *store) Close() error {
	s.stopTimer()
	if !s.beginClose() {
		return nil
	}
	err := s.push(s.options.Flush != FlushNever)
	err = errors.Join(err, s.state.close())
	for _, l := range s.logs {
		if l, ok := l.(*segmentLog); ok {
			err = errors.Join(err, l.close())
		}
	}
	err = errors.Join(err, s.lock.Close())
	s.endClose(err)
	if err != nil {
		return s.errorf("close store", s.dir, err)
	}
	return nil
}
