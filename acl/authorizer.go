package acl

import (
	"slices"
	"strings"
)

// Client is who asks: its principal, as in User:alice, and the address that it asks from.
type Client struct{ Principal, Host string }

// resource is a type of resources and a name.
type resource struct {
	kind ResourceType
	name string
}

// Authorizer is a set of rules and what counts beside them. It is not safe for concurrent use.
type Authorizer struct {
	superUsers map[string]bool
	permissive bool
	all        []Binding // in the order in which they were made
	known      map[Binding]bool
	literal    map[resource][]Binding
	prefixed   map[resource][]Binding
	longest    map[ResourceType]int // the longest name of a prefixed rule, in bytes
}

// New makes an authorizer without rules. superUsers may do everything (super.users); permissive tells that everybody may do everything to a resource that no
// rule is about (allow.everyone.if.no.acl.found).
func New(superUsers []string, permissive bool) *Authorizer {
	a := &Authorizer{
		superUsers: map[string]bool{}, permissive: permissive,
		known: map[Binding]bool{}, literal: map[resource][]Binding{}, prefixed: map[resource][]Binding{}, longest: map[ResourceType]int{},
	}
	for _, u := range superUsers {
		a.superUsers[u] = true
	}
	return a
}

// Add adds a rule; it reports false for one that is there.
func (a *Authorizer) Add(b Binding) bool {
	if a.known[b] {
		return false
	}
	a.known[b] = true
	a.all = append(a.all, b)
	at := resource{b.Type, b.Name}
	if b.Pattern == Prefixed {
		a.prefixed[at] = append(a.prefixed[at], b)
		a.longest[b.Type] = max(a.longest[b.Type], len(b.Name))
	} else {
		a.literal[at] = append(a.literal[at], b)
	}
	return true
}

// Remove removes a rule if it is there.
func (a *Authorizer) Remove(b Binding) {
	if !a.known[b] {
		return
	}
	delete(a.known, b)
	a.all = without(a.all, b)
	index, at := a.literal, resource{b.Type, b.Name}
	if b.Pattern == Prefixed {
		index = a.prefixed
	}
	if index[at] = without(index[at], b); len(index[at]) == 0 {
		delete(index, at)
	}
}

func without(rules []Binding, b Binding) []Binding {
	return slices.DeleteFunc(rules, func(other Binding) bool { return other == b })
}

// Find returns the rules that a filter picks, in the order in which they were made.
func (a *Authorizer) Find(f *Filter) (found []Binding) {
	for i := range a.all {
		if f.Matches(&a.all[i]) {
			found = append(found, a.all[i])
		}
	}
	return found
}

// verdict is what the rules that were looked at say.
type verdict struct {
	any, allowed, denied bool
}

// add looks at the rules about a resource.
func (v *verdict) add(rules []Binding, who Client, op Operation) {
	for i := range rules {
		b := &rules[i]
		v.any = true
		switch {
		case b.Principal != who.Principal && b.Principal != everybody, !b.gives(op), !b.covers(who.Host):
		case b.Permission == Deny:
			v.denied = true
		default:
			v.allowed = true
		}
	}
}

// Allows tells whether a client has a right to a resource: a super user has; else a rule that denies it wins over all that allow it
// (StandardAuthorizerData.authorize).
func (a *Authorizer) Allows(who Client, op Operation, kind ResourceType, name string) bool {
	if a.superUsers[who.Principal] {
		return true
	}
	var v verdict
	v.add(a.literal[resource{kind, name}], who, op)
	if name != Wildcard {
		v.add(a.literal[resource{kind, Wildcard}], who, op)
	}
	for n := min(a.longest[kind], len(name)); n > 0 && !v.denied; n-- {
		v.add(a.prefixed[resource{kind, name[:n]}], who, op)
	}
	switch {
	case v.denied:
		return false
	case v.allowed:
		return true
	}
	return !v.any && a.permissive
}

// AllowsAny tells whether a client has a right to any resource of a type at all (Authorizer.authorizeByResourceType). What implies another operation
// does not count here.
func (a *Authorizer) AllowsAny(who Client, op Operation, kind ResourceType) bool {
	if a.Allows(who, op, kind, "hardcode") { // a super user's, a wildcard's, or everybody's
		return true
	}
	var allowing, denying []*Binding
	for i := range a.all {
		b := &a.all[i]
		if b.Type != kind || b.Principal != who.Principal && b.Principal != everybody || b.Operation != op && b.Operation != All || !b.covers(who.Host) {
			continue
		}
		if b.Permission == Allow {
			allowing = append(allowing, b)
			continue
		}
		if b.Pattern == Literal && b.Name == Wildcard {
			return false
		}
		denying = append(denying, b)
	}
	return slices.ContainsFunc(allowing, func(b *Binding) bool {
		if b.Pattern == Literal && b.Name == Wildcard {
			return true
		}
		return !slices.ContainsFunc(denying, func(no *Binding) bool {
			if no.Pattern == Prefixed {
				return strings.HasPrefix(b.Name, no.Name)
			}
			return b.Pattern == Literal && no.Name == b.Name
		})
	})
}

// Operations are the supported operations that a client has a right to, as the bit field in which answers list them.
func (a *Authorizer) Operations(who Client, kind ResourceType, name string) (bits int32) {
	for _, op := range kind.Supported() {
		if a.Allows(who, op, kind, name) {
			bits |= 1 << op
		}
	}
	return bits
}
