package check

import (
	"fmt"
	"strings"
)

// String says what came of an exploration: how much was seen, and what holds or does not.
func (r *Result) String() string {
	if len(r.Broken) > 0 {
		b := &r.Broken[0]
		return fmt.Sprintf("broken: %s\n%s, after %d steps; %s", b.Property, b.What, b.Trace.Len(), r.seen())
	}
	return "holds: " + strings.Join(Properties, "; ") + "\n" + r.bound() + "; " + r.seen()
}

func (r *Result) seen() string {
	return fmt.Sprintf("%s states, %s steps, %d a second, %.1fs, about %d MiB for the states",
		grouped(r.States), grouped(r.Steps), r.PerSecond, r.Took.Seconds(), (r.Bytes+1<<20-1)>>20)
}

// bound is how far the properties were looked at.
func (r *Result) bound() string {
	m := &r.Model
	of := fmt.Sprintf("%s, %s, %s", plural(m.Members, "member"), plural(m.Producers, "producer"), plural(m.Records, "record"))
	if m.InOrder {
		of += " that are settled in order"
	}
	counted := ""
	if m.CountAll {
		counted = " (locks that end or are renewed and late clients count)"
	}
	switch n := m.MostFaults; {
	case len(m.Faults) == 0:
		of += ", no faults"
	case n > 0 && len(m.Faults) == len(Faults):
		of += fmt.Sprintf(", every fault, at most %d in a trace%s", n, counted)
	case n > 0:
		of += fmt.Sprintf(", at most %d faults in a trace%s of: %s", n, counted, strings.Join(m.Faults, ", "))
	case len(m.Faults) == len(Faults):
		of += ", every fault"
	default:
		of += ", faults: " + strings.Join(m.Faults, ", ")
	}
	switch {
	case r.Whole:
		return "the whole state space of " + of
	case r.Exhausted:
		return fmt.Sprintf("all traces of up to %d steps of %s", m.Depth, of)
	}
	return fmt.Sprintf("not exhaustive, %s: traces of up to %d steps, not all of the longest, of %s", r.Why, r.Depth, of)
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// grouped is a number with its digits in groups of three.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
