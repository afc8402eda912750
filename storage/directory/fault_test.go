package directory

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"kshare/protocol"
	"kshare/storage"
	"kshare/storage/storagetest"
)

var userID, internalID, otherID = storage.PartitionID{Topic: [16]byte{1}}, storage.PartitionID{Topic: [16]byte{2}}, storage.PartitionID{Topic: [16]byte{3}}

// workload uses a store in all ways, going on after errors, and returns how far the two logs it only appends to
// were answered.
func workload(t *testing.T, fs vfs.FS, flush Flush) (answered map[storage.PartitionID]int64, failures int) {
	answered = map[storage.PartitionID]int64{}
	s, err := OpenFS(fs, "dir", small(flush))
	if err != nil {
		return answered, 1
	}
	try := func(err error) bool {
		if err != nil {
			failures++
		}
		return err == nil
	}
	for round := range 12 {
		for id, internal := range map[storage.PartitionID]bool{userID: false, internalID: true, otherID: false} {
			l, err := s.OpenLog(id, internal)
			if !try(err) {
				continue
			}
			end, size := l.EndOffset(), l.Size()
			h, b := storagetest.Batch(end, end, 1, 100+700*round)
			if !try(l.Append(h, b)) {
				require.Equal(t, end, l.EndOffset())
				require.Equal(t, size, l.Size())
			}
			if try(storagetest.Wait(s)) && id != otherID {
				answered[id] = l.EndOffset()
			}
			_, err = l.Read(l.StartOffset(), l.EndOffset(), 1<<20, true)
			try(err)
			if id == otherID && round%3 == 2 {
				try(l.SetStartOffset(min(l.StartOffset()+2, l.EndOffset())))
				try(l.Truncate(l.EndOffset() - 1))
			}
		}
		try(s.PutMetadata("key", []byte{byte(round)}))
	}
	try(s.DeleteLog(otherID))
	try(s.Close())
	return answered, failures
}

func requireAnswered(t *testing.T, fs vfs.FS, answered map[storage.PartitionID]int64) {
	t.Helper()
	s, err := OpenFS(fs, "dir", small(FlushNever))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for id, end := range answered {
		l, err := s.OpenLog(id, id == internalID)
		require.NoError(t, err)
		require.GreaterOrEqual(t, l.EndOffset(), end)
		got, err := l.Read(0, l.EndOffset(), 1<<30, false)
		require.NoError(t, err)
		requireWhole(t, join(got))
	}
}

// requireWhole checks that b is valid batches back to back.
func requireWhole(t *testing.T, b []byte) {
	t.Helper()
	for len(b) > 0 {
		h, err := protocol.ParseBatchHeader(b)
		require.NoError(t, err)
		require.Equal(t, h.CRC, protocol.BatchCRC(b[:h.Size()]))
		b = b[h.Size():]
	}
}

// Each operation on the file system fails once, and what was answered is there all the same.
func TestEachOperationFailsOnce(t *testing.T) {
	for name, flush := range map[string]Flush{"Never": FlushNever, "Always": FlushAlways} {
		for kind, injected := range map[string]error{"IO": syscall.EIO, "NoSpace": syscall.ENOSPC} {
			t.Run(name+kind, func(t *testing.T) {
				var total atomic.Int64
				count := errorfs.InjectorFunc(func(errorfs.Op) error { total.Add(1); return nil })
				_, failures := workload(t, errorfs.Wrap(vfs.NewMem(), count), flush)
				require.Zero(t, failures)
				step := max(1, int(total.Load())/80)
				for at := int64(0); at < total.Load()+5; at += int64(step) {
					var n atomic.Int64
					var hit atomic.Pointer[string]
					inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
						if n.Add(1)-1 == at && op.Kind != errorfs.OpFileClose {
							what := fmt.Sprintf("%v %s", op.Kind, op.Path)
							hit.Store(&what)
							return injected
						}
						return nil
					})
					mem := vfs.NewMem()
					answered, _ := workload(t, errorfs.Wrap(mem, inject), flush)
					if what := hit.Load(); what != nil {
						t.Log(at, *what)
					}
					requireAnswered(t, mem, answered)
				}
			})
		}
	}
}

// fullFS is a file system that can be full.
func fullFS(fs vfs.FS) (vfs.FS, *atomic.Bool) {
	full := &atomic.Bool{}
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpMkdirAll:
			if full.Load() {
				return syscall.ENOSPC
			}
		}
		return nil
	})), full
}

func TestFullDiskAndBack(t *testing.T) {
	for name, flush := range policies {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			fs, full := fullFS(mem)
			s, err := OpenFS(fs, "dir", small(flush))
			require.NoError(t, err)
			logs := map[storage.PartitionID]storage.Log{}
			for _, id := range []storage.PartitionID{userID, internalID} {
				logs[id], err = s.OpenLog(id, id == internalID)
				require.NoError(t, err)
			}
			write := func(l storage.Log, size int) error {
				h, b := storagetest.Batch(l.EndOffset(), l.EndOffset(), 1, size)
				if err := l.Append(h, b); err != nil {
					return err
				}
				return storagetest.Wait(s)
			}
			for range 5 {
				for _, l := range logs {
					require.NoError(t, write(l, 2000))
				}
				full.Store(true)
				for _, l := range logs {
					err := write(l, 2000)
					require.ErrorContains(t, err, "free space")
					end := l.EndOffset()
					h, b := storagetest.Batch(end, end, 1, 2000)
					require.ErrorIs(t, l.Append(h, b), syscall.ENOSPC)
					require.Equal(t, end, l.EndOffset())
					_, err = l.Read(0, end, 1<<20, true)
					require.NoError(t, err)
				}
				require.ErrorContains(t, s.PutMetadata("a", []byte("b")), "free space")
				full.Store(false)
				for _, l := range logs {
					require.NoError(t, write(l, 2000))
				}
			}
			answered := map[storage.PartitionID]int64{userID: logs[userID].EndOffset(), internalID: logs[internalID].EndOffset()}
			require.NoError(t, s.Close())
			requireAnswered(t, mem, answered)
		})
	}
}

// The disk is full for tables and the manifest alone: pebble's log still takes writes, its flushes wait.
func TestFullDiskForTables(t *testing.T) {
	mem := vfs.NewMem()
	var full atomic.Bool
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite) && !strings.Contains(op.Path, "wal") {
			return syscall.ENOSPC
		}
		return nil
	}))
	s, err := OpenFS(fs, "dir", small(FlushNever))
	require.NoError(t, err)
	l, err := s.OpenLog(internalID, true)
	require.NoError(t, err)
	write := func() error {
		h, b := storagetest.Batch(l.EndOffset(), l.EndOffset(), 1, 20000)
		return errors.Join(l.Append(h, b), storagetest.Wait(s))
	}
	full.Store(true)
	for err = write(); err == nil; err = write() {
	}
	require.ErrorContains(t, err, "free space")
	full.Store(false)
	for write() != nil {
		// the flush that waits notices by itself
	}
	for range 200 {
		require.NoError(t, write())
	}
	end := l.EndOffset()
	require.NoError(t, s.Close())
	requireAnswered(t, mem, map[storage.PartitionID]int64{internalID: end})
}

// A store that is closed on a full disk ends, and has what was answered as it is opened with space again.
func TestCloseOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	fs, full := fullFS(mem)
	s, err := OpenFS(fs, "dir", small(FlushNever))
	require.NoError(t, err)
	l, err := s.OpenLog(internalID, true)
	require.NoError(t, err)
	answered := int64(0)
	for i := range 100 {
		if i == 50 {
			full.Store(true)
		}
		h, b := storagetest.Batch(l.EndOffset(), l.EndOffset(), 1, 20000)
		if l.Append(h, b) == nil && storagetest.Wait(s) == nil {
			answered = l.EndOffset()
		}
	}
	require.Error(t, s.Close())
	require.EqualValues(t, 50, answered)
	requireAnswered(t, mem, map[storage.PartitionID]int64{internalID: answered})
}

// fsWithSpace tells how much of it is free.
type fsWithSpace struct {
	vfs.FS
	free uint64
}

func (fs fsWithSpace) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: fs.free}, nil
}

// On a full disk pebble would open a store for ever.
func TestOpenOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	s, err := OpenFS(mem, "dir", small(FlushNever))
	require.NoError(t, err)
	require.NoError(t, s.PutMetadata("key", []byte("value")))
	require.NoError(t, s.Close())
	_, err = OpenFS(fsWithSpace{mem, openRoom / 2}, "dir", small(FlushNever))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "free space on its file system")
	s, err = OpenFS(fsWithSpace{mem, 2 * openRoom}, "dir", small(FlushNever))
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// A flush that fails leaves unknown what the disk holds, so nothing is answered from then on.
func TestFailedFlushSticks(t *testing.T) {
	var fail atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fail.Load() && op.Kind == errorfs.OpFileSync {
			return syscall.EIO
		}
		return nil
	}))
	s, err := OpenFS(fs, "dir", small(FlushAlways))
	require.NoError(t, err)
	l, err := s.OpenLog(userID, false)
	require.NoError(t, err)
	h, b := storagetest.Batch(0, 0, 1, 100)
	require.NoError(t, l.Append(h, b))
	fail.Store(true)
	c := s.Commit()
	require.ErrorIs(t, c.Wait(), syscall.EIO)
	fail.Store(false)
	require.ErrorIs(t, c.Wait(), syscall.EIO)
	h, b = storagetest.Batch(1, 1, 1, 100)
	require.ErrorIs(t, l.Append(h, b), syscall.EIO)
	require.ErrorIs(t, s.PutMetadata("a", []byte("b")), syscall.EIO)
	require.Error(t, s.Close())
}
