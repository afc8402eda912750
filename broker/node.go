package broker

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// node is one broker of the cluster: an id, a listener and the connections that came in on it.
type node struct {
	cluster  *Cluster
	id       int32
	host     string // as advertised to clients
	port     int32
	listener net.Listener
	stopped  chan struct{} // closed with the listener

	connections map[*connection]struct{} // guarded by the cluster's connectionsMu
}

// listen opens the node's listener and finds the address that clients are told.
func (n *node) listen(o *Options) error {
	l, err := o.Listen(n.id)
	if err != nil {
		return fmt.Errorf("node %d: %w", n.id, err)
	}
	n.listener = l
	if n.host, n.port, err = o.Advertise(n.id, l.Addr()); err != nil {
		l.Close()
		return fmt.Errorf("node %d: %w", n.id, err)
	}
	return nil
}

// acceptPause is how long a node waits before it accepts again after that failed, as it does without a file descriptor to spare.
const acceptPause = 100 * time.Millisecond

// accept serves connections until the listener is closed.
func (n *node) accept() {
	defer n.cluster.goroutines.Done()
	failing := false
	for {
		c, err := n.listener.Accept()
		switch {
		case err == nil:
			failing = false
			n.serve(c)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		case !failing:
			failing = true
			n.cluster.log.Error("the node cannot accept connections, it goes on trying", "node", n.id, "error", err)
		}
		select {
		case <-n.stopped:
			return
		case <-time.After(acceptPause): // the machine's time, whatever the cluster's clock says
		}
	}
}

// serve starts a goroutine that answers the connection's requests.
func (n *node) serve(nc net.Conn) {
	c := newConnection(n, nc)
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
	return true
}

// stop closes the listener and every connection.
func (n *node) stop() {
	n.listener.Close()
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
