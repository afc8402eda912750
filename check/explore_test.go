package check

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/kip1289"
)

func explore(t *testing.T, m *Model, l Limits) *Result {
	t.Helper()
	r, err := Explore(context.Background(), m, l)
	require.NoError(t, err)
	return r
}

// With the defaults every property holds in every state, whatever of all faults happens once; pairs of faults are for make check.
func TestDefaultsHold(t *testing.T) {
	m := Default()
	m.Records, m.MostFaults = 1, 1
	r := explore(t, &m, Limits{})
	require.Empty(t, r.Broken)
	require.True(t, r.Whole, r.Why)
	t.Log(r)
	assert.Contains(t, r.String(), "the whole state space of 2 members, 1 producer, 1 record, every fault, at most 1 in a trace; ")

	m = Default()
	m.Records, m.Producers, m.MostFaults, m.Depth = 4, 2, 1, 4
	r = explore(t, &m, Limits{})
	require.Empty(t, r.Broken)
	require.False(t, r.Whole)
	require.True(t, r.Exhausted, r.Why)
	assert.Contains(t, r.String(), "all traces of up to 4 steps of 2 members, 2 producers, 4 records, every fault, at most 1 in a trace; ")
}

// What the draft does on each point on which it does not keep its promise breaks a property, by a trace that a broker follows step by step.
func TestUnsafeSwitchesBreakProperties(t *testing.T) {
	for _, x := range []struct {
		unsafe   string
		faults   []string
		endTxn   int
		property string
		steps    int
	}{
		{"late.stage.fence=off", []string{Slow}, 5, NotStuck, 4},
		{"stage.revert.rearms.lock=off", []string{Slow}, 5, NotStuck, 3},
		{"leader.refresh=reload", nil, 5, OneLock, 4},
		{"persisted.merge=higher-state", []string{Slow, Move}, 5, NeverAgain, 7},
		{"member.validation=off", []string{Leave}, 5, MembersOnly, 3},
		{"delivery.limit.on.abort=ignore", nil, 5, LimitKept, 6},
		{"stage.below.start=pass", []string{Expire, Late}, 5, ExactlyOnce, 6},
		{"epoch.match=exact", nil, 4, NotStuck, 3},
		{"coordinator.epoch.check=off", []string{Markers, Coordinator}, 4, OwnTransaction, 6},
	} {
		t.Run(x.unsafe, func(t *testing.T) {
			t.Parallel()
			m := Default()
			m.Faults, m.EndTxn = x.faults, x.endTxn
			require.Empty(t, explore(t, &m, Limits{}).Broken, "the default side")

			var err error
			m.Switches, err = kip1289.Parse(x.unsafe)
			require.NoError(t, err)
			r := explore(t, &m, Limits{})
			require.NotEmpty(t, r.Broken)
			b := &r.Broken[0]
			assert.Equal(t, x.property, b.Property, b.What)
			assert.Equal(t, x.steps, b.Trace.Len())
			assert.True(t, strings.HasPrefix(r.String(), "broken: "+x.property+"\n"), r)
			replay(t, b.Trace, true)

			text, err := b.Scenario("trace")
			require.NoError(t, err)
			report, err := runScenario("trace", text)
			require.NoError(t, err)
			assert.Empty(t, report.Differences(), "it shows what it says")
		})
	}
}

// The number of workers makes no difference to what is found.
func TestTheSameIsFoundByAnyNumberOfWorkers(t *testing.T) {
	m := Default()
	m.MostFaults, m.Depth = 1, 5
	one := explore(t, &m, Limits{Workers: 1})
	three := explore(t, &m, Limits{Workers: 3})
	assert.Equal(t, []int64{one.States, one.Steps}, []int64{three.States, three.Steps})

	var err error
	m.Switches, err = kip1289.Parse("late.stage.fence=off")
	require.NoError(t, err)
	one, three = explore(t, &m, Limits{Workers: 1}), explore(t, &m, Limits{Workers: 3})
	require.Len(t, one.Broken, 1)
	assert.Equal(t, one.Broken[0].Trace.actions, three.Broken[0].Trace.actions)
}

// Where the memory bound ends the search, the result says so, and claims nothing more.
func TestMemoryBound(t *testing.T) {
	m := Default()
	r := explore(t, &m, Limits{Memory: 100 << 10})
	assert.False(t, r.Whole)
	assert.False(t, r.Exhausted)
	assert.Greater(t, r.Bytes, int64(100<<10))
	assert.Contains(t, r.String(), "not exhaustive, the memory bound is reached: traces of up to ")
}

// A search that is ended says so too.
func TestEnded(t *testing.T) {
	ctx, end := context.WithCancel(context.Background())
	m := Default()
	levels := 0
	r, err := Explore(ctx, &m, Limits{Progress: func(Progress) {
		if levels++; levels == 3 {
			end()
		}
	}})
	require.NoError(t, err)
	assert.Contains(t, r.String(), "not exhaustive, it was ended: ")
}

func TestModelsThatMakeNoSense(t *testing.T) {
	for text, change := range map[string]func(*Model){
		"records 7: from 1 to 6":                           func(m *Model) { m.Records = 7 },
		"members 0: from 1 to 3":                           func(m *Model) { m.Members = 0 },
		"version of EndTxn 3: from 4 to 5":                 func(m *Model) { m.EndTxn = 3 },
		`there is no fault "expires": did you mean expire`: func(m *Model) { m.Faults = []string{"expires"} },
		"are not modelled":                                 func(m *Model) { m.Switches, _ = kip1289.Parse("abort.state=acquired") },
	} {
		m := Default()
		change(&m)
		_, err := Explore(context.Background(), &m, Limits{})
		require.ErrorContains(t, err, text)
	}
}

// Traces of millions of states are kept as words.
func TestActionsArePackedWhole(t *testing.T) {
	for _, a := range []action{
		{fetches, 2, 0, 6, 0, goes}, {stagesRecord, 1, 2, 5, 4, answers}, {logStarts, 0, 3, 5, 0, held},
	} {
		assert.Equal(t, a, actionOf(a.word()))
	}
}
