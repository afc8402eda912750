package fault_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"kshare/fault"
	"kshare/protocol/describe"
)

// BenchmarkMatch matches a request of a session with many partitions against as many rules as there may be.
func BenchmarkMatch(b *testing.B) {
	subject := &describe.Subject{Groups: []string{"workers"}}
	for i := range int32(1000) {
		subject.Topics = append(subject.Topics, describe.Topic{Name: fmt.Sprint("topic-", i%100), Partitions: []int32{i / 100}})
	}
	for _, c := range []struct{ name, rule string }{
		{"OfOtherAPIs", "api=Produce times=1 close topic=topic-%d"},
		{"OfOtherTopics", "api=Fetch times=1 close topic=other-%d"},
		{"OfOtherPartitions", "api=Fetch times=1 close topic=topic-1 partition=1%03d"},
		{"OfOtherGroups", "api=ShareFetch close group=group-%d"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var s fault.Set
			for i := range fault.MaxRules {
				r, err := fault.ParseRule(strings.Fields(fmt.Sprintf(c.rule, i))...)
				require.NoError(b, err)
				_, err = s.Add(r)
				require.NoError(b, err)
			}
			q := &fault.Request{Key: 1, Version: 17, Node: 1, Client: "c", Subject: subject}
			if c.name == "OfOtherGroups" {
				q.Key, q.Version = 78, 2
			}
			for b.Loop() {
				if len(s.Match(q)) > 0 {
					b.Fatal("a rule acts")
				}
			}
		})
	}
}
