package directory

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"kshare/storage"
	"kshare/storage/storagetest"
)

func TestDirectoryOfTheOperatingSystem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := Open(dir, small(FlushAlways))
	require.NoError(t, err)
	_, err = Open(dir, small(FlushAlways))
	require.ErrorContains(t, err, "another process has it open")
	require.ErrorContains(t, err, dir)
	l, err := s.OpenLog(userID, false)
	require.NoError(t, err)
	for range 50 {
		h, b := storagetest.Batch(l.EndOffset(), l.EndOffset(), 1, 700)
		require.NoError(t, l.Append(h, b))
		require.NoError(t, storagetest.Wait(s))
	}
	require.NoError(t, l.SetStartOffset(20))
	require.NoError(t, l.Truncate(41))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "again")

	s, err = Open(dir, small(FlushNever))
	require.NoError(t, err)
	l, err = s.OpenLog(userID, false)
	require.NoError(t, err)
	require.EqualValues(t, 20, l.StartOffset())
	require.EqualValues(t, 41, l.EndOffset())
	require.NoError(t, s.DeleteLog(userID))
	require.NoError(t, s.Close())
}

func TestDirectoryIsMoved(t *testing.T) {
	from := filepath.Join(t.TempDir(), "from")
	s, err := Open(from, small(FlushNever))
	require.NoError(t, err)
	require.NoError(t, s.PutMetadata("key", []byte("value")))
	require.NoError(t, s.Close())

	to := filepath.Join(t.TempDir(), "to")
	require.NoError(t, os.Rename(from, to))
	s, err = Open(to, small(FlushNever))
	require.NoError(t, err)
	require.NoError(t, s.Metadata("", func(_ string, value []byte) error {
		require.Equal(t, "value", string(value))
		return nil
	}))
	require.NoError(t, s.Close())
}

func TestWrongDirectories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(file, Options{})
	require.ErrorContains(t, err, file+": not a directory: give the name of a directory")
	_, err = Open(filepath.Join(file, "below"), Options{})
	require.ErrorContains(t, err, file)

	if os.Getuid() != 0 {
		closed := t.TempDir()
		require.NoError(t, os.Chmod(closed, 0o500))
		_, err = Open(closed, Options{})
		require.ErrorContains(t, err, "permission denied: run as the owner")
	}
}

const childVariable = "KSHARE_STORAGE_CHILD"

// child writes batches and says how far it was answered, until it is killed.
func child(dir string) {
	s, err := Open(dir, small(FlushNever))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var logs []storage.Log
	for _, id := range []storage.PartitionID{userID, internalID} {
		l, err := s.OpenLog(id, id == internalID)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		logs = append(logs, l)
	}
	for i := int64(0); ; i++ {
		for _, l := range logs {
			h, b := storagetest.Batch(l.EndOffset(), l.EndOffset(), i, int(61+i*37%3000))
			if err := l.Append(h, b); err != nil {
				fmt.Println(err)
			}
		}
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], uint64(logs[0].EndOffset()))
		if err := s.PutMetadata("end", key[:]); err != nil {
			fmt.Println(err)
		}
		if err := storagetest.Wait(s); err != nil {
			fmt.Println(err)
		}
		fmt.Println(logs[0].EndOffset(), logs[1].EndOffset())
	}
}

func TestKillProcess(t *testing.T) {
	if dir := os.Getenv(childVariable); dir != "" {
		child(dir)
	}
	dir := t.TempDir()
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKillProcess$")
		cmd.Env = append(os.Environ(), childVariable+"="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		last := ""
		for n := 0; n < 50+round*37 && lines.Scan(); n++ {
			last = lines.Text()
		}
		require.NoError(t, cmd.Process.Kill())
		for lines.Scan() { // what was answered before the kill arrived
			last = lines.Text()
		}
		_ = cmd.Wait()
		user, internal, ok := strings.Cut(last, " ")
		require.True(t, ok, last)

		s, err := Open(dir, small(FlushNever))
		require.NoError(t, err)
		for id, answered := range map[storage.PartitionID]string{userID: user, internalID: internal} {
			end, err := strconv.ParseInt(answered, 10, 64)
			require.NoError(t, err, last)
			l, err := s.OpenLog(id, id == internalID)
			require.NoError(t, err)
			require.GreaterOrEqual(t, l.EndOffset(), end)
			got, err := l.Read(0, l.EndOffset(), 1<<30, true)
			require.NoError(t, err)
			requireWhole(t, join(got))
		}
		require.NoError(t, s.Close())
	}
}

func BenchmarkDirectory(b *testing.B) {
	for name, flush := range map[string]Flush{"Never": FlushNever, "Always": FlushAlways} {
		b.Run(name, func(b *testing.B) {
			storagetest.Bench(b, func(b *testing.B) storage.Store {
				s, err := Open(b.TempDir(), Options{Flush: flush})
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, s.Close()) })
				return s
			})
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		s, err := Open(b.TempDir(), Options{})
		require.NoError(b, err)
		require.NoError(b, s.Close())
	}
}
