package assignor

import (
	"cmp"
	"slices"
)

// Range gives each member a contiguous block of every topic that it subscribes to, in the order of instance ids
// (static members come first) and member ids. Blocks differ by at most one partition, the first ones being
// larger, so topics with equal partition counts and subscribers are cut alike. It is not sticky.
func Range(spec Spec) map[string]Assignment {
	g := newGroup(spec)
	order := make([]int, len(g.members))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return compareMembers(&g.members[a], &g.members[b]) })

	type cut struct{ members, extra, next int32 }
	cuts := map[TopicID]*cut{}
	for _, m := range g.members {
		for _, t := range m.topics {
			if cuts[t] == nil {
				cuts[t] = &cut{}
			}
			cuts[t].members++
		}
	}
	for t, c := range cuts {
		c.extra = g.partitions[t] % c.members
	}
	out := newTargets(g)
	for _, m := range order {
		for _, t := range g.members[m].topics {
			c := cuts[t]
			end := c.next + g.partitions[t]/c.members
			if c.extra > 0 {
				c.extra--
				end++
			}
			for ; c.next < end; c.next++ {
				out[m][t] = append(out[m][t], c.next)
			}
		}
	}
	return out.byID(g)
}

func compareMembers(a, b *member) int {
	switch {
	case a.instance != nil && b.instance != nil:
		return cmp.Compare(*a.instance, *b.instance)
	case a.instance != nil:
		return -1
	case b.instance != nil:
		return 1
	}
	return cmp.Compare(a.id, b.id)
}
