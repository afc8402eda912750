package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Comparison is what two runs of a scenario have shown, command by command.
type Comparison struct {
	File     *File
	Commands []Compared
}

// Compared is what a command has shown on either side.
type Compared struct {
	Line        int
	Command     string
	Here, There []string
	// Omitted is why the command is not compared, "" where it is.
	Omitted string
	// Unsteady tells that the command differed in one run and not in another.
	Unsteady bool
}

// Differs tells whether the command is compared and shows different things.
func (c *Compared) Differs() bool {
	return c.Omitted == "" && !c.Unsteady && !slices.Equal(c.Here, c.There)
}

// Doubt is why a command does not count as differing though it did in some run, "" for none.
func (c *Compared) Doubt() string {
	switch {
	case c.Unsteady:
		return "differed in one run and not in another"
	case c.Omitted == variesThere:
		return c.Omitted
	}
	return ""
}

// Differ holds a kshare in the process against another Kafka, run after run.
type Differ struct {
	Here   func() *Local
	There  func() Target
	Prefix string // of names on the wire; each run adds a number of its own
	// Context ends the runs, nil for never.
	Context context.Context
	runs    int
}

// Compare runs a scenario on both sides. What differs is run again, and differs only if it does each time: a real Kafka on a busy machine is late now
// and then. Where the same input has Kafka show another thing in each run, as where writes of several partitions race, there is nothing to compare with.
func (d *Differ) Compare(f *File) (*Comparison, error) {
	c, err := d.once(f)
	if err != nil || !c.Differs() {
		return c, err
	}
	for range confirmations {
		again, err := d.once(f)
		if err != nil {
			return nil, err
		}
		for i := range c.Commands {
			c.Commands[i].confirm(&again.Commands[i])
		}
	}
	return c, nil
}

// variesThere is why a command is not compared that there is nothing to compare with.
const variesThere = "the other side shows now this and now that"

// confirm weighs what a command has shown against what it has shown in another run.
func (c *Compared) confirm(again *Compared) {
	switch {
	case !c.Differs():
	case !again.Differs():
		c.Unsteady = true
	case slices.Equal(c.Here, again.Here) && !slices.Equal(c.There, again.There):
		c.Omitted = variesThere
	}
}

// confirmations is how often a difference has to show again.
const confirmations = 2

// once runs a scenario there and then here, with the same ids of topics, for what is answered in the order of a hash map follows from them.
func (d *Differ) once(f *File) (*Comparison, error) {
	d.runs++
	o := Options{Prefix: fmt.Sprintf("%s%d-", d.Prefix, d.runs)}
	ctx := d.Context
	if ctx == nil {
		ctx = context.Background()
	}
	b, err := RunContext(ctx, f, d.There(), o)
	if err != nil {
		return nil, fmt.Errorf("there: %w", err)
	}
	local := d.Here()
	local.ids = b.topicIDs
	a, err := RunContext(ctx, f, local, o)
	if err != nil {
		return nil, fmt.Errorf("here: %w", err)
	}
	c := &Comparison{File: f}
	for i := range a.Blocks {
		for j := range a.Blocks[i].Commands {
			x, y := &a.Blocks[i].Commands[j], &b.Blocks[i].Commands[j]
			omitted := x.Omitted
			if omitted == "" {
				omitted = y.Omitted
			}
			c.Commands = append(c.Commands, Compared{Line: x.Line, Command: x.Command, Here: x.Shown, There: y.Shown, Omitted: omitted})
		}
	}
	return c, nil
}

// Shrink looks for a shorter scenario that differs too, within a number of runs, and returns what the shortest has shown: the comparison that it is given where
// none shorter differs.
func (d *Differ) Shrink(c *Comparison, budget int) (*Comparison, error) {
	_, err := Shrink(c.File, budget, func(f *File) bool {
		shorter, err := d.Compare(f)
		if err != nil || !shorter.Differs() { // without something it may be no scenario any more
			return false
		}
		c = shorter
		return true
	})
	return c, err
}

// Differs tells whether a command differs.
func (c *Comparison) Differs() bool {
	_, differ, _ := c.Tally()
	return differ > 0
}

// Tally counts the commands that agree, that differ and that are not compared.
func (c *Comparison) Tally() (agree, differ, omitted int) {
	for i := range c.Commands {
		switch x := &c.Commands[i]; {
		case x.Omitted != "":
			omitted++
		case x.Differs():
			differ++
		default:
			agree++
		}
	}
	return agree, differ, omitted
}

// sideWidth is the width of a column where two are shown side by side.
const sideWidth = 76

// SideBySide writes the commands that differ, with what either side showed, names those in doubt, and ends with a line of counts.
func (c *Comparison) SideBySide(here, there string) string {
	var b strings.Builder
	for i := range c.Commands {
		x := &c.Commands[i]
		if why := x.Doubt(); why != "" {
			fmt.Fprintf(&b, "%s:%d  %s: %s\n", c.File.Name, x.Line, x.Command, why)
		}
		if !x.Differs() {
			continue
		}
		fmt.Fprintf(&b, "%s:%d  %s\n", c.File.Name, x.Line, x.Command)
		columns(&b, here, there, ' ')
		for j := range max(len(x.Here), len(x.There)) {
			l, r := at(x.Here, j), at(x.There, j)
			mark := ' '
			if l != r {
				mark = '|'
			}
			columns(&b, l, r, mark)
		}
	}
	agree, differ, omitted := c.Tally()
	fmt.Fprintf(&b, "%s: %s, %d agree, %d differ, %d not compared\n", c.File.Name, plural(len(c.Commands), "command"), agree, differ, omitted)
	return b.String()
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// columns writes two texts side by side, as many lines as the longer needs.
func columns(b *strings.Builder, left, right string, mark rune) {
	for left != "" || right != "" {
		l, r := cutWidth(left), cutWidth(right)
		left, right = left[len(l):], right[len(r):]
		fmt.Fprintf(b, "  %-*s %c %s\n", sideWidth, l, mark, r)
	}
}

// cutWidth is the beginning of a text that fits a column.
func cutWidth(s string) string {
	n := 0
	for i := range s {
		if n == sideWidth {
			return s[:i]
		}
		n++
	}
	return s
}
