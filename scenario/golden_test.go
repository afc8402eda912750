package scenario

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scenarios is where the golden files lie.
const scenarios = "../testdata/scenarios"

// scenarioFiles are the names of all golden files below a directory.
func scenarioFiles(t *testing.T, dir string) (names []string) {
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, ".txt") {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// Every golden file shows in the process what it says. kshare run --rewrite writes one anew; its difference is to be read.
func TestScenarios(t *testing.T) {
	names := scenarioFiles(t, scenarios)
	require.NotEmpty(t, names)
	for _, name := range names {
		rel, err := filepath.Rel(scenarios, name)
		require.NoError(t, err)
		t.Run(filepath.ToSlash(rel), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			checkGolden(t, filepath.ToSlash(rel), string(text))
		})
	}
}

// checkGolden runs a scenario and holds it to the form that those of the repository have. The name is a path below scenarios.
func checkGolden(t testing.TB, name, text string) {
	t.Helper()
	assert.True(t, strings.HasPrefix(text, "# "), "the first line is a comment that says what the scenario shows")
	if strings.HasPrefix(name, "wire/") {
		assert.Regexp(t, `\A(#.*\n|\n)*cluster timing=kafka[ \n]`, text, "a scenario that a real Kafka confirms begins with cluster timing=kafka")
	}
	if strings.HasPrefix(name, "wire-nodes/") {
		assert.Regexp(t, `\A(#.*\n|\n)*cluster brokers=3 timing=kafka[ \n]`, text, "a scenario that a cluster of Kafka confirms begins with cluster brokers=3 timing=kafka")
	}
	f, err := Parse(name, []byte(text))
	require.NoError(t, err)
	r, err := Run(f, NewLocal(), Options{})
	require.NoError(t, err)
	if d := r.Differences(); d != "" {
		t.Errorf("shown is marked +, expected is marked -\n%s", d)
		return
	}
	assert.Equal(t, string(r.Rewritten()), text, "kshare run --rewrite writes the scenario in another form")
}

// failures is a test that notes what fails instead of failing.
type failures struct {
	testing.TB
	text string
}

// gaveUp ends what FailNow gives up.
type gaveUp struct{}

func (f *failures) Helper()                         {}
func (f *failures) FailNow()                        { panic(gaveUp{}) }
func (f *failures) Errorf(text string, args ...any) { f.text += fmt.Sprintf(text, args...) + "\n" }

// goldenFailures is what checkGolden finds wrong with a scenario.
func goldenFailures(t *testing.T, name, text string) string {
	f := &failures{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(gaveUp{}) {
				panic(r)
			}
		}()
		checkGolden(f, name, text)
	}()
	return f.text
}

// A golden file fails that shows something else, is in another form or cannot be run to its end.
func TestGoldenRunner(t *testing.T) {
	const good = "# A topic is made.\n\ntopic orders\n----\norders: 1 partition\n"
	require.Empty(t, goldenFailures(t, "topics/made.txt", good))
	for _, c := range []struct{ what, name, text, failure string }{
		{"something else is shown", "topics/made.txt", strings.Replace(good, "1 partition", "2 partitions", 1), "- orders: 2 partitions"},
		{"a line too many is expected", "topics/made.txt", good + "orders: 1 partition\n", "- orders: 1 partition"},
		{"a line too few is expected", "topics/made.txt", good + "\ntopic orders\n----\n", "+ orders: TOPIC_ALREADY_EXISTS"},
		{"nothing is expected", "topics/made.txt", "# A topic is made.\n\ntopic orders\n", "+ orders: 1 partition"},
		{"no comment", "topics/made.txt", strings.TrimPrefix(good, "# A topic is made.\n\n"), "the first line is a comment"},
		{"another form", "topics/made.txt", strings.TrimSuffix(good, "\n"), "in another form"},
		{"no such command", "topics/made.txt", "# A topic is made.\n\ntopik orders\n----\n", "topik"},
		{"timing is not stated", "wire/made.txt", good, "begins with cluster timing=kafka"},
		{"it cannot go on", "topics/made.txt", good + "\nwait f\n----\n", "nothing runs under the name f"},
	} {
		t.Run(c.what, func(t *testing.T) {
			require.Contains(t, goldenFailures(t, c.name, c.text), c.failure)
		})
	}
}
