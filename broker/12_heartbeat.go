package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
)

// Heartbeat (12), v0 to v4.
//
// Behaviour: package coordinator.
//   - REBALANCE_IN_PROGRESS tells a member to join again; it keeps its session meanwhile.

const heartbeatKey = 12

func init() {
	handlers[heartbeatKey] = needing(toGroup(func(q *kmsg.HeartbeatRequest) string { return q.Group }, (*coordinator.Groups).Heartbeat),
		onOne(acl.Read, acl.Group, func(q *kmsg.HeartbeatRequest) string { return q.Group }),
	)
}
