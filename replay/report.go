package replay

import (
	"fmt"
	"slices"
	"strings"
)

// Tally counts steps: those that agree, those whose differences have a reason, and all.
type Tally struct{ Agree, Explained, All int }

// Add adds the counts of another.
func (a *Tally) Add(b Tally) {
	a.Agree += b.Agree
	a.Explained += b.Explained
	a.All += b.All
}

// String is agree / explained / all.
func (a Tally) String() string {
	return fmt.Sprintf("%4d / %3d / %4d", a.Agree, a.Explained, a.All)
}

// Tally counts a report's steps by a table of divergences.
func (r *Report) Tally(table *Divergences) Tally {
	t := Tally{All: len(r.Steps)}
	for _, p := range r.Steps {
		switch {
		case len(p.Diffs) == 0:
			t.Agree++
		case table.Explains(r.Session, p):
			t.Explained++
		}
	}
	return t
}

// Masks prints how many values each rule treated.
func (r *Report) Masks() string {
	var lines []string
	for rule, n := range r.Masked {
		lines = append(lines, fmt.Sprintf("%d x %s", n, rule))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// Sides prints the recorded answers and ours, ids as each side has them.
func (p *Played) Sides() (recorded, ours string) {
	return printFrames(p.Step, p.Step.Answers), printFrames(p.Step, p.Answers)
}

func printFrames(st *Step, frames [][]byte) string {
	var b strings.Builder
	for _, f := range frames {
		if a, err := decodeAnswer(st.Key, st.Version, f); err == nil && !st.Raw {
			a.tree.Print(&b, "")
			b.WriteByte('\n')
		} else {
			fmt.Fprintf(&b, "%x\n", f)
		}
	}
	return b.String()
}
