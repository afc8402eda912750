package scenario

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// casesOfKIP1289 is how many cases there are.
const casesOfKIP1289 = 58

var testName = regexp.MustCompile("`([a-z0-9]+)\\.(Test[A-Za-z0-9]+)`")

// Every case is listed once, with scenarios and tests that are there or why there is none, and every scenario of the folder is one's.
func TestCasesOfKIP1289(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(scenarios, "KIP-1289.md"))
	require.NoError(t, err)
	next := 1
	named := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| case |") {
			continue
		}
		require.Len(t, cells, 3, line)
		require.Equal(t, strconv.Itoa(next), strings.TrimSpace(cells[0]))
		next++
		files, tests := scenarioName.FindAllStringSubmatch(cells[2], -1), testName.FindAllStringSubmatch(cells[2], -1)
		assert.True(t, len(files)+len(tests) > 0 || noScenario.MatchString(strings.TrimSpace(cells[2])), "%s names nothing and no reason", line)
		for _, f := range files {
			assert.FileExists(t, filepath.Join(scenarios, "kip1289", f[1]))
			named[f[1]] = true
		}
		for _, f := range tests {
			assert.True(t, hasTest(t, f[1], f[2]), "%s has no %s", f[1], f[2])
		}
	}
	assert.Equal(t, casesOfKIP1289+1, next)
	files, err := filepath.Glob(filepath.Join(scenarios, "kip1289", "*.txt"))
	require.NoError(t, err)
	for _, f := range files {
		assert.True(t, named[filepath.Base(f)], "%s shows no case", f)
	}
}

// hasTest tells whether a package has a test.
func hasTest(t *testing.T, pkg, name string) bool {
	files, err := filepath.Glob(filepath.Join("..", pkg, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		if strings.Contains(string(text), "func "+name+"(t ") {
			return true
		}
	}
	return false
}

var (
	drawnLine    = regexp.MustCompile(`(?m)^ ?(\d+)  +\S`)
	timelineLine = regexp.MustCompile("(?m)^\\| (\\d+) \\| `([a-z0-9-]+\\.txt)` \\| `(.+)` \\|$")
)

// Each line of the timeline that is drawn is shown by a scenario: it expects the line that is named.
func TestTimelineOfKIP1289(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "kip-1289.md"))
	require.NoError(t, err)
	_, drawing, found := strings.Cut(string(text), "## A transaction on its way\n\n```text\n")
	require.True(t, found)
	drawing, table, found := strings.Cut(drawing, "\n```\n")
	require.True(t, found)
	table, _, found = strings.Cut(table, "\n## ")
	require.True(t, found)
	drawn, shown := drawnLine.FindAllStringSubmatch(drawing, -1), timelineLine.FindAllStringSubmatch(table, -1)
	require.NotEmpty(t, drawn)
	require.Len(t, shown, len(drawn))
	for i, line := range drawn {
		require.Equal(t, strconv.Itoa(i+1), line[1])
		require.Equal(t, line[1], shown[i][1])
		script, err := os.ReadFile(filepath.Join(scenarios, "kip1289", shown[i][2]))
		require.NoError(t, err)
		f, err := Parse(shown[i][2], script)
		require.NoError(t, err)
		var expected []string
		for _, b := range f.blocks {
			for _, l := range b.expected {
				expected = append(expected, strings.TrimSpace(l))
			}
		}
		assert.Contains(t, expected, strings.ReplaceAll(shown[i][3], `\|`, "|"), "line %d of the timeline", i+1)
	}
}
