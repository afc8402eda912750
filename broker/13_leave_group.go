package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
)

// LeaveGroup (13), v0 to v5.
//
// Behaviour: package coordinator.
//   - v3+ takes several members and answers each.

const leaveGroupKey = 13

func init() {
	handlers[leaveGroupKey] = needing(toGroup(func(q *kmsg.LeaveGroupRequest) string { return q.Group }, (*coordinator.Groups).LeaveGroup),
		onOne(acl.Read, acl.Group, func(q *kmsg.LeaveGroupRequest) string { return q.Group }),
	)
}
