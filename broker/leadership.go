package broker

import (
	"errors"
	"fmt"
	"slices"

	"kshare/protocol/errorcode"
)

// noNode is the id of no node, noLeader stands for the leader of a partition that has none.
const (
	noNode   int32 = -1
	noLeader       = noNode
)

// live are those of some nodes that the others count on.
func (c *Cluster) live(ids []int32) []int32 {
	live := make([]int32, 0, len(ids))
	for _, id := range ids {
		if c.node(id).live() {
			live = append(live, id)
		}
	}
	return live
}

// nodesChanged gives every partition the in-sync replicas and the leader that it has now that nodes came or went.
func (c *Cluster) nodesChanged() error {
	var failed error
	var moved []*partition
	for _, t := range c.sortedTopics() {
		changed := false
		for _, p := range t.partitions {
			if p.elect() {
				changed = true
				moved = append(moved, p)
			}
		}
		if changed {
			failed = errors.Join(failed, c.storeTopic(t))
		}
	}
	for _, p := range moved { // once all of them have moved, for what follows concerns several
		p.leaderChanged()
	}
	return failed
}

// elect takes the nodes that are gone out of the partition's ISR and puts those in that are there; a partition without a leader that is there gets
// one, the first of its replicas that is in the ISR or was the last to leave it. It reports whether the leader has changed.
// Source: PartitionChangeBuilder, with replicas that catch up at once.
func (p *partition) elect() (changed bool) {
	c := p.cluster
	p.shrinkISR(c.live(p.isr))
	if p.leader == noLeader || !c.node(p.leader).live() {
		leader := noLeader
		at := slices.IndexFunc(p.replicas, func(id int32) bool {
			return c.node(id).live() && (slices.Contains(p.isr, id) || slices.Contains(p.elr, id))
		})
		if at >= 0 {
			leader = p.replicas[at]
		}
		if changed = leader != p.leader; changed {
			p.setLeader(leader)
		}
	}
	if p.leader == noLeader {
		return changed
	}
	if !slices.Contains(p.isr, p.leader) {
		p.isr = []int32{p.leader}
	}
	grown := p.isr
	for _, id := range c.live(p.replicas) {
		if !slices.Contains(grown, id) {
			grown = append(grown, id)
		}
	}
	if len(grown) > len(p.isr) {
		slices.Sort(grown) // out of a java.util.HashSet
	}
	p.shrinkISR(grown)
	return changed
}

// shrinkISR sets the ISR. Who leaves it while fewer than min.insync.replicas are left stays eligible to lead (KIP-966); without that feature the last
// one stays in it.
func (p *partition) shrinkISR(isr []int32) {
	defer p.holdHighWatermark()
	if p.cluster.features.Levels[elrFeature] < 1 {
		if len(isr) > 0 {
			p.isr = isr
		}
		return
	}
	var elr []int32
	if len(isr) < p.minISR() {
		elr = slices.Concat(p.elr, p.isr)
		slices.Sort(elr)
		elr = slices.DeleteFunc(slices.Compact(elr), func(id int32) bool { return slices.Contains(isr, id) })
	}
	p.isr, p.elr = isr, elr
}

// minISR is min.insync.replicas, as far as there are replicas.
func (p *partition) minISR() int { return min(int(p.topic.config.minISR), len(p.replicas)) }

// holdHighWatermark keeps the high watermark where it is while fewer than min.insync.replicas are in sync, and shows what was appended meanwhile once there
// are enough (Partition.maybeIncrementLeaderHW).
func (p *partition) holdHighWatermark() {
	switch under := len(p.isr) < p.minISR(); {
	case under && !p.held:
		p.held, p.heldAt = true, p.log.EndOffset()
	case !under && p.held:
		hidden := p.uncommitted()
		p.held = false
		if hidden {
			p.wakeFetches(p.log.EndOffset())
			p.wakeShareFetches()
			p.commitWaiters.each(func(w *commitWaiter) { w.end(errorcode.None) })
		}
	}
}

// setLeader makes a node the leader, or nobody.
func (p *partition) setLeader(id int32) {
	if id == noLeader {
		p.lastLeader = p.leader
	}
	p.leader, p.unhinted = id, false
	p.leaderEpoch++
	if id != noLeader {
		p.epochs.begin(p.leaderEpoch, p.log.EndOffset())
	}
}

// leaderChanged ends what was bound to the leader that was: share partitions are forgotten, who may no longer wait there is answered, and what a coordinator
// kept in the partition is read again by its successor.
func (p *partition) leaderChanged() {
	for _, group := range p.shareGroupsInOrder() {
		p.shareGroups[group].forget()
	}
	p.shareLoads.each((*shareWaiter).finish)
	p.recheckFetches()
	p.coordinatorChanged()
}

// mayLead says why a node cannot be made the partition's leader.
func (p *partition) mayLead(n *node) error {
	switch {
	case !slices.Contains(p.replicas, n.id):
		return fmt.Errorf("node %d has no replica of %s, nodes %v have", n.id, p, p.replicas)
	case !n.runs():
		return fmt.Errorf("node %d is stopped", n.id)
	case n.gate.isShut():
		return fmt.Errorf("node %d is cut off", n.id)
	case !slices.Contains(p.isr, n.id):
		return fmt.Errorf("node %d is not in sync with %s, nodes %v are the last that were", n.id, p, p.elr)
	}
	return nil
}
