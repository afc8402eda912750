package fault

import (
	"cmp"
	"fmt"
	"slices"

	"kshare/protocol"
	"kshare/protocol/describe"
)

// MaxRules is how many rules there may be at a time.
const MaxRules = 1000

// Set is the rules of a cluster, in the order in which they were added, MaxRules at most. One caller at a time.
type Set struct {
	// APIs are those that requests may be of, to be set before the first rule is added.
	APIs protocol.Catalog

	rules []*active
	last  int                 // id of the rule that was added last
	byKey map[int16]*keyRules // made anew once there were changes
	round uint64              // of matching
}

// keyRules are the rules that requests of an API may match, in order.
type keyRules struct {
	loose   []*active // those that name no topic
	byTopic map[string]*topicRules
	all     []*active
}

// topicRules are those that name a topic.
type topicRules struct {
	whole       *ruleList // without a partition
	byPartition map[int32]*ruleList
	all         *ruleList
}

// ruleList is rules that are found together. A request may name the same thing many times.
type ruleList struct {
	rules []*active
	round uint64 // of matching in which it was gone through last
}

// active is a rule at work.
type active struct {
	Status
	api   *protocol.API // nil for any
	draws draws
	round uint64 // of matching in which it was found last
}

// Status is a rule and what it has done.
type Status struct {
	ID      int  `json:"id"`
	Rule    Rule `json:"rule"`
	Matches int  `json:"matches"` // requests that it matched
	Acts    int  `json:"acts"`    // those on which it acted
	Held    int  `json:"held"`    // those that wait for its release
}

// Add adds a rule and returns its id. A rule that could never act or could not act as it says is not added, nor one beyond MaxRules.
func (s *Set) Add(r Rule) (id int, err error) {
	api, err := r.find(s.APIs)
	if err != nil {
		return 0, err
	}
	if err := r.check(api); err != nil {
		return 0, err
	}
	if len(s.rules) >= MaxRules {
		return 0, fmt.Errorf("there are %d faults already: remove those that are no longer needed first", MaxRules)
	}
	s.last++
	s.byKey = nil
	s.rules = append(s.rules, &active{Status: Status{ID: s.last, Rule: r}, api: api, draws: draws(r.Seed)})
	return s.last, nil
}

// Remove removes a rule. What it did to requests that are under way stays done.
func (s *Set) Remove(id int) error {
	i := slices.IndexFunc(s.rules, func(a *active) bool { return a.ID == id })
	if i < 0 {
		return fmt.Errorf("there is no fault %d", id)
	}
	s.byKey = nil
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
	for _, a := range s.candidates(q) {
		if a.matches(q) && a.acts() {
			actions = append(actions, Action{ID: a.ID, Rule: &a.Rule, draw: uint64(a.draws) + uint64(a.Acts)})
		}
	}
	return actions
}

// candidates are the rules that a request may match, in order: of those that name a topic and perhaps a partition the ones that the request names too.
func (s *Set) candidates(q *Request) []*active {
	k := s.of(q.Key)
	switch {
	case len(k.byTopic) == 0 || q.Subject == nil:
		return k.loose
	case q.Subject.AllTopics:
		return k.all
	}
	s.round++
	var found []*active
	add := func(l *ruleList) {
		if l == nil || l.round == s.round {
			return
		}
		l.round = s.round
		for _, a := range l.rules {
			if a.round != s.round {
				a.round = s.round
				found = append(found, a)
			}
		}
	}
	for i := range q.Subject.Topics {
		named := &q.Subject.Topics[i]
		t := k.byTopic[named.Name]
		switch {
		case t == nil:
		case named.Partitions == nil:
			add(t.all)
		default:
			add(t.whole)
			for _, p := range named.Partitions {
				add(t.byPartition[p])
			}
		}
	}
	if len(found) == 0 {
		return k.loose
	}
	found = append(found, k.loose...)
	slices.SortFunc(found, func(a, b *active) int { return cmp.Compare(a.ID, b.ID) })
	return found
}

// of are the rules that requests of an API may match.
func (s *Set) of(key int16) *keyRules {
	if k := s.byKey[key]; k != nil {
		return k
	}
	k := &keyRules{byTopic: map[string]*topicRules{}}
	for _, a := range s.rules {
		if a.api != nil && a.api.Key != key {
			continue
		}
		k.all = append(k.all, a)
		if a.Rule.Topic == "" {
			k.loose = append(k.loose, a)
			continue
		}
		t := k.byTopic[a.Rule.Topic]
		if t == nil {
			t = &topicRules{whole: &ruleList{}, byPartition: map[int32]*ruleList{}, all: &ruleList{}}
			k.byTopic[a.Rule.Topic] = t
		}
		t.all.rules = append(t.all.rules, a)
		l := t.whole
		if p := a.Rule.Partition; p != nil {
			if l = t.byPartition[*p]; l == nil {
				l = &ruleList{}
				t.byPartition[*p] = l
			}
		}
		l.rules = append(l.rules, a)
	}
	if s.byKey == nil {
		s.byKey = map[int16]*keyRules{}
	}
	s.byKey[key] = k
	return k
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

// matches tells whether a candidate matches a request: what it names of topics the request names too.
func (a *active) matches(q *Request) bool {
	r := &a.Rule
	switch {
	case r.Version != nil && *r.Version != q.Version,
		r.Node != nil && *r.Node != q.Node,
		r.Client != "" && r.Client != q.Client:
		return false
	}
	return r.Group == "" || q.Subject != nil && slices.Contains(q.Subject.Groups, r.Group)
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
