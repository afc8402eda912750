package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kshare/clock"
	"kshare/coordinator"
	"kshare/fault"
	"kshare/kip1289"
	"kshare/sharecoordinator"
	"kshare/txn"
)

// Limits bound what a Snapshot holds: so many of each at most, the first ones in their order. Partitions are those of all topics together, Runs those of all
// share partitions, Members those of all groups.
type Limits struct{ Topics, Partitions, SharePartitions, Runs, Groups, Members, Transactions, Timers int }

// Snapshot is everything that can be seen of a cluster at one moment.
type Snapshot struct {
	At              time.Time
	Nodes           []NodeState
	Topics          []TopicState // in the order of their names
	SharePartitions []GroupPartitionState
	Groups          []coordinator.GroupState
	Sessions        []ShareSessionState
	Transactions    []TransactionState // in the order of their ids
	Faults          []fault.Status
	Timers          []TimerState // the soonest first
	// KIP1289 are the values of the switches by name, nil where acknowledgements are not taken in transactions.
	KIP1289 map[string]string
	More    Limits // how many were left out
}

// GroupPartitionState is what a share group makes of a partition. They are in the order of group, topic and partition.
type GroupPartitionState struct {
	Group     string
	Topic     string
	Partition int32
	SharePartitionState
	MaxInFlight int64 // share.partition.max.record.locks
}

// ShareSessionState is a share session. They are in the order of node, group and member.
type ShareSessionState struct {
	Node          int32
	Group, Member string
	Epoch         int32 // that the next request must have
	Partitions    []txn.TopicPartition
}

// TransactionState is what is known of a transactional id. As with OpenTransaction, those without an ID are producers whose acknowledgements wait for a transaction that
// has ended without them.
type TransactionState struct {
	OpenTransaction
	TwoPhase bool
	Aborts   time.Time // when it is aborted unless it ends before, zero where it is not
}

// TimerState is what is due at a time.
type TimerState struct {
	At   time.Time
	Kind TimerKind
	// Group and Member wait for records, or Client where it is no member, for those of Partitions.
	Group, Member, Client string
	Partitions            []txn.TopicPartition
	What                  string // of TimerOther
}

// TimerKind is what a timer is for.
type TimerKind int

// Kinds of timers. Ends of locks, sessions and transactions are not among them: what they end says when.
const (
	TimerWait  TimerKind = iota // a fetch has waited long enough
	TimerOther                  // something that a broker does by itself
)

// InspectAll returns what can be seen of the cluster, all as it is at one moment.
func (c *Cluster) InspectAll(l Limits) *Snapshot {
	nodes := c.InspectNodes()
	faults := c.Faults()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &Snapshot{At: c.clock.Now(), Nodes: nodes, Faults: faults}
	c.snapshotTopics(s, l)
	c.snapshotSharePartitions(s, l)
	s.Groups, s.More.Groups, s.More.Members = c.groups.coordinator.InspectFirst(l.Groups, l.Members)
	c.snapshotSessions(s, l)
	c.snapshotTransactions(s, l)
	c.snapshotTimers(s, l)
	if c.apis.TxnShareAcknowledge() != nil {
		s.KIP1289 = map[string]string{}
		for i := range kip1289.List {
			s.KIP1289[kip1289.List[i].Name] = c.kip1289.Value(kip1289.List[i].Name)
		}
	}
	return s
}

func (c *Cluster) snapshotTopics(s *Snapshot, l Limits) {
	room := l.Partitions
	for _, t := range c.sortedTopics() {
		if len(s.Topics) == l.Topics {
			s.More.Topics++
			continue
		}
		n := min(room, len(t.partitions))
		room -= n
		s.More.Partitions += len(t.partitions) - n
		s.Topics = append(s.Topics, t.inspect(n))
	}
}

func (c *Cluster) snapshotSharePartitions(s *Snapshot, l Limits) {
	keys := map[sharecoordinator.Key]*partition{}
	for k := range c.share.coordinator.States() {
		if t := c.topicsByID[k.Topic]; t != nil && t.partition(k.Partition) != nil {
			keys[k] = t.partition(k.Partition)
		}
	}
	for _, t := range c.topics {
		for _, p := range t.partitions {
			for group := range p.shareGroups {
				keys[p.shareKey(group)] = p
			}
		}
	}
	runs := l.Runs
	for _, k := range slices.SortedFunc(maps.Keys(keys), func(a, b sharecoordinator.Key) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(keys[a].topic.name, keys[b].topic.name), cmp.Compare(a.Partition, b.Partition))
	}) {
		if len(s.SharePartitions) == l.SharePartitions {
			s.More.SharePartitions++
			continue
		}
		p := keys[k]
		x := GroupPartitionState{Group: k.Group, Topic: p.topic.name, Partition: p.index, SharePartitionState: *c.inspectShare(p, k.Group)}
		x.MaxInFlight = int64(c.shareLimits(k.Group).RecordLocks)
		n := min(runs, len(x.Runs))
		runs -= n
		s.More.Runs += len(x.Runs) - n
		x.Runs = x.Runs[:n]
		s.SharePartitions = append(s.SharePartitions, x)
	}
}

// snapshotSessions leaves out those beyond the limit of members: a member has one with a node.
func (c *Cluster) snapshotSessions(s *Snapshot, l Limits) {
	for _, n := range c.nodes {
		for _, one := range c.share.sessions[n.id].All() {
			if len(s.Sessions) == l.Members {
				return
			}
			x := ShareSessionState{Node: n.id, Group: one.Key.Group, Member: one.Key.Member, Epoch: one.Epoch}
			for _, p := range one.Partitions[:min(len(one.Partitions), l.Partitions)] {
				x.Partitions = append(x.Partitions, txn.TopicPartition{Topic: c.topicName(p.TopicID), Partition: p.Partition})
			}
			slices.SortFunc(x.Partitions, func(a, b txn.TopicPartition) int {
				return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
			})
			s.Sessions = append(s.Sessions, x)
		}
	}
}

func (c *Cluster) snapshotTransactions(s *Snapshot, l Limits) {
	staged := c.stagedRecords()
	add := func(t TransactionState) {
		if len(s.Transactions) == l.Transactions {
			s.More.Transactions++
			return
		}
		s.Transactions = append(s.Transactions, t)
	}
	for _, id := range c.transactions.coordinator.IDs() {
		t, _ := c.transactions.coordinator.Lookup(id)
		x := TransactionState{OpenTransaction: c.transactionState(id, &t), TwoPhase: t.TwoPhase(), Aborts: c.transactions.coordinator.AbortsAt(c.clock.Now(), id)}
		x.Staged = staged[t.ID]
		delete(staged, t.ID)
		add(x)
	}
	for _, producer := range slices.Sorted(maps.Keys(staged)) {
		add(TransactionState{OpenTransaction: OpenTransaction{ProducerID: producer, ProducerEpoch: txn.NoEpoch, Staged: staged[producer]}})
	}
}

func (c *Cluster) snapshotTimers(s *Snapshot, l Limits) {
	known := c.knownTimers()
	for t := range c.timers {
		x, ok := known[t]
		if !ok {
			x = &TimerState{Kind: TimerOther, What: "a broker tries again, or goes on"}
		}
		if x != nil {
			x.At = t.at
			s.Timers = append(s.Timers, *x)
		}
	}
	for _, t := range c.groups.coordinator.InspectTimers() {
		s.Timers = append(s.Timers, TimerState{At: t.At, Kind: TimerOther, Group: t.Group, What: t.What})
	}
	slices.SortFunc(s.Timers, func(a, b TimerState) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Member, b.Member), cmp.Compare(a.Client, b.Client), cmp.Compare(a.What, b.What))
	})
	if n := len(s.Timers) - l.Timers; n > 0 {
		s.Timers, s.More.Timers = s.Timers[:l.Timers], n
	}
}

// knownTimers are those of which more is known, nil for those that are for what is seen elsewhere.
func (c *Cluster) knownTimers() map[*lockedTimer]*TimerState {
	known := map[*lockedTimer]*TimerState{}
	note := func(t clock.Timer, what *TimerState) {
		if t, ok := t.(*lockedTimer); ok {
			known[t] = what
		}
	}
	other := func(t clock.Timer, what string) { note(t, &TimerState{Kind: TimerOther, What: what}) }
	other(c.cleanup.retention.timer, "retention looks at the logs")
	other(c.cleanup.cleaner.timer, "the log cleaner looks at the logs")
	other(c.share.pruning, "redundant share state is removed")
	note(c.groups.deadline.timer, nil)
	note(c.transactions.deadline.timer, nil)
	for _, n := range c.nodes {
		if n.fencing != nil {
			other(n.fencing, fmt.Sprintf("node %d is fenced", n.id))
		}
	}
	wait := func(t clock.Timer, p *partition, w TimerState) {
		l, ok := t.(*lockedTimer)
		if !ok {
			return
		}
		if known[l] == nil {
			known[l] = &w
		}
		known[l].Partitions = append(known[l].Partitions, txn.TopicPartition{Topic: p.topic.name, Partition: p.index})
	}
	for _, t := range c.sortedTopics() {
		for _, p := range t.partitions {
			if p.loading != nil {
				other(p.loading, fmt.Sprintf("the coordinator of %s has loaded", p))
			}
			for _, w := range p.fetchWaiters.list {
				wait(w.timer, p, TimerState{Kind: TimerWait, Client: w.fetch.request.header.ClientID})
			}
			for _, sp := range p.shareGroups {
				note(sp.timer, nil)
				for _, w := range sp.waiters.list {
					wait(w.timer, p, TimerState{Kind: TimerWait, Group: w.fetch.caller.group, Member: w.fetch.caller.member})
				}
			}
		}
	}
	return known
}

// InspectRecords returns copies of batches of a partition's log: from that of an offset on, whole ones, as many as have maxBytes together but at least one, up to
// the high watermark. It fails for a partition that does not exist or whose log cannot be read.
func (c *Cluster) InspectRecords(topic string, partition int32, offset int64, maxBytes int) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[topic]
	if t == nil || t.partition(partition) == nil {
		return nil, fmt.Errorf("there is no partition %s-%d", topic, partition)
	}
	p := t.partition(partition)
	offset = max(offset, p.log.StartOffset())
	if offset >= p.highWatermark() {
		return nil, nil
	}
	read, err := p.log.Read(offset, p.highWatermark(), maxBytes, true)
	if err != nil {
		return nil, fmt.Errorf("partition %s: %w", p, err)
	}
	return slices.Concat(read...), nil
}
