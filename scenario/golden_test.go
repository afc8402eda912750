package scenario

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
			runText(t, name, string(text))
		})
	}
}
