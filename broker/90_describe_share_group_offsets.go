package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/internal/javamap"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
)

// DescribeShareGroupOffsets (90), v0 to v1.
//
// Behaviour:
//   - Null topics are all partitions of the group that have state; an unknown group has none, without error.
//   - StartOffset is what is persisted, which trails what the leader knows; -1 where nothing was acknowledged yet and for unknown
//     topics and partitions.
//   - A group without a name, or one of which no partition of a topic or a negative one is asked for, fails with UNKNOWN_SERVER_ERROR, unless the
//     topic is unknown.
//   - Waits for share coordinators as AlterShareGroupOffsets does; what is not found then is -1, without an error. Apache Kafka waits so too for a partition that does not exist.
//   - Topics that exist come first, each once, with each of its partitions once, in the order of java.util.HashMap; then the others as they were asked for.
//   - v1: Lag = end of the log - StartOffset - DeliveryCompleteCount, -1 where either is not known.

const describeShareGroupOffsetsKey = 90

func init() {
	handlers[describeShareGroupOffsetsKey] = needing(locked((*Cluster).describeShareGroupOffsets),
		onEach(acl.Describe, acl.Group, fault.Group),
		looksItself(acl.Describe, acl.Topic, "each partition; of all topics, those without are left out"),
	)
}

func (c *Cluster) describeShareGroupOffsets(r *request, q *kmsg.DescribeShareGroupOffsetsRequest) kmsg.Response {
	return c.tryToDescribeShareOffsets(r, q, 1)
}

func (c *Cluster) tryToDescribeShareOffsets(r *request, q *kmsg.DescribeShareGroupOffsetsRequest, attempts int) kmsg.Response {
	if attempts < shareWriteAttempts && slices.ContainsFunc(q.Groups, c.lacksShareOffsets) {
		r.again(shareWriteBackoff<<(attempts-1), func() kmsg.Response { return c.tryToDescribeShareOffsets(r, q, attempts+1) })
		return nil
	}
	topics := len(c.topics)
	defer func() { r.wrote = len(c.topics) > topics }()
	p := response[*kmsg.DescribeShareGroupOffsetsResponse](q)
	for _, g := range q.Groups {
		entry := kmsg.NewDescribeShareGroupOffsetsResponseGroup()
		entry.GroupID = g.GroupID
		code := c.notCoordinating(r.node, g.GroupID)
		var forbidden []kmsg.DescribeShareGroupOffsetsResponseGroupTopic
		g.Topics, forbidden = r.shareTopicsAllowed(g.Topics)
		switch {
		case !c.shareEnabled():
			entry.ErrorCode = errorcode.UnsupportedVersion
		case g.Topics == nil && code != errorcode.None:
			entry.ErrorCode, entry.ErrorMessage = code, kmsg.StringPtr(coordinatorMessage(code))
		case g.Topics == nil:
			all := c.shareOffsetsOf(&g)
			entry.Topics = c.shareOffsets(r.node, g.GroupID, slices.DeleteFunc(all, func(t kmsg.DescribeShareGroupOffsetsRequestGroupTopic) bool {
				return !r.may(acl.Describe, acl.Topic, t.Topic)
			}))
		case c.unreadableShareOffsets(&g):
			entry.ErrorCode, entry.ErrorMessage = errorcode.UnknownServerError, kmsg.StringPtr("The server experienced an unexpected error when processing the request.")
		default:
			entry.Topics = append(c.shareOffsets(r.node, g.GroupID, g.Topics), forbidden...)
		}
		p.Groups = append(p.Groups, entry)
	}
	return p
}

// shareOffsetsOf are the partitions that a group of a request means.
func (c *Cluster) shareOffsetsOf(g *kmsg.DescribeShareGroupOffsetsRequestGroup) []kmsg.DescribeShareGroupOffsetsRequestGroupTopic {
	if g.Topics != nil {
		return g.Topics
	}
	var topics []kmsg.DescribeShareGroupOffsetsRequestGroupTopic
	for _, t := range c.groups.coordinator.SharePartitions(g.GroupID) {
		topics = append(topics, kmsg.DescribeShareGroupOffsetsRequestGroupTopic{Topic: t.Name, Partitions: t.Partitions})
	}
	return topics
}

// lacksShareOffsets tells whether a share coordinator is not there that keeps what is asked of a group.
func (c *Cluster) lacksShareOffsets(g kmsg.DescribeShareGroupOffsetsRequestGroup) bool {
	return slices.ContainsFunc(c.shareOffsetsOf(&g), func(of kmsg.DescribeShareGroupOffsetsRequestGroupTopic) bool {
		t := c.topics[of.Topic]
		return t != nil && slices.ContainsFunc(of.Partitions, func(index int32) bool {
			p := t.partition(index)
			return p != nil && !c.hasShareCoordinator(p.shareKey(g.GroupID))
		})
	})
}

// shareTopicsAllowed divides topics that a request names into those that the client may describe and the entries of the others.
func (r *request) shareTopicsAllowed(asked []kmsg.DescribeShareGroupOffsetsRequestGroupTopic) (allowed []kmsg.DescribeShareGroupOffsetsRequestGroupTopic, forbidden []kmsg.DescribeShareGroupOffsetsResponseGroupTopic) {
	if asked == nil {
		return nil, nil
	}
	allowed = []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{}
	for _, t := range asked {
		if r.may(acl.Describe, acl.Topic, t.Topic) {
			allowed = append(allowed, t)
			continue
		}
		entry := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopic()
		entry.Topic = t.Topic
		for _, index := range t.Partitions {
			e := unknownShareOffset(index)
			e.ErrorCode, e.ErrorMessage = errorcode.TopicAuthorizationFailed, saysTopic
			entry.Partitions = append(entry.Partitions, e)
		}
		forbidden = append(forbidden, entry)
	}
	return allowed, forbidden
}

// unreadableShareOffsets tells whether the share coordinator would be asked for something without a name or a partition, or for a negative one, which Apache Kafka fails at.
func (c *Cluster) unreadableShareOffsets(g *kmsg.DescribeShareGroupOffsetsRequestGroup) bool {
	return slices.ContainsFunc(g.Topics, func(t kmsg.DescribeShareGroupOffsetsRequestGroupTopic) bool {
		return c.topics[t.Topic] != nil && (g.GroupID == "" || len(t.Partitions) == 0 || slices.Min(t.Partitions) < 0)
	})
}

// shareOffsets are the offsets of a group in some partitions of topics: those of topics that exist, each once, before those of others.
func (c *Cluster) shareOffsets(n *node, group string, asked []kmsg.DescribeShareGroupOffsetsRequestGroupTopic) (known []kmsg.DescribeShareGroupOffsetsResponseGroupTopic) {
	var ids [][16]byte
	var unknown []kmsg.DescribeShareGroupOffsetsResponseGroupTopic
	partitions := map[[16]byte][]int32{}
	for _, t := range asked {
		if x := c.topics[t.Topic]; x != nil {
			ids = append(ids, x.id)
			partitions[x.id] = append(partitions[x.id], t.Partitions...)
			continue
		}
		entry := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopic()
		entry.Topic = t.Topic
		for _, index := range t.Partitions {
			entry.Partitions = append(entry.Partitions, unknownShareOffset(index))
		}
		unknown = append(unknown, entry)
	}
	for _, id := range javamap.OrderOfComputeIfAbsent(ids, javamap.UUID) {
		t := c.topicsByID[id]
		entry := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopic()
		entry.Topic, entry.TopicID = t.name, id
		for _, index := range javamap.OrderOfComputeIfAbsent(partitions[id], javamap.Int) {
			e := unknownShareOffset(index)
			if p := t.partition(index); p != nil {
				c.fillShareOffset(n, &e, group, p)
			}
			entry.Partitions = append(entry.Partitions, e)
		}
		known = append(known, entry)
	}
	return append(known, unknown...)
}

// unknownShareOffset is the answer for a partition of which no offset is known.
func unknownShareOffset(index int32) kmsg.DescribeShareGroupOffsetsResponseGroupTopicPartition {
	e := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopicPartition()
	e.Partition, e.StartOffset, e.Lag = index, -1, -1
	return e
}

func (c *Cluster) fillShareOffset(n *node, e *kmsg.DescribeShareGroupOffsetsResponseGroupTopicPartition, group string, p *partition) {
	k := p.shareKey(group)
	if n.findShareCoordinator(c.keptAt(shareStateTopic, k.String())) != errorcode.None {
		return
	}
	s, no := c.share.coordinator.Summary(k)
	if no != nil {
		e.ErrorCode, e.ErrorMessage = no.ErrorCode, &no.Message
		return
	}
	if p.leader == noLeader && s.StartOffset != -1 && s.DeliveryCompleteCount != -1 { // the lag is what its leader knows
		e.ErrorCode = errorcode.LeaderNotAvailable
		e.ErrorMessage = kmsg.StringPtr("There is no leader for this topic-partition as we are in the middle of a leadership election.")
		return
	}
	e.StartOffset, e.LeaderEpoch = s.StartOffset, s.LeaderEpoch
	e.Lag = shareLag(&s, p)
}

// shareLag is how many records of a partition a share group has yet to finish by what is persisted, -1 where that is not known.
func shareLag(s *sharecoordinator.State, p *partition) int64 {
	if s.StartOffset == -1 || s.DeliveryCompleteCount == -1 {
		return -1
	}
	return p.highWatermark() - s.StartOffset - int64(s.DeliveryCompleteCount)
}
