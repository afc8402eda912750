package requestlog_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/describe"
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
	l := requestlog.New(3, protocol.Catalog{})
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

	long := make([]byte, requestlog.MaxBody+1)
	e.SetRequest(long)
	e.SetAnswer(long)
	_, err = e.Request()
	require.ErrorContains(t, err, "1048577 bytes is too long")
	_, err = e.Answer()
	require.ErrorContains(t, err, "1048577 bytes is too long")
	require.Equal(t, []int{len(long), len(long)}, []int{e.RequestBytes, e.AnswerBytes})
	require.Equal(t, []string{"the request, 1048577 bytes: the log keeps 1048576 of one, without its records",
		"the answer, 1048577 bytes: the log keeps 1048576 of one, without its records"}, e.LeftOut())

	unknown := requestlog.Entry{API: "ApiVersions", Key: 18, Version: 77, Outcome: requestlog.Answered}
	unknown.SetRequest(nil)
	_, err = unknown.Request()
	require.ErrorContains(t, err, "ApiVersions v77 cannot be decoded")
	unknown.SetAnswer((&kmsg.ApiVersionsResponse{ErrorCode: 35}).AppendTo(nil))
	p, err := unknown.Answer()
	require.NoError(t, err)
	require.EqualValues(t, 35, p.(*kmsg.ApiVersionsResponse).ErrorCode)
}

// TxnShareAcknowledge is found and decoded under its name, whatever its key, and Kafka's API of that key is not.
func TestTxnShareAcknowledge(t *testing.T) {
	for _, key := range []int16{93, 94, 95, 32000} {
		l := requestlog.New(3, protocol.WithTxnShareAcknowledge(key))
		e := &requestlog.Entry{API: "TxnShareAcknowledge", Key: key}
		q := &protocol.TxnShareAcknowledgeRequest{APIKey: key, GroupID: "g", MemberID: "m"}
		p := &protocol.TxnShareAcknowledgeResponse{APIKey: key, ErrorCode: 22}
		e.SetRequest(q.AppendTo(nil))
		l.Add(e)
		l.Update(e, func(e *requestlog.Entry) {
			e.Outcome = requestlog.Answered
			e.SetAnswer(p.AppendTo(nil))
		})
		l.Add(&requestlog.Entry{API: "Produce"})
		for _, api := range []string{"TxnShareAcknowledge", "txnshareacknowledge", fmt.Sprint(key)} {
			found, err := l.Find(requestlog.Query{API: api})
			require.NoError(t, err)
			require.Len(t, found, 1, api)
			request, err := found[0].Request()
			require.NoError(t, err)
			require.Equal(t, q, request)
			answer, err := found[0].Answer()
			require.NoError(t, err)
			require.Equal(t, p, answer)
		}
	}
	_, err := requestlog.New(1, protocol.WithTxnShareAcknowledge(93)).Find(requestlog.Query{API: "TxnShareAcknowlege"})
	require.ErrorContains(t, err, "did you mean TxnShareAcknowledge?")
	_, err = requestlog.New(1, protocol.Catalog{}).Find(requestlog.Query{API: "TxnShareAcknowledge"})
	require.ErrorContains(t, err, "KIP-1289, which is not on")
}

// Long bodies are kept without their records, short ones with them; everything else of them is there.
func TestRecordsAreLeftOut(t *testing.T) {
	topic := [16]byte{1}
	produce := func(size int) *kmsg.ProduceRequest {
		return &kmsg.ProduceRequest{Version: 13, Acks: -1, Topics: []kmsg.ProduceRequestTopic{{TopicID: topic, Partitions: []kmsg.ProduceRequestTopicPartition{
			{Partition: 0, Records: make([]byte, size)}, {Partition: 1, Records: make([]byte, size)},
		}}}}
	}
	fetched := func(size int) *kmsg.FetchResponse {
		return &kmsg.FetchResponse{Version: 17, Topics: []kmsg.FetchResponseTopic{{TopicID: topic, Partitions: []kmsg.FetchResponseTopicPartition{
			{Partition: 0, HighWatermark: 7, RecordBatches: make([]byte, size)}, {Partition: 1, RecordBatches: make([]byte, size)},
		}}}}
	}
	shared := func(size int) *kmsg.ShareFetchResponse {
		return &kmsg.ShareFetchResponse{Version: 2, Topics: []kmsg.ShareFetchResponseTopic{{TopicID: topic, Partitions: []kmsg.ShareFetchResponseTopicPartition{
			{Partition: 0, Records: make([]byte, size)}, {Partition: 1, AcknowledgeErrorCode: 9, Records: make([]byte, size)},
		}}}}
	}
	const short, long = 1000, 40 << 20
	e := requestlog.Entry{API: "Produce", Key: 0, Version: 13}
	e.SetRequest(produce(short).AppendTo(nil))
	require.Empty(t, e.LeftOut())
	q, err := e.Request()
	require.NoError(t, err)
	require.Len(t, q.(*kmsg.ProduceRequest).Topics[0].Partitions[1].Records, short)
	e.SetRequest(produce(long).AppendTo(nil))
	require.Equal(t, []string{"83886080 bytes of records of the request"}, e.LeftOut())
	require.Greater(t, e.RequestBytes, 2*long)
	q, err = e.Request()
	require.NoError(t, err)
	want := produce(0)
	want.Topics[0].Partitions[0].Records, want.Topics[0].Partitions[1].Records = nil, nil
	require.Equal(t, want, q)

	for _, c := range []struct {
		key, version int16
		answer       func(size int) kmsg.Response
		check        func(p kmsg.Response)
	}{
		{1, 17, func(size int) kmsg.Response { return fetched(size) }, func(p kmsg.Response) {
			require.EqualValues(t, 7, p.(*kmsg.FetchResponse).Topics[0].Partitions[0].HighWatermark)
			require.Empty(t, p.(*kmsg.FetchResponse).Topics[0].Partitions[1].RecordBatches)
		}},
		{78, 2, func(size int) kmsg.Response { return shared(size) }, func(p kmsg.Response) {
			require.EqualValues(t, 9, p.(*kmsg.ShareFetchResponse).Topics[0].Partitions[1].AcknowledgeErrorCode)
			require.Empty(t, p.(*kmsg.ShareFetchResponse).Topics[0].Partitions[0].Records)
		}},
	} {
		e := requestlog.Entry{Key: c.key, Version: c.version, Outcome: requestlog.Answered}
		e.SetAnswer(c.answer(short).AppendTo(nil))
		require.Empty(t, e.LeftOut())
		e.SetAnswer(c.answer(long).AppendTo(nil))
		require.Equal(t, []string{"83886080 bytes of records of the answer"}, e.LeftOut())
		p, err := e.Answer()
		require.NoError(t, err)
		c.check(p)
	}
}

// However many requests it may remember, the log holds no more bytes than its bound; who is forgotten meanwhile is not counted again.
func TestBytesAreBounded(t *testing.T) {
	l := requestlog.New(1000, protocol.Catalog{})
	body := make([]byte, requestlog.MaxBody)
	add := func() *requestlog.Entry {
		e := &requestlog.Entry{Key: 12, Version: 4}
		e.SetRequest(body)
		l.Add(e)
		return e
	}
	first := add()
	for range 200 {
		l.Update(add(), func(e *requestlog.Entry) { e.SetAnswer(body) })
	}
	const kept = requestlog.MaxBytes/requestlog.MaxBody/2 - 1 // each has two bodies and a little more
	require.Len(t, seqs(t, l, requestlog.Query{}), kept)
	require.EqualValues(t, 201, seqs(t, l, requestlog.Query{})[kept-1])
	l.Update(first, func(e *requestlog.Entry) { t.Error("it is forgotten") })
	require.Len(t, seqs(t, l, requestlog.Query{}), kept)
	for range 1000 {
		l.Add(&requestlog.Entry{})
	}
	require.Len(t, seqs(t, l, requestlog.Query{}), 1000, "small ones are bounded by their number alone")
	require.Equal(t, []uint64{1200, 1201}, seqs(t, l, requestlog.Query{Limit: 2}))
	require.Empty(t, seqs(t, l, requestlog.Query{Since: 1<<64 - 1}))

	// What it names counts, and is left out where it is too long.
	named := func(topics int) *requestlog.Entry {
		e := &requestlog.Entry{Subject: &describe.Subject{Topics: make([]describe.Topic, topics)}}
		l.Add(e)
		return e
	}
	for range 200 {
		require.NotNil(t, named(16_000).Subject)
	}
	require.Less(t, len(seqs(t, l, requestlog.Query{})), 70)
	require.Nil(t, named(17_000).Subject)
}

// A log may be bounded to fewer bytes than any takes.
func TestBound(t *testing.T) {
	l := requestlog.New(1000, protocol.Catalog{})
	l.Bound(3 * requestlog.MaxBody)
	for range 10 {
		e := &requestlog.Entry{API: "Fetch", Key: 1, Version: 12}
		e.SetRequest(make([]byte, requestlog.MaxBody))
		l.Add(e)
	}
	found, err := l.Find(requestlog.Query{})
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.EqualValues(t, 10, found[1].Seq)
}
