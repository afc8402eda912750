package assignor

// Uniform balances the number of partitions over the members first and keeps partitions where they are second.
// With equal subscriptions the members' counts differ by at most one. With others, the members of each topic
// are balanced by moving partitions of that topic, as far as 16 rounds over the topics lead.
func Uniform(spec Spec) map[string]Assignment {
	g := newGroup(spec)
	if g.homogeneous {
		return uniformHomogeneous(g)
	}
	return newUniformMixed(g).assign()
}

// uniformHomogeneous assigns where all members have the same subscription: each has a quota of
// total/members partitions, total%members of them one more: those that have it, then the last. What exceeds a quota is taken away, and
// what is free is handed out to those below theirs.
func uniformHomogeneous(g *group) map[string]Assignment {
	out := newTargets(g)
	if len(g.members) == 0 || len(g.members[0].topics) == 0 {
		return out.byID(g)
	}
	topics := newHashMap[TopicID, struct{}](hashTopic, presized(len(g.members[0].topics)))
	for _, t := range g.members[0].topics {
		topics.put(t, struct{}{})
	}
	owned := ownedPartitions(g)
	var free []partition
	total := 0
	topics.each(func(t TopicID, _ struct{}) {
		for i := range g.partitions[t] {
			if p := (partition{t, i}); !owned[p] {
				free = append(free, p)
			}
		}
		total += int(g.partitions[t])
	})

	extra := total % len(g.members)       // members that get one more and are not yet found
	quotas := make([]int, len(g.members)) // what is left of them
	for m := range g.members {
		quotas[m] = total / len(g.members)
		more := extra > 0
		if more {
			quotas[m]++
		}
		g.members[m].target.each(func(t TopicID, indexes []int32) {
			if !topics.has(t) {
				return
			}
			for _, i := range indexes {
				if quotas[m] > 0 {
					quotas[m]--
					out.add(m, partition{t, i})
				} else {
					free = append(free, partition{t, i})
				}
			}
		})
		if more && quotas[m] > 0 && len(g.members)-m > extra {
			quotas[m]-- // leave it to a member that may have the partition already
			more = false
		}
		if more {
			extra--
		}
	}
	for m, quota := range quotas {
		n := min(quota, len(free))
		for _, p := range free[:n] {
			out.add(m, p)
		}
		free = free[n:]
	}
	return out.byID(g)
}

// ownedPartitions are the partitions in any member's target.
func ownedPartitions(g *group) map[partition]bool {
	owned := map[partition]bool{}
	for _, m := range g.members {
		m.target.each(func(t TopicID, indexes []int32) {
			for _, i := range indexes {
				owned[partition{t, i}] = true
			}
		})
	}
	return owned
}
