// Package memorynet is a network inside the process: listeners and connections without a port.
package memorynet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Network is a set of listeners that can be dialed by their addresses. The zero value is an empty network.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
}

// Listen makes a listener at addr (host:port), which must not be in use.
func (n *Network) Listen(addr string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		return nil, fmt.Errorf("in-memory address %s is in use", addr)
	}
	l := &listener{network: n, addr: address(addr), incoming: make(chan net.Conn), closed: make(chan struct{})}
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	n.listeners[addr] = l
	return l, nil
}

// ErrRefused is returned by Dial where nobody listens.
var ErrRefused = errors.New("connection refused")

// dialError is the error of a dial as package net would make it: clients look at its type.
func dialError(addr string, err error) error {
	a := address(addr)
	return &net.OpError{Op: "dial", Net: a.Network(), Addr: a, Err: err}
}

// DialTimeout is how long Dial waits for a listener that accepts nothing. An operating system would give up too, and many clients leave that to their
// dialer.
const DialTimeout = 10 * time.Second

// Dial connects to the listener at addr. The network name is not looked at, so that it fits where net.Dialer.DialContext does.
func (n *Network) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, dialError(addr, ErrRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	client, server := pipe(address("client"), l.addr)
	select {
	case l.incoming <- server:
		return client, nil
	case <-l.closed:
		return nil, dialError(addr, ErrRefused)
	case <-ctx.Done():
		return nil, dialError(addr, ctx.Err())
	}
}

type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }

type listener struct {
	network  *Network
	addr     address
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.network.mu.Lock()
		delete(l.network.listeners, string(l.addr))
		l.network.mu.Unlock()
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }
