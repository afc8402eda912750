package sharepartition

import (
	"math/bits"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Runs of neighbours go another way than records alone: what one request says of a range is the same as what it says of each of its records.
func TestRunsAreTheirRecords(t *testing.T) {
	const batch = 300 // bit words do not end where runs do
	lim := Limits{DeliveryCount: 5, RecordLocks: 10_000, LockDuration: time.Minute, Renew: true}
	rapid.Check(t, func(t *rapid.T) {
		byRange, byRecord := New(0), New(0)
		log := []Bounds{{0, batch - 1}, {batch, 2*batch - 1}, {2 * batch, 3*batch - 1}}
		for range 8 {
			most := int32(rapid.IntRange(1, 400).Draw(t, "most"))
			var got []AcquiredRange
			for _, p := range []*Partition{byRange, byRecord} {
				from := p.NextFetchOffset()
				if from >= 3*batch {
					return
				}
				q := &AcquireRequest{Member: "m", Mode: RecordLimit, BatchSize: most, MaxRecords: most, FetchOffset: from, Batches: log[from/batch:]}
				again, _ := p.Acquire(epoch, q, lim, nil)
				if p == byRecord {
					require.Equal(t, got, again)
				}
				got = again
			}
			for _, r := range got {
				cut := rapid.Int64Range(r.FirstOffset, r.LastOffset).Draw(t, "cut")
				for _, part := range []AcquiredRange{{FirstOffset: r.FirstOffset, LastOffset: cut}, {FirstOffset: cut + 1, LastOffset: r.LastOffset}} {
					if part.FirstOffset > part.LastOffset {
						continue
					}
					kind := rapid.SampledFrom([]int8{TypeAccept, TypeRelease, TypeReject, TypeRenew}).Draw(t, "type")
					var singles []Acknowledgement
					for o := part.FirstOffset; o <= part.LastOffset; o++ {
						singles = append(singles, Acknowledgement{o, o, []int8{kind}})
					}
					w1, no1 := byRange.Acknowledge(epoch, "m", []Acknowledgement{{part.FirstOffset, part.LastOffset, []int8{kind}}}, lim)
					w2, no2 := byRecord.Acknowledge(epoch, "m", singles, lim)
					require.Nil(t, no1)
					require.Nil(t, no2)
					require.Equal(t, w2.Batches, w1.Batches)
					code := rapid.SampledFrom([]int16{0, 0, 0, 3}).Draw(t, "answer")
					byRange.Persisted(w1.ID, code)
					byRecord.Persisted(w2.ID, code)
				}
			}
			require.NoError(t, byRange.Check())
			require.NoError(t, byRecord.Check())
			require.Equal(t, byRecord.StartOffset(), byRange.StartOffset())
			require.Equal(t, byRecord.DeliveryCompleteCount(), byRange.DeliveryCompleteCount())
			require.Equal(t, byRecord.AvailableCount(), byRange.AvailableCount())
		}
	})
}

func TestSetBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := []uint64{rapid.Uint64().Draw(t, "0"), rapid.Uint64().Draw(t, "1"), rapid.Uint64().Draw(t, "2")}
		from := rapid.IntRange(0, 192).Draw(t, "from")
		to := rapid.IntRange(from, 192).Draw(t, "to")
		on := rapid.Bool().Draw(t, "on")
		want, before, after := append([]uint64(nil), words...), 0, 0
		for i := range want {
			before += bits.OnesCount64(want[i])
		}
		for i := from; i < to; i++ {
			want[i>>6] &^= 1 << (i & 63)
			if on {
				want[i>>6] |= 1 << (i & 63)
			}
		}
		for i := range want {
			after += bits.OnesCount64(want[i])
		}
		require.Equal(t, after-before, setBits(words, from, to, on))
		require.Equal(t, want, words)
	})
}
