package explore

import "time"

// View is everything that can be seen of a cluster at one moment. Lists are never null, and each is in the order of its keys. They are bounded: where one is cut, More
// says by how much.
type View struct {
	// Version is raised by everything that may have changed the view; equal versions of a session are equal views.
	Version uint64    `json:"version"`
	Time    time.Time `json:"time"`
	// Virtual tells that time stands still until it is moved.
	Virtual         bool             `json:"virtual"`
	KIP1289         *KIP1289         `json:"kip1289"` // null where acknowledgements are not taken in transactions
	Nodes           []Node           `json:"nodes"`
	Topics          []Topic          `json:"topics"`
	SharePartitions []SharePartition `json:"sharePartitions"`
	Groups          []Group          `json:"groups"`
	Transactions    []Transaction    `json:"transactions"`
	Markers         []Marker         `json:"markers"`     // the last MaxLog, the oldest first
	StateLog        []StateRecord    `json:"stateLog"`    // the last MaxLog, the oldest first
	DeadLetters     []DeadLetter     `json:"deadLetters"` // the last MaxLog, the oldest first
	Timers          []Timer          `json:"timers"`      // what is due next, the soonest first
	Faults          []Fault          `json:"faults"`
	Background      []string         `json:"background"` // the names of commands that run in the background
	More            More             `json:"more"`

	// grown counts the markers, the records of the state log and the dead letters that there ever were.
	grown [3]int
}

// Bounds of a view.
const (
	// MaxTopics bounds the topics, MaxPartitions the partitions of all of them and, again, the share partitions.
	MaxTopics     = 1000
	MaxPartitions = 2000
	// MaxRuns bounds the runs of all share partitions.
	MaxRuns = 20_000
	// MaxGroups bounds the groups, MaxMembers the members of all of them.
	MaxGroups  = 1000
	MaxMembers = 5000
	// MaxTransactions bounds the transactions.
	MaxTransactions = 1000
	// MaxLog bounds the lists that grow: markers, records of the state log, dead letters.
	MaxLog = 200
	// MaxTimers bounds the timers.
	MaxTimers = 50
)

// More is how many entries were left out of the lists of a view.
type More struct {
	Topics          int `json:"topics"`
	Partitions      int `json:"partitions"`
	SharePartitions int `json:"sharePartitions"`
	Runs            int `json:"runs"`
	Groups          int `json:"groups"`
	Members         int `json:"members"`
	Transactions    int `json:"transactions"`
	Timers          int `json:"timers"`
}

// KIP1289 is how the cluster takes acknowledgements in transactions.
type KIP1289 struct {
	// Switches are the values of all switches by name.
	Switches map[string]string `json:"switches"`
}

// Node is a node of the cluster.
type Node struct {
	ID      int32  `json:"id"`
	Address string `json:"address"` // host:port, as clients are told
	Runs    bool   `json:"runs"`    // it was not stopped
	CutOff  bool   `json:"cutOff"`  // nothing arrives there and nothing comes from it
	Fenced  bool   `json:"fenced"`  // the others have given it up
}

// Topic is a topic.
type Topic struct {
	Name       string      `json:"name"`
	ID         string      `json:"id"` // in Kafka's text form
	Internal   bool        `json:"internal"`
	DeadLetter bool        `json:"deadLetter"` // it is the dead-letter queue of a group
	Partitions []Partition `json:"partitions"`
}

// Partition is a partition of a topic.
type Partition struct {
	Partition        int32   `json:"partition"`
	Leader           int32   `json:"leader"` // -1 for none
	LeaderEpoch      int32   `json:"leaderEpoch"`
	Replicas         []int32 `json:"replicas"`
	StartOffset      int64   `json:"startOffset"` // of the first record
	EndOffset        int64   `json:"endOffset"`   // of the next record
	HighWatermark    int64   `json:"highWatermark"`
	LastStableOffset int64   `json:"lastStableOffset"` // records from there on may belong to an open transaction
}

// SharePartition is what a share group makes of a partition.
type SharePartition struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Known tells that the leader has read the state. Where it has not, only Persisted is set.
	Known       bool       `json:"known"`
	StartOffset int64      `json:"startOffset"` // what lies below is done with
	EndOffset   int64      `json:"endOffset"`   // what lies from here on was never handed out
	InFlight    int64      `json:"inFlight"`    // how many records count against the limit of record locks
	MaxInFlight int64      `json:"maxInFlight"` // that limit
	Waiting     int        `json:"waiting"`     // fetches that wait for records
	Runs        []Run      `json:"runs"`
	Persisted   *Persisted `json:"persisted"` // what the share coordinator keeps, null where that is nothing
}

// Run is a row of neighbouring records that are alike. Batches in which they were acquired do not part them.
type Run struct {
	First         int64  `json:"first"`
	Last          int64  `json:"last"`  // inclusive
	State         string `json:"state"` // AVAILABLE, ACQUIRED, TX_PENDING, ACKNOWLEDGED, ARCHIVING or ARCHIVED
	DeliveryCount int    `json:"deliveryCount"`
	// Member holds the records: the script's name for it, or its id. "" for nobody.
	Member string `json:"member"`
	// LockEnds is when the record lock ends, null without one.
	LockEnds *time.Time `json:"lockEnds"`
	// Pending tells that the write of this state is unanswered.
	Pending bool `json:"pending"`
	// Producer is set where the state is TX_PENDING.
	Producer *Staged `json:"producer"`
}

// Staged is the transaction that an acknowledgement is part of.
type Staged struct {
	Producer      string `json:"producer"` // the script's name for it, or its id
	ProducerID    int64  `json:"producerId"`
	ProducerEpoch int16  `json:"producerEpoch"`
	Type          string `json:"type"` // accept, release, reject or gap
}

// Persisted is what the share coordinator keeps of a share partition.
type Persisted struct {
	StateEpoch            int32            `json:"stateEpoch"`
	LeaderEpoch           int32            `json:"leaderEpoch"`
	StartOffset           int64            `json:"startOffset"`           // -1 until the first delivery is acknowledged
	DeliveryCompleteCount int32            `json:"deliveryCompleteCount"` // -1 where it is not known
	Batches               []PersistedBatch `json:"batches"`
}

// PersistedBatch is neighbouring records in one state.
type PersistedBatch struct {
	First         int64   `json:"first"`
	Last          int64   `json:"last"` // inclusive
	State         string  `json:"state"`
	DeliveryCount int     `json:"deliveryCount"`
	Producer      *Staged `json:"producer"` // where the state is TX_PENDING
}

// Group is a group of any type.
type Group struct {
	ID      string   `json:"id"`
	Type    string   `json:"type"`  // share, consumer or classic
	State   string   `json:"state"` // as ListGroups names it
	Epoch   int32    `json:"epoch"` // of a classic group the generation
	Members []Member `json:"members"`
	// Offsets are those that a consumer or classic group has committed.
	Offsets []CommittedOffset `json:"offsets"`
}

// Member is a member of a group.
type Member struct {
	ID            string `json:"id"`
	Name          string `json:"name"` // the script's name for it, else its id
	Instance      string `json:"instance"`
	ClientID      string `json:"clientId"`
	Epoch         int32  `json:"epoch"` // of a classic group the generation
	PreviousEpoch int32  `json:"previousEpoch"`
	// State is what a member of a consumer group is at, as ConsumerGroupDescribe has no name for it either: "" where that is nothing.
	State      string         `json:"state"`
	Subscribed []string       `json:"subscribed"`
	Assigned   []string       `json:"assigned"` // like orders-0
	Sessions   []ShareSession `json:"sessions"`
	// Expires is when the member is removed unless it is heard of before, null where nobody counts.
	Expires *time.Time `json:"expires"`
}

// ShareSession is a member's share session with a node.
type ShareSession struct {
	Node       int32    `json:"node"`
	Epoch      int32    `json:"epoch"` // that the next request must have
	Partitions []string `json:"partitions"`
}

// CommittedOffset is a committed offset.
type CommittedOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// Transaction is what is known of a transactional id, or records that wait for the end of a transaction which has ended without them: then TransactionalID and State are "".
type Transaction struct {
	TransactionalID string          `json:"transactionalId"`
	Producer        string          `json:"producer"` // the script's name for it, or its id
	ProducerID      int64           `json:"producerId"`
	ProducerEpoch   int16           `json:"producerEpoch"`
	State           string          `json:"state"` // Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort
	TimeoutMs       int64           `json:"timeoutMs"`
	TwoPhase        bool            `json:"twoPhase"` // it does not time out
	Began           *time.Time      `json:"began"`    // null where none is under way
	Expires         *time.Time      `json:"expires"`  // when it is aborted unless it ends before, null where it is not
	Partitions      []string        `json:"partitions"`
	Staged          []StagedRecords `json:"staged"`
}

// StagedRecords are records whose acknowledgement is part of a transaction.
type StagedRecords struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	First     int64  `json:"first"`
	Last      int64  `json:"last"` // inclusive
}

// Marker is the end of a transaction in the log of a partition.
type Marker struct {
	Topic            string    `json:"topic"`
	Partition        int32     `json:"partition"`
	Offset           int64     `json:"offset"`
	Time             time.Time `json:"time"`
	Producer         string    `json:"producer"`
	ProducerID       int64     `json:"producerId"`
	ProducerEpoch    int16     `json:"producerEpoch"`
	Type             string    `json:"type"` // COMMIT or ABORT
	CoordinatorEpoch int32     `json:"coordinatorEpoch"`
}

// StateRecord is a record of __share_group_state.
type StateRecord struct {
	LogPartition int32     `json:"logPartition"` // of __share_group_state
	Offset       int64     `json:"offset"`
	Time         time.Time `json:"time"`
	Type         string    `json:"type"` // ShareSnapshot, ShareUpdate or tombstone
	Group        string    `json:"group"`
	Topic        string    `json:"topic"` // its id where there is no such topic any more
	Partition    int32     `json:"partition"`
	// State is what the record says, null for a tombstone. In an update a start offset of -1 means that it does not change.
	State         *Persisted `json:"state"`
	SnapshotEpoch int32      `json:"snapshotEpoch"`
}

// DeadLetter is a record of a dead-letter queue.
type DeadLetter struct {
	Topic           string    `json:"topic"` // the queue
	Partition       int32     `json:"partition"`
	Offset          int64     `json:"offset"`
	Time            time.Time `json:"time"`
	Group           string    `json:"group"`
	SourceTopic     string    `json:"sourceTopic"`
	SourcePartition int32     `json:"sourcePartition"`
	SourceOffset    int64     `json:"sourceOffset"`
	DeliveryCount   int       `json:"deliveryCount"`
	Reason          string    `json:"reason"`
}

// Timer is something that happens at a time, unless something else happens before.
type Timer struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"` // lock, session, wait, transaction, or other for what the broker does on its own
	Text string    `json:"text"` // like "the lock of m1 on orders-0 0-4 ends"
}

// Fault is something that goes wrong on purpose.
type Fault struct {
	Name    string `json:"name"`
	Rule    string `json:"rule"` // as the command fault takes it
	Matched int    `json:"matched"`
	Acted   int    `json:"acted"`
}
