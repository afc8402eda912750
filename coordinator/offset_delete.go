package coordinator

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// OffsetDelete (key 47, version 0) removes offsets of a group; a partition that has none is no error.
func (g *Groups) OffsetDelete(c Caller, req *kmsg.OffsetDeleteRequest, e *Effects) *kmsg.OffsetDeleteResponse {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Version = c.Version
	if !c.allowed(kmsg.ACLOperationDelete, kmsg.ACLResourceTypeGroup, req.Group) {
		resp.ErrorCode = errorcode.GroupAuthorizationFailed
		return resp
	}
	if resp.ErrorCode = g.mayDeleteOffsets(req.Group); resp.ErrorCode != errorcode.None {
		return resp
	}
	resp.Topics = g.checkDeletes(c, req)
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			switch {
			case p.ErrorCode != errorcode.None:
			case g.groups[req.Group].subscribedTo(t.Topic):
				p.ErrorCode = errorcode.GroupSubscribedToTopic
			default:
				g.dropOffset(req.Group, partitionName{t.Topic, p.Partition}, e)
			}
		}
	}
	return resp
}

// checkDeletes answers the partitions with the codes that need no group. Topics and partitions that have none come after the
// others.
func (g *Groups) checkDeletes(c Caller, req *kmsg.OffsetDeleteRequest) (answer []kmsg.OffsetDeleteResponseTopic) {
	at := map[string]int{}
	add := func(topic string, p kmsg.OffsetDeleteResponseTopicPartition) {
		i, ok := at[topic]
		if !ok {
			i = len(answer)
			at[topic] = i
			x := kmsg.NewOffsetDeleteResponseTopic()
			x.Topic = topic
			answer = append(answer, x)
		}
		answer[i].Partitions = append(answer[i].Partitions, p)
	}
	for _, refused := range []bool{true, false} {
		for _, t := range req.Topics {
			topic, _ := g.topics.TopicByName(t.Topic)
			readable := c.allowed(kmsg.ACLOperationRead, kmsg.ACLResourceTypeTopic, t.Topic)
			for _, p := range t.Partitions {
				x := kmsg.NewOffsetDeleteResponseTopicPartition()
				x.Partition = p.Partition
				switch {
				case !readable:
					x.ErrorCode = errorcode.TopicAuthorizationFailed
				case p.Partition < 0 || p.Partition >= topic.Partitions:
					x.ErrorCode = errorcode.UnknownTopicOrPartition
				}
				if refused == (x.ErrorCode != errorcode.None) {
					add(t.Topic, x)
				}
			}
		}
	}
	return answer
}

func (g *Groups) mayDeleteOffsets(group string) int16 {
	if group == "" {
		return errorcode.InvalidGroupID
	}
	gr := g.groups[group]
	if gr == nil {
		return errorcode.GroupIDNotFound
	}
	return gr.checkOffsetDelete()
}

// dropOffset removes a partition's offset, pending ones included, and records that if there was one.
func (g *Groups) dropOffset(group string, p partitionName, e *Effects) {
	of := g.offsets.of(group)
	if _, ok := of.committed[p]; !ok && len(of.pending[p]) == 0 {
		return
	}
	g.offsets.drop(group, p)
	e.record(group, appendOffsetKey(group, p), nil)
}

// deleteGroupOffsets removes all offsets of a group.
func (g *Groups) deleteGroupOffsets(group string, e *Effects) {
	for _, p := range g.offsets.of(group).partitions() {
		g.dropOffset(group, p, e)
	}
}

// deleteTopicOffsets removes the offsets of a topic that is gone, in all groups. Those that were committed to
// another topic of that name stay.
func (g *Groups) deleteTopicOffsets(t Topic, e *Effects) {
	for _, gr := range g.sorted() {
		of := g.offsets.of(gr.id())
		for _, p := range of.partitions() {
			if p.topic == t.Name && !of.ofOtherTopic(p, t.ID) {
				g.dropOffset(gr.id(), p, e)
			}
		}
	}
}

// expireOffsets removes the offsets whose time is up, and then the groups that have neither members nor offsets.
func (g *Groups) expireOffsets(now time.Time, e *Effects) {
	for _, gr := range g.sorted() {
		if gr.expires() && g.expireGroupOffsets(gr, now.UnixMilli(), e) && gr.state() == string(classicEmpty) {
			g.removeGroup(gr, e)
		}
	}
}

// expireGroupOffsets reports whether nothing is left of a group's offsets.
func (g *Groups) expireGroupOffsets(gr group, nowMs int64, e *Effects) (none bool) {
	of := g.offsets.of(gr.id())
	none = len(of.pending) == 0
	for _, p := range of.partitions() {
		o, ok := of.committed[p]
		if !ok {
			continue
		}
		if gr.subscribedTo(p.topic) || len(of.pending[p]) > 0 || !g.expired(gr, o, nowMs) {
			none = false
			continue
		}
		g.dropOffset(gr.id(), p, e)
	}
	return none
}

func (g *Groups) expired(gr group, o committedOffset, nowMs int64) bool {
	from, ok := gr.offsetsExpireFrom(o.committedMs)
	if !ok {
		return false
	}
	if o.expireMs != noExpiry {
		return nowMs >= o.expireMs
	}
	return nowMs-from >= g.config.OffsetsRetention.Milliseconds()
}
