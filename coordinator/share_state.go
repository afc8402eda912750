package coordinator

import (
	"maps"
	"slices"
	"time"

	"kshare/coordinator/assignor"
)

// shareInitializeRetry is the time after which an initialisation that nobody reported on is tried again.
// Source: group.share.initialize.retry.interval.ms, an internal key of Kafka.
const shareInitializeRetry = 30 * time.Second

// shareStartUnknown is the start offset of a share partition that share.auto.offset.reset decides about.
const shareStartUnknown int64 = -1

// ShareStateChange asks the share coordinator to initialise or delete the state of share partitions of a group.
type ShareStateChange struct {
	Group      string
	Delete     bool  // else initialise
	StateEpoch int32 // of an initialisation
	Topics     []ShareStateTopic
}

// ShareStateTopic is a topic of a ShareStateChange.
type ShareStateTopic struct {
	ID         [16]byte
	Name       string
	Partitions []ShareStatePartition // ascending
}

// ShareStatePartition is a partition of a ShareStateTopic.
type ShareStatePartition struct {
	Partition   int32
	StartOffset int64 // of an initialisation; -1 leaves it to share.auto.offset.reset
}

// TopicPartitions are partitions of one topic, ascending.
type TopicPartitions struct {
	ID         [16]byte
	Name       string
	Partitions []int32
}

// shareTopic is a topic of which a group's share partitions have state, or are getting it.
type shareTopic struct {
	name       string
	partitions map[int32]bool
	ms         int64 // when the initialisation was asked for; 0 after a restart
}

// shareTopics are such topics by id. No topic is without partitions.
type shareTopics map[assignor.TopicID]shareTopic

func (s shareTopics) add(id assignor.TopicID, name string, ms int64, partitions ...int32) {
	t, ok := s[id]
	if !ok {
		t = shareTopic{name: name, partitions: map[int32]bool{}}
	}
	t.ms = ms
	for _, p := range partitions {
		t.partitions[p] = true
	}
	s[id] = t
}

func (s shareTopics) remove(id assignor.TopicID, partitions []int32) {
	for _, p := range partitions {
		delete(s[id].partitions, p)
	}
	if len(s[id].partitions) == 0 {
		delete(s, id)
	}
}

func (s shareTopics) ids() []assignor.TopicID {
	return slices.SortedFunc(maps.Keys(s), assignor.CompareTopics)
}

func (t shareTopic) sorted() []int32 { return slices.Sorted(maps.Keys(t.partitions)) }

// initialize asks for state for the partitions subscribed to that have none. A partition that was added to a topic
// of the group starts at 0, so that none of its records is passed over.
func (sg *shareGroup) initialize(now time.Time, e *Effects) {
	change := ShareStateChange{Group: sg.name, StateEpoch: sg.epoch}
	for name := range sg.names() {
		t, ok := sg.g.topics.TopicByName(name)
		if !ok {
			continue
		}
		topic := ShareStateTopic{ID: t.ID, Name: name}
		start := shareStartUnknown
		if sg.g.config.Release.AddedPartitionsFromStart && (sg.initialized[t.ID].partitions != nil || sg.initializing[t.ID].partitions != nil) {
			start = 0
		}
		pending := now.UnixMilli()-sg.initializing[t.ID].ms < shareInitializeRetry.Milliseconds()
		for p := range t.Partitions {
			if sg.initialized[t.ID].partitions[p] || pending && sg.initializing[t.ID].partitions[p] {
				continue
			}
			topic.Partitions = append(topic.Partitions, ShareStatePartition{p, start})
		}
		if len(topic.Partitions) > 0 {
			change.Topics = append(change.Topics, topic)
		}
	}
	sg.ask(now, change, e)
}

// ask records that partitions are being initialised and asks for it.
func (sg *shareGroup) ask(now time.Time, change ShareStateChange, e *Effects) {
	if len(change.Topics) == 0 {
		return
	}
	slices.SortFunc(change.Topics, func(a, b ShareStateTopic) int { return assignor.CompareTopics(a.ID, b.ID) })
	for _, t := range change.Topics {
		for _, p := range t.Partitions {
			sg.initializing.add(t.ID, t.Name, now.UnixMilli(), p.Partition)
		}
	}
	sg.recordState(e)
	e.Share = append(e.Share, change)
}

// assignmentPending reports whether members lack partitions that have state by now, or have some that lost it.
func (sg *shareGroup) assignmentPending() bool {
	if len(sg.members) == 0 {
		return false
	}
	names := sg.names()
	for id, t := range sg.initialized {
		if !names[t.name] {
			continue
		}
		has := map[int32]bool{}
		for _, target := range sg.targets {
			for _, p := range target[id] {
				has[p] = true
			}
		}
		if !maps.Equal(has, t.partitions) {
			return true
		}
	}
	return false
}

// ShareStateInitialized tells that the share coordinator initialised partitions of a group, as a
// [ShareStateChange] asked: they may be assigned from now on.
func (g *Groups) ShareStateInitialized(_ time.Time, group string, topics []TopicPartitions, e *Effects) {
	sg, ok := g.groups[group].(*shareGroup)
	if !ok || len(topics) == 0 {
		return
	}
	for _, t := range topics {
		if _, exists := g.topics.TopicByID(t.ID); !exists {
			continue
		}
		sg.initialized.add(t.ID, t.Name, 0, t.Partitions...)
		sg.initializing.remove(t.ID, t.Partitions)
	}
	sg.recordState(e)
}

// ShareStateFailed tells that the share coordinator did not initialise partitions of a group: the next heartbeat
// asks again.
func (g *Groups) ShareStateFailed(_ time.Time, group string, topics []TopicPartitions, e *Effects) {
	sg, ok := g.groups[group].(*shareGroup)
	if !ok || len(topics) == 0 {
		return
	}
	for _, t := range topics {
		sg.initializing.remove(t.ID, t.Partitions)
	}
	sg.recordState(e)
}

// ShareStateDeleted tells that the share coordinator deleted the state of topics, as DeleteShareGroupOffsets asked.
func (g *Groups) ShareStateDeleted(group string, topics [][16]byte, e *Effects) {
	sg, ok := g.groups[group].(*shareGroup)
	if !ok || len(topics) == 0 {
		return
	}
	for _, id := range topics {
		delete(sg.deleting, id)
	}
	sg.recordState(e)
}

// SharePartitions lists the share partitions of a group that have state, topics in Kafka's order; none for a
// group that does not exist.
func (g *Groups) SharePartitions(group string) []TopicPartitions {
	sg, ok := g.groups[group].(*shareGroup)
	if !ok {
		return nil
	}
	var out []TopicPartitions
	for _, id := range assignor.TopicOrder(sg.initialized.ids()) {
		t := sg.initialized[id]
		out = append(out, TopicPartitions{id, t.name, t.sorted()})
	}
	return out
}

// dropTopics forgets the state of topics that are gone. The share coordinator deletes it by itself.
func (sg *shareGroup) dropTopics(e *Effects) {
	dropped := false
	for _, s := range []shareTopics{sg.initializing, sg.initialized} {
		for id := range s {
			if _, ok := sg.g.topics.TopicByID(id); !ok {
				delete(s, id)
				dropped = true
			}
		}
	}
	for id := range sg.deleting {
		if _, ok := sg.g.topics.TopicByID(id); !ok {
			delete(sg.deleting, id)
			dropped = true
		}
	}
	if dropped {
		sg.recordState(e)
	}
}

// ShareStateToDelete lists what DeleteGroups is to delete the state of: the share partitions of a share group without members. It is nothing for any other group.
func (g *Groups) ShareStateToDelete(group string) []ShareStateTopic {
	sg, ok := g.groups[group].(*shareGroup)
	if !ok || len(sg.members) > 0 {
		return nil
	}
	return sg.allState().deletion(group).Topics
}

// ShareStateLost tells that DeleteGroups could not have the state of a share group deleted. The group stays, without state that is initialised.
func (g *Groups) ShareStateLost(group string, e *Effects) {
	sg, ok := g.groups[group].(*shareGroup)
	if !ok {
		return
	}
	for id, t := range sg.allState() {
		sg.deleting[id] = t.name
	}
	clear(sg.initialized)
	clear(sg.initializing)
	sg.recordState(e)
}

// deleteState asks for the deletion of all state that the group has, is getting or is losing.
func (sg *shareGroup) deleteState(e *Effects) {
	if all := sg.allState(); len(all) > 0 {
		e.Share = append(e.Share, all.deletion(sg.name))
	}
}

// allState are the share partitions that have state, are getting it or are losing it.
func (sg *shareGroup) allState() shareTopics {
	all := shareTopics{}
	for _, s := range []shareTopics{sg.initializing, sg.initialized} {
		for id, t := range s {
			all.add(id, t.name, 0, t.sorted()...)
		}
	}
	for id, name := range sg.deleting {
		if t, ok := sg.g.topics.TopicByID(id); ok {
			for p := range t.Partitions {
				all.add(id, name, 0, p)
			}
		}
	}
	return all
}

func (s shareTopics) deletion(group string) ShareStateChange {
	change := ShareStateChange{Group: group, Delete: true}
	for _, id := range s.ids() {
		t := ShareStateTopic{ID: id, Name: s[id].name}
		for _, p := range s[id].sorted() {
			t.Partitions = append(t.Partitions, ShareStatePartition{Partition: p})
		}
		change.Topics = append(change.Topics, t)
	}
	return change
}
