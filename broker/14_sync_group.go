package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
)

// SyncGroup (14), v0 to v5.
//
// Behaviour: package coordinator.
//   - Parked until the leader has sent the assignment.

const syncGroupKey = 14

func init() {
	handlers[syncGroupKey] = needing(toGroup(func(q *kmsg.SyncGroupRequest) string { return q.Group }, (*coordinator.Groups).SyncGroup),
		onOne(acl.Read, acl.Group, func(q *kmsg.SyncGroupRequest) string { return q.Group }),
	)
}
