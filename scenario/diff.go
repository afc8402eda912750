package scenario

import (
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
	Line          int
	Command       string
	First, Second []string
	// Omitted is why the command is not compared, "" where it is.
	Omitted string
}

// Differs tells whether the command is compared and shows different things.
func (c *Compared) Differs() bool { return c.Omitted == "" && !slices.Equal(c.First, c.Second) }

// Compare runs a scenario against two targets, one after the other, and closes them.
func Compare(f *File, first, second Target, o Options) (*Comparison, error) {
	a, err := Run(f, first, o)
	if err != nil {
		return nil, fmt.Errorf("first side: %w", err)
	}
	b, err := Run(f, second, o)
	if err != nil {
		return nil, fmt.Errorf("second side: %w", err)
	}
	c := &Comparison{File: f}
	for i := range a.Blocks {
		for j := range a.Blocks[i].Commands {
			x, y := &a.Blocks[i].Commands[j], &b.Blocks[i].Commands[j]
			omitted := x.Omitted
			if omitted == "" {
				omitted = y.Omitted
			}
			c.Commands = append(c.Commands, Compared{x.Line, x.Command, x.Shown, y.Shown, omitted})
		}
	}
	return c, nil
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

// SideBySide writes the commands that differ, with what either side showed, and a line of counts.
func (c *Comparison) SideBySide(first, second string) string {
	var b strings.Builder
	for i := range c.Commands {
		x := &c.Commands[i]
		if !x.Differs() {
			continue
		}
		fmt.Fprintf(&b, "%s:%d  %s\n", c.File.Name, x.Line, x.Command)
		columns(&b, first, second, ' ')
		for j := range max(len(x.First), len(x.Second)) {
			l, r := at(x.First, j), at(x.Second, j)
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
