// Package report writes what a judge has to say: for people, for CI, and for other programs.
package report

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"path"
	"strings"

	"kshare/conformance"
)

// Formats are the forms of a report by the ends of the names of its files.
var Formats = map[string]func(io.Writer, *conformance.Report) error{
	".txt":  Console,
	".json": JSON,
	".xml":  JUnit,
	".html": HTML,
	".svg":  Badge,
}

// Write writes a report in the form that the end of a file's name asks for. It fails for another end.
func Write(w io.Writer, name string, r *conformance.Report) error {
	f, err := For(name)
	if err != nil {
		return err
	}
	return f(w, r)
}

// For is the form that the end of a file's name asks for.
func For(name string) (func(io.Writer, *conformance.Report) error, error) {
	f, ok := Formats[path.Ext(name)]
	if !ok {
		return nil, fmt.Errorf("a report is .txt, .json, .xml (JUnit), .html or .svg (a badge); %q ends otherwise", name)
	}
	return f, nil
}

// JSON writes a report for programs, and for Read.
func JSON(w io.Writer, r *conformance.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Read reads a report that JSON wrote.
func Read(in io.Reader) (*conformance.Report, error) {
	r := &conformance.Report{}
	if err := json.NewDecoder(in).Decode(r); err != nil {
		return nil, err
	}
	if r.Format != conformance.Format {
		return nil, fmt.Errorf("the format is %q, a report of the judge has %q", r.Format, conformance.Format)
	}
	return r, nil
}

// areas are the rules of a report by their areas, in the order in which they stand.
func areas(r *conformance.Report) (names []string, rules map[string][]*conformance.RuleReport) {
	rules = map[string][]*conformance.RuleReport{}
	for i := range r.Rules {
		a := Area(r.Rules[i].ID)
		if rules[a] == nil {
			names = append(names, a)
		}
		rules[a] = append(rules[a], &r.Rules[i])
	}
	return names, rules
}

// Area is the area of a rule: share.session for share.session.epoch.2, wire for wire.api.1.
func Area(id string) string {
	parts := strings.Split(id, ".")
	if parts[0] == "share" {
		return strings.Join(parts[:2], ".")
	}
	return parts[0]
}

// Summary is a report in one line.
func Summary(r *conformance.Report) string {
	var parts []string
	for _, v := range r.Names() {
		parts = append(parts, fmt.Sprintf("%d %s", r.Summary[v], v))
	}
	return strings.Join(parts, ", ")
}

// Console writes a report as a tree for a terminal: areas with their counts, and rules that have something to tell, with the first three pieces of evidence.
func Console(w io.Writer, r *conformance.Report) error {
	b := &strings.Builder{}
	fmt.Fprintf(b, "judged %d frames of %d clients in %.1f s\n", r.Frames, len(r.Clients), float64(r.Millis)/1000)
	names, rules := areas(r)
	for _, a := range names {
		counts := map[conformance.Verdict]int{}
		for _, rr := range rules[a] {
			counts[rr.Verdict]++
		}
		fmt.Fprintf(b, "%s:", a)
		sep := " "
		for _, v := range conformance.Verdicts {
			if counts[v] > 0 {
				fmt.Fprintf(b, "%s%d %s", sep, counts[v], v)
				sep = ", "
			}
		}
		b.WriteByte('\n')
		for _, rr := range rules[a] {
			switch rr.Verdict {
			case conformance.Fail, conformance.Warn, conformance.Noted:
				rule(b, rr)
			}
		}
	}
	fmt.Fprintln(b, Summary(r))
	_, err := io.WriteString(w, b.String())
	return err
}

// shown is how many pieces of evidence the console shows.
const shown = 3

func rule(b *strings.Builder, rr *conformance.RuleReport) {
	fmt.Fprintf(b, "  %s %s (%s", strings.ToUpper(string(rr.Verdict)), rr.ID, rr.Level)
	if rr.Broken > 0 {
		fmt.Fprintf(b, ", broken %d times of %d", rr.Broken, rr.Count)
	}
	fmt.Fprintf(b, "): %s\n", rr.Says)
	for i := range rr.Evidence {
		if i == shown {
			fmt.Fprintf(b, "    and %d more\n", max(rr.Broken, len(rr.Evidence))-shown)
			break
		}
		fmt.Fprintf(b, "    %s\n", evidence(&rr.Evidence[i]))
	}
}

// evidence is a piece of evidence in a line.
func evidence(e *conformance.Evidence) string {
	s := e.Says
	if e.Client != "" {
		s += fmt.Sprintf(" [client %q, connection %d to node %d]", e.Client, e.Connection, e.Node)
	}
	if len(e.Frames) > 0 {
		s += " frames " + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(e.Frames)), ", "), "[]")
	}
	return fmt.Sprintf("at %.3f s: %s", float64(e.AtMillis)/1000, s)
}

// What CI servers read results of tests from.
type (
	// Suites are all tests, by suites.
	Suites struct {
		XMLName  xml.Name `xml:"testsuites"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Suites   []Suite  `xml:"testsuite"`
	}
	// Suite is a group of tests.
	Suite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []TestCase `xml:"testcase"`
	}
	// TestCase is a test: one without failure and skip has passed.
	TestCase struct {
		Name    string   `xml:"name,attr"`
		Class   string   `xml:"classname,attr"`
		Failure *Message `xml:"failure,omitempty"`
		Skipped *Message `xml:"skipped,omitempty"`
		Out     string   `xml:"system-out,omitempty"`
	}
	// Message is why a test has failed or was skipped.
	Message struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes a report as CI servers read results of tests: a suite for each area, a test for each rule. A MUST that is broken is a failure, what is broken of
// a SHOULD is output; what was not tested is skipped.
func JUnit(w io.Writer, r *conformance.Report) error {
	all := Suites{}
	names, rules := areas(r)
	for _, a := range names {
		s := Suite{Name: a}
		for _, rr := range rules[a] {
			c := TestCase{Name: rr.ID, Class: "judge." + a}
			var lines []string
			for i := range rr.Evidence {
				lines = append(lines, evidence(&rr.Evidence[i]))
			}
			text := strings.Join(lines, "\n")
			switch rr.Verdict {
			case conformance.Fail:
				c.Failure = &Message{rr.Says, text}
				s.Failures++
			case conformance.Skip:
				c.Skipped = &Message{Message: "needs " + rr.Needs}
				s.Skipped++
			case conformance.Untested, conformance.Inconclusive:
				c.Skipped = &Message{Message: string(rr.Verdict)}
				s.Skipped++
			case conformance.Warn, conformance.Noted:
				c.Out = rr.Says + "\n" + text
			}
			s.Cases = append(s.Cases, c)
		}
		s.Tests = len(s.Cases)
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Suites = append(all.Suites, s)
	}
	return WriteSuites(w, all)
}

// WriteSuites writes them as XML.
func WriteSuites(w io.Writer, all Suites) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// Badge writes a report as an SVG of one line: how many rules pass of those that were tested, green, yellow with warnings and red with failures.
func Badge(w io.Writer, r *conformance.Report) error {
	return WriteBadge(w, "share groups", r.Summary[conformance.Pass]+r.Summary[conformance.Noted], r.Summary[conformance.Warn], r.Summary[conformance.Fail])
}

// WriteBadge writes an SVG of one line: how many are passed of those that were decided, green, yellow with warnings and red with failures.
func WriteBadge(w io.Writer, label string, passed, warned, failed int) error {
	colour := "#2e7d32"
	switch {
	case failed > 0:
		colour = "#c62828"
	case warned > 0:
		colour = "#b26a00"
	case passed == 0:
		colour = "#616161"
	}
	text := fmt.Sprintf("%d of %d", passed, passed+warned+failed)
	left, right := 7*len(label)+10, 7*len(text)+10
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="%s: %s"><rect width="%d" height="20" fill="#424242"/><rect x="%d" width="%d" height="20" fill="%s"/><g fill="#fff" font-family="Verdana,sans-serif" font-size="11" text-anchor="middle"><text x="%d" y="14">%s</text><text x="%d" y="14">%s</text></g></svg>
`, left+right, label, text, left, left, right, colour, left/2, label, left+right/2, text)
	return err
}
