package directory

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"kshare/storage"
)

// Keys of the state database. Fixed-width big-endian numbers behind the prefix make a log one contiguous range in
// offset order.
//
//	m key                          metadata
//	s topic partition              start offset of a log, 8 bytes; absent where it is 0
//	b topic partition base-offset  batch of an internal log
const (
	metadataPrefix = 'm'
	startPrefix    = 's'
	batchPrefix    = 'b'
)

const logKeySize = 1 + 16 + 4

func metadataKey(key string) []byte { return append([]byte{metadataPrefix}, key...) }

func logKey(prefix byte, id storage.PartitionID) []byte {
	k := make([]byte, 0, logKeySize+8)
	k = append(k, prefix)
	k = append(k, id.Topic[:]...)
	return binary.BigEndian.AppendUint32(k, uint32(id.Partition))
}

func batchKey(id storage.PartitionID, base int64) []byte {
	return binary.BigEndian.AppendUint64(logKey(batchPrefix, id), uint64(base))
}

// after is the first key behind all that begin with the prefix, whose first byte is not 0xff.
func after(prefix []byte) []byte {
	end := slices.Clone(prefix)
	for i := len(end) - 1; ; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
}

// state is the pebble database for metadata, start offsets and internal logs.
type state struct {
	db *pebble.DB
	fs *stateFS
}

// stateFormat is the newest format without sync offsets in the write-ahead log: pebble would note there that bytes
// are synced which stateFS has only handed to the operating system, and take their loss for damage.
const stateFormat = pebble.FormatColumnarBlocks

// silent takes pebble's messages. What matters of them comes as errors.
type silent struct{ fs *stateFS }

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}

// Fatalf is what pebble calls, and returns from with an error, where its manifest could not be written.
func (s silent) Fatalf(format string, args ...any) {
	s.fs.setFatal(fmt.Errorf(format+": the store takes no writes until it is opened again", args...))
}

func openState(inner vfs.FS, dir string, log *slog.Logger) (s *state, err error) {
	walDir := inner.PathJoin(dir, "wal")
	if err := checkWALs(inner, walDir, log); err != nil {
		return nil, err
	}
	if err := roomToOpen(inner, inner.PathDir(dir), walDir); err != nil {
		return nil, err
	}
	fs := newStateFS(inner, walDir)
	cache := pebble.NewCache(64 << 10)
	defer cache.Unref()
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("the database does not make sense: %v; %s", r, restoreAll)
		}
	}()
	options := &pebble.Options{
		FS:                          fs,
		WALDir:                      pebble.MakeStoreRelativePath(inner, "wal"), // pebble notes it, and the directory may be moved
		Cache:                       cache,
		FormatMajorVersion:          stateFormat,
		MemTableSize:                1 << 20, // it begins with 256 KiB
		MemTableStopWritesThreshold: 4,       // room for what arrives before the first failed flush closes the gate
		MaxOpenFiles:                64,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		Logger:                      silent{fs},
		EventListener: &pebble.EventListener{
			BackgroundError: fs.setBackground,
			DataCorruption:  func(pebble.DataCorruptionInfo) {}, // also comes as the error of the read
			FlushEnd: func(info pebble.FlushInfo) {
				if info.Err == nil {
					fs.setBackground(nil)
				}
			},
			CompactionEnd: func(info pebble.CompactionInfo) {
				if info.Err == nil {
					fs.setBackground(nil)
				}
			},
		},
	}
	// The other scheduler has a goroutine that looks every 100 ms whether more compactions may run at once, and
	// keeps it where Open fails. Here the limit is always 1.
	options.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	db, err := pebble.Open(dir, options)
	if pebble.IsCorruptionError(err) {
		return nil, fmt.Errorf("%sa file is damaged: %w; %s", damagedOptions(inner, dir, options), err, restoreAll)
	}
	if err != nil {
		return nil, err
	}
	if err := fs.flush(); err != nil {
		_ = db.Close()
		return nil, err
	}
	fs.opened()
	return &state{db: db, fs: fs}, nil
}

// restoreAll is what can be done about a damaged database.
const restoreAll = "restore the directory of the cluster from a copy, or choose another"

// damagedOptions names the file of options that pebble cannot read, which its own error does not; "" where that is not what is damaged.
func damagedOptions(fs vfs.FS, dir string, options *pebble.Options) string {
	names, _ := fs.List(dir)
	for _, name := range names {
		if !strings.HasPrefix(name, "OPTIONS-") {
			continue
		}
		content, err := readWhole(fs, fs.PathJoin(dir, name))
		if err == nil && pebble.IsCorruptionError(options.CheckCompatibility(dir, string(content))) {
			return name + ": "
		}
	}
	return ""
}

// openRoom is what opening the database takes on the disk beside the content of its write-ahead logs, generously.
const openRoom = 1 << 20

// roomToOpen refuses a full disk: pebble writes what is in the write-ahead logs to a table as it opens, and tries that again for ever.
func roomToOpen(fs vfs.FS, dir, walDir string) error {
	usage, err := fs.GetDiskUsage(dir)
	if err != nil {
		return nil // not every file system tells
	}
	need := uint64(openRoom)
	logs, _ := fs.List(walDir)
	for _, name := range logs {
		if info, err := fs.Stat(fs.PathJoin(walDir, name)); err == nil {
			need += uint64(info.Size())
		}
	}
	if usage.AvailBytes < need {
		return fmt.Errorf("%w: %d bytes are free, opening takes up to %d", syscall.ENOSPC, usage.AvailBytes, need)
	}
	return nil
}

// push hands everything written so far to the operating system.
func (s *state) push() error {
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		return err
	}
	if err := s.fs.flush(); err != nil {
		return err
	}
	s.fs.health.Lock()
	defer s.fs.health.Unlock()
	return s.fs.fatal
}

func (s *state) close() error {
	err := s.push()
	s.fs.closing()
	if closed := s.db.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = s.fs.flush()
	}
	return err
}

func (s *state) putMetadata(key string, value []byte) error {
	if len(value) == 0 {
		return s.db.Delete(metadataKey(key), pebble.NoSync)
	}
	return s.db.Set(metadataKey(key), value, pebble.NoSync)
}

func (s *state) metadata(prefix string, f func(key string, value []byte) error) error {
	lower := metadataKey(prefix)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: after(lower)})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := f(string(it.Key()[1:]), value); err != nil {
			return err
		}
	}
	return it.Error()
}

func (s *state) startOffset(id storage.PartitionID) (int64, error) {
	value, closer, err := s.db.Get(logKey(startPrefix, id))
	if err == pebble.ErrNotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer closer.Close()
	if len(value) != 8 || int64(binary.BigEndian.Uint64(value)) < 0 {
		return 0, fmt.Errorf("the start offset %x is not one", value)
	}
	return int64(binary.BigEndian.Uint64(value)), nil
}

func startValue(offset int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(offset)) }

func (s *state) setStartOffset(id storage.PartitionID, offset int64) error {
	return s.db.Set(logKey(startPrefix, id), startValue(offset), pebble.NoSync)
}

// deleteLog drops the start offset and all batches of a log.
func (s *state) deleteLog(id storage.PartitionID) error {
	b := s.db.NewBatch()
	defer b.Close()
	batches := logKey(batchPrefix, id)
	if err := b.Delete(logKey(startPrefix, id), nil); err != nil {
		return err
	}
	if err := b.DeleteRange(batches, after(batches), nil); err != nil {
		return err
	}
	return b.Commit(pebble.NoSync)
}
