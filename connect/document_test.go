package connect

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// notOnThePage are properties that the worker takes and does nothing with: Kafka Connect's files have them.
var notOnThePage = []string{"header.converter", "predicates", "config.action.reload", "tasks.max.enforce"}

// The page has every property, metric and test that there is, and no other.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/kip-1302.md")
	require.NoError(t, err)
	page := string(text)
	for _, key := range append(slices.Clone(connectorKeys), workerKey, policyKey, shutdownKey, flushKey, bootstrapKey, urlKey, timeoutKey, batchKey, fileKey, kafkaTopicKey, kafkaBootstrapKey) {
		if !slices.Contains(notOnThePage, key) {
			assert.Contains(t, page, "`"+key+"`")
		}
	}
	for name := range transforms {
		assert.Contains(t, page, "`"+name+"`")
	}

	section := between(t, page, "## Metrics", "Acknowledgements count")
	var metrics []string
	for row := range strings.Lines(section) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			metrics = append(metrics, m[1]+" "+strings.TrimSpace(cells[2]))
		}
	}
	var want []string
	for _, a := range attributes {
		want = append(want, a.name+" "+map[string]string{"": "both", shareProtocol: "share", consumerProtocol: "ordinary"}[a.group])
	}
	assert.Equal(t, want, metrics)

	functions, named := testsHere(t), map[string]bool{}
	for _, m := range quoted.FindAllStringSubmatch(between(t, page, "## Tests", "## Speed"), -1) {
		named[m[1]] = true
		if strings.HasPrefix(m[1], "Test") || strings.HasPrefix(m[1], "Benchmark") {
			assert.Contains(t, functions, m[1])
		}
	}
	all := map[string]bool{}
	for _, c := range cases(t) {
		assert.False(t, all[c.Name], "%s is there twice", c.Name)
		all[c.Name] = true
		if c.KIP != "" {
			assert.True(t, named[c.Name], "case %s shows something of the KIP's plan", c.Name)
		}
	}
	for _, row := range regexp.MustCompile("case `([^`]+)`").FindAllStringSubmatch(page, -1) {
		assert.Contains(t, slices.Collect(maps.Keys(all)), row[1])
	}
}

var quoted = regexp.MustCompile("`([^`]+)`")

func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, text, ok := strings.Cut(text, from)
	require.True(t, ok, from)
	text, _, ok = strings.Cut(text, to)
	require.True(t, ok, to)
	return text
}

// testsHere are the names of the package's tests and benchmarks.
func testsHere(t *testing.T) (names []string) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range source.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
