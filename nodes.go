package kshare

import (
	"fmt"
	"time"

	"kshare/broker"
)

// CoordinatorKind is what a coordinator is for.
type CoordinatorKind = broker.CoordinatorKind

// Kinds of coordinators, and what their keys are.
const (
	GroupCoordinator       = broker.GroupCoordinator       // a group id
	TransactionCoordinator = broker.TransactionCoordinator // a transactional id
	ShareCoordinator       = broker.ShareCoordinator       // group:topic id:partition, the id as Kafka prints it
)

// CoordinatorKindNamed is the kind of coordinators with a name that people write: group, transaction or share; false for another name.
func CoordinatorKindNamed(name string) (CoordinatorKind, bool) {
	k, ok := map[string]CoordinatorKind{"group": GroupCoordinator, "transaction": TransactionCoordinator, "share": ShareCoordinator}[name]
	return k, ok
}

// ShareWrites says which writes of share state go wrong, and how.
type ShareWrites = broker.ShareWrites

// MarkerWrites says which markers of transaction coordinators go wrong, and how.
type MarkerWrites = broker.MarkerWrites

// WriteFault is a fault that FaultShareWrites or FaultMarkers has begun.
type WriteFault = broker.WriteFault

// StopNode stops a node as a controlled shutdown of a broker does: its listener and its connections are closed, requests that wait there end without an
// answer. Records that members of share groups hold over them are released, which is stored with their delivery counts. What the node led is led by the next
// live replica of each partition that is in sync, in a new leader epoch, or by nobody where there is none. What only the node knew is gone: share sessions, fetch
// sessions, members that a coordinator has not stored. It is an error if the node is stopped.
func (c *Cluster) StopNode(id int32) error { return failed("stop node", c.broker().StopNode(id)) }

// StartNode starts a stopped node again, on the address that it had. It is in sync with the partitions that it has replicas of at once, but leads only
// those that had no leader and whose last in-sync replica it was. It is an error if the node runs or cannot listen.
func (c *Cluster) StartNode(id int32) error { return failed("start node", c.broker().StartNode(id)) }

// CutNode cuts a node off from its clients and the other nodes: nothing that is sent to it arrives, nothing that it sends, and connections to it are not
// served. Once that has lasted for broker.session.timeout.ms (9 s) of the cluster's clock it is fenced: what it led is led by others, as after StopNode,
// while it still keeps its sessions. It is an error if the node is stopped or cut off.
func (c *Cluster) CutNode(id int32) error { return failed("cut node", c.broker().CutNode(id)) }

// HealNode ends CutNode: what clients have sent meanwhile is answered, and the node comes back as with StartNode if it was fenced. It is an error if
// the node is not cut off.
func (c *Cluster) HealNode(id int32) error { return failed("heal node", c.broker().HealNode(id)) }

// MoveLeader makes a node the leader of a partition, in the next leader epoch. The node that led it answers what still comes with NOT_LEADER_OR_FOLLOWER, or
// FENCED_LEADER_EPOCH to who names the old epoch; with hint such answers name the new leader and where it is, otherwise they have -1 there. What waits there is
// answered so at once, but for a ShareFetch with TimingKafka, which waits on and then tells nothing of the partition. A ShareAcknowledge is refused with
// UNKNOWN_TOPIC_OR_PARTITION, without a hint. Acquisitions are gone with the old leader, what was acknowledged is not. It is an error if there is no such partition, or
// the node has no replica of it that is in sync and live, or leads it already.
func (c *Cluster) MoveLeader(topic string, partition, to int32, hint bool) error {
	return failed("move leader", c.broker().MoveLeader(topic, partition, to, hint))
}

// MoveCoordinator makes a node the coordinator of a key, and of all keys that the same partition of the internal topic keeps, by making it that
// partition's leader in the next leader epoch. It answers COORDINATOR_LOAD_IN_PROGRESS for a time of the cluster's clock, which may be 0; it may be the node
// that coordinates the key already, which then loads it again. The internal topic is made if there is none. It is an error if the key is none of its
// kind, or the node has no replica of the partition that is in sync and live.
func (c *Cluster) MoveCoordinator(kind CoordinatorKind, key string, to int32, loading time.Duration) error {
	return failed("move coordinator", c.broker().MoveCoordinator(kind, key, to, loading))
}

// FaultShareWrites makes writes of share state slow or has them fail, until the fault is removed or used up. Where several faults match a write, the
// first of them counts.
func (c *Cluster) FaultShareWrites(w ShareWrites) (*WriteFault, error) {
	f, err := c.broker().FaultShareWrites(w)
	return f, failed("a fault of share-state writes", err)
}

// FaultMarkers makes the markers that end transactions slow or has them fail, until the fault is removed or used up. Where several faults match a marker,
// the first of them counts.
func (c *Cluster) FaultMarkers(w MarkerWrites) (*WriteFault, error) {
	f, err := c.broker().FaultMarkers(w)
	return f, failed("a fault of markers", err)
}

// FailWrites has the next n writes to the cluster's store fail, all of them until MendStore where n is 0, whether it is kept in memory or in a directory.
// Without an error the disk is full (ENOSPC). What cannot be stored is answered as by Kafka: KAFKA_STORAGE_ERROR, and NOT_COORDINATOR for groups; a leader
// tries to write share state again for 30 s. Everything else goes on. It takes the place of what was told before.
func (c *Cluster) FailWrites(n int, err error) error {
	if n < 0 {
		return fmt.Errorf("kshare: fail writes: %d of them: name how many, or 0 for all", n)
	}
	c.current.Load().disk.FailWrites(n, err)
	return nil
}

// FailReads has the next n reads of records fail, all of them until MendStore where n is 0. Without an error the disk cannot be read (EIO). It takes the
// place of what was told before.
func (c *Cluster) FailReads(n int, err error) error {
	if n < 0 {
		return fmt.Errorf("kshare: fail reads: %d of them: name how many, or 0 for all", n)
	}
	c.current.Load().disk.FailReads(n, err)
	return nil
}

// MendStore has reads and writes succeed again.
func (c *Cluster) MendStore() { c.current.Load().disk.Mend() }

// failed says what could not be done.
func failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("kshare: %s: %w", what, err)
}
