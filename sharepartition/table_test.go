package sharepartition

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"kshare/protocol/errorcode"
)

// desk is a partition with a log of producer batches, on which tests act in short words.
type desk struct {
	t   *testing.T
	p   *Partition
	lim Limits
	now time.Time
	log []Bounds
}

func newDesk(t *testing.T, sizes ...int64) *desk {
	d := &desk{t: t, p: New(0), now: epoch,
		lim: Limits{DeliveryCount: 5, RecordLocks: 2000, LockDuration: 30 * time.Second, Renew: true}}
	for _, size := range sizes {
		d.produce(size)
	}
	return d
}

func (d *desk) produce(size int64) {
	next := int64(0)
	if n := len(d.log); n > 0 {
		next = d.log[n-1].LastOffset + 1
	}
	d.log = append(d.log, Bounds{next, next + size - 1})
}

// fetch acquires up to max records and shows them as first-last x delivery count.
func (d *desk) fetch(member string, mode AcquireMode, batchSize, max int32) string {
	offset := d.p.NextFetchOffset()
	q := &AcquireRequest{Member: member, Mode: mode, BatchSize: batchSize, MaxRecords: max, FetchOffset: offset}
	for i, b := range d.log {
		if b.LastOffset >= offset {
			q.Batches = d.log[i:]
			break
		}
	}
	got, _ := d.p.Acquire(d.now, q, d.lim, nil)
	require.NoError(d.t, d.p.Check())
	return ranges(got)
}

// all fetches with the limits a client has by default.
func (d *desk) all(member string) string { return d.fetch(member, BatchOptimized, 500, 500) }

func ranges(got []AcquiredRange) string {
	var out []string
	for _, r := range got {
		out = append(out, fmt.Sprintf("%d-%dx%d", r.FirstOffset, r.LastOffset, r.DeliveryCount))
	}
	return strings.Join(out, " ")
}

func ack(first, last int64, types ...int8) Acknowledgement {
	return Acknowledgement{FirstOffset: first, LastOffset: last, Types: types}
}

// send acknowledges without an answer from the share coordinator.
func (d *desk) send(member string, acks ...Acknowledgement) (Write, *Refusal) {
	if refusal := CheckFormat(acks, true); refusal != nil {
		return Write{}, refusal
	}
	w, refusal := d.p.Acknowledge(d.now, member, acks, d.lim)
	require.NoError(d.t, d.p.Check())
	return w, refusal
}

// ok acknowledges and persists.
func (d *desk) ok(member string, acks ...Acknowledgement) Settled {
	d.t.Helper()
	w, refusal := d.send(member, acks...)
	require.Nil(d.t, refusal)
	return d.answer(w, errorcode.None)
}

func (d *desk) answer(w Write, code int16) Settled {
	s := d.p.Persisted(w.ID, code)
	require.NoError(d.t, d.p.Check())
	return s
}

func (d *desk) refused(code int16, member string, acks ...Acknowledgement) {
	d.t.Helper()
	_, refusal := d.send(member, acks...)
	require.NotNil(d.t, refusal)
	require.Equal(d.t, code, refusal.ErrorCode)
}

// state shows the runs in flight as first-last STATE x count.
func (d *desk) state() string {
	var out []string
	for _, r := range d.p.Describe(nil, d.now) {
		s := fmt.Sprintf("%d-%d %s x%d", r.FirstOffset, r.LastOffset, r.State, r.DeliveryCount)
		if r.Pending {
			s += "?"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func (d *desk) pass(by time.Duration) { d.now = d.now.Add(by) }

func (d *desk) expire() string {
	w := d.p.Expire(d.now, d.lim)
	require.NoError(d.t, d.p.Check())
	d.answer(w, errorcode.None)
	return batches(w.Batches)
}

func batches(b []StateBatch) string {
	var out []string
	for _, s := range b {
		out = append(out, fmt.Sprintf("%d-%d %s x%d", s.FirstOffset, s.LastOffset, s.State, s.DeliveryCount))
	}
	return strings.Join(out, ", ")
}

// TestThrottling releases everything each time: the deliveries of share-groups 4.4 and of the recorded sessions.
func TestThrottling(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit int
		size  int64
		mode  AcquireMode
		want  []string
	}{
		{"limit 5, batch of 10", 5, 10, BatchOptimized, []string{"0-9x1", "0-9x2", "0-9x3", "0-4x4", "0-0x5", "1-1x5",
			"2-2x5", "3-3x5", "4-4x5", "5-9x4", "5-5x5", "6-6x5", "7-7x5", "8-8x5", "9-9x5", ""}},
		{"limit 5, batch of 10, record_limit", 5, 10, RecordLimit, []string{"0-9x1", "0-9x2", "0-9x3", "0-4x4", "0-0x5", "1-1x5",
			"2-2x5", "3-3x5", "4-4x5", "5-9x4", "5-5x5", "6-6x5", "7-7x5", "8-8x5", "9-9x5", ""}},
		{"limit 5, batch of 100", 5, 100, BatchOptimized, []string{"0-99x1", "0-99x2", "0-99x3", "0-49x4", "0-0x5", "1-1x5"}},
		{"limit 10, batch of 512", 10, 512, BatchOptimized, []string{"0-511x1", "0-511x2", "0-511x3", "0-511x4", "0-511x5",
			"0-255x6", "0-127x7", "0-63x8", "0-31x9", "0-0x10", "1-1x10"}},
		{"limit 2 is not throttled", 2, 10, BatchOptimized, []string{"0-9x1", "0-9x2", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(t, test.size)
			d.lim.DeliveryCount = test.limit
			for i, want := range test.want {
				require.Equal(t, want, d.fetch("m1", test.mode, 500, 1000), "delivery %d", i+1)
				d.answer(d.p.ReleaseMember("m1", d.lim), errorcode.None)
			}
		})
	}
}

// TestWorkedExamples are those of share-groups 3.7 and of the recorded acquire modes.
func TestWorkedExamples(t *testing.T) {
	ones := []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	d := newDesk(t, 10)
	require.Equal(t, "0-9x1", d.all("m1"))
	d.ok("m1", ack(0, 9, TypeRelease))
	require.Equal(t, "0-9x2", d.all("m1"))

	d = newDesk(t, ones...)
	require.Equal(t, "0-0x1 1-1x1 2-2x1 3-3x1 4-4x1", d.fetch("m1", BatchOptimized, 1, 5))
	require.Equal(t, "5-5x1", d.fetch("m1", BatchOptimized, 1, 1))
	require.Equal(t, "6-9x1", d.fetch("m1", BatchOptimized, 100, 5))

	d = newDesk(t, 10, 10)
	require.Equal(t, "0-9x1", d.fetch("m1", BatchOptimized, 5, 5))
	require.Equal(t, "10-19x1", d.fetch("m1", BatchOptimized, 3, 10), "BatchSize does not cut inside a producer batch")
	d.answer(d.p.ReleaseMember("m1", d.lim), errorcode.None)
	require.Equal(t, "0-9x2", d.fetch("m1", BatchOptimized, 5, 5))
	require.Equal(t, "10-19x2", d.fetch("m1", BatchOptimized, 5, 5))

	d = newDesk(t, 10, 10)
	require.Equal(t, "0-4x1", d.fetch("m1", RecordLimit, 5, 5))
	require.Equal(t, "5-7x1", d.fetch("m1", RecordLimit, 3, 3))
	require.Equal(t, "8-9x1 10-14x1", d.fetch("m1", RecordLimit, 7, 7), "across the batch border")
	require.Equal(t, "15-19x1", d.fetch("m1", RecordLimit, 500, 500))
	require.Equal(t, "", d.fetch("m1", RecordLimit, 500, 500))

	d = newDesk(t, 1)
	for i, size := range []int32{500, 0, -1} {
		require.Equal(t, fmt.Sprintf("0-0x%d", i+1), d.fetch("m1", BatchOptimized, size, 500), "any BatchSize is accepted")
		d.answer(d.p.ReleaseMember("m1", d.lim), errorcode.None)
	}
	d = newDesk(t, 1, 1)
	require.Equal(t, "0--1x1 0-0x1 1-1x1", d.fetch("m1", BatchOptimized, 0, 500), "of new records an empty range is cut off first")
	require.Equal(t, "", d.fetch("m1", BatchOptimized, 500, 0))
	require.Equal(t, "", d.fetch("m1", BatchOptimized, 500, -1))
}

// TestRecordLocks is the recorded session of a full window of 100.
func TestRecordLocks(t *testing.T) {
	ones := make([]int64, 150)
	for i := range ones {
		ones[i] = 1
	}
	d := newDesk(t, ones...)
	d.lim.RecordLocks = 100
	require.Equal(t, "0-99x1", d.all("m1"))
	require.False(t, d.p.CanAcquire(100))
	require.Equal(t, "", d.all("m1"))
	d.ok("m1", ack(10, 19, TypeAccept))
	require.Equal(t, "", d.all("m1"), "the left edge stays")
	d.ok("m1", ack(50, 50, TypeRelease))
	require.True(t, d.p.CanAcquire(100))
	require.Equal(t, "50-50x2", d.all("m1"))
	require.True(t, d.ok("m1", ack(0, 9, TypeAccept)).StartMoved)
	require.Equal(t, int64(20), d.p.StartOffset())
	require.Equal(t, "100-119x1", d.all("m1"))

	d = newDesk(t, 150)
	d.lim.RecordLocks = 100
	require.Equal(t, "0-149x1", d.all("m1"), "the last producer batch is whole in batch_optimized")
	require.Equal(t, "", d.all("m1"))

	d = newDesk(t, 150)
	d.lim.RecordLocks = 100
	require.Equal(t, "0-99x1", d.fetch("m1", RecordLimit, 500, 500))
	require.Equal(t, "100-149x1", d.fetch("m1", RecordLimit, 500, 500))
}

// TestWrites is what the recorded partition leader persisted: start offset and count of each write.
func TestWrites(t *testing.T) {
	d := newDesk(t, 10)
	require.Equal(t, "0-9x1", d.all("m1"))
	write := func(start int64, complete int32, want string, acks ...Acknowledgement) {
		t.Helper()
		w, refusal := d.send("m1", acks...)
		require.Nil(t, refusal)
		require.Equal(t, start, w.StartOffset)
		require.Equal(t, complete, w.DeliveryCompleteCount)
		require.Equal(t, want, batches(w.Batches))
		d.answer(w, errorcode.None)
	}
	write(0, 2, "3-4 ACKNOWLEDGED x1", ack(3, 4, TypeAccept))
	write(0, 2, "6-6 AVAILABLE x1", ack(6, 6, TypeRelease))
	write(0, 3, "7-7 ARCHIVED x1", ack(7, 7, TypeReject))
	write(0, 4, "8-8 ARCHIVED x1", ack(8, 8, TypeGap))
	write(0, 7, "0-2 ACKNOWLEDGED x1", ack(0, 2, TypeAccept))
	write(5, 4, "5-5 ACKNOWLEDGED x1, 9-9 ACKNOWLEDGED x1", ack(5, 5, TypeAccept), ack(9, 9, TypeAccept))
	require.Equal(t, "6-6x2", d.all("m1"))
	write(6, 4, "6-6 ACKNOWLEDGED x2", ack(6, 6, TypeAccept))
	require.Equal(t, int64(10), d.p.StartOffset())
	require.Zero(t, d.p.DeliveryCompleteCount())
	require.Zero(t, d.p.InFlight())
	d.produce(5)
	require.Equal(t, "10-14x1", d.all("m1"))
}

// TestRefusals are the recorded errors of acknowledgements and their texts.
func TestRefusals(t *testing.T) {
	format := func(renew bool, acks ...Acknowledgement) {
		t.Helper()
		require.Equal(t, refusedFormat, CheckFormat(acks, renew))
	}
	format(true, ack(5, 4, TypeAccept))
	format(true, ack(0, 4))
	format(true, ack(0, 4, 1, 1, 1))
	format(true, ack(0, 4, 1, 1, 1, 1, 1, 1))
	format(true, ack(0, 4, 5))
	format(true, ack(0, 4, -1))
	format(false, ack(0, 4, TypeRenew))
	format(true, ack(0, 5, 1), ack(3, 9, 1))
	format(true, ack(5, 9, 1), ack(0, 4, 1))
	format(true, ack(-2, 4, 1))
	format(true, ack(0, 0, 1), ack(1, 1, 9))
	require.Nil(t, CheckFormat([]Acknowledgement{ack(-1, 4, 1), ack(4, 9, 1)}, false))

	d := newDesk(t, 10)
	require.Equal(t, "0-9x1", d.all("m1"))
	says := func(member string, want *Refusal, acks ...Acknowledgement) {
		t.Helper()
		_, refusal := d.send(member, acks...)
		require.Equal(t, want, refusal)
	}
	says("m2", refusedBatchOwner, ack(0, 9, TypeAccept))
	says("m1", refusedPastLast, ack(0, 20, TypeAccept))
	says("m1", refusedPastFirst, ack(20, 25, TypeAccept))
	says("m1", refusedPastFirst, ack(0, 0, TypeAccept), ack(1, 1, TypeAccept), ack(20, 20, TypeAccept))
	says("m1", refusedRecordState, ack(0, 4, TypeAccept), ack(4, 9, TypeAccept))
	d.ok("m1", ack(0, 9, TypeAccept))
	d.ok("m1", ack(0, 9, TypeAccept))
	says("m1", refusedException, ack(8, 12, TypeAccept))
	says("m1", refusedUnknown, ack(10, 12, TypeAccept))

	d = newDesk(t, 10)
	require.Equal(t, "0-9x1", d.all("m1"))
	d.ok("m1", ack(-1, 4, TypeRelease))
	require.Equal(t, "0-4x2", d.all("m1"), "an offset of -1 is taken from the start on")

	d = newDesk(t, 10)
	require.Equal(t, "0-9x1", d.all("m1"))
	d.ok("m1", ack(3, 5, TypeAccept))
	says("m1", refusedRecordState, ack(3, 5, TypeAccept))
	says("m1", refusedRecordState, ack(0, 9, TypeAccept))
	d.ok("m1", ack(7, 7, TypeRelease))
	says("m1", refusedRecordState, ack(7, 7, TypeAccept))
	says("m1", refusedRecordState, ack(0, 0, TypeAccept), ack(3, 3, TypeAccept))
	d.ok("m1", ack(0, 0, TypeAccept))
	require.Equal(t, "7-7x2", d.all("m2"))
	says("m2", refusedRecordOwner, ack(1, 1, TypeAccept))
	d.ok("m2", ack(7, 7, TypeAccept))

	d.lim.Renew = false
	says("m1", refusedRenewal, ack(8, 8, TypeRenew))
	d.ok("m1", ack(8, 8, TypeAccept))
}

// TestTypes covers every acknowledge type: one for all offsets and one for each.
func TestTypes(t *testing.T) {
	d := newDesk(t, 10)
	require.Equal(t, "0-9x1", d.all("m1"))
	d.ok("m1", ack(0, 9, 0, 1, 2, 3, 0, 1, 2, 3, 1, 2))
	require.Equal(t, "2-2 AVAILABLE x1, 3-4 ARCHIVED x1, 5-5 ACKNOWLEDGED x1, 6-6 AVAILABLE x1, 7-7 ARCHIVED x1, "+
		"8-8 ACKNOWLEDGED x1, 9-9 AVAILABLE x1", strings.TrimPrefix(d.state(), "0-0 ARCHIVED x1, 1-1 ACKNOWLEDGED x1, "))
	require.Equal(t, "2-2x2 6-6x2 9-9x2", d.all("m1"))
	d.ok("m1", ack(2, 2, TypeAccept), ack(6, 6, TypeAccept))
	require.Equal(t, int64(9), d.p.StartOffset())
}

// TestLockExpiry is the recorded session of a lock of one second on a batch that was split.
func TestLockExpiry(t *testing.T) {
	d := newDesk(t, 10)
	d.lim.LockDuration = time.Second
	require.Equal(t, "0-9x1", d.all("m1"))
	d.ok("m1", ack(0, 0, TypeAccept))
	deadline, found := d.p.NextDeadline()
	require.True(t, found)
	require.Equal(t, epoch.Add(time.Second), deadline)
	d.pass(time.Second - time.Nanosecond)
	require.Zero(t, d.p.ExpireNext(d.now, d.lim).ID)
	d.pass(time.Nanosecond)
	w := d.p.ExpireNext(d.now, d.lim)
	require.Equal(t, "1-1 AVAILABLE x1", batches(w.Batches))
	require.Equal(t, "1-1x2", d.all("m2"), "a waiting fetch is woken by the first of nine timers")
	d.answer(w, errorcode.None)
	for offset := int64(2); offset < 10; offset++ {
		w := d.p.ExpireNext(d.now, d.lim)
		require.Equal(t, []StateBatch{{FirstOffset: offset, LastOffset: offset, State: Available, DeliveryCount: 1}}, w.Batches)
		d.answer(w, errorcode.None)
	}
	require.Zero(t, d.p.ExpireNext(d.now, d.lim).ID)
	d.refused(errorcode.InvalidRecordState, "m1", ack(1, 9, TypeAccept))
	d.refused(errorcode.InvalidRecordState, "m2", ack(1, 4, TypeAccept))
	d.pass(time.Second)
	require.Equal(t, "1-1 AVAILABLE x2", d.expire())
	require.Equal(t, "1-1x3 2-9x2", d.all("m1"))
	d.ok("m1", ack(5, 9, TypeAccept))
	require.Equal(t, int64(1), d.p.StartOffset())
	require.Equal(t, int64(5), d.p.DeliveryCompleteCount())

	d = newDesk(t, 3)
	d.lim.LockDuration, d.lim.DeliveryCount = time.Second, 2
	require.Equal(t, "0-2x1", d.all("m1"))
	d.pass(time.Second)
	require.Equal(t, "0-2 AVAILABLE x1", d.expire(), "a batch that is whole ends at once")
	require.Equal(t, "0-2x2", d.all("m1"))
	d.pass(time.Second)
	require.Equal(t, "0-2 ARCHIVED x2", d.expire())
	require.Equal(t, int64(3), d.p.StartOffset())
}

// TestLimitIsReadWhenTheDeliveryEnds lowers it under way, as recorded.
func TestLimitIsReadWhenTheDeliveryEnds(t *testing.T) {
	d := newDesk(t, 4)
	require.Equal(t, "0-3x1", d.all("m1"))
	d.ok("m1", ack(0, 3, TypeRelease))
	require.Equal(t, "0-3x2", d.all("m1"))
	d.lim.DeliveryCount = 2
	w, _ := d.send("m1", ack(0, 3, TypeRelease))
	require.Equal(t, "0-3 ARCHIVED x2", batches(w.Batches))
	require.Equal(t, int32(4), w.DeliveryCompleteCount)
	d.answer(w, errorcode.None)
	require.Equal(t, "", d.all("m1"))
}

// TestDeadLetter takes rejected and exhausted records through ARCHIVING.
func TestDeadLetter(t *testing.T) {
	d := newDesk(t, 4)
	d.lim.DeadLetter, d.lim.DeliveryCount = true, 2
	require.Equal(t, "0-3x1", d.all("m1"))
	s := d.ok("m1", ack(0, 3, TypeReject, TypeGap, TypeRelease, TypeAccept))
	require.Equal(t, []StateBatch{{0, 0, Archiving, 1, ReasonRejected, Staged{}}}, s.Archiving)
	require.False(t, s.StartMoved)
	require.Equal(t, int64(2), d.p.DeliveryCompleteCount(), "ARCHIVING does not count")
	require.Equal(t, "2-2x2", d.all("m1"))
	s = d.ok("m1", ack(2, 2, TypeRelease))
	require.Equal(t, []StateBatch{{2, 2, Archiving, 2, ReasonExceeded, Staged{}}}, s.Archiving)
	w := d.p.CompleteArchiving(2, 2)
	require.Equal(t, "2-2 ARCHIVED x2", batches(w.Batches))
	require.False(t, d.answer(w, errorcode.None).StartMoved)
	require.True(t, d.answer(d.p.CompleteArchiving(0, 0), errorcode.None).StartMoved)
	require.Equal(t, int64(4), d.p.StartOffset())
	require.Zero(t, d.p.CompleteArchiving(0, 3).ID)

	p, err := Restore(0, []StateBatch{{0, 1, Archiving, 1, 0, Staged{}}, {2, 2, Archiving, 5, 0, Staged{}}})
	require.NoError(t, err)
	require.Equal(t, []StateBatch{{0, 1, Archiving, 1, ReasonRejected, Staged{}}, {2, 2, Archiving, 5, ReasonExceeded, Staged{}}}, p.Archiving(nil, 5))

	d = newDesk(t, 2)
	d.lim.DeadLetter, d.lim.DeliveryCount = true, 2
	for range 2 {
		d.all("m1")
		d.pass(d.lim.LockDuration)
		w = d.p.Expire(d.now, d.lim)
		s = d.answer(w, errorcode.CoordinatorNotAvailable)
	}
	require.Equal(t, []StateBatch{{0, 1, Archiving, 2, ReasonExceeded, Staged{}}}, s.Archiving, "the end of a lock stands all the same")
}

// TestAborted cuts aborted offsets out of what was acquired.
func TestAborted(t *testing.T) {
	d := newDesk(t, 5, 5, 5)
	q := &AcquireRequest{Member: "m1", BatchSize: 500, MaxRecords: 500, Batches: d.log}
	got, count := d.p.Acquire(d.now, q, d.lim, nil)
	require.Equal(t, "0-14x1", ranges(got))
	require.Equal(t, int64(15), count)
	got, count = d.p.Archive([]Bounds{{0, 4}, {10, 11}}, got)
	require.Equal(t, "5-9x1 12-14x1", ranges(got))
	require.Equal(t, int64(8), count)
	require.Equal(t, int64(7), d.p.DeliveryCompleteCount())
	d.ok("m1", ack(5, 9, TypeAccept), ack(12, 14, TypeAccept))
	require.Equal(t, int64(15), d.p.StartOffset())

	d = newDesk(t, 5)
	q = &AcquireRequest{Member: "m1", BatchSize: 500, MaxRecords: 500, Batches: d.log}
	got, _ = d.p.Acquire(d.now, q, d.lim, nil)
	got, count = d.p.Archive([]Bounds{{0, 4}}, got)
	require.Empty(t, got)
	require.Zero(t, count)
	require.Equal(t, int64(5), d.p.NextFetchOffset())
}

// TestCompaction archives what the log no longer returns.
func TestCompaction(t *testing.T) {
	d := newDesk(t, 5, 5, 5)
	require.Equal(t, "0-4x1", d.fetch("m1", BatchOptimized, 5, 5))
	require.Equal(t, "5-9x1", d.fetch("m1", BatchOptimized, 5, 5))
	d.answer(d.p.ReleaseMember("m1", d.lim), errorcode.None)
	d.log = d.log[1:]
	require.Equal(t, "5-9x2 10-14x1", d.all("m1"))
	require.Equal(t, "0-4 ARCHIVED x1, 5-9 ACQUIRED x2, 10-14 ACQUIRED x1", d.state())
	d.ok("m1", ack(5, 14, TypeAccept))
	require.Equal(t, int64(15), d.p.StartOffset())
}

// TestRestoreRefuses bad state without a panic.
func TestRestoreRefuses(t *testing.T) {
	for name, b := range map[string][]StateBatch{
		"below start":  {{0, 9, Available, 1, 0, Staged{}}},
		"backwards":    {{9, 8, Available, 1, 0, Staged{}}},
		"overlap":      {{5, 9, Available, 1, 0, Staged{}}, {9, 12, Available, 1, 0, Staged{}}},
		"acquired":     {{5, 9, Acquired, 1, 0, Staged{}}},
		"no state":     {{5, 9, 7, 1, 0, Staged{}}},
		"negative":     {{5, 9, Available, -1, 0, Staged{}}},
		"endless":      {{5, 1<<63 - 1, Available, 1, 0, Staged{}}},
		"much too big": {{5, 5 + 1<<24, Available, 1, 0, Staged{}}},
	} {
		_, err := Restore(5, b)
		require.Error(t, err, name)
	}
}
