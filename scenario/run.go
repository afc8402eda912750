package scenario

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options say how a scenario is run.
type Options struct {
	// Prefix is put before every name of a topic, group and the like that the script uses, and taken away from what is shown, so that runs against
	// one cluster do not meet.
	Prefix string
	// MaxShown bounds the bytes that all commands show together, 0 does not. A command that shows more ends the run.
	MaxShown int
	// MaxProduced bounds the bytes of keys and values that are produced, 0 for what any scenario may.
	MaxProduced int
}

// Report is what a run has shown.
type Report struct {
	File   *File
	Blocks []BlockReport
	// topicIDs are the ids that topics had, by name on the wire, in the order of their appearance.
	topicIDs map[string][][16]byte
}

// BlockReport is what the commands of a block have shown.
type BlockReport struct {
	Commands []CommandReport
	Stated   bool     // the file says what they are to show, be it nothing
	Expected []string // lines
	// Compared tells whether what was shown can be held against what is expected: not where a command was left out.
	Compared bool
	// Stopped tells that the run ended in the block, by a mistake or because the target could not go on.
	Stopped bool
}

// CommandReport is what a command has shown.
type CommandReport struct {
	Line    int
	Command string
	Shown   []string // lines
	// Omitted is why the command was not run, "" where it was.
	Omitted string
}

// Shown is what the commands of the block have shown together.
func (b *BlockReport) Shown() (lines []string) {
	for _, c := range b.Commands {
		lines = append(lines, c.Shown...)
	}
	return lines
}

// Fails tells whether the block shows something else than is expected.
func (b *BlockReport) Fails() bool { return b.Compared && !slices.Equal(b.Shown(), b.Expected) }

// Failed counts the blocks that show something else than is expected.
func (r *Report) Failed() (n int) {
	for i := range r.Blocks {
		if r.Blocks[i].Fails() {
			n++
		}
	}
	return n
}

// Rewritten is the file with what was shown in place of what is expected.
func (r *Report) Rewritten() []byte {
	shown := make([][]string, len(r.File.blocks))
	i := 0
	for k, b := range r.File.blocks {
		if len(b.commands) > 0 && i < len(r.Blocks) { // a run that was stopped has shown less
			shown[k] = r.Blocks[i].Shown()
			i++
		}
	}
	return r.File.format(shown)
}

// Differences writes each block that shows something else than is expected.
func (r *Report) Differences() string {
	var b strings.Builder
	for i := range r.Blocks {
		if x := &r.Blocks[i]; x.Fails() {
			fmt.Fprintf(&b, "%s:%d:\n", r.File.Name, x.Commands[0].Line)
			for _, c := range x.Commands {
				fmt.Fprintf(&b, "  %s\n", c.Command)
			}
			for _, l := range lineDiff(x.Expected, x.Shown()) {
				fmt.Fprintf(&b, "    %s\n", l)
			}
		}
	}
	return b.String()
}

// Run runs a scenario and closes the target. The report tells what was shown as far as the run came; an error is a *Mistake of the script or
// says what the target could not do.
func Run(f *File, t Target, o Options) (*Report, error) {
	return RunContext(context.Background(), f, t, o)
}

// RunContext is Run until the context ends, which is an error.
func RunContext(ctx context.Context, f *File, t Target, o Options) (*Report, error) {
	r := newRunner(t, o)
	r.world.ctx = ctx
	report := &Report{File: f}
	err := r.file(f, report)
	report.topicIDs = r.world.made
	return report, errors.Join(err, r.world.end())
}

// runner runs commands one after the other.
type runner struct {
	world    *world
	over     string // why nothing more is run, "" before
	maxShown int    // as in Options
	shown    int
}

func newRunner(t Target, o Options) *runner {
	w := newWorld(t, o.Prefix)
	if o.MaxProduced > 0 {
		w.maxProduced = o.MaxProduced
	}
	return &runner{world: w, maxShown: o.MaxShown}
}

func (r *runner) file(f *File, report *Report) error {
	for _, b := range f.blocks {
		if len(b.commands) == 0 {
			continue
		}
		report.Blocks = append(report.Blocks, BlockReport{Stated: b.stated, Expected: b.expected, Compared: true})
		x := &report.Blocks[len(report.Blocks)-1]
		for _, l := range b.commands {
			c, err := r.command(l)
			x.Commands = append(x.Commands, c)
			x.Compared = x.Compared && c.Omitted == ""
			if err != nil {
				x.Compared, x.Stopped = false, true
				return located(err, f.Name, l.number)
			}
		}
	}
	return nil
}

// located says where in a script something went wrong.
func located(err error, file string, line int) error {
	var m mistake
	if errors.As(err, &m) {
		return newMistake(file, line, m.reason)
	}
	return fmt.Errorf("%s:%d: %w", file, line, err)
}

// command runs one line.
func (r *runner) command(l line) (CommandReport, error) {
	report := CommandReport{Line: l.number, Command: l.text}
	c, err := parseCommand(l.text)
	if err != nil {
		return report, mistakeFrom(err)
	}
	if r.over == "" && !c.possible(r.world.target) {
		report.Omitted = "a real Kafka does not show this"
		if !c.looks {
			report.Omitted = c.name + " cannot be done to a real Kafka"
			r.over = "it comes after " + c.text + ", which cannot be done to a real Kafka"
		}
		return report, nil
	}
	if r.over != "" {
		report.Omitted = r.over
		return report, nil
	}
	lines, err := r.world.execute(c)
	var end endsComparison
	if errors.As(err, &end) {
		r.over = end.why
		report.Omitted = end.why
		return report, nil
	}
	report.Shown = lines
	for _, l := range lines {
		r.shown += len(l) + 1
	}
	if err == nil && r.maxShown > 0 && r.shown > r.maxShown {
		err = mistakef("the commands up to this one show %d bytes, they may show %d", r.shown, r.maxShown)
		report.Shown = nil
	}
	return report, err
}

// endsComparison is the error of a command after which a run against a real Kafka has nothing more to say.
type endsComparison struct{ why string }

func (e endsComparison) Error() string { return e.why }

// strand is a command on its way.
type strand struct {
	name     string
	step     *step
	next     func() (struct{}, bool)
	stop     func()
	finished bool
	ended    time.Time
	err      error
	timed    bool
}

// begin starts a command and runs it up to where it waits.
func (w *world) begin(c *call) *strand {
	st := &strand{name: c.background, step: &step{world: w, began: w.target.now(), behind: c.background}, timed: c.waits || c.background != ""}
	st.next, st.stop = iter.Pull(func(yield func(struct{}) bool) {
		st.step.yield = yield
		st.err = c.run(st.step, c)
	})
	st.resume()
	return st
}

func (st *strand) resume() {
	if st.finished {
		return
	}
	if _, more := st.next(); !more {
		st.finished, st.ended = true, st.step.target.now()
	}
}

// poll lets the commands in the background go on that can.
func (w *world) poll() {
	for _, st := range w.strands {
		st.resume()
	}
}

// complete runs a command to its end, letting time pass. It fails where the run is to end before.
func (w *world) complete(st *strand) error {
	for !st.finished {
		if w.ctx.Err() != nil {
			st.stop()
			return fmt.Errorf("the run was ended: %w", context.Cause(w.ctx))
		}
		w.poll()
		if st.resume(); st.finished {
			break
		}
		limit := w.wake
		w.wake = time.Time{}
		w.target.pass(w.ctx, limit)
	}
	w.poll()
	return nil
}

// maxBackground is how many commands may run in the background at a time: each is looked after as every other command runs.
const maxBackground = 1000

// execute runs a command and returns the lines that it shows.
func (w *world) execute(c *call) ([]string, error) {
	if !w.ready && c.name != "cluster" {
		cluster := &call{command: &command{run: func(s *step, _ *call) error { return s.setUp(settings{brokers: 1}) }}}
		if _, err := w.foreground(cluster); err != nil {
			return nil, err
		}
	}
	if c.background == "" {
		return w.foreground(c)
	}
	if len(w.strands) >= maxBackground {
		return nil, mistakef("%d commands run in the background already: wait for some of them", maxBackground)
	}
	if slices.ContainsFunc(w.strands, func(st *strand) bool { return st.name == c.background }) {
		return nil, mistakef("%s runs already; wait for it first", c.background)
	}
	st := w.begin(c)
	w.strands = append(w.strands, st)
	w.poll()
	if st.finished && st.fails() {
		return nil, st.err
	}
	if w.target.virtual() {
		return nil, nil
	}
	_, err := w.foreground(&call{command: &command{run: func(s *step, _ *call) error { return s.sleep(headStart) }}})
	return nil, err
}

// headStart is how long a real Kafka may take to get what a command in the background asks, before the next command goes there.
const headStart = 50 * time.Millisecond

func (w *world) foreground(c *call) ([]string, error) {
	st := w.begin(c)
	if err := w.complete(st); err != nil {
		return nil, err
	}
	return st.lines()
}

// fails tells whether the command ended in something that is no result.
func (st *strand) fails() bool {
	var no noAnswer
	return st.err != nil && !errors.As(st.err, &no)
}

// lines is what a finished command shows.
func (st *strand) lines() ([]string, error) {
	if st.fails() {
		return nil, st.err
	}
	out := st.step.out.String()
	if st.err != nil {
		out += st.err.Error() + "\n"
	}
	out = st.step.names.present(out)
	if took := st.ended.Sub(st.step.began).Round(rounding); st.timed && took > 0 {
		out = "after " + show(took) + ": " + out
	}
	if out == "" {
		return nil, nil
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i, l := range lines {
		if l = strings.TrimRight(printable(l), " "); l == "" {
			l = "." // a blank line would end the block
		}
		lines[i] = l
	}
	return lines, nil
}

// printable writes control characters as Go escapes them: a name may have any, and a scenario is text.
func printable(l string) string {
	if !strings.ContainsFunc(l, isControl) {
		return l
	}
	var b strings.Builder
	for _, c := range l {
		if isControl(c) {
			quoted := strconv.QuoteRune(c)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// rounding is what times are shown in: a real broker is late by less than half of it.
const rounding = 500 * time.Millisecond
