package scenario

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runText runs a scenario in the process and fails where it shows something else than it says.
func runText(t *testing.T, name, text string) {
	t.Helper()
	f, err := Parse(name, []byte(text))
	require.NoError(t, err)
	r, err := Run(f, NewLocal(), Options{})
	require.NoError(t, err)
	if d := r.Differences(); d != "" {
		t.Errorf("shown is marked +, expected is marked -\n%s", d)
	}
}

// Every command has an example, which shows what it says.
func TestExamples(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		t.Run(name, func(t *testing.T) {
			c := commands[name]
			require.NotEmpty(t, c.summary)
			require.Contains(t, c.usage, name)
			require.Contains(t, c.example, "\n"+name)
			runText(t, name, strings.TrimPrefix(c.example, "\n"))
		})
	}
}
