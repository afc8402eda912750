package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/coordinator"
)

// DeleteShareGroupOffsets (92), v0.
//
// Behaviour: package coordinator.
//   - Deletes the state of all share partitions of a topic. The group must have no members.
//   - What is deleted comes first, each topic once, in the order of java.util.HashMap; then what is not, as it was asked for.

const deleteShareGroupOffsetsKey = 92

func init() {
	handlers[deleteShareGroupOffsetsKey] = toGroupSaying(coordinatorMessage, func(q *kmsg.DeleteShareGroupOffsetsRequest) string { return q.GroupID }, withoutTime((*coordinator.Groups).DeleteShareGroupOffsets))
}
