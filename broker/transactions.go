package broker

import (
	"fmt"
	"math"
	"time"

	"kshare/kip1289"
	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/txn"
)

// transactions is the transaction coordinator of all nodes, with the timer that drives it.
type transactions struct {
	coordinator *txn.Coordinator
	deadline    deadline
	faults      []*WriteFault // of markers, in the order in which they were begun
}

func newTransactions(c *Cluster) *transactions {
	v := c.brokerValues()
	config := txn.Config{
		MaxTimeoutMs:   v.Int("transaction.max.timeout.ms"),
		AbortPeriod:    v.Duration("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
		IDExpiration:   v.Duration("transactional.id.expiration.ms"),
		ExpirePeriod:   v.Duration("transaction.remove.expired.transaction.cleanup.interval.ms"),
		TwoPhaseCommit: v.Bool("transaction.two.phase.commit.enable"),
		KeepPrepared:   c.kip1289.Is(kip1289.KeepPreparedTxn, "keep"),
		Level:          c.transactionVersion,
		NewProducerID:  c.newProducerID,
		StorageError:   func(err error) int16 { return c.storageRefusal(err).code },
		PartitionFor: func(id string) int32 {
			return c.keptAt(transactionStateTopic, id)
		},
	}
	if c.timing == TimingFast {
		config.AbortPeriod, config.ExpirePeriod = 0, 0
	}
	return &transactions{coordinator: txn.New(config, c.clock.Now())}
}

// transactionVersion is the finalised level of transaction.version.
func (c *Cluster) transactionVersion() int16 { return c.features.Levels["transaction.version"] }

// transactionPartition is the partition of __transaction_state that keeps a transactional id, nil where it is not there.
func (c *Cluster) transactionPartition(id string) *partition {
	return c.keeper(transactionStateTopic, id)
}

// notCoordinatingTransactions is why a node does not coordinate a transactional id, 0 where it does.
func (c *Cluster) notCoordinatingTransactions(n *node, id string) int16 {
	return c.transactionPartition(id).notCoordinating(n)
}

// transact stores what the transaction coordinator has decided, has the transaction ended where it is one that ends, and returns the code and the
// producer to answer with.
func (c *Cluster) transact(r *request, d txn.Decision) (int16, txn.Producer) {
	if d.Transition == nil {
		return d.Code, d.Producer
	}
	if err := c.storeTransition(d.Transition); err != nil {
		c.log.Error("a transaction could not be stored", "transactional id", d.Transition.ID, "error", err)
		return notStored, txn.NoProducer
	}
	r.wrote, r.unstored = true, notStored
	return d.Code, d.Producer
}

// pushTransactions has what is stored of transactions survive a kill of the process before something is appended to a user's log that follows from it. A
// batch whose transaction does not know of its partition would never get a marker, and one of two markers without the decision could meet the opposite one.
func (c *Cluster) pushTransactions(id string) int16 {
	if err := c.store.Push(); err != nil {
		c.log.Error("a transaction could not be stored", "transactional id", id, "error", err)
		return notStored
	}
	return errorcode.None
}

// storeTransition appends a change of a transactional id to __transaction_state and lets it take effect.
func (c *Cluster) storeTransition(t *txn.Transition) error {
	if err := c.appendTransition(t); err != nil {
		c.transactions.coordinator.Unstored(c.clock.Now(), t)
		c.armTransactions()
		return err
	}
	m := c.transactions.coordinator.Stored(c.clock.Now(), t)
	c.armTransactions()
	if m != nil {
		c.endLater(m)
	}
	return nil
}

// markerDelay is how long after the decision the markers of a transaction are written with timing=kafka, whose own take one to three milliseconds:
// who asks at once sees it in state PrepareCommit or PrepareAbort.
const markerDelay = 2 * time.Millisecond

// endLater has the markers of a transaction written: now, or with timing=kafka once who has ended it has its answer.
func (c *Cluster) endLater(m *txn.Markers) {
	if c.timing != TimingKafka {
		c.writeMarkers(m)
		return
	}
	c.after(markerDelay, func() { c.writeMarkers(m) })
}

func (c *Cluster) appendTransition(t *txn.Transition) error {
	p := c.transactionPartition(t.ID)
	if p == nil || p.leader == noLeader {
		return fmt.Errorf("nobody coordinates the transactional id %q", t.ID)
	}
	key, value := t.Record(c.transactionVersion())
	b := protocol.NewBatchBuilder()
	if err := b.Append(c.now(), key, value); err != nil {
		return fmt.Errorf("transactional id %q: %w", t.ID, err)
	}
	return p.appendBuilt(b)
}

// markerRetry is how long after a partition could not take a marker the coordinator sends it again.
const markerRetry = 100 * time.Millisecond

// markerWrite is the marker of a transaction on its way to one partition, or to be sent again.
type markerWrite struct {
	cluster          *Cluster
	markers          *txn.Markers
	to               txn.TopicPartition
	left             *int // partitions of the transaction that have not answered
	coordinatorEpoch int32
	done             *int16 // the answer of a marker that was written before its answer went wrong
}

// owed tells whether the coordinator that sends the marker still has the transaction to end.
func (w *markerWrite) owed() bool {
	c := w.cluster
	return c.transactions.coordinator.Completing(w.markers) && c.transactionPartition(w.markers.ID).leaderEpoch == w.coordinatorEpoch
}

// writeMarkers ends a transaction in the partitions that it wrote to, and completes it once all have the marker. Partitions without a leader are tried again
// as long as they have none; those that are gone need none.
// Source: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
func (c *Cluster) writeMarkers(m *txn.Markers) {
	if !c.transactions.coordinator.Completing(m) {
		return
	}
	if c.pushTransactions(m.ID) != errorcode.None {
		c.after(markerRetry, func() { c.writeMarkers(m) })
		return
	}
	left := len(m.Partitions)
	if left == 0 {
		c.completeTransaction(m)
		return
	}
	epoch := c.transactionPartition(m.ID).leaderEpoch
	for _, tp := range m.Partitions {
		w := &markerWrite{cluster: c, markers: m, to: tp, left: &left, coordinatorEpoch: epoch}
		w.send()
	}
}

func (w *markerWrite) send() {
	c := w.cluster
	w.done = nil
	if !w.owed() {
		return
	}
	if t := c.topics[w.to.Topic]; t != nil && len(c.transactions.faults) > 0 {
		if p := t.partition(w.to.Partition); p != nil {
			if f := writeFaultOf(c.transactions.faults, w.markers.ID, p); f != nil {
				f.take(w)
				return
			}
		}
	}
	w.goOn(errorcode.None)
}

// goOn has the partition answer with a code, or write the marker where it is 0. A marker that was kept arrives even if its coordinator has been replaced meanwhile:
// the partition tells that by the coordinator's epoch.
func (w *markerWrite) goOn(code int16) {
	c, m := w.cluster, w.markers
	if w.done == nil && code == errorcode.None {
		w.doFirst()
	}
	if w.done != nil && (*w.done != errorcode.None || code == errorcode.None) {
		code = *w.done
	}
	if !w.owed() {
		return
	}
	switch code {
	case errorcode.None, errorcode.UnknownTopicOrPartition:
		if *w.left--; *w.left == 0 {
			c.completeTransaction(m)
		}
	case errorcode.InvalidProducerEpoch, errorcode.TransactionCoordinatorFenced:
		c.log.Error("a partition refuses the end of a transaction, which cannot be completed", "transactional id", m.ID, "partition", w.to, "error", errorcode.Name(code))
	default:
		c.after(markerRetry, w.send)
	}
}

// doFirst writes the marker, and keeps what the partition says.
func (w *markerWrite) doFirst() {
	code := w.cluster.writeMarkerTo(w.markers, w.to, w.coordinatorEpoch)
	w.done = &code
}

// writeMarkerTo writes the marker of a transaction to one partition.
func (c *Cluster) writeMarkerTo(m *txn.Markers, tp txn.TopicPartition, coordinatorEpoch int32) int16 {
	var p *partition
	if t := c.topics[tp.Topic]; t != nil {
		p = t.partition(tp.Partition)
	}
	switch {
	case p == nil:
		return errorcode.UnknownTopicOrPartition
	case p.leader == noLeader:
		return errorcode.NotLeaderOrFollower
	}
	return p.endTransaction(&marker{Producer: m.Producer, commit: m.Commit, coordinatorEpoch: coordinatorEpoch, version: int8(m.Flow)})
}

// completeTransaction stores that all markers of a transaction are written.
func (c *Cluster) completeTransaction(m *txn.Markers) {
	t := c.transactions.coordinator.Complete(c.clock.Now(), m)
	if t == nil {
		return
	}
	if err := c.storeTransition(t); err != nil {
		c.log.Error("the end of a transaction could not be stored, which is tried again", "transactional id", m.ID, "error", err)
		c.after(loadRetry, func() { c.completeTransaction(m) })
	}
}

// marker is what ends a producer's transaction in a partition.
type marker struct {
	txn.Producer
	commit           bool
	coordinatorEpoch int32
	version          int8 // transaction.version by whose rules the epoch is checked
}

// endTransaction appends a marker to a partition, unless the producer's epoch or the coordinator's forbids it, and has the offsets take effect that the
// transaction has committed there.
func (p *partition) endTransaction(m *marker) int16 {
	c := p.cluster
	if p.topic.name == shareStateTopic {
		return c.endShareTransaction(p, m)
	}
	if no := p.producers.CheckMarker(m.ID, m.Epoch, m.coordinatorEpoch, m.version); no != nil {
		return no.Code
	}
	control := protocol.ControlAbort
	if m.commit {
		control = protocol.ControlCommit
	}
	batch := protocol.EndTxnMarker(m.ID, m.Epoch, m.coordinatorEpoch, control, c.now())
	h, err := protocol.ParseBatchHeader(batch)
	if err == nil {
		_, err = p.append(&h, batch)
	}
	if err != nil {
		c.log.Error("the end of a transaction could not be written", "partition", p, "error", err)
		return errorcode.KafkaStorageError
	}
	if p.topic.name == consumerOffsetsTopic {
		c.groups.coordinator.EndTransaction(p.index, m.ID, m.commit)
	}
	p.wakeFetches(math.MaxInt32) // what was read_committed's to wait for may be far more than the marker
	return errorcode.None
}

// armTransactions sets the timer to the coordinator's next deadline.
func (c *Cluster) armTransactions() {
	ts := c.transactions
	at, ok := ts.coordinator.NextDeadline()
	ts.deadline.follow(c, at, ok, func() {
		for _, t := range ts.coordinator.Expire(c.clock.Now()) {
			if err := c.storeTransition(t); err != nil {
				c.log.Error("what a transaction's timer changed could not be stored", "transactional id", t.ID, "error", err)
			}
		}
		c.armTransactions()
	})
}

// loadTransactions rebuilds the transaction coordinator from __transaction_state.
func (c *Cluster) loadTransactions() error {
	t := c.topics[transactionStateTopic]
	if t == nil {
		return nil
	}
	for _, p := range t.partitions {
		if err := c.replayTransactionsOf(p); err != nil {
			return err
		}
	}
	return nil
}

// replayTransactionsOf rebuilds the transactional ids that a partition of __transaction_state keeps. Transactions that were decided are ended.
func (c *Cluster) replayTransactionsOf(p *partition) error {
	keeper := recordKeeper{p: p}
	defer keeper.report()
	err := p.eachRecord(func(h *protocol.BatchHeader, r *protocol.Record) error {
		if !keeper.keepsRecord(r) {
			return nil
		}
		if err := c.transactions.coordinator.Replay(r.Key, r.Value); err != nil {
			c.leaveOut(p, h, r, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, m := range c.transactions.coordinator.Loaded(c.clock.Now(), p.index) {
		c.endLater(m)
	}
	c.armTransactions()
	return nil
}

// transactionsMoved has the transactional ids of a partition of __transaction_state forgotten by the coordinator that was and read by the next one. Once the topic
// has grown that one gets no further than to load, until it starts anew (TransactionStateManager.validateTransactionTopicPartitionCountIsStable).
func (c *Cluster) transactionsMoved(p *partition) {
	c.transactions.coordinator.Unload(p.index)
	c.loadCoordinator(p, func() {
		if int32(len(p.topic.partitions)) != c.spread[transactionStateTopic] {
			p.coordinator = coordinatorLoading
			return
		}
		c.reloadTransactions(p)
	})
}

// reloadTransactions reads the transactional ids of a partition of __transaction_state.
func (c *Cluster) reloadTransactions(p *partition) {
	if err := c.replayTransactionsOf(p); err != nil {
		c.log.Error("the transactional ids of a partition could not be loaded, which is tried again", "partition", p, "error", err)
		c.transactions.coordinator.Unload(p.index)
		c.loadLater(p, loadRetry, func() { c.reloadTransactions(p) })
	}
}
