package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/clock"
	"kshare/config"
	"kshare/internal/memorynet"
	"kshare/kip1289"
	"kshare/protocol"
	"kshare/storage"
)

// panics counts the panics that a cluster logs: a handler's panic ends the connection, not the process.
type panics struct {
	mu   sync.Mutex
	seen []string
}

func (p *panics) Enabled(context.Context, slog.Level) bool { return true }
func (p *panics) WithAttrs([]slog.Attr) slog.Handler       { return p }
func (p *panics) WithGroup(string) slog.Handler            { return p }
func (p *panics) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "panic" || a.Key == "stack" {
			p.mu.Lock()
			p.seen = append(p.seen, a.Value.String())
			p.mu.Unlock()
		}
		return true
	})
	return nil
}

// fuzzCluster is a cluster on a clock that stands still, with a topic that has a record.
func fuzzCluster(t testing.TB, log slog.Handler) *Cluster {
	t.Helper()
	var network memorynet.Network
	static, err := config.Parse(nil)
	require.NoError(t, err)
	c, err := New(Options{
		Nodes: 1, FirstNodeID: 1,
		Listen:    func(int32, string) (net.Listener, error) { return network.Listen("127.0.0.1:9092") },
		Advertise: func(int32, string, net.Addr) (string, int32, error) { return "127.0.0.1", 9092, nil },
		Clock:     clock.NewVirtual(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)),
		Store:     storage.NewMemory(),
		Config:    static,
		Topics:    []TopicSpec{{Name: "t", Partitions: 2}},
		Log:       slog.New(log),
		KIP1289:   &kip1289.Switches{},
	})
	require.NoError(t, err)
	b := protocol.NewBatchBuilder()
	require.NoError(t, b.Append(0, []byte("k"), []byte("v")))
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NoError(t, c.topics["t"].partition(0).appendBuilt(b))
	return c
}

// frame is a request as it stands on a connection, with its length.
func frame(q kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("fuzz")).AppendRequest(nil, q, 7)
}

// oneOfEach are frames of every API in its lowest and highest version.
func oneOfEach() [][]byte {
	var frames [][]byte
	add := func(a *protocol.API) {
		for _, v := range []int16{a.MinVersion, a.MaxVersion} {
			frames = append(frames, frame(a.NewRequest(v)))
		}
	}
	for i := range protocol.APIs {
		add(&protocol.APIs[i])
	}
	add(protocol.TxnShareAcknowledgeAPI(protocol.TxnShareAcknowledgeKey))
	return frames
}

// FuzzFrames feeds bytes to a connection: whatever they are, they give answers or end the connection, and nothing panics.
func FuzzFrames(f *testing.F) {
	for _, b := range oneOfEach() {
		f.Add(b)
	}
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	var log panics
	c := fuzzCluster(f, &log)
	f.Cleanup(func() { require.NoError(f, c.Close()) })
	h := inUse(f, c)
	for seed, a := range hostileAPIs() {
		h.rng = rand.New(rand.NewPCG(uint64(seed), 2))
		f.Add(frame(h.request(a)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		client, server := net.Pipe()
		defer client.Close()
		conn := newConnection(c.nodes[0], server, &c.listeners[0])
		conn.close() // a request that waits finds its connection gone, and ends
		conn.reader.src = bytes.NewReader(b)
		for {
			frame, err := conn.reader.next()
			if err != nil {
				if len(b) == 0 {
					require.ErrorIs(t, err, io.EOF)
				}
				break
			}
			require.LessOrEqual(t, len(frame), len(b))
			r, err := conn.parse(frame)
			if err != nil {
				break
			}
			a, err := r.run()
			if err != nil {
				break
			}
			if a != nil {
				a.AppendTo(nil)
			}
		}
		c.disconnected(conn)
		log.mu.Lock()
		defer log.mu.Unlock()
		require.Empty(t, log.seen)
	})
}

// Every API answers an empty request, in every version that is offered, or closes the connection.
func TestEmptyRequests(t *testing.T) {
	var log panics
	c := fuzzCluster(t, &log)
	defer func() { require.NoError(t, c.Close()) }()
	for _, b := range oneOfEach() {
		client, server := net.Pipe()
		conn := newConnection(c.nodes[0], server, &c.listeners[0])
		conn.close()
		r, err := conn.parse(b[4:])
		key := int16(binary.BigEndian.Uint16(b[4:]))
		if err == nil {
			if a, err := r.run(); err == nil && a != nil {
				a.AppendTo(nil)
			}
		} else {
			require.Equal(t, int16(produceKey), key, err) // v0 of Produce is offered and not taken
		}
		client.Close()
	}
	require.Empty(t, log.seen)
}
