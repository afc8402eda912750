package scenario

import (
	"strings"

	"kshare"
	"kshare/coordinator"
	"kshare/sharecoordinator"
)

func init() {
	register(&command{
		name:  "move-coordinator",
		usage: "move-coordinator group GROUP NODE [loading=DURATION] | transaction ID NODE ... | share GROUP/PARTITION NODE ...",
		summary: "Makes another node the coordinator of a group, a transactional id or a share partition. For the time of loading it answers COORDINATOR_LOAD_IN_PROGRESS. It may be the node that coordinates " +
			"already.",
		example: `
topic orders
join workers m1 orders
move-coordinator group workers 1 loading=2s
heartbeat workers m1
advance 2s
heartbeat workers m1
----
orders: 1 partition
m1: epoch 3, assigned orders-0
workers: coordinated by node 1
m1: COORDINATOR_LOAD_IN_PROGRESS (14)
m1: epoch 3
`,
		optionNames: []string{"loading"},
		least:       3, most: 3, reach: operated,
		check: func(c *call) error {
			if _, ok := kshare.CoordinatorKindNamed(c.words[0]); !ok {
				return mistakef("%q is no kind of coordinator: group, transaction or share", c.words[0])
			}
			_, err := number(c.words[2], 0, 1<<31-1)
			return err
		},
		run: func(s *step, c *call) error {
			node, err := number(c.words[2], 0, 1<<31-1)
			if err != nil {
				return err
			}
			loading, err := c.durationOption("loading", 0)
			if err != nil {
				return err
			}
			kind, _ := kshare.CoordinatorKindNamed(c.words[0])
			key := s.wire(c.words[1])
			if kind == kshare.ShareCoordinator {
				if key, err = s.shareKey(c.words[1]); err != nil {
					return err
				}
			}
			switch cluster := s.target.cluster(); {
			case cluster != nil:
				if err := cluster.MoveCoordinator(kind, key, int32(node), loading); err != nil {
					return mistakeFrom(err)
				}
			case loading > 0:
				return endsComparison{"how long a real Kafka loads is not for others to say"}
			default:
				if err := s.moveCoordinator(kind, key, int32(node)); err != nil {
					return err
				}
			}
			s.printf("%s: coordinated by node %d", c.words[1], node)
			return nil
		},
	})
}

// stateTopics are where coordinators keep what they know.
var stateTopics = map[kshare.CoordinatorKind]string{
	kshare.GroupCoordinator: "__consumer_offsets", kshare.TransactionCoordinator: "__transaction_state", kshare.ShareCoordinator: "__share_group_state",
}

// moveCoordinator makes a node of a real Kafka the leader of the partition that keeps a key.
func (s *step) moveCoordinator(kind kshare.CoordinatorKind, key string, to int32) error {
	t, err := s.metadata(stateTopics[kind])
	if err != nil {
		return err
	}
	return s.moveLeader(stateTopics[kind], coordinator.PartitionFor(key, int32(len(t.Partitions))), to)
}

// shareKey is the key of the share coordinator for GROUP/PARTITION.
func (s *step) shareKey(text string) (string, error) {
	group, partition, ok := strings.Cut(text, "/")
	if !ok {
		return "", mistakef("%q: write GROUP/PARTITION, like workers/orders-0", text)
	}
	at, err := parsePartition(partition)
	if err != nil {
		return "", err
	}
	id, err := s.topicID(at.topic)
	return sharecoordinator.Key{Group: s.wire(group), Topic: id, Partition: at.partition}.String(), err
}
