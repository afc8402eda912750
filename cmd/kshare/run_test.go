package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What stands below a directory is read only where it is a file: a pipe would be waited for, a device never end.
func TestOnlyFilesOfADirectoryAreRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("groups\n"), 0o600))
	files, err := scenarioNames([]string{dir})
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "a.txt")}, files)
	require.NoError(t, os.Symlink(os.DevNull, filepath.Join(dir, "b.txt")))
	_, err = scenarioNames([]string{dir})
	require.ErrorContains(t, err, "b.txt is no regular file: name it itself")
}
