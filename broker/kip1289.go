package broker

import (
	"fmt"
	"slices"

	"kshare/kip1289"
	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
)

// transactionalAckShareVersion is the level of share.version that brings transactional acknowledgements (KIP-1289).
const transactionalAckShareVersion = 3

// transactionalAcks is how the broker takes acknowledgements in transactions, if it does: if its APIs have TxnShareAcknowledge.
type transactionalAcks struct{ kip1289.Switches }

// takeTransactionalAcks has the cluster take acknowledgements in transactions.
func (c *Cluster) takeTransactionalAcks(s *kip1289.Switches) {
	c.kip1289 = transactionalAcks{*s}
	c.apis = protocol.WithTxnShareAcknowledge(s.Key())
}

// draft is what the share coordinator does as the draft does.
func (t *transactionalAcks) draft() sharecoordinator.Draft {
	return sharecoordinator.Draft{
		NoLateStageFence:    t.Is(kip1289.LateStageFence, "off"),
		ExactEpochs:         t.Is(kip1289.EpochMatch, "exact"),
		NoCoordinatorEpochs: t.Is(kip1289.CoordinatorEpochCheck, "off"),
		HigherStateWins:     t.Is(kip1289.PersistedMerge, "higher-state"),
	}
}

// api finds an API and who handles it, nil where Kafka has none with the key.
func (c *Cluster) api(key int16) (*protocol.API, *handler) {
	a := c.apis.ByKey(key)
	if a != nil && a == c.apis.TxnShareAcknowledge() {
		return a, txnShareAcknowledgeHandler
	}
	if h := handlers[key]; h != nil {
		return a, h
	}
	return a, notOffered
}

// takesTransactionalAcks tells whether the finalised features allow for acknowledgements in transactions.
func (c *Cluster) takesTransactionalAcks() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transactionalAcksOn()
}

func (c *Cluster) transactionalAcksOn() bool {
	return c.kip1289.Is(kip1289.FeatureGate, "open") ||
		c.features.Levels["share.version"] >= transactionalAckShareVersion && c.transactionVersion() >= 2
}

func stagedInPartition(s sharecoordinator.Staged) sharepartition.Staged {
	return sharepartition.Staged{ProducerID: s.ProducerID, ProducerEpoch: s.ProducerEpoch, Type: s.Type, Committed: sharepartition.State(s.DeliveryState)}
}

func stagedInCoordinator(s sharepartition.Staged) sharecoordinator.Staged {
	return sharecoordinator.Staged{ProducerID: s.ProducerID, ProducerEpoch: s.ProducerEpoch, Type: s.Type, DeliveryState: int8(s.Committed)}
}

// endShareTransaction ends a transaction in the share partitions whose state a partition of __share_group_state keeps. No marker is written there: what is
// stored are the states that follow.
func (c *Cluster) endShareTransaction(kept *partition, m *marker) int16 {
	if kept.coordinator != coordinatorActive {
		return errorcode.NotLeaderOrFollower
	}
	c.expireProducers()
	end := sharecoordinator.Marker{ProducerID: m.ID, ProducerEpoch: m.Epoch, CoordinatorEpoch: m.coordinatorEpoch, Commit: m.commit, Version: m.version}
	endings, no := c.share.coordinator.EndTransaction(c.now(), kept.index, c.spread[shareStateTopic], end, c.afterTransaction(m.commit))
	if no != nil {
		return no.ErrorCode
	}
	if err := c.endStaged(kept, endings, m.commit); err != nil {
		c.log.Error("the end of a transaction could not be stored", "partition", kept, "error", err)
		return errorcode.KafkaStorageError
	}
	c.share.coordinator.TransactionEnded(c.now(), kept.index, end)
	return errorcode.None
}

// endStaged stores what has become of share partitions whose state a partition of __share_group_state keeps, and tells their leaders. What comes again after an error does not
// find what is stored.
func (c *Cluster) endStaged(kept *partition, endings []sharecoordinator.Ending, commit bool) error {
	for i := range endings {
		if err := c.appendShareRecord(kept, &endings[i].Record); err != nil {
			return fmt.Errorf("share partition %s: %w", endings[i].Record.Key, err)
		}
		c.tellLeader(endings[i].Record.Key, endings[i].Decided, commit)
	}
	return nil
}

// forgetShareState has the share coordinator forget what a partition of __share_group_state has kept, which is gone. No marker finds what waits for transactions there:
// for the leaders these are over, as after an abort.
func (c *Cluster) forgetShareState(p *partition) {
	for _, e := range c.share.coordinator.Unload(p.index, c.spread[shareStateTopic], c.afterTransaction(false)) {
		c.tellLeader(e.Record.Key, e.Decided, false)
	}
}

// forgetStaged has the leader of a share partition whose state was put in place of another, or deleted, read it anew if records wait for transactions there:
// no marker finds them any more, and without a lock nothing else would have the leader see that its state is gone.
func (c *Cluster) forgetStaged(k sharecoordinator.Key) {
	t := c.topicsByID[k.Topic]
	if t == nil || t.partition(k.Partition) == nil {
		return
	}
	if sp := t.partition(k.Partition).shareGroups[k.Group]; sp != nil && len(sp.state.Staged(nil)) > 0 {
		sp.forget()
	}
}

// afterTransaction is the state that a record has after a transaction.
func (c *Cluster) afterTransaction(commit bool) func(sharecoordinator.Key, *sharecoordinator.Batch) int8 {
	return func(k sharecoordinator.Key, b *sharecoordinator.Batch) int8 {
		if commit && b.Staged.DeliveryState != int8(sharepartition.Available) {
			return b.Staged.DeliveryState
		}
		limits := c.shareLimits(k.Group)
		switch {
		case int(b.DeliveryCount) < limits.DeliveryCount || !commit && c.kip1289.Is(kip1289.DeliveryLimitOnAbort, "ignore"):
			return int8(sharepartition.Available)
		case limits.DeadLetter:
			return int8(sharepartition.Archiving)
		}
		return int8(sharepartition.Archived)
	}
}

// tellLeader tells the leader of a share partition, if it has it in memory, what the end of a transaction has made of records.
func (c *Cluster) tellLeader(k sharecoordinator.Key, decided []sharecoordinator.Batch, commit bool) {
	t := c.topicsByID[k.Topic]
	if t == nil || t.partition(k.Partition) == nil {
		return
	}
	sp := t.partition(k.Partition).shareGroups[k.Group]
	if sp == nil {
		return
	}
	if c.kip1289.Is(kip1289.LeaderRefresh, "reload") {
		sp.forget()
		return
	}
	resolved := make([]sharepartition.StateBatch, len(decided))
	for i, b := range decided {
		resolved[i] = sharepartition.StateBatch{
			FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, State: sharepartition.State(b.State), DeliveryCount: b.DeliveryCount, Staged: stagedInPartition(b.Staged),
		}
		switch resolved[i].State {
		case sharepartition.Archiving:
			if resolved[i].Reason = sharepartition.ReasonExceeded; commit {
				resolved[i].Reason = sharepartition.ReasonRejected
			}
		case sharepartition.Available:
			if !commit && c.kip1289.Is(kip1289.AbortState, "acquired") {
				resolved[i].State = sharepartition.Acquired
			}
		}
	}
	for _, w := range sp.partition.openShareWrites {
		if w.sp == sp {
			w.ends = append(w.ends, w.write.Decided(resolved)...)
		}
	}
	sp.resolve(resolved)
}

// resolve has what the end of a transaction has made of records take effect.
func (sp *sharePartition) resolve(resolved []sharepartition.StateBatch) {
	c := sp.partition.cluster
	before := sp.state.StartOffset()
	settled := sp.state.Resolve(c.clock.Now(), resolved, c.shareLimits(sp.group))
	sp.tell(ActionResolve, func(s *ShareChange) {
		if s.Resolved = resolved; len(resolved) > 0 {
			s.Staged = resolved[0].Staged
		}
	})
	if len(settled.Archiving) > 0 {
		p := sp.partition
		sp.sendDeadLetters(slices.Clone(settled.Archiving), c.node(p.leader), p.leaderEpoch)
	}
	if !sp.settled(before) && settled.Available {
		sp.wake()
	}
}
