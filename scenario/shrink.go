package scenario

import (
	"slices"
	"strings"
)

// Shrink looks for a shorter scenario of which differs is still true, asking at most budget times: first commands are left out, in halves, quarters and so on, then
// single words of those that remain. The first command stays.
func Shrink(f *File, budget int, differs func(*File) bool) (*File, error) {
	s := &shrinking{name: f.Name, lines: f.commandLines(), budget: budget, differs: differs}
	for size := (len(s.lines) - 1) / 2; size > 0; {
		if !s.leaveOut(size) {
			size /= 2
		}
	}
	for i := 1; i < len(s.lines); i++ {
		s.leaveOutWords(i)
	}
	return fromLines(s.name, s.lines)
}

// shrinking is a scenario on its way to a shorter one.
type shrinking struct {
	name    string
	lines   []string
	budget  int
	differs func(*File) bool
}

// try takes other lines if the difference is still there.
func (s *shrinking) try(lines []string) bool {
	f, err := fromLines(s.name, lines)
	if err != nil || s.budget <= 0 {
		return false
	}
	s.budget--
	if !s.differs(f) {
		return false
	}
	s.lines = lines
	return true
}

// leaveOut tries to do without each run of so many lines, the last first, and tells whether it could do without any.
func (s *shrinking) leaveOut(size int) (any bool) {
	for at := len(s.lines) - size; at > 0; at -= size {
		any = s.try(slices.Concat(s.lines[:at], s.lines[at+size:])) || any
	}
	return any
}

// leaveOutWords tries to do without each word of a line but its first.
func (s *shrinking) leaveOutWords(i int) {
	for at := len(strings.Fields(s.lines[i])) - 1; at > 0; at-- {
		words := strings.Fields(s.lines[i])
		if at >= len(words) {
			continue
		}
		lines := slices.Clone(s.lines)
		lines[i] = strings.Join(slices.Delete(words, at, at+1), " ")
		s.try(lines)
	}
}

// commandLines are the commands of all blocks.
func (f *File) commandLines() (lines []string) {
	for _, b := range f.blocks {
		for _, l := range b.commands {
			lines = append(lines, l.text)
		}
	}
	return lines
}

func fromLines(name string, lines []string) (*File, error) {
	return Parse(name, []byte(strings.Join(lines, "\n")+"\n"+separator+"\n"))
}

// Text is the scenario as it was read.
func (f *File) Text() string {
	expected := make([][]string, len(f.blocks))
	for i, b := range f.blocks {
		expected[i] = b.expected
	}
	return string(f.format(expected))
}
