package proxy_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
	"kshare/conformance"
	"kshare/conformance/live"
	"kshare/conformance/proxy"
	"kshare/internal/memorynet"
)

// script is made of functions, nil for nothing.
type script struct {
	opens    func(node int32) bool
	asked    func(*proxy.Exchange)
	answered func(*proxy.Exchange) bool
}

func (s *script) Opens(_ uint64, node int32) bool { return s.opens == nil || s.opens(node) }

func (s *script) Asked(x *proxy.Exchange) {
	if s.asked != nil {
		s.asked(x)
	}
}

func (s *script) Answered(x *proxy.Exchange) bool { return s.answered != nil && s.answered(x) }

func beginScript(t *testing.T, by *script) *stage {
	cluster, err := kshare.Start(kshare.WithBrokers(2), kshare.WithTopic("orders", 1), kshare.WithTopic("invoices", 1), kshare.WithInMemoryNetwork())
	require.NoError(t, err)
	s := &stage{cluster: cluster, judge: live.New(conformance.Options{}, clock.Machine{}, nil), front: &memorynet.Network{}}
	s.proxy, err = proxy.Start(t.Context(), proxy.Options{Upstream: cluster.Addrs(), Listen: "127.0.0.1:19092", Dial: cluster.Dial, Listener: s.front.Listen, Tap: s.judge, Script: by})
	require.NoError(t, err)
	return s
}

func (s *stage) dial(t *testing.T, node int) net.Conn {
	c, err := s.front.Dial(t.Context(), "tcp", s.proxy.Addrs()[node])
	require.NoError(t, err)
	return c
}

// metadata asks for topics, and returns the answer's frame.
func metadata(c net.Conn, topics ...string) ([]byte, error) {
	q := kmsg.NewPtrMetadataRequest()
	q.Version, q.Topics = 9, []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		q.Topics = append(q.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("a")).AppendRequest(nil, q, 7)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(c)
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

// names are the topics of an answer.
func names(t *testing.T, frame []byte) (all []string) {
	p := kmsg.NewPtrMetadataResponse()
	p.Version = 9
	require.NoError(t, p.ReadFrom(frame[5:]))
	for _, topic := range p.Topics {
		all = append(all, *topic.Topic)
	}
	return all
}

func TestScriptChangesWhatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := &script{}
		s := beginScript(t, by)
		defer s.end(t)
		c := s.dial(t, 0)
		defer c.Close()

		other := "invoices"
		by.asked = func(x *proxy.Exchange) {
			x.Request.(*kmsg.MetadataRequest).Topics[0].Topic, x.Changed = &other, true
		}
		frame, err := metadata(c, "orders")
		require.NoError(t, err)
		assert.Equal(t, []string{"invoices"}, names(t, frame), "the broker gets the changed request")

		by.asked = func(x *proxy.Exchange) { x.Response = x.Request.ResponseKind() }
		by.answered = func(x *proxy.Exchange) bool {
			x.Response.(*kmsg.MetadataResponse).Topics = []kmsg.MetadataResponseTopic{{Topic: &other}}
			return true
		}
		frame, err = metadata(c, "orders")
		require.NoError(t, err)
		assert.Equal(t, []string{"invoices"}, names(t, frame), "the broker gets nothing, and the answer is changed")

		by.asked = nil
		by.answered = func(x *proxy.Exchange) bool {
			x.Write = func(c net.Conn, frame []byte) error {
				_, err := c.Write(binary.BigEndian.AppendUint32(nil, uint32(len(frame))))
				_, half := c.Write(frame[:len(frame)/2])
				return errors.Join(err, half, errors.New("cut"))
			}
			return false
		}
		_, err = metadata(c, "orders")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the answer is written as the script says")
	})
}

func TestScriptEndsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := &script{asked: func(x *proxy.Exchange) { x.Close = true }}
		s := beginScript(t, by)
		defer s.end(t)
		c := s.dial(t, 0)
		_, err := metadata(c, "orders")
		require.ErrorIs(t, err, io.EOF)

		by.asked, by.answered = nil, func(x *proxy.Exchange) bool { x.Close = true; return false }
		c = s.dial(t, 0)
		_, err = metadata(c, "orders")
		require.ErrorIs(t, err, io.EOF, "the answer is lost")

		by.asked, by.answered = func(x *proxy.Exchange) { x.Silent = true }, nil
		c = s.dial(t, 0)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err = metadata(c, "orders")
		require.Error(t, err)
		require.NotErrorIs(t, err, io.EOF, "it stays open, without an answer")
		c.Close()

		by.asked, by.opens = nil, func(node int32) bool { return node != 2 }
		c = s.dial(t, 1)
		_, err = metadata(c, "orders")
		require.Error(t, err)
		c = s.dial(t, 0)
		defer c.Close()
		_, err = metadata(c, "orders")
		require.NoError(t, err)
	})
}

func TestNodesAreShutAndReopened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := beginScript(t, &script{})
		defer s.end(t)
		require.Equal(t, []int32{1, 2}, s.proxy.Nodes())
		c := s.dial(t, 1)
		_, err := metadata(c, "orders")
		require.NoError(t, err)

		before := s.proxy.Addrs()[1]
		require.NoError(t, s.proxy.Shut(2))
		require.Error(t, s.proxy.Shut(2))
		_, err = s.front.Dial(t.Context(), "tcp", before)
		require.Error(t, err)
		_, err = metadata(c, "orders")
		require.NoError(t, err, "what is open stays")
		require.Equal(t, 1, s.proxy.Disconnect(func(_ uint64, node int32) bool { return node == 2 }))
		_, err = metadata(c, "orders")
		require.Error(t, err)

		require.NoError(t, s.proxy.Reopen(2, true))
		require.Error(t, s.proxy.Reopen(2, true))
		require.NotEqual(t, before, s.proxy.Addrs()[1])
		c = s.dial(t, 1)
		defer c.Close()
		_, err = metadata(c, "orders")
		require.NoError(t, err)
	})
}
