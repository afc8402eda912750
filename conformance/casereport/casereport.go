// Package casereport writes what came of cases: for people, for CI, and for other programs.
package casereport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"kshare/conformance"
	"kshare/conformance/cases"
	"kshare/conformance/report"
)

// Formats are the forms of what came of cases by the ends of the names of their files.
var Formats = map[string]func(io.Writer, []*cases.Report) error{
	".txt":  Console,
	".json": cases.Write,
	".xml":  JUnit,
	".html": HTML,
	".svg":  Badge,
	".md":   Markdown,
}

// For is the form that the end of a file's name asks for.
func For(name string) (func(io.Writer, []*cases.Report) error, error) {
	if f := Formats[filepath.Ext(name)]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("%s: a report ends in .txt, .json, .xml, .html, .svg or .md", name)
}

// Summary is a report in one line.
func Summary(r *cases.Report) string {
	parts := []string{fmt.Sprintf("%s %s: %d cases", r.Client, r.Version, len(r.Results))}
	for _, v := range cases.Verdicts {
		if n := r.Summary[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	return strings.Join(parts, ", ")
}

// families are the results of a report by their families, in order.
func families(r *cases.Report) (names []string, of map[string][]*cases.Result) {
	of = map[string][]*cases.Result{}
	for i := range r.Results {
		x := &r.Results[i]
		f := cases.Family(x.ID)
		if of[f] == nil {
			names = append(names, f)
		}
		of[f] = append(of[f], x)
	}
	return names, of
}

// Console writes reports as trees for a terminal: of each client the families with their counts, and the cases that have something to tell.
func Console(w io.Writer, all []*cases.Report) error {
	b := &strings.Builder{}
	for _, r := range all {
		fmt.Fprintln(b, Summary(r))
		names, of := families(r)
		for _, f := range names {
			counts := map[cases.Verdict]int{}
			for _, x := range of[f] {
				counts[x.Verdict]++
			}
			var parts []string
			for _, v := range cases.Verdicts {
				if counts[v] > 0 {
					parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
				}
			}
			fmt.Fprintf(b, "%s: %s\n", f, strings.Join(parts, ", "))
			for _, x := range of[f] {
				if x.Verdict == cases.Pass || x.Verdict == cases.Skip {
					continue
				}
				fmt.Fprintf(b, "  %s %s (%s): %s\n", strings.ToUpper(string(x.Verdict)), x.ID, x.Level, x.Says)
				for _, line := range told(x) {
					fmt.Fprintf(b, "    %s\n", line)
				}
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// told are the lines that a result has to tell, each once.
func told(x *cases.Result) (all []string) {
	for _, line := range slices.Concat([]string{x.Why}, x.Notes, x.Rules, x.Warned) {
		if line != "" && !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all
}

// JUnit writes reports as CI servers read results of tests: a suite for each client and family, a test for each case.
func JUnit(w io.Writer, all []*cases.Report) error {
	doc := report.Suites{}
	for _, r := range all {
		names, of := families(r)
		for _, f := range names {
			s := report.Suite{Name: r.Client + " " + f}
			for _, x := range of[f] {
				c := report.TestCase{Name: x.ID, Class: "judge." + r.Client + "." + f}
				text := strings.Join(told(x), "\n")
				switch x.Verdict {
				case cases.Fail, cases.HarnessFailed:
					c.Failure = &report.Message{Message: string(x.Verdict) + ": " + x.Says, Text: text + "\n" + x.Stderr}
					s.Failures++
				case cases.Skip, cases.Inconclusive:
					c.Skipped = &report.Message{Message: string(x.Verdict) + ": " + x.Why}
					s.Skipped++
				default:
					c.Out = text
				}
				s.Cases = append(s.Cases, c)
			}
			s.Tests = len(s.Cases)
			doc.Tests += s.Tests
			doc.Failures += s.Failures
			doc.Suites = append(doc.Suites, s)
		}
	}
	return report.WriteSuites(w, doc)
}

// Badge writes reports as an SVG of one line: how many cases are passed of those that were decided.
func Badge(w io.Writer, all []*cases.Report) error {
	passed, failed, warned := 0, 0, 0
	for _, r := range all {
		passed += r.Summary[cases.Pass] + r.Summary[cases.Info]
		failed += r.Summary[cases.Fail] + r.Summary[cases.HarnessFailed]
		warned += r.Summary[cases.Warn]
	}
	return report.WriteBadge(w, "share group cases", passed, warned, failed)
}

// HTML writes reports as one page that needs nothing else: clients beside each other, a line for each case, with its evidence behind a click.
func HTML(w io.Writer, all []*cases.Report) error {
	type row struct {
		ID, Says string
		Level    conformance.Level
		Cells    []*cases.Result
	}
	type family struct {
		Name string
		Rows []row
	}
	page := struct {
		Reports  []*cases.Report
		Families []family
	}{Reports: all}
	for _, c := range cases.All() {
		r := row{ID: c.ID, Says: c.Line(), Level: c.Level}
		ran := false
		for _, of := range all {
			x := of.Result(c.ID)
			ran = ran || x != nil
			r.Cells = append(r.Cells, x)
		}
		if !ran {
			continue
		}
		if f := cases.Family(c.ID); len(page.Families) == 0 || page.Families[len(page.Families)-1].Name != f {
			page.Families = append(page.Families, family{Name: f})
		}
		last := &page.Families[len(page.Families)-1]
		last.Rows = append(last.Rows, r)
	}
	return casesPage.Execute(w, page)
}

// What a page shows of an exchange: the JSON form has more, and the frames of --evidence all of it.
const firstShown, lastShown, mostShown = 3, 9, 220

var casesPage = template.Must(template.New("cases").Funcs(template.FuncMap{
	"summary": Summary,
	"told":    told,
	"tail":    func(s string) string { return s[max(0, len(s)-mostShown*4):] },
	"excerpt": func(all []cases.Line) []cases.Line {
		if len(all) <= firstShown+lastShown {
			return all
		}
		return slices.Concat(all[:firstShown], all[len(all)-lastShown:])
	},
	"compact": func(m json.RawMessage) string {
		var b bytes.Buffer
		if json.Compact(&b, m) != nil {
			return ""
		}
		if text := b.String(); len(text) > mostShown {
			return text[:mostShown] + "..."
		}
		return b.String()
	},
}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Clients and cases</title>
<style>
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:95em;padding:0 1em;color:#212121;background:#fff}
table{border-collapse:collapse;width:100%}td,th{vertical-align:top;padding:.25em .6em;border-top:1px solid #ddd;text-align:left}
td:first-child{width:9em;font-family:monospace}td:nth-child(2){width:4em}td:nth-child(3){width:28em}
.fail,.harness-failed{color:#b71c1c;font-weight:bold}.warn{color:#8a5200;font-weight:bold}.info{color:#0d47a1}.pass{color:#1b5e20}.skip,.inconclusive{color:#616161}
pre{background:#f5f5f5;padding:.6em;overflow:auto;font-size:12px;max-height:30em;max-width:50em;white-space:pre-wrap}summary{cursor:pointer}small{color:#616161}
@media(prefers-color-scheme:dark){body{color:#eee;background:#181818}td,th{border-color:#444}pre{background:#262626}.fail,.harness-failed{color:#ff8a80}.warn{color:#ffcc80}.info{color:#90caf9}.pass{color:#a5d6a7}.skip,.inconclusive,small{color:#bdbdbd}}
</style></head><body>
<h1>Clients and cases</h1>
{{range .Reports}}<p>{{summary .}}</p>{{end}}
{{range .Families}}<h2 id="{{.Name}}">{{.Name}}</h2><table><tr><th>case</th><th>level</th><th></th>{{range $.Reports}}<th>{{.Client}} {{.Version}}</th>{{end}}</tr>
{{range .Rows}}<tr id="{{.ID}}"><td>{{.ID}}</td><td>{{.Level}}</td><td>{{.Says}}</td>{{range .Cells}}<td>{{if .}}{{if or .Exchange .Why .Notes .Rules .Warned}}<details><summary class="{{.Verdict}}">{{.Verdict}}</summary>{{range told .}}<div>{{.}}</div>{{end}}{{if .Exchange}}<pre>{{range excerpt .Exchange}}{{.AtMillis}} ms node {{.Node}} connection {{.Connection}}: {{.API}} v{{.Version}} {{compact .Request}}
{{if .Answer}}   {{.Answered}} ms: {{compact .Answer}}
{{end}}{{end}}</pre>{{end}}{{if .Stderr}}<pre>{{tail .Stderr}}</pre>{{end}}</details>{{else}}<span class="{{.Verdict}}">{{.Verdict}}</span>{{end}}{{end}}</td>{{end}}</tr>
{{end}}</table>
{{end}}</body></html>
`))

// Markdown writes the page of all cases: what each is, and what became of it with each client.
func Markdown(w io.Writer, all []*cases.Report) error {
	b := &strings.Builder{}
	known := cases.All()
	fmt.Fprintf(b, `# The cases of the judge

What [kshare judge run](judge.md#a-client-put-through-cases) puts a client through: %d cases. A verdict is pass, fail (a MUST is broken), warn (a SHOULD is), info, skip (the driver lacks what
it takes), inconclusive (what was to go wrong did not) or harness-failed. What broke it, with the exchange, is in [conformance.html](conformance.html).

This page is made of the cases and of a run: `+"`make judge-full`"+`.

`, len(known))
	for _, r := range all {
		fmt.Fprintf(b, "- %s\n", Summary(r))
	}
	family := ""
	for i := range known {
		c := &known[i]
		if f := cases.Family(c.ID); f != family {
			family = f
			fmt.Fprintf(b, "\n## %s\n\n| case | level | what happens, and what a client does then | source |", family)
			for _, r := range all {
				fmt.Fprintf(b, " %s %s |", r.Client, r.Version)
			}
			fmt.Fprintf(b, "\n|---|---|---|---|%s\n", strings.Repeat("---|", len(all)))
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |", c.ID, c.Level, c.Line(), c.Source)
		for _, r := range all {
			verdict := ""
			if x := r.Result(c.ID); x != nil {
				verdict = string(x.Verdict)
			}
			fmt.Fprintf(b, " %s |", verdict)
		}
		b.WriteByte('\n')
	}
	b.WriteString("\n## Not here\n\n| cases | why |\n|---|---|\n")
	for _, a := range cases.Absent {
		fmt.Fprintf(b, "| %s | %s |\n", a.IDs, a.Why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
