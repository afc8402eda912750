package sharesession

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"kshare/protocol/errorcode"
)

var (
	m1, m2, m3 = Key{"g", "m1"}, Key{"g", "m2"}, Key{"g", "m3"}
	topic      = [16]byte{1}
)

func parts(indexes ...int32) []Partition {
	var out []Partition
	for _, i := range indexes {
		out = append(out, Partition{TopicID: topic, Partition: i})
	}
	return out
}

func fetch(t *testing.T, s *Sessions, want int16, r FetchRequest) *Fetch {
	t.Helper()
	r.TopicName = func(id [16]byte) string { return map[[16]byte]string{topic: "orders"}[id] }
	f, code := s.Fetch(&r, 2)
	require.Equal(t, want, code)
	return f
}

// TestEpochs is the table of share-groups 2 and the recorded session of epochs.
func TestEpochs(t *testing.T) {
	s := New()
	for _, epoch := range []int32{5, FinalEpoch, -2} {
		fetch(t, s, errorcode.ShareSessionNotFound, FetchRequest{Key: m1, Epoch: epoch})
	}
	fetch(t, s, errorcode.InvalidRequest, FetchRequest{Key: m1, Epoch: 0, Partitions: parts(0), Acks: true})
	require.Zero(t, s.Len())
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 0, Partitions: parts(0)})
	fetch(t, s, errorcode.InvalidRequest, FetchRequest{Key: m1, Epoch: 0, Acks: true})
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 1})
	for _, epoch := range []int32{7, 1, -2} {
		fetch(t, s, errorcode.InvalidShareSessionEpoch, FetchRequest{Key: m1, Epoch: epoch})
	}
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 2})
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 0})
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 1})
	s.byKey[m1].epoch = math.MaxInt32
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: math.MaxInt32})
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 1})
}

// One advance a request, also where a ShareFetch carries acknowledgements.
// https://github.com/confluentinc/kafka/pull/1109
func TestPull1109OneAdvance(t *testing.T) {
	s := New()
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 0, Partitions: parts(0)})
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 1, Acks: true})
	fetch(t, s, errorcode.InvalidShareSessionEpoch, FetchRequest{Key: m1, Epoch: 3})
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 2})
}

// The session's partitions are known until it is closed, so that they can be released.
// https://github.com/apache/kafka/pull/16955
func TestPull16955FinalEpochReleases(t *testing.T) {
	s := New()
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 0, Partitions: parts(0, 1)})
	final, code := s.Acknowledge(m1, FinalEpoch)
	require.True(t, final)
	require.Zero(t, code)
	require.Equal(t, 1, s.Len())
	ended, found := s.Close(m1)
	require.True(t, found)
	require.Equal(t, Ended{Key: m1, Partitions: parts(0, 1)}, ended)
	_, found = s.Close(m1)
	require.False(t, found)
	_, code = s.Acknowledge(m1, 1)
	require.Equal(t, errorcode.ShareSessionNotFound, code)
}

// Which epochs ShareAcknowledge takes, and that it advances the session.
// https://github.com/confluentinc/kafka/pull/1081, https://github.com/confluentinc/librdkafka/pull/5319
func TestPull1081AcknowledgeEpochs(t *testing.T) {
	s := New()
	for epoch, want := range map[int32]int16{
		0: errorcode.InvalidShareSessionEpoch, 1: errorcode.ShareSessionNotFound, FinalEpoch: errorcode.ShareSessionNotFound,
		-2: errorcode.ShareSessionNotFound,
	} {
		_, code := s.Acknowledge(m1, epoch)
		require.Equal(t, want, code, "epoch %d", epoch)
	}
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 0})
	for _, epoch := range []int32{0, 2, -2} {
		_, code := s.Acknowledge(m1, epoch)
		require.Equal(t, errorcode.InvalidShareSessionEpoch, code, "epoch %d", epoch)
	}
	final, code := s.Acknowledge(m1, 1)
	require.False(t, final)
	require.Zero(t, code)
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 2})
}

// The final epoch fetches nothing and lists results of acknowledgements only.
// https://github.com/confluentinc/librdkafka/pull/5414
func TestPull5414FinalFetchAcquiresNothing(t *testing.T) {
	s := New()
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 0, Partitions: parts(0, 1)})
	f := fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: FinalEpoch, Partitions: parts(0, 2), Acks: true})
	require.True(t, f.Final)
	require.Empty(t, f.Partitions)
	require.True(t, f.Current())
	ended, _ := s.Close(m1)
	require.Equal(t, parts(0, 1), ended.Partitions, "the request has added none")
}

// TestCapacity refuses another session, but lets a member make its own again.
func TestCapacity(t *testing.T) {
	s := New()
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Connection: 1, Epoch: 0, Partitions: parts(0)})
	fetch(t, s, errorcode.None, FetchRequest{Key: m2, Connection: 2, Epoch: 0, Partitions: parts(0)})
	fetch(t, s, errorcode.ShareSessionLimitReached, FetchRequest{Key: m3, Connection: 3, Epoch: 0})
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Connection: 1, Epoch: 0})
	ended, emptied := s.Disconnect(2)
	require.Equal(t, []Ended{{Key: m2, Partitions: parts(0)}}, ended)
	require.Empty(t, emptied)
	fetch(t, s, errorcode.None, FetchRequest{Key: m3, Connection: 3, Epoch: 0})
}

// TestDisconnect ends the session that a connection has made last, and no other.
func TestDisconnect(t *testing.T) {
	s := New()
	other := Key{"g2", "m1"}
	fetch(t, s, errorcode.None, FetchRequest{Key: m2, Connection: 1, Epoch: 0, Partitions: parts(3)})
	fetch(t, s, errorcode.None, FetchRequest{Key: other, Connection: 1, Epoch: 0, Partitions: parts(2)})
	ended, emptied := s.Disconnect(1)
	require.Equal(t, []Ended{{Key: other, Partitions: parts(2)}}, ended)
	require.Equal(t, []string{"g2"}, emptied)
	ended, emptied = s.Disconnect(1)
	require.Empty(t, ended)
	require.Empty(t, emptied)
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Connection: 2, Epoch: 0, Partitions: parts(4)})
	ended, emptied = s.Disconnect(2)
	require.Equal(t, []Ended{{Key: m1, Partitions: parts(4)}}, ended)
	require.Empty(t, emptied, "the session of m2 is left")
	fetch(t, s, errorcode.None, FetchRequest{Key: m2, Connection: 3, Epoch: 1})
	_, found := s.Close(m2)
	require.True(t, found)
	require.Zero(t, s.Len())
	require.Empty(t, s.made)
	require.Empty(t, s.members)
}

// TestDisconnectAfterAnEnd of any session that the connection had made ends none.
func TestDisconnectAfterAnEnd(t *testing.T) {
	s := New()
	fetch(t, s, errorcode.None, FetchRequest{Key: m2, Connection: 1, Epoch: 0})
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Connection: 1, Epoch: 0})
	fetch(t, s, errorcode.None, FetchRequest{Key: m2, Connection: 2, Epoch: 0})
	ended, emptied := s.Disconnect(1)
	require.Empty(t, ended)
	require.Empty(t, emptied)
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 1})
}

// TestGroupEmptiedBesideAConnection whose session has ended.
func TestGroupEmptiedBesideAConnection(t *testing.T) {
	s := New()
	fetch(t, s, errorcode.None, FetchRequest{Key: m2, Connection: 2, Epoch: 0})
	s.Close(m2)
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Connection: 1, Epoch: 0})
	ended, emptied := s.Disconnect(1)
	require.Equal(t, []Ended{{Key: m1}}, ended)
	require.Equal(t, []string{m1.Group}, emptied)
}

// TestClosedSessionKeepsItsGroup until its connection ends: Kafka drops a group's state with the last connection, not with the last session.
func TestClosedSessionKeepsItsGroup(t *testing.T) {
	s := New()
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Connection: 1, Epoch: 0, Partitions: parts(0)})
	_, found := s.Close(m1)
	require.True(t, found)
	ended, emptied := s.Disconnect(1)
	require.Empty(t, ended)
	require.Equal(t, []string{m1.Group}, emptied)
}

// TestClear ends all, in the order of their keys.
func TestClear(t *testing.T) {
	s := New()
	fetch(t, s, errorcode.None, FetchRequest{Key: m2, Connection: 1, Epoch: 0})
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Connection: 1, Epoch: 0, Partitions: parts(0)})
	require.Equal(t, []Ended{{Key: m1, Partitions: parts(0)}, {Key: m2}}, s.Clear())
	require.Empty(t, s.Clear())
}

// TestPartitions adds before it removes, and keeps the order.
func TestPartitions(t *testing.T) {
	s := New()
	f := fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 0, Partitions: parts(0, 1, 2)})
	require.Equal(t, parts(0, 1, 2), f.Partitions)
	f = fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 1, Partitions: parts(3, 3), Forgotten: parts(3, 1)})
	require.Equal(t, parts(0, 2), f.Partitions)
	f = fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 2, Partitions: parts(1), Forgotten: parts(3)})
	require.Equal(t, parts(0, 2, 1), f.Partitions)
	f = fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 3, Forgotten: parts(0, 1, 2)})
	require.Empty(t, f.Partitions)
}

// TestRotate moves the partitions that exist by the epoch, and has the others behind them.
func TestRotate(t *testing.T) {
	s := New()
	all := parts(0, 1, 2, 3, 4)
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 0, Partitions: all})
	for epoch, want := range [][]Partition{1: parts(2, 4, 0, 1, 3), 2: parts(4, 0, 2, 1, 3), 3: parts(0, 2, 4, 1, 3), 4: parts(2, 4, 0, 1, 3)} {
		if want == nil {
			continue
		}
		f := fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: int32(epoch)})
		f.Rotate(func(p Partition) bool { return p.Partition%2 == 0 })
		require.Equal(t, want, f.Partitions, "epoch %d", epoch)
	}
	f := fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 5})
	require.Equal(t, all, f.Partitions, "the session keeps its order")
	f.Rotate(func(Partition) bool { return false })
	require.Equal(t, all, f.Partitions)
}

// A partition of which a later answer has records goes behind the others.
func TestPartitionsWithRecordsGoBehind(t *testing.T) {
	s := New()
	f := fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 0, Partitions: parts(0, 1, 2)})
	f.Listed(parts(0)[0], true, 0)
	f = fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 1})
	require.Equal(t, parts(0, 1, 2), f.Partitions, "the first answer moves nothing")
	for i, records := range []bool{true, false, true} {
		f.Listed(parts(int32(i))[0], records, 0)
	}
	require.Equal(t, parts(1, 0, 2), s.byKey[m1].order)
	f.Listed(parts(7)[0], true, 0)
	require.Equal(t, parts(1, 0, 2), s.byKey[m1].order)
}

// TestTwice is a partition named twice as a session begins: there is none then, the one before has ended too.
func TestTwice(t *testing.T) {
	s := New()
	fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 0, Partitions: parts(0)})
	fetch(t, s, errorcode.UnknownServerError, FetchRequest{Key: m1, Epoch: 0, Partitions: parts(0, 1, 0)})
	fetch(t, s, errorcode.ShareSessionNotFound, FetchRequest{Key: m1, Epoch: 1})
	require.Empty(t, s.Clear())
}

// TestListed are the entries that the recorded answers have.
func TestListed(t *testing.T) {
	s := New()
	p := parts(0, 1)
	next := func(epoch int32, added ...Partition) func(Partition, bool, int16) bool {
		return fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: epoch, Partitions: added}).Listed
	}
	listed := next(0, p[0])
	require.True(t, listed(p[0], false, errorcode.UnknownTopicOrPartition), "all after epoch 0")
	listed = next(1)
	require.False(t, listed(p[0], false, 0), "an error after epoch 0 leaves nothing owed")
	listed = next(2, p[1])
	require.False(t, listed(p[0], false, 0))
	listed = next(3)
	require.True(t, listed(p[1], false, 0), "added by the last request, which had nothing to tell of it")
	listed = next(4, p[1])
	require.False(t, listed(p[1], false, 0), "it was in the session")
	require.True(t, listed(p[0], true, 0), "records")
	listed = next(5)
	require.True(t, listed(p[1], false, errorcode.UnknownTopicOrPartition))
	listed = next(6)
	require.True(t, listed(p[1], false, errorcode.UnknownTopicOrPartition), "errors stay")
	listed = next(7)
	require.True(t, listed(p[1], false, 0), "the error has gone")
	listed = next(8)
	require.False(t, listed(p[1], false, 0))
	next(0, p[0], p[1])
	listed = next(1)
	require.False(t, listed(p[1], false, 0), "what epoch 0 did not tell of is not owed")
}

// TestOvertaken answers a fetch that waited while the session went on.
func TestOvertaken(t *testing.T) {
	s := New()
	first := fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 0, Partitions: parts(0)})
	waiting := fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 1})
	require.True(t, waiting.Current())
	_, code := s.Acknowledge(m1, 2)
	require.Zero(t, code)
	require.False(t, waiting.Current())
	require.True(t, first.Current())
}

// TestTopicName knows the topics that were there when their partitions were added.
func TestTopicName(t *testing.T) {
	s := New()
	gone := Partition{TopicID: [16]byte{2}}
	f := fetch(t, s, errorcode.None, FetchRequest{Key: m1, Epoch: 0, Partitions: append(parts(0), gone)})
	require.Equal(t, "orders", f.TopicName(parts(0)[0]))
	require.Empty(t, f.TopicName(gone))
	require.Empty(t, f.TopicName(parts(1)[0]))
}
