package broker

import (
	"kshare/coordinator"
	"kshare/protocol/errorcode"
)

// coordinatorState is how far the coordinator that leads a partition of an internal topic has come.
type coordinatorState int8

const (
	coordinatorActive  coordinatorState = iota // it has read what the partition holds
	coordinatorLoading                         // it is reading it
	coordinatorFailed                          // it could not; the next leader tries again
)

// notCoordinating is why a node does not coordinate what a partition of an internal topic keeps, 0 where it does.
func (p *partition) notCoordinating(n *node) int16 {
	switch {
	case p.leader != n.id || p.coordinator == coordinatorFailed:
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

// loadGroups reads the groups of a partition of __consumer_offsets.
func (c *Cluster) loadGroups(p *partition) {
	var e coordinator.Effects
	err := c.replayGroupsOf(p, &e)
	if err == nil {
		err = c.groupEffects(&e)
	}
	if err != nil {
		c.log.Error("the groups of a partition could not be loaded, there is no coordinator for them until it has another leader", "partition", p, "error", err)
		p.coordinator = coordinatorFailed
		c.unloadGroups(p)
	}
}

// shareStateMoved has the share coordinator of a partition of __share_group_state begin with what the partition holds. Nothing is read for it: what is in
// memory is what was appended.
func (c *Cluster) shareStateMoved(p *partition) {
	c.loadCoordinator(p, func() {
		c.share.coordinator.Reload(p.index, int32(len(p.topic.partitions)))
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
	case p.leader == noLeader:
	case wait <= 0:
		load()
	default:
		p.coordinator = coordinatorLoading
		p.loading = c.after(wait, func() {
			p.loading, p.coordinator = nil, coordinatorActive
			load()
		})
	}
}
