// Package sharecoordinator is the share coordinator: what share partitions persist of themselves, kept in
// __share_group_state (KIP-932, org.apache.kafka.coordinator.share.ShareCoordinatorShard).
//
// It is pure. A call returns the record that would make it so; the caller appends the record to the partition
// that PartitionFor names, and then passes it to Apply. State changes by Apply alone, so that what is in memory
// is what a replay of the log gives.
package sharecoordinator

import (
	"encoding/base64"
	"iter"
	"slices"
	"strconv"

	"kshare/coordinator"
	"kshare/protocol/errorcode"
	"kshare/release"
)

// Key names a share partition.
type Key struct {
	Group     string
	Topic     [16]byte
	Partition int32
}

// String is the key as Kafka writes it: group:topic id:partition.
func (k Key) String() string {
	return k.Group + ":" + base64.RawURLEncoding.EncodeToString(k.Topic[:]) + ":" + strconv.Itoa(int(k.Partition))
}

// PartitionFor is the partition of __share_group_state that keeps a share partition's state.
func PartitionFor(k Key, partitions int32) int32 {
	return coordinator.PartitionFor(k.String(), partitions)
}

// Batch is a run of records in one state, offsets inclusive. The coordinator takes any state.
type Batch struct {
	FirstOffset   int64
	LastOffset    int64
	State         int8
	DeliveryCount int16
	Staged        Staged // where State is 5, TX_PENDING
}

// State is what is persisted of a share partition.
// Invariant: Batches ascend, are disjoint, lie at or above StartOffset, and no two neighbours could be one.
type State struct {
	StateEpoch            int32
	LeaderEpoch           int32
	StartOffset           int64 // -1 until the first delivery is acknowledged
	DeliveryCompleteCount int32 // -1 where it is not known
	Batches               []Batch
}

// Refusal is why a call is refused.
type Refusal struct {
	ErrorCode int16
	Message   string
}

// Messages of a running 4.4.0.
var (
	refuseNegativePartition   = &Refusal{errorcode.InvalidRequest, "The partition id cannot be a negative number."}
	refuseNegativeLeaderEpoch = &Refusal{errorcode.InvalidRequest, "The leader epoch cannot be a negative number."}
	refuseNegativeStateEpoch  = &Refusal{errorcode.InvalidRequest, "The state epoch cannot be a negative number."}
	refuseUninitializedRead   = &Refusal{errorcode.InvalidRequest, "Read operation on uninitialized share partition not allowed."}
	refuseUninitializedWrite  = &Refusal{errorcode.InvalidRequest, "Write operation on uninitialized share partition not allowed."}
	refuseFencedLeaderEpoch   = &Refusal{errorcode.FencedLeaderEpoch, "The leader epoch in the request is older than the epoch on the broker."}
	refuseUnknownPartition    = &Refusal{errorcode.UnknownTopicOrPartition, "This server does not host this topic-partition."}
)

// Config is what a coordinator is made with.
type Config struct {
	// UpdatesPerSnapshot is how many updates follow a snapshot before the next one is written
	// (share.coordinator.snapshot.update.records.per.snapshot), at least 0.
	UpdatesPerSnapshot int
	// Exists tells whether a topic has a partition.
	Exists func(topic [16]byte, partition int32) bool
	// Release is what the line of Apache Kafka does in its own way, nil for the latest.
	Release *release.Traits
	// Draft is what the draft of KIP-1289 does in transactions in its own way.
	Draft Draft
}

// Coordinator holds the state of all share partitions.
type Coordinator struct {
	config Config
	states map[Key]*state
	writes int64
	transactions
}

// state is a share partition's state with what is needed to go on writing it.
type state struct {
	State
	snapshotEpoch int32
	updates       int // since the last snapshot
	// offset is where the last snapshot stands, the timestamps are its own.
	offset                          int64
	createTimestamp, writeTimestamp int64
	// fence is the highest leader epoch that Read has named: lower ones are fenced. It outlives an Initialize.
	fence int32
}

// New makes a coordinator without state.
func New(config Config) *Coordinator {
	if config.Release == nil {
		config.Release = release.Latest.Traits()
	}
	return &Coordinator{config: config, states: map[Key]*state{}, transactions: newTransactions()}
}

// Initialize begins a share partition's state anew. A start offset of -1 leaves it to the leader to find one.
func (c *Coordinator) Initialize(nowMs int64, k Key, stateEpoch int32, startOffset int64) (Record, *Refusal) {
	old := c.states[k]
	switch {
	case k.Partition < 0:
		return Record{}, refuseNegativePartition
	case stateEpoch < 0:
		return Record{}, refuseNegativeStateEpoch
	case old != nil && stateEpoch < old.StateEpoch:
		return Record{}, c.fencedStateEpoch()
	case !c.config.Exists(k.Topic, k.Partition):
		return Record{}, refuseUnknownPartition
	}
	s := Snapshot{
		State:           State{StateEpoch: stateEpoch, StartOffset: startOffset, DeliveryCompleteCount: -1},
		CreateTimestamp: nowMs,
		WriteTimestamp:  nowMs,
	}
	if startOffset != -1 && c.config.Release.CountsAlteredOffsets {
		s.DeliveryCompleteCount = 0
	}
	if old != nil {
		s.SnapshotEpoch = old.snapshotEpoch + 1
	}
	return Record{Key: k, Snapshot: &s}, nil
}

// Read returns a share partition's state to the leader of a leader epoch. A higher epoch than any before fences the lower ones and is
// stored: the record must be applied before the state is used. The returned batches are shared; they are not to be changed.
func (c *Coordinator) Read(nowMs int64, k Key, leaderEpoch int32) (State, Record, *Refusal) {
	s := c.states[k]
	switch {
	case k.Partition < 0:
		return State{}, Record{}, refuseNegativePartition
	case c.forbids(leaderEpoch):
		return State{}, Record{}, refuseNegativeLeaderEpoch
	case s == nil:
		return State{}, Record{}, refuseUninitializedRead
	case leaderEpoch < s.fence:
		return State{}, Record{}, refuseFencedLeaderEpoch
	case !c.config.Exists(k.Topic, k.Partition):
		return State{}, Record{}, refuseUnknownPartition
	}
	if leaderEpoch <= s.fence {
		return s.State, Record{}, nil
	}
	c.writes++
	next := s.State
	next.LeaderEpoch = leaderEpoch
	return next, s.record(nowMs, k, next, nil, c.config.UpdatesPerSnapshot, c.rule()), nil
}

// forbids tells whether an epoch of a request is refused whatever there is.
func (c *Coordinator) forbids(epoch int32) bool {
	return epoch < 0 && !c.config.Release.EpochsMayBeLeftOut
}

// fencedStateEpoch is the refusal of a state epoch that is too old.
func (c *Coordinator) fencedStateEpoch() *Refusal {
	return &Refusal{errorcode.FencedStateEpoch, c.config.Release.FencedStateEpoch}
}

// checks tells whether an epoch of a write is held against what there is.
func (c *Coordinator) checks(epoch int32) bool {
	return epoch != -1 || !c.config.Release.EpochsMayBeLeftOut
}

// Update is what a leader writes: a start offset and the batches that have changed.
type Update struct {
	StateEpoch            int32
	LeaderEpoch           int32
	StartOffset           int64
	DeliveryCompleteCount int32 // -1 where the leader does not know it
	Batches               []Batch
	Guard                 *Guard // of the transaction that Batches are staged for, nil where none is TX_PENDING
}

// Write merges what a leader writes into a share partition's state. The start offset never goes back in later lines.
func (c *Coordinator) Write(nowMs int64, k Key, u *Update) (Record, *Refusal) {
	c.writes++
	s := c.states[k]
	switch {
	case k.Partition < 0:
		return Record{}, refuseNegativePartition
	case c.forbids(u.LeaderEpoch):
		return Record{}, refuseNegativeLeaderEpoch
	case c.forbids(u.StateEpoch):
		return Record{}, refuseNegativeStateEpoch
	case s == nil:
		return Record{}, refuseUninitializedWrite
	case c.checks(u.LeaderEpoch) && u.LeaderEpoch < s.fence:
		return Record{}, refuseFencedLeaderEpoch
	case c.checks(u.StateEpoch) && u.StateEpoch < s.StateEpoch:
		return Record{}, c.fencedStateEpoch()
	case !c.config.Exists(k.Topic, k.Partition):
		return Record{}, refuseUnknownPartition
	}
	if no := c.refuseStage(u); no != nil {
		return Record{}, no
	}
	next := s.State
	switch {
	case !c.config.Release.StartNeverFalls:
		if next.DeliveryCompleteCount = u.DeliveryCompleteCount; u.StartOffset != -1 {
			next.StartOffset = u.StartOffset
		}
	case u.StartOffset > s.StartOffset:
		next.StartOffset, next.DeliveryCompleteCount = u.StartOffset, u.DeliveryCompleteCount
	case u.StartOffset == s.StartOffset:
		next.DeliveryCompleteCount = max(s.DeliveryCompleteCount, u.DeliveryCompleteCount)
	}
	return s.record(nowMs, k, next, u.Batches, c.config.UpdatesPerSnapshot, c.rule()), nil
}

// record makes the record that turns s into next with some batches merged into it: an update, or a snapshot where one is due.
func (s *state) record(nowMs int64, k Key, next State, batches []Batch, updatesPerSnapshot int, rule mergeRule) Record {
	batches = merge(nil, batches, next.StartOffset, rule)
	if s.updates < updatesPerSnapshot {
		return Record{Key: k, Update: &UpdateRecord{
			SnapshotEpoch: s.snapshotEpoch, LeaderEpoch: next.LeaderEpoch, StartOffset: next.StartOffset,
			DeliveryCompleteCount: next.DeliveryCompleteCount, Batches: batches,
		}}
	}
	next.Batches = merge(slices.Clone(next.Batches), batches, next.StartOffset, rule)
	return Record{Key: k, Snapshot: &Snapshot{
		State: next, SnapshotEpoch: s.snapshotEpoch + 1, CreateTimestamp: nowMs, WriteTimestamp: nowMs,
	}}
}

// Delete removes a share partition's state. The record is empty where there is none.
func (c *Coordinator) Delete(k Key) (Record, *Refusal) {
	switch {
	case k.Partition < 0:
		return Record{}, refuseNegativePartition
	case !c.config.Exists(k.Topic, k.Partition):
		return Record{}, refuseUnknownPartition
	case c.states[k] == nil:
		return Record{}, nil
	}
	return Record{Key: k}, nil
}

// Summary returns a share partition's state without batches to whoever asks: start offset and delivery complete count -1 where there is none.
func (c *Coordinator) Summary(k Key) (State, *Refusal) {
	switch {
	case k.Partition < 0:
		return State{}, refuseNegativePartition
	case !c.config.Exists(k.Topic, k.Partition):
		return State{}, refuseUnknownPartition
	}
	s := c.states[k]
	if s == nil {
		return State{StartOffset: -1, DeliveryCompleteCount: -1}, nil
	}
	summary := s.State
	summary.Batches = nil
	return summary, nil
}

// State returns a copy of what is persisted of a share partition, and whether anything is.
func (c *Coordinator) State(k Key) (State, bool) {
	s := c.states[k]
	if s == nil {
		return State{}, false
	}
	state := s.State
	state.Batches = slices.Clone(state.Batches)
	return state, true
}

// States are the states of all share partitions, in no order. They are not to be changed, nor held on to.
func (c *Coordinator) States() iter.Seq2[Key, *State] {
	return func(yield func(Key, *State) bool) {
		for k, s := range c.states {
			if !yield(k, &s.State) {
				return
			}
		}
	}
}

// Writes is how often Write was called, and Read with an epoch that it stored (ShareCoordinatorMetrics' write-total).
func (c *Coordinator) Writes() int64 { return c.writes }

// Reload forgets what a partition of __share_group_state, of so many, does not hold itself, as if its records were read again: which leader epochs have
// been fenced by a Read whose epoch an Initialize has replaced since.
func (c *Coordinator) Reload(partition, partitions int32) {
	for k, s := range c.states {
		if PartitionFor(k, partitions) == partition {
			s.fence = s.LeaderEpoch
		}
	}
}

// Unload forgets what a partition of __share_group_state, of so many, has kept. It returns what waits for transactions there, in the order of keys, with the state that
// after gives it: no marker finds it any more. The records of the endings have a key and nothing else.
func (c *Coordinator) Unload(partition, partitions int32, after func(Key, *Batch) int8) []Ending {
	var waiting []Ending
	for k, s := range c.states {
		if PartitionFor(k, partitions) != partition {
			continue
		}
		e := Ending{Record: Record{Key: k}}
		for _, b := range s.Batches {
			if b.State == txPending {
				b.State = after(k, &b)
				e.Decided = append(e.Decided, b)
			}
		}
		if len(e.Decided) > 0 {
			waiting = append(waiting, e)
		}
		delete(c.states, k)
	}
	slices.SortFunc(waiting, func(a, b Ending) int { return compareKeys(a.Record.Key, b.Record.Key) })
	return waiting
}

// Apply takes a record in that was appended, or is read back. offset is its offset in the partition that keeps the share partition's state.
func (c *Coordinator) Apply(r *Record, offset int64) {
	s := c.states[r.Key]
	switch {
	case r.Snapshot != nil:
		next := &state{
			State: r.Snapshot.State, snapshotEpoch: r.Snapshot.SnapshotEpoch, fence: r.Snapshot.LeaderEpoch,
			offset: offset, createTimestamp: r.Snapshot.CreateTimestamp, writeTimestamp: r.Snapshot.WriteTimestamp,
		}
		next.Batches = merge(nil, r.Snapshot.Batches, r.Snapshot.StartOffset, c.rule())
		if s != nil {
			next.fence = max(next.fence, s.fence)
		}
		c.states[r.Key] = next
	case r.Update != nil:
		if s == nil {
			s = &state{State: State{StartOffset: -1, DeliveryCompleteCount: -1}}
			c.states[r.Key] = s
		}
		s.update(r.Update, c.rule())
	default:
		delete(c.states, r.Key)
	}
	c.indexStaged(r, c.states[r.Key])
}

func (s *state) update(u *UpdateRecord, rule mergeRule) {
	s.snapshotEpoch = u.SnapshotEpoch
	s.updates++
	if u.LeaderEpoch != -1 {
		s.LeaderEpoch = u.LeaderEpoch
		s.fence = max(s.fence, u.LeaderEpoch)
	}
	if u.StartOffset != -1 {
		s.StartOffset = u.StartOffset
	}
	s.DeliveryCompleteCount = u.DeliveryCompleteCount
	s.Batches = merge(s.Batches, u.Batches, s.StartOffset, rule)
}
