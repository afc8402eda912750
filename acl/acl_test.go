package acl_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/acl"
)

var alice = acl.Client{Principal: "User:alice", Host: "10.1.2.3"}

func rule(kind acl.ResourceType, pattern acl.PatternType, name, principal, host string, op acl.Operation, permission acl.Permission) acl.Binding {
	return acl.Binding{Type: kind, Name: name, Pattern: pattern, Principal: principal, Host: host, Operation: op, Permission: permission}
}

func topic(name string, op acl.Operation, permission acl.Permission) acl.Binding {
	return rule(acl.Topic, acl.Literal, name, "User:alice", "*", op, permission)
}

func TestAllows(t *testing.T) {
	for name, c := range map[string]struct {
		rules   []acl.Binding
		allowed string // operation:name, those that are tried and are not here are refused
	}{
		"no rule":                     {nil, ""},
		"read":                        {[]acl.Binding{topic("t", acl.Read, acl.Allow)}, "READ:t DESCRIBE:t"},
		"write describes":             {[]acl.Binding{topic("t", acl.Write, acl.Allow)}, "WRITE:t DESCRIBE:t"},
		"all":                         {[]acl.Binding{topic("t", acl.All, acl.Allow)}, "READ:t WRITE:t DESCRIBE:t DESCRIBE_CONFIGS:t"},
		"alter configs describes":     {[]acl.Binding{topic("t", acl.AlterConfigs, acl.Allow)}, "DESCRIBE_CONFIGS:t"},
		"wildcard":                    {[]acl.Binding{topic("*", acl.Read, acl.Allow)}, "READ:t DESCRIBE:t READ:two DESCRIBE:two"},
		"prefix":                      {[]acl.Binding{rule(acl.Topic, acl.Prefixed, "tw", "User:alice", "*", acl.Read, acl.Allow)}, "READ:two DESCRIBE:two"},
		"a literal is no prefix":      {[]acl.Binding{topic("tw", acl.Read, acl.Allow)}, ""},
		"a prefixed * is no wildcard": {[]acl.Binding{rule(acl.Topic, acl.Prefixed, "*", "User:alice", "*", acl.Read, acl.Allow)}, ""},
		"everybody":                   {[]acl.Binding{rule(acl.Topic, acl.Literal, "t", "User:*", "*", acl.Read, acl.Allow)}, "READ:t DESCRIBE:t"},
		"another":                     {[]acl.Binding{rule(acl.Topic, acl.Literal, "t", "User:bob", "*", acl.Read, acl.Allow)}, ""},
		"another type of principal":   {[]acl.Binding{rule(acl.Topic, acl.Literal, "t", "Group:alice", "*", acl.Read, acl.Allow)}, ""},
		"host":                        {[]acl.Binding{rule(acl.Topic, acl.Literal, "t", "User:alice", "10.1.2.3", acl.Read, acl.Allow)}, "READ:t DESCRIBE:t"},
		"another host":                {[]acl.Binding{rule(acl.Topic, acl.Literal, "t", "User:alice", "10.1.2.4", acl.Read, acl.Allow)}, ""},
		"range of hosts":              {[]acl.Binding{rule(acl.Topic, acl.Literal, "t", "User:alice", "10.0.0.0/8", acl.Read, acl.Allow)}, "READ:t DESCRIBE:t"},
		"another range of hosts":      {[]acl.Binding{rule(acl.Topic, acl.Literal, "t", "User:alice", "11.0.0.0/8", acl.Read, acl.Allow)}, ""},
		"another type of resource":    {[]acl.Binding{rule(acl.Group, acl.Literal, "t", "User:alice", "*", acl.Read, acl.Allow)}, ""},
		"deny wins":                   {[]acl.Binding{topic("t", acl.Read, acl.Allow), topic("t", acl.Read, acl.Deny)}, "DESCRIBE:t"},
		"deny wins, made first":       {[]acl.Binding{topic("t", acl.Read, acl.Deny), topic("t", acl.Read, acl.Allow)}, "DESCRIBE:t"},
		"deny all":                    {[]acl.Binding{topic("t", acl.Read, acl.Allow), topic("*", acl.All, acl.Deny)}, ""},
		"deny of a prefix":            {[]acl.Binding{topic("*", acl.Read, acl.Allow), rule(acl.Topic, acl.Prefixed, "tw", "User:*", "*", acl.Read, acl.Deny)}, "READ:t DESCRIBE:t DESCRIBE:two"},
	} {
		t.Run(name, func(t *testing.T) {
			a := acl.New([]string{"User:root"}, false)
			for _, b := range c.rules {
				require.True(t, a.Add(b))
			}
			for _, name := range []string{"t", "two"} {
				for _, op := range []acl.Operation{acl.Read, acl.Write, acl.Describe, acl.DescribeConfigs} {
					asked := fmt.Sprintf("%s:%s", op, name)
					assert.Equal(t, strings.Contains(" "+c.allowed+" ", " "+asked+" "), a.Allows(alice, op, acl.Topic, name), asked)
					assert.True(t, a.Allows(acl.Client{Principal: "User:root"}, op, acl.Topic, name), "a super user")
				}
			}
			for _, b := range c.rules {
				a.Remove(b)
			}
			assert.False(t, a.Allows(alice, acl.Describe, acl.Topic, "t"), "no rule is left")
			assert.Empty(t, a.Find(&acl.Filter{Type: acl.AnyResource, Pattern: acl.AnyPattern, Operation: acl.AnyOperation, Permission: acl.AnyPermission}))
		})
	}
}

func TestPermissive(t *testing.T) {
	a := acl.New(nil, true)
	a.Add(rule(acl.Topic, acl.Prefixed, "t", "User:bob", "*", acl.Read, acl.Allow))
	assert.True(t, a.Allows(alice, acl.Write, acl.Topic, "other"), "no rule is about it")
	assert.False(t, a.Allows(alice, acl.Read, acl.Topic, "two"), "a rule is, and does not allow it")
}

func TestAllowsAny(t *testing.T) {
	prefixed := func(name string, permission acl.Permission) acl.Binding {
		return rule(acl.Topic, acl.Prefixed, name, "User:alice", "*", acl.Write, permission)
	}
	for name, c := range map[string]struct {
		rules   []acl.Binding
		allowed bool
	}{
		"none":                           {nil, false},
		"literal":                        {[]acl.Binding{topic("t", acl.Write, acl.Allow)}, true},
		"another operation":              {[]acl.Binding{topic("t", acl.Read, acl.Allow)}, false},
		"prefix":                         {[]acl.Binding{prefixed("t", acl.Allow)}, true},
		"denied":                         {[]acl.Binding{topic("t", acl.Write, acl.Allow), topic("t", acl.Write, acl.Deny)}, false},
		"denied by a shorter prefix":     {[]acl.Binding{topic("two", acl.Write, acl.Allow), prefixed("tw", acl.Deny)}, false},
		"a prefix beyond what is denied": {[]acl.Binding{prefixed("t", acl.Allow), prefixed("tw", acl.Deny)}, true},
		"a prefix, a literal denied":     {[]acl.Binding{prefixed("t", acl.Allow), topic("t", acl.Write, acl.Deny)}, true},
		"all denied":                     {[]acl.Binding{topic("t", acl.Write, acl.Allow), topic("*", acl.Write, acl.Deny)}, false},
		"wildcard":                       {[]acl.Binding{topic("*", acl.All, acl.Allow), topic("t", acl.Write, acl.Deny)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := acl.New(nil, false)
			for _, b := range c.rules {
				a.Add(b)
			}
			assert.Equal(t, c.allowed, a.AllowsAny(alice, acl.Write, acl.Topic))
		})
	}
}

func TestOperations(t *testing.T) {
	a := acl.New([]string{"User:root"}, false)
	a.Add(topic("t", acl.Read, acl.Allow))
	assert.EqualValues(t, 1<<acl.Read|1<<acl.Describe, a.Operations(alice, acl.Topic, "t"))
	root := acl.Client{Principal: "User:root"}
	assert.EqualValues(t, 3576, a.Operations(root, acl.Topic, "t"), "as Kafka without an authorizer answers")
	assert.EqualValues(t, 3400, a.Operations(root, acl.Group, "g"))
	assert.EqualValues(t, 8096, a.Operations(root, acl.Cluster, acl.ClusterName))
}

// A naive reading of the rules, one by one, and the authorizer agree.
func TestAgainstReference(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	pick := func(s ...string) string { return s[rng.IntN(len(s))] }
	names := []string{"a", "ab", "abc", "b", "*"}
	for range 2000 {
		a := acl.New(nil, rng.IntN(2) == 0)
		permissive := a.Allows(alice, acl.Read, acl.Topic, "none")
		var rules []acl.Binding
		for range rng.IntN(6) {
			b := rule(acl.Topic, acl.Literal+acl.PatternType(rng.IntN(2)), pick(names...), pick("User:alice", "User:bob", "User:*"), pick("*", alice.Host, "1.1.1.1"),
				acl.Operation(2+rng.IntN(10)), acl.Deny+acl.Permission(rng.IntN(2)))
			if a.Add(b) {
				rules = append(rules, b)
			}
		}
		if len(rules) > 0 && rng.IntN(3) == 0 {
			at := rng.IntN(len(rules))
			a.Remove(rules[at])
			rules = append(rules[:at], rules[at+1:]...)
		}
		op, name := acl.Operation(3+rng.IntN(9)), pick("a", "ab", "abc", "abcd", "b", "c")
		about, allowed, denied := false, false, false
		for _, b := range rules {
			if b.Name != name && !(b.Pattern == acl.Literal && b.Name == "*") && !(b.Pattern == acl.Prefixed && strings.HasPrefix(name, b.Name)) {
				continue
			}
			about = true
			implied := b.Permission == acl.Allow && (op == acl.Describe && (b.Operation == acl.Read || b.Operation == acl.Write || b.Operation == acl.Delete || b.Operation == acl.Alter) ||
				op == acl.DescribeConfigs && b.Operation == acl.AlterConfigs)
			if b.Principal == "User:bob" || b.Host == "1.1.1.1" || b.Operation != acl.All && b.Operation != op && !implied {
				continue
			}
			allowed, denied = allowed || b.Permission == acl.Allow, denied || b.Permission == acl.Deny
		}
		require.Equal(t, !denied && (allowed || !about && permissive), a.Allows(alice, op, acl.Topic, name), "%s %s of %v", op, name, rules)
	}
}

func TestFilter(t *testing.T) {
	a := acl.New(nil, false)
	rules := []acl.Binding{
		topic("t", acl.Read, acl.Allow), topic("*", acl.Describe, acl.Allow),
		rule(acl.Topic, acl.Prefixed, "pre", "User:x", "*", acl.Read, acl.Allow), rule(acl.Group, acl.Literal, "t", "User:x", "*", acl.Read, acl.Deny),
	}
	for _, b := range rules {
		a.Add(b)
	}
	assert.False(t, a.Add(rules[0]), "a rule is there once")
	any := acl.Filter{Type: acl.AnyResource, Pattern: acl.AnyPattern, Operation: acl.AnyOperation, Permission: acl.AnyPermission}
	preface, pre, x := "preface", "pre", "User:x"
	for name, c := range map[string]struct {
		change func(*acl.Filter)
		found  []int
	}{
		"all":       {func(*acl.Filter) {}, []int{0, 1, 2, 3}},
		"match":     {func(f *acl.Filter) { f.Name, f.Pattern = &preface, acl.Match }, []int{1, 2}},
		"literal":   {func(f *acl.Filter) { f.Name, f.Pattern = &preface, acl.Literal }, nil},
		"any":       {func(f *acl.Filter) { f.Name = &pre }, []int{2}},
		"prefixed":  {func(f *acl.Filter) { f.Pattern = acl.Prefixed }, []int{2}},
		"type":      {func(f *acl.Filter) { f.Type = acl.Group }, []int{3}},
		"principal": {func(f *acl.Filter) { f.Principal = &x }, []int{2, 3}},
		"host":      {func(f *acl.Filter) { f.Host = &x }, nil},
		"operation": {func(f *acl.Filter) { f.Operation = acl.Describe }, []int{1}},
		"deny":      {func(f *acl.Filter) { f.Permission = acl.Deny }, []int{3}},
	} {
		t.Run(name, func(t *testing.T) {
			f := any
			c.change(&f)
			var expected []acl.Binding
			for _, i := range c.found {
				expected = append(expected, rules[i])
			}
			assert.Equal(t, expected, a.Find(&f))
		})
	}
}
