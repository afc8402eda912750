package broker

import (
	"context"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"kshare/clock"
	"kshare/config"
	"kshare/internal/memorynet"
	"kshare/storage"
)

// poorListener has no file descriptor for the first connections.
type poorListener struct {
	net.Listener
	fail int
}

func (l *poorListener) Accept() (net.Conn, error) {
	if l.fail > 0 {
		l.fail--
		return nil, syscall.EMFILE
	}
	return l.Listener.Accept()
}

func TestAcceptsAgainAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, failures := range []int{20, 1 << 30} {
			var network memorynet.Network
			static, err := config.Parse(nil)
			require.NoError(t, err)
			c, err := New(Options{
				Nodes: 1, FirstNodeID: 1,
				Listen: func(int32, string) (net.Listener, error) {
					l, err := network.Listen("127.0.0.1:9092")
					return &poorListener{l, failures}, err
				},
				Advertise: func(int32, string, net.Addr) (string, int32, error) { return "127.0.0.1", 9092, nil },
				Clock:     clock.Machine{},
				Store:     storage.NewMemory(),
				Config:    static,
				Log:       slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			if failures < 100 {
				conn, err := network.Dial(context.Background(), "tcp", "127.0.0.1:9092")
				require.NoError(t, err)
				_, err = conn.Write([]byte{0, 0, 0, 11, 0, 18, 0, 0, 0, 0, 0, 7, 0, 1, 'x'})
				require.NoError(t, err)
				answer := make([]byte, 8)
				_, err = conn.Read(answer)
				require.NoError(t, err)
				require.NoError(t, conn.Close())
			}
			require.NoError(t, c.Close())
		}
	})
}
