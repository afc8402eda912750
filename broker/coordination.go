package broker

import (
	"time"

	"kshare/clock"
	"kshare/coordinator"
	"kshare/protocol/errorcode"
)

// coordinatorState is how far the coordinator that leads a partition of an internal topic has come.
type coordinatorState int8

const (
	coordinatorActive  coordinatorState = iota // it has read what the partition holds
	coordinatorLoading                         // it is reading it
	coordinatorFailed                          // it cannot read it, and serves nothing of it (CoordinatorRuntime)
)

// coordinated tells whether the partition of an internal topic has a coordinator that has read it.
func (p *partition) coordinated() bool {
	return p.leader != noLeader && p.coordinator == coordinatorActive
}

// notCoordinating is why a node does not coordinate what a partition of an internal topic keeps, 0 where it does. Of none nobody does.
func (p *partition) notCoordinating(n *node) int16 {
	switch {
	case p == nil, p.leader != n.id, p.coordinator == coordinatorFailed:
		return errorcode.NotCoordinator
	case p.coordinator == coordinatorLoading:
		return errorcode.CoordinatorLoadInProgress
	}
	return errorcode.None
}

// groupsMoved has the groups of a partition of __consumer_offsets forgotten by the coordinator that was and read by the next one.
func (c *Cluster) groupsMoved(p *partition) {
	c.unloadGroups(p)
	c.loadCoordinator(p, func() { c.loadGroups(p) })
}

// unloadGroups forgets the groups of a partition of __consumer_offsets. Who waits in them is sent away.
func (c *Cluster) unloadGroups(p *partition) {
	var e coordinator.Effects
	c.groups.coordinator.Unload(p.index, &e)
	for _, done := range e.Completed {
		done.Token.(*request).complete(done.Response)
	}
	c.armGroups()
}

// loadGroups reads the groups of a partition of __consumer_offsets. While they cannot be read they are being loaded: Apache Kafka would move the partition
// away from a disk that fails.
func (c *Cluster) loadGroups(p *partition) {
	var e coordinator.Effects
	err := c.replayGroupsOf(p, &e)
	if err == nil {
		err = c.appendGroupRecords(e.Records)
	}
	if err != nil {
		c.log.Error("the groups of a partition could not be loaded, which is tried again", "partition", p, "error", err)
		c.unloadGroups(p)
		c.loadLater(p, loadRetry, func() { c.loadGroups(p) })
		return
	}
	c.armGroups()
}

// loadRetry is how long after a failure a coordinator tries again to load a partition.
const loadRetry = time.Second

// shareStateMoved has the share coordinator of a partition of __share_group_state begin with what the partition holds. Nothing is read for it: what is in
// memory is what was appended.
func (c *Cluster) shareStateMoved(p *partition) {
	if p.gone {
		c.forgetShareState(p)
	}
	failed := p.coordinator == coordinatorFailed
	c.share.coordinator.ForgetGuards(p.index) // no marker comes before it is loaded, so that guards that are taken meanwhile are good
	c.loadCoordinator(p, func() {
		if failed {
			p.coordinator = coordinatorFailed
			return
		}
		c.share.coordinator.Reload(p.index, c.spread[shareStateTopic])
		c.wakeShareLoads()
	})
}

// loadCoordinator calls load once the new leader of an internal topic's partition has had its time to load it.
func (c *Cluster) loadCoordinator(p *partition, load func()) {
	if p.loading != nil {
		p.loading.Stop()
		p.loading = nil
	}
	wait := p.loadFor
	p.coordinator, p.loadFor = coordinatorActive, 0
	switch {
	case p.leader == noLeader, p.gone:
	case wait <= 0:
		load()
	default:
		c.loadLater(p, wait, load)
	}
}

// loadLater calls load in a while, until which the coordinator of the partition is loading.
func (c *Cluster) loadLater(p *partition, wait time.Duration, load func()) {
	p.coordinator = coordinatorLoading
	p.loading = c.after(wait, func() {
		p.loading, p.coordinator = nil, coordinatorActive
		load()
	})
}

// deadline is a timer that follows the next deadline of a coordinator.
type deadline struct {
	timer clock.Timer // nil where there is none
	at    time.Time   // when it fires
}

// follow has f called at a time, in place of an earlier one; without ok there is none.
func (d *deadline) follow(c *Cluster, at time.Time, ok bool, f func()) {
	if d.timer != nil {
		if ok && d.at.Equal(at) {
			return
		}
		d.timer.Stop()
		d.timer = nil
	}
	if !ok {
		return
	}
	d.at = at
	d.timer = c.after(at.Sub(c.clock.Now()), func() {
		d.timer = nil
		f()
	})
}
