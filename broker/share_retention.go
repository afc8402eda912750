package broker

import "time"

// pruneInterval is how often what is redundant of __share_group_state is removed, and the age from which a snapshot is written again so that what
// stands before it can be: the defaults of share.coordinator.state.topic.prune.interval.ms and
// share.coordinator.cold.partition.snapshot.interval.ms, which Kafka keeps to itself.
const pruneInterval = 5 * time.Minute

// armPruning sets the timer to the next removal of redundant state, unless it is set.
func (c *Cluster) armPruning() {
	if c.share.pruning == nil {
		c.share.pruning = c.after(pruneInterval, func() {
			c.share.pruning = nil
			c.pruneShareState()
		})
	}
}

// pruneShareState removes the records of __share_group_state that say nothing any more.
func (c *Cluster) pruneShareState() {
	t := c.topics[shareStateTopic]
	if t == nil {
		return
	}
	partitions := c.spread[shareStateTopic]
	if err := c.applyShareRecords(c.share.coordinator.ColdSnapshots(c.now(), pruneInterval.Milliseconds(), partitions)...); err != nil {
		c.log.Error("share state that has not changed could not be written again", "error", err)
		return
	}
	needed := c.share.coordinator.Redundant(partitions)
	for _, p := range t.partitions {
		from, ok := needed[p.index]
		if !ok {
			from = p.log.EndOffset()
		}
		if from <= p.log.StartOffset() {
			continue
		}
		if err := p.log.SetStartOffset(from); err != nil {
			c.log.Error("redundant share state could not be removed", "partition", p, "error", err)
		}
	}
}
