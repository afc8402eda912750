package kshare

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// plaintext is the listener that a cluster has which was not told of others.
const plaintext = "PLAINTEXT"

// listenerOptions are where the nodes listen on a listener, and what clients are told.
type listenerOptions struct {
	name      string
	listen    []string // host:port of each node; a missing one is 127.0.0.1:0
	advertise []string
	listening map[int32]string // host:port of each node that listens or has listened
}

// listener is the listener of a name; it is added where there is none.
func (o *options) listener(name string) *listenerOptions {
	if i := slices.IndexFunc(o.listeners, func(l *listenerOptions) bool { return l.name == name }); i >= 0 {
		return o.listeners[i]
	}
	l := &listenerOptions{name: name}
	o.listeners = append(o.listeners, l)
	return l
}

// WithListen sets the addresses (host:port) that the nodes listen on, in the order of the nodes. Port 0 is a free port. With one address
// and several nodes, the others take the following ports, or free ones where the port is 0. The listener's name is PLAINTEXT.
func WithListen(addrs ...string) Option {
	return func(o *options) error { o.listener(plaintext).listen = addrs; return nil }
}

// WithListener adds a listener, NAME://host:port as in Kafka's listeners: every node listens there too, and answers what comes in there with the addresses of
// that listener. Its name is its security protocol, PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, or the configuration
// listener.security.protocol.map says what it is. Given again with the same name it is the address of the next node; one address for several nodes is as
// with WithListen. Without WithListen there is no other listener.
func WithListener(listener string) Option {
	return func(o *options) error {
		name, addr, ok := strings.Cut(listener, "://")
		if !ok || name == "" {
			return fmt.Errorf("listener %q is not NAME://host:port, as in SASL_PLAINTEXT://127.0.0.1:9093", listener)
		}
		l := o.listener(strings.ToUpper(name))
		l.listen = append(l.listen, addr)
		return nil
	}
}

// WithAdvertise sets the addresses (host:port) that clients are told to connect to, in the order of the nodes, where they
// differ from the addresses that the nodes listen on: behind a port mapping, say. Port 0, or a host alone, takes the port that the node listens on. An address
// of the form NAME://host:port is of the listener of that name, others are of PLAINTEXT.
func WithAdvertise(addrs ...string) Option {
	return func(o *options) error {
		for _, addr := range addrs {
			name, rest, named := strings.Cut(addr, "://")
			if !named {
				name, rest = plaintext, addr
			}
			l := o.listener(strings.ToUpper(name))
			l.advertise = append(l.advertise, rest)
		}
		return nil
	}
}

// check checks that the addresses of a listener are not more than there are nodes.
func (l *listenerOptions) check(nodes int) error {
	if len(l.listen) > nodes || len(l.advertise) > nodes {
		return fmt.Errorf("%d addresses to listen on and %d to advertise for %d nodes: one for each node at most", len(l.listen), len(l.advertise), nodes)
	}
	return nil
}

// listenNode opens the address of a node, the one that it had before if there is one.
func (o *options) listenNode(id int32, name string) (net.Listener, error) {
	of := o.listener(name)
	addr, again := of.listening[id]
	if !again {
		var err error
		if addr, err = o.listenAddr(id, of); err != nil {
			return nil, err
		}
	}
	l, err := o.listenOn(addr)
	if err == nil {
		if of.listening == nil {
			of.listening = map[int32]string{}
		}
		of.listening[id] = l.Addr().String()
	}
	return l, err
}

func (o *options) listenOn(addr string) (net.Listener, error) {
	if o.memory != nil {
		return o.memory.Listen(addr)
	}
	return net.Listen("tcp", addr)
}

// listenAddr is where a node is to listen.
func (o *options) listenAddr(id int32, of *listenerOptions) (string, error) {
	i := int(id - o.broker.FirstNodeID)
	addr := loopback + ":0"
	switch {
	case i < len(of.listen):
		addr = of.listen[i]
	case len(of.listen) > 0:
		host, port, err := splitAddr(of.listen[len(of.listen)-1])
		if err != nil {
			return "", err
		}
		if port != 0 {
			port += i - len(of.listen) + 1
		}
		addr = net.JoinHostPort(host, strconv.Itoa(port))
	}
	host, port, err := splitAddr(addr)
	if err != nil {
		return "", err
	}
	if port == 0 && o.memory != nil {
		port = firstMemoryPort + i + maxBrokers*slices.Index(o.listeners, of)
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// loopback is where a node listens that was not told where, and what clients are told of a node that listens on all interfaces.
const loopback = "127.0.0.1"

// firstMemoryPort is the port that the first node of an in-memory network seems to have on its first listener.
const firstMemoryPort = 9092

// advertiseNode finds the address that clients are told for a node that listens on addr.
func (o *options) advertiseNode(id int32, name string, addr net.Addr) (string, int32, error) {
	host, port, err := splitAddr(addr.String())
	if err != nil {
		return "", 0, err
	}
	ip := net.ParseIP(host)
	everywhere := ip != nil && ip.IsUnspecified()
	if everywhere {
		host = loopback
	}
	i := int(id - o.broker.FirstNodeID)
	advertise := o.listener(name).advertise
	if len(advertise) == 0 {
		if everywhere {
			o.broker.Log.Warn("a node listens on all interfaces and clients are told "+loopback+", which others cannot reach: advertise an address that they can", "node", id, "listen", addr)
		}
		return host, int32(port), nil
	}
	spec := advertise[min(i, len(advertise)-1)]
	advertised, text, err := net.SplitHostPort(spec)
	if err != nil { // a host alone
		advertised, text = strings.TrimSuffix(strings.TrimPrefix(spec, "["), "]"), "0"
	}
	advertisedPort, err := strconv.ParseUint(text, 10, 16)
	if err != nil || advertised == "" || strings.ContainsAny(advertised, ":[]") && net.ParseIP(advertised) == nil {
		return "", 0, fmt.Errorf("address to advertise %q is not host:port", spec)
	}
	if advertisedPort == 0 {
		return advertised, int32(port), nil
	}
	if i >= len(advertise) {
		advertisedPort += uint64(i - len(advertise) + 1)
	}
	return advertised, int32(advertisedPort), nil
}

func splitAddr(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("address %q is not host:port", addr)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("address %q has the port %q, which is not a number from 0 to 65535", addr, text)
	}
	return host, int(n), nil
}

// ListenerNames are the names of the cluster's listeners, in the order in which they were asked for.
func (c *Cluster) ListenerNames() []string {
	names := make([]string, len(c.options.listeners))
	for i, l := range c.options.listeners {
		names[i] = l.name
	}
	return names
}

// ListenerAddrs returns the host:port of every node on a listener, as clients are told, in the order of the nodes; nil where there is no such listener.
func (c *Cluster) ListenerAddrs(name string) []string {
	i := slices.Index(c.ListenerNames(), name)
	if i < 0 {
		return nil
	}
	return c.broker().Addrs(i)
}
