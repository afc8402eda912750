package assignor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// history draws a group that changes step by step, each step starting from the targets of the one before.
func history(t *rapid.T, homogeneous bool, assign Func, check func(before, spec Spec, after map[string]Assignment)) {
	spec := Spec{Topics: map[string]Topic{}}
	var names []string
	for i := range rapid.IntRange(1, 4).Draw(t, "topics") {
		name := fmt.Sprint("t", i)
		names = append(names, name)
		id := TopicID{15: byte(i + 1)}
		spec.Topics[name] = Topic{id, rapid.Int32Range(1, 8).Draw(t, "partitions")}
	}
	subscription := func() []string {
		if homogeneous {
			return names
		}
		return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, len(names), rapid.ID).Draw(t, "subscription")
	}
	next := 0
	for range rapid.IntRange(1, 8).Draw(t, "steps") {
		switch rapid.SampledFrom([]string{"join", "join", "leave", "grow", "nothing"}).Draw(t, "step") {
		case "join":
			spec.Members = append(spec.Members, Member{ID: fmt.Sprint("m", next), Topics: subscription()})
			next++
		case "leave":
			if n := len(spec.Members); n > 0 {
				i := rapid.IntRange(0, n-1).Draw(t, "leaver")
				spec.Members = append(append([]Member{}, spec.Members[:i]...), spec.Members[i+1:]...)
			}
		case "grow":
			name := rapid.SampledFrom(names).Draw(t, "topic")
			x := spec.Topics[name]
			x.Partitions++
			spec.Topics[name] = x
		}
		if len(spec.Members) == 0 {
			continue
		}
		after := assign(spec)
		check(spec, spec, after)
		members := make([]Member, len(spec.Members))
		for i, m := range spec.Members {
			m.Target = after[m.ID]
			members[i] = m
		}
		spec.Members = members
		again := assign(spec)
		for _, m := range members {
			require.True(t, again[m.ID].Equal(m.Target), "without a change nothing moves: %v then %v", m.Target, again[m.ID])
		}
	}
}

// holders counts the members of each partition and checks that all subscribe to it.
func holders(t require.TestingT, spec Spec, after map[string]Assignment) map[partition]int {
	require.Len(t, after, len(spec.Members))
	n := map[partition]int{}
	for _, m := range spec.Members {
		subscribed := map[TopicID]int32{}
		for _, name := range m.Topics {
			subscribed[spec.Topics[name].ID] = spec.Topics[name].Partitions
		}
		for topic, ps := range after[m.ID] {
			require.NotEmpty(t, ps)
			for i, p := range ps {
				require.Less(t, p, subscribed[topic])
				require.True(t, i == 0 || ps[i-1] < p)
				n[partition{topic, p}]++
			}
		}
	}
	return n
}

// subscribed are all partitions that some member subscribes to.
func subscribed(spec Spec) map[partition]bool {
	all := map[partition]bool{}
	for _, m := range spec.Members {
		for _, name := range m.Topics {
			for p := range spec.Topics[name].Partitions {
				all[partition{spec.Topics[name].ID, p}] = true
			}
		}
	}
	return all
}

func checkExclusive(t require.TestingT, spec Spec, after map[string]Assignment) {
	got := holders(t, spec, after)
	require.Len(t, got, len(subscribed(spec)), "every partition is assigned")
	for p, n := range got {
		require.Equal(t, 1, n, "%v has one member", p)
	}
}

func spread(after map[string]Assignment) int {
	least, most := int(^uint(0)>>1), 0
	for _, a := range after {
		least, most = min(least, a.Len()), max(most, a.Len())
	}
	return most - least
}

func TestUniformIsBalancedAndSticky(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history(t, true, Uniform, func(before, spec Spec, after map[string]Assignment) {
			checkExclusive(t, spec, after)
			require.LessOrEqual(t, spread(after), 1)
			kept, had := 0, 0
			quota := (len(subscribed(spec)) + len(spec.Members) - 1) / len(spec.Members)
			for _, m := range before.Members {
				had += min(m.Target.Len(), quota-1)
				for topic, ps := range m.Target {
					for _, p := range ps {
						if contains(after[m.ID][topic], p) {
							kept++
						}
					}
				}
			}
			require.GreaterOrEqual(t, kept, had, "a member keeps what it has up to the smaller quota")
		})
	})
}

func contains(ps []int32, p int32) bool {
	for _, x := range ps {
		if x == p {
			return true
		}
	}
	return false
}

func TestUniformMixed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history(t, false, Uniform, func(_, spec Spec, after map[string]Assignment) {
			checkExclusive(t, spec, after)
		})
	})
}

func TestRangeIsContiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history(t, rapid.Bool().Draw(t, "homogeneous"), Range, func(_, spec Spec, after map[string]Assignment) {
			checkExclusive(t, spec, after)
			for _, a := range after {
				for _, ps := range a {
					require.Equal(t, int32(len(ps))-1, ps[len(ps)-1]-ps[0])
				}
			}
		})
	})
}

func TestRangeSortsStaticMembersByInstance(t *testing.T) {
	a, b := "a", "b"
	got := Range(Spec{
		Topics: map[string]Topic{"x": {TopicID{1}, 4}, "y": {TopicID{2}, 4}},
		Members: []Member{
			{ID: "1", Topics: []string{"x", "y"}},
			{ID: "2", Instance: &b, Topics: []string{"x", "y"}},
			{ID: "3", Instance: &a, Topics: []string{"x", "y"}},
		},
	})
	require.Equal(t, map[string]Assignment{
		"3": {TopicID{1}: {0, 1}, TopicID{2}: {0, 1}},
		"2": {TopicID{1}: {2}, TopicID{2}: {2}},
		"1": {TopicID{1}: {3}, TopicID{2}: {3}},
	}, got)
}

func TestSimpleCoversEveryPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		homogeneous := rapid.Bool().Draw(t, "homogeneous")
		history(t, homogeneous, Simple, func(_, spec Spec, after map[string]Assignment) {
			got := holders(t, spec, after)
			require.Len(t, got, len(subscribed(spec)))
			if homogeneous {
				members, partitions := len(spec.Members), len(subscribed(spec))
				for p, n := range got {
					require.LessOrEqual(t, n, (members+partitions-1)/partitions, "%v", p)
				}
			}
		})
	})
}

func TestSimpleAssignsOnlyWhatIsAssignable(t *testing.T) {
	got := Simple(Spec{
		Topics:     map[string]Topic{"x": {TopicID{1}, 4}},
		Members:    []Member{{ID: "1", Topics: []string{"x"}}, {ID: "2", Topics: []string{"x"}}, {ID: "3", Topics: []string{"x"}}},
		Assignable: func(_ TopicID, p int32) bool { return p == 2 },
	})
	for id, a := range got {
		require.Equal(t, Assignment{TopicID{1}: {2}}, a, id)
	}
}

func TestByName(t *testing.T) {
	_, ok := ByName("sticky")
	require.False(t, ok)
}
