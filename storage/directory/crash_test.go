package directory

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"kshare/storage"
	"kshare/storage/storagetest"
)

// crashed runs random operations, and after some of them looks at what a crash at that moment leaves.
func crashed(t *rapid.T, flush Flush, check func(m *storagetest.Machine, fs *vfs.MemFS, safe *storagetest.Model)) {
	fs := vfs.NewCrashableMem()
	s, err := OpenFS(fs, "dir", small(flush))
	require.NoError(t, err)
	m := &storagetest.Machine{Store: s, Model: storagetest.NewModel(), MaxBatch: 3000}
	defer func() { require.NoError(t, m.Store.Close()) }()
	var safe *storagetest.Model
	commit := func(t *rapid.T) {
		m.Commit(t)
		safe = m.Model.Clone()
		check(m, fs, safe)
	}
	commit(t)
	t.Repeat(map[string]func(*rapid.T){
		"Append": m.Append, "Append2": m.Append, "Append3": m.Append,
		"SetStartOffset": m.SetStartOffset, "Truncate": m.Truncate, "DeleteLog": m.DeleteLog, "Roll": m.Roll, "Replace": m.Replace,
		"PutMetadata": m.PutMetadata, "Commit": commit,
		"Reopen": func(t *rapid.T) {
			require.NoError(t, m.Store.Close())
			m.Store, err = OpenFS(fs, "dir", small(flush))
			require.NoError(t, err)
		},
	})
}

func reopened(t require.TestingT, fs vfs.FS, flush Flush, look func(storage.Store)) {
	s, err := OpenFS(fs, "dir", small(flush))
	require.NoError(t, err)
	look(s)
	require.NoError(t, s.Close())
}

func TestPowerLossLosesNothingThatWasAnswered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		crashed(t, FlushAlways, func(_ *storagetest.Machine, fs *vfs.MemFS, safe *storagetest.Model) {
			reopened(t, fs.CrashClone(vfs.CrashCloneCfg{}), FlushAlways, func(s storage.Store) {
				require.NoError(t, safe.Compare(s))
			})
		})
	})
}

// killed is what the operating system holds at this moment. A crash clone is that and taken in one step, but brings
// back files that were removed since the last sync.
func killed(t require.TestingT, fs *vfs.MemFS) *vfs.MemFS {
	clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	var tidy func(dir string)
	tidy = func(dir string) {
		names, err := clone.List(dir)
		require.NoError(t, err)
		for _, name := range names {
			path := fs.PathJoin(dir, name)
			if info, err := fs.Stat(path); err != nil {
				require.NoError(t, clone.RemoveAll(path))
			} else if info.IsDir() {
				tidy(path)
			}
		}
	}
	tidy("dir/" + logsName)
	return clone
}

func TestKillLosesNothingThatWasAnswered(t *testing.T) {
	for name, flush := range map[string]Flush{"Never": FlushNever, "Always": FlushAlways} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				crashed(t, flush, func(_ *storagetest.Machine, fs *vfs.MemFS, safe *storagetest.Model) {
					reopened(t, killed(t, fs), flush, func(s storage.Store) { require.NoError(t, safe.Compare(s)) })
				})
			})
		})
	}
}

// What was pushed survives a kill though nobody has waited for it: what is appended to another log behind it is never there without it.
func TestKillAfterPush(t *testing.T) {
	for _, flush := range []Flush{FlushNever, FlushAlways} {
		fs := vfs.NewCrashableMem()
		s, err := OpenFS(fs, "dir", small(flush))
		require.NoError(t, err)
		require.NoError(t, s.PutMetadata("key", []byte("value")))
		require.NoError(t, s.Push())
		reopened(t, killed(t, fs), flush, func(s storage.Store) {
			found := map[string]string{}
			require.NoError(t, s.Metadata("", func(key string, value []byte) error { found[key] = string(value); return nil }))
			require.Equal(t, map[string]string{"key": "value"}, found)
		})
		require.NoError(t, s.Close())
		require.ErrorIs(t, s.Push(), errClosed)
	}
}

// Whatever part of the unanswered writes reaches the disk, in whatever order, what was answered is there.
func TestPowerLossOfUnansweredWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := vfs.NewCrashableMem()
		s, err := OpenFS(fs, "dir", small(FlushAlways))
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		user, err := s.OpenLog(storage.PartitionID{Topic: [16]byte{1}}, false)
		require.NoError(t, err)
		internal, err := s.OpenLog(storage.PartitionID{Topic: [16]byte{2}}, true)
		require.NoError(t, err)
		logs := []storage.Log{user, internal}
		fill := func(name string) {
			for range rapid.IntRange(0, 12).Draw(t, name) {
				l := rapid.SampledFrom(logs).Draw(t, "log")
				h, b := storagetest.Batch(l.EndOffset(), l.EndOffset(), 1, rapid.IntRange(61, 9000).Draw(t, "size"))
				require.NoError(t, l.Append(h, b))
			}
		}
		fill("answered")
		require.NoError(t, storagetest.Wait(s))
		answered := []int64{user.EndOffset(), internal.EndOffset()}
		fill("unanswered")
		clone := fs.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: rapid.IntRange(1, 99).Draw(t, "percent"),
			RNG:                 rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)),
		})
		reopened(t, clone, FlushAlways, func(s storage.Store) {
			for i, id := range []storage.PartitionID{{Topic: [16]byte{1}}, {Topic: [16]byte{2}}} {
				l, err := s.OpenLog(id, i == 1)
				require.NoError(t, err)
				require.GreaterOrEqual(t, l.EndOffset(), answered[i])
				got, err := l.Read(0, answered[i], 1<<30, false)
				require.NoError(t, err)
				want, err := logs[i].Read(0, answered[i], 1<<30, false)
				require.NoError(t, err)
				require.Equal(t, join(want), join(got))
				h, b := storagetest.Batch(l.EndOffset(), l.EndOffset(), 1, 100)
				require.NoError(t, l.Append(h, b), "the log can be appended to")
			}
		})
	})
}

// Where nothing is flushed a power loss costs the end of a log: what is left has no hole, and the log goes on.
func TestPowerLossWithoutFlushLeavesNoHole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flush := rapid.SampledFrom([]Flush{FlushNever, FlushInterval(time.Hour)}).Draw(t, "flush")
		fs := vfs.NewCrashableMem()
		s, err := OpenFS(fs, "dir", small(flush))
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		l, err := s.OpenLog(storage.PartitionID{}, false)
		require.NoError(t, err)
		offset := func(t *rapid.T) int64 { return rapid.Int64Range(l.StartOffset(), l.EndOffset()).Draw(t, "offset") }
		extend := func(t *rapid.T) {
			h, b := storagetest.Batch(l.EndOffset(), l.EndOffset(), 1, rapid.IntRange(61, 9000).Draw(t, "size"))
			require.NoError(t, l.Append(h, b))
		}
		t.Repeat(map[string]func(*rapid.T){
			"Append": extend, "Append2": extend, "Append3": extend,
			"SetStartOffset": func(t *rapid.T) { require.NoError(t, l.SetStartOffset(offset(t))) },
			"Truncate":       func(t *rapid.T) { require.NoError(t, l.Truncate(offset(t))) },
			"Roll":           func(*rapid.T) { l.Roll() },
			"PowerLoss": func(t *rapid.T) {
				clone := fs.CrashClone(vfs.CrashCloneCfg{
					UnsyncedDataPercent: rapid.IntRange(1, 99).Draw(t, "percent"),
					RNG:                 rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)),
				})
				reopened(t, clone, flush, func(s storage.Store) {
					l, err := s.OpenLog(storage.PartitionID{}, false)
					require.NoError(t, err)
					next := int64(-1)
					require.NoError(t, l.Batches(0, func(b storage.Batch) bool {
						if next >= 0 {
							require.Equal(t, next, b.BaseOffset)
						}
						next = b.LastOffset + 1
						return true
					}))
					h, b := storagetest.Batch(l.EndOffset(), l.EndOffset(), 1, 100)
					require.NoError(t, l.Append(h, b))
				})
			},
		})
	})
}

func TestFlushIntervalFlushes(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s, err := OpenFS(fs, "dir", small(FlushInterval(time.Millisecond)))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	l, err := s.OpenLog(storage.PartitionID{}, false)
	require.NoError(t, err)
	h, b := storagetest.Batch(0, 0, 1, 100)
	require.NoError(t, l.Append(h, b))
	require.NoError(t, s.PutMetadata("a", []byte("b")))
	require.Eventually(t, func() bool {
		r, err := OpenFS(fs.CrashClone(vfs.CrashCloneCfg{}), "dir", small(FlushNever))
		require.NoError(t, err)
		defer r.Close()
		l, err := r.OpenLog(storage.PartitionID{}, false)
		require.NoError(t, err)
		found := false
		require.NoError(t, r.Metadata("a", func(string, []byte) error { found = true; return nil }))
		return found && l.EndOffset() == 1
	}, time.Minute, time.Millisecond)
}

func TestCommitIsNilWhereNothingIsLeftToWaitFor(t *testing.T) {
	for name, flush := range policies {
		t.Run(name, func(t *testing.T) {
			s, err := OpenFS(vfs.NewMem(), "dir", small(flush))
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			require.Nil(t, s.Commit())
			l, err := s.OpenLog(storage.PartitionID{}, false)
			require.NoError(t, err)
			h, b := storagetest.Batch(0, 0, 1, 100)
			require.NoError(t, l.Append(h, b))
			require.Equal(t, flush == FlushAlways, s.Commit() != nil, "a user's records wait for a flush alone")
			require.NoError(t, s.PutMetadata("a", []byte("b")))
			c := s.Commit()
			require.NotNil(t, c)
			require.NoError(t, c.Wait())
			require.NoError(t, c.Wait())
			require.Nil(t, s.Commit())
		})
	}
}

// Those who wait while a flush runs share the next one.
func TestCommitsShareAFlush(t *testing.T) {
	fs := &countingFS{FS: vfs.NewMem(), entered: make(chan struct{}), release: make(chan struct{})}
	s, err := OpenFS(fs, "dir", Options{Flush: FlushAlways, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	l, err := s.OpenLog(storage.PartitionID{}, false)
	require.NoError(t, err)
	write := func() storage.Commit {
		h, b := storagetest.Batch(l.EndOffset(), l.EndOffset(), 1, 100)
		require.NoError(t, l.Append(h, b))
		return s.Commit()
	}
	done := make(chan error)
	wait := func(c storage.Commit) { go func() { done <- c.Wait() }() }
	fs.hold.Store(true)
	wait(write())
	<-fs.entered // the first flush is under way
	for range 20 {
		wait(write())
	}
	fs.hold.Store(false)
	close(fs.release)
	for range 21 {
		require.NoError(t, <-done)
	}
	require.LessOrEqual(t, fs.syncs.Load(), int64(2))
	require.NoError(t, s.Close())
}

func join(slices [][]byte) (out []byte) {
	for _, s := range slices {
		out = append(out, s...)
	}
	return out
}
