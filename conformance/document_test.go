package conformance_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"kshare/conformance"
)

var update = flag.Bool("update", false, "write docs/judge-rules.md")

const documentFile = "../docs/judge-rules.md"

// document is the page that lists the rules.
func document() string {
	b := &strings.Builder{}
	judged := 0
	for i := range conformance.Rules {
		if conformance.Rules[i].Judged() {
			judged++
		}
	}
	fmt.Fprintf(b, `# The rules of the judge

What [the judge](judge.md) holds clients to: %d rules, of which %d are decided from frames alone. The others need a program around the client that reports what the
application saw, and are skipped. Those that need several nodes are skipped where the cluster has one, those of KIP-1289 where it is not on.

This page is made of the rules: `+"`go test ./conformance -run TestDocument -update`"+`.
`, len(conformance.Rules), judged)
	area := ""
	for i := range conformance.Rules {
		r := &conformance.Rules[i]
		if a := strings.Join(strings.Split(r.ID, ".")[:max(1, len(strings.Split(r.ID, "."))-2)], "."); a != area {
			area = a
			fmt.Fprintf(b, "\n## %s\n\n| rule | level | a client keeps it so | source | decided from |\n|---|---|---|---|---|\n", area)
		}
		from := "frames"
		switch r.Needs {
		case conformance.NeedsDriver:
			from = "a driver's reports: skipped"
		case conformance.NeedsNodes:
			from = "frames, of several nodes"
		case conformance.NeedsKTX:
			from = "frames, with KIP-1289"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", r.ID, r.Level, r.Says, r.Source, from)
	}
	return b.String()
}

func TestDocument(t *testing.T) {
	want := document()
	if *update {
		require.NoError(t, os.WriteFile(documentFile, []byte(want), 0o644))
	}
	have, err := os.ReadFile(documentFile)
	require.NoError(t, err)
	require.Equal(t, want, string(have), "run go test ./conformance -run TestDocument -update")
}

// Ids are stable and complete: a rule has an id of its own, a sentence and a source.
func TestRulesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for i := range conformance.Rules {
		r := &conformance.Rules[i]
		require.Regexp(t, regexp.MustCompile(`^[a-z]+(\.[a-z]+)+\.[1-9][0-9]*$`), r.ID)
		require.False(t, seen[r.ID], r.ID)
		seen[r.ID] = true
		require.Contains(t, []conformance.Level{conformance.Must, conformance.Should, conformance.Info}, r.Level, r.ID)
		require.NotEmpty(t, r.Source, r.ID)
		require.Regexp(t, `^[A-Z].*\.$`, r.Says, r.ID)
	}
	require.Len(t, seen, 146)
}
