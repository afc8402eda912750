package scenario

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// electionTimeout is how long a real Kafka may take to do what moves a leader, in ms.
const electionTimeout = 30_000

// moveLeader makes a node the leader of a partition of a real Kafka, as an administrator does: the node becomes the preferred replica, which is elected, and
// then the replicas have their order back. It returns once all nodes know.
func (s *step) moveLeader(topic string, partition, to int32) error {
	t, err := s.metadata(topic)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(t.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Partition == partition })
	if i < 0 {
		return mistakef("there is no partition %s-%d", topic, partition)
	}
	p := &t.Partitions[i]
	if p.Leader == to {
		return nil
	}
	if !slices.Contains(p.ISR, to) {
		return mistakef("node %d is not in sync with %s-%d, nodes %v are", to, topic, partition, p.ISR)
	}
	first := append([]int32{to}, slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return id == to })...)
	if err := s.reorder(topic, partition, first); err != nil {
		return err
	}
	if err := s.electPreferred(topic, partition); err != nil {
		return err
	}
	if err := s.reorder(topic, partition, p.Replicas); err != nil {
		return err
	}
	for _, node := range s.allNodes() {
		if s.cut[node] {
			continue
		}
		err := s.until(fmt.Sprintf("node %d does not know that node %d leads %s-%d", node, to, topic, partition), func() (bool, error) {
			t, err := s.metadataFrom(node, topic)
			if err != nil {
				return false, err
			}
			return slices.ContainsFunc(t.Partitions, func(x kmsg.MetadataResponseTopicPartition) bool {
				return x.Partition == partition && x.Leader == to && slices.Equal(x.Replicas, p.Replicas)
			}), nil
		})
		if err != nil {
			return err
		}
	}
	return s.settle()
}

// reorder gives the replicas of a partition another order (AlterPartitionReassignments).
func (s *step) reorder(topic string, partition int32, replicas []int32) error {
	x := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	x.Partition, x.Replicas = partition, replicas
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic, t.Partitions = s.wire(topic), append(t.Partitions, x)
	q := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	q.TimeoutMillis, q.Topics = electionTimeout, append(q.Topics, t)
	a, err := request[*kmsg.AlterPartitionAssignmentsResponse](s, s.as(admin), 0, q)
	if err != nil {
		return err
	}
	code, message := a.ErrorCode, a.ErrorMessage
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			if code == errorcode.None {
				code, message = p.ErrorCode, p.ErrorMessage
			}
		}
	}
	if code != errorcode.None {
		return fmt.Errorf("AlterPartitionReassignments of %s-%d: %s", topic, partition, failure(code, message))
	}
	return nil
}

// electPreferred makes the first replica of a partition its leader (ElectLeaders).
func (s *step) electPreferred(topic string, partition int32) error {
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = s.wire(topic), []int32{partition}
	q := kmsg.NewPtrElectLeadersRequest()
	q.TimeoutMillis, q.Topics = electionTimeout, append(q.Topics, t)
	a, err := request[*kmsg.ElectLeadersResponse](s, s.as(admin), 0, q)
	if err != nil {
		return err
	}
	code, message := a.ErrorCode, (*string)(nil)
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			if code == errorcode.None {
				code, message = p.ErrorCode, p.ErrorMessage
			}
		}
	}
	if code != errorcode.None {
		return fmt.Errorf("ElectLeaders of %s-%d: %s", topic, partition, failure(code, message))
	}
	return nil
}
