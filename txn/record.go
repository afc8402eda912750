package txn

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Record returns the record of __transaction_state that stores a transition, in the version that belongs to a level of
// transaction.version; the value of a tombstone is nil.
func (t *Transition) Record(level int16) (key, value []byte) {
	k := kmsg.NewTxnMetadataKey()
	k.TransactionalID = t.ID
	key = k.AppendTo(nil)
	if t.Forget {
		return key, nil
	}
	v := kmsg.NewTxnMetadataValue()
	v.Version = min(level, 1)
	n := &t.Next
	v.ProducerID, v.ProducerEpoch, v.TimeoutMillis = n.ID, n.Epoch, n.TimeoutMs
	v.State = kmsg.TransactionState(n.State)
	v.LastUpdateTimestamp, v.StartTimestamp = n.UpdateMs, n.StartMs
	v.PreviousProducerID, v.NextProducerID, v.NextProducerEpoch = n.PreviousProducerID, n.NextProducerID, n.NextEpoch
	v.ClientTransactionVersion = int16(n.Flow)
	if n.State != Empty {
		v.Topics = recordTopics(n.Partitions)
	}
	return key, v.AppendTo(nil)
}

// recordTopics groups partitions by their topics.
func recordTopics(partitions []TopicPartition) []kmsg.TxnMetadataValueTopic {
	topics := []kmsg.TxnMetadataValueTopic{}
	for _, p := range partitions {
		if n := len(topics); n == 0 || topics[n-1].Topic != p.Topic {
			topics = append(topics, kmsg.TxnMetadataValueTopic{Topic: p.Topic})
		}
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, p.Partition)
	}
	return topics
}

// Replay takes in a record that is read back; those of an id are given in the order of their offsets. Errors name what cannot be read.
func (c *Coordinator) Replay(key, value []byte) error {
	k := kmsg.NewTxnMetadataKey()
	if err := k.ReadFrom(key); err != nil {
		return fmt.Errorf("key of a transactional id: %w", err)
	}
	if k.Version != 0 {
		return fmt.Errorf("key of a transactional id: version %d is unknown", k.Version)
	}
	if value == nil {
		delete(c.ids, k.TransactionalID)
		return nil
	}
	v := kmsg.NewTxnMetadataValue()
	if err := v.ReadFrom(value); err != nil {
		return fmt.Errorf("transactional id %q: %w", k.TransactionalID, err)
	}
	if v.Version > 1 || v.State < 0 || State(v.State) > CompleteAbort {
		return fmt.Errorf("transactional id %q: version %d and state %d are not both known", k.TransactionalID, v.Version, v.State)
	}
	e := &entry{Transaction: Transaction{
		Producer: Producer{v.ProducerID, v.ProducerEpoch}, PreviousProducerID: v.PreviousProducerID, NextProducerID: v.NextProducerID, NextEpoch: v.NextProducerEpoch,
		LastEpoch: NoEpoch, TimeoutMs: v.TimeoutMillis, State: State(v.State),
		StartMs: v.StartTimestamp, UpdateMs: v.LastUpdateTimestamp, Flow: Flow(v.ClientTransactionVersion),
	}}
	for _, t := range v.Topics {
		for _, p := range t.Partitions {
			e.Partitions = append(e.Partitions, TopicPartition{t.Topic, p})
		}
	}
	e.Partitions = union(nil, e.Partitions)
	c.ids[k.TransactionalID] = e
	return nil
}

// Unload forgets the ids that a partition of __transaction_state keeps, whose coordinator is another node from now on.
func (c *Coordinator) Unload(partition int32) {
	for id := range c.ids {
		if c.config.PartitionFor(id) == partition {
			delete(c.ids, id)
		}
	}
}

// Loaded tells that all records of a partition were replayed. It returns the markers of the transactions that are decided and not complete, in the order
// of their ids: they are written again.
func (c *Coordinator) Loaded(now time.Time, partition int32) []*Markers {
	var found []*Markers
	for _, id := range c.IDs() {
		if c.config.PartitionFor(id) != partition {
			continue
		}
		e := c.ids[id]
		if e.State.preparing() {
			found = append(found, e.markers(id))
		}
		c.arm(now, e)
	}
	return found
}
