package directory

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"kshare/storage"
	"kshare/storage/storagetest"
)

// sampleStore is a small store: a user's log of three segments and an internal log, partly in tables.
func sampleStore(t *testing.T) *vfs.MemFS {
	fs := vfs.NewMem()
	s, err := OpenFS(fs, "dir", small(FlushNever))
	require.NoError(t, err)
	for id, internal := range map[storage.PartitionID]bool{userID: false, internalID: true} {
		l, err := s.OpenLog(id, internal)
		require.NoError(t, err)
		for i := range int64(24) {
			h, b := storagetest.Batch(i*10, i*10+9, i, 500)
			require.NoError(t, l.Append(h, b))
		}
		require.NoError(t, l.SetStartOffset(25))
	}
	require.NoError(t, s.PutMetadata("a", []byte("b")))
	require.NoError(t, s.(*store).state.db.Flush())
	require.NoError(t, s.PutMetadata("c", []byte("d")))
	require.NoError(t, s.Close())
	return fs
}

func filesBelow(t *testing.T, fs vfs.FS, dir string) (out []string) {
	names, err := fs.List(dir)
	require.NoError(t, err)
	slices.Sort(names)
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		require.NoError(t, err)
		if info.IsDir() {
			out = append(out, filesBelow(t, fs, path)...)
		} else if name != lockFile {
			out = append(out, path)
		}
	}
	return out
}

func readFile(t *testing.T, fs vfs.FS, path string) []byte {
	f, err := fs.Open(path)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	b := make([]byte, info.Size())
	if len(b) > 0 {
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
	}
	return b
}

func writeFile(t *testing.T, fs vfs.FS, path string, b []byte) {
	f, err := fs.Create(path, "test")
	require.NoError(t, err)
	_, err = f.Write(b)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// useDamaged opens a store and reads and writes all of it. Every error is fine but a panic is not, and an error
// names the directory.
func useDamaged(t *testing.T, fs vfs.FS) (message string) {
	var log bytes.Buffer
	options := small(FlushNever)
	options.Log = slog.New(slog.NewTextHandler(&log, nil))
	s, err := OpenFS(fs, "dir", options)
	if err != nil {
		require.ErrorContains(t, err, "dir")
		return err.Error()
	}
	note := func(err error) {
		if err != nil {
			require.ErrorContains(t, err, "dir")
			message += err.Error() + "\n"
		}
	}
	note(s.Metadata("", func(string, []byte) error { return nil }))
	for id, internal := range map[storage.PartitionID]bool{userID: false, internalID: true} {
		l, err := s.OpenLog(id, internal)
		note(err)
		if err != nil {
			continue
		}
		_, err = l.Read(l.StartOffset(), l.EndOffset(), 1<<20, true)
		note(err)
		note(l.Batches(0, func(storage.Batch) bool { return true }))
		h, b := storagetest.Batch(l.EndOffset(), l.EndOffset(), 1, 100)
		if err := l.Append(h, b); err != nil {
			note(err)
			continue
		}
		got, err := l.Read(l.EndOffset()-1, l.EndOffset(), 1<<20, true)
		note(err)
		if err == nil {
			require.Equal(t, b, join(got))
		}
	}
	note(s.Close())
	return message + log.String()
}

// Each part of each file is cut off, flipped or zeroed: the store repairs it with a message or refuses it.
func TestDamage(t *testing.T) {
	sample := sampleStore(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, path := range filesBelow(t, sample, "dir") {
		whole := readFile(t, sample, path)
		step := max(1, len(whole)/20)
		t.Log(path, len(whole))
		for at := 0; at < len(whole); at += 1 + rng.IntN(step) {
			flipped := bytes.Clone(whole)
			flipped[at] ^= 1 << rng.IntN(8)
			zeroed := bytes.Clone(whole)
			clear(zeroed[at:min(len(whole), at+100)])
			for _, b := range [][]byte{whole[:at], flipped, zeroed} {
				fs := vfs.NewMem()
				_, err := vfs.Clone(sample, fs, "dir", "dir")
				require.NoError(t, err)
				writeFile(t, fs, path, b)
				useDamaged(t, fs)
			}
		}
	}
}

func segmentPath(base int64) string { return "dir/logs/" + logName(userID) + "/" + segmentName(base) }

// segmentBases are the segments of the sample's user log.
func segmentBases(t *testing.T, fs vfs.FS) (bases []int64) {
	for _, path := range filesBelow(t, fs, "dir/logs") {
		var base int64
		for _, c := range strings.TrimSuffix(path[strings.LastIndex(path, "/")+1:], segmentSuffix) {
			base = base*10 + int64(c-'0')
		}
		bases = append(bases, base)
	}
	return bases
}

func TestIncompleteLastWriteIsDropped(t *testing.T) {
	sample := sampleStore(t)
	bases := segmentBases(t, sample)
	require.GreaterOrEqual(t, len(bases), 2)
	path := segmentPath(bases[len(bases)-1])
	whole := readFile(t, sample, path)
	writeFile(t, sample, path, whole[:len(whole)-1])
	message := useDamaged(t, sample)
	for _, part := range []string{"dropped", path, "offset=230", "bytes_dropped=499"} {
		require.Contains(t, message, part)
	}
	require.Empty(t, useDamaged(t, sample), "it is repaired with the next append")
}

func TestDamageInTheMiddleIsRefused(t *testing.T) {
	for name, last := range map[string]bool{"LastSegment": true, "EarlierSegment": false} {
		t.Run(name, func(t *testing.T) {
			sample := sampleStore(t)
			bases := segmentBases(t, sample)
			base := bases[0]
			if last {
				base = bases[len(bases)-1]
			}
			path := segmentPath(base)
			b := readFile(t, sample, path)
			b[16] ^= 1 // the magic of the first batch
			writeFile(t, sample, path, b)
			message := useDamaged(t, sample)
			require.Contains(t, message, path+": the batch at byte 0 is damaged: its magic is 3, not 2; restore the file")
		})
	}
}

// sampleWAL is the write-ahead log of a store that was not closed, and its content: 24 records of about 600 bytes.
func sampleWAL(t *testing.T) (fs *vfs.MemFS, path string, content []byte) {
	fs = vfs.NewMem()
	s, err := OpenFS(fs, "dir", small(FlushNever))
	require.NoError(t, err)
	l, err := s.OpenLog(internalID, true)
	require.NoError(t, err)
	for i := range int64(24) {
		h, b := storagetest.Batch(i*10, i*10+9, i, 500)
		require.NoError(t, l.Append(h, b))
	}
	require.NoError(t, s.Commit().Wait())
	killed := vfs.NewMem()
	_, err = vfs.Clone(fs, killed, "dir", "dir")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for _, path := range filesBelow(t, killed, "dir/state/wal") {
		if content := readFile(t, killed, path); len(content) > 10000 {
			return killed, path, content
		}
	}
	t.Fatal("no write-ahead log")
	return nil, "", nil
}

// Pebble takes a damaged chunk of its last write-ahead log for the end. What was answered is behind it.
func TestDamagedStateLog(t *testing.T) {
	fs, path, whole := sampleWAL(t)
	require.Empty(t, useDamaged(t, fs))
	rng := rand.New(rand.NewPCG(3, 4))
	w := wal{content: whole, number: 2}
	_, sound := w.ends()
	require.Equal(t, len(whole), sound)
	last := 0 // where the last chunk begins
	for at := 0; ; {
		size, _ := w.chunk(at)
		if size == 0 || at+size >= len(whole) {
			break
		}
		last, at = at, at+size
	}
	damage := func(t *testing.T, content []byte) string {
		killed := vfs.NewMem()
		_, err := vfs.Clone(fs, killed, "dir", "dir")
		require.NoError(t, err)
		writeFile(t, killed, path, content)
		return useDamaged(t, killed)
	}
	for range 100 {
		at := rng.IntN(last)
		flipped := bytes.Clone(whole)
		flipped[at] ^= 1 << rng.IntN(8)
		require.Regexp(t, path+": the chunk at byte [0-9]+ is damaged, and sound ones follow from byte [0-9]+ on; restore the file", damage(t, flipped), "byte %d", at)
	}
	require.Contains(t, damage(t, whole[:last+20]), "the log of the state ends in an incomplete write, which is dropped")
	hole := bytes.Clone(whole)
	clear(hole[pageSize : 2*pageSize])
	require.Contains(t, damage(t, hole), "the log of the state ends in an incomplete write, which is dropped", "a page that a loss of power has not let be written")
}

// What pebble says of a damaged file says neither which nor what to do.
func TestDamagedStateFiles(t *testing.T) {
	for prefix, want := range map[string]string{"OPTIONS": "OPTIONS-[0-9]+: a file is damaged: .*; restore the directory", "MANIFEST": "; restore the directory"} {
		fs := sampleStore(t)
		for _, path := range filesBelow(t, fs, "dir/state") {
			if strings.HasPrefix(fs.PathBase(path), prefix) {
				b := readFile(t, fs, path)
				copy(b, "damaged")
				writeFile(t, fs, path, b)
			}
		}
		require.Regexp(t, want, useDamaged(t, fs))
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, fs *vfs.MemFS)
		want   string
	}{
		"NewerFormat": {func(t *testing.T, fs *vfs.MemFS) { writeFile(t, fs, "dir/format", []byte("kshare store, format 2\n")) },
			"dir/format: the store has format 2, this program knows up to 1: use a newer kshare"},
		"NoFormat": {func(t *testing.T, fs *vfs.MemFS) { require.NoError(t, fs.Remove("dir/format")) },
			"dir/format is missing"},
		"WrongFormat": {func(t *testing.T, fs *vfs.MemFS) { writeFile(t, fs, "dir/format", []byte("hello")) },
			`dir/format says "hello"`},
		"UnknownFile": {func(t *testing.T, fs *vfs.MemFS) { writeFile(t, fs, "dir/photo.jpg", nil) },
			"dir/photo.jpg does not belong to a store: move it away"},
		"UnknownLog": {func(t *testing.T, fs *vfs.MemFS) { writeFile(t, fs, "dir/logs/x-1", nil) },
			"dir/logs/x-1 does not belong to a store"},
		"UnknownSegment": {func(t *testing.T, fs *vfs.MemFS) { writeFile(t, fs, "dir/logs/"+logName(userID)+"/1.log", nil) },
			"1.log does not belong to a store"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := sampleStore(t)
			c.change(t, fs)
			require.Contains(t, useDamaged(t, fs), c.want)
		})
	}
}

func TestInterruptedRemovalIsFinished(t *testing.T) {
	fs := sampleStore(t)
	dir := "dir/logs/" + logName(userID)
	require.NoError(t, fs.Rename(dir, dir+deleted))
	require.Empty(t, useDamaged(t, fs))
	_, err := fs.Stat(dir + deleted)
	require.Error(t, err)
}
