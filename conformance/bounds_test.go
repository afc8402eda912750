package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A client that floods the judge with members, clients, topics and records takes no more memory than the bounds allow, and does not stop the judge.
func TestFloodIsBounded(t *testing.T) {
	at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	j := New(Options{})
	corr := int32(0)
	ask := func(conn uint64, client string, q kmsg.Request, p kmsg.Response) {
		corr++
		j.Observe(Frame{Kind: Received, At: at, Conn: conn, Bytes: kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).AppendRequest(nil, q, corr)[4:]})
		if p == nil {
			return
		}
		head := []byte{byte(corr >> 24), byte(corr >> 16), byte(corr >> 8), byte(corr)}
		if q.IsFlexible() {
			head = append(head, 0)
		}
		j.Observe(Frame{Kind: Sent, At: at, Conn: conn, Bytes: p.AppendTo(head)})
	}
	for i := range uint64(maxConns + 10) {
		j.Observe(Frame{Kind: Opened, At: at, Conn: i, Node: 1, Host: "10.0.0.1"})
	}
	require.LessOrEqual(t, len(j.conns), maxConns)
	for i := range maxMembers + 500 {
		at = at.Add(time.Millisecond)
		q := kmsg.NewPtrShareGroupHeartbeatRequest()
		q.Version, q.GroupID, q.MemberID, q.SubscribedTopicNames = 1, "g", fmt.Sprintf("member-%d", i), []string{"t"}
		p := q.ResponseKind().(*kmsg.ShareGroupHeartbeatResponse)
		p.MemberEpoch, p.HeartbeatIntervalMillis = 1, 5000
		ask(1, fmt.Sprintf("client-%d", i), q, p)
	}
	require.LessOrEqual(t, len(j.members.m), maxMembers)
	require.LessOrEqual(t, len(j.clients.m), maxClients)
	require.LessOrEqual(t, len(j.due), maxDue)
	for i := range 2 * maxInFlight {
		q := kmsg.NewPtrMetadataRequest()
		q.Version = 12
		ask(2, fmt.Sprint(i), q, nil)
	}
	require.LessOrEqual(t, len(j.conns[2].flight), maxInFlight)

	// one member acquires without end
	group, member := "g", "0e0a7c3c-2f6b-4d2e-9f1a-6a4b2f1f0c01"
	fetch := func(epoch int32, first, last int64) {
		q := kmsg.NewPtrShareFetchRequest()
		q.Version, q.GroupID, q.MemberID, q.ShareSessionEpoch, q.MaxRecords, q.MaxBytes = 2, &group, &member, epoch, 500, 1
		p := q.ResponseKind().(*kmsg.ShareFetchResponse)
		p.AcquisitionLockTimeoutMillis = 30_000
		pp := kmsg.NewShareFetchResponseTopicPartition()
		pp.Records = []byte{}
		pp.AcquiredRecords = []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord{{FirstOffset: first, LastOffset: last, DeliveryCount: 1}}
		p.Topics = []kmsg.ShareFetchResponseTopic{{TopicID: [16]byte{1}, Partitions: []kmsg.ShareFetchResponseTopicPartition{pp}}}
		ask(3, "a", q, p)
	}
	fetch(0, 0, 1<<62)
	for i := range int32(5) {
		fetch(i+1, int64(i)*90_000, int64(i+1)*90_000-1)
	}
	require.LessOrEqual(t, len(j.acquired), maxEntries)
	m, _ := j.members.get(memberKey{group, member})
	h := m.holdings[topicPartition{[16]byte{1}, 0}]
	require.LessOrEqual(t, len(h.entries), maxEntries)
	require.True(t, h.forgotten, "what was forgotten is not judged")
	require.LessOrEqual(t, len(m.sessions[1].gaps), maxRange)

	ack := func(first int64) {
		q := kmsg.NewPtrShareAcknowledgeRequest()
		q.Version, q.GroupID, q.MemberID, q.ShareSessionEpoch = 2, &group, &member, 6
		q.Topics = []kmsg.ShareAcknowledgeRequestTopic{{TopicID: [16]byte{1}, Partitions: []kmsg.ShareAcknowledgeRequestTopicPartition{{
			AcknowledgementBatches: []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{{FirstOffset: first, LastOffset: first, AcknowledgeTypes: []int8{1}}},
		}}}}
		ask(3, "a", q, nil)
	}
	ack(7)
	require.Equal(t, Inconclusive, j.Report(at).Rule("share.ack.owner.1").Verdict)
	j.Reset()
	ack(449_999)
	require.Equal(t, Pass, j.Report(at).Rule("share.ack.owner.1").Verdict)

	for i := range uint64(maxConns) {
		j.Observe(Frame{Kind: Closed, At: at, Conn: i})
	}
	require.Empty(t, j.conns)
}

func TestBoundedForgetsInOrder(t *testing.T) {
	b := newBounded[int, string](2)
	b.put(1, "a")
	b.put(2, "b")
	k, v, evicted := b.put(3, "c")
	require.True(t, evicted)
	require.Equal(t, 1, k)
	require.Equal(t, "a", v)
	b.drop(2)
	for i := range 100 {
		b.put(10+i%3, "x")
		b.drop(10 + i%3)
	}
	require.LessOrEqual(t, len(b.order), 5)
	var keys []int
	b.each(func(k int, _ string) { keys = append(keys, k) })
	require.Equal(t, []int{3}, keys)
}

// Bytes that are no frames of Kafka are told or ignored, and never stop the judge.
func FuzzObserve(f *testing.F) {
	q := kmsg.NewPtrShareFetchRequest()
	q.Version = 2
	f.Add(kmsg.NewRequestFormatter().AppendRequest(nil, q, 1)[4:], []byte{0, 0, 0, 1, 0})
	for _, q := range []kmsg.Request{kmsg.NewPtrShareGroupHeartbeatRequest(), kmsg.NewPtrShareAcknowledgeRequest(), kmsg.NewPtrProduceRequest(), kmsg.NewPtrFetchRequest(), kmsg.NewPtrConsumerGroupHeartbeatRequest()} {
		q.SetVersion(min(q.MaxVersion(), 12))
		p := q.ResponseKind()
		f.Add(kmsg.NewRequestFormatter().AppendRequest(nil, q, 1)[4:], p.AppendTo([]byte{0, 0, 0, 1, 0}))
		f.Add(kmsg.NewRequestFormatter().AppendRequest(nil, q, 1)[4:len(kmsg.NewRequestFormatter().AppendRequest(nil, q, 1))-1], p.AppendTo([]byte{0, 0, 0, 1, 0}))
	}
	f.Fuzz(func(t *testing.T, request, answer []byte) {
		j := New(Options{})
		at := time.Unix(0, 0)
		j.Observe(Frame{Kind: Opened, At: at, Conn: 1, Node: 1})
		j.Observe(Frame{Kind: Received, At: at, Conn: 1, Bytes: request})
		j.Observe(Frame{Kind: Sent, At: at, Conn: 1, Bytes: answer})
		j.Observe(Frame{Kind: Closed, At: at, Conn: 1})
		j.Report(at.Add(time.Minute))
	})
}
