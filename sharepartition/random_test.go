package sharepartition

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

// pair drives a partition and the model with the same operations.
type pair struct {
	p   *Partition
	m   *model
	now time.Duration
	log []Bounds
	at  int64 // log start
	lim Limits
}

func (x *pair) time() time.Time { return epoch.Add(x.now) }

// same compares everything that can be seen of both.
func (x *pair) same(t *rapid.T) {
	require.NoError(t, x.p.Check())
	require.Equal(t, x.m.start, x.p.StartOffset(), "start offset")
	require.Equal(t, x.m.end, x.p.EndOffset(), "end offset")
	require.Equal(t, x.m.complete(), x.p.DeliveryCompleteCount(), "delivery complete count")
	require.Equal(t, x.m.next(), x.p.NextFetchOffset(), "next fetch offset")
	require.Equal(t, x.m.inFlight(), x.p.InFlight(), "in flight")
	require.Equal(t, x.m.records(x.now), x.records(), "records")
	deadline, found := x.p.NextDeadline()
	want, wanted := x.m.deadline()
	require.Equal(t, wanted, found, "a deadline")
	if found {
		require.Equal(t, want, deadline.Sub(epoch), "deadline")
	}
}

func (m *model) records(now time.Duration) []string {
	var out []string
	m.each(func(o int64, b *modelBatch, r *rec) bool {
		out = append(out, fmt.Sprint(o, r.state, r.count, r.write != 0, r.holder(), r.lockLeft(now), b.first, b.split, r.staged))
		return true
	})
	return out
}

func (x *pair) records() []string {
	var out []string
	for _, r := range x.p.Describe(nil, x.time()) {
		for o := r.FirstOffset; o <= r.LastOffset; o++ {
			out = append(out, fmt.Sprint(o, r.State, r.DeliveryCount, r.Pending, r.Member, r.LockLeft, r.Batch, r.Split, r.Staged))
		}
	}
	return out
}

// read is what the log returns for an offset: whole batches, a random number of them.
func (x *pair) read(t *rapid.T, offset int64) []Bounds {
	for i, b := range x.log {
		if b.LastOffset >= offset {
			return x.log[i:min(len(x.log), i+rapid.IntRange(1, 6).Draw(t, "batches"))]
		}
	}
	return nil
}

func members(t *rapid.T) string {
	return rapid.SampledFrom([]string{"m1", "m2", "m3"}).Draw(t, "member")
}

func (x *pair) acquire(t *rapid.T) {
	offset := max(x.p.NextFetchOffset(), x.at)
	q := &AcquireRequest{
		Member:      members(t),
		Mode:        rapid.SampledFrom([]AcquireMode{BatchOptimized, RecordLimit}).Draw(t, "mode"),
		BatchSize:   int32(rapid.IntRange(-1, 8).Draw(t, "batchSize")),
		MaxRecords:  int32(rapid.IntRange(0, 20).Draw(t, "maxRecords")),
		FetchOffset: offset,
		Batches:     x.read(t, offset),
	}
	narrow := *q
	narrow.Batches = reached(q.Batches, offset, x.p.AcquireReach(offset, q.MaxRecords))
	got, count := x.p.Acquire(x.time(), &narrow, x.lim, nil)
	want := x.m.acquire(x.now, q, x.lim)
	require.Equal(t, want, got, "%+v", q)
	sum := int64(0)
	for _, r := range got {
		sum += r.LastOffset - r.FirstOffset + 1
	}
	require.Equal(t, sum, count)
	if q.Mode == RecordLimit {
		require.LessOrEqual(t, count, int64(q.MaxRecords))
	}
	if len(got) > 0 && rapid.IntRange(0, 9).Draw(t, "abort") == 0 {
		b := rapid.SampledFrom(q.Batches).Draw(t, "aborted")
		left, _ := x.p.Archive([]Bounds{b}, got)
		x.m.archive(b.BaseOffset, b.LastOffset, Acquired)
		for _, r := range left {
			require.True(t, r.LastOffset < b.BaseOffset || r.FirstOffset > b.LastOffset, "%v without %v is %v", got, b, left)
		}
	}
}

// reached is the part of what was read that AcquireReach asks for: all of it where the log begins behind the offset or has a hole at the end.
func reached(read []Bounds, offset, reach int64) []Bounds {
	n := 0
	for n < len(read) && read[n].BaseOffset <= reach {
		n++
	}
	if n == 0 || read[0].BaseOffset > offset || read[n-1].LastOffset < reach {
		return read
	}
	return read[:n]
}

func (x *pair) acknowledge(t *rapid.T) {
	first := max(x.p.StartOffset()-5, -1)
	var acks []Acknowledgement
	for range rapid.IntRange(1, 4).Draw(t, "batches") {
		a := Acknowledgement{FirstOffset: first + int64(rapid.IntRange(0, 6).Draw(t, "skip"))}
		a.LastOffset = a.FirstOffset + int64(rapid.IntRange(0, 9).Draw(t, "length"))
		types := 1
		if rapid.Bool().Draw(t, "each") {
			types = int(a.LastOffset - a.FirstOffset + 1)
		}
		for range types {
			a.Types = append(a.Types, int8(rapid.IntRange(0, 4).Draw(t, "type")))
		}
		acks = append(acks, a)
		first = a.LastOffset + int64(rapid.IntRange(0, 1).Draw(t, "apart"))
	}
	x.send(t, members(t), acks)
}

// acknowledgeHeld acknowledges a run that one member does hold.
func (x *pair) acknowledgeHeld(t *rapid.T) {
	var held []Run
	for _, r := range x.p.Describe(nil, x.time()) {
		if r.State == Acquired {
			held = append(held, r)
		}
	}
	if len(held) == 0 {
		t.Skip("nothing is held")
	}
	r := rapid.SampledFrom(held).Draw(t, "run")
	a := Acknowledgement{FirstOffset: r.FirstOffset, LastOffset: r.LastOffset}
	types := 1
	if rapid.IntRange(0, 3).Draw(t, "each") == 0 {
		types = int(r.LastOffset - r.FirstOffset + 1)
	}
	for range types {
		a.Types = append(a.Types, int8(rapid.IntRange(0, 4).Draw(t, "type")))
	}
	x.send(t, r.Member, []Acknowledgement{a})
}

func (x *pair) send(t *rapid.T, member string, acks []Acknowledgement) {
	if CheckFormat(acks, true) != nil {
		t.Skip("badly formed")
	}
	got, refusal := x.p.Acknowledge(x.time(), member, acks, x.lim)
	want, wanted := x.m.acknowledge(x.now, member, acks, x.lim)
	require.Equal(t, wanted, refusal, "%s %+v", member, acks)
	require.Equal(t, want, got, "%s %+v", member, acks)
	x.maybeAnswer(t, got)
}

// maybeAnswer answers a write at once, half of the time.
func (x *pair) maybeAnswer(t *rapid.T, w Write) {
	if w.ID != 0 && rapid.Bool().Draw(t, "at once") {
		x.answer(t, w.ID)
	}
}

func (x *pair) answer(t *rapid.T, id uint64) {
	code := rapid.SampledFrom([]int16{0, 0, 0, 15}).Draw(t, "code")
	got := x.p.Persisted(id, code)
	want := x.m.persisted(id, code == 0)
	if len(got.Archiving) == 0 {
		got.Archiving = nil
	}
	require.Equal(t, want, got, "answer of write %d", id)
}

func (x *pair) restore(t *rapid.T) {
	start := int64(rapid.IntRange(0, 10).Draw(t, "start"))
	var batches []StateBatch
	next := start
	for range rapid.IntRange(0, 5).Draw(t, "state batches") {
		first := next + int64(rapid.IntRange(0, 2).Draw(t, "hole"))*int64(rapid.IntRange(0, 4).Draw(t, "hole size"))
		last := first + int64(rapid.IntRange(0, 7).Draw(t, "size"))
		b := StateBatch{FirstOffset: first, LastOffset: last,
			State:         rapid.SampledFrom([]State{Available, Acknowledged, Archiving, Archived, TxPending}).Draw(t, "state"),
			DeliveryCount: int16(rapid.IntRange(0, 4).Draw(t, "count"))}
		if b.State == TxPending {
			b.Staged = Staged{ProducerID: int64(rapid.IntRange(1, 2).Draw(t, "producer")), ProducerEpoch: 3, Type: TypeAccept, Committed: Acknowledged}
		}
		batches = append(batches, b)
		next = last + 1
	}
	p, err := Restore(start, batches)
	require.NoError(t, err)
	x.p, x.m = p, newModel(start, batches)
}

// produce makes a log of small batches; a negative size stands for a hole before a batch of one record.
func (x *pair) produce(t *rapid.T) {
	next := int64(0)
	for _, size := range rapid.SliceOfN(rapid.Int64Range(-6, 8), 40, 40).Draw(t, "log") {
		next += max(0, -size)
		x.log = append(x.log, Bounds{next, next + max(0, size-1)})
		next += max(1, size)
	}
}

// clone goes on with a copy, or with what was copied, and does everything to the other one that changes it.
func (x *pair) clone(t *rapid.T) {
	other := x.p.Clone()
	require.NoError(t, other.Check())
	if rapid.Bool().Draw(t, "go on with the copy") {
		x.p, other = other, x.p
	}
	later := x.time().Add(time.Second)
	for _, w := range x.m.writes {
		other.Persisted(w.id, 15)
	}
	next := other.EndOffset()
	other.Acquire(later, &AcquireRequest{Member: "m4", FetchOffset: next, BatchSize: 3, MaxRecords: 9, Batches: []Bounds{{next, next + 8}}}, x.lim, nil)
	for _, r := range other.Describe(nil, later) {
		if r.State == Acquired {
			_, _ = other.Acknowledge(later, r.Member, []Acknowledgement{{r.LastOffset, r.LastOffset, []int8{TypeAccept}}}, x.lim)
		}
	}
	for _, m := range []string{"m1", "m2", "m3"} {
		other.Persisted(other.ReleaseMember(m, x.lim).ID, 0)
	}
	other.Expire(later.Add(time.Hour), x.lim)
	other.LogStartMoved(next + 1)
	require.NoError(t, other.Check())
}

// TestAgainstModel does random things to a partition and to the model and compares what can be seen.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &pair{lim: Limits{
			DeliveryCount: rapid.IntRange(2, 8).Draw(t, "delivery count limit"),
			RecordLocks:   rapid.IntRange(5, 60).Draw(t, "record locks"),
			LockDuration:  10 * time.Second,
			Renew:         true,
			DeadLetter:    rapid.IntRange(0, 3).Draw(t, "dead letter") == 0,
		}}
		x.produce(t)
		x.restore(t)
		x.same(t)
		t.Repeat(map[string]func(*rapid.T){
			"acquire":      x.acquire,
			"acquireMore":  x.acquire,
			"acquireAgain": x.acquire,
			"acknowledge":  x.acknowledge,
			"held":         x.acknowledgeHeld,
			"heldMore":     x.acknowledgeHeld,
			"stage":        x.stageHeld,
			"resolve":      x.resolveStaged,
			"answer": func(t *rapid.T) {
				if len(x.m.writes) == 0 {
					t.Skip("nothing to answer")
				}
				x.answer(t, rapid.SampledFrom(x.m.writes).Draw(t, "write").id)
			},
			"release": func(t *rapid.T) {
				member := members(t)
				got := x.p.ReleaseMember(member, x.lim)
				require.Equal(t, x.m.release(member, x.lim), got)
				x.maybeAnswer(t, got)
			},
			"wait": func(t *rapid.T) { x.now += time.Duration(rapid.IntRange(1, 9).Draw(t, "s")) * time.Second },
			"expire": func(t *rapid.T) {
				got := x.p.Expire(x.time(), x.lim)
				require.Equal(t, x.m.expire(x.now, x.lim, false), got)
				x.maybeAnswer(t, got)
			},
			"expireNext": func(t *rapid.T) {
				got := x.p.ExpireNext(x.time(), x.lim)
				require.Equal(t, x.m.expire(x.now, x.lim, true), got)
				x.maybeAnswer(t, got)
			},
			"deleteRecords": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "rarely") != 0 {
					t.Skip("not now")
				}
				to := x.p.StartOffset() + int64(rapid.IntRange(0, 15).Draw(t, "by"))
				x.at = max(x.at, to)
				require.Equal(t, x.m.logStartMoved(to), x.p.LogStartMoved(to))
			},
			"deadLetter": func(t *rapid.T) {
				first := x.p.StartOffset() + int64(rapid.IntRange(-2, 10).Draw(t, "first"))
				last := first + int64(rapid.IntRange(0, 10).Draw(t, "length"))
				got := x.p.CompleteArchiving(first, last)
				require.Equal(t, x.m.completeArchiving(first, last), got)
				x.maybeAnswer(t, got)
			},
			"limits": func(t *rapid.T) {
				x.lim.Renew = rapid.Bool().Draw(t, "renew")
				x.lim.DeliveryCount = rapid.IntRange(2, 8).Draw(t, "delivery count limit")
			},
			"clone": x.clone,
			"":      x.same,
		})
	})
}
