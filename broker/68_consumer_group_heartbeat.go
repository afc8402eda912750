package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
)

// ConsumerGroupHeartbeat (68), v0 to v1.
//
// Behaviour: package coordinator.
//   - Joins, keeps and leaves a consumer group (KIP-848), whose partitions the coordinator assigns.

const consumerGroupHeartbeatKey = 68

func init() {
	handlers[consumerGroupHeartbeatKey] = needing(toGroup(func(q *kmsg.ConsumerGroupHeartbeatRequest) string { return q.Group }, (*coordinator.Groups).ConsumerGroupHeartbeat),
		onOne(acl.Read, acl.Group, func(q *kmsg.ConsumerGroupHeartbeatRequest) string { return q.Group }),
		looksItself(acl.Describe, acl.Topic, "each topic that is subscribed to by name; of those that a regular expression means, those without are left out"),
	)
}
