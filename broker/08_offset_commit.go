package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/coordinator"
)

// OffsetCommit (8), v2 to v10.
//
// Behaviour: package coordinator.
//   - Each partition is answered, in the order of the request. v10 names topics by id.

const offsetCommitKey = 8

func init() {
	handlers[offsetCommitKey] = toGroup(func(q *kmsg.OffsetCommitRequest) string { return q.Group }, (*coordinator.Groups).OffsetCommit)
}
