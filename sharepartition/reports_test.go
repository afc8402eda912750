package sharepartition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"kshare/protocol/errorcode"
)

// A record with an unanswered state write is not acquirable, and exactly one lock stands for each acquired record.
// https://github.com/apache/kafka/pull/17965
func TestPull17965UnansweredWrite(t *testing.T) {
	d := newDesk(t, 10)
	require.Equal(t, "0-9x1", d.all("m1"))
	w, refusal := d.send("m1", ack(0, 9, TypeRelease))
	require.Nil(t, refusal)
	require.Equal(t, "", d.all("m2"))
	d.refused(errorcode.InvalidRecordState, "m1", ack(0, 9, TypeAccept))
	d.answer(w, errorcode.CoordinatorNotAvailable)
	require.Equal(t, "0-9 ACQUIRED x1", d.state())
	require.Equal(t, 30*time.Second, d.p.Describe(nil, d.now)[0].LockLeft)
	d.ok("m1", ack(0, 9, TypeAccept))
	require.Equal(t, int64(10), d.p.StartOffset())
	require.Equal(t, Settled{}, d.answer(w, errorcode.None), "a second answer changes nothing")
}

// Terminal states win over late answers; the end of a lock and an acknowledgement exclude each other.
// https://github.com/apache/kafka/pull/20286
func TestPull20286LateAnswers(t *testing.T) {
	t.Run("the log start moves before the answer", func(t *testing.T) {
		for _, code := range []int16{errorcode.None, errorcode.CoordinatorNotAvailable} {
			d := newDesk(t, 10)
			d.all("m1")
			w, _ := d.send("m1", ack(0, 9, TypeRelease))
			require.True(t, d.p.LogStartMoved(6))
			d.answer(w, code)
			d.pass(time.Minute)
			d.expire()
			require.Equal(t, "6-9x2", d.all("m2"))
			require.Equal(t, "0-5 ARCHIVED x1, 6-9 ACQUIRED x2", d.state())
		}
	})
	t.Run("the lock ends before a failed answer", func(t *testing.T) {
		d := newDesk(t, 10)
		d.all("m1")
		w, _ := d.send("m1", ack(0, 4, TypeAccept))
		d.pass(30 * time.Second)
		require.Equal(t, "5-9 AVAILABLE x1", d.expire())
		require.Equal(t, int64(5), d.p.DeliveryCompleteCount())
		require.True(t, d.answer(w, errorcode.CoordinatorNotAvailable).Available)
		require.Zero(t, d.p.DeliveryCompleteCount())
		require.Equal(t, "0-9x2", d.all("m2"))
	})
	t.Run("the lock ends before a failed answer at the limit", func(t *testing.T) {
		d := newDesk(t, 2)
		d.lim.DeliveryCount = 2
		d.all("m1")
		d.ok("m1", ack(0, 1, TypeRelease))
		d.all("m1")
		w, _ := d.send("m1", ack(0, 1, TypeAccept))
		d.pass(30 * time.Second)
		require.Equal(t, "", d.expire())
		d.answer(w, errorcode.CoordinatorNotAvailable)
		require.Equal(t, "0-1 ARCHIVED x2", d.state())
	})
	t.Run("the lock ends after the acknowledgement", func(t *testing.T) {
		d := newDesk(t, 10)
		d.all("m1")
		w, _ := d.send("m1", ack(0, 9, TypeAccept))
		d.pass(30 * time.Second)
		require.Equal(t, "", d.expire())
		d.answer(w, errorcode.None)
		require.Equal(t, "", d.all("m2"))
		require.Equal(t, int64(10), d.p.StartOffset())
	})
}

// What a former leader handed out and nobody acknowledged comes first, and holds the start offset.
// https://github.com/apache/kafka/pull/18696
func TestPull18696HoleOfAFormerLeader(t *testing.T) {
	d := newDesk(t, 11, 10, 5, 5, 10)
	p, err := Restore(11, []StateBatch{{11, 20, Acknowledged, 1, 0, Staged{}}, {26, 30, Acknowledged, 1, 0, Staged{}}})
	require.NoError(t, err)
	d.p = p
	require.Equal(t, int64(21), d.p.StartOffset())
	require.Equal(t, int64(21), d.p.NextFetchOffset())
	require.Equal(t, "21-25x1 31-40x1", d.all("m1"))
	d.ok("m1", ack(31, 40, TypeAccept))
	require.Equal(t, int64(21), d.p.StartOffset())
	d.ok("m1", ack(21, 25, TypeAccept))
	require.Equal(t, int64(41), d.p.StartOffset())

	p, err = Restore(11, []StateBatch{{11, 20, Acknowledged, 1, 0, Staged{}}, {26, 30, Acknowledged, 1, 0, Staged{}}})
	require.NoError(t, err)
	d.p, d.log = p, []Bounds{{0, 30}, {31, 40}}
	require.Equal(t, "21-23x1", d.fetch("m1", RecordLimit, 3, 3), "one producer batch over all of it")
	require.Equal(t, "24-25x1 31-31x1", d.fetch("m1", RecordLimit, 3, 3))

	p, err = Restore(0, []StateBatch{{5, 9, Available, 2, 0, Staged{}}})
	require.NoError(t, err)
	d.p, d.log = p, []Bounds{{3, 4}, {5, 9}}
	require.Equal(t, "3-4x1 5-9x3", d.all("m1"), "0-2 are gone from the log")
	d.ok("m1", ack(3, 9, TypeAccept))
	require.Equal(t, int64(10), d.p.StartOffset())
}

// The start offset never goes back; what lies below it is acknowledged without an error and archived when its
// lock ends. https://github.com/apache/kafka/pull/20823, https://github.com/apache/kafka/pull/16459
func TestPull20823StartNeverGoesBack(t *testing.T) {
	d := newDesk(t, 10)
	require.Equal(t, "0-9x1", d.all("m1"))
	require.True(t, d.p.LogStartMoved(6))
	require.False(t, d.p.LogStartMoved(5))
	require.Equal(t, int64(6), d.p.StartOffset())
	d.ok("m1", ack(0, 9, TypeAccept))
	require.Equal(t, int64(6), d.p.StartOffset(), "0-5 are still held")
	require.Equal(t, int64(4), d.p.DeliveryCompleteCount())
	d.ok("m1", ack(0, 5, TypeAccept))
	d.pass(30 * time.Second)
	require.Equal(t, "0-5 ARCHIVED x1", d.expire())
	require.Equal(t, int64(10), d.p.StartOffset())

	d = newDesk(t, 10)
	d.all("m1")
	require.True(t, d.p.LogStartMoved(15))
	require.Equal(t, int64(15), d.p.NextFetchOffset())
	d.pass(30 * time.Second)
	require.Equal(t, "0-9 ARCHIVED x1", d.expire())
	require.Equal(t, int64(15), d.p.StartOffset())
	require.Equal(t, int64(15), d.p.NextFetchOffset())
	require.Zero(t, d.p.InFlight())
}

// One acknowledgement spans many batches, some of them partly gone.
// https://github.com/confluentinc/kafka/pull/1296
func TestPull1296AckOverManyBatches(t *testing.T) {
	d := newDesk(t, 5, 5, 5, 5)
	for range 4 {
		d.fetch("m1", BatchOptimized, 5, 5)
	}
	require.True(t, d.p.LogStartMoved(7))
	w, refusal := d.send("m1", ack(0, 19, TypeAccept))
	require.Nil(t, refusal)
	require.Equal(t, "7-19 ACKNOWLEDGED x1", batches(w.Batches))
	require.Equal(t, int64(7), w.StartOffset)
	require.Equal(t, int32(13), w.DeliveryCompleteCount)
	d.answer(w, errorcode.None)
	d.pass(30 * time.Second)
	require.Equal(t, "0-6 ARCHIVED x1", d.expire())
	require.Equal(t, int64(20), d.p.StartOffset())
}

// All batches of a partition are looked at before any is applied.
// https://github.com/confluentinc/librdkafka/pull/5414
func TestPull5414AllOrNothing(t *testing.T) {
	d := newDesk(t, 5, 5)
	require.Equal(t, "0-4x1", d.fetch("m1", BatchOptimized, 5, 5))
	d.refused(errorcode.InvalidRequest, "m1", ack(0, 4, TypeAccept), ack(5, 5, TypeAccept))
	require.Equal(t, "0-4 ACQUIRED x1", d.state())
	require.Equal(t, "5-9x1", d.all("m2"))
	d.refused(errorcode.InvalidRecordState, "m1", ack(0, 4, TypeAccept), ack(5, 5, TypeAccept))
	require.Equal(t, "0-4 ACQUIRED x1, 5-9 ACQUIRED x1", d.state())
	require.Zero(t, d.p.PendingWrites())
}

// One type covers the range, otherwise there is one an offset; 0 is a gap.
// https://github.com/confluentinc/kafka/pull/1246
func TestPull1246TypesAreAList(t *testing.T) {
	d := newDesk(t, 5)
	d.all("m1")
	d.refused(errorcode.InvalidRequest, "m1", ack(0, 4, 1, 1))
	w, refusal := d.send("m1", ack(0, 4, 1, 2, 3, 0, 1))
	require.Nil(t, refusal)
	require.Equal(t, "0-0 ACKNOWLEDGED x1, 1-1 AVAILABLE x1, 2-3 ARCHIVED x1, 4-4 ACKNOWLEDGED x1", batches(w.Batches))
}

// A member that crashes on a record again and again gets it no more than the limit says.
// https://github.com/apache/kafka/pull/21092
func TestPull21092CloseKeepsTheCount(t *testing.T) {
	d := newDesk(t, 1)
	for i := range 5 {
		require.Equal(t, ranges([]AcquiredRange{{0, 0, int16(i + 1)}}), d.all("m1"))
		d.answer(d.p.ReleaseMember("m1", d.lim), errorcode.None)
	}
	require.Equal(t, "", d.all("m1"))
	require.Equal(t, int64(1), d.p.StartOffset())
}

// Near the limit a batch is narrowed, on the last delivery a record travels alone, and records with an
// unanswered write do not count. https://github.com/apache/kafka/pull/20837
func TestPull20837Throttling(t *testing.T) {
	d := newDesk(t, 50, 10)
	for _, want := range []string{"0-49x1", "0-49x2", "0-49x3", "0-24x4"} {
		require.Equal(t, want, d.fetch("m1", BatchOptimized, 500, 50))
		d.answer(d.p.ReleaseMember("m1", d.lim), errorcode.None)
	}
	for offset := range int64(25) {
		require.Equal(t, ranges([]AcquiredRange{{offset, offset, 5}}), d.all("m1"))
	}
	require.Equal(t, "25-49x4", d.all("m2"), "nothing new travels with them")
	require.Equal(t, "50-59x1", d.all("m2"))

	d = newDesk(t, 4, 4)
	for range 3 {
		d.fetch("m1", BatchOptimized, 4, 4)
		d.answer(d.p.ReleaseMember("m1", d.lim), errorcode.None)
	}
	d.fetch("m1", BatchOptimized, 4, 4)
	w := d.p.ReleaseMember("m1", d.lim)
	require.Equal(t, "2-3x4", d.all("m2"), "0 and 1 wait for an answer")
	d.answer(w, errorcode.None)
	require.Equal(t, "0-0x5", d.all("m2"))
}

// RENEW restarts the lock of records the member holds, and of nothing else; nothing is persisted.
// https://github.com/apache/kafka/pull/20815
func TestPull20815Renew(t *testing.T) {
	d := newDesk(t, 2)
	d.lim.LockDuration = 1500 * time.Millisecond
	require.Equal(t, "0-1x1", d.all("m1"))
	d.pass(time.Second)
	w, refusal := d.send("m1", ack(0, 0, TypeRenew))
	require.Nil(t, refusal)
	require.Zero(t, w.ID)
	d.pass(500 * time.Millisecond)
	require.Equal(t, "1-1 AVAILABLE x1", d.expire())
	require.Equal(t, "1-1x2", d.all("m2"))
	d.pass(time.Second - 1)
	require.Equal(t, "", d.expire())
	d.pass(1)
	require.Equal(t, "0-0 AVAILABLE x1", d.expire())
	require.Equal(t, "0-0x2", d.all("m2"))
	d.refused(errorcode.InvalidRecordState, "m1", ack(0, 0, TypeRenew))

	d = newDesk(t, 10)
	d.all("m1")
	d.ok("m1", ack(0, 3, TypeRenew, TypeAccept, TypeRelease, TypeReject))
	d.pass(10 * time.Second)
	d.refused(errorcode.InvalidRecordState, "m1", ack(0, 0, TypeRenew), ack(1, 1, TypeRenew))
	runs := d.p.Describe(nil, d.now)
	require.Equal(t, 30*time.Second, runs[0].LockLeft, "a renewal before the refused offset stands")
	require.Equal(t, 20*time.Second, runs[len(runs)-1].LockLeft)

	d.lim.LockDuration = 5 * time.Second
	d.ok("m1", ack(4, 9, TypeRenew))
	d.pass(5 * time.Second)
	require.Equal(t, "4-9 AVAILABLE x1", d.expire(), "with the duration of the moment")
}
