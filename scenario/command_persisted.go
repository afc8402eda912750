package scenario

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/sharecoordinator"
	"kshare/sharepartition"
)

func init() {
	register(&command{
		name:    "persisted",
		usage:   "persisted GROUP PARTITION",
		summary: "Asks the share coordinator for what it keeps of a share partition (ReadShareGroupState with the partition's leader epoch, which changes nothing).",
		example: `
topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a b c
join workers m1 orders
fetch workers m1
ack workers m1 orders-0 0-1=accept,release
persisted workers orders-0
----
orders: 1 partition
workers: ok
orders-0: offsets 0-2
m1: epoch 3, assigned orders-0
orders-0: acquired 0-2 count 1, lock 30s
  0 a | 1 b | 2 c
orders-0: ok
orders-0: start 0, state epoch 2; 0 ACKNOWLEDGED count 1, 1 AVAILABLE count 1
`,
		least: 2, most: 2,
		check: func(c *call) error { _, err := parsePartition(c.words[1]); return err },
		run:   readShareState,
	})
}

func readShareState(s *step, c *call) error {
	at, err := parsePartition(c.words[1])
	if err != nil {
		return err
	}
	id, err := s.topicID(at.topic)
	if err != nil {
		return err
	}
	node, err := s.coordinatorOf(shareCoordinator, sharecoordinator.Key{Group: s.wire(c.words[0]), Topic: id, Partition: at.partition}.String())
	if err != nil {
		return err
	}
	q := kmsg.NewPtrReadShareGroupStateRequest()
	q.GroupID = s.wire(c.words[0])
	t := kmsg.NewReadShareGroupStateRequestTopic()
	t.TopicID = id
	p := kmsg.NewReadShareGroupStateRequestTopicPartition()
	p.Partition = at.partition
	if p.LeaderEpoch, err = s.leaderEpoch(at); err != nil {
		return err
	}
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	answer, err := request[*kmsg.ReadShareGroupStateResponse](s, s.as(admin), node, q)
	if err != nil {
		return err
	}
	for _, t := range answer.Topics {
		for _, x := range t.Partitions {
			if x.ErrorCode != 0 {
				s.printf("%s: %s", at, failure(x.ErrorCode, x.ErrorMessage))
				continue
			}
			parts := []string{}
			for _, b := range x.StateBatches {
				parts = append(parts, fmt.Sprintf("%s %s count %d", offsets(b.FirstOffset, b.LastOffset), sharepartition.State(b.DeliveryState), b.DeliveryCount))
			}
			text := fmt.Sprintf("%s: start %d, state epoch %d", at, x.StartOffset, x.StateEpoch)
			if len(parts) > 0 {
				text += "; " + strings.Join(parts, ", ")
			}
			s.printf("%s", text)
		}
	}
	return nil
}

// leaderEpoch is the leader epoch of a partition, 0 where the partition does not exist.
func (s *step) leaderEpoch(at topicPartition) (int32, error) {
	t, err := s.metadata(at.topic)
	if err != nil {
		return 0, err
	}
	for _, p := range t.Partitions {
		if p.Partition == at.partition {
			return p.LeaderEpoch, nil
		}
	}
	return 0, nil
}
