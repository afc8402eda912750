package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Session is one recorded session in the order of its lines.
type Session struct {
	Name  string
	Steps []*Step
}

// Step is one line of a session: a request with its answer, or bytes written as they stand (Raw).
type Step struct {
	N       int // 1 for the first line
	Name    string
	Conn    string
	API     string // "" for a raw step
	Key     int16
	Version int16
	Took    time.Duration // from writing the request to having read the answer
	End     time.Duration // since the recorder's start
	Request []byte        // without the length prefix; of a raw step everything written, prefixes included
	Answers [][]byte      // frames without their length prefix
	Outcome Outcome
	Raw     bool
	// Repeats is how often the recorder sent the request, RepeatSpan the time from the first to the last.
	// Only the last is recorded. 1 and 0 for most steps.
	Repeats    int
	RepeatSpan time.Duration
	overtaken  bool // later steps were sent before it was answered
}

// Outcome is how a step ended.
type Outcome string

// The outcomes of a step. A connection that the broker resets counts as closed: which of the two TCP shows
// depends on bytes that were still on their way.
const (
	Answered       Outcome = "answered"
	AnsweredClosed Outcome = "answered, then closed"
	AnsweredSilent Outcome = "answered, then silent"
	Closed         Outcome = "closed"
	Silent         Outcome = "silent"
)

func (s *Step) String() string { return fmt.Sprintf("%d %s", s.N, s.Name) }

// Start is when the request was written, since the recorder's start, to about 1 ms.
func (s *Step) Start() time.Duration {
	start := s.End - s.Took - s.RepeatSpan
	if s.Raw && s.Outcome == Answered {
		start -= stillOpenWait // the recorder looked whether the connection stayed open
	}
	return start
}

// stillOpenWait is how long an answered raw connection was watched for a close.
const stillOpenWait = 150 * time.Millisecond

// line is a line of a recording: the fields of both its kinds.
type line struct {
	N        int      `json:"n"`
	Step     string   `json:"step"`
	Conn     string   `json:"conn"`
	Key      *int16   `json:"key"`
	API      string   `json:"api"`
	Version  int16    `json:"version"`
	Ms       float64  `json:"ms"`
	At       float64  `json:"at_ms"`
	Note     string   `json:"note"`
	Closed   string   `json:"closed"`
	Request  string   `json:"request_hex"`
	Response string   `json:"response_hex"`
	Sent     string   `json:"sent_hex"`
	Outcome  string   `json:"outcome"`
	Received []string `json:"received_hex"`
}

var repeated = regexp.MustCompile(`the last of a row of (\d+), (\d+) ms after the first`)

func (l *line) step() (*Step, error) {
	s := &Step{N: l.N, Name: l.Step, Conn: l.Conn, API: l.API, Version: l.Version, Took: ms(l.Ms), End: ms(l.At), Repeats: 1, Raw: l.Key == nil}
	received := l.Received
	sent := l.Sent
	if !s.Raw {
		s.Key, sent = *l.Key, l.Request
		if l.Response != "" {
			received = []string{l.Response}
		}
	}
	var err error
	if s.Request, err = unhex(sent); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	for _, r := range received {
		b, err := hex.DecodeString(r)
		if err != nil {
			return nil, fmt.Errorf("answer: %w", err)
		}
		s.Answers = append(s.Answers, b)
	}
	switch {
	case s.Raw:
		s.Outcome = Outcome(strings.ReplaceAll(l.Outcome, " (reset)", ""))
	case len(received) > 0:
		s.Outcome = Answered
	case strings.Contains(l.Closed, "timeout"):
		s.Outcome = Silent
	default:
		s.Outcome = Closed
	}
	if m := repeated.FindStringSubmatch(l.Note); m != nil {
		s.Repeats, _ = strconv.Atoi(m[1])
		span, _ := strconv.Atoi(m[2])
		s.RepeatSpan = time.Duration(span) * time.Millisecond
	}
	return s, nil
}

func ms(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

var cut = regexp.MustCompile(`^([0-9a-f]*)\.\.\.\((\d+) bytes\)$`)

// unhex decodes the hex of a request. One of more than 128 KiB is recorded cut. There is one kind, a Produce
// of one batch whose only record's value is one byte repeated: it is filled up again, and its CRC proves it.
func unhex(s string) ([]byte, error) {
	m := cut.FindStringSubmatch(s)
	if m == nil {
		return hex.DecodeString(s)
	}
	b, err := hex.DecodeString(m[1])
	if err != nil {
		return nil, err
	}
	size, err := strconv.Atoi(m[2])
	if err != nil || size < len(b)+4 || size > 16<<20 {
		return nil, fmt.Errorf("a cut request of %s bytes", m[2])
	}
	// Behind the value: no headers, and the tag sections of partition, topic and request.
	b = append(b, bytes.Repeat(b[len(b)-1:], size-len(b)-4)...)
	b = append(b, 0, 0, 0, 0)
	if at := bytes.Index(b, []byte{0xff, 0xff, 0xff, 0xff, 2}); at < 12 || !crcHolds(b[at-12:len(b)-3]) {
		return nil, errors.New("a cut request that is no batch of one repeated byte")
	}
	return b, nil
}

// Load reads a session from DIR/NAME.jsonl.gz.
func Load(dir, name string) (*Session, error) {
	f, err := os.Open(filepath.Join(dir, name+".jsonl.gz"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	s := &Session{Name: name}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", f.Name(), len(s.Steps)+1, err)
		}
		st, err := l.step()
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", f.Name(), len(s.Steps)+1, err)
		}
		if st.N != len(s.Steps)+1 {
			return nil, fmt.Errorf("%s, line %d has the number %d", f.Name(), len(s.Steps)+1, st.N)
		}
		if len(s.Steps) > 0 {
			st.overtaken = overlaps(st, s.Steps[len(s.Steps)-1])
		}
		s.Steps = append(s.Steps, st)
	}
	return s, lines.Err()
}
