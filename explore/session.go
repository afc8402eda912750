package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"kshare"
	"kshare/internal/spelling"
	"kshare/scenario"
)

// Bounds of a session, so that no script makes it hang or grow without end.
const (
	// MaxScript is how long a script may be, in bytes, and MaxCommands how many commands it may have.
	MaxScript   = 1 << 20
	MaxCommands = 10_000
	// CommandLimit is how long a command may take of the machine's time, RunLimit how long all may that are run anew together.
	CommandLimit = 10 * time.Second
	RunLimit     = time.Minute
	// maxShown bounds what all commands show, maxProduced what they produce, in bytes.
	maxShown    = 8 << 20
	maxProduced = 32 << 20
	// maxChanges bounds the changes that the steps of a session remember: the oldest are forgotten first.
	maxChanges = 50_000
	// maxLive bounds the commands of a running cluster that are remembered.
	maxLive = 1000
)

// ErrLive is what a session cannot do that is a running cluster.
var ErrLive = errors.New("a running cluster has no script: there is nothing to undo, and what it has done stays done")

// Session is a run of a script, or a running cluster that is looked at. It may be used from several goroutines, one command after the other.
type Session struct {
	// ID names the session among others, "" for one by itself.
	ID string

	mu      sync.Mutex
	live    *kshare.Cluster // nil for a run of a script
	play    *scenario.Play
	hub     *hub
	entries []entry
	dropped int     // entries of a running cluster that are forgotten
	undone  []entry // the one that comes next is the last
	changes int     // that the steps remember
	view    *View
	version uint64
	lost    error    // why the run could not be made anew: every later call fails with it
	tracer  *tracer  // is told what happens, nil for nobody
	looked  struct { // when a running cluster was last looked at
		at    time.Time
		count uint64
	}
	ending context.Context
	end    context.CancelFunc

	watching sync.Mutex
	watchers map[chan struct{}]bool
	closed   bool // guarded by watching
}

// entry is a command of a script.
type entry struct {
	comment []string // lines before it, as they stand in the script
	command string
	joined  bool // it is in the block of the command before
	step    Step
}

// New makes a session of an empty script.
func New() *Session {
	s := newSession()
	s.begin()
	return s
}

func newSession() *Session {
	s := &Session{watchers: map[chan struct{}]bool{}}
	s.ending, s.end = context.WithCancel(context.Background())
	return s
}

// NewLive makes a session of a running cluster, which is followed from now on until Close.
func NewLive(c *kshare.Cluster) *Session {
	s := newSession()
	s.live, s.hub, s.play = c, newHub(), scenario.NewPlay(scenario.NewLive(c), scenario.Options{MaxProduced: maxProduced})
	s.hub.wakeup = s.notify
	c.Followed().By(s.hub)
	s.look()
	return s
}

// begin begins the run anew.
func (s *Session) begin() {
	s.hub = newHub()
	s.hub.tracer = s.tracer
	followed := &kshare.Followed{}
	followed.By(s.hub)
	if s.tracer != nil {
		s.tracer.looker.names = lateNames{s}
	}
	s.play = scenario.NewPlay(scenario.NewLocal(kshare.WithFollowed(followed), kshare.WithRequestLogBytes(maxEventBytes)), scenario.Options{MaxShown: maxShown, MaxProduced: maxProduced})
	s.entries, s.changes = nil, 0
	s.look()
}

// lateNames are the names that a session has as it is asked for them.
type lateNames struct{ s *Session }

func (l lateNames) Name(id string) string        { return l.s.play.Name(id) }
func (l lateNames) TopicName(id [16]byte) string { return l.s.play.TopicName(id) }
func (l lateNames) ProducerName(id int64) string { return l.s.play.ProducerName(id) }

// look makes the view anew.
func (s *Session) look() {
	s.version++
	if s.live != nil {
		s.looked.at, s.looked.count = time.Now(), s.hub.changes()
	}
	if c := s.play.Cluster(); c != nil {
		s.view = look(c, s.hub, s.play, s.play.Virtual())
	} else {
		s.view = empty(s.play.Now(), true)
	}
	s.view.Background = s.play.Known().Background
	s.view.Version = s.version
	s.notify()
}

// Close ends the run, and what runs. The session is not used afterwards.
func (s *Session) Close() error {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching.Lock()
	for w := range s.watchers {
		close(w)
	}
	s.watchers, s.closed = nil, true
	s.watching.Unlock()
	if s.live != nil {
		s.live.Followed().By(nil)
	}
	if s.lost == nil {
		s.lost = errors.New("the session was closed")
		return s.play.Close()
	}
	return nil
}

// Live tells whether the session is a running cluster.
func (s *Session) Live() bool { return s.live != nil }

// Do runs a command. A *scenario.Mistake says what is wrong with the command; then nothing has happened.
func (s *Session) Do(ctx context.Context, command string) (Step, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return Step{}, s.lost
	}
	x := entry{command: strings.TrimSpace(command)}
	if err := s.run(ctx, &x); err != nil {
		return Step{}, err
	}
	s.undone = nil
	return x.step, nil
}

// run runs a command behind the others.
func (s *Session) run(ctx context.Context, x *entry) error {
	if len(s.entries) >= MaxCommands {
		return &scenario.Mistake{Line: len(s.entries) + 1, Reason: fmt.Sprintf("a script has %d commands at most", MaxCommands)}
	}
	if n := s.size() + len(x.command); n > MaxScript {
		return &scenario.Mistake{Line: len(s.entries) + 1, Reason: fmt.Sprintf("the script would have %d bytes, it may have %d", n, MaxScript)}
	}
	if err := s.play.Check(x.command); err != nil {
		return s.explained(err)
	}
	if err := s.perform(ctx, x); err != nil {
		if s.live == nil {
			err = also(err, s.again(s.entries))
		}
		return s.explained(err)
	}
	return nil
}

// size is how many bytes the commands and comments of the script have.
func (s *Session) size() (n int) {
	for i := range s.entries {
		n += len(s.entries[i].command) + 1
		for _, c := range s.entries[i].comment {
			n += len(c) + 1
		}
	}
	return n
}

// perform runs a command and looks at what it has done. After an error the run is not what it should be.
func (s *Session) perform(ctx context.Context, x *entry) error {
	n := s.dropped + len(s.entries) + 1
	began, first := s.play.Now(), s.hub.lastEvent()+1
	shown, err := s.execute(ctx, n, x.command)
	if err != nil {
		return err
	}
	before := s.view
	s.look()
	x.step = Step{N: n, Command: x.command, Comment: plain(x.comment), Shown: append([]string{}, shown...), Began: began.UTC(), Ended: s.play.Now().UTC(), FirstEvent: first, LastEvent: s.hub.lastEvent()}
	x.step.Changes, x.step.MoreChanges = diff(before, s.view)
	s.remember(x)
	return nil
}

// remember appends a command that was run to the script.
func (s *Session) remember(x *entry) {
	if s.live != nil && len(s.entries) == maxLive {
		s.entries = append([]entry{}, s.entries[maxLive/2:]...)
		s.dropped += maxLive / 2
	}
	s.entries = append(s.entries, *x)
	s.changes += len(x.step.Changes)
	for i := 0; s.changes > maxChanges && i < len(s.entries)-1; i++ {
		old := &s.entries[i].step
		s.changes -= len(old.Changes)
		old.MoreChanges += len(old.Changes)
		old.Changes = []Change{}
	}
}

// execute has a command run within its time.
func (s *Session) execute(ctx context.Context, n int, command string) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, CommandLimit, fmt.Errorf("the command took longer than %s of the machine's time, which is all that one may", CommandLimit))
	defer cancel()
	stop := context.AfterFunc(s.ending, cancel)
	defer stop()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the run was ended: %w", context.Cause(ctx))
	}
	if s.live == nil { // beside those of a command of a running cluster there are those of others
		s.hub.begin(n)
	}
	return s.play.Do(ctx, command)
}

// explained adds to an error what may help.
func (s *Session) explained(err error) error {
	var m *scenario.Mistake
	if errors.As(err, &m) && m.Line == 0 {
		m.Line = len(s.entries) + 1
	}
	return err
}

// also is an error with a second one, if there is one.
func also(err, second error) error {
	if second == nil {
		return err
	}
	return errors.Join(err, second)
}

// again makes the run anew of commands. What is known of their steps is kept.
func (s *Session) again(kept []entry) error {
	ctx, cancel := limited(context.Background())
	defer cancel()
	if err := s.play.Close(); err != nil {
		return s.give(err)
	}
	kept = slices.Clone(kept)
	s.begin()
	for i := range kept {
		if _, err := s.execute(ctx, i+1, kept[i].command); err != nil {
			return s.give(fmt.Errorf("command %d, %q, cannot be run again: %w", i+1, kept[i].command, err))
		}
		s.remember(&kept[i])
	}
	s.look()
	return nil
}

// limited is a context that ends when a script has run for as long as one may.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, RunLimit, fmt.Errorf("the script took longer than %s of the machine's time, which is all that one may", RunLimit))
}

// give gives the session up.
func (s *Session) give(err error) error {
	s.lost = fmt.Errorf("the session could not be made anew and has ended: %w", err)
	return s.lost
}

// Undo takes back the last n commands, or all where there are fewer. It tells how many.
func (s *Session) Undo(n int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.undo(n)
}

func (s *Session) undo(n int) (int, error) {
	if err := s.scripted(); err != nil {
		return 0, err
	}
	n = min(max(0, n), len(s.entries))
	if n == 0 {
		return 0, nil
	}
	left, taken := s.entries[:len(s.entries)-n], slices.Clone(s.entries[len(s.entries)-n:])
	slices.Reverse(taken)
	undone := append(s.undone, taken...)
	if err := s.again(left); err != nil {
		return 0, err
	}
	s.undone = undone
	return n, nil
}

// scripted tells why the session cannot do what only a run of a script can.
func (s *Session) scripted() error {
	if s.live != nil {
		return ErrLive
	}
	return s.lost
}

// Redo runs the last n commands again that were undone, or all where there are fewer.
func (s *Session) Redo(ctx context.Context, n int) ([]Step, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redo(ctx, n)
}

func (s *Session) redo(ctx context.Context, n int) ([]Step, error) {
	if err := s.scripted(); err != nil {
		return nil, err
	}
	steps := []Step{}
	for ; n > 0 && len(s.undone) > 0; n-- {
		x := s.undone[len(s.undone)-1]
		if err := s.run(ctx, &x); err != nil {
			return steps, err
		}
		s.undone = s.undone[:len(s.undone)-1]
		steps = append(steps, x.step)
	}
	return steps, nil
}

// Go undoes or redoes commands until so many stand, or as many as there are.
func (s *Session) Go(ctx context.Context, step int) ([]Step, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.entries) - step; n > 0 {
		_, err := s.undo(n)
		return []Step{}, err
	}
	return s.redo(ctx, step-len(s.entries))
}

// ToNextTimer lets time pass until something is due, as Move does.
func (s *Session) ToNextTimer(ctx context.Context, join bool) (Step, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return Step{}, s.lost
	}
	next, ok := s.play.NextTimer()
	switch {
	case !s.play.Virtual():
		return Step{}, errors.New("time passes by itself here")
	case !ok:
		return Step{}, errors.New("nothing waits for a time: advance DURATION moves it all the same")
	}
	return s.move(ctx, max(0, next.Sub(s.play.Now())), join)
}

// Move lets time pass. It is an advance. With join the last command becomes longer where that is an advance too.
func (s *Session) Move(ctx context.Context, by time.Duration, join bool) (Step, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return Step{}, s.lost
	}
	return s.move(ctx, by, join)
}

func (s *Session) move(ctx context.Context, by time.Duration, join bool) (Step, error) {
	if by < 0 || by > scenario.MaxAdvance {
		return Step{}, fmt.Errorf("time is moved by up to %s at once, not by %s", scenario.Duration(scenario.MaxAdvance), by)
	}
	x := entry{command: "advance " + scenario.Duration(by)}
	if n := len(s.entries); join && s.live == nil && n > 0 {
		if before, ok := strings.CutPrefix(s.entries[n-1].command, "advance "); ok {
			if d, err := time.ParseDuration(before); err == nil && d+by <= scenario.MaxAdvance {
				return s.lengthen(ctx, "advance "+scenario.Duration(d+by), x)
			}
		}
	}
	if err := s.run(ctx, &x); err != nil {
		return Step{}, err
	}
	s.undone = nil
	return x.step, nil
}

// lengthen runs an advance as a part of the one before. Two advances and one as long as both do the same.
func (s *Session) lengthen(ctx context.Context, whole string, x entry) (Step, error) {
	n := len(s.entries)
	last := s.entries[n-1]
	began, first := s.play.Now(), s.hub.lastEvent()+1
	s.entries = s.entries[:n-1]
	s.changes -= len(last.step.Changes)
	if _, err := s.execute(ctx, n, x.command); err != nil {
		if again := s.again(append(s.entries, last)); again != nil {
			return Step{}, errors.Join(err, again)
		}
		return Step{}, err
	}
	before := s.view
	s.look()
	changes, more := diff(before, s.view)
	last.command = whole
	step := last.step
	step.Command, step.Ended, step.LastEvent = whole, s.play.Now().UTC(), s.hub.lastEvent()
	step.Changes = append(slices.Clone(step.Changes), changes...)
	step.MoreChanges += more
	if n := len(step.Changes) - MaxChanges; n > 0 {
		step.Changes, step.MoreChanges = step.Changes[:MaxChanges], step.MoreChanges+n
	}
	last.step = step
	s.undone = nil
	s.remember(&last)
	if first <= step.LastEvent {
		step.FirstEvent = first
	}
	step.Began, step.Changes, step.MoreChanges = began.UTC(), changes, more // what is new
	return step, nil
}

// Edit puts another script in place of the session's. What both begin with is kept. It returns the steps that were run and how many blocks show something else than
// the script says. After an error, a *scenario.Mistake for one, the session is as it was.
func (s *Session) Edit(ctx context.Context, script string) (steps []Step, differing int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.scripted(); err != nil {
		return nil, 0, err
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	entries, f, err := parse(script)
	if err != nil {
		return nil, 0, err
	}
	same := 0
	for same < len(entries) && same < len(s.entries) && entries[same].command == s.entries[same].command {
		entries[same].step = s.entries[same].step
		entries[same].step.Comment = plain(entries[same].comment)
		same++
	}
	before, undone := s.entries, s.undone
	if same == len(s.entries) {
		kept := s.entries
		s.entries = entries[:same:same]
		for i := same; i < len(entries) && err == nil; i++ {
			err = s.attempt(ctx, &entries[i], f, i)
		}
		if err == nil {
			s.undone = nil
			return s.stepsFrom(same), s.differing(f), nil
		}
		s.entries = kept
	} else if err = s.again(entries[:same]); err == nil {
		for i := same; i < len(entries) && err == nil; i++ {
			err = s.attempt(ctx, &entries[i], f, i)
		}
		if err == nil {
			s.undone = nil
			return s.stepsFrom(same), s.differing(f), nil
		}
	}
	if s.lost == nil {
		err = also(err, s.again(before))
		s.undone = undone
	}
	return nil, 0, err
}

// attempt runs a command of a file. A mistake has its line there.
func (s *Session) attempt(ctx context.Context, x *entry, f *scenario.File, i int) error {
	err := s.play.Check(x.command)
	if err == nil {
		err = s.perform(ctx, x)
	}
	var m *scenario.Mistake
	if errors.As(err, &m) {
		k := 0
		for _, b := range f.Blocks() {
			if i < k+len(b.Lines) {
				m.Line = b.Lines[i-k]
				return err
			}
			k += len(b.Lines)
		}
	}
	return err
}

// parse reads a script.
func parse(script string) ([]entry, *scenario.File, error) {
	if len(script) > MaxScript {
		return nil, nil, &scenario.Mistake{Reason: fmt.Sprintf("a script of %d bytes, it may have %d", len(script), MaxScript)}
	}
	f, err := scenario.Parse("script", []byte(script))
	if err != nil {
		return nil, nil, err
	}
	if n := f.Commands(); n > MaxCommands {
		return nil, nil, &scenario.Mistake{Reason: fmt.Sprintf("a script of %d commands, it may have %d", n, MaxCommands)}
	}
	var entries []entry
	for _, b := range f.Blocks() {
		for i, c := range b.Commands {
			x := entry{command: strings.TrimSpace(c), joined: i > 0}
			if i == 0 {
				x.comment = b.Text
			}
			entries = append(entries, x)
		}
	}
	return entries, f, nil
}

// differing counts the blocks of a file that show something else than they say.
func (s *Session) differing(f *scenario.File) (n int) {
	k := 0
	for _, b := range f.Blocks() {
		var shown []string
		for range b.Commands {
			shown = append(shown, s.entries[k].step.Shown...)
			k++
		}
		if b.Stated && !slices.Equal(shown, b.Expected) {
			n++
		}
	}
	return n
}

// plain is comments without what makes them comments, and without blank lines.
func plain(comment []string) []string {
	lines := []string{}
	for _, l := range comment {
		if text, ok := strings.CutPrefix(strings.TrimSpace(l), "#"); ok {
			lines = append(lines, strings.TrimSpace(text))
		}
	}
	return lines
}

// Script is the script as a scenario's file: every command with what it showed.
func (s *Session) Script() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.scripted(); err != nil {
		return "", err
	}
	var b strings.Builder
	var shown []string
	end := func() {
		b.WriteString("----\n")
		for _, l := range shown {
			b.WriteString(l + "\n")
		}
		shown = nil
	}
	for i := range s.entries {
		x := &s.entries[i]
		if !x.joined {
			if i > 0 {
				end()
				if len(x.comment) == 0 || strings.TrimSpace(x.comment[0]) != "" {
					b.WriteString("\n")
				}
			}
			for _, c := range x.comment {
				b.WriteString(c + "\n")
			}
		}
		b.WriteString(x.command + "\n")
		shown = append(shown, x.step.Shown...)
	}
	if len(s.entries) > 0 {
		end()
	}
	return b.String(), nil
}

// View is what can be seen now. It is not changed afterwards, nor is it to be.
func (s *Session) View() *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.view
}

// refresh looks at a running cluster again.
func (s *Session) refresh() {
	if s.live == nil || s.lost != nil {
		return
	}
	if count := s.hub.changes(); count != s.looked.count || time.Since(s.looked.at) > time.Second {
		s.look()
	}
}

// Now is the session from outside and what can be seen, at one moment.
func (s *Session) Now() (State, *View) {
	state, view, _ := s.moment()
	return state, view
}

// moment is Now with the hub of that moment.
func (s *Session) moment() (State, *View, *hub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.state(), s.view, s.hub
}

// happened are events of a hub, as Events has them.
func (s *Session) happened(h *hub, since uint64, limit int) ([]Event, uint64, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eventsOf(h, since, limit)
}

// Watch returns a channel that has something in it whenever the session may have changed since it was last taken out, and is closed when the session ends, until forget is called.
func (s *Session) Watch() (changed <-chan struct{}, forget func()) {
	w := make(chan struct{}, 1)
	s.watching.Lock()
	defer s.watching.Unlock()
	if s.closed {
		close(w)
		return w, func() {}
	}
	s.watchers[w] = true
	return w, func() {
		s.watching.Lock()
		defer s.watching.Unlock()
		delete(s.watchers, w)
	}
}

// notify tells who watches.
func (s *Session) notify() {
	s.watching.Lock()
	defer s.watching.Unlock()
	for w := range s.watchers {
		select {
		case w <- struct{}{}:
		default: // it knows already
		}
	}
}

// State is the session from outside.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state()
}

func (s *Session) state() State {
	x := State{ID: s.ID, Live: s.live != nil, Virtual: s.play.Virtual(), Time: s.play.Now().UTC(), Version: s.version, Steps: s.dropped + len(s.entries), Redoes: len(s.undone), LastEvent: s.hub.lastEvent()}
	if s.live == nil {
		x.Undoes = len(s.entries)
	}
	return x
}

// Steps are the commands that were run, from the one behind so many on.
func (s *Session) Steps(since int) []Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stepsFrom(since)
}

func (s *Session) stepsFrom(since int) []Step {
	steps := []Step{}
	for i := max(0, since-s.dropped); i < len(s.entries); i++ {
		steps = append(steps, s.entries[i].step)
	}
	return steps
}

// Events are the events above since, the oldest first, limit of the newest, with the number of the last one and how many above since are not among them.
func (s *Session) Events(since uint64, limit int) (events []Event, last, lost uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eventsOf(s.hub, since, limit)
}

// eventsOf are events of a hub, with the script's names for members.
func (s *Session) eventsOf(h *hub, since uint64, limit int) (events []Event, last, lost uint64) {
	events, last, lost = h.find(since, limit)
	for i := range events {
		s.named(&events[i])
	}
	return events, last, lost
}

// named puts the script's names for members into an event.
func (s *Session) named(e *Event) {
	names := []string{}
	for _, id := range e.Members {
		names = append(names, s.play.Name(id))
	}
	e.Members = names
}

// Event is an event with its message. It fails for one that is forgotten or never was.
func (s *Session) Event(n uint64) (Decoded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.hub.decoded(n)
	if !ok {
		return d, fmt.Errorf("there is no event %d: the last %d are remembered, up to %d", n, MaxEvents, s.hub.lastEvent())
	}
	s.named(&d.Event)
	return d, nil
}

// suggest names what a text was meant to be.
func suggest(text string, known []string) string { return spelling.DidYouMean(text, known) }
