package shareclient

import "math"

// session is a share session with a node as the client knows it (KIP-932): ShareFetch and ShareAcknowledge count on in one epoch.
type session struct {
	epoch      int32 // of the next request; 0 opens a session
	partitions map[Partition]bool
}

// closing is the epoch that ends a session.
const closing int32 = -1

// plan is what a ShareFetch has to add and to forget so that the session has the wanted partitions. A new session forgets nothing.
func (s *session) plan(want map[Partition]bool) (add, forget []Partition) {
	for p := range want {
		if s.epoch == 0 || !s.partitions[p] {
			add = append(add, p)
		}
	}
	if s.epoch == 0 {
		return add, nil
	}
	for p := range s.partitions {
		if !want[p] {
			forget = append(forget, p)
		}
	}
	return add, forget
}

// answered counts on after an answer without a top-level error. want is nil after a ShareAcknowledge, which changes no partitions.
func (s *session) answered(want map[Partition]bool) {
	if want != nil {
		s.partitions = want
	}
	if s.epoch == math.MaxInt32 {
		s.epoch = 1 // 0 would open a session
		return
	}
	s.epoch++
}
