package logvalidator

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// produced is the header of a batch of n records.
func produced(pid int64, epoch int16, seq, n int32, txn bool) protocol.BatchHeader {
	h := protocol.BatchHeader{Magic: 2, ProducerID: pid, ProducerEpoch: epoch, BaseSequence: seq, LastOffsetDelta: n - 1, NumRecords: n, MaxTimestamp: testNow}
	if txn {
		h.Attributes = protocol.AttributeTransactional
	}
	return h
}

// partition appends to a ProducerState as a broker does.
type partition struct {
	*ProducerState
	end int64
	log []entry
}

// entry is a batch of the log, as a replay sees it.
type entry struct {
	h           protocol.BatchHeader
	control     int16
	coordinator int32
}

func newPartition() *partition { return &partition{ProducerState: NewProducerState()} }

func (p *partition) produce(h protocol.BatchHeader, origin Origin, verified bool) (*Duplicate, *Refusal) {
	dup, refusal := p.Check(&h, origin, verified)
	if dup != nil || refusal != nil {
		return dup, refusal
	}
	h.BaseOffset = p.end
	p.end += int64(h.LastOffsetDelta) + 1
	p.Apply(&h)
	p.log = append(p.log, entry{h: h})
	return nil, nil
}

func (p *partition) mark(pid int64, epoch int16, coordinator int32, control int16, version int8) *Refusal {
	if refusal := p.CheckMarker(pid, epoch, coordinator, version); refusal != nil {
		return refusal
	}
	h := produced(pid, epoch, -1, 1, true)
	h.Attributes |= protocol.AttributeControl
	h.BaseOffset = p.end
	p.end++
	p.ApplyMarker(&h, control, coordinator)
	p.log = append(p.log, entry{h, control, coordinator})
	return nil
}

// outcome is "ok", "dup OFFSET" or "CODE".
func outcome(dup *Duplicate, refusal *Refusal) string {
	switch {
	case refusal != nil:
		return fmt.Sprint(refusal.Code)
	case dup != nil:
		return fmt.Sprint("dup ", dup.BaseOffset)
	}
	return "ok"
}

func TestSequences(t *testing.T) {
	type step struct {
		epoch  int16
		seq, n int32
		want   string
	}
	for name, steps := range map[string][]step{
		"in order":                        {{0, 0, 3, "ok"}, {0, 3, 1, "ok"}, {0, 4, 2, "ok"}},
		"any first sequence":              {{0, 7, 1, "ok"}, {0, 8, 1, "ok"}, {0, 7, 1, "dup 0"}},
		"gap":                             {{0, 0, 1, "ok"}, {0, 2, 1, "45"}, {0, 1, 1, "ok"}},
		"the last five are remembered":    {{0, 0, 1, "ok"}, {0, 1, 1, "ok"}, {0, 2, 1, "ok"}, {0, 3, 1, "ok"}, {0, 4, 1, "ok"}, {0, 0, 1, "dup 0"}, {0, 5, 1, "ok"}, {0, 0, 1, "45"}, {0, 1, 1, "dup 1"}},
		"overlaps are none":               {{0, 0, 3, "ok"}, {0, 3, 2, "ok"}, {0, 0, 2, "45"}, {0, 1, 2, "45"}, {0, 0, 5, "45"}, {0, 4, 2, "45"}},
		"a new epoch begins at 0":         {{0, 0, 1, "ok"}, {1, 1, 1, "45"}, {1, 0, 1, "ok"}, {0, 0, 1, "47"}, {0, 1, 1, "47"}, {1, 0, 1, "dup 1"}, {9, 0, 1, "ok"}},
		"wrap between batches":            {{0, math.MaxInt32 - 1, 2, "ok"}, {0, 0, 1, "ok"}, {0, math.MaxInt32 - 1, 2, "dup 0"}},
		"wrap inside a batch":             {{0, math.MaxInt32 - 1, 4, "ok"}, {0, 2, 1, "ok"}, {0, math.MaxInt32 - 1, 4, "dup 0"}, {0, 2, 1, "dup 4"}},
		"0 again only after the greatest": {{0, math.MaxInt32 - 1, 1, "ok"}, {0, 0, 1, "45"}, {0, math.MaxInt32, 1, "ok"}, {0, 0, 1, "ok"}},
		"negative epoch":                  {{-1, 5, 1, "ok"}, {-1, 9, 1, "ok"}, {-1, 9, 1, "dup 1"}, {0, 3, 1, "ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPartition()
			for i, s := range steps {
				assert.Equal(t, s.want, outcome(p.produce(produced(1, s.epoch, s.seq, s.n, false), Client, false)), "step %d: %+v", i, s)
			}
		})
	}
}

func TestDuplicateAnswer(t *testing.T) {
	p := newPartition()
	p.end = 100
	h := produced(1, 0, 0, 3, false)
	h.MaxTimestamp = 77
	_, _ = p.produce(h, Client, false)
	dup, _ := p.produce(h, Client, false)
	assert.Equal(t, &Duplicate{100, 102, 77}, dup)
	dup, refusal := p.Check(&protocol.BatchHeader{ProducerID: -1, BaseSequence: 5}, Client, false)
	assert.Nil(t, dup)
	assert.Nil(t, refusal, "no producer, no state")
}

func TestTransactions(t *testing.T) {
	p := newPartition()
	want := func(want string, dup *Duplicate, refusal *Refusal) {
		t.Helper()
		assert.Equal(t, want, outcome(dup, refusal))
	}
	do := func(text string, h protocol.BatchHeader, verified bool) {
		t.Helper()
		dup, refusal := p.produce(h, Client, verified)
		want(text, dup, refusal)
	}
	do("48", produced(1, 0, 0, 2, true), false)
	do("ok", produced(1, 0, 0, 2, true), true) // 0-1
	do("ok", produced(1, 0, 2, 1, true), false)
	do("48", produced(1, 0, 3, 1, false), false)
	do("48", produced(1, 1, 0, 1, true), false) // another epoch is not the transaction that is open
	do("ok", produced(2, 0, 0, 1, false), false)
	do("ok", produced(3, 0, 0, 1, true), true) // 4
	first, open := p.FirstUnstableOffset()
	assert.Equal(t, int64(0), first)
	assert.True(t, open)
	assert.True(t, p.OngoingTransaction(1, 0))
	assert.False(t, p.OngoingTransaction(1, 1))
	assert.False(t, p.OngoingTransaction(2, 0))

	want("47", nil, p.mark(1, 0, 5, protocol.ControlCommit, 2)) // version 2 needs a higher epoch while a transaction is open
	want("ok", nil, p.mark(1, 1, 5, protocol.ControlAbort, 2))  // 5
	want("ok", nil, p.mark(1, 1, 5, protocol.ControlAbort, 2))  // 6, a repetition changes nothing
	want("47", nil, p.mark(1, 0, 5, protocol.ControlAbort, 1))
	want("52", nil, p.mark(1, 1, 4, protocol.ControlAbort, 1))
	want("ok", nil, p.mark(1, 1, 6, protocol.ControlAbort, 1)) // 7, version 1 takes the same epoch
	first, _ = p.FirstUnstableOffset()
	assert.Equal(t, int64(4), first)
	do("45", produced(1, 1, 3, 1, true), true) // the marker's epoch begins at 0
	do("ok", produced(1, 1, 0, 1, true), true) // 8
	want("ok", nil, p.mark(1, 2, 6, protocol.ControlCommit, 2))
	want("ok", nil, p.mark(3, 0, 0, protocol.ControlAbort, 0)) // 10
	want("ok", nil, p.mark(99, 3, 0, protocol.ControlAbort, 0))
	_, open = p.FirstUnstableOffset()
	assert.False(t, open)

	one, three := AbortedTxn{1, 0, 5, 4}, AbortedTxn{3, 4, 10, 11}
	assert.Equal(t, []AbortedTxn{one, three}, p.Aborted(0, 100))
	assert.Equal(t, []AbortedTxn{one}, p.Aborted(0, 4), "a later transaction begins at or above the end")
	assert.Equal(t, []AbortedTxn{three}, p.Aborted(6, 100))
	assert.Equal(t, []AbortedTxn{three}, p.Aborted(10, 100))
	assert.Empty(t, p.Aborted(11, 100))
	p.DropAborted(5)
	assert.Equal(t, []AbortedTxn{one, three}, p.Aborted(0, 100))
	p.DropAborted(6)
	assert.Equal(t, []AbortedTxn{three}, p.Aborted(0, 100))

	var all []Producer
	p.Producers(func(d Producer) bool { all = append(all, d); return true })
	slices.SortFunc(all, func(a, b Producer) int { return int(a.ProducerID - b.ProducerID) })
	assert.Equal(t, []Producer{
		{1, 2, -1, testNow, 6, -1, -1}, {2, 0, 0, testNow, -1, -1, 3}, {3, 0, 0, testNow, 0, -1, 4}, {99, 3, -1, testNow, 0, -1, -1},
	}, all)
}

func TestCoordinatorOrigin(t *testing.T) {
	p := newPartition()
	for range 3 {
		_, refusal := p.produce(produced(1, 4, -1, 1, true), Coordinator, true)
		assert.Nil(t, refusal)
	}
	_, refusal := p.produce(produced(1, 3, -1, 1, true), Coordinator, true)
	assert.Equal(t, errorcode.InvalidProducerEpoch, refusal.Code)
	assert.True(t, refusal.LogStartOffset)
	assert.Empty(t, refusal.Message)
}

// TestVerification: a batch that was vouched for and then refused leaves its sequence behind.
func TestVerification(t *testing.T) {
	p := newPartition()
	h := produced(1, 0, 3, 1, true)
	p.StartVerification(&h, true, testNow)
	assert.Equal(t, "45", outcome(p.produce(h, Client, true)), "version 2 begins at 0")
	zero := produced(1, 0, 0, 1, true)
	p.StartVerification(&zero, true, testNow)
	assert.Equal(t, "ok", outcome(p.produce(zero, Client, true)))

	p = newPartition()
	early := produced(1, 0, 3, 1, true)
	p.StartVerification(&early, false, testNow)
	assert.Equal(t, "45", outcome(p.produce(produced(1, 0, 5, 1, true), Client, true)), "3 was there first")
	assert.Equal(t, "ok", outcome(p.produce(early, Client, true)))
	assert.Equal(t, "ok", outcome(p.produce(produced(1, 0, 4, 1, true), Client, false)))

	later := produced(2, 1, 9, 1, true)
	p.StartVerification(&early, false, testNow)
	p.StartVerification(&later, false, testNow)
	higher := produced(2, 2, 20, 1, true)
	p.StartVerification(&higher, false, testNow)
	assert.Equal(t, "ok", outcome(p.produce(higher, Client, true)), "a higher epoch starts over")
	p.StartVerification(&later, false, testNow)
	p.Expire(testNow+1000, 1000)
	assert.Empty(t, p.verifications)
}

func TestExpire(t *testing.T) {
	p := newPartition()
	old, open := produced(1, 0, 0, 1, false), produced(2, 0, 0, 1, true)
	old.MaxTimestamp, open.MaxTimestamp = testNow-1000, testNow-5000
	_, _ = p.produce(old, Client, false)
	_, _ = p.produce(open, Client, true)
	assert.Equal(t, 0, p.Expire(testNow-1, 1000))
	assert.Equal(t, 1, p.Expire(testNow, 1000))
	assert.Equal(t, 1, p.Len(), "an open transaction keeps its producer")
	assert.Equal(t, "ok", outcome(p.produce(produced(1, 0, 77, 1, false), Client, false)), "a forgotten producer begins anywhere")
}

// naive remembers every batch there ever was and looks through them all.
type naive struct{ log []entry }

func (m *naive) of(pid int64) (epoch int16, known bool, batches []entry, txn int64, coordinator int32) {
	epoch, txn, coordinator = -1, -1, -1
	for _, e := range m.log {
		if e.h.ProducerID != pid {
			continue
		}
		if e.h.ProducerEpoch != epoch {
			batches = nil
		}
		epoch, known = e.h.ProducerEpoch, true
		if e.h.IsControl() {
			txn, coordinator = -1, e.coordinator
			continue
		}
		batches = append(batches, e)
		if e.h.IsTransactional() && txn < 0 {
			txn = e.h.BaseOffset
		}
	}
	return epoch, known, batches, txn, coordinator
}

func (m *naive) check(h protocol.BatchHeader, verified bool) string {
	epoch, known, batches, txn, _ := m.of(h.ProducerID)
	next := func(e entry) int32 { return int32((int64(e.h.BaseSequence) + int64(e.h.NumRecords)) % (1 << 31)) }
	if epoch == h.ProducerEpoch {
		for i := max(0, len(batches)-5); i < len(batches); i++ {
			if batches[i].h.BaseSequence == h.BaseSequence && batches[i].h.NumRecords == h.NumRecords {
				return fmt.Sprint("dup ", batches[i].h.BaseOffset)
			}
		}
	}
	switch {
	case h.IsTransactional() && !verified && (txn < 0 || epoch != h.ProducerEpoch):
		return "48"
	case h.ProducerEpoch < epoch:
		return "47"
	case known && h.ProducerEpoch > epoch && h.BaseSequence != 0,
		known && h.ProducerEpoch == epoch && len(batches) == 0 && h.BaseSequence != 0,
		known && h.ProducerEpoch == epoch && len(batches) > 0 && h.BaseSequence != next(batches[len(batches)-1]):
		return "45"
	case txn >= 0 && !h.IsTransactional():
		return "48"
	}
	return "ok"
}

func (m *naive) checkMarker(pid int64, epoch int16, coordinator int32, version int8) string {
	current, _, _, txn, last := m.of(pid)
	switch {
	case version < 2 && epoch < current, version >= 2 && epoch <= current && !(epoch == current && txn < 0):
		return "47"
	case coordinator < last:
		return "52"
	}
	return "ok"
}

func (m *naive) aborted(from, to int64) (list []AbortedTxn) {
	for i, e := range m.log {
		before := naive{m.log[:i]}
		_, _, _, txn, _ := before.of(e.h.ProducerID)
		if !e.h.IsControl() || e.control != protocol.ControlAbort || txn < 0 {
			continue
		}
		a := AbortedTxn{e.h.ProducerID, txn, e.h.BaseOffset, e.h.BaseOffset + 1}
		if first, ok := (&naive{m.log[:i+1]}).unstable(); ok {
			a.LastStableOffset = first
		}
		if a.LastOffset >= from && a.FirstOffset < to {
			list = append(list, a)
		}
		if a.LastOffset >= from && a.LastStableOffset >= to {
			break
		}
	}
	return list
}

func (m *naive) unstable() (first int64, open bool) {
	for pid := int64(0); pid < 4; pid++ {
		if _, _, _, txn, _ := m.of(pid); txn >= 0 && (!open || txn < first) {
			first, open = txn, true
		}
	}
	return first, open
}

func TestProducerStateAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPartition()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m := &naive{p.log}
			pid := rapid.Int64Range(0, 3).Draw(t, "pid")
			epoch, _, batches, _, _ := m.of(pid)
			epoch = max(epoch, 0)
			next := int32(0)
			if len(batches) > 0 {
				h := batches[len(batches)-1].h
				next = addSequence(lastSequence(&h), 1)
			}
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				e := max(0, epoch+int16(rapid.IntRange(-1, 1).Draw(t, "marker epoch")))
				coordinator := rapid.Int32Range(0, 2).Draw(t, "coordinator")
				version := rapid.Int8Range(0, 2).Draw(t, "version")
				want := m.checkMarker(pid, e, coordinator, version)
				control := int16(rapid.IntRange(0, 1).Draw(t, "control"))
				require.Equal(t, want, outcome(nil, p.mark(pid, e, coordinator, control, version)))
			case 1: // a batch again, from the log as it is
				if len(p.log) == 0 {
					continue
				}
				e := rapid.SampledFrom(p.log).Draw(t, "again")
				if e.h.IsControl() {
					continue
				}
				h := produced(e.h.ProducerID, e.h.ProducerEpoch, e.h.BaseSequence, e.h.NumRecords, e.h.IsTransactional())
				require.Equal(t, m.check(h, true), outcome(p.produce(h, Client, true)))
			default:
				seq := rapid.SampledFrom([]int32{next, next, next, next, 0, math.MaxInt32 - 1, next + 1, max(next-1, 0)}).Draw(t, "sequence")
				e := max(0, epoch+int16(rapid.SampledFrom([]int{0, 0, 0, 0, 1, -1}).Draw(t, "epoch")))
				h := produced(pid, e, max(0, seq), rapid.Int32Range(1, 4).Draw(t, "records"), rapid.Bool().Draw(t, "transactional"))
				verified := rapid.Bool().Draw(t, "verified")
				require.Equal(t, m.check(h, verified), outcome(p.produce(h, Client, verified)))
			}
		}
		m := &naive{p.log}
		first, open := p.FirstUnstableOffset()
		wantFirst, wantOpen := m.unstable()
		require.Equal(t, []any{wantFirst, wantOpen}, []any{first, open})
		from := rapid.Int64Range(0, p.end).Draw(t, "from")
		to := rapid.Int64Range(from, p.end).Draw(t, "to")
		require.Equal(t, m.aborted(from, to), p.Aborted(from, to))

		// Reading the log again leads to the same state.
		again := NewProducerState()
		for _, e := range p.log {
			again.Replay(&e.h, e.control, e.coordinator)
		}
		require.Equal(t, p.ProducerState, again)
	})
}

func TestReplayIgnores(t *testing.T) {
	s := NewProducerState()
	h := produced(1, 0, -1, 1, true)
	h.Attributes |= protocol.AttributeControl
	s.Replay(&h, -1, 0)
	s.Replay(&protocol.BatchHeader{ProducerID: -1}, 0, 0)
	assert.Equal(t, NewProducerState(), s)
}

func BenchmarkProducerState(b *testing.B) {
	p := newPartition()
	seq := int32(0)
	b.ReportAllocs()
	for b.Loop() {
		h := produced(1, 0, seq, 10, false)
		h.BaseOffset = int64(seq)
		if dup, refusal := p.Check(&h, Client, false); dup != nil || refusal != nil {
			b.Fatal(outcome(dup, refusal))
		}
		p.Apply(&h)
		seq = addSequence(seq, 10)
	}
}
