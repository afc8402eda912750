package broker

import (
	"errors"
	"fmt"
	"time"

	"kshare/sharesession"
	"kshare/storage"
)

// change does something to the cluster on purpose, under the lock, and returns once what it stored is durable.
func (c *Cluster) change(f func() error) error {
	commit, err := func() (storage.Commit, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			return nil, errors.New("the cluster is closed")
		}
		err := f()
		return c.store.Commit(), err
	}()
	if commit != nil {
		err = errors.Join(err, commit.Wait())
	}
	return err
}

// noNode says that there is no node with an id.
func (c *Cluster) noNode(id int32) error {
	first, last := c.nodes[0].id, c.nodes[len(c.nodes)-1].id
	if first == last {
		return fmt.Errorf("there is no node %d, there is node %d alone", id, first)
	}
	return fmt.Errorf("there is no node %d, there are %d to %d", id, first, last)
}

// changeNode is change for a node of the cluster.
func (c *Cluster) changeNode(id int32, f func(n *node) error) error {
	return c.change(func() error {
		n := c.node(id)
		if n == nil {
			return c.noNode(id)
		}
		return f(n)
	})
}

// StopNode stops a node as a controlled shutdown of a broker does: its listener and its connections are closed, requests that wait there end without an
// answer. Records that members of share groups hold over them are released, which is stored with their delivery counts. What the node led is led by the next
// live replica of each partition that is in sync, in a new leader epoch, or by nobody where there is none. What only the node knew is gone: share sessions, fetch
// sessions, members that a coordinator has not stored. It is an error if the node is stopped.
func (c *Cluster) StopNode(id int32) error {
	return c.changeNode(id, func(n *node) error {
		if !n.runs() {
			return fmt.Errorf("node %d is stopped already", id)
		}
		c.endShareSessions(n)
		n.stop()
		n.reconnect()
		c.share.sessions[id] = sharesession.New()
		n.fetchSessions = c.newFetchSessions()
		return c.nodesChanged()
	})
}

// StartNode starts a stopped node again, on the address that it had. It is in sync with the partitions that it has replicas of at once, but leads only
// those that had no leader and whose last in-sync replica it was. It is an error if the node runs or cannot listen.
func (c *Cluster) StartNode(id int32) error {
	return c.changeNode(id, func(n *node) error {
		if n.runs() {
			return fmt.Errorf("node %d runs already", id)
		}
		if err := n.listen(); err != nil {
			return err
		}
		n.begin()
		return c.nodesChanged()
	})
}

// CutNode cuts a node off from its clients and the other nodes: nothing that is sent to it arrives, nothing that it sends, and connections to it are not
// served. Once that has lasted for broker.session.timeout.ms of the cluster's clock it is fenced: what it led is led by others, as after StopNode, while
// it still keeps its sessions. It is an error if the node is stopped or cut off.
func (c *Cluster) CutNode(id int32) error {
	return c.changeNode(id, func(n *node) error {
		switch {
		case !n.runs():
			return fmt.Errorf("node %d is stopped", id)
		case n.gate.isShut():
			return fmt.Errorf("node %d is cut off already", id)
		}
		n.gate.close()
		n.fencing = c.after(c.brokerValues().Duration("broker.session.timeout.ms"), func() {
			n.fencing, n.fenced = nil, true
			if err := c.nodesChanged(); err != nil {
				c.log.Error("the leaders of partitions could not be stored", "fenced node", n.id, "error", err)
			}
		})
		return nil
	})
}

// HealNode ends CutNode: what clients have sent meanwhile is answered, and the node comes back as with StartNode if it was fenced. It is an error if
// the node is not cut off.
func (c *Cluster) HealNode(id int32) error {
	return c.changeNode(id, func(n *node) error {
		if !n.gate.isShut() {
			return fmt.Errorf("node %d is not cut off", id)
		}
		n.reconnect()
		err := c.nodesChanged()
		c.wakeShareLoads()
		return err
	})
}

// reconnect ends what cuts the node off.
func (n *node) reconnect() {
	if n.fencing != nil {
		n.fencing.Stop()
	}
	n.fencing, n.fenced = nil, false
	n.gate.open()
}

// MoveLeader makes a node the leader of a partition, in the next leader epoch. The node that led it answers what still comes with NOT_LEADER_OR_FOLLOWER, or
// FENCED_LEADER_EPOCH to who names the old epoch; with hint such answers name the new leader and where it is, otherwise they have -1 there. What waits there is
// answered so at once, but for a ShareFetch with TimingKafka, which waits on and then tells nothing of the partition. A ShareAcknowledge is refused with
// UNKNOWN_TOPIC_OR_PARTITION, without a hint. Acquisitions are gone with the old leader, what was acknowledged is not. It is an error if there is no such partition, or
// the node has no replica of it that is in sync and live, or leads it already.
func (c *Cluster) MoveLeader(topic string, partition, to int32, hint bool) error {
	return c.changeNode(to, func(n *node) error {
		t := c.topics[topic]
		if t == nil {
			return fmt.Errorf("there is no topic %q", topic)
		}
		p := t.partition(partition)
		if p == nil {
			return fmt.Errorf("topic %s has no partition %d, only 0 to %d", topic, partition, len(t.partitions)-1)
		}
		if p.leader == to {
			return fmt.Errorf("node %d leads %s already", to, p)
		}
		if err := p.mayLead(n); err != nil {
			return err
		}
		return c.lead(p, n, hint)
	})
}

// lead makes a node the leader of a partition that may lead it.
func (c *Cluster) lead(p *partition, n *node, hint bool) error {
	p.setLeader(n.id)
	p.unhinted = !hint
	err := c.storeTopic(p.topic)
	p.leaderChanged()
	return err
}

// CoordinatorKind is what a coordinator is for, by the numbers of FindCoordinator's key types.
type CoordinatorKind int8

// Kinds of coordinators, and what their keys are.
const (
	GroupCoordinator       CoordinatorKind = groupCoordinator       // a group id
	TransactionCoordinator CoordinatorKind = transactionCoordinator // a transactional id
	ShareCoordinator       CoordinatorKind = shareCoordinator       // group:topic id:partition
)

// MoveCoordinator makes a node the coordinator of a key, and of all keys that the same partition of the internal topic keeps, by making it that
// partition's leader in the next leader epoch. It answers COORDINATOR_LOAD_IN_PROGRESS for a time of the cluster's clock, which may be 0; it may be the node
// that coordinates the key already, which then loads it again. The internal topic is made if there is none. It is an error if the key is none of its
// kind, or the node has no replica of the partition that is in sync and live.
func (c *Cluster) MoveCoordinator(kind CoordinatorKind, key string, to int32, loading time.Duration) error {
	return c.changeNode(to, func(n *node) error {
		p, err := c.coordinatorPartition(kind, key)
		if err != nil {
			return err
		}
		if loading < 0 {
			return fmt.Errorf("a coordinator cannot take %s to load", loading)
		}
		if err := p.mayLead(n); err != nil {
			return err
		}
		p.loadFor = loading
		return c.lead(p, n, true)
	})
}

// coordinatorPartition is the partition of an internal topic that keeps a key.
func (c *Cluster) coordinatorPartition(kind CoordinatorKind, key string) (*partition, error) {
	var name string
	switch kind {
	case GroupCoordinator:
		name = consumerOffsetsTopic
	case TransactionCoordinator:
		name = transactionStateTopic
	case ShareCoordinator:
		if name = shareStateTopic; !validShareKey(key) {
			return nil, fmt.Errorf("%q is no key of a share coordinator, which is group:topic id:partition", key)
		}
	default:
		return nil, fmt.Errorf("there is no kind of coordinator %d: 0 is groups, 1 transactions, 2 share partitions", kind)
	}
	if _, err := c.internalTopic(name); err != nil {
		return nil, err
	}
	if p := c.keeper(name, key); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s-%d, which would keep %q, is not there: the topic was made with fewer partitions", name, c.keptAt(name, key), key)
}
