package check

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"kshare/kip1289"
)

// successors are the fingerprints of the states that a step leads to, with the properties that do not hold there.
func successors(f *fingerprinter, w *world, number int) []string {
	all := map[string]bool{}
	for _, a := range w.actions(nil, w.describe(nil)) {
		c := w.child()
		c.do(a, number)
		runs := c.describe(nil)
		c.look(w, runs)
		key := fmt.Sprintf("%x", f.fingerprint(c, runs))
		if c.broken != nil {
			key += " " + c.broken.Property
		}
		all[key] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// States that have one fingerprint have successors of the same fingerprints, and break the same properties with them: what a fingerprint leaves out makes no difference.
func TestStatesOfOneFingerprintBehaveAlike(t *testing.T) {
	for _, x := range []struct {
		switches string
		endTxn   int
		faults   []string
		most     int // faults in a trace, with those of time
	}{
		{"", 5, Faults, 0},
		{"", 4, Faults, 0},
		{"", 5, Faults, 1},
		{"", 5, []string{Expire, Renew, Late, Disconnect}, 1},
		{"", 5, []string{Move, EndSession, Leave, Slow}, 1},
		{"stage.below.start=pass", 5, []string{Expire, Late, Move}, 1},
		{"persisted.merge=higher-state", 5, []string{Slow, Move}, 0},
		{"epoch.match=exact", 4, []string{Slow, Coordinator, Markers, Takeover}, 0},
		{"coordinator.epoch.check=off", 4, []string{Coordinator, Markers, Takeover, Crash}, 0},
		{"stage.below.start=pass", 5, []string{Expire, Late, Move, Disconnect}, 0},
		{"late.stage.fence=off", 5, []string{Slow, Crash, Disconnect}, 0},
		{"leader.refresh=reload", 5, []string{Slow, Renew, LogStart, Leave, EndSession}, 0},
	} {
		t.Run(fmt.Sprint(x.switches, x.endTxn, x.most, len(x.faults)), func(t *testing.T) {
			t.Parallel()
			m := Default()
			m.Faults, m.EndTxn = x.faults, x.endTxn
			if x.most > 0 {
				m.MostFaults, m.CountAll = x.most, true
			}
			if x.switches != "" {
				var err error
				m.Switches, err = kip1289.Parse(x.switches)
				require.NoError(t, err)
			}
			root, err := newWorld(&m)
			require.NoError(t, err)
			f := newFingerprinter(&m)
			type first struct {
				world *world
				next  []string
			}
			seen := map[uint64]*first{}
			level := []*world{root}
			alike := 0
			enough := statesCompared
			if testing.Short() {
				enough /= 4
			}
			for depth := 1; len(seen) < enough && len(level) > 0; depth++ {
				var next []*world
				for _, w := range level {
					key := f.fingerprint(w, w.describe(nil))
					if known := seen[key]; known != nil {
						if alike++; known.next == nil {
							known.next = successors(f, known.world, depth)
						}
						require.Equal(t, known.next, successors(f, w, depth), "%v\n%v", known.world.visible(), w.visible())
						continue
					}
					seen[key] = &first{world: w}
					for _, a := range w.actions(nil, w.describe(nil)) {
						c := w.child()
						c.do(a, depth)
						next = append(next, c)
					}
				}
				level = next
			}
			require.Positive(t, alike)
			t.Logf("%d states, %d others like them", len(seen), alike)
		})
	}
}

// statesCompared is about how many states the test makes.
const statesCompared = 400
