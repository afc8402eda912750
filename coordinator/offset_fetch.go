package coordinator

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

const (
	fetchHasGroupError = 2
	fetchHasGroups     = 8
	fetchHasTopicIDs   = 10
)

// OffsetFetch (key 9, versions 1 to 10) reads the offsets of a group, or of several from version 8 on. What was
// never committed, in an unknown group or topic too, is answered as offset -1 without an error.
func (g *Groups) OffsetFetch(c Caller, req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Version = c.Version
	if c.Version >= fetchHasGroups {
		for _, group := range req.Groups {
			resp.Groups = append(resp.Groups, g.fetchGroup(c, group, req.RequireStable))
		}
		return resp
	}
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = req.Group
	if req.Topics != nil {
		group.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range req.Topics {
		x := kmsg.NewOffsetFetchRequestGroupTopic()
		x.Topic, x.Partitions = t.Topic, t.Partitions
		group.Topics = append(group.Topics, x)
	}
	answer := g.fetchGroup(c, group, req.RequireStable)
	if c.Version >= fetchHasGroupError {
		resp.ErrorCode = answer.ErrorCode
	} else if answer.ErrorCode != errorcode.None {
		for _, t := range group.Topics {
			answer.Topics = append(answer.Topics, fetchFailed(t, answer.ErrorCode))
		}
	}
	for _, t := range answer.Topics {
		x := kmsg.NewOffsetFetchResponseTopic()
		x.Topic = t.Topic
		for _, p := range t.Partitions {
			y := kmsg.NewOffsetFetchResponseTopicPartition()
			y.Partition, y.Offset, y.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
			y.Metadata, y.ErrorCode = p.Metadata, p.ErrorCode
			x.Partitions = append(x.Partitions, y)
		}
		resp.Topics = append(resp.Topics, x)
	}
	return resp
}

func (g *Groups) fetchGroup(c Caller, req kmsg.OffsetFetchRequestGroup, stable bool) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = req.Group
	if !c.allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeGroup, req.Group) {
		resp.ErrorCode = errorcode.GroupAuthorizationFailed
		return resp
	}
	if gr := g.groups[req.Group]; gr != nil {
		if resp.ErrorCode = gr.checkOffsetFetch(req.MemberID, req.MemberEpoch); resp.ErrorCode != errorcode.None {
			return resp
		}
	}
	of := g.offsets.of(req.Group)
	if req.Topics == nil {
		resp.Topics = g.fetchAll(c, of, stable)
		return resp
	}
	var failed []kmsg.OffsetFetchResponseGroupTopic
	for _, t := range req.Topics {
		byID := c.Version >= fetchHasTopicIDs
		name := t.Topic
		if byID {
			topic, ok := g.topics.TopicByID(t.TopicID)
			if !ok {
				failed = append(failed, fetchFailed(t, errorcode.UnknownTopicID))
				continue
			}
			name = topic.Name
		}
		if !c.allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, name) {
			failed = append(failed, fetchFailed(t, errorcode.TopicAuthorizationFailed))
			continue
		}
		x := kmsg.NewOffsetFetchResponseGroupTopic()
		x.Topic, x.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			y := of.fetch(partitionName{name, p}, stable)
			if byID && of.ofOtherTopic(partitionName{name, p}, t.TopicID) {
				y = noOffset(p, errorcode.None)
			}
			x.Partitions = append(x.Partitions, y)
		}
		resp.Topics = append(resp.Topics, x)
	}
	resp.Topics = append(resp.Topics, failed...)
	return resp
}

// fetchAll answers every partition that has an offset, in the order of topics and partitions.
func (g *Groups) fetchAll(c Caller, of *groupOffsets, stable bool) []kmsg.OffsetFetchResponseGroupTopic {
	var topics []kmsg.OffsetFetchResponseGroupTopic
	for _, p := range slices.SortedFunc(maps.Keys(of.committed), comparePartitions) {
		if !c.allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, p.topic) {
			continue
		}
		topic, ok := g.topics.TopicByName(p.topic)
		if !ok && c.Version >= fetchHasTopicIDs {
			continue // it has no id to be named by
		}
		if len(topics) == 0 || topics[len(topics)-1].Topic != p.topic {
			x := kmsg.NewOffsetFetchResponseGroupTopic()
			x.Topic, x.TopicID = p.topic, topic.ID
			topics = append(topics, x)
		}
		x := &topics[len(topics)-1]
		x.Partitions = append(x.Partitions, of.fetch(p, stable))
	}
	return topics
}

// fetch answers a partition. With stable an offset that a transaction may yet change is an error.
func (of *groupOffsets) fetch(p partitionName, stable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	if stable && len(of.pending[p]) > 0 {
		return noOffset(p.partition, errorcode.UnstableOffsetCommit)
	}
	o, ok := of.committed[p]
	x := noOffset(p.partition, errorcode.None)
	if ok {
		x.Offset, x.LeaderEpoch, x.Metadata = o.offset, o.leaderEpoch, &o.metadata
	}
	return x
}

// ofOtherTopic reports whether the offset was committed to a topic of the same name but another id.
func (of *groupOffsets) ofOtherTopic(p partitionName, id [16]byte) bool {
	o, ok := of.committed[p]
	return ok && o.topicID != noTopicID && o.topicID != id
}

func noOffset(partition int32, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	x := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	x.Partition, x.Offset, x.LeaderEpoch, x.Metadata, x.ErrorCode = partition, -1, -1, new(string), code
	return x
}

func fetchFailed(t kmsg.OffsetFetchRequestGroupTopic, code int16) kmsg.OffsetFetchResponseGroupTopic {
	x := kmsg.NewOffsetFetchResponseGroupTopic()
	x.Topic, x.TopicID = t.Topic, t.TopicID
	for _, p := range t.Partitions {
		x.Partitions = append(x.Partitions, noOffset(p, code))
	}
	return x
}
