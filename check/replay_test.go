package check

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	walks     = flag.Uint64("check.walks", 24, "how many random walks are replayed in a broker")
	walkFirst = flag.Uint64("check.walk", 1, "the seed of the first one")
)

var (
	shownRun       = regexp.MustCompile(`^  (\d+)(?:-(\d+))? +(.*)$`)
	shownPersisted = regexp.MustCompile(`(\d+)(?:-(\d+))? ([A-Z_]+ count \d+)`)
	shownTxn       = regexp.MustCompile(`^(t\d: [A-Za-z]+, producer <p\d>, epoch \d+),`)
	spaces         = regexp.MustCompile(` +`)
)

// asVisible puts what the commands state and txn-describe have shown into the form of world.visible.
func asVisible(t *testing.T, shown []string) (lines []string) {
	each := func(first, last, prefix, text string) {
		from, err := strconv.Atoi(first)
		require.NoError(t, err)
		to := from
		if last != "" {
			to, err = strconv.Atoi(last)
			require.NoError(t, err)
		}
		for ; from <= to; from++ {
			lines = append(lines, fmt.Sprintf("%s%d %s", prefix, from, spaces.ReplaceAllString(text, " ")))
		}
	}
	for _, l := range shown {
		switch run := shownRun.FindStringSubmatch(l); {
		case run != nil:
			each(run[1], run[2], "", run[3])
		case strings.HasPrefix(l, "persisted: "):
			start, batches, _ := strings.Cut(l, "; ")
			lines = append(lines, strings.TrimSuffix(start, ", state epoch 2"))
			for _, b := range shownPersisted.FindAllStringSubmatch(batches, -1) {
				each(b[1], b[2], "persisted ", b[3])
			}
		case shownTxn.MatchString(l):
			lines = append(lines, shownTxn.FindStringSubmatch(l)[1])
		default:
			lines = append(lines, l)
		}
	}
	return lines
}

// replay runs a trace in a broker and compares what is visible behind each step with the model.
func replay(t *testing.T, tr *Trace, outputs bool) {
	t.Helper()
	steps, err := tr.steps(outputs)
	require.NoError(t, err)
	ids := make([]string, tr.model.Producers)
	for i := range ids {
		ids[i] = txnName(int8(i))
	}
	look := "state workers orders-0\ntxn-describe " + strings.Join(ids, " ") + "\n" + separator + "\n"
	text := strings.Join(tr.setup(), "\n") + "\n" + separator + "\n"
	for _, s := range steps {
		text += "\n" + strings.Join(append(s.commands, look), "\n")
	}
	report, err := runScenario("walk", text)
	require.NoError(t, err, text)
	for i, s := range steps {
		commands := report.Blocks[i+1].Commands
		n := len(commands)
		shown := append(commands[n-2].Shown, commands[n-1].Shown...)
		require.Equal(t, s.world.visible(), asVisible(t, shown), "step %d of %d\n%s", i+1, len(steps), text)
	}
}

// walk is a random trace.
func walk(t *testing.T, m *Model, seed uint64, length int) *Trace {
	w, err := newWorld(m)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(seed, 4))
	tr := &Trace{model: m}
	for range length {
		all := w.actions(nil, w.describe(nil))
		byKind := map[kind][]action{}
		var kinds []kind
		for _, a := range all {
			if byKind[a.kind] == nil {
				kinds = append(kinds, a.kind)
			}
			byKind[a.kind] = append(byKind[a.kind], a)
		}
		k := kinds[r.IntN(len(kinds))]
		if k >= takesOver && r.IntN(3) > 0 { // what goes wrong is no more than a third of it
			k = kinds[r.IntN(len(kinds))]
		}
		a := byKind[k][r.IntN(len(byKind[k]))]
		before := w
		w = w.child()
		w.do(a, len(tr.actions)+1)
		w.look(before, w.describe(nil))
		tr.actions = append(tr.actions, a)
	}
	return tr
}

// What the model does between the machines is what the broker does: random walks, with every fault, are replayed in one, and behind each step
// the same is to be seen.
func TestWalksAreTheBrokers(t *testing.T) {
	for seed := *walkFirst; seed < *walkFirst+*walks; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			m := Default()
			m.Records, m.Producers, m.Writes, m.Held, m.Limit, m.MostFaults = 1+int(seed%4), 2, 2, 2, 2+int(seed%3), 0
			if seed%3 == 0 {
				m.EndTxn = 4
			}
			replay(t, walk(t, &m, seed, 40), false)
		})
	}
}
