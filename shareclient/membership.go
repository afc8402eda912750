package shareclient

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// newMemberID is a random UUID as Kafka writes it: a client chooses the id of its member (KIP-932). One that begins with a dash is made anew, as by Kafka.
func newMemberID() string {
	for {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if text := base64.RawURLEncoding.EncodeToString(id[:]); text[0] != '-' {
			return text
		}
	}
}

// Bounds of the interval of heartbeats, whatever a broker says: it neither floods brokers nor ends a session of 45 s, which is Kafka's default.
const minInterval, maxInterval = 100 * time.Millisecond, 15 * time.Second

// heartbeats joins the group and stays in it until the consumer is closed.
func (c *Consumer) heartbeats() {
	defer close(c.left)
	coordinator, failures := int32(-1), 0
	for c.beating.Err() == nil {
		var wait time.Duration
		if coordinator < 0 {
			coordinator = c.findCoordinator(c.life)
		}
		if coordinator >= 0 {
			resp, err := c.beat(coordinator)
			var known bool
			if wait, known = c.beaten(coordinator, resp, err); !known {
				coordinator = -1
			}
		}
		if failures++; wait > 0 {
			failures = 0
		} else {
			wait = backoff(failures)
		}
		pause(c.beating, wait)
	}
}

// beat sends a heartbeat to a node that has what it takes.
func (c *Consumer) beat(coordinator int32) (*kmsg.ShareGroupHeartbeatResponse, error) {
	req := c.heartbeat()
	if err := c.offered(c.life, c.coordination, coordinator, req.Key(), 1); err != nil {
		return nil, err
	}
	return ask[*kmsg.ShareGroupHeartbeatResponse](c.life, c.coordination, coordinator, req)
}

// heartbeat is the next one: it joins in epoch 0. One that names the topics is answered with the assignment even where that has not changed.
func (c *Consumer) heartbeat() *kmsg.ShareGroupHeartbeatRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch = c.group.GroupID, c.group.MemberID, c.group.MemberEpoch
	if c.full {
		req.SubscribedTopicNames = c.cfg.Topics
	}
	return req
}

// beaten takes the answer to a heartbeat. It returns when the next one is due, 0 where this one has failed, and whether the coordinator is still who it was.
func (c *Consumer) beaten(coordinator int32, resp *kmsg.ShareGroupHeartbeatResponse, err error) (next time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wake()
	c.full = err != nil || resp.ErrorCode != errorcode.None // an answer with a new assignment may be lost
	if err != nil {
		c.unanswered(coordinator, err)
		return 0, false
	}
	switch resp.ErrorCode {
	case errorcode.None:
		delete(c.told, "ShareGroupHeartbeat")
		c.group.MemberEpoch = resp.MemberEpoch
		if a := resp.Assignment; a != nil {
			c.assigned = map[[16]byte][]int32{}
			for _, t := range a.TopicPartitions {
				c.assigned[t.TopicID] = append(c.assigned[t.TopicID], t.Partitions...)
			}
		}
		return min(max(time.Duration(resp.HeartbeatIntervalMillis)*time.Millisecond, minInterval), maxInterval), true
	case errorcode.CoordinatorLoadInProgress, errorcode.RequestTimedOut:
		return 0, true
	case errorcode.NotCoordinator, errorcode.CoordinatorNotAvailable:
		return 0, false
	case errorcode.UnknownMemberID, errorcode.FencedMemberEpoch:
		c.expelled()
		return 0, true
	case errorcode.TopicAuthorizationFailed:
		c.trouble(&Error{API: "ShareGroupHeartbeat", Of: c.cfg.Group, Code: resp.ErrorCode, Message: textOf(resp.ErrorMessage), Class: Retriable})
		return 0, true
	}
	if c.fatal == nil {
		c.fatal = &Error{API: "ShareGroupHeartbeat", Of: c.cfg.Group, Code: resp.ErrorCode, Message: textOf(resp.ErrorMessage), Class: Fatal}
	}
	return time.Hour, true
}

// expelled forgets what the member had: the group gives its records to others. It joins again with the next heartbeat.
func (c *Consumer) expelled() {
	c.group.MemberEpoch = 0
	c.assigned, c.ready, c.held = nil, nil, map[Partition]map[int64]*held{}
	for _, n := range c.nodes {
		n.lose()
	}
}

// findCoordinator is the node that coordinates the group, -1 where it is not known. What kgo remembers of it is of no use: it does not forget it after a
// heartbeat that was sent to the wrong node.
func (c *Consumer) findCoordinator(ctx context.Context) int32 {
	nodes := kmsg.NewPtrMetadataRequest()
	nodes.Topics = []kmsg.MetadataRequestTopic{} // none: kgo learns where the nodes are
	if _, err := nodes.RequestWith(ctx, c.coordination); err != nil {
		return -1
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = c.cfg.Group, []string{c.cfg.Group}
	resp, err := req.RequestWith(ctx, c.coordination)
	if err != nil || len(resp.Coordinators) != 1 {
		return -1
	}
	found := &resp.Coordinators[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	switch found.ErrorCode {
	case errorcode.None:
		delete(c.told, "FindCoordinator")
		return found.NodeID
	case errorcode.GroupAuthorizationFailed:
		c.trouble(&Error{API: "FindCoordinator", Of: c.cfg.Group, Code: found.ErrorCode, Message: textOf(found.ErrorMessage), Class: Retriable})
	}
	return -1
}

// leave tells the coordinator that the member goes.
func (c *Consumer) leave(ctx context.Context) error {
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch = c.cfg.Group, c.GroupMetadata().MemberID, -1
	resp, err := req.RequestWith(ctx, c.coordination)
	if err == nil && resp.ErrorCode != errorcode.None && resp.ErrorCode != errorcode.UnknownMemberID && resp.ErrorCode != errorcode.GroupIDNotFound {
		return &Error{API: "ShareGroupHeartbeat", Of: c.cfg.Group, Code: resp.ErrorCode, Message: textOf(resp.ErrorMessage), Class: Abortable}
	}
	return err
}
