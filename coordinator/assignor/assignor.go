// Package assignor places partitions on the members of groups whose coordinator assigns: uniform and range for
// consumer groups, simple for share groups.
//
// Given the same ids and the same previous target, each puts every partition where Apache Kafka 4.4 puts it.
// Kafka's own placement depends on the order of its hash maps, so this package walks its maps in that order too.
//
// Source: UniformAssignor, RangeAssignor and SimpleAssignor in Kafka's group-coordinator module.
package assignor

import (
	"maps"
	"slices"

	"kshare/internal/javamap"
)

// Names of the assignors.
const (
	UniformName = "uniform"
	RangeName   = "range"
	SimpleName  = "simple"
)

// TopicID is the id of a topic.
type TopicID = [16]byte

// Assignment is the partitions of one member. Partitions are ascending, no list is empty.
type Assignment map[TopicID][]int32

// Equal reports whether two assignments hold the same partitions.
func (a Assignment) Equal(b Assignment) bool {
	return maps.EqualFunc(a, b, slices.Equal[[]int32])
}

// Len is the number of partitions in an assignment.
func (a Assignment) Len() int {
	n := 0
	for _, ps := range a {
		n += len(ps)
	}
	return n
}

// Member is a member as an assignor sees it.
type Member struct {
	ID       string
	Instance *string  // static members sort by it in range
	Topics   []string // names of the topics subscribed to; one that Spec.Topics lacks counts for nothing
	Target   Assignment
}

// Topic is a topic that members subscribe to.
type Topic struct {
	ID         TopicID
	Partitions int32 // at least 1: partitions are 0 to Partitions-1
}

// Spec is what an assignor is given.
type Spec struct {
	Members []Member // ids are distinct; in the order in which Kafka's group walks them
	Topics  map[string]Topic
	// Assignable tells which partitions may be assigned; nil is all. Only simple asks.
	Assignable func(topic TopicID, partition int32) bool
}

// Func computes the new target of each member of a spec. Every member has an entry, which may be empty.
// It changes nothing of the spec.
type Func func(Spec) map[string]Assignment

// ByName is the assignor of a name; ok is false if there is none.
func ByName(name string) (f Func, ok bool) {
	switch name {
	case UniformName:
		return Uniform, true
	case RangeName:
		return Range, true
	case SimpleName:
		return Simple, true
	}
	return nil, false
}

// partition is one partition of a topic.
type partition struct {
	topic TopicID
	index int32
}

// group is a spec with its members in the order in which Kafka walks them.
type group struct {
	members     []member
	homogeneous bool // all members subscribe to the same names
	partitions  map[TopicID]int32
	assignable  func(topic TopicID, partition int32) bool
}

// member is a member with its subscription resolved to ids. Its index in group.members stands for it.
type member struct {
	id       string
	instance *string
	topics   []TopicID // in Kafka's order, without the topics that do not exist
	subs     map[TopicID]bool
	target   *hashMap[TopicID, []int32] // partitions in Kafka's order
}

func newGroup(spec Spec) *group {
	byID := newHashMap[string, *Member](javamap.String, minCapacity)
	for i := range spec.Members {
		byID.put(spec.Members[i].ID, &spec.Members[i])
	}
	g := &group{partitions: map[TopicID]int32{}, assignable: spec.Assignable, homogeneous: sameTopics(spec.Members)}
	if g.assignable == nil {
		g.assignable = func(TopicID, int32) bool { return true }
	}
	byID.each(func(id string, m *Member) {
		x := member{id: id, instance: m.Instance, subs: map[TopicID]bool{}, target: targetMap(m.Target)}
		names := newHashMap[string, struct{}](javamap.String, presized(len(m.Topics)))
		for _, name := range m.Topics {
			names.put(name, struct{}{})
		}
		names.each(func(name string, _ struct{}) {
			if t, ok := spec.Topics[name]; ok {
				x.topics = append(x.topics, t.ID)
				x.subs[t.ID] = true
				g.partitions[t.ID] = t.Partitions
			}
		})
		g.members = append(g.members, x)
	})
	return g
}

func sameTopics(members []Member) bool {
	set := func(m Member) map[string]bool {
		s := map[string]bool{}
		for _, t := range m.Topics {
			s[t] = true
		}
		return s
	}
	for i := 1; i < len(members); i++ {
		if !maps.Equal(set(members[0]), set(members[i])) {
			return false
		}
	}
	return true
}

// targetMap is a target as Kafka holds it after reading it from its record.
func targetMap(a Assignment) *hashMap[TopicID, []int32] {
	ids := slices.SortedFunc(maps.Keys(a), CompareTopics)
	m := newHashMap[TopicID, []int32](hashTopic, minCapacity)
	for _, id := range ids {
		set := newHashMap[int32, struct{}](javamap.Int, presized(len(a[id])))
		for _, p := range a[id] {
			set.put(p, struct{}{})
		}
		m.put(id, set.keys())
	}
	return m
}

// targets are the new targets while they are being computed, by index of member.
type targets []Assignment

func newTargets(g *group) targets {
	t := make(targets, len(g.members))
	for i := range t {
		t[i] = Assignment{}
	}
	return t
}

// add gives a partition to a member, once.
func (t targets) add(m int, p partition) {
	list := t[m][p.topic]
	if i, has := slices.BinarySearch(list, p.index); !has { // a member may be given a partition twice, which is a set's to take once
		t[m][p.topic] = slices.Insert(list, i, p.index)
	}
}

// remove takes a partition from a member and reports whether it had it.
func (t targets) remove(m int, p partition) bool {
	list := t[m][p.topic]
	i, ok := slices.BinarySearch(list, p.index)
	if !ok {
		return false
	}
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(t[m], p.topic)
	} else {
		t[m][p.topic] = list
	}
	return true
}

func (t targets) byID(g *group) map[string]Assignment {
	out := make(map[string]Assignment, len(t))
	for i, a := range t {
		out[g.members[i].id] = a
	}
	return out
}
