package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/coordinator"
)

// AlterShareGroupOffsets (91), v0.
//
// Behaviour: package coordinator.
//   - Begins the state of share partitions anew at the given offsets. The group must have no members; one that does not exist is made.
//   - A topic that is named twice is answered once, with the partitions of both; of a partition that is named twice the last offset holds. Topics that do not
//     exist are answered first.
//   - A leader that still has the old state learns of it as its next write is fenced.

const alterShareGroupOffsetsKey = 91

func init() {
	handlers[alterShareGroupOffsetsKey] = toGroupSaying(coordinatorMessage, func(q *kmsg.AlterShareGroupOffsetsRequest) string { return q.GroupID }, (*coordinator.Groups).AlterShareGroupOffsets)
}
