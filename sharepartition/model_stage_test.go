package sharepartition

import (
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// stage is Stage a record at a time.
func (m *model) stage(member string, acks []Acknowledgement, s Staging, lim Limits) (Write, *Refusal) {
	w := &modelWrite{id: m.lastWrite + 1, waits: true, limit: lim.DeliveryCount}
	now := map[int64]modelStaged{}
	for i := range acks {
		if refusal := m.stageable(member, i, &acks[i], s, lim, now); refusal != nil {
			return Write{}, refusal
		}
	}
	m.each(func(o int64, b *modelBatch, r *rec) bool {
		staged, ok := now[o]
		if !ok || r.state != Acquired {
			return true
		}
		r.state, r.write, r.staged, r.stagedBy = TxPending, w.id, staged.Staged, member
		w.records = append(w.records, StateBatch{o, o, TxPending, int16(r.count), ReasonNone, staged.Staged})
		for other := b.first; other <= b.last; other++ { // a batch stays whole where one range of one type covers it
			if to, ok := now[other]; !ok || to != staged {
				b.split = true
			}
		}
		return true
	})
	return m.finish(w), nil
}

// modelStaged is what a request makes of a record, and by which of its ranges.
type modelStaged struct {
	Staged
	ack int
}

// stageable tells why a range cannot be staged, or notes in now what becomes of it.
func (m *model) stageable(member string, ack int, a *Acknowledgement, s Staging, lim Limits, now map[int64]modelStaged) *Refusal {
	for _, t := range a.Types {
		if t == TypeRenew || t == TypeRelease && !s.Release || t == TypeGap && !s.Gap {
			return refusedStagedType
		}
	}
	if a.FirstOffset < m.start && !s.PassBelowStart {
		return refusedBelowStart
	}
	if a.LastOffset < m.start {
		return nil
	}
	if _, refusal := m.find(a); refusal != nil {
		return refusal
	}
	for o := max(a.FirstOffset, m.start); o <= a.LastOffset; o++ {
		_, r := m.at(o)
		if r == nil {
			continue
		}
		want := stagedBy(s, a.typeAt(o), lim)
		before, again := now[o]
		switch {
		case again && before.Staged != want:
			return refusedOtherStaged
		case r.state == TxPending && r.staged != want:
			return refusedOtherStaged
		case r.state == TxPending && r.write != 0:
			return refusedUnanswered
		case r.state == TxPending:
			continue
		case r.state != Acquired || r.write != 0:
			return refusedRecordState
		case r.member != member:
			return refusedRecordOwner
		}
		if !again {
			now[o] = modelStaged{want, ack}
		}
	}
	return nil
}

func stagedBy(s Staging, t int8, lim Limits) Staged {
	final := map[int8]State{TypeGap: Archived, TypeAccept: Acknowledged, TypeRelease: Available, TypeReject: Archived}[t]
	if t == TypeReject && lim.DeadLetter {
		final = Archiving
	}
	return Staged{s.ProducerID, s.ProducerEpoch, t, final}
}

// resolve is Resolve a record at a time, for states other than Acquired.
func (m *model) resolve(ends []StateBatch) (s Settled) {
	var archiving []StateBatch
	for _, end := range ends {
		for _, b := range m.batches {
			lo, hi := max(end.FirstOffset, b.first), min(end.LastOffset, b.last)
			for o := lo; o <= hi; o++ {
				r := b.recs[o]
				if r.state != TxPending || r.write != 0 || r.staged.ProducerID != end.Staged.ProducerID || r.staged.ProducerEpoch != end.Staged.ProducerEpoch {
					continue
				}
				b.split = b.split || lo > b.first || hi < b.last
				*r = rec{state: end.State, count: r.count}
				s.Available = s.Available || r.free()
				if end.State == Archiving {
					archiving = append(archiving, StateBatch{o, o, Archiving, int16(r.count), end.Reason, Staged{}})
				}
			}
		}
	}
	s.StartMoved = m.advance()
	s.Archiving = merged(archiving)
	return s
}

// stageHeld stages a run that one member does hold, or something near it.
func (x *pair) stageHeld(t *rapid.T) {
	var runs []Run
	for _, r := range x.p.Describe(nil, x.time()) {
		if r.State == Acquired || r.State == TxPending {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		t.Skip("nothing is held")
	}
	r := rapid.SampledFrom(runs).Draw(t, "run")
	var acks []Acknowledgement
	first := max(-1, r.FirstOffset+int64(rapid.IntRange(-1, 1).Draw(t, "first")))
	for range rapid.IntRange(1, 2).Draw(t, "batches") {
		a := Acknowledgement{FirstOffset: first, LastOffset: max(first, r.LastOffset+int64(rapid.IntRange(-3, 1).Draw(t, "last")))}
		types := 1
		if rapid.IntRange(0, 3).Draw(t, "each") == 0 {
			types = int(a.LastOffset - a.FirstOffset + 1)
		}
		for range types {
			a.Types = append(a.Types, int8(rapid.SampledFrom([]int{1, 1, 1, 3, 0, 2, 4}).Draw(t, "type")))
		}
		acks = append(acks, a)
		first = a.LastOffset
	}
	if CheckFormat(acks, true) != nil {
		t.Skip("badly formed")
	}
	member := r.Member
	if rapid.IntRange(0, 9).Draw(t, "other") == 0 {
		member = members(t)
	}
	s := Staging{ProducerID: int64(rapid.IntRange(1, 2).Draw(t, "producer")), ProducerEpoch: 3, Gap: true, Release: rapid.Bool().Draw(t, "release"),
		PassBelowStart: rapid.Bool().Draw(t, "pass below start")}
	got, refusal := x.p.Stage(member, acks, s, x.lim)
	want, wanted := x.m.stage(member, acks, s, x.lim)
	require.Equal(t, wanted, refusal, "%s %+v", member, acks)
	require.Equal(t, want, got, "%s %+v", member, acks)
	x.maybeAnswer(t, got)
}

// resolveStaged ends the transaction of one producer in all that it has staged, or in a part of it.
func (x *pair) resolveStaged(t *rapid.T) {
	var ends []StateBatch
	producer := int64(rapid.IntRange(1, 2).Draw(t, "producer"))
	commit := rapid.Bool().Draw(t, "commit")
	for _, r := range x.p.Staged(nil) {
		if r.Staged.ProducerID != producer || rapid.IntRange(0, 5).Draw(t, "left out") == 0 {
			continue
		}
		if r.State = r.Staged.Committed; !commit {
			r.State = Available
		}
		if r.State == Archiving {
			r.Reason = ReasonRejected
		}
		if rapid.IntRange(0, 5).Draw(t, "part") == 0 {
			r.FirstOffset++
		}
		ends = append(ends, r)
	}
	if len(ends) == 0 {
		t.Skip("nothing is staged")
	}
	got := x.p.Resolve(x.time(), ends, x.lim)
	if len(got.Archiving) == 0 {
		got.Archiving = nil
	}
	require.Equal(t, x.m.resolve(ends), got)
}

// lockLeft is what is left of a record's lock at a time.
func (r *rec) lockLeft(now time.Duration) time.Duration {
	if r.member == "" {
		return 0
	}
	return max(0, r.deadline-now)
}

// holder is who holds a record, or held it until it was staged.
func (r *rec) holder() string {
	if r.state == TxPending {
		return r.stagedBy
	}
	return r.member
}
