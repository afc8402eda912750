package broker

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kshare/coordinator"
	"kshare/protocol/describe"
	"kshare/storage"
)

// Internal topics (org.apache.kafka.common.internals.Topic).
const (
	consumerOffsetsTopic  = "__consumer_offsets"
	transactionStateTopic = "__transaction_state"
	shareStateTopic       = "__share_group_state"
	clusterMetadataTopic  = "__cluster_metadata"
)

func isInternal(topic string) bool {
	return topic == consumerOffsetsTopic || topic == transactionStateTopic || topic == shareStateTopic
}

// topic is a topic and its partitions.
type topic struct {
	name       string
	id         [16]byte
	partitions []*partition
	config     topicConfig
	deleted    bool // it is being deleted
}

// partition returns the partition with the index, nil where the topic has none such.
func (t *topic) partition(index int32) *partition {
	if index < 0 || int(index) >= len(t.partitions) {
		return nil
	}
	return t.partitions[index]
}

// described is the topic as the group coordinator sees it.
func (t *topic) described() coordinator.Topic {
	return coordinator.Topic{Name: t.name, ID: t.id, Partitions: int32(len(t.partitions))}
}

// invalidTopicName says what is wrong with a topic's name, "" where nothing is
// (org.apache.kafka.common.internals.Topic.validate).
func invalidTopicName(name string) string {
	const maxLength = 249
	switch {
	case name == "":
		return "the empty string is not allowed"
	case name == "." || name == "..":
		return fmt.Sprintf("'%s' is not allowed", name)
	case len(name) > maxLength:
		return fmt.Sprintf("the length of '%s' is longer than the max allowed length %d", name, maxLength)
	case strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}):
		return fmt.Sprintf("'%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
	}
	return ""
}

// collidingTopic returns the topic whose name equals this one's once periods and underscores are the same, "" where there is none.
func (c *Cluster) collidingTopic(name string) string {
	if !strings.ContainsAny(name, "._") {
		return "" // only names with such characters can become the same
	}
	unified := strings.ReplaceAll(name, ".", "_")
	for _, other := range slices.Sorted(maps.Keys(c.topics)) {
		if other != name && strings.ReplaceAll(other, ".", "_") == unified {
			return other
		}
	}
	return ""
}

// sortedTopics returns all topics in the order of their names.
func (c *Cluster) sortedTopics() []*topic {
	all := make([]*topic, 0, len(c.topics))
	for _, name := range slices.Sorted(maps.Keys(c.topics)) {
		all = append(all, c.topics[name])
	}
	return all
}

// storedTopic is a topic as the store keeps it.
type storedTopic struct {
	Name       string
	ID         string
	Partitions []storedPartition
	Deleted    bool `json:",omitempty"` // its deletion has begun and is finished at the next start
}

type storedPartition struct {
	Replicas    []int32
	Leader      int32
	LeaderEpoch int32
	Epochs      []epochStart
	Cleaned     int64 `json:",omitempty"` // as in partitionCleanup
}

const topicsKeyPrefix = "topic/"

func topicKey(id [16]byte) string { return topicsKeyPrefix + describe.UUIDText(id) }

// storeTopic writes a topic's metadata.
func (c *Cluster) storeTopic(t *topic) error {
	s := storedTopic{Name: t.name, ID: describe.UUIDText(t.id), Deleted: t.deleted}
	for _, p := range t.partitions {
		s.Partitions = append(s.Partitions, storedPartition{Replicas: p.replicas, Leader: p.leader, LeaderEpoch: p.leaderEpoch, Epochs: p.epochs,
			Cleaned: p.cleanup.cleaned})
	}
	return c.storeJSON(topicKey(t.id), s)
}

// addTopic makes a topic with the given replicas of each partition, the first of which leads it. The caller has
// checked that it may exist.
func (c *Cluster) addTopic(name string, id [16]byte, assignment [][]int32) (*topic, error) {
	t := &topic{name: name, id: id}
	for _, replicas := range assignment {
		if err := c.addPartition(t, replicas); err != nil {
			return nil, err
		}
	}
	if err := c.storeTopic(t); err != nil {
		return nil, err
	}
	c.topics[name] = t
	c.topicsByID[id] = t
	c.topicConfigChanged(t)
	c.groupsTopicsChanged(name)
	return t, nil
}

// addPartition appends a partition to a topic that is stored by the caller afterwards.
func (c *Cluster) addPartition(t *topic, replicas []int32) error {
	p := &partition{cluster: c, topic: t, index: int32(len(t.partitions)), replicas: replicas, isr: c.live(replicas), leader: noLeader}
	if len(p.isr) > 0 {
		p.leader = p.isr[0]
	}
	p.epochs = leaderEpochs{{Epoch: 0, Start: 0}}
	if err := p.open(); err != nil {
		return err
	}
	t.partitions = append(t.partitions, p)
	return nil
}

// place chooses the replicas of new partitions: leaders go round the live nodes, followers are the nodes after the leader, last those that
// are not live.
func (c *Cluster) place(partitions, replicationFactor int) [][]int32 {
	var live, others []int32
	for _, n := range c.nodes {
		if n.live() {
			live = append(live, n.id)
		} else {
			others = append(others, n.id)
		}
	}
	assignment := make([][]int32, partitions)
	for i := range assignment {
		for r := range min(replicationFactor, len(live)) {
			assignment[i] = append(assignment[i], live[(c.placement+r)%len(live)])
		}
		assignment[i] = append(assignment[i], others[:max(0, replicationFactor-len(live))]...)
		c.placement++
	}
	return assignment
}

// deleteTopic removes a topic with its records and everything that is kept for it. The topic is marked before anything of it goes, and the
// mark goes last: what a kill interrupts, the next start finishes.
func (c *Cluster) deleteTopic(t *topic) error {
	if err := c.markDeleted(t); err != nil {
		return fmt.Errorf("deleting topic %s: %w", t.name, err)
	}
	delete(c.topics, t.name)
	delete(c.topicsByID, t.id)
	for _, p := range t.partitions {
		p.deleted()
		if err := c.store.DeleteLog(p.storageID()); err != nil {
			c.log.Error("the records of a deleted topic could not be removed", "topic", t.name, "partition", p.index, "error", err)
		}
	}
	if err := c.removeTopicConfig(t); err != nil {
		return err
	}
	c.shareTopicDeleted(t)
	c.groupsTopicDeleted(t)
	return c.store.PutMetadata(topicKey(t.id), nil)
}

// markDeleted makes it certain that a topic will be gone.
func (c *Cluster) markDeleted(t *topic) error {
	t.deleted = true
	err := c.storeTopic(t)
	if err == nil {
		if commit := c.store.Commit(); commit != nil {
			err = commit.Wait()
		}
	}
	if err != nil {
		t.deleted = false
	}
	return err
}

// finishDeletions deletes the topics whose deletion was interrupted.
func (c *Cluster) finishDeletions() error {
	for _, t := range c.sortedTopics() {
		if t.deleted {
			if err := c.deleteTopic(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadTopics opens every topic that the store holds.
func (c *Cluster) loadTopics() error {
	var stored []storedTopic
	if err := eachStored(c, topicsKeyPrefix, func(s storedTopic) error {
		stored = append(stored, s)
		return nil
	}); err != nil {
		return err
	}
	for i := range stored {
		if err := c.loadTopic(&stored[i]); err != nil {
			return err
		}
	}
	return nil
}

// loadTopic opens a topic.
func (c *Cluster) loadTopic(s *storedTopic) error {
	raw, err := base64.RawURLEncoding.DecodeString(s.ID)
	if err != nil || len(raw) != 16 {
		return fmt.Errorf("stored topic %q has the id %q, which is no topic id", s.Name, s.ID)
	}
	t := &topic{name: s.Name, id: [16]byte(raw), deleted: s.Deleted}
	for i, sp := range s.Partitions {
		p := &partition{cluster: c, topic: t, index: int32(i), replicas: sp.Replicas, leader: sp.Leader, leaderEpoch: sp.LeaderEpoch, epochs: sp.Epochs}
		p.cleanup.cleaned = sp.Cleaned
		if err := c.reelect(p); err != nil {
			return err
		}
		if err := p.open(); err != nil {
			return err
		}
		if err := p.replay(); err != nil {
			return err
		}
		p.epochs.begin(p.leaderEpoch, p.log.EndOffset())
		p.epochs.truncateFromStart(p.log.StartOffset())
		t.partitions = append(t.partitions, p)
	}
	c.topics[t.name] = t
	c.topicsByID[t.id] = t
	c.topicConfigChanged(t)
	return c.storeTopic(t)
}

// reportStrayLogs says which records the store holds for topics that it does not know: their metadata was lost or comes from an older copy.
func (c *Cluster) reportStrayLogs() {
	stray := slices.DeleteFunc(c.store.Logs(), func(id storage.PartitionID) bool {
		t := c.topicsByID[id.Topic]
		return t != nil && t.partition(id.Partition) != nil
	})
	if len(stray) > 0 {
		c.log.Error("the store holds records of topics that it does not know; what was stored of those topics is lost or was replaced by an older copy",
			"logs", len(stray), "topic id", describe.UUIDText(stray[0].Topic), "partition", stray[0].Partition)
	}
}

// restartEpochs is by how much a single node's restart raises the leader epochs of its partitions: it gives up leadership
// as it stops and takes it again as it starts.
const restartEpochs = 2

// reelect gives a partition a leader after a restart, which may have brought fewer nodes than there were before.
func (c *Cluster) reelect(p *partition) error {
	p.leaderEpoch += restartEpochs
	p.replicas = slices.DeleteFunc(p.replicas, func(id int32) bool { return c.node(id) == nil })
	if len(p.replicas) == 0 {
		return fmt.Errorf("topic %s partition %d lived on nodes that this cluster no longer has: start it with as many --brokers as before", p.topic.name, p.index)
	}
	if c.node(p.leader) == nil {
		p.leader = p.replicas[0]
	}
	p.isr = c.live(p.replicas)
	return nil
}

// createAtStart makes a topic that the cluster was started with.
func (c *Cluster) createAtStart(s TopicSpec) error {
	if reason := invalidTopicName(s.Name); reason != "" {
		return fmt.Errorf("topic name is invalid: %s", reason)
	}
	if other := c.collidingTopic(s.Name); other != "" {
		return fmt.Errorf("topic %q collides with the topic %q: periods and underscores count as the same", s.Name, other)
	}
	partitions := s.Partitions
	if partitions == -1 {
		partitions = c.brokerInt("num.partitions")
	}
	if partitions < 1 || partitions > maxPartitionsPerRequest {
		return fmt.Errorf("topic %q cannot have %d partitions, only 1 to %d", s.Name, partitions, maxPartitionsPerRequest)
	}
	id := s.ID
	if id == [16]byte{} {
		id = c.topicID(s.Name)
	}
	t, err := c.addTopic(s.Name, id, c.place(int(partitions), c.defaultReplicationFactor()))
	if err != nil || len(s.LeaderEpochs) == 0 {
		return err
	}
	for i, epoch := range s.LeaderEpochs[:min(len(s.LeaderEpochs), len(t.partitions))] {
		p := t.partitions[i]
		p.leaderEpoch, p.epochs = epoch, leaderEpochs{{Epoch: epoch, Start: 0}}
	}
	return c.storeTopic(t)
}

// defaultReplicationFactor is default.replication.factor, as far as there are nodes for it.
func (c *Cluster) defaultReplicationFactor() int {
	return min(int(c.brokerInt("default.replication.factor")), len(c.nodes))
}

// internalTopic returns an internal topic, making it at its first use with as many replicas as its configuration asks
// for and there are nodes.
func (c *Cluster) internalTopic(name string) (*topic, error) {
	if t := c.topics[name]; t != nil {
		return t, nil
	}
	spec := internalTopics[name]
	wanted := int(c.brokerInt(spec.replicationFactor))
	replicas := min(wanted, len(c.nodes))
	assignment := c.place(int(c.brokerInt(spec.partitions)), replicas)
	configs := spec.configs(c)
	if spec.minISR != "" { // as many nodes may be down as where there are enough of them
		configs["min.insync.replicas"] = strconv.Itoa(max(1, int(c.brokerInt(spec.minISR))-(wanted-replicas)))
	}
	if err := c.setTopicConfigs(name, configs); err != nil {
		return nil, err
	}
	t, err := c.addTopic(name, c.topicID(name), assignment)
	if err != nil {
		return nil, fmt.Errorf("creating the internal topic %s: %w", name, err)
	}
	return t, nil
}

// internalTopicSpec names the broker keys that an internal topic is made by, and its topic configuration.
type internalTopicSpec struct {
	partitions, replicationFactor, minISR string
	configs                               func(*Cluster) map[string]string
}

var internalTopics = map[string]internalTopicSpec{
	// GroupCoordinatorService.groupMetadataTopicConfigs
	consumerOffsetsTopic: {"offsets.topic.num.partitions", "offsets.topic.replication.factor", "", func(c *Cluster) map[string]string {
		return map[string]string{"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": c.brokerText("offsets.topic.segment.bytes")}
	}},
	// TransactionStateManager.transactionTopicConfigs
	transactionStateTopic: {"transaction.state.log.num.partitions", "transaction.state.log.replication.factor", "transaction.state.log.min.isr", func(c *Cluster) map[string]string {
		return map[string]string{"cleanup.policy": "compact", "compression.type": "uncompressed", "unclean.leader.election.enable": "false",
			"segment.bytes": c.brokerText("transaction.state.log.segment.bytes")}
	}},
	// ShareCoordinatorService.shareGroupStateTopicConfigs
	shareStateTopic: {"share.coordinator.state.topic.num.partitions", "share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.min.isr", func(c *Cluster) map[string]string {
		return map[string]string{"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1",
			"segment.bytes": c.brokerText("share.coordinator.state.topic.segment.bytes")}
	}},
}
