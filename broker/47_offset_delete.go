package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
)

// OffsetDelete (47), v0.
//
// Behaviour: package coordinator.
//   - Topics that a live member subscribes to keep their offsets: GROUP_SUBSCRIBED_TO_TOPIC.

const offsetDeleteKey = 47

func init() {
	handlers[offsetDeleteKey] = needing(toGroup(func(q *kmsg.OffsetDeleteRequest) string { return q.Group }, withoutTime((*coordinator.Groups).OffsetDelete)),
		onOne(acl.Delete, acl.Group, func(q *kmsg.OffsetDeleteRequest) string { return q.Group }),
		looksItself(acl.Read, acl.Topic, "each partition"),
	)
}
