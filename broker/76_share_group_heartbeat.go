package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
	"kshare/protocol/errorcode"
)

// ShareGroupHeartbeat (76), v1.
//
// Behaviour: package coordinator.
//   - Partitions are assigned once they have state. With timing=kafka a new member's first answer has none, and they come with a
//     heartbeat after the assignment interval; with timing=fast they are in the first answer.

const shareGroupHeartbeatKey = 76

func init() {
	handlers[shareGroupHeartbeatKey] = needing(writing(locked((*Cluster).shareGroupHeartbeat)),
		onOne(acl.Read, acl.Group, func(q *kmsg.ShareGroupHeartbeatRequest) string { return q.GroupID }),
		looksItself(acl.Describe, acl.Topic, "each topic that is subscribed to"),
	)
}

func (c *Cluster) shareGroupHeartbeat(r *request, q *kmsg.ShareGroupHeartbeatRequest) kmsg.Response {
	if code := c.notCoordinating(r.node, q.GroupID); code != errorcode.None {
		p := response[*kmsg.ShareGroupHeartbeatResponse](q)
		p.ErrorCode = code
		return p
	}
	p := callGroups(c, r, q, (*coordinator.Groups).ShareGroupHeartbeat)
	first, ok := p.(*kmsg.ShareGroupHeartbeatResponse)
	if !ok || c.timing != TimingFast || q.MemberEpoch != 0 || first.ErrorCode != errorcode.None {
		return p
	}
	// What the first call has initialised can be assigned now: ask again as the member would.
	again := *q
	again.MemberEpoch = first.MemberEpoch
	if second, ok := callGroups(c, r, &again, (*coordinator.Groups).ShareGroupHeartbeat).(*kmsg.ShareGroupHeartbeatResponse); ok && second.ErrorCode == errorcode.None {
		return second
	}
	return p
}
