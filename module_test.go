package kshare_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is what a reader of the README writes in a module of its own.
const program = `package example

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"kshare"
)

func TestOrders(t *testing.T) {
	cluster, err := kshare.Start(kshare.WithTopic("orders", 3), kshare.WithInMemoryNetwork())
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.Dialer(cluster.Dial))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
`

// A module outside of this one imports kshare by the lines that the README gives: a replacement in its go.mod, or a workspace. What a module asks for
// beyond what this one is built from comes from where modules always come from: a new machine's cache does not have it.
func TestImportFromAnotherModule(t *testing.T) {
	root, err := os.Getwd()
	require.NoError(t, err)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for name, lines := range map[string][]string{
		"Replace":   {"go mod edit -require=kshare@v0.0.0 -replace=kshare=../kshare"},
		"Workspace": {"go work init .", "go work use ../kshare"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "example_test.go"), []byte(program), 0o600))
			goInModule(t, dir, "mod", "init", "example")
			for _, line := range lines {
				if line != "go work init ." {
					require.Contains(t, string(readme), line)
				}
				goInModule(t, dir, strings.Fields(strings.ReplaceAll(line, "../kshare", root))[1:]...)
			}
			if name == "Replace" {
				goInModule(t, dir, "mod", "tidy", "-e") // resolves the imports and writes go.sum
			}
			goInModule(t, dir, "test", "./...")
		})
	}
}

// goInModule runs the go command in a directory.
func goInModule(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOSUMDB=off", "GOFLAGS=-mod=mod", "GOWORK=")
	if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
		cmd.Env = append(cmd.Env, "GOFLAGS=")
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "go %s: %s", strings.Join(args, " "), out)
}
