package broker_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare"
)

// A connection over which nothing comes is closed after connections.max.idle.ms, and at most a tenth later.
func TestIdleConnectionsAreClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *kshare.Cluster) {
		conn, err := c.Dial(context.Background(), "tcp", c.Addrs()[0])
		require.NoError(t, err)
		began := time.Now()
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		assert.GreaterOrEqual(t, time.Since(began), time.Minute)
		assert.LessOrEqual(t, time.Since(began), time.Minute+time.Minute/10)
	}, kshare.WithConfig("connections.max.idle.ms", "60000"))
}
