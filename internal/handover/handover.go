// Package handover keeps addresses open while what serves them is replaced.
package handover

import (
	"errors"
	"net"
	"sync"
)

// Port is what a listener is known by: whose it is and its name.
type Port struct {
	Node     int32
	Listener string
}

// Ports are listeners that outlive the servers behind them. The zero value has none. While Keep is in force, a server that
// closes its listener leaves the port open: connections wait there for the next server's listener.
type Ports struct {
	mu   sync.Mutex
	open map[Port]*port
	kept bool
}

// Listen returns a listener of a port. Where the port is not open, listen opens it. A port has one listener at a time.
func (p *Ports) Listen(number Port, listen func() (net.Listener, error)) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.open[number]
	if o == nil {
		l, err := listen()
		if err != nil {
			return nil, err
		}
		o = &port{listener: l, wanted: make(chan struct{}), accepted: make(chan accepted), closing: make(chan struct{}), ended: make(chan struct{})}
		go o.accept()
		if p.open == nil {
			p.open = map[Port]*port{}
		}
		p.open[number] = o
	}
	return &listener{ports: p, number: number, port: o, closed: make(chan struct{})}, nil
}

// Keep says whether ports stay open when their listeners are closed.
func (p *Ports) Keep(kept bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = kept
}

// Close closes all ports and returns once their goroutines have ended.
func (p *Ports) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []error
	for number, o := range p.open {
		all = append(all, o.close())
		delete(p.open, number)
	}
	return errors.Join(all...)
}

// released closes a port whose listener was closed, unless it is kept.
func (p *Ports) released(number Port, o *port) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept || p.open[number] != o {
		return nil
	}
	delete(p.open, number)
	return o.close()
}

// port is an address that is listened on. Its goroutine accepts when a listener wants a connection, none ahead; what was accepted for a listener that is closed
// by then is the next one's.
type port struct {
	listener net.Listener
	wanted   chan struct{}
	accepted chan accepted
	closing  chan struct{}
	ended    chan struct{}
}

// accepted is what Accept returned.
type accepted struct {
	conn net.Conn
	err  error
}

// accept hands over what comes in until the port is closed.
func (p *port) accept() {
	defer close(p.ended)
	for {
		select {
		case <-p.wanted:
		case <-p.closing:
			return
		}
		conn, err := p.listener.Accept()
		select {
		case p.accepted <- accepted{conn, err}:
		case <-p.closing:
			if err == nil {
				conn.Close()
			}
			return
		}
	}
}

func (p *port) close() error {
	close(p.closing)
	err := p.listener.Close()
	<-p.ended
	return err
}

// listener is what one server has of a port.
type listener struct {
	ports  *Ports
	number Port
	port   *port
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case l.port.wanted <- struct{}{}:
	case a := <-l.port.accepted: // wanted by the listener before
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
	select {
	case a := <-l.port.accepted:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		err = l.ports.released(l.number, l.port)
	})
	return err
}

func (l *listener) Addr() net.Addr { return l.port.listener.Addr() }
