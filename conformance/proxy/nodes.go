package proxy

import (
	"fmt"
	"net"
	"slices"
	"strconv"
)

// Disconnect closes the connections that are chosen, as a broker does that goes down, and returns how many.
func (p *Proxy) Disconnect(which func(conn uint64, node int32) bool) (closed int) {
	p.mu.Lock()
	var chosen []*connection
	for id, c := range p.open {
		if which(id, c.node.id) {
			chosen = append(chosen, c)
		}
	}
	p.mu.Unlock()
	for _, c := range chosen {
		c.end()
	}
	return len(chosen)
}

// Shut has a node's port refuse connections until Reopen. Connections that are open stay.
func (p *Proxy) Shut(node int32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[node]
	if n == nil || n.listener == nil {
		return fmt.Errorf("node %d has no open port", node)
	}
	l := n.listener
	n.listener = nil
	return l.Close()
}

// Reopen has a node take connections again, on the port that it had or on another one, which clients are told of from then on.
func (p *Proxy) Reopen(node int32, anotherPort bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[node]
	if n == nil || n.listener != nil || p.closed {
		return fmt.Errorf("node %d is not shut", node)
	}
	port := n.port
	if anotherPort {
		port = 0
	}
	l, err := p.o.Listener(net.JoinHostPort(n.host, strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	_, got, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	local, err := strconv.Atoi(got)
	if err != nil {
		return err
	}
	n.listener, n.port = l, int32(local)
	p.tasks.Go(func() { p.accept(n, l) })
	return nil
}

// Nodes are the nodes that were found, in ascending order.
func (p *Proxy) Nodes() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.order))
}
