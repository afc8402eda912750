package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
)

// AlterShareGroupOffsets (91), v0.
//
// Behaviour: package coordinator.
//   - Begins the state of share partitions anew at the given offsets. The group must have no members; one that does not exist is made where any of the
//     topics exists, also without the partition.
//   - A topic that is named twice is answered once, with the partitions of both; of a partition that is named twice the last offset holds. Topics that do not
//     exist are answered first.
//   - Waits for share coordinators that are not there as a leader does that writes, and answers for the partition with COORDINATOR_NOT_AVAILABLE where they do not come.
//   - A leader that still has the old state learns of it as its next write is fenced.

const alterShareGroupOffsetsKey = 91

func init() {
	handlers[alterShareGroupOffsetsKey] = needing(toShareState((*coordinator.Groups).AlterShareGroupOffsets, func(q *kmsg.AlterShareGroupOffsetsRequest) (string, []string) {
		var topics []string
		for _, t := range q.Topics {
			topics = append(topics, t.Topic)
		}
		return q.GroupID, topics
	}, func(c *Cluster, group string, p *kmsg.AlterShareGroupOffsetsResponse) {
		for i := range p.Topics {
			for j := range p.Topics[i].Partitions {
				x := &p.Topics[i].Partitions[j]
				if k := (sharecoordinator.Key{Group: group, Topic: p.Topics[i].TopicID, Partition: x.Partition}); x.ErrorCode == errorcode.None && !c.hasShareCoordinator(k) {
					x.ErrorCode, x.ErrorMessage = errorcode.CoordinatorNotAvailable, kmsg.StringPtr("Error in find coordinator. Exhausted max retries to find coordinator without success.")
				}
			}
		}
	}),
		onOne(acl.Read, acl.Group, func(q *kmsg.AlterShareGroupOffsetsRequest) string { return q.GroupID }).saying(saysGroup),
		looksItself(acl.Read, acl.Topic, "each partition"),
	)
}
