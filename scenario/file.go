package scenario

import (
	"bytes"
	"fmt"
	"strings"
)

// File is a scenario as it was read.
type File struct {
	Name   string
	blocks []block
}

// block is commands and what they are to show, or text between blocks, which has no commands.
type block struct {
	text     []string // comments and blank lines before the commands
	commands []line
	stated   bool // what the commands are to show is there, be it nothing
	expected []string
	end      int // the line after the last
}

// line is a command and its line number, 1 for the first.
type line struct {
	number int
	text   string
}

const separator = "----"

// MaxFile is how long a scenario may be, in bytes, inclusive.
const MaxFile = 16 << 20

// Limits of a script, so that a hostile one is refused before it costs anything.
const (
	maxLine     = 1 << 20
	maxCommands = 100_000
)

// Mistake is what is wrong with a script.
type Mistake struct {
	File   string
	Line   int // 1 for the first, 0 for the whole file
	Reason string
}

// newMistake makes a mistake. Its reason repeats little of long words.
func newMistake(file string, line int, reason string) *Mistake {
	words := strings.Split(reason, " ")
	for i, w := range words {
		if len(w) > maxWord {
			words[i] = w[:maxWord] + "..."
		}
	}
	return &Mistake{file, line, strings.Join(words, " ")}
}

// maxWord is how much of a word an error repeats, in bytes.
const maxWord = 200

func (m *Mistake) Error() string {
	if m.Line == 0 {
		return fmt.Sprintf("%s: %s", m.File, m.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Reason)
}

// Parse reads a scenario. The name is used in errors. An error is a *Mistake.
func Parse(name string, text []byte) (*File, error) {
	f := &File{Name: name}
	if len(text) > MaxFile {
		return nil, &Mistake{File: name, Reason: fmt.Sprintf("a scenario of %d bytes, it may have %d", len(text), MaxFile)}
	}
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return nil, &Mistake{File: name, Line: 1 + bytes.Count(text[:i], []byte("\n")), Reason: "a zero byte: this is no text"}
	}
	var b block
	commands := 0
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	for i := 0; i < len(lines); i++ {
		s := lines[i]
		switch {
		case len(s) > maxLine:
			return nil, &Mistake{name, i + 1, fmt.Sprintf("a line of %d bytes, it may have %d", len(s), maxLine)}
		case s == separator:
			if len(b.commands) == 0 {
				return nil, &Mistake{name, i + 1, "a line " + separator + " without a command before it"}
			}
			b.stated = true
			for i++; i < len(lines) && lines[i] != ""; i++ {
				b.expected = append(b.expected, lines[i])
			}
			b.end = i
			f.blocks = append(f.blocks, b)
			b = block{}
			i-- // the blank line belongs to what follows
		case strings.TrimSpace(s) == "" || strings.HasPrefix(strings.TrimSpace(s), "#"):
			if len(b.commands) > 0 && strings.TrimSpace(s) != "" {
				return nil, &Mistake{name, i + 1, "a comment between commands and their " + separator}
			}
			if len(b.commands) > 0 {
				// Commands without an expectation: what they show is not written yet.
				b.end = i
				f.blocks = append(f.blocks, b)
				b = block{}
			}
			b.text = append(b.text, s)
		default:
			if commands++; commands > maxCommands {
				return nil, &Mistake{name, i + 1, fmt.Sprintf("more than %d commands", maxCommands)}
			}
			b.commands = append(b.commands, line{i + 1, s})
		}
	}
	if len(b.commands) > 0 || len(b.text) > 0 {
		b.end = len(lines)
		f.blocks = append(f.blocks, b)
	}
	var calls []*call
	var numbers []int
	for _, b := range f.blocks {
		for _, l := range b.commands {
			c, err := parseCommand(l.text)
			if err != nil {
				return nil, newMistake(name, l.number, err.Error())
			}
			calls, numbers = append(calls, c), append(numbers, l.number)
		}
	}
	if m := slipOfName(calls, numbers); m != nil {
		m.File = name
		return nil, m
	}
	return f, nil
}

// Commands is the number of commands.
func (f *File) Commands() (n int) {
	for _, b := range f.blocks {
		n += len(b.commands)
	}
	return n
}

// Format writes the scenario, with what was shown by each block in place of what it is to show.
func (f *File) format(shown [][]string) []byte {
	var out bytes.Buffer
	for i, b := range f.blocks {
		for _, s := range b.text {
			out.WriteString(s + "\n")
		}
		if len(b.commands) == 0 {
			continue
		}
		for _, l := range b.commands {
			out.WriteString(l.text + "\n")
		}
		out.WriteString(separator + "\n")
		for _, s := range shown[i] {
			out.WriteString(s + "\n")
		}
	}
	return out.Bytes()
}
