package memorynet

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// capacity is how much one direction of a connection holds before its writer waits, as a socket's buffers would.
const capacity = 1 << 20

// pipe makes a connection and returns its two ends.
func pipe(clientAddr, serverAddr net.Addr) (client, server net.Conn) {
	toServer, toClient := newStream(), newStream()
	return &end{in: toClient, out: toServer, local: clientAddr, remote: serverAddr},
		&end{in: toServer, out: toClient, local: serverAddr, remote: clientAddr}
}

// end is one end of a connection.
type end struct {
	in, out       *stream
	local, remote net.Addr
}

func (e *end) Read(b []byte) (int, error)         { return e.in.read(b) }
func (e *end) Write(b []byte) (int, error)        { return e.out.write(b) }
func (e *end) LocalAddr() net.Addr                { return e.local }
func (e *end) RemoteAddr() net.Addr               { return e.remote }
func (e *end) SetReadDeadline(t time.Time) error  { e.in.reader.set(e.in, t); return nil }
func (e *end) SetWriteDeadline(t time.Time) error { e.out.writer.set(e.out, t); return nil }
func (e *end) SetDeadline(t time.Time) error {
	e.SetReadDeadline(t)
	return e.SetWriteDeadline(t)
}

// Close ends both directions: what was written before can still be read by the other end.
func (e *end) Close() error {
	e.in.close(true)
	e.out.close(false)
	return nil
}

// stream is one direction of a connection.
type stream struct {
	mu             sync.Mutex
	changed        *sync.Cond
	buf            []byte
	ended          bool // the writing end was closed
	abandoned      bool // the reading end was closed
	reader, writer deadline
}

func newStream() *stream {
	s := &stream{}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *stream) close(byReader bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if byReader {
		s.abandoned = true
		s.buf = nil
	} else {
		s.ended = true
	}
	s.reader.stop()
	s.writer.stop()
	s.changed.Broadcast()
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.abandoned:
			return 0, net.ErrClosed
		case s.reader.passed:
			return 0, os.ErrDeadlineExceeded
		case len(s.buf) > 0:
			n := copy(b, s.buf)
			if s.buf = s.buf[n:]; len(s.buf) == 0 {
				s.buf = nil
			}
			s.changed.Broadcast()
			return n, nil
		case s.ended:
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		s.changed.Wait()
	}
}

func (s *stream) write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ended:
			return n, net.ErrClosed
		case s.abandoned:
			return n, io.ErrClosedPipe
		case s.writer.passed:
			return n, os.ErrDeadlineExceeded
		}
		m := min(capacity-len(s.buf), len(b)-n)
		if m > 0 {
			s.buf = append(s.buf, b[n:n+m]...)
			n += m
			s.changed.Broadcast()
		}
		if n == len(b) {
			return n, nil
		}
		s.changed.Wait()
	}
}

// deadline is when one side of a stream stops waiting. Guarded by the stream's lock.
type deadline struct {
	passed bool
	timer  *time.Timer
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// set sets the deadline, the zero time for none.
func (d *deadline) set(s *stream, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.stop()
	d.passed = false
	switch left := time.Until(t); {
	case t.IsZero() || s.ended || s.abandoned:
	case left <= 0:
		d.passed = true
	default:
		var timer *time.Timer
		timer = time.AfterFunc(left, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if d.timer == timer {
				d.passed = true
				s.changed.Broadcast()
			}
		})
		d.timer = timer
	}
	s.changed.Broadcast()
}
