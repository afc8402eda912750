// Package fault is what goes wrong on purpose: rules that say which requests are hit, how often and how.
//
// A rule matches by what it names of a request, acts on some of the matches, and has one action. Its JSON form and its text form have the
// same keys; the text form is key=value words, and a word without = is a key that is true:
//
//	api=ShareFetch topic=orders partition=0 nth=2 times=3 error=NOT_LEADER_OR_FOLLOWER
//	{"api": "ShareFetch", "topic": "orders", "partition": 0, "nth": 2, "times": 3, "error": "NOT_LEADER_OR_FOLLOWER"}
//
// What a request must be, everything that the rule names:
//
//	api=ShareFetch     the API, by Kafka's name or its key; TxnShareAcknowledge too, in a cluster that takes acknowledgements in transactions (KIP-1289)
//	version=2          the version; the API must be named too
//	node=1             the node that it came to
//	client=worker-1    the client id
//	group=workers      a group that the request names
//	topic=orders       a topic that the request names, by name or id, or that its session fetches; requests for all topics name each
//	partition=0        a partition of that topic; a request that names the topic as a whole names each
//
// On which matches the rule acts:
//
//	nth=2              from the second match on, 1 is the default
//	times=3            on three of them, 0, the default, for ever
//	probability=0.25   on a quarter of them, drawn with
//	seed=7             this seed: the same requests in the same order are hit again
//
// The action, one of:
//
//	error=CODE         answer with the error of that name or number, at
//	level=topic        this level of the answer: top, group, coordinator, resource, member, entry (of any other list), topic, partition, or
//	                   acknowledge, which is AcknowledgeErrorCode of ShareFetch
//	delay=2s           wait that long, on the cluster's clock
//	hold               wait until the rule is released by its name
//	close              close the connection
//	silence            never answer, neither this request nor a later one of the connection, which stays open
//	hex=00ff           answer with these bytes behind the header of the answer
//	truncate=10        cut the answer to that many bytes behind its header
//	flip=3             flip that many bits behind the header of the answer, drawn with seed
//	length=100         claim this length in front of the answer instead of the right one; goes with hex, truncate and flip too
//
// When it acts:
//
//	stage=before       the request is not applied, or only after the wait; the default
//	stage=after        the request is applied, then it goes wrong: with close, the outcome that a client cannot know. The wrong bytes are
//	                   always after.
//
// An error without level goes to the partition or topic that the rule names, then to the group or coordinator; a rule that names none of them has it
// at the top of the answer if the API has a code there, else at the highest level that has one. A level that the API has in other
// versions only is treated as none. Before the request is applied, the entries that are to fail are taken out of it, and the others are
// handled as ever. A partition of a ShareFetch fails with the acknowledgements for it.
//
// Every rule that matches acts, in the order in which they were added. Of several errors for the same entry the first holds. A rule with
// name=NAME can be told from others, and released.
package fault

import (
	"encoding/hex"
	"time"

	"kshare/protocol/errorcode"
)

// Rule says what goes wrong, with which requests. The package's documentation explains the fields by their keys. The zero value of a field is
// the same as its absence.
type Rule struct {
	Name string `json:"name,omitempty"`

	API       NameOrNumber `json:"api,omitempty"`
	Version   *int16       `json:"version,omitempty"`
	Node      *int32       `json:"node,omitempty"`
	Client    string       `json:"client,omitempty"`
	Group     string       `json:"group,omitempty"`
	Topic     string       `json:"topic,omitempty"`
	Partition *int32       `json:"partition,omitempty"`

	Nth         int     `json:"nth,omitempty"`
	Times       int     `json:"times,omitempty"`
	Probability float64 `json:"probability,omitempty"`
	Seed        uint64  `json:"seed,omitempty"`

	Error    NameOrNumber  `json:"error,omitempty"`
	Level    Level         `json:"level,omitempty"`
	Delay    time.Duration `json:"delay,omitempty"` // as text in Go's form in JSON: "1.5s"
	Hold     bool          `json:"hold,omitempty"`
	Close    bool          `json:"close,omitempty"`
	Silence  bool          `json:"silence,omitempty"`
	Hex      string        `json:"hex,omitempty"`
	Truncate *int          `json:"truncate,omitempty"`
	Flip     int           `json:"flip,omitempty"`
	Length   *int32        `json:"length,omitempty"`

	Stage Stage `json:"stage,omitempty"`
}

// NameOrNumber is an API or an error code, by its name in Kafka or by its number. JSON may have the number as one.
type NameOrNumber string

// Stage is when a rule acts.
type Stage string

// The stages of a request.
const (
	Before Stage = "before" // it is applied
	After  Stage = "after"
)

// Level is a level of an answer that may have an error code.
type Level string

// The levels, from the highest to the lowest.
const (
	Top         Level = "top"
	Group       Level = "group"
	Coordinator Level = "coordinator" // of a key of FindCoordinator
	Resource    Level = "resource"    // of a configuration request
	Member      Level = "member"      // of LeaveGroup
	Entry       Level = "entry"       // of any other list
	Topic       Level = "topic"
	Partition   Level = "partition"
	Acknowledge Level = "acknowledge" // AcknowledgeErrorCode of ShareFetch
)

// Acts tells when the rule acts.
func (r *Rule) Acts() Stage {
	if r.Stage != "" {
		return r.Stage
	}
	if r.alters() {
		return After
	}
	return Before
}

// alters tells whether the action is wrong bytes.
func (r *Rule) alters() bool {
	return r.Hex != "" || r.Truncate != nil || r.Flip != 0 || r.Length != nil
}

// Code is the error code of the rule, 0 where its action is another.
func (r *Rule) Code() int16 {
	if r.Error == "" {
		return errorcode.None
	}
	code, err := findCode(string(r.Error))
	if err != nil {
		return errorcode.None
	}
	return code
}

// alter makes the wrong bytes of an answer and the length to claim for it. The flipped bits depend on draw.
func (r *Rule) alter(body []byte, draw uint64) ([]byte, *int32) {
	out := append([]byte(nil), body...)
	if r.Hex != "" {
		out, _ = hex.DecodeString(r.Hex) // checked when the rule was added
	}
	if r.Truncate != nil {
		out = out[:min(len(out), *r.Truncate)]
	}
	flip(out, r.Flip, draw)
	return out, r.Length
}

// flip flips n different bits, or all where there are fewer.
func flip(b []byte, n int, draw uint64) {
	total := uint64(8 * len(b))
	bits, flipped := draws(draw), map[uint64]bool{}
	for uint64(len(flipped)) < min(uint64(n), total) {
		if at := bits.next() % total; !flipped[at] {
			flipped[at] = true
			b[at/8] ^= 1 << (at % 8)
		}
	}
}

// draws is a sequence of pseudo-random numbers that is the same for ever: splitmix64 (Steele, Lea and Flood 2014).
type draws uint64

func (d *draws) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unit is the next number from 0 up to, not including, 1.
func (d *draws) unit() float64 { return float64(d.next()>>11) / (1 << 53) }
