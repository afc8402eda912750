package casereport

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/conformance"
	"kshare/conformance/cases"
	"kshare/conformance/report"
)

func ofCases() []*cases.Report {
	r := &cases.Report{Client: "franz-go", Version: "1.22.3", Results: []cases.Result{
		{ID: "neg.01", Level: conformance.Must, Verdict: cases.Pass, Says: "it consumes"},
		{ID: "ses.02", Level: conformance.Must, Verdict: cases.Fail, Says: "a new session", Why: "there was none", Rules: []string{"share.session.epoch.2: <script>"}, Exchange: []cases.Line{
			{AtMillis: 5, Node: 1, Connection: 2, API: "ShareFetch", Version: 2, Request: json.RawMessage(`{"A": "<script>alert(1)</script>"}`), Answer: json.RawMessage(`{"B": 1}`), Answered: 6},
		}},
		{ID: "rnw.01", Level: conformance.Must, Verdict: cases.Skip, Says: "renews", Why: "the driver lacks rnw"},
		{ID: "e76.25.ever", Level: conformance.Must, Verdict: cases.Warn, Says: "floods nobody", Why: "5000 times a second"},
		{ID: "cls.01", Level: conformance.Must, Verdict: cases.HarnessFailed, Says: "closes", Why: "the driver does not read", Stderr: "panic"},
	}}
	r.Sum()
	return []*cases.Report{r}
}

func formed(t *testing.T, name string) string {
	f, err := For(name)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, f(&b, ofCases()))
	return b.String()
}

func TestCasesConsole(t *testing.T) {
	assert.Equal(t, `franz-go 1.22.3: 5 cases, 1 harness-failed, 1 fail, 1 warn, 1 skip, 1 pass
neg: 1 pass
ses: 1 fail
  FAIL ses.02 (MUST): a new session
    there was none
    share.session.epoch.2: <script>
rnw: 1 skip
e76: 1 warn
  WARN e76.25.ever (MUST): floods nobody
    5000 times a second
cls: 1 harness-failed
  HARNESS-FAILED cls.01 (MUST): closes
    the driver does not read
`, formed(t, "a.txt"))
}

func TestCasesAreReadBack(t *testing.T) {
	all, err := cases.Read(strings.NewReader(formed(t, "a.json")))
	require.NoError(t, err)
	assert.Equal(t, ofCases()[0].Summary, all[0].Summary)
	assert.Equal(t, "there was none", all[0].Result("ses.02").Why)
	_, err = cases.Read(strings.NewReader(`{"format":"another/1"}`))
	require.ErrorContains(t, err, `it has the format "another/1"`)
}

func TestCasesJUnit(t *testing.T) {
	var doc report.Suites
	require.NoError(t, xml.Unmarshal([]byte(formed(t, "a.xml")), &doc))
	assert.Equal(t, []int{5, 2}, []int{doc.Tests, doc.Failures})
}

// What a client has put on the wire is shown as text.
func TestCasesHTML(t *testing.T) {
	page := formed(t, "a.html")
	assert.NotContains(t, page, "<script>")
	assert.Contains(t, page, "&lt;script&gt;alert(1)&lt;/script&gt;")
	assert.Contains(t, page, `id="ses.02"`)
	assert.NotContains(t, page, `id="ses.03"`, "only what was run is there")
}

func TestCasesBadge(t *testing.T) {
	assert.Contains(t, formed(t, "a.svg"), "1 of 4")
}

func TestCasesMarkdown(t *testing.T) {
	page := formed(t, "a.md")
	assert.Regexp(t, `\| ses\.02 \| MUST \| .* \| fail \|\n`, page)
	assert.Regexp(t, `\| ses\.03 \| MUST \| .* \|  \|\n`, page)
	assert.Contains(t, page, "## Not here")
}

func TestOtherCaseReportsAreRefused(t *testing.T) {
	_, err := For("a.pdf")
	require.ErrorContains(t, err, "a.pdf: a report ends in")
}

// Of the results of a client those of the last run that has them count.
func TestCaseReportsAreMerged(t *testing.T) {
	first, second := ofCases(), ofCases()
	second[0].Results = []cases.Result{{ID: "ses.02", Verdict: cases.Pass}}
	other := ofCases()
	other[0].Version = "1.22.4"
	all := cases.Merge(first, second, other)
	require.Len(t, all, 2)
	assert.Len(t, all[0].Results, 5)
	assert.Equal(t, cases.Pass, all[0].Result("ses.02").Verdict)
	assert.Equal(t, 2, all[0].Summary[cases.Pass])
	assert.Equal(t, cases.Fail, first[0].Result("ses.02").Verdict, "what is merged stays as it was")
}
