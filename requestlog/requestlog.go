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

// Bounds of what is kept, in bytes.
const (
	// MaxWithRecords is the longest body that is kept with its records. A longer one is kept without them.
	MaxWithRecords = 64 << 10
	// MaxBody is the longest body that is kept, without the records that were left out, and how long the names may be that a request is found by. Of what is
	// longer only the size is known.
	MaxBody = 1 << 20
	// MaxBytes bounds all entries together: beyond it the oldest are forgotten, but for the newest of all.
	MaxBytes = 64 << 20
)

// Outcome is what became of a request.
type Outcome string

// The outcomes of a request.
const (
	Pending  Outcome = "pending"   // it is handled, or waits
	Answered Outcome = "answered"  // its answer is sent
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
	// be decoded, or is too long.
	Subject *describe.Subject `json:"-"`

	request, answer body
	size            int // bytes that the log counts for it
}

// body is what is kept of a request or an answer.
type body struct {
	kept    []byte // nil where it was too long
	records int    // bytes of records that were left out
}

// SetRequest keeps the body of the request, a copy. Key and Version of the entry are set before.
func (e *Entry) SetRequest(b []byte) {
	e.RequestBytes = len(b)
	if len(b) <= MaxWithRecords {
		e.request = keep(b, 0)
		return
	}
	q, err := e.decodeRequest(b)
	if q, ok := q.(*kmsg.ProduceRequest); ok && err == nil {
		records := 0
		for i := range q.Topics {
			for j := range q.Topics[i].Partitions {
				leaveOut(&q.Topics[i].Partitions[j].Records, &records)
			}
		}
		b = q.AppendTo(nil)
		e.request = keep(b, records)
		return
	}
	e.request = keep(b, 0)
}

// SetAnswer keeps the body of the answer, a copy. Key and Version of the entry are set before.
func (e *Entry) SetAnswer(b []byte) {
	e.AnswerBytes = len(b)
	if len(b) <= MaxWithRecords {
		e.answer = keep(b, 0)
		return
	}
	p, err := e.decodeAnswer(b)
	if err != nil {
		e.answer = keep(b, 0)
		return
	}
	records := 0
	switch p := p.(type) {
	case *kmsg.FetchResponse:
		for i := range p.Topics {
			for j := range p.Topics[i].Partitions {
				leaveOut(&p.Topics[i].Partitions[j].RecordBatches, &records)
			}
		}
	case *kmsg.ShareFetchResponse:
		for i := range p.Topics {
			for j := range p.Topics[i].Partitions {
				leaveOut(&p.Topics[i].Partitions[j].Records, &records)
			}
		}
	}
	if records > 0 {
		b = p.AppendTo(nil)
	}
	e.answer = keep(b, records)
}

func leaveOut(records *[]byte, bytes *int) {
	*bytes += len(*records)
	*records = nil
}

func keep(b []byte, records int) body {
	if len(b) > MaxBody {
		return body{}
	}
	return body{append([]byte{}, b...), records}
}

// LeftOut says what of the request and its answer is not kept, in words.
func (e *Entry) LeftOut() (all []string) {
	for _, x := range []struct {
		name  string
		bytes int
		body  *body
	}{{"request", e.RequestBytes, &e.request}, {"answer", e.AnswerBytes, &e.answer}} {
		switch {
		case x.body.records > 0:
			all = append(all, fmt.Sprintf("%d bytes of records of the %s", x.body.records, x.name))
		case x.body.kept == nil && x.bytes > 0:
			all = append(all, fmt.Sprintf("the %s, %d bytes: the log keeps %d of one, without its records", x.name, x.bytes, MaxBody))
		}
	}
	return all
}

// Weight is about how many bytes of memory the entry takes.
func (e *Entry) Weight() int {
	n := 512 + len(e.ClientID) + len(e.Reason) + len(e.request.kept) + len(e.answer.kept) + subjectWeight(e.Subject)
	for _, f := range e.Faults {
		n += 16 + len(f)
	}
	return n
}

func subjectWeight(s *describe.Subject) (n int) {
	if s == nil {
		return 0
	}
	for _, names := range [][]string{s.Groups, s.Members} {
		for _, name := range names {
			n += 16 + len(name)
		}
	}
	for i := range s.Topics {
		n += 64 + len(s.Topics[i].Name) + 4*len(s.Topics[i].Partitions)
	}
	return n
}

// Request decodes the request, without the records that were left out. It fails where it was too long to be kept or is malformed.
func (e *Entry) Request() (kmsg.Request, error) {
	if e.request.kept == nil {
		return nil, fmt.Errorf("a request of %d bytes is too long for the log, which keeps %d", e.RequestBytes, MaxBody)
	}
	return e.decodeRequest(e.request.kept)
}

// api is the API of the request, as far as it says what messages are like.
func (e *Entry) api() *protocol.API { return &protocol.API{Name: e.API, Key: e.Key} }

func (e *Entry) decodeRequest(b []byte) (kmsg.Request, error) {
	q := e.api().NewRequest(e.Version)
	if q == nil || e.Version > q.MaxVersion() {
		return nil, fmt.Errorf("%s v%d cannot be decoded", e.API, e.Version)
	}
	if err := q.ReadFrom(b); err != nil {
		return nil, fmt.Errorf("%s v%d: %w", e.API, e.Version, err)
	}
	return q, nil
}

// Answer decodes the answer, without the records that were left out. It is nil where there is none, and fails where it was too long to be kept or a fault has made it undecodable.
func (e *Entry) Answer() (kmsg.Response, error) {
	switch {
	case e.Outcome != Answered:
		return nil, nil
	case e.answer.kept == nil:
		return nil, fmt.Errorf("an answer of %d bytes is too long for the log, which keeps %d", e.AnswerBytes, MaxBody)
	}
	return e.decodeAnswer(e.answer.kept)
}

func (e *Entry) decodeAnswer(b []byte) (kmsg.Response, error) {
	p := e.api().NewResponse(protocol.AnswerVersion(e.Key, e.Version, b))
	if p == nil {
		return nil, fmt.Errorf("%s v%d cannot be decoded", e.API, e.Version)
	}
	if err := p.ReadFrom(b); err != nil {
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
		LeftOut     []string        `json:"leftOut,omitempty"`
	}{plain: plain(e), LeftOut: e.LeftOut()}
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
	apis    protocol.Catalog
	mu      sync.Mutex
	entries []*Entry // entry Seq is at (Seq-1) % cap
	oldest  uint64   // Seq of the oldest that is not forgotten
	last    uint64   // Seq of the newest
	bytes   int      // of all entries
	most    int      // that bytes may be
}

// New makes a log of the last n requests, at least one, and of fewer where these would take more than MaxBytes, of a cluster that has the APIs.
func New(n int, apis protocol.Catalog) *Log {
	return &Log{apis: apis, entries: make([]*Entry, 0, n), oldest: 1, most: MaxBytes}
}

// Bound has the log forget the oldest where the entries would take more than so many bytes, fewer than MaxBytes. It is called before anything is added.
func (l *Log) Bound(bytes int) { l.most = min(bytes, MaxBytes) }

// Add adds a request. Beyond the log's bounds the oldest are forgotten. Its Seq is set.
func (l *Log) Add(e *Entry) {
	if subjectWeight(e.Subject) > MaxBody {
		e.Subject = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.Seq, e.Outcome = l.last, Pending
	switch {
	case len(l.entries) < cap(l.entries):
		l.entries = append(l.entries, e)
	default:
		if l.last-l.oldest == uint64(len(l.entries)) {
			l.forget()
		}
		l.entries[l.place(e.Seq)] = e
	}
	l.weigh(e)
}

func (l *Log) place(seq uint64) uint64 { return (seq - 1) % uint64(cap(l.entries)) }

// weigh counts an entry as it is now.
func (l *Log) weigh(e *Entry) {
	n := e.Weight()
	l.bytes += n - e.size
	e.size = n
	for l.bytes > l.most && l.oldest < l.last {
		l.forget()
	}
}

// forget drops the oldest entry.
func (l *Log) forget() {
	at := l.place(l.oldest)
	l.bytes -= l.entries[at].size
	l.entries[at] = nil
	l.oldest++
}

// Update changes an entry, unless it is forgotten by now.
func (l *Log) Update(e *Entry, change func(*Entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Seq < l.oldest {
		return
	}
	change(e)
	l.weigh(e)
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
	Limit      int // how many at most, the newest of them; 0 for all
}

// Find returns copies of the entries that a query picks, the oldest first.
func (l *Log) Find(q Query) ([]Entry, error) {
	key := int16(-1)
	if q.API != "" {
		a, err := l.apis.Find(q.API)
		if err != nil {
			return nil, err
		}
		key = a.Key
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []Entry
	for seq := l.last; seq >= l.oldest && seq > q.Since && (q.Limit == 0 || len(found) < q.Limit); seq-- {
		if e := l.entries[l.place(seq)]; (key < 0 || key == e.Key) && q.picks(e) {
			found = append(found, *e)
		}
	}
	slices.Reverse(found)
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
