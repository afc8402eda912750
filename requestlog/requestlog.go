// Package requestlog remembers the last requests of a cluster and how they were answered.
package requestlog

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/describe"
)

// maxKept bounds the bytes that are kept of a request's and of an answer's body, each. Of a longer one only the size is known.
const maxKept = 1 << 20

// Outcome is what became of a request.
type Outcome string

// The outcomes of a request.
const (
	Pending  Outcome = "pending"   // it is handled, or waits
	Answered Outcome = "answered"  // its answer was sent
	NoAnswer Outcome = "no answer" // it has none, as a Produce with acks 0
	Closed   Outcome = "closed"    // the connection was closed instead of an answer
	Silent   Outcome = "silent"    // a fault keeps the answer back for ever
)

// Entry is a request and what became of it.
type Entry struct {
	// Seq numbers the requests of a cluster in the order of their arrival, from 1 on.
	Seq           uint64    `json:"seq"`
	API           string    `json:"api"`
	Key           int16     `json:"key"`
	Version       int16     `json:"version"`
	Node          int32     `json:"node"`
	Connection    uint64    `json:"connection"` // numbers the connections of a cluster
	ClientID      string    `json:"clientId"`
	CorrelationID int32     `json:"correlationId"`
	Arrived       time.Time `json:"arrived"`  // on the cluster's clock
	Answered      time.Time `json:"answered"` // when there was an outcome, zero while there is none
	RequestBytes  int       `json:"requestBytes"`
	AnswerBytes   int       `json:"answerBytes"` // bodies alone, without header
	Outcome       Outcome   `json:"outcome"`
	Reason        string    `json:"reason,omitempty"` // why the connection was closed
	Faults        []string  `json:"faults,omitempty"` // those that acted, by name, or as "fault ID"

	// Subject is whom and what the request meant when it arrived: topics by their names, a session's partitions included. nil where it could not
	// be decoded.
	Subject *describe.Subject `json:"-"`

	request, answer []byte // bodies, nil where they were too long
}

// SetRequest keeps the body of the request, a copy.
func (e *Entry) SetRequest(body []byte) { e.RequestBytes, e.request = len(body), copyOf(body) }

// SetAnswer keeps the body of the answer, a copy.
func (e *Entry) SetAnswer(body []byte) { e.AnswerBytes, e.answer = len(body), copyOf(body) }

func copyOf(b []byte) []byte {
	if len(b) > maxKept {
		return nil
	}
	return append([]byte{}, b...)
}

// Request decodes the request. It fails where it was too long to be kept or is malformed.
func (e *Entry) Request() (kmsg.Request, error) {
	if e.request == nil {
		return nil, fmt.Errorf("a request of %d bytes is too long for the log, which keeps %d", e.RequestBytes, maxKept)
	}
	q := kmsg.RequestForKey(e.Key)
	if q == nil || e.Version > q.MaxVersion() {
		return nil, fmt.Errorf("%s v%d cannot be decoded", e.API, e.Version)
	}
	q.SetVersion(e.Version)
	if err := q.ReadFrom(e.request); err != nil {
		return nil, fmt.Errorf("%s v%d: %w", e.API, e.Version, err)
	}
	return q, nil
}

// Answer decodes the answer. It is nil where there is none, and fails where it was too long to be kept or a fault has made it undecodable.
func (e *Entry) Answer() (kmsg.Response, error) {
	switch {
	case e.Outcome != Answered:
		return nil, nil
	case e.answer == nil:
		return nil, fmt.Errorf("an answer of %d bytes is too long for the log, which keeps %d", e.AnswerBytes, maxKept)
	}
	p := kmsg.ResponseForKey(e.Key)
	if p == nil {
		return nil, fmt.Errorf("%s v%d cannot be decoded", e.API, e.Version)
	}
	p.SetVersion(protocol.AnswerVersion(e.Key, e.Version, e.answer))
	if err := p.ReadFrom(e.answer); err != nil {
		return nil, fmt.Errorf("answer of %s v%d: %w", e.API, e.Version, err)
	}
	return p, nil
}

// MarshalJSON implements json.Marshaler: the fields of the entry, and those of request and answer, or why these cannot be shown.
func (e Entry) MarshalJSON() ([]byte, error) {
	type plain Entry
	out := struct {
		plain
		Answered    *time.Time      `json:"answered"`
		Request     *describe.Value `json:"request"`
		Answer      *describe.Value `json:"answer"`
		Undecodable string          `json:"undecodable,omitempty"`
	}{plain: plain(e)}
	if !e.Answered.IsZero() {
		out.Answered = &e.Answered
	}
	if q, err := e.Request(); err != nil {
		out.Undecodable = err.Error()
	} else {
		out.Request = describe.Message(q)
	}
	if p, err := e.Answer(); err != nil {
		out.Undecodable = err.Error()
	} else if p != nil {
		out.Answer = describe.Message(p)
	}
	return json.Marshal(out)
}

// Log is the last requests of a cluster. It may be used from several goroutines.
type Log struct {
	mu      sync.Mutex
	entries []*Entry // entry Seq is at (Seq-1) % cap
	last    uint64   // Seq of the newest
}

// New makes a log of the last n requests, at least one.
func New(n int) *Log { return &Log{entries: make([]*Entry, 0, n)} }

// Add adds a request, which takes the place of the oldest once the log is full. Its Seq is set.
func (l *Log) Add(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.Seq, e.Outcome = l.last, Pending
	if len(l.entries) < cap(l.entries) {
		l.entries = append(l.entries, e)
		return
	}
	l.entries[(l.last-1)%uint64(len(l.entries))] = e
}

// Update changes an entry.
func (l *Log) Update(e *Entry, change func(*Entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(e)
}

// Query picks entries: those that have everything that is not zero.
type Query struct {
	Since      uint64 // entries with a higher Seq
	API        string // by name or key
	Group      string // named by the request, as are the two below
	Member     string
	Topic      string // by name, also where the request has its id or means it by a session
	ClientID   string
	Connection uint64
}

// Find returns copies of the entries that a query picks, the oldest first.
func (l *Log) Find(q Query) ([]Entry, error) {
	key := int16(-1)
	if q.API != "" {
		a := protocol.FindAPI(q.API)
		if a == nil {
			return nil, fmt.Errorf("no API of Kafka 4.4 is called %q", q.API)
		}
		key = a.Key
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []Entry
	n := uint64(len(l.entries))
	for seq := l.last - n + 1; seq <= l.last; seq++ {
		if e := l.entries[(seq-1)%n]; seq > q.Since && (key < 0 || key == e.Key) && q.picks(e) {
			found = append(found, *e)
		}
	}
	return found, nil
}

func (q *Query) picks(e *Entry) bool {
	switch {
	case q.ClientID != "" && q.ClientID != e.ClientID, q.Connection != 0 && q.Connection != e.Connection:
		return false
	case q.Group == "" && q.Member == "" && q.Topic == "":
		return true
	case e.Subject == nil:
		return false
	}
	return (q.Group == "" || slices.Contains(e.Subject.Groups, q.Group)) &&
		(q.Member == "" || slices.Contains(e.Subject.Members, q.Member)) &&
		(q.Topic == "" || slices.ContainsFunc(e.Subject.Topics, func(t describe.Topic) bool { return t.Name == q.Topic }))
}
