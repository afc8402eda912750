package sharecoordinator

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"kshare/protocol/errorcode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireInvariant proves what State promises of its batches.
func requireInvariant(t require.TestingT, s *State) {
	for i, b := range s.Batches {
		require.LessOrEqual(t, b.FirstOffset, b.LastOffset)
		require.GreaterOrEqual(t, b.FirstOffset, s.StartOffset)
		if i > 0 {
			before := s.Batches[i-1]
			require.Less(t, before.LastOffset, b.FirstOffset)
			alike := before.State == b.State && before.DeliveryCount == b.DeliveryCount
			require.False(t, alike && before.LastOffset+1 == b.FirstOffset, "%v could be one", s.Batches)
		}
	}
}

// offsetState is an offset's state in the naive model of merge.
type offsetState struct {
	state int8
	count int16
}

// naive merges offset by offset.
type naive map[int64]offsetState

func (n naive) merge(changed []Batch, start int64) {
	for _, b := range changed {
		for o := b.FirstOffset; o <= b.LastOffset; o++ {
			old, ok := n[o]
			if !ok || b.DeliveryCount > old.count || b.DeliveryCount == old.count && b.State > old.state {
				n[o] = offsetState{b.State, b.DeliveryCount}
			}
		}
	}
	maps.DeleteFunc(n, func(o int64, _ offsetState) bool { return o < start })
}

func (n naive) batches() []Batch {
	var out []Batch
	for _, o := range slices.Sorted(maps.Keys(n)) {
		out = join(out, Batch{o, o, n[o].state, n[o].count, Staged{}})
	}
	return out
}

func anyBatches(t *rapid.T, label string) []Batch {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Batch {
		first := rapid.Int64Range(0, 40).Draw(t, "first")
		return Batch{first, first + rapid.Int64Range(-1, 12).Draw(t, "length"), rapid.SampledFrom([]int8{0, 2, 3, 4}).Draw(t, "state"), rapid.Int16Range(1, 3).Draw(t, "count"), Staged{}}
	}), 0, 6).Draw(t, label)
}

func TestMergeAgainstOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model, start := naive{}, int64(-1)
		var stored []Batch
		for range 6 {
			start = max(start, rapid.Int64Range(-1, 45).Draw(t, "start"))
			changed := anyBatches(t, "changed")
			before := slices.Clone(changed)
			stored = merge(stored, changed, start, higherWins)
			require.Equal(t, before, changed, "what is merged is not touched")
			model.merge(changed, start)
			require.Equal(t, model.batches(), append([]Batch(nil), stored...))
			requireInvariant(t, &State{StartOffset: start, Batches: stored})
		}
	})
}

func TestMergeAtTheEndsOfOffsets(t *testing.T) {
	all := Batch{math.MinInt64, math.MaxInt64, 2, 1, Staged{}}
	assert.Equal(t, []Batch{{0, lastOffset, 2, 1, Staged{}}}, merge(nil, []Batch{all}, math.MinInt64, higherWins))
	assert.Equal(t, []Batch{{0, lastOffset, 2, 1, Staged{}}}, merge([]Batch{{5, 9, 0, 1, Staged{}}, {lastOffset, lastOffset, 2, 1, Staged{}}}, []Batch{all}, -1, higherWins))
	assert.Empty(t, merge(nil, []Batch{all}, math.MaxInt64, higherWins))
}

// TestWritesAgainstOffsets drives a coordinator with every kind of call. After each call its state is that of the naive model and of a
// coordinator that reads the records back.
func TestWritesAgainstOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		updates := rapid.IntRange(0, 4).Draw(t, "updates per snapshot")
		r := newReplayed(t, Config{UpdatesPerSnapshot: updates, Exists: func([16]byte, int32) bool { return true }})
		var model naive
		var start int64
		var stateEpoch, fence int32
		k := exampleKey
		t.Repeat(map[string]func(*rapid.T){
			"initialize": func(t *rapid.T) {
				epoch, at := rapid.Int32Range(0, 6).Draw(t, "epoch"), rapid.Int64Range(-1, 40).Draw(t, "start")
				no := r.initialize(k, epoch, at)
				if model != nil && epoch < stateEpoch {
					require.Equal(t, errorcode.FencedStateEpoch, no.ErrorCode)
					return
				}
				require.Nil(t, no)
				model, start, stateEpoch = naive{}, at, epoch
			},
			"read": func(t *rapid.T) {
				epoch := rapid.Int32Range(0, 6).Draw(t, "epoch")
				s, no := r.read(k, epoch)
				switch {
				case model == nil:
					require.Equal(t, refuseUninitializedRead, no)
				case epoch < fence:
					require.Equal(t, refuseFencedLeaderEpoch, no)
				default:
					require.Nil(t, no)
					fence = epoch
					require.Equal(t, model.batches(), append([]Batch(nil), s.Batches...))
					require.Equal(t, stateEpoch, s.StateEpoch)
				}
			},
			"write": func(t *rapid.T) {
				u := &Update{
					LeaderEpoch: rapid.Int32Range(0, 6).Draw(t, "leader epoch"),
					StateEpoch:  rapid.Int32Range(0, 6).Draw(t, "state epoch"),
					StartOffset: rapid.Int64Range(-1, 45).Draw(t, "start"),
					Batches:     anyBatches(t, "batches"),
				}
				no := r.update(k, u)
				switch {
				case model == nil:
					require.Equal(t, refuseUninitializedWrite, no)
				case u.LeaderEpoch < fence:
					require.Equal(t, refuseFencedLeaderEpoch, no)
				case u.StateEpoch < stateEpoch:
					require.Equal(t, errorcode.FencedStateEpoch, no.ErrorCode)
				default:
					require.Nil(t, no)
					start = max(start, u.StartOffset)
					model.merge(u.Batches, start)
				}
			},
			"cold": func(t *rapid.T) {
				for _, record := range r.c.ColdSnapshots(r.now, rapid.Int64Range(0, 5).Draw(t, "age"), 1) {
					r.apply(record)
				}
			},
			"delete redundant": func(t *rapid.T) {
				needed, ok := r.c.Redundant(1)[0]
				if !ok {
					needed = int64(len(r.log))
				}
				clear(r.log[:needed])
				r.pruned = true
			},
			"delete": func(t *rapid.T) {
				record, no := r.c.Delete(k)
				require.Nil(t, no)
				r.apply(record)
				model, fence = nil, 0
			},
			"clone": func(t *rapid.T) {
				guard := r.c.Guard(0, 0, 1, 2)
				other := r.c.Clone()
				require.True(t, r.c.Holds(guard) && other.Holds(guard))
				if rapid.Bool().Draw(t, "go on with the copy") {
					r.c, other = other, r.c
				}
				if s := other.states[k]; s != nil { // the other one is changed in place
					u := Update{StateEpoch: s.StateEpoch, LeaderEpoch: s.fence, StartOffset: 1, Batches: []Batch{{0, 50, txPending, 7, Staged{1, 2, 1, 2}}}, Guard: guard}
					record, no := other.Write(0, k, &u)
					require.Nil(t, no)
					other.Apply(&record, 0)
					other.TransactionEnded(0, 0, Marker{ProducerID: 1, ProducerEpoch: 3, CoordinatorEpoch: 4})
					require.False(t, other.Holds(guard))
					require.True(t, r.c.Holds(guard))
					r.c.ForgetGuards(0)
					record, _ = other.Delete(k)
					other.Apply(&record, 0)
				}
			},
			"": func(t *rapid.T) {
				s := r.c.states[k]
				require.Equal(t, model == nil, s == nil)
				if s != nil {
					require.Equal(t, start, s.StartOffset)
					require.Equal(t, model.batches(), append([]Batch(nil), s.Batches...))
					requireInvariant(t, &s.State)
				}
				r.compareReplay()
			},
		})
	})
}

// A snapshot follows every N updates, and its epoch counts the snapshots.
func TestSnapshotEveryFewUpdates(t *testing.T) {
	for _, c := range []struct {
		updates int
		kinds   string
	}{
		{0, "S S S S S S S"},
		{1, "S U S U S U S"},
		{3, "S U U U S U U"},
		{500, "S U U U U U U"},
	} {
		t.Run(fmt.Sprint(c.updates), func(t *testing.T) {
			r := newReplayed(t, Config{UpdatesPerSnapshot: c.updates, Exists: func([16]byte, int32) bool { return true }})
			require.Nil(t, r.initialize(exampleKey, 2, -1))
			for i := range int64(6) {
				r.write(exampleKey, i, 0, Batch{i, i, 2, 1, Staged{}})
			}
			var kinds []byte
			snapshots := int32(-1)
			for _, kv := range r.log {
				record, err := Decode(kv[0], kv[1])
				require.NoError(t, err)
				if record.Snapshot != nil {
					kinds = append(kinds, " S"...)
					snapshots++
					assert.Equal(t, snapshots, record.Snapshot.SnapshotEpoch)
				} else {
					kinds = append(kinds, " U"...)
					assert.Equal(t, snapshots, record.Update.SnapshotEpoch)
				}
			}
			assert.Equal(t, c.kinds, string(kinds[1:]))
			r.compareReplay()
		})
	}
}

// Updates have their batches merged as Kafka has them: sorted, joined, none below the start offset.
func TestUpdatesAreMerged(t *testing.T) {
	r := newReplayed(t, Config{UpdatesPerSnapshot: 500, Exists: func([16]byte, int32) bool { return true }})
	require.Nil(t, r.initialize(exampleKey, 2, 10))
	record, no := r.c.Write(r.now, exampleKey, &Update{StateEpoch: 2, StartOffset: 3, Batches: []Batch{{14, 15, 2, 1, Staged{}}, {8, 13, 2, 1, Staged{}}, {14, 14, 0, 2, Staged{}}}})
	require.Nil(t, no)
	assert.Equal(t, []Batch{{10, 13, 2, 1, Staged{}}, {14, 14, 0, 2, Staged{}}, {15, 15, 2, 1, Staged{}}}, record.Update.Batches)
}

func TestTopicDeleted(t *testing.T) {
	r := newReplayed(t, Config{UpdatesPerSnapshot: 500, Exists: func([16]byte, int32) bool { return true }})
	gone, kept := [16]byte{1}, [16]byte{2}
	for _, k := range []Key{{"b", gone, 1}, {"a", kept, 0}, {"b", gone, 0}, {"a", gone, 0}} {
		require.Nil(t, r.initialize(k, 1, -1))
	}
	records := r.c.TopicDeleted(gone)
	assert.Equal(t, []Record{{Key: Key{"a", gone, 0}}, {Key: Key{"b", gone, 0}}, {Key: Key{"b", gone, 1}}}, records)
	for _, record := range records {
		r.apply(record)
	}
	assert.Equal(t, []Key{{"a", kept, 0}}, slices.Collect(maps.Keys(r.c.states)))
	r.compareReplay()
}

// The partition of a key is that of a 4.4.0, where String.hashCode of the key's text chooses it.
func TestPartitionFor(t *testing.T) {
	k := Key{Group: "gk", Topic: [16]byte{0x0c, 0xfc, 0x26, 0x10, 0xa5, 0xaa, 0x43, 0x13, 0xab, 0x61, 0x87, 0x53, 0x04, 0xb9, 0xa5, 0xef}}
	assert.Equal(t, "gk:DPwmEKWqQxOrYYdTBLml7w:0", k.String())
	hash := int32(0)
	for _, c := range k.String() {
		hash = 31*hash + c
	}
	assert.Equal(t, max(hash, -hash)%50, PartitionFor(k, 50))
}

// What stands before the oldest snapshot is redundant. A share partition that nothing is written of is written again, so that it does not keep what
// others wrote, but only where something has changed since.
func TestColdSnapshots(t *testing.T) {
	r := newReplayed(t, Config{UpdatesPerSnapshot: 2, Exists: func([16]byte, int32) bool { return true }})
	cold, hot := Key{"g", [16]byte{1}, 0}, Key{"g", [16]byte{1}, 1}
	require.Empty(t, r.c.Redundant(1))
	require.Nil(t, r.initialize(cold, 2, 7))
	require.Nil(t, r.initialize(hot, 2, 0))
	for i := range int64(6) {
		r.write(hot, i, 0, Batch{i, i, 2, 1, Staged{}})
	}
	assert.Equal(t, map[int32]int64{0: 0}, r.c.Redundant(1))
	const age = 1000
	assert.Empty(t, r.c.ColdSnapshots(r.now, age, 1))
	created := r.c.states[cold].createTimestamp
	r.now += age
	r.write(hot, 6, 0, Batch{6, 6, 2, 1, Staged{}})
	r.write(hot, 7, 0, Batch{7, 7, 2, 1, Staged{}})
	r.write(hot, 8, 0, Batch{8, 8, 2, 1, Staged{}})
	records := r.c.ColdSnapshots(r.now, age, 1)
	require.Len(t, records, 1)
	assert.Equal(t, cold, records[0].Key)
	assert.Equal(t, created, records[0].Snapshot.CreateTimestamp)
	assert.Equal(t, r.now, records[0].Snapshot.WriteTimestamp)
	r.apply(records[0])
	assert.Equal(t, map[int32]int64{0: r.c.states[hot].offset}, r.c.Redundant(1))
	r.now += age
	for _, record := range r.c.ColdSnapshots(r.now, age, 1) {
		r.apply(record)
	}
	r.now += age
	assert.Empty(t, r.c.ColdSnapshots(r.now, age, 1), "nothing has changed since all were written again")
	r.compareReplay()
}
