package explore

import "time"

// Kinds of events.
const (
	KindRequest = "request" // a request arrived
	KindAnswer  = "answer"  // an answer was sent
	KindEnd     = "end"     // a request has got no answer: Outcome and Reason say why
)

// MaxEvents bounds the events that a session remembers; of older ones nothing is known.
const MaxEvents = 10_000

// Event is a request or what became of it.
type Event struct {
	N       uint64    `json:"n"` // counts events from 1 on
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Request uint64    `json:"request"` // numbers the request that this is or belongs to
	// Command is the number of the step during which it happened, 0 where there is none.
	Command    int    `json:"command"`
	Node       int32  `json:"node"`
	Connection uint64 `json:"connection"`
	ClientID   string `json:"clientId"`
	API        string `json:"api"`
	Key        int16  `json:"key"`
	Version    int16  `json:"version"`
	Bytes      int    `json:"bytes"` // of the body
	// Groups, Members and Partitions are what the request was about, members by the script's names for them, at most MaxNames of each; a partition is like orders-0, a topic as a whole like orders.
	Groups     []string `json:"groups"`
	Members    []string `json:"members"`
	Partitions []string `json:"partitions"`
	// Errors are the names of error codes in an answer, each once, at most MaxNames.
	Errors  []string `json:"errors"`
	Outcome string   `json:"outcome"`           // of kind end: no answer, closed or silent
	Reason  string   `json:"reason,omitempty"`  // why the connection was closed
	Faults  []string `json:"faults,omitempty"`  // those that acted
	TookMs  float64  `json:"tookMs"`            // from the request to its answer
	Refused bool     `json:"refused,omitempty"` // Errors is not empty
}

// MaxNames bounds each list of an event.
const MaxNames = 20

// Decoded is an event with the fields of its message.
type Decoded struct {
	Event
	// Fields is the message as an object, null where it cannot be decoded.
	Fields any `json:"fields"`
	// Undecodable is why it cannot be.
	Undecodable string `json:"undecodable,omitempty"`
	// LeftOut is what of the message was not kept, in words.
	LeftOut []string `json:"leftOut,omitempty"`
}
