package broker

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Direct is a connection without network and goroutine: a request is handled within Send, in the goroutine that sends it, so that a run on a
// virtual clock is a function of what is sent and when. Requests are answered one after the other, as on any connection.
//
// It belongs to one goroutine. A request that waits is answered by whatever ends its wait, an Advance of the clock or a request on
// another connection; Receive finds the answer. While the node is cut off nothing is handled or answered, as if the bytes were still
// on their way: the next call after HealNode goes on.
type Direct struct {
	conn    *connection
	sink    *sink
	queue   [][]byte // requests behind the waiting one, or sent while the node is cut off
	waiting *request // nil where none is
	ended   bool     // the cluster knows that the connection is gone
}

// OpenDirect opens a direct connection to a node.
func (c *Cluster) OpenDirect(nodeID int32) (*Direct, error) {
	n := c.node(nodeID)
	if n == nil {
		return nil, fmt.Errorf("the cluster has no node %d", nodeID)
	}
	s := &sink{}
	d := &Direct{conn: newDirectConnection(n, s), sink: s}
	c.connectionsMu.Lock()
	defer c.connectionsMu.Unlock()
	if !n.register(d.conn) {
		return nil, fmt.Errorf("node %d does not run", nodeID)
	}
	return d, nil
}

// Authenticate makes the client a principal, as in User:alice, as if it had said who it is. Without it is User:ANONYMOUS.
func (d *Direct) Authenticate(principal string) { d.conn.client.Principal = principal }

// Send sends a frame without its length, which is the connection's from then on. On a connection that has ended nothing happens.
func (d *Direct) Send(frame []byte) {
	if len(frame) > d.conn.node.cluster.maxFrame {
		d.fail(fmt.Errorf("a frame of %d bytes, socket.request.max.bytes is %d", len(frame), d.conn.node.cluster.maxFrame))
		return
	}
	d.queue = append(d.queue, frame)
	d.progress()
}

// Receive returns the next answer, a frame without its length: nil where there is none yet, io.EOF once the broker has closed the
// connection and all answers were received.
func (d *Direct) Receive() ([]byte, error) {
	d.progress()
	if frame := d.sink.next(); frame != nil {
		return frame, nil
	}
	if d.ended {
		return nil, io.EOF
	}
	return nil, nil
}

// Waits tells whether a request waits for its answer, be it because the node is cut off, or for ever because a fault has silenced the connection.
func (d *Direct) Waits() bool {
	d.progress()
	return !d.ended && (d.waiting != nil || len(d.queue) > 0 || d.conn.silenced.Load())
}

// Close closes the connection, as a client does that has gone.
func (d *Direct) Close() {
	d.conn.close()
	d.progress()
}

// Leave closes the connection as a network does it for a client that has gone: a broker reads nothing while a request waits, so it does not notice before
// that is answered, nor while the node is cut off. It tells whether the connection is closed; where it is not it is to be called again.
func (d *Direct) Leave() bool {
	d.progress()
	if !d.ended && (d.waiting != nil || d.conn.node.gate.isShut()) {
		return false
	}
	d.Close()
	return true
}

// progress goes on as far as it can without waiting.
func (d *Direct) progress() {
	for !d.ended {
		select {
		case <-d.conn.gone:
			d.end()
			return
		default:
		}
		if d.conn.node.gate.isShut() {
			return
		}
		var a answer
		r := d.waiting
		switch {
		case r != nil:
			select {
			case a = <-r.done:
				d.waiting = nil
			default:
				return
			}
		case len(d.queue) == 0:
			return
		default:
			var err error
			r, err = d.conn.parse(d.queue[0])
			d.queue = d.queue[1:]
			if err != nil {
				d.fail(err)
				return
			}
			if a, err = r.start(); err != nil {
				d.fail(d.conn.conclude(r, nil, err))
				return
			}
			if r.waits() {
				d.waiting = r
				continue
			}
		}
		a, err := r.finish(a)
		if err = d.conn.conclude(r, a, err); err != nil {
			d.fail(err)
			return
		}
	}
}

// fail closes the connection for a reason.
func (d *Direct) fail(why error) {
	d.conn.node.cluster.log.Warn("connection closed", "client", d.conn.net.RemoteAddr(), "error", why)
	d.conn.close()
	d.end()
}

// end tells the cluster once that the connection is gone.
func (d *Direct) end() {
	if d.ended {
		return
	}
	d.ended = true
	if d.waiting != nil {
		d.waiting.withdraw()
		d.conn.conclude(d.waiting, nil, d.waiting.abandoned()) // which returns that error
		d.waiting = nil
	}
	d.queue = nil
	d.conn.node.cluster.disconnected(d.conn)
}

// sink is the network end of a direct connection: it keeps what is written to it. A connection without goroutine reads nothing from it.
type sink struct {
	written []byte
}

// next takes the first whole frame off what was written, nil where there is none.
func (s *sink) next() []byte {
	if len(s.written) < 4 {
		return nil
	}
	end := 4 + int(binary.BigEndian.Uint32(s.written))
	if end > len(s.written) {
		return nil
	}
	frame := s.written[4:end:end]
	if s.written = s.written[end:]; len(s.written) == 0 {
		s.written = nil
	}
	return frame
}

func (s *sink) Write(b []byte) (int, error) {
	s.written = append(s.written, b...)
	return len(b), nil
}

func (*sink) Read([]byte) (int, error)         { return 0, os.ErrDeadlineExceeded }
func (*sink) Close() error                     { return nil }
func (*sink) LocalAddr() net.Addr              { return directAddr{} }
func (*sink) RemoteAddr() net.Addr             { return directAddr{} }
func (*sink) SetDeadline(time.Time) error      { return nil }
func (*sink) SetReadDeadline(time.Time) error  { return nil }
func (*sink) SetWriteDeadline(time.Time) error { return nil }

// directAddr is the address of either end of a direct connection, which has none.
type directAddr struct{}

func (directAddr) Network() string { return "direct" }
func (directAddr) String() string  { return "direct" }
