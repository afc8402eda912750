// Package recording keeps frames in files, one JSON object a line, so that they can be judged again.
//
// A line has the time, the number of the connection and one of these:
//
//	{"at":"2027-01-01T00:00:00.5Z","conn":1,"node":1,"host":"127.0.0.1"}   the connection was opened
//	{"at":"2027-01-01T00:00:00.6Z","conn":1,"request_hex":"004c0001..."}   a request, without its length
//	{"at":"2027-01-01T00:00:00.7Z","conn":1,"response_hex":"00000001..."}  an answer
//	{"at":"2027-01-01T00:00:00.8Z","conn":1,"closed":true}                 the connection has ended
//
// Lines that have request and answer at once, with at_ms for the end of the step and ms for what it took, are read too: recorders of brokers write those. Their
// connections have names and are taken to go to one node.
package recording

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"kshare/conformance"
)

// maxLine bounds a line: a frame of 100 MB as hex.
const maxLine = 256 << 20

// line is a line of a recording.
type line struct {
	At       *time.Time      `json:"at,omitempty"`
	Conn     json.RawMessage `json:"conn"`
	Node     *int32          `json:"node,omitempty"`
	Host     string          `json:"host,omitempty"`
	Request  string          `json:"request_hex,omitempty"`
	Response string          `json:"response_hex,omitempty"`
	Closed   json.RawMessage `json:"closed,omitempty"`
	Ms       *float64        `json:"ms,omitempty"`
	AtMs     *float64        `json:"at_ms,omitempty"`
}

// Write writes a frame as a line.
func Write(w io.Writer, f conformance.Frame) error {
	conn, err := json.Marshal(f.Conn)
	if err != nil {
		return err
	}
	l := line{At: &f.At, Conn: conn}
	switch f.Kind {
	case conformance.Opened:
		l.Node, l.Host = &f.Node, f.Host
	case conformance.Received:
		l.Request = hex.EncodeToString(f.Bytes)
	case conformance.Sent:
		l.Response = hex.EncodeToString(f.Bytes)
	case conformance.Closed:
		l.Closed = json.RawMessage("true")
	default:
		return fmt.Errorf("a frame of kind %d has no form in a recording", f.Kind)
	}
	b, err := json.Marshal(l)
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	return err
}

// Read reads a recording whole, in the order of its frames.
func Read(r io.Reader) ([]conformance.Frame, error) {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	var frames []conformance.Frame
	s := steps{conns: map[string]uint64{}}
	for n := 1; in.Scan(); n++ {
		if len(in.Bytes()) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		f, err := l.frame()
		switch {
		case l.At == nil && l.AtMs != nil:
			err = s.add(&l)
		case err == nil:
			frames = append(frames, f)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	return append(frames, s.frames()...), nil
}

// frame is the frame of a line.
func (l *line) frame() (f conformance.Frame, err error) {
	if l.At == nil {
		return f, fmt.Errorf("no time: a line has at, or at_ms")
	}
	f.At = *l.At
	if err := json.Unmarshal(l.Conn, &f.Conn); err != nil {
		return f, fmt.Errorf("conn: %w", err)
	}
	switch {
	case l.Node != nil:
		f.Kind, f.Node, f.Host = conformance.Opened, *l.Node, l.Host
	case l.Request != "":
		f.Kind = conformance.Received
		f.Bytes, err = hex.DecodeString(l.Request)
	case l.Response != "":
		f.Kind = conformance.Sent
		f.Bytes, err = hex.DecodeString(l.Response)
	case string(l.Closed) == "true":
		f.Kind = conformance.Closed
	default:
		err = fmt.Errorf("neither node, request_hex, response_hex nor closed")
	}
	return f, err
}

// steps are lines with requests and answers.
type steps struct {
	conns map[string]uint64
	all   []step
}

type step struct {
	at    time.Time
	order int
	frame conformance.Frame
}

// stepsBegin is when a recording begins that has no dates.
var stepsBegin = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *steps) add(l *line) error {
	if l.Request == "" {
		return nil // bytes that are no request
	}
	var took float64
	if l.Ms != nil {
		took = *l.Ms
	}
	at := func(ms float64) time.Time { return stepsBegin.Add(time.Duration(ms * float64(time.Millisecond))) }
	put := func(ms float64, f conformance.Frame) {
		f.At = at(ms)
		s.all = append(s.all, step{f.At, len(s.all), f})
	}
	name := string(l.Conn)
	id, known := s.conns[name]
	if !known {
		id = uint64(len(s.conns) + 1)
		s.conns[name] = id
		put(*l.AtMs-took, conformance.Frame{Kind: conformance.Opened, Conn: id, Node: 1, Host: "recorded"})
	}
	request, err := hex.DecodeString(l.Request)
	if err != nil {
		return nil // cut short by its recorder
	}
	put(*l.AtMs-took, conformance.Frame{Kind: conformance.Received, Conn: id, Bytes: request})
	if l.Response != "" {
		answer, err := hex.DecodeString(l.Response)
		if err != nil {
			return err
		}
		put(*l.AtMs, conformance.Frame{Kind: conformance.Sent, Conn: id, Bytes: answer})
		return nil
	}
	if len(l.Closed) > 0 && string(l.Closed) != "null" {
		put(*l.AtMs, conformance.Frame{Kind: conformance.Closed, Conn: id})
		delete(s.conns, name)
	}
	return nil
}

func (s *steps) frames() (all []conformance.Frame) {
	slices.SortStableFunc(s.all, func(a, b step) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order)) })
	for _, x := range s.all {
		all = append(all, x.frame)
	}
	return all
}
