package logcleaner

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"kshare/storage"
)

func TestASegmentEnds(t *testing.T) {
	active := storage.Segment{BaseOffset: 100, Size: 500, FirstTimestamp: 10_000, MaxTimestamp: 90_000}
	untimed := storage.Segment{BaseOffset: 100, Size: 500, FirstTimestamp: -1, MaxTimestamp: -1}
	at := func(timestamp int64) storage.Batch {
		return storage.Batch{BaseOffset: 200, LastOffset: 209, MaxTimestamp: timestamp, Size: 100}
	}
	for name, c := range map[string]struct {
		config Config
		active storage.Segment
		batch  storage.Batch
		rolls  bool
	}{
		"as large as it may be":             {Config{SegmentBytes: 600, SegmentMs: 1000}, active, at(11_000), false},
		"too large":                         {Config{SegmentBytes: 599, SegmentMs: 1000}, active, at(11_000), true},
		"too long after its first batch":    {Config{SegmentBytes: 600, SegmentMs: 1000}, active, at(11_001), true},
		"before its first batch":            {Config{SegmentBytes: 600, SegmentMs: 1000}, active, at(5), false},
		"compacted, within the largest lag": {Config{SegmentBytes: 600, SegmentMs: 1000, Compact: true, MaxLagMs: 500}, active, at(10_500), false},
		"compacted, beyond it":              {Config{SegmentBytes: 600, SegmentMs: 1000, Compact: true, MaxLagMs: 500}, active, at(10_501), true},
		"not compacted, beyond it":          {Config{SegmentBytes: 600, SegmentMs: 1000, MaxLagMs: 500}, active, at(10_501), false},
		"without a timestamp, young":        {Config{SegmentBytes: 600, SegmentMs: 1000}, untimed, at(99_000), false},
		"without a timestamp, old":          {Config{SegmentBytes: 600, SegmentMs: 999}, untimed, at(5), true},
		"nothing to end":                    {Config{}, storage.Segment{}, at(5), false},
		"the last offset that fits": {Config{SegmentBytes: 600, SegmentMs: 1000}, active,
			storage.Batch{LastOffset: 100 + math.MaxInt32, MaxTimestamp: 11_000}, false},
		"one behind": {Config{SegmentBytes: 600, SegmentMs: 1000}, active, storage.Batch{LastOffset: 101 + math.MaxInt32, MaxTimestamp: 11_000}, true},
	} {
		assert.Equal(t, c.rolls, c.config.Rolls(&c.active, &c.batch, 50_000, 51_000), name)
	}
}

func segments(each ...[2]int64) (all []storage.Segment) {
	for i, s := range each {
		all = append(all, storage.Segment{BaseOffset: int64(i) * 10, Size: s[0], FirstTimestamp: s[1], MaxTimestamp: s[1]})
	}
	return all
}

func TestRetention(t *testing.T) {
	all := segments([2]int64{100, 1000}, [2]int64{50, 3000}, [2]int64{100, 2000}, [2]int64{10, 9000})
	for name, c := range map[string]struct {
		config Config
		now    int64
		n      int
	}{
		"no limits":                            {Config{Delete: true, RetentionMs: -1, RetentionBytes: -1}, 1 << 50, 0},
		"not old enough":                       {Config{Delete: true, RetentionMs: 500, RetentionBytes: -1}, 1500, 0},
		"old":                                  {Config{Delete: true, RetentionMs: 500, RetentionBytes: -1}, 1501, 1},
		"an old one behind a young one":        {Config{Delete: true, RetentionMs: 500, RetentionBytes: -1}, 3500, 1},
		"both":                                 {Config{Delete: true, RetentionMs: 500, RetentionBytes: -1}, 3501, 3},
		"all, the active one too":              {Config{Delete: true, RetentionMs: 500, RetentionBytes: -1}, 9501, 4},
		"compacted only":                       {Config{Compact: true, RetentionMs: 500, RetentionBytes: 0}, 9501, 0},
		"less than a segment over":             {Config{Delete: true, RetentionMs: -1, RetentionBytes: 161}, 0, 0},
		"a segment over":                       {Config{Delete: true, RetentionMs: -1, RetentionBytes: 160}, 0, 1},
		"nothing may stay":                     {Config{Delete: true, RetentionMs: -1, RetentionBytes: 0}, 0, 4},
		"by size, and of what is left by time": {Config{Delete: true, RetentionMs: 500, RetentionBytes: 110}, 2501, 3},
	} {
		assert.Equal(t, c.n, c.config.Deletable(all, c.now), name)
	}
	assert.Zero(t, (&Config{Delete: true, RetentionMs: 1, RetentionBytes: -1}).Deletable(segments([2]int64{9, -1}), 1<<50), "its age is not known")
}

func TestTheCleanerCleansWhatIsDirtyEnough(t *testing.T) {
	l := &Log{Segments: segments([2]int64{100, 1000}, [2]int64{100, 2000}, [2]int64{200, 3000}, [2]int64{50, 4000}), EndOffset: 35, Stable: 35}
	with := func(change func(*Log)) *Log {
		changed := *l
		change(&changed)
		return &changed
	}
	c := Config{Compact: true, MinDirtyRatio: 0.5, MaxLagMs: math.MaxInt64}
	for name, x := range map[string]struct {
		config Config
		log    *Log
		want   Dirt
	}{
		"never cleaned":             {c, l, Dirt{0, 30, 1, true}},
		"cleaned":                   {c, with(func(l *Log) { l.Cleaned = 30 }), Dirt{30, 30, 0, false}},
		"half of it":                {c, with(func(l *Log) { l.Cleaned = 20 }), Dirt{20, 30, 0.5, false}},
		"more than half":            {c, with(func(l *Log) { l.Cleaned = 10 }), Dirt{10, 30, 0.75, true}},
		"not compacted":             {Config{}, l, Dirt{}},
		"the active one alone":      {c, with(func(l *Log) { l.Segments = l.Segments[:1] }), Dirt{}},
		"a transaction is open":     {c, with(func(l *Log) { l.Stable = 25 }), Dirt{0, 20, 1, true}},
		"all of it in transactions": {c, with(func(l *Log) { l.Stable = 9 }), Dirt{}},
		"too young":                 {Config{Compact: true, MinLagMs: 7001}, l, Dirt{0, 20, 1, true}},
		"just not too young":        {Config{Compact: true, MinLagMs: 7000}, l, Dirt{0, 30, 1, true}},
		"not dirty, but old":        {Config{Compact: true, MinDirtyRatio: 1, MaxLagMs: 8999}, l, Dirt{0, 30, 1, true}},
		"not so old":                {Config{Compact: true, MinDirtyRatio: 1, MaxLagMs: 9000}, l, Dirt{0, 30, 1, false}},
		"cleaned beyond the end":    {c, with(func(l *Log) { l.Cleaned = 36 }), Dirt{0, 30, 1, true}},
		"the start has moved":       {c, with(func(l *Log) { l.Segments, l.StartOffset, l.Cleaned = l.Segments[1:], 15, 10 }), Dirt{15, 30, 0.75, true}},
	} {
		assert.Equal(t, x.want, x.config.Dirt(x.log, 10_000), name)
	}
}

// A timer is set to the very time: a moment before there is nothing to do, and then there is.
func TestWhenThereIsSomethingToDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.Int64Range(-1, 30)
		l := &Log{}
		for range rapid.IntRange(1, 5).Draw(t, "segments") {
			s := storage.Segment{BaseOffset: l.EndOffset, Size: rapid.Int64Range(1, 10).Draw(t, "size"), FirstTimestamp: small.Draw(t, "first")}
			s.MaxTimestamp = max(s.FirstTimestamp, small.Draw(t, "latest"))
			l.Segments, l.EndOffset = append(l.Segments, s), l.EndOffset+10
		}
		l.Stable = rapid.Int64Range(0, l.EndOffset).Draw(t, "stable")
		l.Cleaned = rapid.Int64Range(0, l.EndOffset/10).Draw(t, "cleaned") * 10
		c := Config{
			Delete: rapid.Bool().Draw(t, "delete"), Compact: rapid.Bool().Draw(t, "compact"),
			RetentionMs: small.Draw(t, "retention"), RetentionBytes: small.Draw(t, "bytes"),
			MinDirtyRatio: rapid.Float64Range(0, 1).Draw(t, "ratio"), MinLagMs: max(0, small.Draw(t, "least")),
			MaxLagMs: rapid.SampledFrom([]int64{1, 10, 30, math.MaxInt64}).Draw(t, "most"),
		}
		now := rapid.Int64Range(0, 40).Draw(t, "now")
		first := func(does func(at int64) bool) int64 {
			for at := now; at < 200; at++ {
				if does(at) {
					return at
				}
			}
			return math.MaxInt64
		}
		at, growth := c.DeletableAt(l.Segments, now)
		require.Equal(t, first(func(at int64) bool { return c.Deletable(l.Segments, at) > 0 }), at)
		require.Equal(t, first(func(at int64) bool { return c.Dirt(l, at).Due }), c.DirtyAt(l, now))
		if at == math.MaxInt64 {
			active := &l.Segments[len(l.Segments)-1]
			before := active.Size
			for active.Size = before; active.Size < 200; active.Size++ {
				require.Equal(t, active.Size >= growth, c.Deletable(l.Segments, now) > 0)
			}
		}
	})
}

func TestSegmentsAreCleanedIntoOneAsFarAsThereIsRoom(t *testing.T) {
	all := segments([2]int64{40, 1}, [2]int64{60, 1}, [2]int64{10, 1}, [2]int64{100, 1}, [2]int64{1, 1}, [2]int64{1, 1})
	groups := (&Config{SegmentBytes: 100}).Groups(all, 50)
	require.Equal(t, [][]storage.Segment{all[0:2], all[2:3], all[3:4], all[4:5]}, groups)
	far := segments([2]int64{1, 1}, [2]int64{1, 1}, [2]int64{1, 1})
	far[1].BaseOffset, far[2].BaseOffset = math.MaxInt32, math.MaxInt32+1
	require.Len(t, (&Config{SegmentBytes: 100}).Groups(far, math.MaxInt32+1), 1)
	require.Len(t, (&Config{SegmentBytes: 100}).Groups(far, math.MaxInt32+2), 2)
}
