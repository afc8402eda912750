package requestlog_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/requestlog"
)

func seqs(t *testing.T, l *requestlog.Log, q requestlog.Query) (out []uint64) {
	t.Helper()
	found, err := l.Find(q)
	require.NoError(t, err)
	for _, e := range found {
		out = append(out, e.Seq)
	}
	return out
}

func TestRing(t *testing.T) {
	l := requestlog.New(3)
	require.Empty(t, seqs(t, l, requestlog.Query{}))
	for i := range uint64(8) {
		e := &requestlog.Entry{Connection: i % 2}
		l.Add(e)
		require.Equal(t, i+1, e.Seq)
		require.Equal(t, requestlog.Pending, e.Outcome)
		l.Update(e, func(e *requestlog.Entry) { e.Outcome = requestlog.Closed })
		want := []uint64{i - 1, i, i + 1}
		if i < 3 {
			want = want[2-i:]
		}
		require.Equal(t, want, seqs(t, l, requestlog.Query{}))
	}
	require.Equal(t, []uint64{8}, seqs(t, l, requestlog.Query{Since: 7}))
	require.Equal(t, []uint64{6, 8}, seqs(t, l, requestlog.Query{Connection: 1}))
	require.Empty(t, seqs(t, l, requestlog.Query{Since: 8}))
	require.Empty(t, seqs(t, l, requestlog.Query{Group: "g"}), "a request that was not decoded names nothing")
}

// Of a body that is too long the size alone is known; any other decodes, or says why it does not.
func TestBodies(t *testing.T) {
	e := requestlog.Entry{API: "Heartbeat", Key: 12, Version: 4, Outcome: requestlog.Answered}
	q := &kmsg.HeartbeatRequest{Version: 4, Group: "g"}
	body := q.AppendTo(nil)
	e.SetRequest(body)
	clear(body) // which is the connection's
	got, err := e.Request()
	require.NoError(t, err)
	require.Equal(t, q, got)
	e.SetAnswer([]byte{1})
	_, err = e.Answer()
	require.ErrorContains(t, err, "answer of Heartbeat v4")

	long := make([]byte, 1<<20+1)
	e.SetRequest(long)
	e.SetAnswer(long)
	_, err = e.Request()
	require.ErrorContains(t, err, "1048577 bytes is too long")
	_, err = e.Answer()
	require.ErrorContains(t, err, "1048577 bytes is too long")
	require.Equal(t, []int{len(long), len(long)}, []int{e.RequestBytes, e.AnswerBytes})

	unknown := requestlog.Entry{API: "ApiVersions", Key: 18, Version: 77, Outcome: requestlog.Answered}
	unknown.SetRequest(nil)
	_, err = unknown.Request()
	require.ErrorContains(t, err, "ApiVersions v77 cannot be decoded")
	unknown.SetAnswer((&kmsg.ApiVersionsResponse{ErrorCode: 35}).AppendTo(nil))
	p, err := unknown.Answer()
	require.NoError(t, err)
	require.EqualValues(t, 35, p.(*kmsg.ApiVersionsResponse).ErrorCode)
}
