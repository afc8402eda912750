package cases

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kshare/conformance"
)

// Case is something that a client is put through. Its id is stable for ever.
type Case struct {
	ID     string
	Level  conformance.Level
	Says   string // what happens, and what a client does then
	Source string
	// Needs are the capabilities that it takes of a driver, of package driver.
	Needs []string
	Setup Setup
	// Within is how long it may take at most, in real time.
	Within time.Duration
	// Expects are passive rules that a client may break in the case.
	Expects []string
	// Full tells that the case is left out of the short form.
	Full bool
	run  func(*Stage)
}

// Setup is what a case begins with. The zero value is one node, a topic t of one partition with 100 records in batches of 10, and a client that acknowledges implicitly.
type Setup struct {
	Brokers   int            // 0 for 1
	FirstNode int32          // with Nodes the id of the first node
	Nodes     bool           // FirstNode counts; nodes begin with 1 otherwise
	Topics    map[string]int // partitions; nil for t with 1
	Subscribe []string       // nil for all topics
	Records   int            // of each partition; 0 for 100, -1 for none
	Batch     int            // records in a batch, 0 for 10
	Headers   map[int]string // header ksj by the number of the record
	Explicit  bool
	Config    map[string]string // of brokers, beside the defaults
	Group     map[string]string // of the group, beside the defaults
	Features  map[string]int16
	Props     map[string]any // KSJ_PROPS
	Kind      string         // KSJ_KIND, "" for share
	SASL      bool           // clients have to log in
	TLS       bool           // clients speak TLS with the proxy
	Atomic    bool           // the cluster has KIP-1289
	// Late has the client start by itself: the case calls Stage.Launch.
	Late bool
}

// Line is what the case is about, with what it takes of a driver.
func (c *Case) Line() string {
	if len(c.Needs) == 0 {
		return c.Says
	}
	return c.Says + " (needs " + strings.Join(c.Needs, ", ") + ")"
}

// Verdict is what became of a case.
type Verdict string

// The verdicts.
const (
	Pass          Verdict = "pass"
	Fail          Verdict = "fail"           // a MUST is broken
	Warn          Verdict = "warn"           // a SHOULD is broken
	Info          Verdict = "info"           // there is something to tell of a case of level INFO
	Skip          Verdict = "skip"           // the driver lacks a capability
	Inconclusive  Verdict = "inconclusive"   // what was to go wrong did not come to pass
	HarnessFailed Verdict = "harness-failed" // the driver did not do as it was told, or the judge could not
)

// Verdicts are all of them, the worst first.
var Verdicts = []Verdict{HarnessFailed, Fail, Warn, Info, Inconclusive, Skip, Pass}

// Family is the part of an id before its first dot.
func Family(id string) string {
	family, _, _ := strings.Cut(id, ".")
	return family
}

// All are all cases, in the order of their families.
func All() []Case {
	all := slices.Concat(negotiation, membership, sessions, fetching, acknowledging, renewing, modes, redelivery, leaders, nodes, topics, shapes, locks, closing, groups, producers, security, transactional, startingCases(), errorCases())
	for i := range all {
		if c := &all[i]; c.Within == 0 {
			c.Within = 30 * time.Second
		}
	}
	return all
}

// Select are the cases that patterns choose, all without any: an id, a family, or either with * at its end; with ! in front what it names is left out. short
// leaves out what is of the full form alone. An error names a pattern that chooses nothing.
func Select(patterns []string, short bool) (chosen []Case, err error) {
	all := All()
	positive := slices.ContainsFunc(patterns, func(p string) bool { return !strings.HasPrefix(p, "!") })
	used := make([]bool, len(patterns))
	for _, c := range all {
		in := !positive
		named := false
		for i, p := range patterns {
			text, not := strings.CutPrefix(p, "!")
			if !matches(text, c.ID) {
				continue
			}
			used[i] = true
			in = !not
			named = named || !not && text == c.ID
		}
		if in && (!short || !c.Full || named) {
			chosen = append(chosen, c)
		}
	}
	for i, p := range patterns {
		if !used[i] {
			return nil, fmt.Errorf("no case is chosen by %q: kshare judge list --cases lists them", p)
		}
	}
	return chosen, nil
}

func matches(pattern, id string) bool {
	if start, star := strings.CutSuffix(pattern, "*"); star {
		return strings.HasPrefix(id, start)
	}
	return pattern == id || strings.HasPrefix(id, pattern+".")
}
