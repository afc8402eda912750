package conformance

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Verdict is what became of a rule.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "pass"
	Fail         Verdict = "fail"         // a MUST is broken
	Warn         Verdict = "warn"         // a SHOULD is broken
	Noted        Verdict = "info"         // a rule of level INFO has something to tell
	Skip         Verdict = "skip"         // what the rule needs is not there
	Inconclusive Verdict = "inconclusive" // the judge has forgotten too much to tell
	Untested     Verdict = "untested"     // nothing happened that the rule is about
)

// Verdicts are all verdicts, the worst first.
var Verdicts = []Verdict{Fail, Warn, Noted, Pass, Inconclusive, Untested, Skip}

// Format is the version of the report's JSON.
const Format = "kshare-judge/1"

// Report is what the judge has to say. It is written as JSON.
type Report struct {
	Format   string          `json:"format"`
	Name     string          `json:"name,omitempty"` // of what was judged, for reports that are merged
	Frames   int             `json:"frames" doc:"openings and closings of connections, requests and answers"`
	Millis   int64           `json:"ms" doc:"from the first frame to the report"`
	Clients  []Client        `json:"clients" doc:"who was judged"`
	Summary  map[Verdict]int `json:"summary" doc:"how many rules have each verdict"`
	Failures []string        `json:"failures" doc:"ids of the rules that failed"`
	Warnings []string        `json:"warnings" doc:"ids of the rules that warn"`
	Rules    []RuleReport    `json:"rules"`
}

// Client is who was judged.
type Client struct {
	Host string `json:"host"`
	ID   string `json:"clientId"`
}

// RuleReport is the verdict of a rule.
type RuleReport struct {
	ID       string     `json:"id"`
	Level    Level      `json:"level"`
	Verdict  Verdict    `json:"verdict"`
	Count    int        `json:"count" doc:"how often it was looked at"`
	Broken   int        `json:"broken" doc:"how often it was broken"`
	Says     string     `json:"says" doc:"what a client does that keeps it"`
	Source   string     `json:"source"`
	Needs    string     `json:"needs,omitempty" doc:"what it takes to judge it beyond frames"`
	Evidence []Evidence `json:"evidence,omitempty" doc:"the first 10 violations, or what there is to tell"`
}

// Evidence is a violation, or what a rule of level INFO tells.
type Evidence struct {
	Frames     []int           `json:"frames,omitempty" doc:"numbers of the frames: the one at hand first, then those that it contradicts"`
	AtMillis   int64           `json:"atMs" doc:"since the first frame"`
	Client     string          `json:"client,omitempty"`
	Connection uint64          `json:"connection,omitempty"`
	Node       int32           `json:"node,omitempty"`
	Says       string          `json:"says"`
	API        string          `json:"api,omitempty"`
	Version    int16           `json:"version,omitempty"`
	Request    json.RawMessage `json:"request,omitempty" doc:"as it was decoded"`
}

// tally is what a rule has found.
type tally struct {
	index    int
	count    int
	broken   int
	unsure   int // looks for which too much was forgotten
	evidence []Evidence
}

// Report tells what the judge has found up to a time.
func (j *Judge) Report(at time.Time) *Report {
	if j.frame > 0 {
		j.pass(at)
	}
	r := &Report{Format: Format, Frames: j.frame, Millis: j.now.Sub(j.first).Milliseconds(), Clients: []Client{}, Failures: []string{}, Warnings: []string{}}
	j.clients.each(func(_ string, c *client) { r.Clients = append(r.Clients, Client{c.host, c.id}) })
	for i := range Rules {
		rule, t := &Rules[i], &j.tallies[i]
		rr := RuleReport{
			ID: rule.ID, Level: rule.Level, Verdict: j.verdict(rule, t), Count: t.count, Broken: t.broken, Says: rule.Says, Source: rule.Source, Needs: rule.Needs,
			Evidence: slices.Clone(t.evidence),
		}
		r.Rules = append(r.Rules, rr)
	}
	r.Sum()
	return r
}

// Reset forgets the verdicts, and nothing of what the judge knows.
func (j *Judge) Reset() {
	for i := range j.tallies {
		j.tallies[i] = tally{index: i}
	}
}

// Sum makes the summary of the verdicts.
func (r *Report) Sum() {
	r.Summary, r.Failures, r.Warnings = map[Verdict]int{}, []string{}, []string{}
	for i := range r.Rules {
		rr := &r.Rules[i]
		r.Summary[rr.Verdict]++
		switch rr.Verdict {
		case Fail:
			r.Failures = append(r.Failures, rr.ID)
		case Warn:
			r.Warnings = append(r.Warnings, rr.ID)
		}
	}
}

func (j *Judge) verdict(rule *Rule, t *tally) Verdict {
	switch {
	case !rule.Judged(), rule.Needs == NeedsNodes && len(j.nodes) < 2, rule.Needs == NeedsKTX && j.apis.TxnShareAcknowledge() == nil:
		return Skip
	case t.count == 0 && t.unsure > 0:
		return Inconclusive
	case t.count == 0:
		return Untested
	case rule.Level == Info && len(t.evidence) > 0:
		return Noted
	case t.broken == 0:
		return Pass
	case rule.Level == Must:
		return Fail
	}
	return Warn
}

// Rule is the verdict of a rule, nil where there is no such rule.
func (r *Report) Rule(id string) *RuleReport {
	for i := range r.Rules {
		if r.Rules[i].ID == id {
			return &r.Rules[i]
		}
	}
	return nil
}

// Merge makes one report of several: of each rule the worst verdict, and the evidence of all. Rules that only some know are there too.
func Merge(reports ...*Report) *Report {
	m := &Report{Format: Format, Clients: []Client{}}
	at := map[string]int{}
	clients := map[Client]bool{}
	for _, r := range reports {
		m.Frames += r.Frames
		m.Millis += r.Millis
		for _, c := range r.Clients {
			if !clients[c] {
				clients[c] = true
				m.Clients = append(m.Clients, c)
			}
		}
		for _, rr := range r.Rules {
			i, known := at[rr.ID]
			if !known {
				at[rr.ID] = len(m.Rules)
				rr.Evidence = slices.Clone(rr.Evidence)
				m.Rules = append(m.Rules, rr)
				continue
			}
			have := &m.Rules[i]
			have.Count += rr.Count
			have.Broken += rr.Broken
			if slices.Index(Verdicts, rr.Verdict) < slices.Index(Verdicts, have.Verdict) {
				have.Verdict = rr.Verdict
			}
			have.Evidence = append(have.Evidence, rr.Evidence...)
			have.Evidence = have.Evidence[:min(len(have.Evidence), maxEvidence)]
		}
	}
	m.Sum()
	return m
}

// Names are the verdicts of a summary in their order.
func (r *Report) Names() []Verdict {
	all := slices.Collect(maps.Keys(r.Summary))
	slices.SortFunc(all, func(a, b Verdict) int { return slices.Index(Verdicts, a) - slices.Index(Verdicts, b) })
	return all
}
