package scenario

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"kshare"
)

// Remote is a Kafka on the network, where time is the machine's.
type Remote struct {
	bootstrap []string // of which one answers
	dial      func(ctx context.Context, network, addr string) (net.Conn, error)
	inside    *kshare.Cluster // the Kafka, where it is a kshare in the process
	operator  Nodes           // nil where nobody does anything to the Kafka's nodes
	arrived   chan struct{}   // something has come in on a connection
}

// NewRemote makes a target of the Kafka that its brokers' host:port name, one of them or several with commas between.
func NewRemote(bootstrap string) *Remote {
	var d net.Dialer
	return &Remote{bootstrap: strings.Split(bootstrap, ","), dial: d.DialContext, arrived: make(chan struct{}, 1)}
}

// NewOperated is NewRemote for a Kafka whose nodes the caller has started: scenarios stop them, start them and move what they lead and coordinate. They
// leave the nodes as they are when they end.
func NewOperated(bootstrap string, nodes Nodes) *Remote {
	r := NewRemote(bootstrap)
	r.operator = nodes
	return r
}

// setUp does nothing: how the cluster was started is up to who started it.
func (*Remote) setUp(settings) error { return nil }

func (*Remote) starts() bool { return false }

func (r *Remote) cluster() *kshare.Cluster { return r.inside }

func (r *Remote) nodes() Nodes {
	if r.inside != nil {
		return r.inside
	}
	return r.operator
}

func (*Remote) virtual() bool  { return false }
func (*Remote) now() time.Time { return time.Now() }
func (*Remote) close() error   { return nil }

func (r *Remote) pass(ctx context.Context, limit time.Time) {
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	select {
	case <-r.arrived:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// dialTimeout is how long a broker may take to accept a connection.
const dialTimeout = 10 * time.Second

func (r *Remote) open(_ int32, addr string) (conn, error) {
	addrs := []string{addr}
	if addr == "" {
		addrs = r.bootstrap
	}
	nc, err := r.dialOne(addrs)
	if err != nil {
		return nil, err
	}
	c := &socket{net: nc, arrived: r.arrived}
	go c.read()
	return c, nil
}

// dialOne connects to the first address where somebody listens.
func (r *Remote) dialOne(addrs []string) (net.Conn, error) {
	var failed error
	for _, addr := range addrs {
		ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
		nc, err := r.dial(ctx, "tcp", addr)
		cancel()
		if err == nil {
			return nc, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// socket is a connection over TCP.
type socket struct {
	net     net.Conn
	arrived chan<- struct{}

	mu     sync.Mutex
	frames [][]byte
	ended  bool
}

func (c *socket) send(frame []byte) {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(frame)), uint32(len(frame)))
	if _, err := c.net.Write(append(b, frame...)); err != nil {
		c.net.Close() // which the reader finds
	}
}

func (c *socket) receive() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.frames) > 0 {
		f := c.frames[0]
		c.frames = c.frames[1:]
		return f, nil
	}
	if c.ended {
		return nil, io.EOF
	}
	return nil, nil
}

func (c *socket) close() { c.net.Close() }

// maxAnswer bounds the answers that are read, in bytes.
const maxAnswer = 256 << 20

// read takes in what the broker answers until the connection ends.
func (c *socket) read() {
	for {
		frame, err := readFrame(c.net)
		c.mu.Lock()
		if err != nil {
			c.ended = true
		} else {
			c.frames = append(c.frames, frame)
		}
		c.mu.Unlock()
		select {
		case c.arrived <- struct{}{}:
		default:
		}
		if err != nil {
			c.net.Close()
			return
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}
