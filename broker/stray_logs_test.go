package broker_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"kshare"
)

// A store whose metadata is gone while its records are there says so.
func TestLostMetadataIsReported(t *testing.T) {
	dir := t.TempDir()
	start := func() (*kshare.Cluster, string) {
		var log bytes.Buffer
		c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithDirectory(dir), kshare.WithTopic("t", 1), kshare.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, err)
		return c, log.String()
	}
	c, log := start()
	require.NotContains(t, log, "records of topics")
	produce(t, newClient(t, c), "t", 0, 1)
	require.NoError(t, c.Close())
	c, log = start()
	require.NotContains(t, log, "records of topics")
	require.NoError(t, c.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "state")))
	c, log = start()
	require.Contains(t, log, "the store holds records of topics that it does not know")
	require.NoError(t, c.Close())
}
