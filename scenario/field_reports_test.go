package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fieldReports are the numbers of the reports by the letter of their chapter.
var fieldReports = map[string][]int{
	"A": {1, 2, 4, 5, 7, 8, 10, 11, 12, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26},
	"B": {1, 2, 4, 5, 7, 8, 10, 11},
	"C": {1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17},
	"D": {1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20},
	"E": {1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20},
	"F": {1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26},
	"G": {1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22},
}

var (
	reportLink   = regexp.MustCompile(`\[[^\]]+\]\(https://[^)\s]+\)`)
	scenarioName = regexp.MustCompile("`([^`]+\\.txt)`")
	noScenario   = regexp.MustCompile(`^none( yet)?: \S`)
)

// Every report is listed once, with where it is public and the scenario that shows what is right or why there is none.
func TestFieldReports(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(scenarios, "FIELD-REPORTS.md"))
	require.NoError(t, err)
	var want, have, named []string
	for letter, numbers := range fieldReports {
		for _, n := range numbers {
			want = append(want, fmt.Sprintf("%s%d", letter, n))
		}
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.TrimSpace(cells[0]) == "id" || strings.Contains(cells[0], "---") {
			continue
		}
		require.Len(t, cells, 4, line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		id, what, report, shown := cells[0], cells[1], cells[2], cells[3]
		have = append(have, id)
		assert.NotEmpty(t, what, id)
		assert.Regexp(t, reportLink, report, "%s: where it is public", id)
		files := scenarioName.FindAllStringSubmatch(shown, -1)
		assert.True(t, len(files) > 0 || noScenario.MatchString(shown), "%s: %q names no scenario and no reason", id, shown)
		for _, f := range files {
			assert.FileExists(t, filepath.Join(scenarios, filepath.FromSlash(f[1])), id)
			named = append(named, f[1])
		}
	}
	assert.ElementsMatch(t, want, have)
	for _, f := range scenarioFiles(t, filepath.Join(scenarios, "field-reports")) {
		name := "field-reports/" + filepath.Base(f)
		assert.True(t, slices.Contains(named, name), "%s belongs to no report", name)
	}
}
