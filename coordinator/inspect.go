package coordinator

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/coordinator/assignor"
)

// GroupState is a group as its coordinator knows it, for people and tests to look at.
type GroupState struct {
	ID      string
	Type    string        // classic, consumer or share
	State   string        // as ListGroups names it: Stable, Empty and so on
	Epoch   int32         // the generation of a classic group
	Members []MemberState // in the order of their ids
	Offsets []OffsetState // committed ones, in the order of topic and partition
}

// MemberState is a member of a group.
type MemberState struct {
	ID            string
	InstanceID    *string // nil where the member is not static
	ClientID      string
	ClientHost    string
	Epoch         int32 // the generation of the group for a member of a classic one
	PreviousEpoch int32 // as Epoch for a member of a classic group
	// State is what a member of a consumer group is at whose assignment changes: Unrevoked, it has yet to give up partitions, or Unreleased, others have to give
	// up what it is to get. "" otherwise.
	State      string
	Subscribed []string        // topics, or a regular expression between slashes
	Assigned   []AssignedTopic // in the order of their names
	Expires    time.Time       // when its session ends unless it is heard of before, zero where nobody counts
}

// AssignedTopic is partitions of a topic that a member is assigned.
type AssignedTopic struct {
	Topic      string // its name, "" where it is gone
	ID         [16]byte
	Partitions []int32
}

// OffsetState is a committed offset.
type OffsetState struct {
	Topic     string
	Partition int32
	Offset    int64
}

// GroupTimer is something that a group does at a time. The ends of members' sessions are not among them: MemberState says when they end.
type GroupTimer struct {
	Group string
	What  string // like "rebalance MEMBER"
	At    time.Time
}

// InspectTimers returns what groups do at a time, in no order.
func (g *Groups) InspectTimers() (all []GroupTimer) {
	for _, x := range g.timers.queue {
		if !strings.HasPrefix(x.name, sessionTimer("")) && !strings.HasPrefix(x.name, classicSessionTimer("")) {
			all = append(all, GroupTimer{x.group, x.name, x.at})
		}
	}
	if !g.retentionAt.IsZero() {
		all = append(all, GroupTimer{What: "committed offsets that are too old are removed", At: g.retentionAt})
	}
	return all
}

// GroupCount names what groups are counted by: their type and state, as in GroupState.
type GroupCount struct{ Type, State string }

// Count returns how many groups there are of each type and state.
func (g *Groups) Count() map[GroupCount]int {
	n := map[GroupCount]int{}
	for _, gr := range g.groups {
		n[GroupCount{string(gr.kind()), gr.state()}]++
	}
	return n
}

// ShareRebalances is how many heartbeats have begun a new epoch of a share group (GroupCoordinatorMetrics' share-group-rebalance-count).
func (g *Groups) ShareRebalances() int64 { return g.shareRebalances }

// Inspect returns all groups in the order of their ids.
func (g *Groups) Inspect() []GroupState {
	all, _, _ := g.InspectFirst(math.MaxInt, math.MaxInt)
	return all
}

// InspectFirst is Inspect with so many groups at most, and so many members and so many offsets of all of them together. It tells how many groups and members were left out.
func (g *Groups) InspectFirst(groups, members int) (all []GroupState, moreGroups, moreMembers int) {
	offsets := members
	for _, gr := range g.sorted() {
		if len(all) == groups {
			moreGroups++
			continue
		}
		s := GroupState{ID: gr.id(), Type: string(gr.kind()), State: gr.state()}
		var ids []string
		var member func(id string) MemberState
		switch gr := gr.(type) {
		case *classicGroup:
			s.Epoch, ids = gr.generation, sortedKeys(gr.members)
			member = func(id string) MemberState { return gr.inspect(gr.members[id]) }
		case *consumerGroup:
			s.Epoch, ids = gr.epoch, sortedKeys(gr.members)
			member = func(id string) MemberState { return gr.inspect(gr.members[id]) }
		case *shareGroup:
			s.Epoch, ids = gr.epoch, sortedKeys(gr.members)
			member = func(id string) MemberState { return gr.inspect(gr.members[id]) }
		}
		for _, id := range ids {
			if members == 0 {
				moreMembers++
				continue
			}
			members--
			s.Members = append(s.Members, member(id))
		}
		s.Offsets = g.inspectOffsets(gr.id(), &offsets)
		all = append(all, s)
	}
	return all, moreGroups, moreMembers
}

func (cg *classicGroup) inspect(m *classicMember) MemberState {
	s := MemberState{ID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost, Epoch: cg.generation, PreviousEpoch: cg.generation}
	if metadata, ok := m.metadata(cg.protocol); ok {
		s.Subscribed, _ = subscribedTopics(metadata)
	}
	a := kmsg.NewConsumerMemberAssignment()
	if cg.protocols == consumerProtocol && a.ReadFrom(m.assignment) == nil {
		for _, t := range a.Topics {
			s.Assigned = append(s.Assigned, AssignedTopic{Topic: t.Topic, Partitions: t.Partitions})
		}
	}
	s.Expires = cg.g.timers.at(cg.name, classicSessionTimer(m.id))
	return s.sorted()
}

func (cg *consumerGroup) inspect(m *consumerMember) MemberState {
	s := MemberState{ID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost, Epoch: m.epoch, PreviousEpoch: m.previousEpoch,
		Subscribed: slices.Clone(m.topics), Assigned: cg.g.inspectAssignment(m.assigned.partitions()), Expires: cg.g.timers.at(cg.name, sessionTimer(m.id))}
	if m.regex != nil && *m.regex != "" {
		s.Subscribed = append(s.Subscribed, "/"+*m.regex+"/")
	}
	switch m.state {
	case memberUnrevoked:
		s.State = "Unrevoked"
	case memberUnreleased:
		s.State = "Unreleased"
	}
	return s.sorted()
}

func (sg *shareGroup) inspect(m *shareMember) MemberState {
	s := MemberState{ID: m.id, ClientID: m.clientID, ClientHost: m.clientHost, Epoch: m.epoch, PreviousEpoch: m.previousEpoch,
		Subscribed: slices.Clone(m.topics), Assigned: sg.g.inspectAssignment(m.assigned), Expires: sg.g.timers.at(sg.name, sessionTimer(m.id))}
	return s.sorted()
}

// sorted is the member with its lists in order.
func (s MemberState) sorted() MemberState {
	slices.Sort(s.Subscribed)
	slices.SortFunc(s.Assigned, func(a, b AssignedTopic) int { return strings.Compare(a.Topic, b.Topic) })
	return s
}

func (g *Groups) inspectAssignment(a assignor.Assignment) (all []AssignedTopic) {
	for id, partitions := range a {
		x := AssignedTopic{ID: id, Partitions: slices.Sorted(slices.Values(partitions))}
		if t, ok := g.topics.TopicByID(id); ok {
			x.Topic = t.Name
		}
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b AssignedTopic) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return all
}

// inspectOffsets are the committed offsets of a group, as far as room has some left.
func (g *Groups) inspectOffsets(group string, room *int) (all []OffsetState) {
	committed := g.offsets.of(group).committed
	for p, x := range committed {
		all = append(all, OffsetState{p.topic, p.partition, x.offset})
	}
	slices.SortFunc(all, func(a, b OffsetState) int {
		return comparePartitions(partitionName{a.Topic, a.Partition}, partitionName{b.Topic, b.Partition})
	})
	all = all[:min(len(all), *room)]
	*room -= len(all)
	return all
}
