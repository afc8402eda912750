package realkafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Cluster is an Apache Kafka of several brokers, with ids from 1, and a controller of its own, which is never stopped. It takes about 400 MB of memory
// for a broker and 250 for the controller.
type Cluster struct {
	controller *Node
	brokers    []*Node // in the order of their ids
	cut        map[int32]bool
}

// controllerID is the id of the controller's node.
const controllerID = 100

// StartCluster formats log directories of their own and starts the nodes of a cluster. It returns once each broker's Metadata lists them all.
func StartCluster(ctx context.Context, o Options, brokers int) (*Cluster, error) {
	ports, err := freePorts(brokers + 1)
	if err != nil {
		return nil, err
	}
	quorum := fmt.Sprintf("%d@%s", controllerID, loopback(ports[brokers]))
	c := &Cluster{cut: map[int32]bool{}}
	c.controller, err = newNode(o, "", role{id: controllerID, does: "controller", quorum: quorum,
		listen: "CONTROLLER://" + loopback(ports[brokers]), heap: "200m"})
	if err != nil {
		return nil, err
	}
	for i := range brokers {
		addr := loopback(ports[i])
		n, err := newNode(o, addr, role{id: int32(i + 1), does: "broker", quorum: quorum, listen: "PLAINTEXT://" + addr, heap: "400m"})
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.brokers = append(c.brokers, n)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) nodes() []*Node {
	return append(slices.Clone(c.brokers), c.controller)
}

func (c *Cluster) start(ctx context.Context) error {
	id := newClusterID()
	all := c.nodes()
	failed := make([]error, len(all))
	var formatting sync.WaitGroup
	for i, n := range all {
		formatting.Go(func() { failed[i] = n.format(ctx, id) })
	}
	formatting.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for _, n := range all {
		if err := n.run(); err != nil {
			return err
		}
	}
	return c.settle(ctx)
}

// Bootstrap is the addresses of all brokers, with commas between them.
func (c *Cluster) Bootstrap() string {
	var addrs []string
	for _, n := range c.brokers {
		addrs = append(addrs, n.Addr)
	}
	return strings.Join(addrs, ",")
}

// settle returns once those brokers that run and are not cut off know of just each other, and their replicas are in sync.
func (c *Cluster) settle(ctx context.Context) error {
	var ids []int32
	for _, n := range c.brokers {
		if n.process != nil && !c.cut[n.role.id] {
			ids = append(ids, n.role.id)
		}
	}
	for _, id := range ids {
		if err := c.brokers[id-1].await(ctx, inSync(ids...)); err != nil {
			return err
		}
	}
	return nil
}

// settled is settle within startTimeout.
func (c *Cluster) settled() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return c.settle(ctx)
}

func (c *Cluster) broker(id int32) (*Node, error) {
	if id < 1 || int(id) > len(c.brokers) {
		return nil, fmt.Errorf("there is no node %d, there are 1 to %d", id, len(c.brokers))
	}
	return c.brokers[id-1], nil
}

// StopNode stops a broker as an administrator does, by SIGTERM, and returns once it has ended and the others know. It is an error if it does not run.
func (c *Cluster) StopNode(id int32) error {
	n, err := c.running(id)
	if err != nil {
		return err
	}
	n.process.terminate(stopTimeout)
	n.process = nil
	return c.settled()
}

// stopTimeout is how long a broker may take for a controlled shutdown before it is killed.
const stopTimeout = time.Minute

// running is a broker that runs and is not cut off.
func (c *Cluster) running(id int32) (*Node, error) {
	n, err := c.broker(id)
	switch {
	case err != nil:
		return nil, err
	case n.process == nil:
		return nil, fmt.Errorf("node %d is stopped", id)
	case c.cut[id]:
		return nil, fmt.Errorf("node %d is cut off", id)
	}
	return n, nil
}

// StartNode starts a broker again, on the address and the data that it had, and returns once the others know and its replicas are in sync. It is an error
// if it runs.
func (c *Cluster) StartNode(id int32) error {
	n, err := c.broker(id)
	if err != nil {
		return err
	}
	if n.process != nil {
		return fmt.Errorf("node %d runs already", id)
	}
	if err := n.run(); err != nil {
		return err
	}
	return c.settled()
}

// CutNode keeps a broker from doing anything: it takes no answer and gives none, while the machine goes on to accept connections for it. It is an error if it
// does not run, is cut off already, or the system cannot stop processes so.
func (c *Cluster) CutNode(id int32) error {
	n, err := c.running(id)
	if err != nil {
		return err
	}
	if err := n.process.suspend(); err != nil {
		return err
	}
	c.cut[id] = true
	return nil
}

// HealNode ends CutNode and returns once the others count on the broker again. It is an error if it is not cut off.
func (c *Cluster) HealNode(id int32) error {
	n, err := c.broker(id)
	switch {
	case err != nil:
		return err
	case !c.cut[id]:
		return fmt.Errorf("node %d is not cut off", id)
	}
	if err := n.process.resume(); err != nil {
		return err
	}
	delete(c.cut, id)
	return c.settled()
}

// Restore has every broker run as after StartCluster.
func (c *Cluster) Restore() error {
	for _, n := range c.brokers {
		id := n.role.id
		switch {
		case c.cut[id]:
			if err := n.process.resume(); err != nil {
				return err
			}
			delete(c.cut, id)
		case n.process == nil:
			if err := n.run(); err != nil {
				return err
			}
		}
	}
	return c.settled()
}

// Log is the end of what each node logged.
func (c *Cluster) Log() string {
	var b strings.Builder
	for _, n := range c.nodes() {
		fmt.Fprintf(&b, "node %d:\n%s\n", n.role.id, n.Log())
	}
	return b.String()
}

// Close kills the nodes and removes their data.
func (c *Cluster) Close() error {
	var failed error
	for _, n := range c.nodes() {
		failed = errors.Join(failed, n.Close())
	}
	return failed
}
