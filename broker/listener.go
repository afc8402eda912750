package broker

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"kshare/internal/javamap"
	"kshare/sasl"
)

// Listener is what connections that come in on one of the listeners of every node are like.
type Listener struct {
	Name string      // as in listeners; answers that name nodes give their addresses of the listener that was asked
	TLS  *tls.Config // nil for none
	// SASL are the mechanisms by which a client says who it is; nil for a listener where it need not.
	SASL []string
	// Passwords are those of PLAIN, by user.
	Passwords map[string]string
	// MaxReauth is how long after its authentication a client of a mechanism has to authenticate anew; 0 or none for never (connections.max.reauth.ms).
	MaxReauth map[string]time.Duration
}

// listener is a Listener at work.
type listener struct {
	Listener
	index int
}

// endpoint is the address of a node on a listener, as clients are told.
type endpoint struct {
	id   int32
	host string
	port int32
}

func (e *endpoint) addr() string { return net.JoinHostPort(e.host, strconv.Itoa(int(e.port))) }

// newListeners puts the options' listeners to work.
func newListeners(options []Listener) []listener {
	if len(options) == 0 {
		options = []Listener{{Name: "PLAINTEXT"}}
	}
	listeners := make([]listener, len(options))
	for i, o := range options {
		listeners[i] = listener{o, i}
		if o.SASL != nil {
			listeners[i].SASL = javamap.OrderOfPut(o.SASL, javamap.String)
		}
	}
	return listeners
}

// allows tells whether a mechanism is one of the listener's.
func (l *listener) allows(mechanism string) bool {
	return slices.Contains(l.SASL, mechanism) && slices.Contains(sasl.Mechanisms, mechanism)
}

// advertise finds what clients are told of the node.
func (n *node) advertise(find func(nodeID int32, listener string, addr net.Addr) (string, int32, error)) (err error) {
	n.endpoints = make([]endpoint, len(n.listeners))
	for i, l := range n.listeners {
		e := &n.endpoints[i]
		e.id = n.id
		if e.host, e.port, err = find(n.id, n.cluster.listeners[i].Name, l.Addr()); err != nil {
			return fmt.Errorf("node %d: %w", n.id, err)
		}
	}
	return nil
}

// endpoint is the address of a node on the listener that the request came in on.
func (r *request) endpoint(n *node) *endpoint { return &n.endpoints[r.conn.listener.index] }
