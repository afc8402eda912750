package broker

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"kshare/clock"
)

// node is one broker of the cluster: an id, its listeners and the connections that came in on them.
type node struct {
	cluster   *Cluster
	id        int32
	endpoints []endpoint // by the cluster's listeners; fixed after New
	gate      gate

	// Guarded by the cluster's lock once the cluster is started.
	listeners     []net.Listener // by the cluster's listeners, nil while the node is stopped
	stopped       chan struct{}  // closed with the listeners
	fenced        bool           // it has been cut off for so long that the others do not count on it
	fencing       clock.Timer    // until it is fenced, nil where it is not cut off or is fenced
	fetchSessions fetchSessions

	connections map[*connection]struct{} // guarded by the cluster's connectionsMu, nil while the node is stopped
}

// runs tells whether the node was not stopped.
func (n *node) runs() bool { return n.listeners != nil }

// live tells whether the others count on the node: it may lead partitions, and clients are told of it.
func (n *node) live() bool { return n.runs() && !n.fenced }

// listen opens the node's listeners.
func (n *node) listen() error {
	var open []net.Listener
	for i := range n.cluster.listeners {
		l, err := n.cluster.listen(n.id, n.cluster.listeners[i].Name)
		if err != nil {
			for _, l := range open {
				l.Close()
			}
			return fmt.Errorf("node %d: %w", n.id, err)
		}
		open = append(open, l)
	}
	n.listeners, n.stopped = open, make(chan struct{})
	n.cluster.connectionsMu.Lock()
	defer n.cluster.connectionsMu.Unlock()
	n.connections = map[*connection]struct{}{}
	return nil
}

// begin accepts connections. The cluster's lock is held, unless it is not started yet.
func (n *node) begin() {
	for i, l := range n.listeners {
		of, stopped := &n.cluster.listeners[i], n.stopped
		n.cluster.goroutines.Go(func() { n.accept(l, of, stopped) })
	}
}

// acceptPause is how long a node waits before it accepts again after that failed, as it does without a file descriptor to spare.
const acceptPause = 100 * time.Millisecond

// accept serves connections until the listener is closed.
func (n *node) accept(l net.Listener, of *listener, stopped <-chan struct{}) {
	failing := false
	for {
		c, err := l.Accept()
		n.gate.pass(stopped)
		switch {
		case err == nil:
			failing = false
			n.serve(c, of)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		case !failing:
			failing = true
			n.cluster.log.Error("the node cannot accept connections, it goes on trying", "node", n.id, "error", err)
		}
		select {
		case <-stopped:
			return
		case <-time.After(acceptPause): // the machine's time, whatever the cluster's clock says
		}
	}
}

// serve starts a goroutine that answers the connection's requests.
func (n *node) serve(nc net.Conn, of *listener) {
	c := newConnection(n, nc, of)
	c.tap = n.cluster.tap
	n.cluster.connectionsMu.Lock()
	defer n.cluster.connectionsMu.Unlock()
	if !n.register(c) {
		nc.Close()
		return
	}
	n.cluster.goroutines.Go(c.serve)
}

// register makes a connection one of the node's, if it still has any. The cluster's connectionsMu is held.
func (n *node) register(c *connection) bool {
	if n.connections == nil {
		return false
	}
	n.connections[c] = struct{}{}
	if c.tap != nil {
		c.tap.Opened(uint64(c.id), n.id, strings.TrimPrefix(c.clientHost(), "/"))
	}
	return true
}

// stop closes the listeners and every connection. The cluster's lock is held.
func (n *node) stop() {
	if !n.runs() {
		return
	}
	for _, l := range n.listeners {
		l.Close()
	}
	n.listeners = nil
	close(n.stopped)
	n.cluster.connectionsMu.Lock()
	open := n.connections
	n.connections = nil
	n.cluster.connectionsMu.Unlock()
	for c := range open {
		c.close()
	}
}

// disconnected forgets a connection that has ended and what was bound to it.
func (c *Cluster) disconnected(conn *connection) {
	c.connectionsMu.Lock()
	delete(conn.node.connections, conn)
	c.connectionsMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shareConnectionClosed(conn)
}
