package scenario

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare"
)

// A broker with a bug, which accepts what is released, is found out by golden files and by random scenarios, and the script that shows it is short. Package
// differential finds it out against Apache Kafka in the same way.
func TestABugIsFoundOut(t *testing.T) {
	t.Run("by golden files", func(t *testing.T) {
		failed := 0
		for _, name := range scenarioFiles(t, scenarios) {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			f, err := Parse(name, text)
			require.NoError(t, err)
			if r, err := Run(f, NewMutant(), Options{}); err != nil || r.Failed() > 0 {
				failed++
			}
		}
		assert.GreaterOrEqual(t, failed, 10)
	})
	t.Run("by a random seed", func(t *testing.T) {
		d := &Differ{
			Here:   func() *Local { return NewMutant(kshare.WithTiming(kshare.TimingKafka)) },
			There:  func() Target { return NewLocal(kshare.WithTiming(kshare.TimingKafka)) },
			Prefix: "p",
		}
		for seed := uint64(1); seed <= 10; seed++ {
			f, err := Random(seed, 50)
			require.NoError(t, err)
			c, err := d.Compare(f)
			require.NoError(t, err)
			if !c.Differs() {
				continue
			}
			same, err := d.Shrink(c, 0)
			require.NoError(t, err)
			require.Same(t, c, same, "without a run there is nothing shorter")
			small, err := d.Shrink(c, 200)
			require.NoError(t, err)
			require.True(t, small.Differs())
			assert.Less(t, len(small.Commands), 15, "seed %d\n%s", seed, small.File.Text())
			t.Logf("seed %d, shrunk from %d commands:\n%s%s", seed, len(c.Commands), small.File.Text(), small.SideBySide("mutant", "kshare"))
			return
		}
		t.Error("no seed from 1 to 10 finds it")
	})
}

// A command that differs each time is shown, one that does not is named.
func TestSideBySide(t *testing.T) {
	c := &Comparison{File: &File{Name: "f"}, Commands: []Compared{
		{Line: 1, Command: "groups", Here: []string{"a"}, There: []string{"a"}},
		{Line: 2, Command: "groups", Here: []string{"a"}, There: []string{"b"}},
		{Line: 3, Command: "groups", Here: []string{"a"}, There: []string{"b"}, Unsteady: true},
		{Line: 4, Command: "state", Here: []string{"a"}, There: []string{"b"}, Omitted: "it looks into the broker"},
		{Line: 5, Command: "groups", Here: []string{"a"}, There: []string{"b"}, Omitted: variesThere},
	}}
	words := strings.Join(strings.Fields(c.SideBySide("here", "there")), " ")
	assert.Equal(t, "f:2 groups here there a | b f:3 groups: differed in one run and not in another "+
		"f:5 groups: the other side shows now this and now that f: 5 commands, 2 agree, 1 differ, 2 not compared", words)
}

// A difference counts where it shows in every run, and where the other side does not differ from itself.
func TestDifferencesAreConfirmed(t *testing.T) {
	shown := func(here, there string) Compared { return Compared{Here: []string{here}, There: []string{there}} }
	for name, test := range map[string]struct {
		again   Compared
		differs bool
		doubt   string
	}{
		"the same again":             {shown("a", "b"), true, ""},
		"agrees the next time":       {shown("a", "a"), false, "differed in one run and not in another"},
		"the other side varies":      {shown("a", "c"), false, variesThere},
		"both follow from the input": {shown("d", "c"), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := shown("a", "b")
			c.confirm(&test.again)
			assert.Equal(t, test.differs, c.Differs())
			assert.Equal(t, test.doubt, c.Doubt())
		})
	}
}
