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

// heartbeats joins the group and stays in it until the consumer is closed.
func (c *Consumer) heartbeats() {
	defer close(c.left)
	coordinator := int32(-1)
	for c.beating.Err() == nil {
		wait := retryBackoff
		if coordinator < 0 {
			coordinator = c.findCoordinator(c.life)
		}
		if coordinator >= 0 {
			resp, err := ask[*kmsg.ShareGroupHeartbeatResponse](c.life, c.client, coordinator, c.heartbeat())
			var known bool
			if wait, known = c.beaten(resp, err); !known {
				coordinator = -1
			}
		}
		pause(c.beating, wait)
	}
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

// beaten takes the answer to a heartbeat. It returns when the next one is due, and whether the coordinator is still who it was.
func (c *Consumer) beaten(resp *kmsg.ShareGroupHeartbeatResponse, err error) (next time.Duration, known bool) {
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.full = true // an answer with a new assignment may be lost
		return retryBackoff, false
	}
	var assigned map[Partition]bool
	if resp.ErrorCode == errorcode.None && resp.Assignment != nil {
		assigned = c.assignment(resp.Assignment)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wake()
	c.full = resp.ErrorCode != errorcode.None
	switch resp.ErrorCode {
	case errorcode.None:
		c.group.MemberEpoch = resp.MemberEpoch
		if assigned != nil {
			c.assigned = assigned
		}
		return time.Duration(resp.HeartbeatIntervalMillis) * time.Millisecond, true
	case errorcode.CoordinatorLoadInProgress:
		return retryBackoff, true
	case errorcode.NotCoordinator, errorcode.CoordinatorNotAvailable:
		return retryBackoff, false
	case errorcode.UnknownMemberID, errorcode.FencedMemberEpoch:
		c.expelled()
		return retryBackoff, true
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
		n.session.lost()
		clear(n.gaps)
	}
}

// assignment is an assignment with the names of its topics. It is told once, so that it is not given up where the names cannot be asked for at once.
func (c *Consumer) assignment(a *kmsg.ShareGroupHeartbeatResponseAssignment) map[Partition]bool {
	assigned := map[Partition]bool{}
	for _, t := range a.TopicPartitions {
		for c.routes.name(t.TopicID) == "" && c.beating.Err() == nil && c.routes.refresh(c.life, c.cfg.Topics...) != nil {
			pause(c.beating, retryBackoff)
		}
		name := c.routes.name(t.TopicID)
		if name == "" {
			continue // it was deleted meanwhile
		}
		for _, p := range t.Partitions {
			assigned[Partition{t.TopicID, name, p}] = true
		}
	}
	return assigned
}

// findCoordinator is the node that coordinates the group, -1 where it is not known. What kgo remembers of it is of no use: it does not forget it after a
// heartbeat that was sent to the wrong node.
func (c *Consumer) findCoordinator(ctx context.Context) int32 {
	if c.routes.refresh(ctx, c.cfg.Topics...) != nil { // which tells kgo where the nodes are
		return -1
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = c.cfg.Group, []string{c.cfg.Group}
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil || len(resp.Coordinators) != 1 || resp.Coordinators[0].ErrorCode != errorcode.None {
		return -1
	}
	return resp.Coordinators[0].NodeID
}

// leave tells the coordinator that the member goes.
func (c *Consumer) leave(ctx context.Context) error {
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch = c.cfg.Group, c.GroupMetadata().MemberID, -1
	resp, err := req.RequestWith(ctx, c.client)
	if err == nil && resp.ErrorCode != errorcode.None && resp.ErrorCode != errorcode.UnknownMemberID {
		return &Error{API: "ShareGroupHeartbeat", Of: c.cfg.Group, Code: resp.ErrorCode, Message: textOf(resp.ErrorMessage), Class: Abortable}
	}
	return err
}
