package histories

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	seeds = flag.Uint64("histories.seeds", 40, "how many runs of producers and readers are checked")
	first = flag.Uint64("histories.seed", 1, "the seed of the first run")
)

// Whatever goes wrong, what clients of transactions are answered is what one server may have answered to which nothing happens.
func TestHistories(t *testing.T) {
	if testing.Short() {
		*seeds = min(*seeds, 10)
	}
	began, counts := time.Now(), map[string]int{}
	done := map[string]int{}
	for seed := *first; seed < *first+*seeds; seed++ {
		s, err := run(seed, spoil{})
		require.NoError(t, err, "seed %d\n%s", seed, s.text())
		if v := check(&s.history); v != nil {
			t.Fatalf("seed %d: %s: %s\n%s", seed, v.property, v.what, s.text())
		}
		for _, o := range s.history.operations {
			counts["operations"]++
			switch {
			case o.kind == ended && o.commit && o.ret != never:
				counts["commits"]++
			case o.ret == never:
				counts["unknown"]++
			case o.kind == read && o.committed && len(o.seen) > 0 || o.kind == fetched && o.value >= 0:
				counts["reads of what is committed"]++
			}
		}
		counts["refused"] += s.refused
		for what, n := range s.done {
			done[what] += n
		}
	}
	if *seeds >= 20 {
		for _, what := range []string{"commits", "unknown", "reads of what is committed", "refused"} {
			assert.Greater(t, counts[what], int(*seeds), what)
		}
		assert.Len(t, done, 16, "kinds of faults")
	}
	t.Logf("%d seeds in %s: %v; faults: %v", *seeds, time.Since(began).Round(time.Millisecond), counts, done)
}

// A run is a function of its seed: one that fails can be looked into.
func TestHistoriesRepeat(t *testing.T) {
	for seed := uint64(1); seed <= 5; seed++ {
		one, err := run(seed, spoil{})
		require.NoError(t, err)
		other, err := run(seed, spoil{})
		require.NoError(t, err)
		require.Equal(t, one.text(), other.text(), "seed %d", seed)
	}
}
