package scenario

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Outcome is how a file ended: what its run has shown, or why it did not run to its end.
type Outcome struct {
	Name   string
	Report *Report // nil where the file could not be read
	Err    error
}

// Failed tells whether the scenario shows something else than it says, or did not end.
func (o *Outcome) Failed() bool { return o.Err != nil || o.Report.Failed() > 0 }

// Text is what is wrong, "" where nothing is.
func (o *Outcome) Text() string {
	text := ""
	if o.Report != nil {
		text = o.Report.Differences()
	}
	if o.Err == nil {
		return text
	}
	if o.Report != nil && len(o.Report.Blocks) > 0 {
		if b := &o.Report.Blocks[len(o.Report.Blocks)-1]; b.Stopped {
			for _, l := range b.Shown() {
				text += "    " + l + "\n"
			}
		}
	}
	return text + o.Err.Error() + "\n"
}

// Compared counts the blocks that could be held against what they say, and all.
func (o *Outcome) Compared() (compared, all int) {
	if o.Report == nil {
		return 0, 0
	}
	for i := range o.Report.Blocks {
		if o.Report.Blocks[i].Compared {
			compared++
		}
	}
	return compared, len(o.Report.Blocks)
}

// Accept takes what was shown as what is expected.
func (r *Report) Accept() {
	for i := range r.Blocks {
		r.Blocks[i].Expected = r.Blocks[i].Shown()
	}
}

// Forms of a JSON report. Lines count from 1.
type (
	jsonFile struct {
		File   string      `json:"file"`
		Passed bool        `json:"passed"`
		Error  string      `json:"error,omitempty"`
		Blocks []jsonBlock `json:"blocks"`
	}
	jsonBlock struct {
		Line     int           `json:"line"`
		Passed   bool          `json:"passed"`
		Compared bool          `json:"compared"`
		Expected []string      `json:"expected"`
		Commands []jsonCommand `json:"commands"`
	}
	jsonCommand struct {
		Line    int      `json:"line"`
		Command string   `json:"command"`
		Shown   []string `json:"shown"`
		Omitted string   `json:"omitted,omitempty"`
	}
)

// WriteJSON writes a list of files, each with its blocks and commands.
func WriteJSON(w io.Writer, all []Outcome) error {
	files := []jsonFile{}
	for i := range all {
		o := &all[i]
		f := jsonFile{File: o.Name, Passed: !o.Failed(), Blocks: []jsonBlock{}}
		if o.Err != nil {
			f.Error = o.Err.Error()
		}
		if o.Report != nil {
			for j := range o.Report.Blocks {
				f.Blocks = append(f.Blocks, jsonOf(&o.Report.Blocks[j]))
			}
		}
		files = append(files, f)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(files)
}

func jsonOf(b *BlockReport) jsonBlock {
	out := jsonBlock{Passed: !b.Fails() && !b.Stopped, Compared: b.Compared, Expected: notNil(b.Expected), Commands: []jsonCommand{}}
	for _, c := range b.Commands {
		if out.Line == 0 {
			out.Line = c.Line
		}
		out.Commands = append(out.Commands, jsonCommand{c.Line, c.Command, notNil(c.Shown), c.Omitted})
	}
	return out
}

func notNil(lines []string) []string {
	if lines == nil {
		return []string{}
	}
	return lines
}

// Forms of a report in JUnit's XML: a suite for a file, a case for a block.
type (
	junitReport struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string     `xml:"classname,attr"`
		Name    string     `xml:"name,attr"`
		Failure *junitText `xml:"failure,omitempty"`
		Error   *junitText `xml:"error,omitempty"`
		Skipped *junitText `xml:"skipped,omitempty"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes a report in JUnit's XML. A block that is not compared is skipped.
func WriteJUnit(w io.Writer, all []Outcome) error {
	var r junitReport
	for i := range all {
		r.Suites = append(r.Suites, junitOf(&all[i]))
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(r); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junitOf(o *Outcome) junitSuite {
	s := junitSuite{Name: o.Name}
	if o.Report != nil {
		for i := range o.Report.Blocks {
			b := &o.Report.Blocks[i]
			c := junitCase{Class: o.Name, Name: fmt.Sprintf("line %d: %s", b.Commands[0].Line, b.Commands[0].Command)}
			switch {
			case b.Stopped:
				s.Errors++
				c.Error = &junitText{"the run was stopped here", strings.Join(b.Shown(), "\n")}
			case b.Fails():
				s.Failures++
				c.Failure = &junitText{"it shows something else", strings.Join(lineDiff(b.Expected, b.Shown()), "\n")}
			case !b.Compared && o.Err == nil:
				s.Skipped++
				c.Skipped = &junitText{Message: "not compared"}
			}
			s.Cases = append(s.Cases, c)
		}
	}
	if o.Err != nil {
		s.Errors++
		s.Cases = append(s.Cases, junitCase{Class: o.Name, Name: "run", Error: &junitText{o.Err.Error(), ""}})
	}
	s.Tests = len(s.Cases)
	return s
}
