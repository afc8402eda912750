package broker_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
)

// sendDirect sends a request over a direct connection.
func sendDirect(d *kshare.Direct, q kmsg.Request, correlation int32) {
	d.Send(kmsg.NewRequestFormatter().AppendRequest(nil, q, correlation)[4:])
}

// receiveDirect reads the answer to a request that has one.
func receiveDirect[R kmsg.Response](t *testing.T, d *kshare.Direct, q kmsg.Request) R {
	t.Helper()
	frame, err := d.Receive()
	require.NoError(t, err)
	require.NotNil(t, frame, "no answer yet")
	body := frame[4:]
	if q.IsFlexible() && q.Key() != 18 { // an ApiVersions answer has no tags in its header
		body = body[1:]
	}
	p := q.ResponseKind()
	require.NoError(t, p.ReadFrom(body))
	return p.(R)
}

func longPoll() *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.Version, q.MaxWaitMillis, q.MinBytes, q.MaxBytes = 12, 5000, 1, 1<<20
	topic := kmsg.NewFetchRequestTopic()
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.PartitionMaxBytes = 1 << 20
	topic.Topic, topic.Partitions = "t", []kmsg.FetchRequestTopicPartition{partition}
	q.Topics = append(q.Topics, topic)
	return q
}

// A request that waits is answered when the clock is moved to the end of its wait, not before, and those behind it after it.
func TestDirectConnectionWaitsForTheClock(t *testing.T) {
	now := clock.NewVirtual(time.Unix(1_800_000_000, 0))
	c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithClock(now), kshare.WithTopic("t", 1))
	require.NoError(t, err)
	d, err := c.OpenDirect(1)
	require.NoError(t, err)

	poll, versions := longPoll(), kmsg.NewPtrApiVersionsRequest()
	sendDirect(d, poll, 1)
	sendDirect(d, versions, 2)
	require.True(t, d.Waits())
	now.Advance(5*time.Second - 1)
	frame, err := d.Receive()
	require.NoError(t, err)
	require.Nil(t, frame)
	now.Advance(1)
	require.Zero(t, receiveDirect[*kmsg.FetchResponse](t, d, poll).ErrorCode)
	require.Zero(t, receiveDirect[*kmsg.ApiVersionsResponse](t, d, versions).ErrorCode)
	require.False(t, d.Waits())

	sendDirect(d, poll, 3)
	require.NoError(t, c.Close())
	_, err = d.Receive()
	require.ErrorIs(t, err, io.EOF)
	_, err = c.OpenDirect(1)
	require.ErrorContains(t, err, "does not run")
	_, err = c.OpenDirect(7)
	require.ErrorContains(t, err, "no node 7")
}

// What is no request ends a direct connection as it ends any other, and what the connection held comes back.
func TestDirectConnectionEnds(t *testing.T) {
	c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithClock(clock.NewVirtual(time.Unix(1_800_000_000, 0))), kshare.WithTopic("t", 1))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for _, frame := range [][]byte{nil, {0, 1}, {0, 200, 0, 0, 0, 0, 0, 1, 255, 255}, make([]byte, 200<<20)} {
		d, err := c.OpenDirect(1)
		require.NoError(t, err)
		d.Send(frame)
		_, err = d.Receive()
		require.ErrorIs(t, err, io.EOF)
		d.Send(frame)
		d.Close()
	}

	m := startGroup(t, c, "g", "t")
	produce(t, m.client, "t", 0, 1)
	d, err := c.OpenDirect(1)
	require.NoError(t, err)
	q := m.fetchRequest(0)
	q.MemberID, q.Version = kmsg.StringPtr("direct"), 1
	sendDirect(d, q, 1)
	require.Equal(t, []delivered{{0, 0, 1}}, acquired(t, receiveDirect[*kmsg.ShareFetchResponse](t, d, q)))
	require.Empty(t, acquired(t, m.fetch(0)), "the record is the direct connection's")
	d.Close()
	require.Equal(t, []delivered{{0, 0, 2}}, acquired(t, m.fetch(0)))
}

// A client that leaves while its request waits is there for the broker until that is answered; one that leaves at another time is gone at once.
func TestDirectConnectionIsLeft(t *testing.T) {
	now := clock.NewVirtual(time.Unix(1_800_000_000, 0))
	c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithClock(now), kshare.WithTopic("t", 1))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	d, err := c.OpenDirect(1)
	require.NoError(t, err)
	sendDirect(d, longPoll(), 1)
	sendDirect(d, longPoll(), 2)
	require.False(t, d.Leave())
	now.Advance(5 * time.Second)
	require.False(t, d.Leave(), "the next request waits by now")
	now.Advance(5 * time.Second)
	require.True(t, d.Leave())
	require.False(t, d.Waits())
	require.True(t, d.Leave(), "more than once")

	idle, err := c.OpenDirect(1)
	require.NoError(t, err)
	require.True(t, idle.Leave())
	_, err = idle.Receive()
	require.ErrorIs(t, err, io.EOF)
}

// A node that is cut off blocks nobody who sends over a direct connection: requests stay unanswered, in their order, until it is healed.
func TestDirectConnectionToNodeThatIsCutOff(t *testing.T) {
	now := clock.NewVirtual(time.Unix(1_800_000_000, 0))
	c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithClock(now), kshare.WithTopic("t", 1))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	d, err := c.OpenDirect(1)
	require.NoError(t, err)
	poll, versions := longPoll(), kmsg.NewPtrApiVersionsRequest()
	sendDirect(d, poll, 1)
	require.NoError(t, c.CutNode(1))
	sendDirect(d, versions, 2)
	left, err := c.OpenDirect(1)
	require.NoError(t, err)
	sendDirect(left, versions, 1)
	require.True(t, left.Waits())
	require.False(t, left.Leave(), "the node does not hear of it")
	now.Advance(time.Minute)
	require.True(t, d.Waits())
	frame, err := d.Receive()
	require.NoError(t, err)
	require.Nil(t, frame, "what the node was answering is withheld too")

	require.NoError(t, c.HealNode(1))
	require.Zero(t, receiveDirect[*kmsg.FetchResponse](t, d, poll).ErrorCode)
	require.Zero(t, receiveDirect[*kmsg.ApiVersionsResponse](t, d, versions).ErrorCode)
	require.False(t, d.Waits())
	require.True(t, left.Leave())

	require.NoError(t, c.CutNode(1))
	sendDirect(d, versions, 3)
	d.Close()
	_, err = d.Receive()
	require.ErrorIs(t, err, io.EOF)
}
