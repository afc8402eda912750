package conformance

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Level is how much a rule weighs.
type Level string

// The levels.
const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
	Info   Level = "INFO"
)

// Capabilities that rules need beyond a client's frames.
const (
	NeedsDriver = "driver" // a program around the client reports what the application saw and did
	NeedsNodes  = "multi"  // a cluster of several nodes
	NeedsKTX    = "ktx"    // a cluster that takes acknowledgements in transactions (KIP-1289)
)

// Rule is something that can be told of a client.
type Rule struct {
	ID     string // stable for ever
	Level  Level
	Says   string // what a client does that keeps it
	Source string
	// Needs is what it takes to judge it, "" for frames of any traffic.
	Needs string
	checks
}

// Judged tells whether the rule can be decided from frames.
func (r *Rule) Judged() bool { return r.Needs != NeedsDriver }

// checks are when a rule looks, and at what. Each may be nil.
type checks struct {
	opened   func(*exam, *conn)
	closed   func(*exam, *conn)
	request  func(*exam, *request) // before the request is taken into the model
	answer   func(*exam, *answer)  // before the answer is
	answered func(*exam, *answer)  // after it was
}

// Rules are all rules in the order of their areas.
var Rules = slices.Concat(wireRules, memberRules, sessionRules, fetchRules, acknowledgeRules, applicationRules, groupRules, transactionRules, kip1289Rules)

// on makes a check of the requests of one type.
func on[Q kmsg.Request](f func(*exam, *request, Q)) checks {
	return checks{request: func(x *exam, r *request) {
		if q, ok := r.q.(Q); ok {
			f(x, r, q)
		}
	}}
}

// onShare makes a check of ShareFetch and ShareAcknowledge.
func onShare(f func(*exam, *request, *shareRequest)) checks {
	return checks{request: func(x *exam, r *request) {
		if r.share != nil {
			f(x, r, r.share)
		}
	}}
}

// onAcks makes a check of the partitions of ShareFetch and ShareAcknowledge that carry acknowledgements.
func onAcks(f func(*exam, *request, *sharePartition)) checks {
	return onShare(func(x *exam, r *request, s *shareRequest) {
		for i := range s.partitions {
			if p := &s.partitions[i]; len(p.batches) > 0 {
				f(x, r, p)
			}
		}
	})
}

// onOffsets makes a check of each acknowledged offset whose acquisition is known. f tells whether it is about the offset, and what is wrong with it; the first wrong one of a
// partition is told.
func onOffsets(f func(*exam, *request, *acked) (about bool, wrong string, frames []int)) checks {
	return onAcks(func(x *exam, r *request, p *sharePartition) {
		judged, told := false, false
		p.offsets(func(offset int64, kind int8) bool {
			a := acked{partition: p, offset: offset, kind: kind, entry: r.member.held(p.topicPartition).at(offset)}
			if a.entry == nil {
				return true
			}
			about, wrong, frames := f(x, r, &a)
			judged = judged || about
			if wrong != "" {
				told = true
				x.wrong(frames, "%s: %s", x.at(p.topicPartition, offset), wrong)
			}
			return wrong == ""
		})
		if judged && !told {
			x.right()
		}
	})
}

// acked is an acknowledgement of one offset.
type acked struct {
	partition *sharePartition
	offset    int64
	kind      int8
	entry     *entry
}

// exam is one look of a rule.
type exam struct {
	*Judge
	rule *Rule
	t    *tally
}

// right counts a look that found nothing.
func (x *exam) right() { x.t.count++ }

// wrong tells that the rule was broken by the frame at hand, and which other frames that contradicts. Frames that are 0 are left out.
func (x *exam) wrong(frames []int, format string, args ...any) {
	x.t.count++
	x.t.broken++
	x.tell(frames, format, args...)
}

// expect is right or wrong.
func (x *exam) expect(ok bool, frames []int, format string, args ...any) {
	if ok {
		x.right()
	} else {
		x.wrong(frames, format, args...)
	}
}

// unsure counts a look that the judge remembers too little for.
func (x *exam) unsure() { x.t.unsure++ }

// note tells of a rule of level INFO what the client does. What was told before is only counted.
func (x *exam) note(format string, args ...any) {
	x.t.count++
	text := fmt.Sprintf(format, args...)
	for _, e := range x.t.evidence {
		if e.Says == text {
			return
		}
	}
	x.tell(nil, "%s", text)
}

func (x *exam) tell(frames []int, format string, args ...any) {
	if len(x.t.evidence) >= maxEvidence {
		return
	}
	e := Evidence{AtMillis: x.now.Sub(x.first).Milliseconds(), Says: fmt.Sprintf(format, args...)}
	if x.frame > 0 && x.acting {
		e.Frames = append(e.Frames, x.frame)
	}
	for _, f := range frames {
		if f > 0 && !slices.Contains(e.Frames, f) {
			e.Frames = append(e.Frames, f)
		}
	}
	if x.acting {
		if c := x.current; c != nil {
			e.Client, e.Connection, e.Node = c.clientID, c.id, c.node
		}
		if r := x.asking; r != nil {
			e.API, e.Version, e.Request = r.api.Name, r.header.Version, describeRequest(r.q)
		}
	}
	x.t.evidence = append(x.t.evidence, e)
}

// maxEvidence is how many violations of a rule are told in full.
const maxEvidence = 10

// the keys of APIs that the judge knows more about than their versions.
const (
	apiVersionsKey     = 18
	shareHeartbeatKey  = 76
	shareFetchKey      = 78
	shareAcknowledgeKy = 79
)

func isShareKey(key int16) bool {
	return key == shareHeartbeatKey || key == shareFetchKey || key == shareAcknowledgeKy
}

// apiName is the name of an API, or its key.
func (j *Judge) apiName(key int16) string {
	if a := j.apis.ByKey(key); a != nil {
		return a.Name
	}
	return fmt.Sprintf("the API with key %d", key)
}
