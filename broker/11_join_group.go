package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
)

// JoinGroup (11), v0 to v9.
//
// Behaviour: package coordinator.
//   - Parked until the group's members have joined or the rebalance timeout has passed. A member whose connection ends stays.

const joinGroupKey = 11

func init() {
	handlers[joinGroupKey] = needing(toGroup(func(q *kmsg.JoinGroupRequest) string { return q.Group }, (*coordinator.Groups).JoinGroup),
		onOne(acl.Read, acl.Group, func(q *kmsg.JoinGroupRequest) string { return q.Group }),
	)
}
