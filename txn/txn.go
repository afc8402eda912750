// Package txn is the transaction coordinator: who owns a transactional id, which partitions its transaction has
// written to, and how it ends (KIP-98, KIP-360, KIP-890, KIP-939; org.apache.kafka.coordinator.transaction).
//
// It is pure: it holds no goroutine, clock, socket or lock. A call decides and returns a [Decision]. Where that has a
// [Transition] the caller stores its record in __transaction_state and then calls [Coordinator.Stored], or
// [Coordinator.Unstored] where that failed; only then is the call answered. Until then the transactional id is
// pending: every other call for it is refused with CONCURRENT_TRANSACTIONS. A stored PrepareCommit or PrepareAbort
// has the caller write the markers that [Coordinator.Stored] returns, and then call [Coordinator.Complete].
package txn

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"kshare/protocol/errorcode"
)

// State is how far the transaction of a transactional id has come. The numbers are those that __transaction_state holds.
type State int8

const (
	Empty          State = 0
	Ongoing        State = 1
	PrepareCommit  State = 2
	PrepareAbort   State = 3
	CompleteCommit State = 4
	CompleteAbort  State = 5
)

// String is the name that DescribeTransactions shows.
func (s State) String() string {
	switch s {
	case Empty:
		return "Empty"
	case Ongoing:
		return "Ongoing"
	case PrepareCommit:
		return "PrepareCommit"
	case PrepareAbort:
		return "PrepareAbort"
	case CompleteCommit:
		return "CompleteCommit"
	case CompleteAbort:
		return "CompleteAbort"
	}
	return fmt.Sprintf("State(%d)", int8(s))
}

// preparing tells whether the transaction is decided and its markers are being written.
func (s State) preparing() bool { return s == PrepareCommit || s == PrepareAbort }

// idle tells whether no transaction is under way.
func (s State) idle() bool { return s == Empty || s == CompleteCommit || s == CompleteAbort }

const (
	// NoProducerID stands where there is no producer.
	NoProducerID int64 = -1
	// NoEpoch is the epoch of no producer.
	NoEpoch int16 = -1
	// lastEpoch is the highest epoch that a producer is given. One above it, 32767, only markers have.
	lastEpoch int16 = math.MaxInt16 - 1
	// noTime stands where no transaction has begun.
	noTime int64 = -1
)

// Flow is which transactions a client speaks, as the versions of its requests tell (TransactionVersion).
type Flow int16

const (
	// Flow0 is that of clients which name the partitions beforehand and keep their epoch.
	Flow0 Flow = 0
	// Flow2 raises the epoch as each transaction ends (KIP-890): EndTxn from version 5 on, Produce from 12, TxnOffsetCommit from 5.
	Flow2 Flow = 2
)

// Producer is a producer id with its epoch.
type Producer struct {
	ID    int64
	Epoch int16
}

// NoProducer is that of an answer without one.
var NoProducer = Producer{NoProducerID, NoEpoch}

// TopicPartition is a partition that a transaction writes to.
type TopicPartition struct {
	Topic     string
	Partition int32
}

func compareTopicPartitions(a, b TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// Transaction is what is known of a transactional id.
type Transaction struct {
	Producer
	PreviousProducerID int64 // the id before the last change, NoProducerID at first
	// NextProducerID is the id that the producer has once the transaction is complete, NoProducerID for the same. NextEpoch comes with it where a transaction
	// under way was kept (KIP-939): while that is ongoing both are what its owner goes by, afterwards what it goes on as. NoEpoch otherwise.
	NextProducerID int64
	NextEpoch      int16
	LastEpoch      int16 // the epoch before the one that its owner has raised, NoEpoch for none; not stored
	TimeoutMs      int32
	State          State
	// Partitions that the transaction writes to, ascending by topic and partition. A slice is never changed.
	Partitions []TopicPartition
	StartMs    int64 // when the transaction began, ms since 1970; -1 before the first
	UpdateMs   int64 // of the last change
	Flow       Flow  // of the client that made the last change
}

// kept tells whether the transaction was taken over by an owner who has an epoch, or an id, of its own.
func (t *Transaction) kept() bool { return t.NextEpoch != NoEpoch }

// owner is the producer that the owner of the transactional id goes by. What a transaction has written has t.Producer.
func (t *Transaction) owner() Producer {
	if t.kept() {
		return Producer{t.NextProducerID, t.NextEpoch}
	}
	return t.Producer
}

// TwoPhase tells whether the transactions are part of a two-phase commit: they do not time out. It is the timeout that says so, in the log too.
func (t *Transaction) TwoPhase() bool { return t.TimeoutMs == math.MaxInt32 }

// Open tells whether a transaction is under way, or decided and its markers are being written.
func (t *Transaction) Open() bool { return t.State == Ongoing || t.State.preparing() }

// Transition is a change of a transactional id on its way to the log.
type Transition struct {
	ID     string
	Next   Transaction
	Forget bool // the id expires: a tombstone is stored

	from *entry
	// completion is set where all markers are written: if that cannot be stored they are still wanted.
	completion bool
}

// Decision is what a call comes to: refused with Code where that is not 0, else answered with Producer and, where
// Transition is not nil, only once that is stored.
type Decision struct {
	Code     int16
	Producer Producer
	// Kept is the producer of a transaction that InitProducerID has kept, nil where it has kept none.
	Kept       *Producer
	Transition *Transition
}

func refuse(code int16) Decision { return Decision{Code: code, Producer: NoProducer} }

// Markers are what ends a transaction in the partitions that it wrote to.
type Markers struct {
	ID string
	Producer
	Commit     bool
	Flow       Flow
	Partitions []TopicPartition
}

// Config is what a coordinator is made with.
type Config struct {
	MaxTimeoutMs   int32         // transaction.max.timeout.ms, inclusive
	AbortPeriod    time.Duration // transaction.abort.timed.out.transaction.cleanup.interval.ms; 0 aborts as soon as the timeout has passed
	IDExpiration   time.Duration // transactional.id.expiration.ms
	ExpirePeriod   time.Duration // transaction.remove.expired.transaction.cleanup.interval.ms; 0 as for AbortPeriod
	TwoPhaseCommit bool          // transaction.two.phase.commit.enable
	KeepPrepared   bool          // a transaction under way can be kept (KIP-939), which Apache Kafka 4.4 refuses
	Level          func() int16  // the finalised transaction.version, 0 to 2
	NewProducerID  func() (int64, error)
	PartitionFor   func(id string) int32 // the partition of __transaction_state that keeps an id
	StorageError   func(error) int16     // the code of a failed NewProducerID
}

// entry is a transactional id with what is not stored of it.
type entry struct {
	Transaction
	pending *Transition
	// stuck is set where a change could not be stored in this version of the log: every call is refused until the id is loaded again.
	stuck bool
	// completing is set from the moment a decided transaction is stored until its markers are written.
	completing bool
}

func (e *entry) busy() bool { return e.pending != nil || e.stuck || e.completing }

// exhausted tells whether no epoch is left for the producer.
func (e *entry) exhausted() bool { return e.Epoch >= lastEpoch }

// Coordinator holds all transactional ids.
type Coordinator struct {
	config  Config
	ids     map[string]*entry
	since   time.Time // the periodic checks count from it
	aborts  time.Time // the next one, zero while nothing can time out
	expires time.Time
	// notBefore is the earliest next check of both, after a transition that could not be stored.
	notBefore time.Time
}

// New makes a coordinator without transactional ids. Its periodic checks count from now.
func New(config Config, now time.Time) *Coordinator {
	return &Coordinator{config: config, ids: map[string]*entry{}, since: now}
}

// Init is a request for a producer id (InitProducerId).
type Init struct {
	TimeoutMs int32
	// Expected is the producer that the client has had, nil for none.
	Expected *Producer
	// TwoPhaseCommit asks for transactions that do not time out, whatever TimeoutMs says, KeepPrepared for the one under way to be kept (KIP-939).
	TwoPhaseCommit, KeepPrepared bool
}

// InitProducerID makes the caller the owner of a transactional id. A transaction under way is aborted first: the
// answer is CONCURRENT_TRANSACTIONS then, and the Transition is that abort. Where it is kept the Decision has it.
func (c *Coordinator) InitProducerID(now time.Time, id string, r Init) Decision {
	switch {
	case id == "":
		return refuse(errorcode.InvalidRequest)
	case r.TwoPhaseCommit && !c.config.TwoPhaseCommit:
		return refuse(errorcode.TransactionalIDAuthorizationFailed)
	case r.KeepPrepared && !(c.config.KeepPrepared && c.config.Level() >= int16(Flow2)):
		return refuse(errorcode.UnsupportedVersion)
	case !r.TwoPhaseCommit && (r.TimeoutMs <= 0 || r.TimeoutMs > c.config.MaxTimeoutMs):
		return refuse(errorcode.InvalidTransactionTimeout)
	}
	if r.TwoPhaseCommit {
		r.TimeoutMs = math.MaxInt32
	}
	e := c.ids[id]
	if e == nil {
		newID, err := c.config.NewProducerID()
		if err != nil {
			return refuse(c.config.StorageError(err))
		}
		e = &entry{Transaction: Transaction{
			Producer: Producer{newID, NoEpoch}, PreviousProducerID: NoProducerID, NextProducerID: NoProducerID, NextEpoch: NoEpoch, LastEpoch: NoEpoch,
			TimeoutMs: r.TimeoutMs, StartMs: noTime, UpdateMs: now.UnixMilli(),
		}}
		c.ids[id] = e
	}
	switch {
	case e.busy():
		return refuse(errorcode.ConcurrentTransactions)
	case r.Expected != nil && !e.knows(*r.Expected):
		return refuse(errorcode.ProducerFenced)
	case e.State.preparing():
		return refuse(errorcode.ConcurrentTransactions)
	case e.State == Ongoing && r.KeepPrepared:
		return c.keep(now, id, e)
	case e.State == Ongoing:
		d := c.abort(now, id, e)
		if d.Code == errorcode.None {
			d.Code = errorcode.ConcurrentTransactions
		}
		return d
	}
	return c.own(now, id, e, r)
}

// knows tells whether a producer that asks to go on may be the owner, or one that has missed the answer that gave it a new id.
func (e *entry) knows(p Producer) bool {
	return e.Epoch == NoEpoch || p.ID == e.owner().ID || p.ID == e.PreviousProducerID && p.Epoch >= lastEpoch
}

// keep gives the transactional id to the caller and leaves the transaction under way as it is, timeout included: nothing can be added to it any more, and the new
// owner alone ends it (KIP-939).
func (c *Coordinator) keep(now time.Time, id string, e *entry) Decision {
	next := e.Transaction
	owner, no := c.after(e.owner())
	if no != errorcode.None {
		return refuse(no)
	}
	next.NextProducerID, next.NextEpoch = owner.ID, owner.Epoch
	next.UpdateMs, next.Flow = now.UnixMilli(), Flow2
	d := c.begin(id, e, next)
	if d.Code == errorcode.None {
		d.Producer, d.Kept = owner, &Producer{e.ID, e.Epoch}
	}
	return d
}

// after is the producer with the next epoch, or a new one where its epochs have run out.
func (c *Coordinator) after(p Producer) (Producer, int16) {
	if p.Epoch < lastEpoch {
		return Producer{p.ID, p.Epoch + 1}, errorcode.None
	}
	newID, err := c.config.NewProducerID()
	if err != nil {
		return NoProducer, c.config.StorageError(err)
	}
	return Producer{newID, 0}, errorcode.None
}

// own gives the transactional id to the caller: the next epoch, or a new producer id where there is none left.
func (c *Coordinator) own(now time.Time, id string, e *entry, r Init) Decision {
	next := e.Transaction
	next.State, next.TimeoutMs, next.Partitions = Empty, r.TimeoutMs, nil
	next.StartMs, next.UpdateMs = noTime, now.UnixMilli()
	next.PreviousProducerID, next.NextProducerID = e.ID, NoProducerID
	switch {
	case e.exhausted() && (r.Expected == nil || r.Expected.Epoch == e.Epoch):
		newID, err := c.config.NewProducerID()
		if err != nil {
			return refuse(c.config.StorageError(err))
		}
		next.Producer, next.LastEpoch = Producer{newID, 0}, NoEpoch
		if r.Expected != nil {
			next.LastEpoch = e.Epoch
		}
	case r.Expected == nil:
		next.Epoch, next.LastEpoch = e.Epoch+1, NoEpoch
	case e.Epoch == NoEpoch || r.Expected.Epoch == e.Epoch:
		next.Epoch, next.LastEpoch = e.Epoch+1, e.Epoch
	case r.Expected.Epoch != e.LastEpoch:
		return refuse(errorcode.ProducerFenced)
	}
	return c.begin(id, e, next)
}

// AddPartitions makes partitions part of the owner's transaction, which begins with the first call.
func (c *Coordinator) AddPartitions(now time.Time, id string, by Producer, partitions []TopicPartition, flow Flow) Decision {
	e, code := c.find(id)
	switch {
	case code != errorcode.None:
		return refuse(code)
	case e.busy():
		return refuse(errorcode.ConcurrentTransactions)
	}
	if code := e.check(by); code != errorcode.None {
		return refuse(code)
	}
	if e.kept() {
		return refuse(errorcode.InvalidTxnState)
	}
	if e.State == Ongoing && e.hasAll(partitions) {
		return Decision{Producer: e.Producer}
	}
	next := e.Transaction
	next.UpdateMs, next.Flow = now.UnixMilli(), flow
	next.PreviousProducerID = e.ID
	if next.State != Ongoing {
		next.State, next.StartMs, next.Partitions = Ongoing, next.UpdateMs, nil
	}
	next.Partitions = union(next.Partitions, partitions)
	return c.begin(id, e, next)
}

// check tells why a producer may not add to the transaction.
func (e *entry) check(by Producer) int16 {
	owner := e.Producer
	if !e.State.preparing() {
		owner = e.owner()
	}
	switch {
	case by.ID != owner.ID:
		return errorcode.InvalidProducerIDMapping
	case by.Epoch != owner.Epoch:
		return errorcode.ProducerFenced
	case e.State.preparing():
		return errorcode.ConcurrentTransactions
	}
	return errorcode.None
}

func (e *entry) has(p TopicPartition) bool {
	_, found := slices.BinarySearchFunc(e.Partitions, p, compareTopicPartitions)
	return found
}

func (e *entry) hasAll(partitions []TopicPartition) bool {
	return !slices.ContainsFunc(partitions, func(p TopicPartition) bool { return !e.has(p) })
}

// union is both lists in order, each partition once.
func union(a, b []TopicPartition) []TopicPartition {
	all := slices.Concat(a, b)
	slices.SortFunc(all, compareTopicPartitions)
	return slices.Compact(all)
}

// Verify tells for each partition whether the owner's transaction writes to it, TRANSACTION_ABORTABLE where it does not.
// code stands for all of them where it is not 0. A change on its way is not waited for.
func (c *Coordinator) Verify(id string, by Producer, partitions []TopicPartition) (codes []int16, code int16) {
	e, code := c.find(id)
	if code == errorcode.None {
		code = e.check(by)
	}
	if code != errorcode.None {
		return nil, code
	}
	codes = make([]int16, len(partitions))
	for i, p := range partitions {
		if !e.has(p) {
			codes[i] = errorcode.TransactionAbortable
		}
	}
	return codes, errorcode.None
}

// find looks an id up.
func (c *Coordinator) find(id string) (*entry, int16) {
	e := c.ids[id]
	switch {
	case id == "":
		return nil, errorcode.InvalidRequest
	case e == nil:
		return nil, errorcode.InvalidProducerIDMapping
	}
	return e, errorcode.None
}

// End commits or aborts the owner's transaction (EndTxn). The answer's Producer is the one to go on with.
func (c *Coordinator) End(now time.Time, id string, by Producer, commit bool, flow Flow) Decision {
	e, code := c.find(id)
	if code != errorcode.None {
		return refuse(code)
	}
	if flow != Flow2 {
		return c.endKeepingEpoch(now, id, e, by, commit, flow)
	}
	// A client that missed the answer asks again with what it knows: the epoch before, or the id before where the epochs of one had run out.
	owner := e.owner() // as a transaction is decided its Producer is that of the markers, but what was kept has an owner of another epoch
	overflown := e.PreviousProducerID == by.ID && by.Epoch == lastEpoch && owner.Epoch == 0
	again := int32(owner.Epoch) == int32(by.Epoch)+1 || overflown
	var mine bool
	switch {
	case e.State.preparing():
		mine = int32(owner.Epoch) == int32(by.Epoch)+1
	case e.State == CompleteCommit || e.State == CompleteAbort:
		mine = again || by.Epoch == owner.Epoch
	default:
		mine = by.Epoch == owner.Epoch
	}
	switch {
	case e.busy():
		return refuse(errorcode.ConcurrentTransactions)
	case by.ID != owner.ID && !overflown:
		return refuse(errorcode.InvalidProducerIDMapping)
	case !mine:
		return refuse(errorcode.ProducerFenced)
	case e.State == Ongoing:
		return c.decide(now, id, e, commit, Flow2)
	case again && e.endedBy(commit):
		return Decision{Producer: e.Producer}
	case again && e.State.idle() || commit:
		return refuse(errorcode.InvalidTxnState)
	case e.State.idle():
		return c.decide(now, id, e, false, Flow2)
	}
	return refuse(errorcode.ConcurrentTransactions)
}

// endedBy tells whether the last transaction has ended so.
func (e *entry) endedBy(commit bool) bool {
	return e.State == CompleteCommit && commit || e.State == CompleteAbort && !commit
}

// endKeepingEpoch is End for clients whose epoch stays.
func (c *Coordinator) endKeepingEpoch(now time.Time, id string, e *entry, by Producer, commit bool, flow Flow) Decision {
	owner := e.owner()
	switch {
	case by.ID != owner.ID:
		return refuse(errorcode.InvalidProducerIDMapping)
	case by.Epoch != owner.Epoch:
		return refuse(errorcode.ProducerFenced)
	case e.busy() || e.State.preparing():
		return refuse(errorcode.ConcurrentTransactions)
	case e.State == Ongoing:
		return c.decide(now, id, e, commit, flow)
	case e.endedBy(commit):
		return Decision{Producer: e.Producer}
	}
	return refuse(errorcode.InvalidTxnState)
}

// decide ends a transaction, or with Flow2 aborts where there is none. The markers' epoch is the next one with Flow2.
func (c *Coordinator) decide(now time.Time, id string, e *entry, commit bool, flow Flow) Decision {
	next := e.Transaction
	if e.kept() {
		return c.decideKept(now, id, e, commit, flow)
	}
	next.NextProducerID = NoProducerID
	if flow == Flow2 && e.exhausted() {
		newID, err := c.config.NewProducerID()
		if err != nil {
			return refuse(c.config.StorageError(err))
		}
		next.NextProducerID = newID
	}
	next.prepare(now, commit, flow)
	return c.begin(id, e, next)
}

// decideKept ends a transaction that was kept. Its markers have an epoch above that of what it has written, and its owner goes on above its own, so that
// nothing sent late counts for the next transaction.
func (c *Coordinator) decideKept(now time.Time, id string, e *entry, commit bool, flow Flow) Decision {
	next := e.Transaction
	owner := e.owner()
	if flow == Flow2 {
		var no int16
		if owner, no = c.after(owner); no != errorcode.None {
			return refuse(no)
		}
	}
	next.prepare(now, commit, Flow2)
	next.PreviousProducerID = e.NextProducerID
	next.NextProducerID, next.NextEpoch = owner.ID, owner.Epoch
	return c.begin(id, e, next)
}

// prepare makes the transaction one that is decided.
func (t *Transaction) prepare(now time.Time, commit bool, flow Flow) {
	if t.State != Ongoing {
		t.StartMs, t.Partitions = now.UnixMilli(), nil
	}
	t.State = PrepareAbort
	if commit {
		t.State = PrepareCommit
	}
	t.PreviousProducerID = t.ID
	if flow == Flow2 {
		t.Epoch, t.LastEpoch = t.Epoch+1, t.Epoch
	}
	t.UpdateMs, t.Flow = now.UnixMilli(), flow
}

// Abort aborts a transaction under way, whoever owns it, as its timeout would. One that is decided is not aborted.
func (c *Coordinator) Abort(now time.Time, id string) Decision {
	e, code := c.find(id)
	switch {
	case code != errorcode.None:
		return refuse(code)
	case e.busy():
		return refuse(errorcode.ConcurrentTransactions)
	case e.State != Ongoing:
		return refuse(errorcode.InvalidTxnState)
	}
	return c.abort(now, id, e)
}

// abort ends a transaction under way without its owner, whose epoch is fenced.
func (c *Coordinator) abort(now time.Time, id string, e *entry) Decision {
	if e.Epoch == math.MaxInt16 {
		return refuse(errorcode.UnknownServerError)
	}
	flow := Flow0
	if c.config.Level() >= int16(Flow2) {
		flow = Flow2
	}
	if e.kept() {
		return c.decideKept(now, id, e, false, Flow2) // whose owner is fenced in any case
	}
	next := e.Transaction
	if flow != Flow2 { // which raises the epoch with every end
		next.Epoch, next.LastEpoch = e.Epoch+1, NoEpoch
	}
	next.prepare(now, false, flow)
	next.NextProducerID = NoProducerID
	return c.begin(id, e, next)
}

// begin makes the id pending until the change is stored.
func (c *Coordinator) begin(id string, e *entry, next Transaction) Decision {
	if next.Flow == Flow2 && c.config.Level() == 0 {
		e.stuck = true // the log of version 0 has no place for it, and Kafka does not get over that
		return refuse(errorcode.UnsupportedVersion)
	}
	t := &Transition{ID: id, Next: next, from: e}
	e.pending = t
	return Decision{Producer: next.afterwards(), Transition: t}
}

// afterwards is the producer that its client goes on as once the transaction is complete.
func (t *Transaction) afterwards() Producer {
	if t.State.preparing() && t.Flow == Flow2 && t.NextProducerID != NoProducerID {
		return Producer{t.NextProducerID, max(0, t.NextEpoch)}
	}
	return t.Producer
}

// Stored takes in that a transition is in the log. It returns the markers to be written, nil where there are none to be.
func (c *Coordinator) Stored(now time.Time, t *Transition) *Markers {
	e := t.from
	if c.ids[t.ID] != e || e.pending != t {
		return nil // forgotten meanwhile, or loaded again
	}
	e.pending = nil
	if t.Forget {
		delete(c.ids, t.ID)
		return nil
	}
	checkTransition(t.ID, &e.Transaction, &t.Next)
	e.Transaction = t.Next
	c.arm(now, e)
	if !e.State.preparing() {
		return nil
	}
	return e.markers(t.ID)
}

// markers begins the completion of a decided transaction.
func (e *entry) markers(id string) *Markers {
	e.completing = true
	return &Markers{ID: id, Producer: e.Producer, Commit: e.State == PrepareCommit, Flow: e.Flow, Partitions: e.Partitions}
}

// storeRetry is how long after a transition could not be stored the timers wait, for what they are to change cannot be stored either.
const storeRetry = time.Second

// Unstored takes in that a transition could not be stored: everything is as it was before.
func (c *Coordinator) Unstored(now time.Time, t *Transition) {
	e := t.from
	if e.pending != t {
		return
	}
	c.notBefore = now.Add(storeRetry)
	e.pending = nil
	if e.Epoch == NoEpoch {
		delete(c.ids, t.ID)
		return
	}
	e.completing = t.completion
	c.arm(now, e)
}

// Complete takes in that all markers of a transaction are written. It returns the transition to store, nil where the markers are not wanted any more.
func (c *Coordinator) Complete(now time.Time, m *Markers) *Transition {
	e := c.ids[m.ID]
	if e == nil || !e.completing || e.Producer != m.Producer || !e.State.preparing() {
		return nil
	}
	next := e.Transaction
	next.State = CompleteAbort
	if e.State == PrepareCommit {
		next.State = CompleteCommit
	}
	if !e.kept() {
		next.PreviousProducerID = e.ID
	}
	next.Producer, next.NextProducerID, next.NextEpoch = e.afterwards(), NoProducerID, NoEpoch
	next.Partitions, next.UpdateMs = nil, now.UnixMilli()
	e.completing = false
	t := &Transition{ID: m.ID, Next: next, from: e, completion: true}
	e.pending = t
	return t
}

// Completing tells whether the markers of a transaction are still wanted.
func (c *Coordinator) Completing(m *Markers) bool {
	e := c.ids[m.ID]
	return e != nil && e.completing && e.Producer == m.Producer
}

// Lookup returns what is known of an id. Its slices are not to be changed.
func (c *Coordinator) Lookup(id string) (Transaction, bool) {
	e := c.ids[id]
	if e == nil {
		return Transaction{}, false
	}
	return e.Transaction, true
}

// IDs are all transactional ids in ascending order.
func (c *Coordinator) IDs() []string {
	ids := make([]string, 0, len(c.ids))
	for id := range c.ids {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
