package acl_test

import (
	"fmt"
	"testing"

	"kshare/acl"
)

// What one question costs among many rules, of which few concern the resource.
func BenchmarkAllows(b *testing.B) {
	for _, rules := range []int{0, 10, 10_000} {
		b.Run(fmt.Sprint(rules), func(b *testing.B) {
			a := acl.New([]string{"User:root"}, false)
			for i := range rules {
				a.Add(topic(fmt.Sprintf("other-%d", i), acl.Read, acl.Allow))
			}
			a.Add(rule(acl.Topic, acl.Prefixed, "ord", "User:alice", "*", acl.Read, acl.Allow))
			b.ReportAllocs()
			for b.Loop() {
				if !a.Allows(alice, acl.Read, acl.Topic, "orders") {
					b.Fatal("refused")
				}
			}
		})
	}
}
