package broker

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"kshare/requestlog"
)

// watchedSink is the network end of a connection that looks into the request log as an answer is written.
type watchedSink struct {
	sink
	cluster *Cluster
	seen    []requestlog.Outcome // of the newest request, at each write
	fails   error
}

func (s *watchedSink) Write(b []byte) (int, error) {
	entries, err := s.cluster.Requests(requestlog.Query{Limit: 1})
	if err != nil {
		return 0, err
	}
	s.seen = append(s.seen, entries[0].Outcome)
	if s.fails != nil {
		return 0, s.fails
	}
	return s.sink.Write(b)
}

// What a client has read is in the request log before: a test that asks right after its client's call returned finds the answer.
func TestAnAnswerIsLoggedBeforeItIsSent(t *testing.T) {
	c := fuzzCluster(t, slog.DiscardHandler)
	defer func() { require.NoError(t, c.Close()) }()
	c.requestLog = requestlog.New(10, c.apis)

	s := &watchedSink{cluster: c}
	conn := newConnection(c.nodes[0], s, &c.listeners[0])
	defer c.disconnected(conn)
	metadata := raw(t, 3, 0, false, "00000000")
	require.NoError(t, conn.answer(metadata))
	require.Equal(t, []requestlog.Outcome{requestlog.Answered}, s.seen)

	s.fails = errors.New("connection reset by peer")
	require.ErrorIs(t, conn.answer(metadata), s.fails)
	entries, err := c.Requests(requestlog.Query{})
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.Equal(t, requestlog.Answered, entries[0].Outcome)
	require.Equal(t, requestlog.Closed, entries[1].Outcome)
	require.Contains(t, entries[1].Reason, s.fails.Error())
}
