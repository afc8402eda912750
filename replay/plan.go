package replay

import (
	"fmt"
	"strings"
	"time"
)

// move is one thing that the player does next. The recorder was one sequence of such moves: it sent a request
// and waited for the answer, or it sent one, did other things, and then waited.
type move struct {
	kind  moveKind
	step  *Step
	event event
	at    time.Duration // not before this time since the recorder's start
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
	place := map[int]int{} // a step's number to the place of its first move
	for i, st := range s.Steps {
		for _, e := range events {
			if e.before == st.N {
				moves = append(moves, move{kind: doEvent, event: e})
			}
		}
		var inside []move
		for _, e := range events {
			if e.during == st.N {
				inside = append(inside, move{kind: doEvent, event: e, at: st.Start() + e.after})
			}
		}
		at := len(moves)
		if st.overtaken {
			first := firstAfter(s.Steps[:i], st.Start())
			if first < 0 {
				return nil, fmt.Errorf("%s, step %s: began before a step of its own connection", s.Name, st)
			}
			at = place[s.Steps[first].N]
			for _, later := range s.Steps[first:i] {
				if later.Conn == st.Conn {
					return nil, fmt.Errorf("%s, step %s: step %s of the same connection lies inside it", s.Name, st, later)
				}
				place[later.N]++
			}
		}
		place[st.N] = at
		if at == len(moves) && len(inside) == 0 {
			moves = append(moves, move{kind: doStep, step: st, at: st.Start()})
			if topic, ok := strings.CutPrefix(st.Name, "create-topic-"); ok {
				moves = append(moves, move{kind: doEvent, event: event{do: awaitLeaders{st.Conn, topic}}})
			}
			continue
		}
		rest := append([]move{{kind: sendStep, step: st, at: st.Start()}}, moves[at:]...)
		moves = append(append(moves[:at:at], rest...), inside...)
		moves = append(moves, move{kind: awaitStep, step: st})
	}
	return moves, nil
}

// clockError is how far a start computed from a step's rounded end may be wrong.
const clockError = 3 * time.Millisecond

// overlaps tells whether a step was sent before the line above it had its answer.
func overlaps(st, above *Step) bool {
	return st.Conn != above.Conn && st.Start() < above.End-clockError-overlapSlack(above)
}

// overlapSlack is the time by which a raw step's end lies behind its last byte at most.
func overlapSlack(st *Step) time.Duration {
	if st.Raw {
		return stillOpenWait
	}
	return 0
}

// firstAfter is the first of the steps that started after a time.
func firstAfter(steps []*Step, start time.Duration) int {
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].Start() < start {
			if i == len(steps)-1 {
				return -1
			}
			return i + 1
		}
	}
	return 0
}
