package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"kshare/conformance"
	"kshare/conformance/report"
)

// sample is a report with one rule of each verdict.
func sample() *conformance.Report {
	evidence := []conformance.Evidence{
		{Frames: []int{12, 9}, AtMillis: 1500, Client: "<app>", Connection: 3, Node: 1, Says: "the session epoch is 7, the session is at 5", API: "ShareFetch", Version: 2, Request: json.RawMessage(`{"ShareSessionEpoch":7}`)},
		{Says: "two"}, {Says: "three"}, {Says: "four"},
	}
	r := &conformance.Report{Format: conformance.Format, Frames: 20, Millis: 2000, Clients: []conformance.Client{{Host: "10.0.0.1", ID: "<app>"}}, Rules: []conformance.RuleReport{
		{ID: "wire.api.1", Level: conformance.Must, Verdict: conformance.Pass, Count: 3, Says: "Learns."},
		{ID: "share.session.epoch.2", Level: conformance.Must, Verdict: conformance.Fail, Count: 9, Broken: 4, Says: "Moves on by one.", Source: "KIP-932", Evidence: evidence},
		{ID: "share.session.incr.1", Level: conformance.Should, Verdict: conformance.Warn, Count: 2, Broken: 1, Says: "Lists what it adds.", Evidence: evidence[:1]},
		{ID: "share.fetch.values.1", Level: conformance.Info, Verdict: conformance.Noted, Count: 2, Says: "What it asks for.", Evidence: []conformance.Evidence{{Says: "MaxRecords 500"}}},
		{ID: "share.app.once.1", Level: conformance.Must, Verdict: conformance.Skip, Needs: "driver", Says: "Once."},
		{ID: "txn.init.1", Level: conformance.Must, Verdict: conformance.Untested, Says: "First."},
		{ID: "group.leave.1", Level: conformance.Must, Verdict: conformance.Inconclusive, Says: "Leaves."},
	}}
	r.Sum()
	return r
}

func written(t *testing.T, name string, r *conformance.Report) string {
	var b bytes.Buffer
	require.NoError(t, report.Write(&b, name, r))
	return b.String()
}

func TestConsole(t *testing.T) {
	require.Equal(t, `judged 20 frames of 1 clients in 2.0 s
wire: 1 pass
share.session: 1 fail, 1 warn
  FAIL share.session.epoch.2 (MUST, broken 4 times of 9): Moves on by one.
    at 1.500 s: the session epoch is 7, the session is at 5 [client "<app>", connection 3 to node 1] frames 12, 9
    at 0.000 s: two
    at 0.000 s: three
    and 1 more
  WARN share.session.incr.1 (SHOULD, broken 1 times of 2): Lists what it adds.
    at 1.500 s: the session epoch is 7, the session is at 5 [client "<app>", connection 3 to node 1] frames 12, 9
share.fetch: 1 info
  INFO share.fetch.values.1 (INFO): What it asks for.
    at 0.000 s: MaxRecords 500
share.app: 1 skip
txn: 1 untested
group: 1 inconclusive
1 fail, 1 warn, 1 info, 1 pass, 1 inconclusive, 1 untested, 1 skip
`, written(t, "report.txt", sample()))
}

func TestJSONIsReadBack(t *testing.T) {
	r := sample()
	back, err := report.Read(strings.NewReader(written(t, "report.json", r)))
	require.NoError(t, err)
	require.Equal(t, written(t, "report.json", r), written(t, "report.json", back))
	_, err = report.Read(strings.NewReader(`{"format":"other"}`))
	require.ErrorContains(t, err, `the format is "other"`)
}

func TestJUnit(t *testing.T) {
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Text    string `xml:",chardata"`
				} `xml:"failure"`
				Skipped *struct {
					Message string `xml:"message,attr"`
				} `xml:"skipped"`
				Out string `xml:"system-out"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal([]byte(written(t, "report.xml", sample())), &suites))
	require.Equal(t, 7, suites.Tests)
	require.Equal(t, 1, suites.Failures)
	session := suites.Suites[1]
	require.Equal(t, "share.session", session.Name)
	require.Equal(t, "Moves on by one.", session.Cases[0].Failure.Message)
	require.Contains(t, session.Cases[0].Failure.Text, `client "<app>"`)
	require.Nil(t, session.Cases[1].Failure)
	require.Contains(t, session.Cases[1].Out, "Lists what it adds.")
	require.Equal(t, "needs driver", suites.Suites[3].Cases[0].Skipped.Message)
	require.Equal(t, "untested", suites.Suites[4].Cases[0].Skipped.Message)
}

func TestHTMLIsOnePage(t *testing.T) {
	page := written(t, "report.html", sample())
	require.Contains(t, page, `<tr id="share.session.epoch.2"><td class="fail">fail</td>`)
	require.Contains(t, page, "<code>&lt;app&gt;</code>", "what clients say is text")
	require.NotContains(t, page, "<app>")
	require.Contains(t, page, "&#34;ShareSessionEpoch&#34;: 7")
	require.NotRegexp(t, `(src|href)=`, page, "it needs nothing else")
}

func TestBadge(t *testing.T) {
	require.Contains(t, written(t, "badge.svg", sample()), "share groups: 2 of 4")
	for colour, verdict := range map[string]conformance.Verdict{"#c62828": conformance.Fail, "#b26a00": conformance.Warn, "#2e7d32": conformance.Pass, "#616161": conformance.Untested} {
		r := &conformance.Report{Rules: []conformance.RuleReport{{ID: "wire.api.1", Verdict: verdict}}}
		r.Sum()
		svg := written(t, "badge.svg", r)
		require.Contains(t, svg, colour, verdict)
		require.NoError(t, xml.Unmarshal([]byte(svg), new(struct{})))
	}
}

func TestMergeTakesTheWorst(t *testing.T) {
	good, bad := sample(), sample()
	good.Rules[1].Verdict, good.Rules[1].Broken, good.Rules[1].Evidence = conformance.Pass, 0, nil
	good.Rules[5].Verdict, good.Rules[5].Count = conformance.Pass, 2
	bad.Rules = append(bad.Rules, conformance.RuleReport{ID: "new.rule.1", Verdict: conformance.Warn})
	m := conformance.Merge(good, bad)
	require.Equal(t, conformance.Fail, m.Rule("share.session.epoch.2").Verdict)
	require.Equal(t, 18, m.Rule("share.session.epoch.2").Count)
	require.Equal(t, conformance.Pass, m.Rule("txn.init.1").Verdict, "what one has tested is tested")
	require.Equal(t, []string{"share.session.epoch.2"}, m.Failures)
	require.Equal(t, []string{"share.session.incr.1", "new.rule.1"}, m.Warnings)
	require.Equal(t, 40, m.Frames)
	require.Len(t, m.Clients, 1)
}

func TestOtherNamesAreRefused(t *testing.T) {
	require.ErrorContains(t, report.Write(&bytes.Buffer{}, "report.pdf", sample()), `"report.pdf" ends otherwise`)
}
