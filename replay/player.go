package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Server is a broker under replay.
type Server interface {
	// Dial opens a connection to one of the broker's listeners.
	Dial(ctx context.Context, listener string) (net.Conn, error)
	Close() error
}

// Killer is a Server that sessions which kill their broker can be played against.
type Killer interface {
	// Kill ends the broker without letting it write anything more.
	Kill() error
	// Start starts it again on what it had stored.
	Start() error
}

// Played is what became of one step.
type Played struct {
	Step    *Step
	Outcome Outcome
	Answers [][]byte
	Took    time.Duration
	End     time.Duration // since the time from which the session's times count
	Repeats int           // how often the request was sent, of which the last counts
	Span    time.Duration // from the first of them to the last
	Request []byte        // as sent: our ids in place of the recorded ones
	Diffs   []Diff        // none: the step agrees
}

// Report is what became of a session.
type Report struct {
	Session string
	Steps   []*Played
	Masked  map[*Rule]int // how many values each rule treated
}

// player plays one session. Time is package time's: inside a synctest bubble it jumps when everything waits.
type player struct {
	session *Session
	script  *Script
	server  Server
	began   time.Time
	conns   map[string]*playerConn
	compare *comparer
	logins  logins
	pending map[int]*sent
	report  *Report
	late    []Diff        // of polling before the next step
	shift   time.Duration // added to the recording's times
	polled  bool          // an unrecorded wait has ended, and the next step follows at once
}

type playerConn struct {
	net.Conn
	correlation int32 // of the last request
	broken      bool
	// unnoticed tells that the recorder went on as if the broker had not closed it.
	unnoticed bool
}

// sent is a request whose answer is awaited.
type sent struct {
	request []byte
	at      time.Time
	done    chan received
}

type received struct {
	outcome Outcome
	answers [][]byte
	at      time.Time
}

// Play plays a session against a broker and compares. The time must be at or before the session's first
// request, whose clock is script.Began. It returns an error where the recording itself cannot be played.
func Play(session *Session, script *Script, server Server) (*Report, error) {
	moves, err := plan(session, script.events)
	if err != nil {
		return nil, err
	}
	began := Began(script)
	p := &player{
		session: session, script: script, server: server, began: began,
		conns: map[string]*playerConn{}, pending: map[int]*sent{}, logins: logins{},
		compare: newComparer(session, began),
		report:  &Report{Session: session.Name},
	}
	p.report.Masked = p.compare.masked
	defer p.closeAll()
	for _, m := range moves {
		if p.polled && m.kind != doEvent {
			p.follow(m.at)
			p.polled = false
		}
		if m.kind != awaitStep { // an answer is waited for however long it takes
			p.sleepUntil(m.at)
		}
		time.Sleep(time.Nanosecond) // inside a bubble: until nothing else moves
		if err := p.play(m); err != nil {
			return nil, fmt.Errorf("%s: %w", session.Name, err)
		}
	}
	return p.report, nil
}

// Began is the time from which a session's times count.
func Began(s *Script) time.Time {
	if s.Began.IsZero() {
		return noon
	}
	return s.Began
}

func (p *player) play(m move) error {
	switch m.kind {
	case sendStep:
		return p.send(m.step)
	case awaitStep:
		return p.await(m.step)
	case doEvent:
		return p.do(m.event.do)
	}
	if m.step.Repeats > 1 {
		return p.repeat(m.step)
	}
	if err := p.send(m.step); err != nil {
		return err
	}
	return p.await(m.step)
}

func (p *player) sleepUntil(at time.Duration) {
	time.Sleep(time.Until(p.began.Add(at + p.shift)))
}

// follow moves the recording's times so that what it did at a time is done now: the recorder went on as soon
// as its polling succeeded, and so does the player, whose polling may succeed earlier.
func (p *player) follow(at time.Duration) {
	p.shift = time.Since(p.began) - at
	p.compare.least, p.compare.most = min(p.compare.least, p.shift.Milliseconds()), max(p.compare.most, p.shift.Milliseconds())
}

func (p *player) closeAll() {
	for _, c := range p.conns {
		c.Close()
		c.broken = true
	}
}

// conn returns the step's connection, dialled anew where the recorder did.
func (p *player) conn(name string, correlation int32) (*playerConn, error) {
	c := p.conns[name]
	switch {
	case c == nil:
	case !c.broken && (correlation > c.correlation || p.script.Secured && correlation == 0),
		c.unnoticed && correlation == c.correlation+1:
		c.correlation = correlation
		return c, nil
	}
	return p.dial(name, correlation)
}

// live returns the connection of a name for a request that was not recorded.
func (p *player) live(name string) (*playerConn, error) {
	if c := p.conns[name]; c != nil && !c.broken {
		return c, nil
	}
	return p.dial(name, 0)
}

func (p *player) dial(name string, correlation int32) (*playerConn, error) {
	if c := p.conns[name]; c != nil {
		c.Close()
	}
	n, err := p.server.Dial(context.Background(), p.script.listener(name))
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	_, again := p.conns[name]
	c := &playerConn{Conn: n, correlation: correlation}
	p.conns[name] = c
	if user := p.script.users[name]; again && user != "" {
		return c, p.login(name, user)
	}
	return c, nil
}

// send writes the step's request and reads what comes back in a goroutine of its own.
func (p *player) send(st *Step) error {
	request, err := p.compare.ids.rewrite(st)
	if err == nil {
		request, err = p.logins.rewrite(st, p.script, request)
	}
	if err != nil {
		return err
	}
	correlation, bytes := int32(0), request
	if !st.Raw {
		correlation = int32(binary.BigEndian.Uint32(st.Request[4:]))
		bytes = withLength(request)
	}
	c, err := p.conn(st.Conn, correlation)
	if err != nil {
		return fmt.Errorf("step %s: %w", st, err)
	}
	s := &sent{request: request, at: time.Now(), done: make(chan received, 1)}
	p.pending[st.N] = s
	go c.Write(bytes) // what is not read shows as no answer
	go func() {
		if st.Raw {
			s.done <- readRaw(c, st)
		} else {
			s.done <- readOne(c, st)
		}
	}()
	return nil
}

func withLength(frame []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
}

// await waits for the answer of a step that was sent and compares it.
func (p *player) await(st *Step) error {
	r := p.receive(st)
	p.compareStep(r)
	p.logins.note(r)
	r.Diffs = append(p.late, r.Diffs...)
	p.late = nil
	p.report.Steps = append(p.report.Steps, r)
	return nil
}

func (p *player) receive(st *Step) *Played {
	s := p.pending[st.N]
	delete(p.pending, st.N)
	r := <-s.done
	if c := p.conns[st.Conn]; st.Raw && !p.script.Secured || st.Conn == "once" || r.outcome != Answered {
		c.Close()
		c.broken = true
		c.unnoticed = p.script.Secured && st.Outcome == Closed && r.outcome == Closed
	}
	return &Played{Step: st, Outcome: r.outcome, Answers: r.answers, Took: r.at.Sub(s.at), End: r.at.Sub(p.began), Repeats: 1, Request: s.request}
}

// repeat sends a request as often as the recorder did, at most until the answer is the recorded one; a patient
// player sends it more often.
func (p *player) repeat(st *Step) error {
	every := st.RepeatSpan / time.Duration(st.Repeats-1)
	start := time.Now()
	for i := 1; ; i++ {
		if err := p.send(st); err != nil {
			return err
		}
		r := p.receive(st)
		r.Repeats, r.Span = i, time.Since(start)-r.Took
		learned := p.compare.ids.clone()
		p.compareStep(r)
		if len(r.Diffs) == 0 || i >= st.Repeats && time.Since(start) >= st.RepeatSpan+p.script.Patience {
			p.report.Steps = append(p.report.Steps, r)
			p.follow(st.End)
			return nil
		}
		p.compare.ids = learned // what an answer that was not recorded shows stands for nothing
		if c := p.conns[st.Conn]; !c.broken {
			c.correlation--
		}
		time.Sleep(time.Until(start.Add(every * time.Duration(i))))
	}
}

// answerTimeout is how long the recorder waited for an answer.
const answerTimeout = 40 * time.Second

// readOne reads one answer, as long as the recorder did.
func readOne(c net.Conn, st *Step) received {
	wait := answerTimeout
	if st.Outcome == Silent {
		wait = st.Took
	}
	frame, outcome := readFrame(c, wait)
	r := received{outcome: outcome, at: time.Now()}
	if outcome == Answered {
		r.answers = [][]byte{frame}
	}
	return r
}

// rawTimeout is how long an answer to bytes as they stand is waited for where the recording has one.
const rawTimeout = 20 * time.Second

// silence is how long the recorder listened on where answers had come before.
const silence = time.Second

// readRaw reads answers as long as the recorder did.
func readRaw(c net.Conn, st *Step) (r received) {
	defer func() {
		if len(r.answers) > 0 && r.outcome != Answered {
			r.outcome = "answered, then " + r.outcome
		}
	}()
	wait := rawTimeout
	if st.Outcome == Silent {
		wait = st.Took
	}
	for len(r.answers) < max(1, len(st.Answers)) {
		frame, outcome := readFrame(c, wait)
		r.outcome, r.at = outcome, time.Now()
		if outcome != Answered {
			return r
		}
		r.answers = append(r.answers, frame)
	}
	wait = stillOpenWait
	if st.Outcome == AnsweredSilent || st.Outcome == AnsweredClosed {
		wait = silence
	}
	frame, outcome := readFrame(c, wait)
	switch {
	case outcome == Answered:
		r.answers = append(r.answers, frame)
	case outcome == Closed || st.Outcome == AnsweredSilent:
		r.outcome, r.at = outcome, time.Now()
	}
	return r
}

// maxFrame is the largest answer that is read, in bytes.
const maxFrame = 64 << 20

// readFrame reads one frame without its length.
func readFrame(c net.Conn, wait time.Duration) ([]byte, Outcome) {
	c.SetReadDeadline(time.Now().Add(wait))
	var size [4]byte
	_, err := io.ReadFull(c, size[:])
	if err == nil {
		n := binary.BigEndian.Uint32(size[:])
		if n > maxFrame {
			return size[:], Answered
		}
		frame := make([]byte, n)
		if _, err = io.ReadFull(c, frame); err == nil {
			return frame, Answered
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, Silent
	}
	return nil, Closed
}
