package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"kshare"
	"kshare/fault"
	"kshare/internal/jsonhttp"
	"kshare/protocol/describe"
)

// newFault is a rule of what goes wrong, as an object or as text.
type newFault struct{ rule fault.Rule }

// faultText is a rule as text.
type faultText struct {
	Text string `json:"text" doc:"key=value words with spaces between them, such as api=Fetch times=1 close"`
}

func (n *newFault) DecodeBody(body []byte) (err error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(body, &keys); err != nil {
		return jsonhttp.Refuse(http.StatusBadRequest, "the body is no JSON object: %v", err)
	}
	if _, ok := keys["text"]; ok {
		var t faultText
		if err := jsonhttp.DecodeObject(body, reflect.ValueOf(&t).Elem()); err != nil {
			return err
		}
		n.rule, err = fault.ParseRule(strings.Fields(t.Text)...)
	} else {
		n.rule, err = fault.DecodeRule(body)
	}
	if err != nil {
		return jsonhttp.Refuse(http.StatusBadRequest, "the fault: %v", err)
	}
	return nil
}

func (s *server) addFault(_ context.Context, q *newFault) (*Created, error) {
	id, err := s.cluster.AddFault(q.rule)
	if err != nil {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "the fault: %v", err)
	}
	return &Created{id}, nil
}

// Faults is the faults of requests.
type Faults struct {
	Faults []Fault `json:"faults" doc:"in the order in which they were added"`
}

// Fault is a rule and what it has done.
type Fault struct {
	ID      int        `json:"id"`
	Rule    fault.Rule `json:"rule"`
	Text    string     `json:"text" doc:"the rule as text"`
	Matches int        `json:"matches" doc:"how many requests it matched"`
	Acts    int        `json:"acts" doc:"on how many of them it acted"`
	Held    int        `json:"held" doc:"how many wait for its release"`
}

func (s *server) getFaults(context.Context, *struct{}) (*Faults, error) {
	all := &Faults{Faults: []Fault{}}
	for _, f := range s.cluster.Faults() {
		all.Faults = append(all.Faults, Fault{f.ID, f.Rule, f.Rule.String(), f.Matches, f.Acts, f.Held})
	}
	return all, nil
}

type numbered struct {
	ID int `path:"id" doc:"as it was given when the fault was added"`
}

func (s *server) removeFault(_ context.Context, q *numbered) (*nothing, error) {
	if err := s.cluster.RemoveFault(q.ID); err != nil {
		return nil, jsonhttp.Refuse(http.StatusNotFound, "%v", err)
	}
	return &nothing{}, nil
}

func (s *server) removeFaults(context.Context, *struct{}) (*nothing, error) {
	for _, f := range s.cluster.Faults() {
		_ = s.cluster.RemoveFault(f.ID) // it fails for one that somebody else has removed meanwhile
	}
	return &nothing{}, nil
}

type release struct {
	Name string `json:"name" doc:"of faults that hold"`
}

// Released is how many went on.
type Released struct {
	Released int `json:"released" doc:"how many went on"`
}

func (s *server) releaseFaults(_ context.Context, q *release) (*Released, error) {
	n, err := s.cluster.ReleaseFault(q.Name)
	if err != nil {
		return nil, jsonhttp.Refuse(http.StatusNotFound, "%v", err)
	}
	return &Released{n}, nil
}

type requestQuery struct {
	API        string `query:"api,omitempty" doc:"Kafka's name of an API or its key"`
	Group      string `query:"group,omitempty" doc:"a group that the request names"`
	Member     string `query:"member,omitempty" doc:"a member that the request names"`
	Topic      string `query:"topic,omitempty" doc:"a topic that the request means"`
	Client     string `query:"client,omitempty" doc:"a client id"`
	Connection uint64 `query:"connection,omitempty"`
	Since      uint64 `query:"since,omitempty" doc:"requests that came after the one of this number"`
	Limit      int    `query:"limit,omitempty" doc:"how many at most, the last ones of them; 100 without it, 1000 at most"`
}

// Bounds of what is told of the request log.
const (
	usualRequests = 100
	mostRequests  = 1000
	maxFields     = 16 << 20 // bytes of the fields of requests and answers in one answer, after which those of earlier requests are left out
)

// Requests is requests of the log.
type Requests struct {
	Requests []Request `json:"requests" doc:"the oldest first"`
}

// Request is a request of a client and what became of it.
type Request struct {
	Seq           uint64          `json:"seq" doc:"numbers the requests in the order of their arrival"`
	API           string          `json:"api"`
	Key           int16           `json:"key"`
	Version       int16           `json:"version"`
	Node          int32           `json:"node"`
	Connection    uint64          `json:"connection"`
	ClientID      string          `json:"clientId"`
	CorrelationID int32           `json:"correlationId"`
	Arrived       time.Time       `json:"arrived" doc:"on the cluster's clock"`
	Answered      *time.Time      `json:"answered" doc:"null while it waits"`
	RequestBytes  int             `json:"requestBytes"`
	AnswerBytes   int             `json:"answerBytes"`
	Outcome       string          `json:"outcome" values:"pending,answered,no answer,closed,silent"`
	Reason        string          `json:"reason" doc:"why the connection was closed"`
	Faults        []string        `json:"faults" doc:"those that acted on it"`
	Request       json.RawMessage `json:"request" doc:"its fields, null where it cannot be decoded"`
	Answer        json.RawMessage `json:"answer" doc:"the fields of the answer, null where there is none or it cannot be decoded"`
	LeftOut       []string        `json:"leftOut" doc:"what of request and answer is not here, as the records of long ones, in words"`
}

func (s *server) getRequests(_ context.Context, q *requestQuery) (*Requests, error) {
	if s.cluster.RequestLog() == 0 {
		return nil, jsonhttp.Refuse(http.StatusConflict, "requests are not logged: start kshare with --request-log")
	}
	limit := q.Limit
	if limit == 0 {
		limit = usualRequests
	}
	if limit < 1 || limit > mostRequests {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "limit: %d is not a number from 1 to %d", q.Limit, mostRequests)
	}
	found, err := s.cluster.Requests(kshare.RequestQuery{
		Since: q.Since, API: q.API, Group: q.Group, Member: q.Member, Topic: q.Topic, ClientID: q.Client, Connection: q.Connection, Limit: limit,
	})
	if err != nil {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "%v", err)
	}
	all := &Requests{Requests: make([]Request, len(found))}
	left := maxFields
	for i := len(found) - 1; i >= 0; i-- {
		if all.Requests[i], err = requestOf(&found[i], left > 0); err != nil {
			return nil, err
		}
		left -= len(all.Requests[i].Request) + len(all.Requests[i].Answer)
	}
	return all, nil
}

// requestOf tells of a request of the log, with or without its fields.
func requestOf(e *kshare.Request, fields bool) (Request, error) {
	x := Request{
		Seq: e.Seq, API: e.API, Key: e.Key, Version: e.Version, Node: e.Node, Connection: e.Connection, ClientID: e.ClientID, CorrelationID: e.CorrelationID,
		Arrived: e.Arrived.UTC(), RequestBytes: e.RequestBytes, AnswerBytes: e.AnswerBytes, Outcome: string(e.Outcome), Reason: e.Reason, Faults: append([]string{}, e.Faults...),
	}
	if !e.Answered.IsZero() {
		answered := e.Answered.UTC()
		x.Answered = &answered
	}
	x.LeftOut = append([]string{}, e.LeftOut()...)
	if !fields {
		x.LeftOut = append(x.LeftOut, fmt.Sprintf("the fields: those of later requests are %d bytes long already; ask for fewer with limit, or for some", maxFields))
		return x, nil
	}
	var err error
	if q, undecodable := e.Request(); undecodable == nil {
		if x.Request, err = json.Marshal(describe.Message(q)); err != nil {
			return x, err
		}
	}
	if p, undecodable := e.Answer(); undecodable == nil && p != nil {
		x.Answer, err = json.Marshal(describe.Message(p))
	}
	return x, err
}
