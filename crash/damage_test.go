package crash

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"kshare/storage/directory"
)

// usedStore is a store that clients of every kind have worked on.
func usedStore(t *testing.T, seed uint64) *vfs.MemFS {
	fs := vfs.NewMem()
	m := bootMachine(t, fs, directory.FlushNever)
	l := newLedger()
	work := m.work(t, l, seed)
	<-l.after(1500)
	work.stopAll()
	require.Empty(t, l.broken())
	require.NoError(t, m.stop(t))
	return fs
}

func files(t *testing.T, fs vfs.FS, dir string) (out []string) {
	t.Helper()
	names, err := fs.List(dir)
	require.NoError(t, err)
	slices.Sort(names)
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		require.NoError(t, err)
		if info.IsDir() {
			out = append(out, files(t, fs, path)...)
		} else if info.Size() > 0 {
			out = append(out, path)
		}
	}
	return out
}

func content(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	b := make([]byte, info.Size())
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	return b
}

// A cluster whose files were damaged starts, having repaired them or not noticed, or refuses to start with a message that names the store. It never panics,
// and where it starts it serves.
func TestDamagedStore(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	sample := usedStore(t, seed)
	paths := files(t, sample, storeDir)
	refused, started := 0, 0
	for range 150 {
		path := paths[rng.IntN(len(paths))]
		b := content(t, sample, path)
		at := rng.IntN(len(b))
		what := "cut"
		switch rng.IntN(4) {
		case 0:
			b = b[:at]
		case 1:
			what = "flipped"
			b[at] ^= 1 << rng.IntN(8)
		case 2:
			what = "zeroed"
			clear(b[at:min(len(b), at+rng.IntN(4096))])
		case 3:
			what = "garbled"
			b = slices.Concat(b[:at], bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(100)), b[at:])
		}
		fs := vfs.NewMem()
		_, err := vfs.Clone(sample, fs, storeDir, storeDir)
		require.NoError(t, err)
		f, err := fs.Create(path, "test")
		require.NoError(t, err)
		_, err = f.Write(b)
		require.NoError(t, err)
		require.NoError(t, f.Close())

		m := &machine{addr: "127.0.0.1:9092"}
		if err := m.boot(fs, directory.FlushNever); err != nil {
			refused++
			require.Contains(t, err.Error(), storeDir, "%s was %s at %d", path, what, at)
			continue
		}
		started++
		m.used(t)
		_ = m.stop(t) // which may find what is damaged
	}
	t.Logf("%d refused, %d started", refused, started)
	require.NotZero(t, refused)
	require.NotZero(t, started)
}

// used asks a machine for everything that it has, which may be refused but must be answered.
func (m *machine) used(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client := m.client(t)
	defer client.Close()
	admin := kadm.NewClient(client)
	_, err := admin.Metadata(ctx)
	require.NoError(t, err)
	_, err = admin.ListEndOffsets(ctx, topicName)
	require.NoError(t, err)
	_, _ = admin.FetchOffsets(ctx, classicGroup)
	_, err = admin.ListGroups(ctx)
	require.NoError(t, err)
}
