package broker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
	"kshare/txn"
)

// OpenTransaction is a transaction that is not complete: read_committed and share groups wait for it. It is what can hold records for as long as nobody ends it, where it
// has no timeout.
type OpenTransaction struct {
	// ID is the transactional id, "" where none has the producer whose acknowledgements wait: its transaction has ended without them, and no marker will come.
	ID            string
	State         string // as DescribeTransactions shows it, "" without an ID
	ProducerID    int64  // of what the transaction has written, like ProducerEpoch
	ProducerEpoch int16
	Timeout       time.Duration // 0 for none, where it is part of a two-phase commit
	Began         time.Time     // zero without an ID
	Partitions    []txn.TopicPartition
	Staged        []StagedRecords // in the order of group, topic and first offset
}

// StagedRecords are records of a share partition whose acknowledgement is part of a transaction (KIP-1289), as they are persisted.
type StagedRecords struct {
	Group, Topic            string
	Partition               int32
	FirstOffset, LastOffset int64 // inclusive
}

// InspectTransactions returns the transactions of all nodes that are not complete, in the order of their ids.
func (c *Cluster) InspectTransactions() []OpenTransaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.openTransactions()
}

func (c *Cluster) openTransactions() []OpenTransaction {
	staged := c.stagedRecords()
	var open []OpenTransaction
	for _, id := range c.transactions.coordinator.IDs() {
		t, _ := c.transactions.coordinator.Lookup(id)
		if !t.Open() {
			continue
		}
		x := c.transactionState(id, &t)
		x.Staged = staged[t.ID]
		open = append(open, x)
		delete(staged, t.ID)
	}
	for producer, records := range staged {
		open = append(open, OpenTransaction{ProducerID: producer, ProducerEpoch: txn.NoEpoch, Staged: records})
	}
	slices.SortStableFunc(open, func(a, b OpenTransaction) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.ProducerID, b.ProducerID))
	})
	return open
}

// transactionState is what is known of a transactional id, without what is staged.
func (c *Cluster) transactionState(id string, t *txn.Transaction) OpenTransaction {
	x := OpenTransaction{ID: id, State: t.State.String(), ProducerID: t.ID, ProducerEpoch: t.Epoch, Partitions: t.Partitions}
	if t.StartMs >= 0 {
		x.Began = time.UnixMilli(t.StartMs)
	}
	if !t.TwoPhase() {
		x.Timeout = time.Duration(t.TimeoutMs) * time.Millisecond
	}
	return x
}

// stagedRecords are the records whose acknowledgements wait for the end of transactions, by producer id.
func (c *Cluster) stagedRecords() map[int64][]StagedRecords {
	staged := map[int64][]StagedRecords{}
	if c.apis.TxnShareAcknowledge() == nil {
		return staged
	}
	for k, state := range c.share.coordinator.States() {
		t := c.topicsByID[k.Topic]
		if t == nil {
			continue
		}
		for i := range state.Batches {
			if b := &state.Batches[i]; b.State == int8(sharepartition.TxPending) {
				staged[b.Staged.ProducerID] = append(staged[b.Staged.ProducerID], StagedRecords{k.Group, t.name, k.Partition, b.FirstOffset, b.LastOffset})
			}
		}
	}
	for _, records := range staged {
		slices.SortFunc(records, func(a, b StagedRecords) int {
			return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.FirstOffset, b.FirstOffset))
		})
	}
	return staged
}

// stagedIn is how many records of a share partition wait for the end of transactions.
func stagedIn(s *sharecoordinator.State) (n int64) {
	for i := range s.Batches {
		if b := &s.Batches[i]; b.State == int8(sharepartition.TxPending) {
			n += b.LastOffset - b.FirstOffset + 1
		}
	}
	return n
}

// AbortTransaction aborts a transaction that is ongoing, whoever owns it, as its timeout would: its owner is fenced. It is done, but for the markers, when it
// returns. It fails where there is none, one that is decided already included.
func (c *Cluster) AbortTransaction(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.transactions.coordinator.Lookup(id)
	if !ok {
		return fmt.Errorf("there is no transactional id %q", id)
	}
	d := c.transactions.coordinator.Abort(c.clock.Now(), id)
	if d.Code != errorcode.None {
		return fmt.Errorf("the transaction of %q cannot be aborted: its state is %s: %s", id, t.State, errorcode.Name(d.Code))
	}
	if err := c.storeTransition(d.Transition); err != nil {
		return fmt.Errorf("abort of the transaction of %q: %w", id, err)
	}
	return nil
}

// ReleaseStaged ends what is staged for a producer that has no open transaction, as the abort of one would: no marker comes for it by itself. It fails where there is none, where
// a transaction of the producer is open, and where a share coordinator that keeps some of it is not there; what others keep is released then.
func (c *Cluster) ReleaseStaged(producerID int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.openTransactions()
	at := slices.IndexFunc(all, func(t OpenTransaction) bool { return t.ProducerID == producerID })
	switch {
	case at < 0:
		return fmt.Errorf("nothing waits for a transaction of the producer %d", producerID)
	case all[at].ID != "":
		return fmt.Errorf("the producer %d has the open transaction of %q, which can be aborted", producerID, all[at].ID)
	}
	for _, kept := range c.topics[shareStateTopic].partitions {
		endings := c.share.coordinator.Release(c.now(), kept.index, c.spread[shareStateTopic], producerID, c.afterTransaction(false))
		if len(endings) > 0 && !kept.coordinated() {
			return fmt.Errorf("release of what waits for the producer %d: %s has no coordinator", producerID, kept)
		}
		if err := c.endStaged(kept, endings, false); err != nil {
			return fmt.Errorf("release of what waits for the producer %d: %w", producerID, err)
		}
	}
	return nil
}
