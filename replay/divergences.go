package replay

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed divergences.txt
var divergencesText string

// Divergence says which fields of a step differ on purpose, and why.
type Divergence struct {
	Session string // "*": every session
	Step    string // number and name; with session "*" an API
	Class   string
	Fields  []string // as in Diff.Field; * stands for any characters
	Remark  string
	used    map[string]bool
}

// Divergences is the table of what differs on purpose.
type Divergences struct {
	Classes []string // in the order of the file
	Reason  map[string]string
	Entries []*Divergence
}

// Table reads divergences.txt.
func Table() (*Divergences, error) { return ParseDivergences(divergencesText) }

// ParseDivergences reads the table: lines of fields with " | " between them.
//
//	class | NAME | reason
//	SESSION | NUMBER NAME | CLASS | FIELD, FIELD... | remark, may be left out
//	* | API | CLASS | FIELD, FIELD... | remark
func ParseDivergences(text string) (*Divergences, error) {
	d := &Divergences{Reason: map[string]string{}}
	for i, l := range strings.Split(text, "\n") {
		if l == "" || l[0] == '#' {
			continue
		}
		f := strings.Split(l, " | ")
		switch {
		case len(f) == 3 && f[0] == "class":
			if d.Reason[f[1]] != "" {
				return nil, fmt.Errorf("divergences, line %d: class %s stands twice", i+1, f[1])
			}
			d.Classes = append(d.Classes, f[1])
			d.Reason[f[1]] = f[2]
		case len(f) == 4 || len(f) == 5:
			if d.Reason[f[2]] == "" {
				return nil, fmt.Errorf("divergences, line %d: there is no class %s", i+1, f[2])
			}
			e := &Divergence{Session: f[0], Step: f[1], Class: f[2], Fields: strings.Split(f[3], ", "), used: map[string]bool{}}
			if len(f) == 5 {
				e.Remark = f[4]
			}
			d.Entries = append(d.Entries, e)
		default:
			return nil, fmt.Errorf("divergences, line %d: %d fields", i+1, len(f))
		}
	}
	return d, nil
}

// Explains tells whether the table has every difference of a step, and notes what of it was needed.
func (d *Divergences) Explains(session string, p *Played) bool {
	all := true
	for _, diff := range p.Diffs {
		if !d.explains(session, p.Step, diff) {
			all = false
		}
	}
	return all
}

func (d *Divergences) explains(session string, st *Step, diff Diff) bool {
	for _, e := range d.Entries {
		if !(e.Session == session && e.Step == st.String() || e.Session == "*" && e.Step == diff.API) {
			continue
		}
		for _, f := range e.Fields {
			if wildcard(f, diff.Field) {
				e.used[f] = true
				return true
			}
		}
	}
	return false
}

// wildcard tells whether a pattern in which * stands for any characters matches a text.
func wildcard(pattern, text string) bool {
	head, rest, found := strings.Cut(pattern, "*")
	if !found {
		return pattern == text
	}
	if !strings.HasPrefix(text, head) {
		return false
	}
	for i := len(head); i <= len(text); i++ {
		if wildcard(rest, text[i:]) {
			return true
		}
	}
	return false
}

// Stale are the entries, or their fields, that explained nothing in the sessions that were played.
func (d *Divergences) Stale(sessions []string) []string {
	var stale []string
	for _, e := range d.Entries {
		if e.Session != "*" && !slices.Contains(sessions, e.Session) {
			continue
		}
		for _, f := range e.Fields {
			if !e.used[f] {
				stale = append(stale, fmt.Sprintf("%s, step %s: %s agrees now", e.Session, e.Step, f))
			}
		}
	}
	return stale
}

// Document is docs/divergences.md.
func (d *Divergences) Document() string {
	var b strings.Builder
	b.WriteString(`# Where kshare answers otherwise than Apache Kafka 4.4.0

Sessions recorded from a running Apache Kafka 4.4.0 are played against kshare with the same settings and
` + "`timing=kafka`" + `, and every field of every answer is compared, also how long it was waited for. This page lists
all steps whose answers differ, and why. It is generated from ` + "`replay/divergences.txt`" + ` by
` + "`go test ./replay -update`" + `; a step that differs and is not listed fails the test, and so does one that is listed
and agrees.

`)
	for _, class := range d.Classes {
		entries := d.of(class)
		if len(entries) == 0 {
			continue
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n| session | step | fields | |\n|---|---|---|---|\n", class, d.Reason[class])
		for _, e := range entries {
			session := e.Session
			if session == "*" {
				session = "all"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", session, cell(e.Step), cell(strings.Join(e.Fields, ", ")), cell(e.Remark))
		}
		b.WriteString("\n")
	}
	b.WriteString(`## What is not compared as it stands

Ids that a broker makes up (topic, cluster and member ids, producer ids, fetch session ids, ports) are mapped: one
of the recording stands for one of kshare's throughout, in requests too. kshare makes its topics with the recorded
ids, since Kafka assigns partitions and answers some lists in the order of a hash map of them. Apart from these:

| API | field | compared | because |
|---|---|---|---|
`)
	for _, r := range Rules {
		api := r.API
		if api == "" {
			api = "every API"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", api, cell(r.Field), treatments[r.how], r.Why)
	}
	fmt.Fprintf(&b, `
Waits are compared by the clock. The recording's machine was busy, so a recorded time is an upper bound; kshare's
is never longer (but for %v of rounding). A Fetch or ShareFetch that was recorded to wait out its MaxWait waits
exactly that; a request that later ones overtook waits at least the recorded time less %v; any other that took
%v or more takes at least half of it.
`, roundingError, waitSlack, longWait)
	return b.String()
}

var treatments = map[treatment]string{
	anyValue:     "present or absent on both sides",
	clockTime:    fmt.Sprintf("within %d ms where it lies in the session's time", clockTolerance),
	anyOrder:     "in the order of a key",
	decompressed: "by what it decompresses to",
}

func (d *Divergences) of(class string) []*Divergence {
	var out []*Divergence
	for _, e := range d.Entries {
		if e.Class == class {
			out = append(out, e)
		}
	}
	return out
}

// cell makes a text fit into a cell of a Markdown table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`).Replace(s)
}
