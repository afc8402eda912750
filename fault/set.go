package fault

import (
	"fmt"
	"slices"

	"kshare/protocol"
	"kshare/protocol/describe"
)

// Set is the rules of a cluster, in the order in which they were added. One caller at a time.
type Set struct {
	rules []*active
	last  int // id of the rule that was added last
}

// active is a rule at work.
type active struct {
	Status
	api   *protocol.API // nil for any
	draws draws
}

// Status is a rule and what it has done.
type Status struct {
	ID      int  `json:"id"`
	Rule    Rule `json:"rule"`
	Matches int  `json:"matches"` // requests that it matched
	Acts    int  `json:"acts"`    // those on which it acted
	Held    int  `json:"held"`    // those that wait for its release
}

// Add adds a rule and returns its id. A rule that Check refuses is not added.
func (s *Set) Add(r Rule) (id int, err error) {
	if err := r.Check(); err != nil {
		return 0, err
	}
	s.last++
	s.rules = append(s.rules, &active{Status: Status{ID: s.last, Rule: r}, api: r.api(), draws: draws(r.Seed)})
	return s.last, nil
}

// Remove removes a rule. What it did to requests that are under way stays done.
func (s *Set) Remove(id int) error {
	i := slices.IndexFunc(s.rules, func(a *active) bool { return a.ID == id })
	if i < 0 {
		return fmt.Errorf("there is no fault %d", id)
	}
	s.rules = slices.Delete(s.rules, i, i+1)
	return nil
}

// Empty tells whether there are no rules.
func (s *Set) Empty() bool { return len(s.rules) == 0 }

// HasName tells whether a rule has the name.
func (s *Set) HasName(name string) bool {
	return slices.ContainsFunc(s.rules, func(a *active) bool { return a.Rule.Name == name })
}

// Status tells what the rules have done. Held is the caller's to fill in.
func (s *Set) Status() []Status {
	out := make([]Status, len(s.rules))
	for i, a := range s.rules {
		out[i] = a.Status
	}
	return out
}

// Request is what rules match.
type Request struct {
	Key, Version int16
	Node         int32
	Client       string
	// Subject is whom and what the request means, topics by their names, sessions included; nil where it could not be decoded.
	Subject *describe.Subject
}

// Action is what a rule does to a request.
type Action struct {
	ID   int
	Rule *Rule
	draw uint64
}

// Match returns what the rules do to a request, and counts it.
func (s *Set) Match(q *Request) (actions []Action) {
	for _, a := range s.rules {
		if a.matches(q) && a.acts() {
			actions = append(actions, Action{ID: a.ID, Rule: &a.Rule, draw: uint64(a.draws) + uint64(a.Acts)})
		}
	}
	return actions
}

// acts counts a match and tells whether the rule acts on it. From the n-th match on each takes one draw, whether the rule acts or not.
func (a *active) acts() bool {
	a.Matches++
	if a.Matches < a.Rule.Nth || a.Rule.Times > 0 && a.Acts >= a.Rule.Times {
		return false
	}
	if a.Rule.Probability > 0 && a.draws.unit() >= a.Rule.Probability {
		return false
	}
	a.Acts++
	return true
}

func (a *active) matches(q *Request) bool {
	r := &a.Rule
	switch {
	case a.api != nil && a.api.Key != q.Key,
		r.Version != nil && *r.Version != q.Version,
		r.Node != nil && *r.Node != q.Node,
		r.Client != "" && r.Client != q.Client:
		return false
	case r.Group == "" && r.Topic == "":
		return true
	case q.Subject == nil, r.Group != "" && !slices.Contains(q.Subject.Groups, r.Group):
		return false
	}
	return r.Topic == "" || r.matchesTopic(q.Subject)
}

func (r *Rule) matchesTopic(s *describe.Subject) bool {
	return s.AllTopics || slices.ContainsFunc(s.Topics, func(t describe.Topic) bool {
		return t.Name == r.Topic && (r.Partition == nil || t.Partitions == nil || slices.Contains(t.Partitions, *r.Partition))
	})
}

// Alter returns the body of an answer with the wrong bytes of the rule, and the length to claim for it, nil for the right one.
func (a *Action) Alter(body []byte) ([]byte, *int32) { return a.Rule.alter(body, a.draw) }

// String names the rule.
func (a *Action) String() string {
	if a.Rule.Name != "" {
		return a.Rule.Name
	}
	return fmt.Sprintf("fault %d", a.ID)
}
