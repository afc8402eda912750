package memorynet

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// connected returns both ends of a connection.
func connected(t *testing.T) (client, server net.Conn) {
	var n Network
	l, err := n.Listen("127.0.0.1:1")
	require.NoError(t, err)
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	client, err = n.Dial(context.Background(), "tcp", "127.0.0.1:1")
	require.NoError(t, err)
	return client, <-accepted
}

func TestDial(t *testing.T) {
	var n Network
	_, err := n.Dial(context.Background(), "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, ErrRefused)
	l, err := n.Listen("127.0.0.1:1")
	require.NoError(t, err)
	_, err = n.Listen("127.0.0.1:1")
	require.ErrorContains(t, err, "127.0.0.1:1 is in use")
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = n.Dial(gone, "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = n.Listen("127.0.0.1:1")
	require.NoError(t, err, "a closed listener frees its address")
}

func TestBytesArriveInOrder(t *testing.T) {
	client, server := connected(t)
	sent := bytes.Repeat([]byte("0123456789"), capacity/5) // more than fits: the writer waits for the reader
	go func() {
		_, err := client.Write(sent)
		require.NoError(t, err)
		require.NoError(t, client.Close())
	}()
	got, err := io.ReadAll(server)
	require.NoError(t, err)
	require.True(t, bytes.Equal(sent, got))
	_, err = server.Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.NoError(t, server.Close())
	_, err = server.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connected(t)
		began := time.Now()
		require.NoError(t, client.SetReadDeadline(began.Add(time.Second)))
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))

		require.NoError(t, client.SetReadDeadline(time.Time{}))
		_, err = server.Write([]byte("x"))
		require.NoError(t, err)
		n, err := client.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, 1, n)

		require.NoError(t, client.SetWriteDeadline(time.Now().Add(time.Second)))
		n, err = client.Write(make([]byte, 2*capacity))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, capacity, n)
		require.NoError(t, client.SetDeadline(time.Now().Add(-time.Second)))
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}
