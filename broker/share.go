package broker

import (
	"errors"
	"fmt"

	"kshare/clock"
	"kshare/coordinator"
	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
	"kshare/sharesession"
)

// share is what the nodes know of share groups beyond their membership: the share coordinator and each node's share sessions.
type share struct {
	coordinator *sharecoordinator.Coordinator
	sessions    map[int32]*sharesession.Sessions // by node id

	counters   shareCounters
	faults     []*WriteFault                    // in the order in which they were begun
	pruning    clock.Timer                      // until redundant state is removed, nil while nothing was written since
	builder    *protocol.BatchBuilder           // of batches for __share_group_state
	batches    []sharecoordinator.Batch         // of the write under way; kept for the next one
	acks       []sharepartition.Acknowledgement // of the partition under way; kept for the next one
	settings   map[string]*shareSettings        // by group
	generation uint64                           // of the configurations that settings come from
}

// maxKept bounds the elements of a slice that is kept for the next use.
const maxKept = 1 << 10

// kept is an emptied slice for the next use, nil where it has grown beyond what is kept.
func kept[T any](s []T) []T {
	if cap(s) > maxKept {
		return nil
	}
	return s[:0]
}

func newShare(c *Cluster) *share {
	s := &share{counters: newShareCounters(), sessions: map[int32]*sharesession.Sessions{}, builder: protocol.NewBatchBuilder(), settings: map[string]*shareSettings{}}
	s.coordinator = sharecoordinator.New(sharecoordinator.Config{
		UpdatesPerSnapshot: int(c.brokerInt("share.coordinator.snapshot.update.records.per.snapshot")),
		Release:            c.traits,
		Draft:              c.kip1289.draft(),
		Exists: func(id [16]byte, partition int32) bool {
			t := c.topicsByID[id]
			return t != nil && t.partition(partition) != nil
		},
	})
	for _, n := range c.nodes {
		s.sessions[n.id] = sharesession.New()
	}
	return s
}

// shareEnabled tells whether share groups are switched on, by share.version or group.share.enable.
func (c *Cluster) shareEnabled() bool {
	return c.forceShare || c.features.Levels["share.version"] >= 1
}

// loadShare rebuilds the share coordinator's state from __share_group_state.
func (c *Cluster) loadShare() error {
	t := c.topics[shareStateTopic]
	if t == nil {
		return nil
	}
	for _, p := range t.partitions {
		keeper := recordKeeper{p: p}
		err := p.eachRecord(func(h *protocol.BatchHeader, r *protocol.Record) error {
			record, err := sharecoordinator.Decode(r.Key, r.Value)
			switch {
			case p.coordinator == coordinatorFailed:
			case err == nil && !keeper.keeps(record.Key.String()):
			case errors.Is(err, sharecoordinator.ErrUnknownType):
				c.leaveOut(p, h, r, err)
			case err != nil:
				c.failCoordinator(p, h, r, err)
			default:
				c.share.coordinator.Apply(&record, h.BaseOffset+int64(r.OffsetDelta))
			}
			return nil
		})
		if err != nil {
			return err
		}
		keeper.report()
	}
	c.armPruning()
	return nil
}

// applyShareRecords appends records of the share coordinator to __share_group_state and lets them take effect.
func (c *Cluster) applyShareRecords(records ...sharecoordinator.Record) error {
	for i := range records {
		r := &records[i]
		if r.IsEmpty() {
			continue
		}
		if _, err := c.internalTopic(shareStateTopic); err != nil {
			return err
		}
		if err := c.appendShareRecord(c.shareStatePartition(r.Key), r); err != nil {
			return err
		}
	}
	return nil
}

// recordRoom is what a record takes in a batch beside its key and value, at most, and the batch's header.
const recordRoom = protocol.BatchHeaderSize + 64

// appendShareRecord appends a record to a partition of __share_group_state and lets it take effect.
func (c *Cluster) appendShareRecord(p *partition, r *sharecoordinator.Record) error {
	if p == nil {
		return fmt.Errorf("nobody keeps the state of share partition %s", r.Key)
	}
	key, value := r.Encode()
	b := c.share.builder
	err := b.Reset(make([]byte, 0, recordRoom+len(key)+len(value)))
	if err == nil {
		err = b.Append(c.now(), key, value)
	}
	if err != nil {
		return fmt.Errorf("state of share partition %s: %w", r.Key, err)
	}
	if err := p.appendBuilt(b); err != nil {
		return err
	}
	c.share.coordinator.Apply(r, p.log.EndOffset()-1)
	if r.IsTombstone() {
		delete(c.share.counters.partitions, r.Key)
	}
	c.armPruning()
	return nil
}

// shareStateChanges does the share coordinator's part of what a group wants and tells the group how it went.
func (c *Cluster) shareStateChanges(changes []coordinator.ShareStateChange, e *coordinator.Effects) error {
	var failed error
	for _, change := range changes {
		var done, undone []coordinator.TopicPartitions
		var deleted [][16]byte
		for _, t := range change.Topics {
			good := coordinator.TopicPartitions{ID: t.ID, Name: t.Name}
			bad := good
			for _, p := range t.Partitions {
				k := sharecoordinator.Key{Group: change.Group, Topic: t.ID, Partition: p.Partition}
				if err := c.changeShareState(k, &change, p.StartOffset); err != nil {
					failed = errors.Join(failed, err)
					bad.Partitions = append(bad.Partitions, p.Partition)
				} else {
					good.Partitions = append(good.Partitions, p.Partition)
				}
			}
			if len(good.Partitions) > 0 {
				done = append(done, good)
			}
			if len(bad.Partitions) > 0 {
				undone = append(undone, bad)
			} else {
				deleted = append(deleted, t.ID)
			}
		}
		now := c.clock.Now()
		if change.Delete {
			c.groups.coordinator.ShareStateDeleted(change.Group, deleted, e)
			continue
		}
		c.groups.coordinator.ShareStateInitialized(now, change.Group, done, e)
		c.groups.coordinator.ShareStateFailed(now, change.Group, undone, e)
	}
	return failed
}

// changeShareState initialises or deletes the state of one share partition.
func (c *Cluster) changeShareState(k sharecoordinator.Key, change *coordinator.ShareStateChange, startOffset int64) error {
	if !c.hasShareCoordinator(k) {
		return fmt.Errorf("state of share partition %s: its share coordinator is not there", k)
	}
	var record sharecoordinator.Record
	var no *sharecoordinator.Refusal
	if change.Delete {
		record, no = c.share.coordinator.Delete(k)
	} else {
		record, no = c.share.coordinator.Initialize(c.now(), k, change.StateEpoch, startOffset)
	}
	if no != nil {
		return fmt.Errorf("state of share partition %s: %s: %s", k, errorcode.Name(no.ErrorCode), no.Message)
	}
	if err := c.applyShareRecords(record); err != nil {
		return err
	}
	c.forgetStaged(k)
	return nil
}

// shareTopicDeleted removes the share state of a topic that is gone.
func (c *Cluster) shareTopicDeleted(t *topic) {
	for _, p := range t.partitions {
		for _, group := range p.shareGroupsInOrder() {
			p.shareGroups[group].forget()
		}
	}
	if err := c.applyShareRecords(c.share.coordinator.TopicDeleted(t.id)...); err != nil {
		c.log.Error("the share state of a deleted topic could not be removed", "topic", t.name, "error", err)
	}
}
