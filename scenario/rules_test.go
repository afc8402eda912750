package scenario

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every rule of the table has scenarios that are there, or says why it has none.
func TestRules(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(scenarios, "RULES.md"))
	require.NoError(t, err)
	rules, err := ParseRules(string(text))
	require.NoError(t, err)
	require.NotEmpty(t, rules)
	for _, r := range rules {
		for _, file := range r.Scenarios {
			assert.FileExists(t, filepath.Join(scenarios, filepath.FromSlash(file)), "%s: %s", r.Section, r.Rule)
		}
	}
}

func TestRulesThatAreNone(t *testing.T) {
	for line, want := range map[string]string{
		"| a | b | `c` |":                         "3 columns",
		"| a | b |  |  |":                         "neither a scenario nor a reason",
		"| a |  | `c` |  |":                       "section or rule is empty",
		"| a | b | c |  |":                        "c is no file in backquotes",
		"| a | b | `c` |  |\n| a | b |  | why |":  "line 2: the rule stands there twice",
		"| a | b | `c`, `d |  |":                  "`d is no file in backquotes",
		"| section | rule | scenarios | remark |": "",
	} {
		_, err := ParseRules(line)
		if want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want, line)
		}
	}
}

// A rule has the verdict of its scenarios: one that differs counts most, then one that agrees.
func TestVerdicts(t *testing.T) {
	of := map[string]string{"wire/a.txt": agrees, "wire/b.txt": "differs: why"}
	for want, files := range map[string][]string{
		agrees:         {"time/x.txt", "wire/a.txt"},
		"differs: why": {"wire/a.txt", "wire/b.txt"},
		notObservable:  {"time/x.txt"},
		"":             nil,
	} {
		r := Rule{Scenarios: files}
		assert.Equal(t, want, r.verdict(of))
	}
}
