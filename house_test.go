package kshare_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rooms lists the packages of the house from the roof to the ground. A package may import those of later rows only.
var rooms = [][]string{
	{"cmd/kshare", "interop", "differential"},
	{"conformance/casereport"},
	{"conformance/cases"},
	{"control", "explore", "check", "conformance/proxy", "connect"},
	{"differential/probe"},
	{"replay", "differential/realkafka", "scenario"},
	{"."},
	{"conformance/live"},
	{"conformance/recording", "conformance/report"},
	{"broker"},
	{"sharecoordinator", "fault", "requestlog", "conformance", "secrets"},
	{"coordinator", "sharepartition", "sharesession", "txn", "logvalidator", "logcleaner", "deadletter"},
	{"coordinator/assignor"},
	{"storage/directory", "storage/faulty"},
	{"storage"},
	{"storage/internal/runs"},
	{"config", "internal/jsonhttp"},
	{"kip1289", "shareclient"},
	{"protocol/describe", "protocol/fields"},
	{"protocol"},
	{"protocol/errorcode", "acl", "sasl", "certificate", "clock", "release", "internal/memorynet", "internal/handover", "internal/spelling", "internal/javamap", "conformance/driver"},
}

// pure packages hold no goroutine, clock, socket, file or lock: the same input gives the same output.
var pure = []string{"acl", "sharepartition", "sharesession", "coordinator", "coordinator/assignor", "sharecoordinator", "txn", "logvalidator", "logcleaner", "fault", "protocol/describe", "deadletter", "secrets", "release", "conformance", "conformance/report", "conformance/recording"}

// impureImports are packages that a pure one has no use for.
var impureImports = []string{"net", "os", "sync", "os/exec", "net/http", "log/slog", "math/rand", "math/rand/v2", "crypto/rand"}

// impureCalls are functions of package time that read a clock or start a timer.
var impureCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// eachSource calls f for each Go file of the module that is no test.
func eachSource(t *testing.T, f func(pkg, file string, source *ast.File)) {
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || isModule(name)) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		f(path.Clean(filepath.ToSlash(filepath.Dir(name))), name, source)
		return nil
	})
	require.NoError(t, err)
}

// isModule tells whether a directory is a module of its own.
func isModule(dir string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, "go.mod"))
	return dir != "." && len(found) > 0
}

func floorOf(pkg string) int {
	return slices.IndexFunc(rooms, func(row []string) bool { return slices.Contains(row, pkg) })
}

func TestImportsPointOneWay(t *testing.T) {
	eachSource(t, func(pkg, file string, source *ast.File) {
		floor := floorOf(pkg)
		if floor < 0 {
			if strings.Contains(pkg, "testdata") || source.Name.Name == "main" || strings.HasPrefix(pkg, "storage/storagetest") {
				return // programs and helpers of tests import what they like
			}
			t.Errorf("%s: package %s stands on no floor: add it to rooms", file, pkg)
			return
		}
		for _, spec := range source.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if imported != "kshare" && !strings.HasPrefix(imported, "kshare/") {
				continue
			}
			below := path.Clean(strings.TrimPrefix(strings.TrimPrefix(imported, "kshare"), "/"))
			if f := floorOf(below); f <= floor {
				t.Errorf("%s: package %s (floor %d) imports %s (floor %d); imports point down", file, pkg, floor, below, f)
			}
		}
	})
}

func TestPurePackagesArePure(t *testing.T) {
	eachSource(t, func(pkg, file string, source *ast.File) {
		if !slices.Contains(pure, pkg) {
			return
		}
		for _, spec := range source.Imports {
			if imported, _ := strconv.Unquote(spec.Path.Value); slices.Contains(impureImports, imported) {
				t.Errorf("%s: pure package %s imports %s", file, pkg, imported)
			}
		}
		ast.Inspect(source, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: pure package %s starts a goroutine", file, pkg)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(impureCalls, n.Sel.Name) {
					t.Errorf("%s: pure package %s calls time.%s", file, pkg, n.Sel.Name)
				}
			}
			return true
		})
	})
}

// usesBubbles tells whether a test of the directory runs in synctest bubbles.
func usesBubbles(t *testing.T, dir string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Contains(string(text), `"testing/synctest"`)
	})
}

// Tests take their time from a clock: none sleeps, except in a synctest bubble, where sleeping takes no time.
func TestNoTestSleeps(t *testing.T) {
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if usesBubbles(t, filepath.Dir(name)) {
			return nil
		}
		ast.Inspect(source, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s sleeps", name)
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
}

// Messages of a key are made by package protocol: kmsg lacks versions that Kafka has.
func TestMessagesAreMadeInOnePlace(t *testing.T) {
	eachSource(t, func(pkg, file string, source *ast.File) {
		ast.Inspect(source, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok || pkg == "protocol" {
				return true
			}
			if of, ok := call.X.(*ast.Ident); ok && of.Name == "kmsg" && (call.Sel.Name == "RequestForKey" || call.Sel.Name == "ResponseForKey") {
				t.Errorf("%s calls kmsg.%s: protocol.%[2]s knows more versions", file, call.Sel.Name)
			}
			return true
		})
	})
}
