package directory

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"kshare/storage"
	"kshare/storage/storagetest"
)

// segmented makes a log of four segments of two batches each.
func segmented(t require.TestingT, s storage.Store) (storage.Log, [][]byte) {
	l, err := s.OpenLog(userID, false)
	require.NoError(t, err)
	var batches [][]byte
	for i := range int64(8) {
		if i%2 == 0 {
			l.Roll()
		}
		h, b := storagetest.Batch(10*i, 10*i+9, 1000+i, 100+int(i))
		batches = append(batches, append([]byte(nil), b...))
		require.NoError(t, l.Append(h, b))
	}
	require.NoError(t, storagetest.Wait(s))
	return l, batches
}

// From some operation on nothing reaches the disk any more: whether the process was killed or the power lost, the log holds what was there or what took its
// place, and nothing is left over.
func TestReplaceInterrupted(t *testing.T) {
	for name, left := range map[string][]int{"some": {0, 3, 5}, "one": {5}, "none": {}} {
		t.Run(name, func(t *testing.T) {
			var outcomes [2]int
			for at := int64(0); ; at++ {
				mem := vfs.NewCrashableMem()
				var n atomic.Int64
				n.Store(-1 << 40)
				inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
					if n.Add(1) > at && op.Kind != errorfs.OpFileClose {
						return syscall.EIO
					}
					return nil
				})
				s, err := OpenFS(errorfs.Wrap(mem, inject), "dir", small(FlushAlways))
				require.NoError(t, err)
				l, batches := segmented(t, s)
				var with [][]byte
				for _, i := range left {
					with = append(with, batches[i])
				}
				n.Store(0)
				failed := l.Replace(0, 60, with)
				n.Store(-1 << 40)
				if failed != nil {
					got, err := l.Read(0, 80, 1<<20, false)
					if len(with) > 0 || err == nil { // a file that could not be removed could not be opened again either
						require.NoError(t, err)
						requireOneOf(t, join(got), batches, with)
					}
				}
				for _, fs := range []*vfs.MemFS{killed(t, mem), mem.CrashClone(vfs.CrashCloneCfg{})} {
					reopened(t, fs, FlushAlways, func(s storage.Store) {
						l, err := s.OpenLog(userID, false)
						require.NoError(t, err)
						require.EqualValues(t, 80, l.EndOffset())
						got, err := l.Read(0, 80, 1<<20, false)
						require.NoError(t, err)
						outcomes[requireOneOf(t, join(got), batches, with)]++
						if failed == nil {
							require.Equal(t, join(append(with, batches[6:]...)), join(got))
						}
						names, err := fs.List(fs.PathJoin("dir", logsName, logName(userID)))
						require.NoError(t, err)
						require.Len(t, names, len(l.Segments()), "%v", names)
						h, b := storagetest.Batch(80, 80, 1, 100)
						require.NoError(t, l.Append(h, b))
					})
				}
				require.NoError(t, s.Close())
				if failed == nil {
					break
				}
			}
			require.NotZero(t, outcomes[0], "it was interrupted before it began")
			require.NotZero(t, outcomes[1])
		})
	}
}

// requireOneOf tells whether bytes are those of all batches, 0, or those that replaced the first six with the rest, 1. Without any that replace them, the
// first segments may be gone alone.
func requireOneOf(t require.TestingT, got []byte, batches, with [][]byte) int {
	if string(got) == string(join(append(with[:len(with):len(with)], batches[6:]...))) {
		return 1
	}
	from := 0
	for len(with) == 0 && from < 6 && string(got) != string(join(batches[from:])) {
		from += 2
	}
	require.Equal(t, join(batches[from:]), got)
	return 0
}

// A name that only looks like a swap is not taken for one.
func TestSwapNames(t *testing.T) {
	base, end, ok := parseSwapName(swapName(12, 345))
	require.True(t, ok)
	require.Equal(t, []int64{12, 345}, []int64{base, end})
	for _, name := range []string{segmentName(12), "12-345.swap", swapName(12, 345) + ".tmp", fmt.Sprintf("%020d.swap", 12)} {
		_, _, ok := parseSwapName(name)
		require.False(t, ok, name)
	}
}
