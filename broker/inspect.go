package broker

import (
	"fmt"
	"slices"

	"kshare/coordinator"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
)

// NodeState is a node of the cluster.
type NodeState struct {
	ID     int32
	Host   string // as clients of the first listener are told, like Port
	Port   int32
	Runs   bool // it was not stopped
	CutOff bool
	Fenced bool // the others have given it up
}

// InspectNodes returns all nodes in the order of their ids.
func (c *Cluster) InspectNodes() []NodeState {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]NodeState, len(c.nodes))
	for i, n := range c.nodes {
		all[i] = NodeState{ID: n.id, Host: n.endpoints[0].host, Port: n.endpoints[0].port, Runs: n.runs(), CutOff: n.gate.isShut(), Fenced: n.fenced}
	}
	return all
}

// TopicState is a topic and how far its partitions are, for people and tests to look at.
type TopicState struct {
	Name     string
	ID       [16]byte
	Internal bool
	// DeadLetters tells that share groups may write what they give up there.
	DeadLetters bool
	Partitions  []PartitionState // by their numbers
}

// PartitionState is a partition of a topic.
type PartitionState struct {
	Leader           int32 // -1 for none
	LeaderEpoch      int32
	Replicas         []int32
	StartOffset      int64 // of the first record
	EndOffset        int64 // of the next record
	HighWatermark    int64
	LastStableOffset int64 // below it every transaction has ended
}

// InspectTopics returns all topics in the order of their names, internal ones included.
func (c *Cluster) InspectTopics() []TopicState {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]TopicState, 0, len(c.topics))
	for _, t := range c.sortedTopics() {
		all = append(all, t.inspect(len(t.partitions)))
	}
	return all
}

// inspect returns the topic with so many partitions.
func (t *topic) inspect(partitions int) TopicState {
	s := TopicState{Name: t.name, ID: t.id, Internal: isInternal(t.name), DeadLetters: t.config.deadLetters}
	for _, p := range t.partitions[:partitions] {
		s.Partitions = append(s.Partitions, PartitionState{
			Leader: p.leader, LeaderEpoch: p.leaderEpoch, Replicas: slices.Clone(p.replicas), StartOffset: p.log.StartOffset(), EndOffset: p.log.EndOffset(),
			HighWatermark: p.highWatermark(), LastStableOffset: p.lastStableOffset(),
		})
	}
	return s
}

// InspectGroups returns all groups in the order of their ids.
func (c *Cluster) InspectGroups() []coordinator.GroupState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.groups.coordinator.Inspect()
}

// SharePartitionState is a share partition as its leader knows it, for people and tests to look at.
type SharePartitionState struct {
	// Known tells whether the leader has read the state; the fields up to Waiting are zero where it has not.
	Known       bool
	StartOffset int64
	EndOffset   int64                // the next offset that was never handed out
	InFlight    int64                // offsets from StartOffset to EndOffset that count against the limit of record locks
	Runs        []sharepartition.Run // in offset order
	Waiting     int                  // requests that wait for records
	// Persisted is what the share coordinator keeps, nil where it keeps nothing.
	Persisted *sharecoordinator.State
}

// InspectSharePartition returns the state of a group's share partition. It fails for a topic or partition that does not exist.
func (c *Cluster) InspectSharePartition(group, topicName string, partition int32) (*SharePartitionState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[topicName]
	if t == nil || t.partition(partition) == nil {
		return nil, fmt.Errorf("there is no partition %s-%d", topicName, partition)
	}
	return c.inspectShare(t.partition(partition), group), nil
}

// inspectShare is what a group makes of a partition.
func (c *Cluster) inspectShare(p *partition, group string) *SharePartitionState {
	s := &SharePartitionState{}
	if sp := p.shareGroups[group]; sp != nil {
		s.Known = true
		s.StartOffset, s.EndOffset, s.InFlight = sp.state.StartOffset(), sp.state.EndOffset(), sp.state.InFlight()
		s.Runs = describeFromStart(sp.state, nil, c.clock.Now())
		s.Waiting = len(sp.waiters.list)
	}
	if persisted, ok := c.share.coordinator.State(p.shareKey(group)); ok {
		s.Persisted = &persisted
	}
	return s
}
