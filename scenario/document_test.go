package scenario

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the commands into docs/scenarios.md")

// The page describes every command as the language does, and the scenario at its top shows what it says.
func TestDocument(t *testing.T) {
	const page, marker = "../docs/scenarios.md", "<!-- commands -->\n"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, after, found := strings.Cut(string(text), marker)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+marker+Document()), 0o644))
		return
	}
	assert.Equal(t, Document(), after, "run go test ./scenario -update")
	first := regexp.MustCompile("(?s)```\n(.*?)```").FindStringSubmatch(before)
	require.NotNil(t, first)
	runText(t, page, first[1])
}
