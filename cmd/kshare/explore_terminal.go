package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/term"

	"kshare/explore"
)

// together is a writer that several write to, one after the other.
type together struct {
	mu sync.Mutex
	w  io.Writer
}

func (t *together) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(b)
}

// maxHistory is how many lines are remembered.
const maxHistory = 1000

// history is the lines that were typed. It implements term.History.
type history struct {
	name  string
	lines []string // the oldest first
}

// Add implements term.History.
func (h *history) Add(line string) {
	if line == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	if h.lines = append(h.lines, line); len(h.lines) > maxHistory {
		h.lines = h.lines[1:]
	}
}

// Len implements term.History.
func (h *history) Len() int { return len(h.lines) }

// At implements term.History.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// save writes the lines to the file, if it has one.
func (h *history) save() error {
	if h.name == "" || len(h.lines) == 0 {
		return nil
	}
	if err := os.WriteFile(filepath.Clean(h.name), []byte(strings.Join(h.lines, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("--history: %w", err)
	}
	return nil
}

// completing completes lines at a terminal.
type completing struct {
	terminal *explore.Terminal
	screen   *term.Terminal
}

// key completes the line at the tabulator: as far as all candidates agree, and where that is no further it lists them.
func (c *completing) key(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	from, all := c.terminal.Candidates(line[:pos])
	if len(all) == 0 {
		return line, pos, true
	}
	common := all[0].Text
	for _, x := range all[1:] {
		for !strings.HasPrefix(x.Text, common) {
			common = common[:len(common)-1]
		}
	}
	if len(all) == 1 && !strings.HasSuffix(common, "=") {
		common += " "
	}
	if common == line[from:pos] || len(common) <= pos-from {
		c.list(all)
		return line, pos, true
	}
	return line[:from] + common + line[pos:], from + len(common), true
}

// list prints candidates.
func (c *completing) list(all []explore.Candidate) {
	const most = 30
	var b strings.Builder
	for i, x := range all {
		if i == most {
			fmt.Fprintf(&b, "and %d more\n", len(all)-most)
			break
		}
		help := []rune(x.Help)
		if len(help) > 60 {
			help = append(help[:57], []rune("...")...)
		}
		fmt.Fprintf(&b, "  %-24s %s\n", x.Text, string(help))
	}
	_, _ = io.WriteString(c.screen, b.String()) // the next line says so if the terminal is gone
}
