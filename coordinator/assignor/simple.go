package assignor

import (
	"math"

	"kshare/internal/javamap"
)

// Simple shares the partitions out to the members of a share group. With M members and P assignable partitions
// each partition gets ceil(M/P) members where that many can take it and, while M <= P, exactly one. Balance
// comes before stickiness. With different subscriptions the topics are shared out one by one.
func Simple(spec Spec) map[string]Assignment {
	g := newGroup(spec)
	if len(g.members) == 0 {
		return map[string]Assignment{}
	}
	if g.homogeneous {
		return simpleHomogeneous(g)
	}
	return simpleMixed(g)
}

// shareQuotas is the number of members a partition should have and the number of partitions each of the
// members should have: ceil(x(i+1)) - ceil(xi) for member i, with x the exact share.
func shareQuotas(members, partitions int) (sharing int, quotas []int) {
	if partitions > 0 {
		sharing = (members + partitions - 1) / partitions
	}
	x := float64(sharing*partitions) / float64(members)
	quotas = make([]int, members)
	for i := range quotas {
		quotas[i] = int(math.Ceil(x*float64(i+1))) - int(math.Ceil(x*float64(i)))
	}
	return sharing, quotas
}

// sharing is who has which partitions, both ways, while they are being shared out. K names a partition.
type sharing[K comparable] struct {
	hash        func(K) int32
	byPartition *hashMap[K, *hashMap[int32, struct{}]]
	byMember    *hashMap[int32, *hashMap[K, struct{}]]
	want        int   // members a partition
	quotas      []int // partitions a member, by index
}

func newSharing[K comparable](hash func(K) int32, partitions, members int) *sharing[K] {
	return &sharing[K]{
		hash:        hash,
		byPartition: newHashMap[K, *hashMap[int32, struct{}]](hash, sized(partitions)),
		byMember:    newHashMap[int32, *hashMap[K, struct{}]](javamap.Int, sized(members)),
	}
}

func (s *sharing[K]) members(k K, capacity int) *hashMap[int32, struct{}] {
	return s.byPartition.computeIfAbsent(k, func() *hashMap[int32, struct{}] {
		return newHashMap[int32, struct{}](javamap.Int, capacity)
	})
}

func (s *sharing[K]) partitions(m int32) *hashMap[K, struct{}] {
	return s.byMember.computeIfAbsent(m, func() *hashMap[K, struct{}] {
		return newHashMap[K, struct{}](s.hash, minCapacity)
	})
}

func (s *sharing[K]) add(m int32, k K) {
	s.members(k, minCapacity).put(m, struct{}{})
	s.partitions(m).put(k, struct{}{})
}

func (s *sharing[K]) remove(m int32, k K) {
	s.members(k, minCapacity).remove(m)
	s.partitions(m).remove(k)
}

// fill gives each partition the members that it lacks, walking round the unfilled members once and again. A
// partition that none of them can take any more (they have it) stays short. give is called for each.
func (s *sharing[K]) fill(unfilled *hashMap[int32, struct{}], give func(m int32, k K)) {
	turn := unfilled.keys()
	given := false // in this walk round the members
	for _, k := range s.byPartition.keys() {
		if unfilled.size == 0 {
			return
		}
		has := s.members(k, minCapacity)
		for missing := s.want - has.size; missing > 0; {
			if len(turn) == 0 {
				if !given {
					break
				}
				turn, given = unfilled.keys(), false
				if len(turn) == 0 {
					break
				}
			}
			m := turn[0]
			turn = turn[1:]
			if has.has(m) {
				continue
			}
			s.partitions(m).put(k, struct{}{})
			give(m, k)
			missing--
			given = true
			if s.partitions(m).size >= s.quotas[m] {
				unfilled.remove(m)
			}
		}
	}
}

func simpleHomogeneous(g *group) map[string]Assignment {
	out := newTargets(g)
	if len(g.members[0].topics) == 0 {
		return out.byID(g)
	}
	var wanted []partition
	for _, t := range g.members[0].topics {
		for i := range g.partitions[t] {
			if g.assignable(t, i) {
				wanted = append(wanted, partition{t, i})
			}
		}
	}
	s := newSharing(hashPartition, len(wanted), len(g.members))
	s.want, s.quotas = shareQuotas(len(g.members), len(wanted))

	unfilled := newHashMap[int32, struct{}](javamap.Int, sized(len(g.members)))
	overfilled := newHashMap[int32, struct{}](javamap.Int, sized(len(g.members)))
	for i, m := range g.members {
		n := 0
		m.target.each(func(t TopicID, indexes []int32) {
			if !m.subs[t] {
				return
			}
			for _, p := range indexes {
				n++
				s.add(int32(i), partition{t, p})
				out.add(i, partition{t, p})
			}
		})
		switch {
		case n < s.quotas[i]:
			unfilled.put(int32(i), struct{}{})
		case n > s.quotas[i]:
			overfilled.put(int32(i), struct{}{})
		}
	}
	take := func(m int32, k partition) {
		s.remove(m, k)
		out.remove(int(m), k)
	}
	for _, m := range overfilled.keys() {
		for _, k := range s.partitions(m).keys() {
			if s.partitions(m).size > s.quotas[m] {
				take(m, k)
			}
		}
	}
	for _, k := range s.byPartition.keys() {
		for _, m := range s.members(k, minCapacity).keys() {
			if s.members(k, minCapacity).size > s.want {
				take(m, k)
				unfilled.put(m, struct{}{})
			}
		}
	}
	for _, k := range wanted {
		s.members(k, minCapacity)
	}
	s.fill(unfilled, func(m int32, k partition) { out.add(int(m), k) })
	return out.byID(g)
}

// simpleMixed shares out each topic among its own subscribers.
func simpleMixed(g *group) map[string]Assignment {
	out := newTargets(g)
	subscribers := map[TopicID][]int32{}
	for i, m := range g.members {
		for _, t := range m.topics {
			subscribers[t] = append(subscribers[t], int32(i))
		}
		m.target.each(func(t TopicID, indexes []int32) {
			for _, p := range indexes {
				if m.subs[t] {
					out.add(i, partition{t, p})
				}
			}
		})
	}
	for t, members := range subscribers {
		simpleTopic(g, t, members, out)
	}
	return out.byID(g)
}

func simpleTopic(g *group, t TopicID, members []int32, out targets) {
	var wanted []int32
	for i := range g.partitions[t] {
		if g.assignable(t, i) {
			wanted = append(wanted, i)
		}
	}
	s := newSharing(javamap.Int, len(wanted), len(members))
	want, quotas := shareQuotas(len(members), len(wanted))
	s.want, s.quotas = want, make([]int, len(g.members))
	for i, m := range members {
		s.quotas[m] = quotas[i]
	}
	for i, m := range g.members {
		if !m.subs[t] {
			continue
		}
		indexes, _ := m.target.get(t)
		for _, p := range indexes {
			s.add(int32(i), p)
		}
	}
	take := func(m int32, p int32) {
		s.remove(m, p)
		out.remove(int(m), partition{t, p})
	}
	for _, m := range s.byMember.keys() {
		for _, p := range s.partitions(m).keys() {
			if s.partitions(m).size > s.quotas[m] {
				take(m, p)
			}
		}
	}
	for _, p := range s.byPartition.keys() {
		for _, m := range s.members(p, minCapacity).keys() {
			if s.members(p, minCapacity).size > s.want {
				take(m, p)
			}
		}
	}
	for _, p := range wanted {
		s.members(p, sized(len(members)))
	}
	unfilled := newHashMap[int32, struct{}](javamap.Int, sized(len(g.members)))
	for _, m := range members {
		if s.partitions(m).size < s.quotas[m] {
			unfilled.put(m, struct{}{})
		}
	}
	s.fill(unfilled, func(m int32, p int32) { out.add(int(m), partition{t, p}) })
}
