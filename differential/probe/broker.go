package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Broker is one of the two brokers.
type Broker interface {
	// Dial opens a connection to the broker.
	Dial(ctx context.Context) (net.Conn, error)
}

// side is a broker with the connections to it.
type side struct {
	broker Broker
	conns  map[int]net.Conn
}

func newSide(b Broker) *side { return &side{broker: b, conns: map[int]net.Conn{}} }

func (s *side) close() {
	for _, c := range s.conns {
		_ = c.Close()
	}
}

// reply is what came back: a frame without its length, or in its place how the connection ended.
type reply struct {
	frame []byte
	ended string
}

// answerTimeout is how long an answer is waited for, maxFrame the size in bytes of the largest that is read.
const (
	answerTimeout = 10 * time.Second
	maxFrame      = 64 << 20
)

// ask sends a frame over the connection of a number and reads the answer.
func (s *side) ask(conn int, frame []byte) (reply, error) {
	c := s.conns[conn]
	if c == nil {
		var err error
		if c, err = s.broker.Dial(context.Background()); err != nil {
			return reply{}, fmt.Errorf("dial: %w", err)
		}
		s.conns[conn] = c
	}
	answer, err := exchange(c, frame)
	if err == nil {
		return reply{frame: answer}, nil
	}
	_ = c.Close()
	delete(s.conns, conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return reply{ended: "silent"}, nil
	}
	return reply{ended: "closed"}, nil
}

func exchange(c net.Conn, frame []byte) ([]byte, error) {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, err
	}
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	answer := make([]byte, n)
	_, err := io.ReadFull(c, answer)
	return answer, err
}

// encode makes a request's frame without its length.
func encode(q kmsg.Request, correlation int32) []byte {
	client := "probe"
	b := binary.BigEndian.AppendUint16(nil, uint16(q.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(q.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = kbin.AppendNullableString(b, &client)
	if q.IsFlexible() {
		b = append(b, 0)
	}
	return q.AppendTo(b)
}

// decode reads the answer to a request; nil where the frame is none.
func decode(q kmsg.Request, frame []byte) kmsg.Response {
	head := 4
	if q.IsFlexible() && q.Key() != int16(kmsg.ApiVersions) {
		head++
	}
	r := q.ResponseKind()
	if len(frame) < head || r.ReadFrom(frame[head:]) != nil {
		return nil
	}
	return r
}
