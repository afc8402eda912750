package coordinator

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/internal/javamap"
	"kshare/protocol/errorcode"
)

// The group's side of altering and deleting the offsets of share groups. The offsets themselves are the share
// coordinator's.

const (
	messageGroupInvalid   = "The group id is invalid."
	messageGroupNotEmpty  = "The group is not empty."
	messageNoSuchTopic    = "This server does not host this topic-partition."
	messageNothingDeleted = "There is no offset information to delete."
	messageGroupDenied    = "Not authorized to access group: Group authorization failed."
	messageTopicDenied    = "Topic authorization failed."
	messageNoShareGroups  = "The version of API is not supported."
)

// shareGroupWithoutMembers finds the share group of a request for offsets; it is nil where there is no group.
func (g *Groups) shareGroupWithoutMembers(id string) (*shareGroup, *failure) {
	if id == "" {
		return nil, &failure{errorcode.InvalidGroupID, messageGroupInvalid}
	}
	sg, ok := g.groups[id].(*shareGroup)
	if !ok && g.groups[id] != nil {
		return nil, &failure{errorcode.GroupIDNotFound, g.notFound(id, shareType)}
	}
	if ok && len(sg.members) > 0 {
		return nil, &failure{errorcode.NonEmptyGroup, messageGroupNotEmpty}
	}
	return sg, nil
}

// MayAlterShareState tells whether the group of AlterShareGroupOffsets or DeleteShareGroupOffsets is a share group without members, or none at all.
func (g *Groups) MayAlterShareState(group string) bool {
	_, fail := g.shareGroupWithoutMembers(group)
	return fail == nil
}

// mayUseShareOffsets is the failure of a caller that may not do op on a group, or where there are no share groups.
func (g *Groups) mayUseShareOffsets(c Caller, op kmsg.ACLOperation, group string) *failure {
	if !g.config.ShareEnabled {
		return &failure{errorcode.UnsupportedVersion, messageNoShareGroups}
	}
	if !c.allowed(op, kmsg.ACLResourceTypeGroup, group) {
		return &failure{errorcode.GroupAuthorizationFailed, messageGroupDenied}
	}
	return nil
}

// AlterShareGroupOffsets (key 91, version 0) asks in e.Share for the state of partitions to be initialised anew
// with the offsets given. The answer holds if that succeeds; a partition that it fails for gets the error. A group
// that does not exist is made, unless all topics are refused.
func (g *Groups) AlterShareGroupOffsets(now time.Time, c Caller, req *kmsg.AlterShareGroupOffsetsRequest, e *Effects) *kmsg.AlterShareGroupOffsetsResponse {
	resp := kmsg.NewPtrAlterShareGroupOffsetsResponse()
	resp.Version = c.Version
	fail := g.mayUseShareOffsets(c, kmsg.ACLOperationRead, req.GroupID)
	var sg *shareGroup
	if fail == nil {
		sg, fail = g.shareGroupWithoutMembers(req.GroupID)
	}
	if fail != nil {
		resp.ErrorCode, resp.ErrorMessage = fail.code, fail.text()
		return resp
	}
	refused, topics := g.splitAltered(c, req.Topics)
	if sg == nil && len(topics) > 0 {
		sg = g.newShareGroup(req.GroupID)
		g.put(sg)
		sg.recordEpoch(e)
	}
	if text := g.negativeSharePartition(c, req); text != "" {
		resp.ErrorCode, resp.ErrorMessage = errorcode.UnknownServerError, &text
		return resp
	}
	change := ShareStateChange{Group: req.GroupID}
	for _, t := range append(refused, topics...) {
		x, topic := g.alterShareTopic(c, t)
		resp.Topics = append(resp.Topics, x)
		if len(topic.Partitions) > 0 {
			change.Topics = append(change.Topics, topic)
		}
	}
	if sg != nil {
		change.StateEpoch = sg.epoch
		sg.ask(now, change, e)
	}
	return resp
}

// splitAltered splits the topics of a request into those that are refused as a whole, which are answered first, and others. A topic that is named twice
// is one with the partitions of both.
func (g *Groups) splitAltered(c Caller, asked []kmsg.AlterShareGroupOffsetsRequestTopic) (refused, topics []kmsg.AlterShareGroupOffsetsRequestTopic) {
	at := map[string]int{}
	for _, t := range asked {
		to := &topics
		if _, exists := g.topics.TopicByName(t.Topic); !exists || !c.allowed(kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, t.Topic) {
			to = &refused
		}
		if i, twice := at[t.Topic]; twice {
			(*to)[i].Partitions = append((*to)[i].Partitions, t.Partitions...)
			continue
		}
		at[t.Topic] = len(*to)
		*to = append(*to, t)
	}
	return refused, topics
}

// negativeSharePartition finds a negative partition of a topic that exists, which Apache Kafka does not refuse before it asks the share coordinator
// for it, and there fails with all others. It is "" or the text of the failure.
func (g *Groups) negativeSharePartition(c Caller, req *kmsg.AlterShareGroupOffsetsRequest) string {
	for _, t := range req.Topics {
		topic, exists := g.topics.TopicByName(t.Topic)
		if !exists || !c.allowed(kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, t.Topic) {
			continue
		}
		for _, p := range t.Partitions {
			if p.Partition < 0 {
				id := base64.RawURLEncoding.EncodeToString(topic.ID[:])
				return fmt.Sprintf("Initialize share group parameters has invalid partitionId - %s %s %d", req.GroupID, id, p.Partition)
			}
		}
	}
	return ""
}

func (g *Groups) alterShareTopic(c Caller, t kmsg.AlterShareGroupOffsetsRequestTopic) (kmsg.AlterShareGroupOffsetsResponseTopic, ShareStateTopic) {
	x := kmsg.NewAlterShareGroupOffsetsResponseTopic()
	x.Topic = t.Topic
	topic, exists := g.topics.TopicByName(t.Topic)
	allowed := c.allowed(kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, t.Topic)
	if exists && allowed {
		x.TopicID = topic.ID
	}
	change := ShareStateTopic{ID: topic.ID, Name: t.Topic}
	for _, p := range t.Partitions {
		y := kmsg.NewAlterShareGroupOffsetsResponseTopicPartition()
		y.Partition = p.Partition
		fail := &failure{}
		switch {
		case !allowed:
			fail = &failure{errorcode.TopicAuthorizationFailed, messageTopicDenied}
		case !exists || p.Partition >= topic.Partitions:
			fail = &failure{errorcode.UnknownTopicOrPartition, messageNoSuchTopic}
		default:
			change.Partitions = append(change.Partitions, ShareStatePartition{p.Partition, p.StartOffset})
		}
		y.ErrorCode, y.ErrorMessage = fail.code, fail.text()
		x.Partitions = append(x.Partitions, y)
	}
	return x, change
}

// DeleteShareGroupOffsets (key 92, version 0) asks in e.Share for the state of all partitions of topics to be
// deleted, of which [Groups.ShareStateDeleted] is to be told. The answer holds if that succeeds.
func (g *Groups) DeleteShareGroupOffsets(c Caller, req *kmsg.DeleteShareGroupOffsetsRequest, e *Effects) *kmsg.DeleteShareGroupOffsetsResponse {
	resp := kmsg.NewPtrDeleteShareGroupOffsetsResponse()
	resp.Version = c.Version
	fail := g.mayUseShareOffsets(c, kmsg.ACLOperationDelete, req.GroupID)
	var sg *shareGroup
	if fail == nil {
		sg, fail = g.shareGroupWithoutMembers(req.GroupID)
	}
	if fail == nil && sg == nil {
		fail = &failure{errorcode.GroupIDNotFound, g.notFound(req.GroupID, shareType)}
	}
	if fail != nil {
		resp.ErrorCode, resp.ErrorMessage = fail.code, fail.text()
		return resp
	}
	deleted := shareTopics{}
	var ids [][16]byte
	var refused []kmsg.DeleteShareGroupOffsetsResponseTopic
	for _, t := range req.Topics {
		topic, exists := g.topics.TopicByName(t.Topic)
		had, has := sg.initialized[topic.ID]
		_, losing := sg.deleting[topic.ID]
		var fail *failure
		switch {
		case !c.allowed(kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, t.Topic):
			fail = &failure{errorcode.TopicAuthorizationFailed, messageTopicDenied}
		case !exists:
			fail = &failure{errorcode.UnknownTopicOrPartition, messageNoSuchTopic}
		case has:
			deleted.add(topic.ID, t.Topic, 0, had.sorted()...)
		case losing:
			for p := range topic.Partitions {
				deleted.add(topic.ID, t.Topic, 0, p)
			}
		default:
			fail = &failure{errorcode.UnknownTopicOrPartition, messageNothingDeleted}
		}
		if fail == nil {
			ids = append(ids, topic.ID)
			continue
		}
		x := kmsg.NewDeleteShareGroupOffsetsResponseTopic()
		x.Topic, x.ErrorCode, x.ErrorMessage = t.Topic, fail.code, fail.text()
		refused = append(refused, x)
	}
	for _, id := range javamap.OrderOfComputeIfAbsent(ids, javamap.UUID) {
		x := kmsg.NewDeleteShareGroupOffsetsResponseTopic()
		x.Topic, x.TopicID = deleted[id].name, id
		resp.Topics = append(resp.Topics, x)
	}
	resp.Topics = append(resp.Topics, refused...)
	if len(deleted) > 0 {
		for id, t := range deleted {
			delete(sg.initialized, id)
			sg.deleting[id] = t.name
		}
		sg.recordState(e)
		e.Share = append(e.Share, deleted.deletion(sg.name))
	}
	return resp
}
