package scenario

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"kshare"
	"kshare/clock"
	"kshare/protocol/describe"
)

// Play is a run whose commands come one by one. It is used by one goroutine at a time.
type Play struct {
	runner *runner
	names  *slipWatch
	lines  int // of the commands that were run
}

// NewPlay begins a run on a target, which Close closes.
func NewPlay(t Target, o Options) *Play {
	return &Play{runner: newRunner(t, o), names: newSlipWatch()}
}

// Check tells what can be told to be wrong with a command without running it. The error is a *Mistake.
func (p *Play) Check(command string) error {
	_, _, err := p.parse(command)
	return err
}

// parse takes a command apart. noted is called once it was run.
func (p *Play) parse(command string) (c *call, noted func(), err error) {
	switch {
	case len(command) > maxLine:
		err = mistakef("a line of %d bytes, it may have %d", len(command), maxLine)
	case strings.ContainsAny(command, "\n\r\x00"):
		err = mistakef("a command is one line of text")
	case strings.TrimSpace(command) == "" || strings.HasPrefix(strings.TrimSpace(command), "#"):
		err = mistakef("there is no command in it")
	}
	if err != nil {
		return nil, nil, p.mistake(err)
	}
	if c, err = parseCommand(command); err != nil {
		return nil, nil, p.mistake(mistakeFrom(err))
	}
	if noted, err = p.names.check(c, p.lines+1); err != nil {
		return nil, nil, p.mistake(err)
	}
	if !c.possible(p.runner.world.target) {
		return nil, nil, p.mistake(mistakef("%s is not possible here", c.name))
	}
	return c, noted, nil
}

// Do runs a command and returns the lines that it shows. An error is a *Mistake of the command, whose line is its place in the run, or says what the target could not do, or that the
// context has ended. Where Check finds nothing wrong, a command that fails may have done something before.
func (p *Play) Do(ctx context.Context, command string) ([]string, error) {
	c, noted, err := p.parse(command)
	if err != nil {
		return nil, err
	}
	w := p.runner.world
	w.ctx = ctx
	shown, err := w.execute(c)
	var no endsComparison
	if errors.As(err, &no) {
		err = mistakef("%s cannot be done here: %s", c.name, no.why)
	}
	for _, l := range shown {
		p.runner.shown += len(l) + 1
	}
	if most := p.runner.maxShown; err == nil && most > 0 && p.runner.shown > most {
		err = mistakef("the commands up to this one show %d bytes, they may show %d", p.runner.shown, most)
	}
	if err != nil {
		return nil, p.mistake(err)
	}
	noted()
	p.lines++
	return shown, nil
}

// mistake says in which line of the run something went wrong.
func (p *Play) mistake(err error) error { return located(err, "", p.lines+1) }

// Cluster is the cluster in the process, nil where there is none, yet. A restart makes another one.
func (p *Play) Cluster() *kshare.Cluster { return p.runner.world.target.cluster() }

// Now is the time of the run.
func (p *Play) Now() time.Time { return p.runner.world.target.now() }

// Virtual tells whether time stands still until it is moved.
func (p *Play) Virtual() bool { return p.runner.world.target.virtual() }

// NextTimer is when something is due next on a virtual clock, false where nothing is, or the clock is not virtual.
func (p *Play) NextTimer() (time.Time, bool) {
	if l, ok := p.runner.world.target.(*Local); ok {
		return l.clock.NextDeadline()
	}
	return time.Time{}, false
}

// Duration writes a duration as a command takes it and as scenarios show it.
func Duration(d time.Duration) string { return show(d) }

// MaxAdvance is how long one advance may be.
const MaxAdvance = maxDuration

// Reach is the latest time to which the run can be moved.
func Reach() time.Time { return clock.Last }

// Name is the script's name for the id of a member, or the id where it has none.
func (p *Play) Name(id string) string {
	if name, ok := p.runner.world.names.known[id]; ok {
		return name
	}
	return id
}

// ProducerName is the script's name for a producer id, "" where it has none.
func (p *Play) ProducerName(id int64) string {
	return strings.Trim(p.runner.world.names.producers[id], "<>")
}

// TopicName is the script's name for a topic's id, "" where it has none.
func (p *Play) TopicName(id [16]byte) string { return p.runner.world.byID[id] }

// Known is what the script has names for, each in order.
type Known struct {
	Members    map[string][]string // by group
	Producers  []string
	Background []string
}

// Known tells what the script has names for.
func (p *Play) Known() Known {
	w := p.runner.world
	k := Known{Members: map[string][]string{}, Producers: slices.Sorted(maps.Keys(w.producers)), Background: []string{}}
	for m := range w.members {
		k.Members[m.group] = append(k.Members[m.group], m.name)
	}
	for _, names := range k.Members {
		slices.Sort(names)
	}
	for _, st := range w.strands {
		k.Background = append(k.Background, st.name)
	}
	return k
}

// TopicIDText is a topic's id in Kafka's text form.
func TopicIDText(id [16]byte) string { return describe.UUIDText(id) }

// Close ends the run and what it has started.
func (p *Play) Close() error { return p.runner.world.end() }

// CommandInfo describes a command of the language.
type CommandInfo struct {
	Name       string   `json:"name"`
	Usage      string   `json:"usage"`
	Summary    string   `json:"summary"`
	Example    string   `json:"example"` // a whole scenario
	Options    []string `json:"options"`
	Background bool     `json:"background"` // it may end in &name
	Wire       bool     `json:"wire"`       // a real Kafka knows it too
}

// Commands are all commands in the order of their names.
func Commands() []CommandInfo {
	all := []CommandInfo{}
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		c := commands[name]
		all = append(all, CommandInfo{name, c.usage, c.summary, strings.TrimPrefix(c.example, "\n"), append([]string{}, c.optionNames...), c.mayRunBehind(), c.reach == anywhere})
	}
	return all
}

// Place is what a command's usage calls the word that would be appended to a command line, "" where there is no such word, and the words that the line has.
func Place(line string) (command CommandInfo, place string, words []string, ok bool) {
	all, _, err := split(line)
	if err != nil || len(all) == 0 || commands[all[0].text] == nil {
		return CommandInfo{}, "", nil, false
	}
	c := &call{command: commands[all[0].text]}
	for _, w := range all[1:] {
		key, _, isOption := strings.Cut(w.text, "=")
		if !w.quoted && isOption && slices.Contains(c.optionNames, key) {
			continue
		}
		words = append(words, w.text)
	}
	info := CommandInfo{Name: c.name, Usage: c.usage, Summary: c.summary, Options: c.optionNames}
	return info, c.usagePlaces()(len(words)), words, true
}

// FileBlock is a part of a scenario's file: text, then commands, then what they are to show.
type FileBlock struct {
	Text     []string // comments and blank lines before the commands
	Commands []string
	Lines    []int // of the commands
	Stated   bool  // what the commands are to show is there
	Expected []string
}

// Blocks are the parts of the file. The last may have no commands.
func (f *File) Blocks() (all []FileBlock) {
	for _, b := range f.blocks {
		x := FileBlock{Text: b.text, Stated: b.stated, Expected: b.expected}
		for _, l := range b.commands {
			x.Commands, x.Lines = append(x.Commands, l.text), append(x.Lines, l.number)
		}
		all = append(all, x)
	}
	return all
}
