package report

import (
	"bytes"
	"encoding/json"
	"html/template"
	"io"

	"kshare/conformance"
)

// HTML writes a report as one page that needs nothing else.
func HTML(w io.Writer, r *conformance.Report) error {
	type area struct {
		Name  string
		Rules []*conformance.RuleReport
	}
	page := struct {
		*conformance.Report
		Line     string
		Seconds  float64
		Verdicts []conformance.Verdict
		Areas    []area
	}{Report: r, Line: Summary(r), Seconds: float64(r.Millis) / 1000, Verdicts: r.Names()}
	names, rules := areas(r)
	for _, n := range names {
		page.Areas = append(page.Areas, area{n, rules[n]})
	}
	return htmlPage.Execute(w, page)
}

var htmlPage = template.Must(template.New("report").Funcs(template.FuncMap{
	"line": func(e conformance.Evidence) string { return evidence(&e) },
	"pretty": func(m json.RawMessage) string {
		var b bytes.Buffer
		if json.Indent(&b, m, "", "  ") != nil {
			return string(m)
		}
		return b.String()
	},
}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Judge: {{.Line}}</title>
<style>
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#212121;background:#fff}
h2{margin:1.5em 0 .3em}table{border-collapse:collapse;width:100%}td{vertical-align:top;padding:.25em .6em;border-top:1px solid #ddd}
td:first-child{width:6em}td:nth-child(2){width:13em;font-family:monospace}td:nth-child(3){width:5em}
.fail{color:#b71c1c;font-weight:bold}.warn{color:#8a5200;font-weight:bold}.info{color:#0d47a1}.pass{color:#1b5e20}.untested,.skip,.inconclusive{color:#616161}
pre{background:#f5f5f5;padding:.6em;overflow:auto;font-size:13px}ul{margin:.3em 0;padding-left:1.2em}small{color:#616161}
@media(prefers-color-scheme:dark){body{color:#eee;background:#181818}td{border-color:#444}pre{background:#262626}.fail{color:#ff8a80}.warn{color:#ffcc80}.info{color:#90caf9}.pass{color:#a5d6a7}.untested,.skip,.inconclusive,small{color:#bdbdbd}}
</style></head><body>
<h1>What the clients did on the wire</h1>
<p>{{.Line}}. {{.Frames}} frames in {{printf "%.1f" .Seconds}} s.</p>
<p>{{range .Clients}}<code>{{.ID}}</code> at {{.Host}} {{end}}</p>
{{range .Areas}}<h2>{{.Name}}</h2><table>
{{range .Rules}}<tr id="{{.ID}}"><td class="{{.Verdict}}">{{.Verdict}}</td><td>{{.ID}}</td><td>{{.Level}}</td><td>{{.Says}} <small>{{.Source}}{{if .Needs}}; needs {{.Needs}}{{end}}{{if .Count}}; looked at {{.Count}} times{{end}}{{if .Broken}}, broken {{.Broken}}{{end}}</small>
{{if .Evidence}}<ul>{{range .Evidence}}<li>{{line .}}{{if .Request}}<details><summary>{{.API}} v{{.Version}}</summary><pre>{{pretty .Request}}</pre></details>{{end}}</li>{{end}}</ul>{{end}}</td></tr>
{{end}}</table>
{{end}}</body></html>
`))
