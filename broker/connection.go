package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"kshare/acl"
	"kshare/protocol"
	"kshare/sharesession"
)

const (
	// firstReadBuffer is what a connection holds that has not yet sent a larger frame, so that thousands of idle ones are cheap.
	firstReadBuffer = 4 << 10
	// keptBuffer bounds the buffers that a connection keeps from one request to the next.
	keptBuffer = 64 << 10
	// keptParts bounds the list of buffers that a connection keeps for vectored writes.
	keptParts = 1 << 10
	// trustedFrame is the largest frame whose memory is taken as soon as its length is known. A longer one gets
	// memory as its bytes arrive, so that a length alone costs nothing.
	trustedFrame = 1 << 20
	// growth is how many times the bytes that have arrived of such a frame its memory may be.
	growth = 4
)

// connection is one client connection. Its goroutine reads a request, handles it and writes the answer before
// it reads the next one, so answers leave in the order of the requests and no request overtakes another.
type connection struct {
	id     sharesession.Connection
	node   *node
	net    net.Conn // what requests are read from: over TLS what is inside it
	raw    net.Conn // what it is on the network
	reader frameReader
	out    []byte // the answer being built; kept between requests, as the next one
	parts  [][]byte
	share  *protocol.ShareRequests // nil before the first share request

	listener *listener
	auth     *authentication // nil where the client need not say who it is
	client   acl.Client      // once it is authenticated; requests read it alone

	idleFrom time.Time // when the deadline was set last

	silenced atomic.Bool // by a fault: nothing is answered any more

	closeOnce sync.Once
	gone      chan struct{} // closed with the connection

	tap Tap // nil where nobody is told what goes over it
}

func newConnection(n *node, nc net.Conn, l *listener) *connection {
	c := newDirectConnection(n, nc)
	c.listener, c.auth, c.net = l, newAuthentication(l), l.overTLS(nc)
	c.reader.src = c.net
	if c.auth != nil {
		c.reader.max, c.reader.limit = min(n.cluster.maxToken, n.cluster.maxFrame), "sasl.server.max.receive.size"
	}
	return c
}

// newDirectConnection makes a connection whose client is taken at its word.
func newDirectConnection(n *node, nc net.Conn) *connection {
	return &connection{
		id:       sharesession.Connection(n.cluster.connectionIDs.Add(1)),
		node:     n,
		net:      nc,
		raw:      nc,
		reader:   frameReader{src: nc, max: n.cluster.maxFrame, limit: "socket.request.max.bytes"},
		listener: &n.cluster.listeners[0],
		client:   acl.Client{Principal: acl.Anonymous, Host: hostOf(nc)},
		gone:     make(chan struct{}),
	}
}

// close ends the connection; the goroutine that serves it ends soon after. It may be called from anywhere.
func (c *connection) close() {
	c.closeOnce.Do(func() {
		if c.tap != nil {
			c.tap.Closed(uint64(c.id))
		}
		close(c.gone)
		c.raw.Close()
	})
}

// shareRequests decodes the connection's share requests. What it returned last is valid until the next request.
func (c *connection) shareRequests() *protocol.ShareRequests {
	if c.share == nil {
		c.share = &protocol.ShareRequests{}
	}
	return c.share
}

// hostOf is the address of a client.
func hostOf(nc net.Conn) string {
	host, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err != nil {
		return "127.0.0.1" // an in-memory connection has no address
	}
	return host
}

// clientHost is the client's address as groups describe it.
func (c *connection) clientHost() string { return "/" + c.client.Host }

// serve answers requests until the connection ends.
func (c *connection) serve() {
	defer c.node.cluster.disconnected(c)
	defer c.close()
	defer c.sayGoodbye()
	c.node.gate.pass(c.gone)
	if err := c.secure(); err != nil {
		c.node.cluster.log.Info("connection ended", "client", c.net.RemoteAddr(), "listener", c.listener.Name, "error", err)
		return
	}
	for {
		c.allowIdle()
		frame, err := c.reader.next()
		c.node.gate.pass(c.gone)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				c.node.cluster.log.Debug("connection ended", "client", c.net.RemoteAddr(), "error", err)
			}
			if c.auth != nil && c.auth.state != authDone && errors.Is(err, protocol.ErrMalformed) {
				c.pause(c.node.cluster.failureDelay)
			}
			return
		}
		if err := c.answer(frame); err != nil {
			select {
			case <-c.gone: // the broker closed it; what failed is a consequence
			default:
				c.node.cluster.log.Warn("connection closed", "client", c.net.RemoteAddr(), "error", err)
			}
			return
		}
	}
}

// allowIdle gives the client connections.max.idle.ms, and up to a tenth more, to send or take something. The deadline is renewed once that tenth
// has passed, so that a busy connection pays nothing for it.
func (c *connection) allowIdle() {
	idle := c.node.cluster.maxIdle
	if idle == 0 {
		return
	}
	now := time.Now()
	if now.Sub(c.idleFrom) < idle/10 && !c.silenced.Load() {
		return
	}
	c.idleFrom = now
	deadline := now.Add(idle + idle/10)
	if c.silenced.Load() {
		deadline = time.Time{} // a broker that hangs does not notice
	}
	if err := c.net.SetDeadline(deadline); err != nil {
		c.close() // only a closed connection takes no deadline
	}
}

// answer handles one frame and writes what it is answered with. An error ends the connection.
func (c *connection) answer(frame []byte) error {
	if c.auth.takesBare() {
		return c.answerBare(frame)
	}
	r, err := c.parse(frame)
	if err != nil {
		return err
	}
	a, err := r.run()
	c.node.gate.pass(c.gone)
	return c.conclude(r, a, err)
}

// conclude notes what becomes of a request and sends its answer, if it has one. Whoever has read the answer finds it in the request log: it is
// noted first, and noted again where it cannot be sent.
func (c *connection) conclude(r *request, a answer, err error) error {
	if err == nil && a != nil && (r.logged != nil || c.tap != nil) {
		a = encoded(a)
	}
	if r.logged != nil {
		r.depart(a, err)
	}
	if err == nil && a != nil {
		if err = c.write(r, a); err != nil && r.logged != nil {
			r.depart(nil, err)
		}
	}
	if err == nil {
		err = r.closeAfter
	}
	return err
}

// write sends an answer: length, header, body.
func (c *connection) write(r *request, a answer) error {
	b := append(c.out[:0], 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(r.header.CorrelationID))
	if r.flexible && r.header.Key != apiVersionsKey {
		b = append(b, 0) // no tagged fields in the header; an ApiVersions answer never has the section (KIP-511)
	}
	var err error
	c.allowIdle()
	if c.tap != nil {
		if a := encoded(a); a.length == nil {
			b = a.AppendTo(b)
			c.tapSent(r, b, a.body)
			return c.writeWhole(b)
		}
	}
	switch a := a.(type) {
	case splicedAnswer:
		err = c.writeSpliced(b, a)
	case *encodedAnswer:
		b = a.AppendTo(b)
		err = c.writeClaiming(a.claim(len(b)-4), b)
	default:
		err = c.writeWhole(a.AppendTo(b))
	}
	if err != nil {
		return fmt.Errorf("answering %s v%d: %w", r.api.Name, r.header.Version, err)
	}
	return nil
}

// writeWhole sends an answer that is all in one buffer.
func (c *connection) writeWhole(b []byte) error { return c.writeClaiming(len(b)-4, b) }

// writeClaiming sends an answer that is all in one buffer with a length in front of it.
func (c *connection) writeClaiming(length int, b []byte) error {
	binary.BigEndian.PutUint32(b, uint32(length))
	_, err := c.net.Write(b)
	c.keep(b)
	return err
}

// writeSpliced sends an answer whose record bytes stay where they are in the log.
func (c *connection) writeSpliced(b []byte, a splicedAnswer) error {
	b, splices := a.AppendSpliced(b)
	if len(splices) == 0 {
		return c.writeWhole(b)
	}
	total := len(b)
	for _, s := range splices {
		total += len(s.Bytes)
	}
	binary.BigEndian.PutUint32(b, uint32(total-4))
	parts := net.Buffers(c.parts[:0])
	from := 0
	for _, s := range splices {
		if s.At > from {
			parts = append(parts, b[from:s.At])
			from = s.At
		}
		parts = append(parts, s.Bytes)
	}
	if from < len(b) {
		parts = append(parts, b[from:])
	}
	c.parts = parts
	held := int64(total - len(b))
	c.node.cluster.held.Add(held)
	_, err := parts.WriteTo(c.net) // which takes parts apart
	c.node.cluster.held.Add(-held)
	clear(c.parts)
	if cap(c.parts) > keptParts {
		c.parts = nil
	}
	c.keep(b)
	return err
}

// keep keeps the buffer of an answer for the next one unless it has grown beyond what a connection may hold.
func (c *connection) keep(b []byte) {
	if cap(b) <= keptBuffer {
		c.out = b
	} else {
		c.out = nil
	}
}

// frameReader cuts a stream into frames.
type frameReader struct {
	src io.Reader
	max int // largest length of a frame, inclusive
	// limit is the configuration that max comes from.
	limit string
	buf   []byte
	r, w  int // buf[r:w] is read and not yet used
}

// next returns the next frame without its length. The bytes are valid until the next call, except that a frame
// of more than keptBuffer bytes is the caller's to keep. io.EOF means that the stream ended between two frames.
func (f *frameReader) next() ([]byte, error) {
	if err := f.fill(4); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(f.buf[f.r:])))
	if size < 0 || size > f.max {
		return nil, fmt.Errorf("%w: a frame of %d bytes, %s is %d", protocol.ErrMalformed, size, f.limit, f.max)
	}
	f.r += 4
	if size > keptBuffer {
		return f.large(size)
	}
	if err := f.fill(size); err != nil {
		return nil, unexpected(err)
	}
	frame := f.buf[f.r : f.r+size : f.r+size]
	f.r += size
	return frame, nil
}

// fill reads until n bytes are in the buffer, n <= keptBuffer.
func (f *frameReader) fill(n int) error {
	if f.w-f.r >= n {
		return nil
	}
	if f.r > 0 {
		f.w = copy(f.buf, f.buf[f.r:f.w])
		f.r = 0
	}
	if len(f.buf) < n {
		grown := make([]byte, min(keptBuffer, max(firstReadBuffer, 2*n)))
		copy(grown, f.buf[:f.w])
		f.buf = grown
	}
	for f.w < n {
		m, err := f.src.Read(f.buf[f.w:])
		f.w += m
		if err != nil && f.w < n {
			if f.w > 0 {
				return unexpected(err)
			}
			return err
		}
	}
	return nil
}

// large reads a frame that does not fit the kept buffer into memory of its own.
func (f *frameReader) large(size int) ([]byte, error) {
	frame := make([]byte, min(size, trustedFrame))
	n := copy(frame, f.buf[f.r:f.w])
	f.r += n
	for {
		if _, err := io.ReadFull(f.src, frame[n:]); err != nil {
			return nil, unexpected(err)
		}
		n = len(frame)
		if n == size {
			return frame, nil
		}
		grown := make([]byte, min(size, growth*n))
		copy(grown, frame)
		frame = grown
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
