package check

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"kshare/kip1289"
)

// tableRow is a line of the table of docs/kip-1289.md: what is explored with a switch.
type tableRow struct {
	unsafe string // name=value, "" for the defaults
	model  func(*Model)
}

// tableFaults are those that the unsafe sides of switches need; the defaults are explored with every fault.
var tableFaults = []string{Expire, Slow, Markers, Move, Coordinator, Leave, Late}

// tableDepth is how long the traces of unsafe sides may be.
const tableDepth = 7

func tableRows() []tableRow {
	draft := func(m *Model) { m.Faults, m.Depth = tableFaults, tableDepth }
	old := func(m *Model) { m.Faults, m.Depth, m.EndTxn = tableFaults, tableDepth, 4 }
	return []tableRow{
		{"", func(*Model) {}},
		{kip1289.LateStageFence + "=off", draft},
		{kip1289.StageRevertRearms + "=off", draft},
		{kip1289.LeaderRefresh + "=reload", draft},
		{kip1289.PersistedMerge + "=higher-state", draft},
		{kip1289.MemberValidation + "=off", draft},
		{kip1289.DeliveryLimitOnAbort + "=ignore", draft},
		{kip1289.StageBelowStart + "=pass", draft},
		{"", func(m *Model) { m.EndTxn = 4 }},
		{kip1289.EpochMatch + "=exact", old},
		{kip1289.CoordinatorEpochCheck + "=off", old},
	}
}

// Where the table and its traces are in the repository.
const (
	tableDocument = "docs/kip-1289.md"
	tableTraces   = "testdata/scenarios/check"
	tableBegins   = "<!-- check -->"
	tableEnds     = "<!-- /check -->"
)

// WriteTable explores the defaults and each unsafe switch, and writes the table of docs/kip-1289.md and a scenario for each property that does not hold, in a copy of the repository.
func WriteTable(ctx context.Context, repository string, l Limits) error {
	document := filepath.Join(repository, tableDocument)
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return fmt.Errorf("%s: there is no place for the table: it stands between %s and %s", document, tableBegins, tableEnds)
	}
	traces := map[string]string{}
	table, err := makeTable(ctx, l, traces)
	if err != nil {
		return err
	}
	dir := filepath.Join(repository, tableTraces)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, trace := range traces {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(trace), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(document, []byte(before+tableBegins+"\n"+table+tableEnds+after), 0o644)
}

// makeTable is the table, and puts the traces that it has links to into traces, by the names of their files.
func makeTable(ctx context.Context, l Limits, traces map[string]string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s | explored |\n|---|%s---|\n", strings.Join(Properties, " | "), strings.Repeat("---|", len(Properties)))
	for _, row := range tableRows() {
		m := Default()
		row.model(&m)
		name := "defaults"
		if row.unsafe != "" {
			name = "`" + row.unsafe + "`"
			var err error
			if m.Switches, err = kip1289.Parse(row.unsafe); err != nil {
				return "", err
			}
		}
		if m.EndTxn < 5 {
			name += fmt.Sprintf(", EndTxn %d", m.EndTxn)
		}
		l.All = true
		r, err := Explore(ctx, &m, l)
		if err != nil {
			return "", err
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %s |", name)
		for _, property := range Properties {
			cell := "holds"
			for i := range r.Broken {
				if x := &r.Broken[i]; x.Property == property {
					file := traceFile(row.unsafe, m.EndTxn, property)
					if traces[file], err = x.Scenario(file); err != nil {
						return "", err
					}
					cell = fmt.Sprintf("[breaks](../%s/%s) after %d", tableTraces, file, x.Trace.Len())
				}
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		fmt.Fprintf(&b, " %s states: %s |\n", grouped(r.States), r.bound())
	}
	return b.String(), nil
}

// traceFile names the file of a trace.
func traceFile(unsafe string, endTxn int, property string) string {
	name := "defaults"
	if unsafe != "" {
		name = strings.NewReplacer(".", "-", "=", "-").Replace(unsafe)
	}
	if endTxn < 5 {
		name += fmt.Sprintf("-end-txn-%d", endTxn)
	}
	return name + "-against-" + strings.ReplaceAll(strings.NewReplacer(",", "").Replace(property), " ", "-") + ".txt"
}
