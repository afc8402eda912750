package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
	"kshare/protocol/errorcode"
)

// DeleteShareGroupOffsets (92), v0.
//
// Behaviour: package coordinator.
//   - Deletes the state of all share partitions of a topic. The group must have no members.
//   - Waits for share coordinators, as AlterShareGroupOffsets.
//   - What is deleted comes first, each topic once, in the order of java.util.HashMap; then what is not, as it was asked for.

const deleteShareGroupOffsetsKey = 92

func init() {
	handlers[deleteShareGroupOffsetsKey] = needing(toShareState(withoutTime((*coordinator.Groups).DeleteShareGroupOffsets), func(q *kmsg.DeleteShareGroupOffsetsRequest) (string, []string) {
		var topics []string
		for _, t := range q.Topics {
			topics = append(topics, t.Topic)
		}
		return q.GroupID, topics
	}, func(c *Cluster, group string, p *kmsg.DeleteShareGroupOffsetsResponse) {
		for i := range p.Topics {
			if x := &p.Topics[i]; x.ErrorCode == errorcode.None && !c.keepsShareState(group, []string{x.Topic}) {
				x.ErrorCode, x.ErrorMessage = errorcode.CoordinatorNotAvailable, kmsg.StringPtr(coordinatorMessage(errorcode.CoordinatorNotAvailable))
			}
		}
	}),
		onOne(acl.Delete, acl.Group, func(q *kmsg.DeleteShareGroupOffsetsRequest) string { return q.GroupID }).saying(saysGroup),
		looksItself(acl.Read, acl.Topic, "each topic"),
	)
}
