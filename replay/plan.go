package replay

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// move is one thing that the player does next. The recorder was one sequence of such moves: it sent a request
// and waited for the answer, or it sent one, did other things, and then waited.
type move struct {
	kind  moveKind
	step  *Step
	event event
	at    time.Duration // since the recorder's start: when it was done; 0: right after the move before
}

type moveKind uint8

const (
	doStep    moveKind = iota // send and wait for the answer
	sendStep                  // send only
	awaitStep                 // wait for the answer of a sendStep
	doEvent
)

// plan puts a session's lines, which stand in the order of their ends, back into the order of what the
// recorder did.
func plan(s *Session, events []event) ([]move, error) {
	var moves []move
	for i, st := range s.Steps {
		moves = append(moves, eventsBefore(st, events)...)
		inside := eventsDuring(st, events)
		if !st.overtaken && len(inside) == 0 {
			moves = append(append(moves, move{kind: doStep, step: st, at: st.Start()}), eventsAfter(st)...)
			continue
		}
		for _, above := range s.Steps[:i] {
			if above.Conn == st.Conn && above.End > st.Start()+clockError {
				return nil, fmt.Errorf("%s, step %s: step %s of the same connection lies inside it", s.Name, st, above)
			}
		}
		send := move{kind: sendStep, step: st, at: st.Start()}
		at := slices.IndexFunc(moves, func(m move) bool { return m.at > send.at })
		if at < 0 {
			at = len(moves)
		}
		moves = append(slices.Insert(moves, at, send), inside...)
		moves = append(moves, move{kind: awaitStep, step: st, at: st.End})
	}
	return moves, nil
}

func eventsBefore(st *Step, events []event) []move {
	var moves []move
	if name, ok := strings.CutPrefix(st.Name, "acquire-"); ok {
		moves = append(moves, move{kind: doEvent, event: event{do: joinShareGroup{st.Conn, "g-" + name, "m1", name}}})
	}
	for _, e := range events {
		if e.before == st.N {
			moves = append(moves, move{kind: doEvent, event: e})
		}
	}
	return moves
}

func eventsDuring(st *Step, events []event) []move {
	var moves []move
	for _, e := range events {
		if e.during == st.N {
			moves = append(moves, move{kind: doEvent, event: e, at: st.Start() + e.after})
		}
	}
	return moves
}

func eventsAfter(st *Step) []move {
	if topic, ok := strings.CutPrefix(st.Name, "create-topic-"); ok && creates(st, topic) {
		return []move{{kind: doEvent, event: event{do: awaitLeaders{st.Conn, topic}}}}
	}
	return nil
}

// creates tells whether a step creates a topic.
func creates(st *Step, topic string) bool {
	q, _, err := decodeRequest(st)
	if err != nil {
		return false
	}
	c, ok := q.(*kmsg.CreateTopicsRequest)
	return ok && slices.ContainsFunc(c.Topics, func(t kmsg.CreateTopicsRequestTopic) bool { return t.Topic == topic })
}

// clockError is how far a start computed from a step's rounded end may be wrong.
const clockError = 3 * time.Millisecond

// overlaps tells whether a step was sent before the line above it had its answer.
func overlaps(st, above *Step) bool {
	end := above.End - clockError
	if above.Raw {
		end -= stillOpenWait // the last byte came up to so much earlier
	}
	return st.Conn != above.Conn && st.Start() < end
}
