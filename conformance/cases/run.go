package cases

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/proxy"
	"kshare/protocol/describe"
)

// Format is the version of the report's JSON.
const Format = "kshare-cases/1"

// Report is what came of the cases of one client.
type Report struct {
	Client  string          `json:"client"`
	Version string          `json:"version"`
	Caps    []string        `json:"caps"`
	Summary map[Verdict]int `json:"summary"`
	Results []Result        `json:"results"`
}

// Result is what came of a case.
type Result struct {
	ID      string            `json:"id"`
	Level   conformance.Level `json:"level"`
	Verdict Verdict           `json:"verdict"`
	Says    string            `json:"says"`
	Source  string            `json:"source,omitempty"`
	Why     string            `json:"why,omitempty"`
	Notes   []string          `json:"notes,omitempty" doc:"what a SHOULD has broken beside, and what there is to tell"`
	Rules   []string          `json:"rules,omitempty" doc:"passive rules that a MUST has broken while the case ran"`
	Warned  []string          `json:"warned,omitempty" doc:"passive rules that a SHOULD has broken while the case ran"`
	Millis  int64             `json:"ms"`
	// Exchange, Driver and Stderr are there where the verdict is not pass or skip.
	Exchange []Line   `json:"exchange,omitempty"`
	Driver   []string `json:"driver,omitempty"`
	Stderr   string   `json:"stderr,omitempty"`
	Frames   []byte   `json:"-"` // as package recording has them
	Scenario []byte   `json:"-"` // what the client has sent, for package scenario
}

// Line is an exchange as people read it.
type Line struct {
	AtMillis   int64           `json:"atMs"`
	Node       int32           `json:"node"`
	Connection uint64          `json:"connection"`
	API        string          `json:"api"`
	Version    int16           `json:"version"`
	Request    json.RawMessage `json:"request,omitempty"`
	Answer     json.RawMessage `json:"answer,omitempty"`
	Answered   int64           `json:"answeredMs,omitempty"`
}

// Options are what cases are run with.
type Options struct {
	Client   []string // the driver's command
	Cases    []Case
	Parallel int // how many at a time, 0 for one
	// Again is how often a case that has failed is put to the client again, when all others are done and by itself: a busy machine may be what it failed for. The
	// best verdict counts, and a note tells of the first one.
	Again int
	// Mutant makes what stands between the client and the judge in each case, and has the client make a mistake; nil for nothing.
	Mutant func() proxy.Script
	// Known are reports of earlier runs: what they have of the same version of the client is not run again.
	Known []*Report
	// Done is called with each result and the report so far, one at a time; nil for nobody.
	Done func(Result, *Report)
}

// Run puts a client through cases. An error says why there is no report at all.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &Report{Summary: map[Verdict]int{}}
	hello, err := greet(ctx, o.Client)
	if err != nil {
		return nil, err
	}
	r.Client, r.Version, r.Caps = hello.Client, hello.Version, hello.Caps
	left := o.Cases
	for _, known := range o.Known {
		if known.Client == r.Client && known.Version == r.Version {
			r.Results = slices.Clone(known.Results)
			left = slices.DeleteFunc(slices.Clone(left), func(c Case) bool { return r.Result(c.ID) != nil })
		}
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	next := 0
	for range max(1, o.Parallel) {
		wait.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(left) {
					return
				}
				result := one(ctx, &left[i], &o, hello.Caps)
				mu.Lock()
				if ctx.Err() == nil {
					r.Results = append(r.Results, result)
					r.Sum()
					if o.Done != nil {
						o.Done(result, r)
					}
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	for i := range left {
		again(ctx, &left[i], &o, r)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.order()
	r.Sum()
	return r, nil
}

// again puts a case that has failed to the client again.
func again(ctx context.Context, c *Case, o *Options, r *Report) {
	for range o.Again {
		first := r.Result(c.ID)
		if ctx.Err() != nil || first == nil || first.Verdict != Fail && first.Verdict != HarnessFailed {
			return
		}
		result := one(ctx, c, o, r.Caps)
		if ctx.Err() != nil || slices.Index(Verdicts, result.Verdict) <= slices.Index(Verdicts, first.Verdict) {
			continue
		}
		result.Notes = append(result.Notes, fmt.Sprintf("unsteady: beside other cases the verdict was %s: %s", first.Verdict, first.Why))
		*first = result
		r.Sum()
		if o.Done != nil {
			o.Done(result, r)
		}
	}
}

// Result is what came of a case, nil where it was not run.
func (r *Report) Result(id string) *Result {
	if i := slices.IndexFunc(r.Results, func(x Result) bool { return x.ID == id }); i >= 0 {
		return &r.Results[i]
	}
	return nil
}

// order puts the results in the order of the cases.
func (r *Report) order() {
	place := map[string]int{}
	for i, c := range All() {
		place[c.ID] = i
	}
	slices.SortStableFunc(r.Results, func(a, b Result) int { return place[a.ID] - place[b.ID] })
}

// Sum makes the summary of the results.
func (r *Report) Sum() {
	r.Summary = map[Verdict]int{}
	for i := range r.Results {
		r.Summary[r.Results[i].Verdict]++
	}
}

// greet starts a driver to see who it is.
func greet(ctx context.Context, argv []string) (driver.Event, error) {
	d, err := driver.Start(argv, map[string]string{
		"KSJ_BOOTSTRAP": "127.0.0.1:1", "KSJ_GROUP": groupID, "KSJ_TOPICS": defaultTopic, "KSJ_KIND": "share", "KSJ_ACK": "implicit", "KSJ_PROPS": "{}", "KSJ_CASE": "hello",
	})
	if err != nil {
		return driver.Event{}, err
	}
	defer d.Stop(0)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // it may have to be built
	defer cancel()
	e, err := d.Await(ctx, 0, func(e driver.Event) bool { return e.Ev == "hello" })
	if err != nil {
		return e, fmt.Errorf("the driver does not say hello: %w; its output: %s %s", err, strings.Join(d.Garbage(), "\n"), d.Stderr())
	}
	for _, c := range e.Caps {
		if !slices.Contains(driver.Capabilities, c) {
			return e, fmt.Errorf("the driver says that it can %q: there are %s", c, strings.Join(driver.Capabilities, ", "))
		}
	}
	return e, nil
}

// one runs a case.
func one(ctx context.Context, c *Case, o *Options, caps []string) Result {
	r := Result{ID: c.ID, Level: c.Level, Says: c.Says, Source: c.Source}
	for _, need := range c.Needs {
		if !slices.Contains(caps, need) {
			r.Verdict, r.Why = Skip, "the driver lacks "+need
			return r
		}
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := open(ctx, c, o)
	if err != nil {
		r.Verdict, r.Why = HarnessFailed, err.Error()
		return r
	}
	ended := make(chan stop, 1)
	go func() { ended <- s.perform() }()
	var end stop
	select {
	case end = <-ended:
	case <-time.After(c.Within + 30*time.Second):
		cancel()
		<-ended
		end = stop{HarnessFailed, fmt.Sprintf("the case did not end within %s", c.Within+30*time.Second)}
	}
	passive := s.judge.Report()
	r.Verdict, r.Why, r.Millis = end.verdict, end.why, time.Since(began).Milliseconds()
	names := s.topicNames()
	closing := s.close()
	s.take(&r, passive)
	if closing != nil && r.Verdict != HarnessFailed {
		r.Verdict, r.Why = HarnessFailed, closing.Error()
	}
	if r.Verdict != Pass && r.Verdict != Skip {
		r.Scenario = s.replay(&r, names)
	}
	return r
}

// take takes what was noted into the result. A passive MUST that was broken fails the case, unless it expects that.
func (s *Stage) take(r *Result, passive *conformance.Report) {
	r.Notes = append(r.Notes, s.notes...)
	r.Notes = append(r.Notes, s.telling...)
	expected := func(id string) bool {
		return slices.ContainsFunc(s.c.Expects, func(e string) bool { return matches(e, id) })
	}
	for i := range passive.Rules {
		rule := &passive.Rules[i]
		if expected(rule.ID) || rule.Verdict != conformance.Fail && rule.Verdict != conformance.Warn {
			continue
		}
		text := rule.ID
		if len(rule.Evidence) > 0 {
			text += ": " + rule.Evidence[0].Says
		}
		if rule.Verdict == conformance.Fail {
			r.Rules = append(r.Rules, text)
		} else {
			r.Warned = append(r.Warned, text)
		}
	}
	if len(r.Rules) > 0 && (r.Verdict == Pass || r.Verdict == Warn || r.Verdict == Info) {
		r.Verdict, r.Why = Fail, "a rule for all traffic is broken: "+r.Rules[0]
	}
	if (r.Verdict == Warn || r.Verdict == Info) && r.Why == "" && len(s.notes) > 0 {
		r.Why = s.notes[0]
	}
	if r.Verdict == Pass && len(s.telling) > 0 && s.c.Level == conformance.Info {
		r.Verdict, r.Why = Info, s.telling[0]
	}
	if r.Verdict == Pass || r.Verdict == Skip {
		return
	}
	if why := s.misbehaved(); why != "" && r.Verdict != HarnessFailed {
		r.Verdict, r.Why = HarnessFailed, why+"; "+r.Why
	}
	if s.driver != nil {
		r.Stderr = s.driver.Stderr()
		r.Driver = lines(s.driver)
	}
	r.Exchange = s.exchange()
	r.Frames = s.frames.Bytes()
}

// misbehaved tells why what came of a case is the driver's doing and not its client's, "" where it is not.
func (s *Stage) misbehaved() string {
	if s.driver == nil {
		return ""
	}
	if g := s.driver.Garbage(); len(g) > 0 {
		return fmt.Sprintf("the driver writes what is no event: %q", g[0])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 && len(s.driver.Events(0)) <= 1 {
		return "the driver does nothing: there is no request, and no event behind its hello"
	}
	return ""
}

// Bounds on the evidence of a case: from the beginning and up to the end.
const firstLines, lastLines, maxBody = 60, 120, 4 << 10

// exchange is what has passed, the beginning and the end of it.
func (s *Stage) exchange() (all []Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var began time.Time
	for i, x := range s.seen {
		if i == 0 {
			began = x.At
		}
		if i >= firstLines && i < len(s.seen)-lastLines {
			continue
		}
		l := Line{AtMillis: x.At.Sub(began).Milliseconds(), Node: x.Node, Connection: x.Conn, API: kmsg.NameForKey(x.Key), Version: x.Version, Request: text(x.Request)}
		if x.Response != nil {
			l.Answer, l.Answered = text(x.Response), x.Answered.Sub(began).Milliseconds()
		}
		all = append(all, l)
	}
	return all
}

func text(m any) json.RawMessage {
	b, err := json.Marshal(describe.Message(m))
	if err != nil || len(b) > maxBody {
		b, _ = json.Marshal(fmt.Sprintf("%d bytes of JSON", len(b)))
	}
	return b
}

// lines are what the driver has said, the beginning and the end of it.
func lines(d *driver.Driver) (all []string) {
	events := d.Events(0)
	for i, e := range events {
		if i >= firstLines && i < len(events)-lastLines {
			continue
		}
		b, err := json.Marshal(e)
		if err == nil {
			all = append(all, string(b))
		}
	}
	for _, g := range d.Garbage() {
		all = append(all, "not understood: "+g)
	}
	return all
}

// file is what JSON has.
type file struct {
	Format  string    `json:"format"`
	Clients []*Report `json:"clients"`
}

// Read reads reports that were written as JSON.
func Read(in io.Reader) ([]*Report, error) {
	var f file
	if err := json.NewDecoder(bufio.NewReader(in)).Decode(&f); err != nil {
		return nil, err
	}
	if f.Format != Format {
		return nil, fmt.Errorf("it has the format %q, this is %s", f.Format, Format)
	}
	return f.Clients, nil
}

// Write writes reports as JSON.
func Write(w io.Writer, all []*Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(file{Format, all})
}

// Merge makes one list of reports of several runs: of the results of a version of a client those of the last run that has them.
func Merge(runs ...[]*Report) (all []*Report) {
	for _, run := range runs {
		for _, r := range run {
			i := slices.IndexFunc(all, func(x *Report) bool { return x.Client == r.Client && x.Version == r.Version })
			if i < 0 {
				c := *r
				all = append(all, &c)
				continue
			}
			of := all[i]
			of.Results = slices.DeleteFunc(slices.Clone(of.Results), func(x Result) bool { return r.Result(x.ID) != nil })
			of.Results = append(of.Results, r.Results...)
			of.order()
			of.Sum()
		}
	}
	return all
}
