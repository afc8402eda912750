package broker

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
)

// CreateTopics (19), v2 to v7.
//
// Behaviour (ReplicationControlManager.createTopics):
//   - A topic named twice is refused, once and behind the others. Every other topic stands by itself.
//   - TimeoutMs <= 0 creates nothing: REQUEST_TIMED_OUT.
//   - More than 10000 partitions in one request: POLICY_VIOLATION.
//   - v5+ answers with the topic's size and all its effective configs.
//   - ValidateOnly checks everything, answers with a topic id that is not used, and creates nothing.

const createTopicsKey = 19

func init() {
	handlers[createTopicsKey] = needing(writing(locked((*Cluster).createTopics)),
		looksItself(acl.Create, acl.Cluster, "or CREATE TOPIC, each topic").with(errorcode.TopicAuthorizationFailed),
		looksItself(acl.DescribeConfigs, acl.Topic, "for the topic's size and configurations, which the answer leaves out without; the code is that of the configurations"),
	)
}

const maxPartitionsPerRequest = 10_000

// refusal is an error code with the words that explain it, as answers carry them.
type refusal struct {
	code    int16
	message string
}

// text is the message as an answer carries it, null where there is none.
func (r *refusal) text() *string {
	if r.message == "" {
		return nil
	}
	return &r.message
}

func refused(code int16, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

func (c *Cluster) createTopics(r *request, q *kmsg.CreateTopicsRequest) kmsg.Response {
	p := response[*kmsg.CreateTopicsResponse](q)
	count := map[string]int{}
	total := 0
	for i := range q.Topics {
		count[q.Topics[i].Topic]++
		total += c.partitionsAsked(&q.Topics[i])
	}
	collisions := c.collisions(q)
	var twice []string
	for i := range q.Topics {
		t := &q.Topics[i]
		if count[t.Topic] > 1 {
			if !slices.Contains(twice, t.Topic) {
				twice = append(twice, t.Topic)
			}
			continue
		}
		entry := newCreatedTopic(t.Topic)
		var no *refusal
		switch {
		case !r.mayOnCluster(acl.Create) && !r.may(acl.Create, acl.Topic, t.Topic):
			no = refused(errorcode.TopicAuthorizationFailed, "Authorization failed.")
		case t.Topic == clusterMetadataTopic:
			no = refused(errorcode.InvalidRequest, "Creation of internal topic %s is prohibited.", t.Topic)
		case q.TimeoutMillis <= 0:
			no = &refusal{code: errorcode.RequestTimedOut}
		case total > maxPartitionsPerRequest:
			no = refused(errorcode.PolicyViolation, "Excessively large number of partitions per request.")
		default:
			no = c.createTopic(t, collisions[t.Topic], q.ValidateOnly, &entry)
		}
		if no != nil {
			entry.ErrorCode, entry.ErrorMessage = no.code, no.text()
		} else if !r.may(acl.DescribeConfigs, acl.Topic, t.Topic) {
			entry.ConfigErrorCode, entry.NumPartitions, entry.ReplicationFactor = errorcode.TopicAuthorizationFailed, -1, -1
			entry.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		}
		p.Topics = append(p.Topics, entry)
	}
	for _, name := range twice {
		entry := newCreatedTopic(name)
		entry.ErrorCode, entry.ErrorMessage = errorcode.InvalidRequest, kmsg.StringPtr("Duplicate topic name.")
		p.Topics = append(p.Topics, entry)
	}
	return p
}

// newCreatedTopic is the entry of a topic in the answer. Its configs are never null: Java's Admin could not read them.
func newCreatedTopic(name string) kmsg.CreateTopicsResponseTopic {
	entry := kmsg.NewCreateTopicsResponseTopic()
	entry.Topic, entry.Configs = name, []kmsg.CreateTopicsResponseTopicConfig{}
	return entry
}

// collisions are the existing topics that the topics of a request collide with, by their names. Topics of one request do not see each other.
func (c *Cluster) collisions(q *kmsg.CreateTopicsRequest) map[string]string {
	found := map[string]string{}
	for i := range q.Topics {
		if other := c.collidingTopic(q.Topics[i].Topic); other != "" {
			found[q.Topics[i].Topic] = other
		}
	}
	return found
}

// partitionsAsked is the number of partitions that a request wants for a topic.
func (c *Cluster) partitionsAsked(t *kmsg.CreateTopicsRequestTopic) int {
	switch {
	case len(t.ReplicaAssignment) > 0:
		return len(t.ReplicaAssignment)
	case t.NumPartitions == -1:
		return int(c.brokerInt("num.partitions"))
	}
	return max(0, int(t.NumPartitions))
}

// createTopic creates a topic, or checks that it could be, and fills its entry of the answer in.
func (c *Cluster) createTopic(t *kmsg.CreateTopicsRequestTopic, collision string, validateOnly bool, entry *kmsg.CreateTopicsResponseTopic) *refusal {
	if reason := invalidTopicName(t.Topic); reason != "" {
		return refused(errorcode.InvalidTopicException, "Topic name is invalid: %s", reason)
	}
	if c.topics[t.Topic] != nil {
		return refused(errorcode.TopicAlreadyExists, "Topic '%s' already exists.", t.Topic)
	}
	if collision != "" {
		return refused(errorcode.InvalidTopicException, "Topic '%s' collides with existing topic: %s", t.Topic, collision)
	}
	configs, err := c.config.NewTopic(c.nodes[0].id, t.Configs)
	if err != nil {
		return refused(errorcode.InvalidConfig, "%v", err)
	}
	assignment, no := c.assignmentFor(t)
	if no != nil {
		return no
	}
	id := c.topicID(t.Topic)
	if !validateOnly {
		if err := c.setTopicConfigs(t.Topic, configs); err != nil {
			return c.storageRefusal(err)
		}
		if _, err := c.addTopic(t.Topic, id, assignment); err != nil {
			return c.storageRefusal(err)
		}
	}
	entry.TopicID = id
	entry.NumPartitions, entry.ReplicationFactor = int32(len(assignment)), int16(len(assignment[0]))
	entry.Configs = c.config.CreatedConfigs(c.nodes[0].id, configs)
	return nil
}

// storageRefusal is the answer where the store fails.
func (c *Cluster) storageRefusal(err error) *refusal {
	c.log.Error("the store failed", "error", err)
	return refused(errorcode.KafkaStorageError, "%v", err)
}

// assignmentFor is where the partitions of a new topic go: the replicas of each, in order.
func (c *Cluster) assignmentFor(t *kmsg.CreateTopicsRequestTopic) ([][]int32, *refusal) {
	if len(t.ReplicaAssignment) > 0 {
		return c.manualAssignment(t)
	}
	switch {
	case t.ReplicationFactor < -1 || t.ReplicationFactor == 0:
		return nil, refused(errorcode.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case t.NumPartitions < -1 || t.NumPartitions == 0:
		return nil, refused(errorcode.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	replicationFactor := int(t.ReplicationFactor)
	if replicationFactor == -1 {
		replicationFactor = int(c.brokerInt("default.replication.factor"))
	}
	if replicationFactor > len(c.nodes) {
		return nil, refused(errorcode.InvalidReplicationFactor,
			"Unable to replicate the partition %d time(s): The target replication factor of %d cannot be reached because only %d broker(s) are registered or some brokers have all their log directories cordoned.",
			replicationFactor, replicationFactor, len(c.nodes))
	}
	return c.place(c.partitionsAsked(t), replicationFactor), nil
}

// manualAssignment is the assignment that a request spells out.
func (c *Cluster) manualAssignment(t *kmsg.CreateTopicsRequestTopic) ([][]int32, *refusal) {
	if t.ReplicationFactor != -1 {
		return nil, refused(errorcode.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if t.NumPartitions != -1 {
		return nil, refused(errorcode.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	byPartition := map[int32][]int32{}
	for _, a := range t.ReplicaAssignment {
		if _, ok := byPartition[a.Partition]; ok {
			return nil, refused(errorcode.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		if no := c.checkReplicas(a.Partition, a.Replicas, len(t.ReplicaAssignment[0].Replicas)); no != nil {
			return nil, no
		}
		byPartition[a.Partition] = a.Replicas
	}
	assignment := make([][]int32, len(byPartition))
	for i := range assignment {
		replicas, ok := byPartition[int32(i)]
		if !ok {
			return nil, refused(errorcode.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		assignment[i] = replicas
	}
	return assignment, nil
}

// checkReplicas checks the replicas of one partition of a manual assignment (ReplicationControlManager.validateManualPartitionAssignment).
func (c *Cluster) checkReplicas(partition int32, replicas []int32, replicationFactor int) *refusal {
	if len(replicas) == 0 {
		return refused(errorcode.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		if c.node(id) == nil {
			return refused(errorcode.InvalidReplicaAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", id)
		}
		if i > 0 && sorted[i-1] == id {
			return refused(errorcode.InvalidReplicaAssignment, "The manual partition assignment includes the broker %d more than once.", id)
		}
	}
	if len(replicas) != replicationFactor {
		return refused(errorcode.InvalidReplicaAssignment,
			"The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).",
			len(replicas), replicationFactor)
	}
	if len(c.live(replicas)) == 0 {
		return refused(errorcode.InvalidReplicaAssignment, "All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", partition)
	}
	return nil
}
