package assignor

import (
	"cmp"
	"slices"
)

// uniformRounds bounds the rounds of moving partitions over all topics. Where subscriptions overlap without
// being equal, each round about halves the imbalance.
const uniformRounds = 16

// uniformMixed assigns where subscriptions differ.
type uniformMixed struct {
	*group
	subscribers map[TopicID][]int // indexes of members, ascending
	owners      map[TopicID][]int // by partition; -1 is none
	sizes       []int             // partitions of each member in out
	out         targets
}

func newUniformMixed(g *group) *uniformMixed {
	u := &uniformMixed{
		group: g, subscribers: map[TopicID][]int{}, owners: map[TopicID][]int{},
		sizes: make([]int, len(g.members)), out: newTargets(g),
	}
	for i, m := range g.members {
		for _, t := range m.topics {
			u.subscribers[t] = append(u.subscribers[t], i)
		}
	}
	for t := range u.subscribers {
		u.owners[t] = slices.Repeat([]int{-1}, int(g.partitions[t]))
	}
	return u
}

func (u *uniformMixed) assign() map[string]Assignment {
	u.keep()
	topics := u.topicsByLoad()
	for _, t := range topics {
		u.fill(t)
	}
	shared := slices.DeleteFunc(topics, func(t TopicID) bool { return len(u.subscribers[t]) < 2 })
	u.balance(shared)
	return u.out.byID(u.group)
}

// keep retains what members have of the topics that they still subscribe to.
func (u *uniformMixed) keep() {
	for i, m := range u.members {
		m.target.each(func(t TopicID, indexes []int32) {
			if !m.subs[t] {
				return
			}
			for _, p := range indexes {
				u.give(t, p, i)
			}
		})
	}
}

// give makes a member the owner of a partition in place of the one that has it.
func (u *uniformMixed) give(t TopicID, p int32, to int) {
	if from := u.owners[t][p]; from >= 0 {
		u.out.remove(from, partition{t, p})
		u.sizes[from]--
	}
	u.owners[t][p] = to
	u.out.add(to, partition{t, p})
	u.sizes[to]++
}

// topicsByLoad orders topics by partitions per subscriber, descending, then by subscribers, then by id.
func (u *uniformMixed) topicsByLoad() []TopicID {
	topics := make([]TopicID, 0, len(u.subscribers))
	for t := range u.subscribers {
		topics = append(topics, t)
	}
	load := func(t TopicID) float64 { return float64(u.partitions[t]) / float64(len(u.subscribers[t])) }
	slices.SortFunc(topics, func(a, b TopicID) int {
		return cmp.Or(
			cmp.Compare(load(b), load(a)),
			cmp.Compare(len(u.subscribers[a]), len(u.subscribers[b])),
			CompareTopics(a, b),
		)
	})
	return topics
}

// fill hands the free partitions of a topic to its least loaded subscribers.
func (u *uniformMixed) fill(t TopicID) {
	b := newBalancer(u.sizes, u.subscribers[t])
	for p, owner := range u.owners[t] {
		if owner < 0 {
			u.give(t, int32(p), b.least())
		}
	}
}

// balance moves partitions until a round over all topics moves none.
func (u *uniformMixed) balance(topics []TopicID) {
	last := -1 // the topic that was moved last, or the first one
	for range uniformRounds {
		for i, t := range topics {
			if i == last {
				return
			}
			if u.balanceTopic(t) || last < 0 {
				last = i
			}
		}
	}
}

// balanceTopic moves partitions of a topic from its most to its least loaded subscribers while their counts
// differ by more than one. It reports whether it moved any.
func (u *uniformMixed) balanceTopic(t TopicID) (moved bool) {
	b := newBalancer(u.sizes, u.subscribers[t])
	if b.spread() <= 1 {
		return false
	}
	has := map[int][]int32{}
	for p, owner := range u.owners[t] {
		has[owner] = append(has[owner], int32(p))
	}
	for !b.balanced() {
		from := b.most()
		for from >= 0 && len(has[from]) == 0 {
			b.excludeMost()
			from = b.most()
		}
		if from < 0 {
			break
		}
		n := len(has[from]) - 1
		p := has[from][n]
		has[from] = has[from][:n]
		to := b.least()
		if b.balanced() {
			break
		}
		u.give(t, p, to)
		moved = true
	}
	return moved
}

// balancer names the least loaded members to receive partitions and the most loaded ones to give them, each
// level by level. It assumes that every member it names gets or gives one.
//
//	           least        most
//	           |->        |    <-|##    (## has nothing to give)
//	partitions |          |#####|##
//	           |##########|#####|##
//	           +--------------------> members by load
//
// Invariants: order[:leastEnd] had leastLevel partitions at most when it was reached, and
// order[mostStart:mostEnd] mostLevel at least. Levels are those of the start, not of the moves under way.
type balancer struct {
	sizes []int // as they are now: only members that no range has reached are looked up
	order []int

	leastEnd, leastLevel, nextLeast         int
	mostStart, mostEnd, mostLevel, nextMost int
}

func newBalancer(sizes, members []int) *balancer {
	order := slices.Clone(members)
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(sizes[a], sizes[b]), cmp.Compare(a, b))
	})
	n := len(order)
	return &balancer{
		sizes: sizes, order: order,
		leastLevel: sizes[order[0]] - 1,
		mostStart:  n, mostEnd: n, mostLevel: sizes[order[n-1]] + 1, nextMost: n - 1,
	}
}

// spread is the difference between the most and the least loaded member at the start.
func (b *balancer) spread() int { return b.mostLevel - b.leastLevel - 2 }

// balanced reports whether the levels reached differ by at most one.
func (b *balancer) balanced() bool { return b.mostLevel-b.leastLevel <= 1 }

func (b *balancer) least() int {
	if b.nextLeast >= b.leastEnd {
		b.leastLevel++
		for b.leastEnd < len(b.order) && b.sizes[b.order[b.leastEnd]] == b.leastLevel {
			b.leastEnd++
		}
		b.nextLeast = 0
	}
	b.nextLeast++
	return b.order[b.nextLeast-1]
}

// most is -1 when no member is left that may give.
func (b *balancer) most() int {
	if b.nextMost < b.mostStart {
		if b.mostEnd <= b.mostStart && b.mostStart > 0 {
			b.mostLevel = b.sizes[b.order[b.mostStart-1]] // all were excluded: go on with the next member
		} else {
			b.mostLevel--
		}
		for b.mostStart > 0 && b.sizes[b.order[b.mostStart-1]] == b.mostLevel {
			b.mostStart--
		}
		b.nextMost = b.mostEnd - 1
	}
	if b.nextMost < 0 {
		return -1
	}
	b.nextMost--
	return b.order[b.nextMost+1]
}

// excludeMost takes the member that most named last out of the range.
func (b *balancer) excludeMost() {
	b.mostEnd--
	i := b.nextMost + 1
	b.order[i], b.order[b.mostEnd] = b.order[b.mostEnd], b.order[i]
}
