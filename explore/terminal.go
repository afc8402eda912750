package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"kshare/scenario"
)

// Board is what a terminal shows and drives: a session in the process, or the running cluster of another one.
type Board interface {
	Do(ctx context.Context, command string) (Step, error)
	ToNextTimer(ctx context.Context, join bool) (Step, error)
	View() *View
	Events(since uint64, limit int) (events []Event, last, lost uint64)
	Event(n uint64) (Decoded, error)
	Complete(line string) (from int, candidates []Candidate)
}

// Terminal is the explorer as lines of text.
type Terminal struct {
	board   Board
	session *Session // nil where the board is no run of a script
	out     io.Writer
	refused int
	file    string // that was loaded or saved last
}

// NewTerminal makes a terminal of a board that writes to out.
func NewTerminal(b Board, out io.Writer) *Terminal {
	s, _ := b.(*Session)
	return &Terminal{board: b, session: s, out: out}
}

// Refused is how many commands were refused.
func (t *Terminal) Refused() int { return t.refused }

// word is a command of the terminal itself.
type word struct {
	name, usage, help string
	most              int  // words behind it; with more it is a command of scenarios
	scripted          bool // it is of a run of a script
	run               func(t *Terminal, ctx context.Context, args []string) error
}

// words are the terminal's own commands, which are no part of the script.
var words []word

func init() {
	words = []word{
		{"help", "help [COMMAND]", "Lists the commands, or describes one.", 1, false, (*Terminal).help},
		{"undo", "undo [N]", "Takes back the last command, or the last N.", 1, true, (*Terminal).undo},
		{"redo", "redo [N]", "Does again what was undone.", 1, true, (*Terminal).redo},
		{"next", "next", "Lets time pass until the next thing is due.", 0, false, (*Terminal).next},
		{"timers", "timers", "Lists what is due, and when.", 0, false, (*Terminal).timers},
		{"state", "state [GROUP]", "Draws the groups, their records and the transactions.", 1, false, (*Terminal).state},
		{"events", "events [N]", "Lists the last requests and answers, 10 or N.", 1, false, (*Terminal).events},
		{"event", "event N", "Shows the fields of a request or an answer.", 1, false, (*Terminal).event},
		{"script", "script", "Prints the script with what it has shown.", 0, true, (*Terminal).script},
		{"save", "save FILE", "Writes the script to a file, which kshare run takes. save --force FILE replaces another file.", 2, true, (*Terminal).save},
		{"load", "load FILE", "Runs the script of a file in place of this one.", 1, true, (*Terminal).load},
		{"export", "export FILE", "Writes what has changed the state to a file, an event a line: docs/traces.md.", 1, true, (*Terminal).export},
		{"quit", "quit", "Ends.", 0, false, func(*Terminal, context.Context, []string) error { return io.EOF }},
	}
}

// Line takes one line: a command of the terminal or of scenarios. It returns io.EOF where that ends the terminal; what is wrong otherwise is said, not returned, unless writing it fails.
func (t *Terminal) Line(ctx context.Context, line string) error {
	line = strings.TrimSpace(line)
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	err := t.line(ctx, line)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	t.refused++
	var m *scenario.Mistake
	text := err.Error()
	if errors.As(err, &m) && err == error(m) && m.File == "" {
		text = m.Reason
	}
	_, failed := fmt.Fprintf(t.out, "error: %s\n", text)
	return failed
}

func (t *Terminal) line(ctx context.Context, line string) error {
	fields := strings.Fields(line)
	for i := range words {
		w := &words[i]
		if w.name != fields[0] || len(fields)-1 > w.most && isCommand(w.name) {
			continue
		}
		switch {
		case len(fields)-1 > w.most:
			return fmt.Errorf("usage: %s", w.usage)
		case w.scripted && t.session == nil:
			return ErrLive
		}
		return w.run(t, ctx, fields[1:])
	}
	if !isCommand(fields[0]) {
		return fmt.Errorf("there is no command %q%s; help lists them", clip(fields[0]), suggest(clip(fields[0]), commandNames()))
	}
	step, err := t.board.Do(ctx, line)
	if err != nil {
		return err
	}
	return t.show(&step)
}

// commandNames are the names of all commands.
func commandNames() (names []string) {
	for _, c := range scenario.Commands() {
		names = append(names, c.Name)
	}
	for _, w := range words {
		names = append(names, w.name)
	}
	return names
}

func isCommand(name string) bool {
	return slices.ContainsFunc(scenario.Commands(), func(c scenario.CommandInfo) bool { return c.Name == name })
}

// show prints what a command has shown and what has changed.
func (t *Terminal) show(s *Step) error {
	var b strings.Builder
	for _, l := range s.Shown {
		b.WriteString(l + "\n")
	}
	if !s.Ended.Equal(s.Began) {
		fmt.Fprintf(&b, "  time %s -> %s\n", Clock(s.Began, s.Ended), Clock(s.Ended, s.Began))
	}
	changesWords(&b, s.Changes, s.MoreChanges)
	_, err := io.WriteString(t.out, b.String())
	return err
}

func changesWords(b *strings.Builder, changes []Change, more int) {
	for _, c := range changes {
		b.WriteString("  * " + c.Text + "\n")
	}
	if more > 0 {
		fmt.Fprintf(b, "  * and %d changes more\n", more)
	}
}

func (t *Terminal) print(text string) error {
	_, err := io.WriteString(t.out, text)
	return err
}

func (t *Terminal) help(_ context.Context, args []string) error {
	if len(args) == 1 && !slices.ContainsFunc(words, func(w word) bool { return w.name == args[0] && !isCommand(w.name) }) {
		text, err := scenario.Help(args[0])
		if err != nil {
			return err
		}
		return t.print(text)
	}
	var b strings.Builder
	for _, w := range words {
		if len(args) == 0 || args[0] == w.name {
			fmt.Fprintf(&b, "%-22s %s\n", w.usage, w.help)
		}
	}
	if len(args) == 0 {
		text, err := scenario.Help("")
		if err != nil {
			return err
		}
		b.WriteString("\nCommands of scenarios, which become the script:\n\n" + text)
	}
	return t.print(b.String())
}

// count is the number that a command may have, 1 or another without it.
func count(args []string, without int) (int, error) {
	if len(args) == 0 {
		return without, nil
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 || n > MaxCommands {
		return 0, fmt.Errorf("%q is no number from 1 to %d", clip(args[0]), MaxCommands)
	}
	return n, nil
}

func (t *Terminal) undo(_ context.Context, args []string) error {
	n, err := count(args, 1)
	if err != nil {
		return err
	}
	before := t.session.View()
	undone := t.session.Steps(max(0, t.session.State().Steps-n))
	if n, err = t.session.Undo(n); err != nil {
		return err
	}
	if n == 0 {
		return errors.New("there is nothing to undo")
	}
	var b strings.Builder
	slices.Reverse(undone)
	for _, s := range undone {
		fmt.Fprintf(&b, "undone: %s\n", s.Command)
	}
	changes, more := diff(before, t.session.View())
	changesWords(&b, changes, more)
	return t.print(b.String())
}

func (t *Terminal) redo(ctx context.Context, args []string) error {
	n, err := count(args, 1)
	if err != nil {
		return err
	}
	steps, err := t.session.Redo(ctx, n)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		return errors.New("there is nothing to do again")
	}
	for i := range steps {
		if err := t.print("done again: " + steps[i].Command + "\n"); err != nil {
			return err
		}
		if err := t.show(&steps[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *Terminal) next(ctx context.Context, _ []string) error {
	step, err := t.board.ToNextTimer(ctx, false)
	if err != nil {
		return err
	}
	if err := t.print(step.Command + "\n"); err != nil {
		return err
	}
	return t.show(&step)
}

func (t *Terminal) timers(context.Context, []string) error {
	v := t.board.View()
	var b strings.Builder
	fmt.Fprintf(&b, "now %s\n", v.Time.Format("2006-01-02 15:04:05.999"))
	for _, x := range v.Timers {
		fmt.Fprintf(&b, "in %-10s %s\n", scenario.Duration(x.At.Sub(v.Time).Round(time.Millisecond)), x.Text)
	}
	if v.More.Timers > 0 {
		fmt.Fprintf(&b, "and %d more\n", v.More.Timers)
	}
	return t.print(b.String())
}

func (t *Terminal) state(_ context.Context, args []string) error {
	text, err := Words(t.board.View(), strings.Join(args, ""))
	if err != nil {
		return err
	}
	return t.print(text)
}

func (t *Terminal) events(_ context.Context, args []string) error {
	n, err := count(args, 10)
	if err != nil {
		return err
	}
	events, _, _ := t.board.Events(0, n)
	var b strings.Builder
	for i := range events {
		b.WriteString(events[i].Words() + "\n")
	}
	if len(events) == 0 {
		b.WriteString("There was no request.\n")
	}
	return t.print(b.String())
}

func (t *Terminal) event(_ context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: event N; events lists them with their numbers")
	}
	n, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return fmt.Errorf("%q is no number of an event; events lists them", clip(args[0]))
	}
	d, err := t.board.Event(n)
	if err != nil {
		return err
	}
	fields, err := json.MarshalIndent(d.Fields, "", "  ")
	if err != nil {
		return err
	}
	text := d.Words() + "\n"
	if d.Undecodable != "" {
		text += d.Undecodable + "\n"
	} else {
		text += string(fields) + "\n"
	}
	for _, l := range d.LeftOut {
		text += "not kept: " + l + "\n"
	}
	return t.print(text)
}

func (t *Terminal) script(context.Context, []string) error {
	text, err := t.session.Script()
	if err != nil {
		return err
	}
	return t.print(text)
}

func (t *Terminal) save(_ context.Context, args []string) error {
	force := len(args) == 2 && args[0] == "--force"
	if len(args) != 1 && !force {
		return errors.New("usage: save FILE")
	}
	name := args[len(args)-1]
	text, err := t.session.Script()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(name); err == nil && !force && t.file != filepath.Clean(name) {
		return fmt.Errorf("%s is there already: save --force %[1]s replaces it", name)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return err
	}
	t.file = filepath.Clean(name)
	return t.print(fmt.Sprintf("%s: %s; kshare run %[1]s runs it\n", name, plural(t.session.State().Steps, "command")))
}

func (t *Terminal) load(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: load FILE")
	}
	return t.Load(ctx, args[0])
}

// Load runs the script of a file in place of the session's.
func (t *Terminal) Load(ctx context.Context, name string) error {
	text, err := ReadScript(name)
	if err != nil {
		return err
	}
	_, differing, err := t.session.Edit(ctx, text)
	if err != nil {
		var m *scenario.Mistake
		if errors.As(err, &m) {
			m.File = name
		}
		return err
	}
	t.file = filepath.Clean(name)
	steps := t.session.Steps(0)
	for i := range steps {
		if err := t.print("> " + steps[i].Command + "\n"); err != nil {
			return err
		}
		if err := t.show(&steps[i]); err != nil {
			return err
		}
	}
	if differing > 0 {
		return t.print(fmt.Sprintf("%s: %s show something else than it says\n", name, plural(differing, "block")))
	}
	return nil
}

// ReadScript reads the script of a file, as far as one may be long.
func ReadScript(name string) (string, error) {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxScript+1))
	if err == nil && len(text) > MaxScript {
		err = fmt.Errorf("%s has more than the %d bytes that a script may have", name, MaxScript)
	}
	return string(text), err
}

func (t *Terminal) export(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: export FILE")
	}
	text, err := t.session.Script()
	if err != nil {
		return err
	}
	if err := ExportFile(ctx, text, args[0]); err != nil {
		return err
	}
	return t.print(args[0] + ": written\n")
}

// ExportFile runs a script and writes what Export does to a file, which is there as a whole or not at all.
func ExportFile(ctx context.Context, script, name string) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(Export(ctx, script, f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Candidates completes a line of the terminal.
func (t *Terminal) Candidates(line string) (from int, all []Candidate) {
	fields := strings.Fields(line)
	if len(fields) == 0 || len(fields) == 1 && !strings.HasSuffix(line, " ") {
		prefix := strings.TrimSpace(line)
		for _, w := range words {
			if strings.HasPrefix(w.name, prefix) && !isCommand(w.name) && (!w.scripted || t.session != nil) {
				all = append(all, Candidate{w.name, w.help})
			}
		}
		at, more := t.board.Complete(line)
		all = append(all, more...)
		slices.SortFunc(all, func(a, b Candidate) int { return strings.Compare(a.Text, b.Text) })
		return at, all
	}
	if fields[0] == "help" {
		from = strings.LastIndexByte(line, ' ') + 1
		for _, name := range commandNames() {
			if strings.HasPrefix(name, line[from:]) {
				all = append(all, Candidate{Text: name})
			}
		}
		slices.SortFunc(all, func(a, b Candidate) int { return strings.Compare(a.Text, b.Text) })
		return from, slices.CompactFunc(all, func(a, b Candidate) bool { return a.Text == b.Text })
	}
	return t.board.Complete(line)
}
