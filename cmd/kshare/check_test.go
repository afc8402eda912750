package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkCommandLine runs kshare with arguments and returns what it shows.
func checkCommandLine(args ...string) (string, error) {
	var out strings.Builder
	c := command()
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	err := c.Execute()
	return out.String(), err
}

func TestCheckSaysHowMuchHolds(t *testing.T) {
	out, err := checkCommandLine("check", "--records", "1", "--members", "1", "--faults", "expire,slow", "--most-faults", "0")
	require.NoError(t, err)
	require.Contains(t, out, "depth 1: ")
	require.Contains(t, out, "\nholds: one lock per acquired record; ")
	require.Regexp(t, `the whole state space of 1 member, 1 producer, 1 record, faults: expire, slow; [0-9,]+ states, [0-9,]+ steps, \d+ a second, `, out)

	out, err = checkCommandLine("check", "--quiet", "--depth", "2", "--without", "slow,crash")
	require.NoError(t, err)
	require.NotContains(t, out, "depth 1: ")
	require.NotContains(t, out, "slow")
	require.Contains(t, out, "all traces of up to 2 steps of ")
}

// A trace that is written shows in a broker what it says.
func TestCheckWritesATraceThatRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.txt")
	out, err := checkCommandLine("check", "--quiet", "--switch", "member.validation=off", "--trace", file)
	require.ErrorContains(t, err, "this does not hold: members that were removed stage nothing")
	require.True(t, strings.HasPrefix(out, "broken: members that were removed stage nothing\n"), out)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "leave workers m1\n")
	out, err = checkCommandLine("run", file)
	require.NoError(t, err, out)
	require.Equal(t, "1 scenario passes\n", out)

	shown, err := checkCommandLine("check", "--quiet", "--switch", "member.validation=off")
	require.Error(t, err)
	require.Contains(t, shown, string(text), "without --trace it is shown")
}

func TestCheckRefusesWhatItDoesNotKnow(t *testing.T) {
	for line, text := range map[string]string{
		"check --faults slowly":             `there is no fault "slowly": did you mean slow?`,
		"check --without slowly":            `there is no fault "slowly": did you mean slow?`,
		"check --switch late.stage=off":     `KIP-1289 has no switch "late.stage"`,
		"check --records 9":                 "records 9: from 1 to 6",
		"check everything":                  "check takes no arguments",
		"check --table /no/such/repository": "docs/kip-1289.md",
	} {
		_, err := checkCommandLine(strings.Fields(line)...)
		require.ErrorContains(t, err, text, line)
	}
}
