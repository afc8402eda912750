package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every rule of the table has scenarios that are there, or says why it has none.
func TestRules(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(scenarios, "RULES.md"))
	require.NoError(t, err)
	rules := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| section |") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		require.Len(t, cells, 4, line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		section, rule, shown, remark := cells[0], cells[1], cells[2], cells[3]
		assert.NotEmpty(t, section, line)
		assert.NotEmpty(t, rule, line)
		assert.False(t, rules[section+"|"+rule], "%s: %s stands there twice", section, rule)
		rules[section+"|"+rule] = true
		if shown == "" {
			assert.NotEmpty(t, remark, "%s: %s has neither a scenario nor a reason", section, rule)
			continue
		}
		for name := range strings.SplitSeq(shown, ", ") {
			file, ok := strings.CutPrefix(name, "`")
			require.True(t, ok, "%s: %s: %s is no file in backquotes", section, rule, name)
			assert.FileExists(t, filepath.Join(scenarios, filepath.FromSlash(strings.TrimSuffix(file, "`"))), "%s: %s", section, rule)
		}
	}
	assert.NotEmpty(t, rules)
}
