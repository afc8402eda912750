// Package proxy stands between clients and the brokers of any Kafka and tells a judge what they say to each other.
//
// Each node of the cluster has a listener of its own. Addresses in answers are rewritten, so that a client stays on the proxy whichever node it turns to: those
// of Metadata, FindCoordinator and DescribeCluster, and the endpoints of new leaders in Produce, Fetch, ShareFetch and ShareAcknowledge. Everything else passes as it
// is. Faults of package fault act here too: errors that are injected before a request is applied take its place where they are at the top of the answer; all
// others are put into the answer of a request that was applied.
package proxy

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/fault"
	"kshare/protocol"
	"kshare/secrets"
)

// Tap is told what clients and brokers say to each other, answers as clients get them.
type Tap interface {
	Opened(conn uint64, node int32, host string)
	Received(conn uint64, frame []byte)
	Sent(conn uint64, frame []byte)
	Closed(conn uint64)
}

// Options are what a proxy is made with.
type Options struct {
	// Upstream are host:port of brokers to begin with, of which one is asked for the nodes of the cluster. Where each is ID=host:port they are the nodes themselves,
	// of a cluster that tells strangers nothing.
	Upstream []string
	// Listen is host:port of the listener of the first node; the others take the following ports, or free ones where the port is 0.
	Listen string
	// Dial connects to a broker, nil for TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Listener listens, nil for TCP.
	Listener func(addr string) (net.Listener, error)
	APIs     protocol.Catalog // of the cluster
	Tap      Tap
	Faults   []fault.Rule
	Script   Script       // nil for none
	Log      *slog.Logger // nil for nowhere
}

// maxFrame bounds a frame, as socket.request.max.bytes of Kafka does.
const maxFrame = 100 << 20

// Proxy is a running proxy.
type Proxy struct {
	o      Options
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu     sync.Mutex
	nodes  map[int32]*node
	order  []int32
	topics map[[16]byte]string // names, as Metadata told them
	faults fault.Set
	conns  uint64
	open   map[uint64]*connection
	closed bool
}

// node is a broker and the listener for it.
type node struct {
	id       int32
	listener net.Listener // guarded by Proxy.mu, nil while the node is shut
	host     string       // of the listener, as clients are told
	port     int32
	upstream string // guarded by Proxy.mu
}

// Start starts a proxy. It asks the cluster for its nodes, and listens when it returns.
func Start(ctx context.Context, o Options) (*Proxy, error) {
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.Listener == nil {
		o.Listener = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	p := &Proxy{o: o, log: o.Log, nodes: map[int32]*node{}, topics: map[[16]byte]string{}, open: map[uint64]*connection{}}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	for _, r := range o.Faults {
		if r.Hold {
			return nil, fmt.Errorf("the fault %q holds requests until it is released, which nobody can do at a proxy: use delay", r)
		}
		if _, err := p.faults.Add(r); err != nil {
			return nil, err
		}
	}
	if known, err := p.given(); known || err != nil {
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		return p, nil
	}
	var err error
	for _, addr := range o.Upstream {
		var m *kmsg.MetadataResponse
		if m, err = p.discover(ctx, addr); err != nil {
			err = fmt.Errorf("the cluster behind %s cannot be asked for its nodes: %w", addr, err)
			continue
		}
		for _, b := range m.Brokers {
			if _, _, err = p.address(b.NodeID, b.Host, b.Port); err != nil {
				return nil, errors.Join(err, p.Close())
			}
		}
		return p, nil
	}
	if err == nil {
		err = errors.New("no address of a broker was given")
	}
	return nil, errors.Join(err, p.Close())
}

// given listens for the nodes where Upstream has their ids, and tells whether it has.
func (p *Proxy) given() (known bool, err error) {
	seen := map[int64]bool{}
	for i, text := range p.o.Upstream {
		number, addr, ok := strings.Cut(text, "=")
		if i > 0 && ok != known {
			return known, fmt.Errorf("%q: either all addresses of brokers have the id of a node in front, ID=host:port, or none has", text)
		}
		if known = ok; !known {
			continue
		}
		id, err := strconv.ParseInt(number, 10, 32)
		if err != nil || id < 0 {
			return known, fmt.Errorf("%q: %q is no id of a node", text, number)
		}
		host, digits, err := net.SplitHostPort(addr)
		if err != nil {
			return known, fmt.Errorf("%q: %w", text, err)
		}
		port, err := strconv.ParseUint(digits, 10, 16)
		if err != nil {
			return known, fmt.Errorf("%q: %q is no port", text, digits)
		}
		if seen[id] {
			return known, fmt.Errorf("%q: node %d is there twice", text, id)
		}
		seen[id] = true
		if _, _, err := p.address(int32(id), host, int32(port)); err != nil {
			return known, err
		}
	}
	return known, nil
}

// discover asks a broker for the nodes of its cluster.
func (p *Proxy) discover(ctx context.Context, addr string) (*kmsg.MetadataResponse, error) {
	c, err := p.o.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	q := kmsg.NewPtrMetadataRequest()
	q.Version, q.Topics = 4, []kmsg.MetadataRequestTopic{}
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("kshare-judge")).AppendRequest(nil, q, 1)); err != nil {
		return nil, err
	}
	frame, err := readFrame(bufio.NewReader(c))
	if err != nil {
		return nil, err
	}
	m := q.ResponseKind().(*kmsg.MetadataResponse)
	if len(frame) < 4 || m.ReadFrom(frame[4:]) != nil || len(m.Brokers) == 0 {
		return nil, errors.New("it does not answer Metadata as a broker without authentication does")
	}
	return m, nil
}

// Addrs are host:port of the listeners, in the order in which their nodes were found: what clients take as their bootstrap servers.
func (p *Proxy) Addrs() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range p.order {
		n := p.nodes[id]
		all = append(all, net.JoinHostPort(n.host, strconv.Itoa(int(n.port))))
	}
	return all
}

// Faults tells the faults and what they have done.
func (p *Proxy) Faults() []fault.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults.Status()
}

// Close stops the proxy and returns when all its goroutines have ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	nodes := slices.Collect(maps.Values(p.nodes))
	p.mu.Unlock()
	p.cancel()
	var err error
	for _, n := range nodes {
		if n.listener != nil {
			err = errors.Join(err, n.listener.Close())
		}
	}
	p.tasks.Wait()
	return err
}

// address is where clients find a node whose broker is at an address; there is a listener for it from then on.
func (p *Proxy) address(id int32, host string, port int32) (string, int32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	upstream := net.JoinHostPort(host, strconv.Itoa(int(port)))
	if n := p.nodes[id]; n != nil {
		n.upstream = upstream
		return n.host, n.port, nil
	}
	if p.closed {
		return "", 0, net.ErrClosed
	}
	at, text, err := net.SplitHostPort(p.o.Listen)
	if err != nil {
		return "", 0, fmt.Errorf("the address to listen on: %w", err)
	}
	first, err := strconv.Atoi(text)
	if err != nil {
		return "", 0, fmt.Errorf("the address to listen on: the port %q is no number", text)
	}
	if first != 0 {
		first += len(p.order)
	}
	l, err := p.o.Listener(net.JoinHostPort(at, strconv.Itoa(first)))
	if err != nil {
		return "", 0, err
	}
	_, got, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", 0, errors.Join(err, l.Close())
	}
	local, _ := strconv.Atoi(got)
	n := &node{id, l, at, int32(local), upstream}
	p.nodes[id] = n
	p.order = append(p.order, id)
	p.tasks.Go(func() { p.accept(n, l) })
	return n.host, n.port, nil
}

func (p *Proxy) accept(n *node, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			if p.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				p.log.Error("the proxy accepts no more connections", "node", n.id, "error", err)
			}
			return
		}
		p.tasks.Go(func() { p.serve(n, c) })
	}
}

// serve carries a connection.
func (p *Proxy) serve(n *node, client net.Conn) {
	p.mu.Lock()
	p.conns++
	id, upstream := p.conns, n.upstream
	p.mu.Unlock()
	if s := p.o.Script; s != nil && !s.Opens(id, n.id) {
		client.Close()
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	broker, err := p.o.Dial(ctx, "tcp", upstream)
	if err != nil {
		p.log.Warn("a broker cannot be reached", "node", n.id, "address", upstream, "error", err)
		client.Close()
		return
	}
	c := &connection{proxy: p, node: n, id: id, client: client, broker: broker, ctx: ctx, asked: make(chan *asked, maxAsked), sent: make(chan []byte)}
	host, _, err := net.SplitHostPort(client.RemoteAddr().String())
	if err != nil {
		host = client.RemoteAddr().String()
	}
	p.mu.Lock()
	p.open[id] = c
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, id)
	}()
	p.o.Tap.Opened(id, n.id, host)
	stop := context.AfterFunc(ctx, c.end)
	defer stop()
	var answers sync.WaitGroup
	answers.Go(c.frames)
	answers.Go(func() { c.why(c.answers()) })
	c.why(c.requests())
	cancel()
	answers.Wait()
}

// maxAsked is how many requests of a connection may wait for their answers.
const maxAsked = 1000

// connection is a connection of a client and the one to the broker.
type connection struct {
	proxy  *Proxy
	node   *node
	id     uint64
	client net.Conn
	broker net.Conn
	ctx    context.Context
	asked  chan *asked // in the order in which they are to be answered
	sent   chan []byte // by the broker
	broken error       // why there is no more of it, once sent is closed
	once   sync.Once
}

// asked is a request that is to be answered.
type asked struct {
	header protocol.RequestHeader
	api    *protocol.API
	q      kmsg.Request // nil where nobody needs it
	local  kmsg.Response
	after  []fault.Action
	silent bool
	x      *Exchange // for the script, nil without one
}

// end ends both connections, once. The tap is told before the client can see it.
func (c *connection) end() {
	c.once.Do(func() {
		c.proxy.o.Tap.Closed(c.id)
		c.client.Close()
		c.broker.Close()
	})
}

// why ends the connection and says why, where that is not that one side has ended it.
func (c *connection) why(err error) {
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && c.ctx.Err() == nil {
		c.proxy.log.Warn("connection closed", "node", c.node.id, "client", c.client.RemoteAddr(), "error", err)
	}
	c.end()
}

// requests carries requests to the broker.
func (c *connection) requests() error {
	defer close(c.asked)
	in := bufio.NewReader(c.client)
	for {
		frame, err := readFrame(in)
		if err != nil {
			return err
		}
		c.proxy.o.Tap.Received(c.id, secrets.FromRequestFrame(frame))
		a, frame, forward, err := c.request(frame)
		if err != nil {
			return err
		}
		if a != nil {
			select {
			case c.asked <- a:
			case <-c.ctx.Done():
				return nil
			}
		}
		if forward {
			if err := writeFrame(c.broker, frame); err != nil {
				return err
			}
		}
	}
}

// request finds out what is to be done with a request. It waits for delays.
func (c *connection) request(frame []byte) (a *asked, sent []byte, forward bool, err error) {
	sent = frame
	a = &asked{}
	if a.header, err = protocol.ParseRequestStart(frame); err != nil {
		return nil, sent, true, nil // for the broker to refuse, or a token of old SASL
	}
	if a.api = c.proxy.o.APIs.ByKey(a.header.Key); a.api == nil {
		return a, sent, true, nil
	}
	body, err := protocol.ParseRequestRest(&a.header, frame, a.api.IsFlexible(a.header.Version))
	if err != nil {
		return a, sent, true, nil
	}
	if q := a.api.NewRequest(a.header.Version); q != nil && a.header.Version <= q.MaxVersion() && q.ReadFrom(body) == nil {
		a.q = q
	}
	forward = true
	if c.proxy.o.Script != nil {
		if forward, err = c.ask(a); err != nil {
			return nil, nil, false, err
		}
		if a.x != nil && a.x.Changed {
			sent = kmsg.NewRequestFormatter(kmsg.FormatterClientID(a.header.ClientID)).AppendRequest(nil, a.q, a.header.CorrelationID)[4:]
		}
	}
	for _, act := range c.proxy.match(c.node.id, a) {
		switch {
		case act.Rule.Acts() == fault.After:
			a.after = append(a.after, act)
		case act.Rule.Delay > 0:
			if !c.sleep(act.Rule.Delay) {
				return nil, nil, false, nil
			}
		case act.Rule.Close:
			return nil, nil, false, fmt.Errorf("closed by %s", act.String())
		case act.Rule.Silence:
			a.silent, forward = true, false
		default:
			if place, ok := act.Rule.Place(a.api, a.header.Version); ok && a.q != nil {
				if place.Level == fault.Top && a.header.Key != apiVersionsKey {
					a.local, forward = fault.FailTop(a.q, act.Rule.Code()), false
				} else {
					a.after = append(a.after, act)
				}
			}
		}
	}
	if q, ok := a.q.(*kmsg.ProduceRequest); ok && q.Acks == 0 {
		return nil, sent, forward, nil
	}
	return a, sent, forward, nil
}

const apiVersionsKey = 18

// sleep waits, unless the connection ends before.
func (c *connection) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// frames reads what the broker sends, and ends when it does.
func (c *connection) frames() {
	defer close(c.sent)
	in := bufio.NewReader(c.broker)
	for {
		frame, err := readFrame(in)
		if err != nil {
			c.broken = err
			return
		}
		select {
		case c.sent <- frame:
		case <-c.ctx.Done():
			return
		}
	}
}

// answers carries answers to the client, until either side ends.
func (c *connection) answers() error {
	var ready []byte // sent by the broker before its request was taken off the queue
	for {
		var a *asked
		var more bool
		sent := c.sent
		if ready != nil {
			sent = nil
		}
		select {
		case a, more = <-c.asked:
			if !more {
				return nil
			}
		case ready, more = <-sent:
			if !more {
				return c.broken
			}
			continue
		case <-c.ctx.Done():
			return nil
		}
		if a.silent {
			<-c.ctx.Done()
			return nil
		}
		var frame []byte
		if a.local != nil {
			if a.x != nil {
				a.x.Response = a.local
				c.proxy.o.Script.Answered(a.x)
			}
			frame = a.encode(a.local)
		} else {
			if ready == nil {
				select {
				case ready, more = <-c.sent:
					if !more {
						return c.broken
					}
				case <-c.ctx.Done():
					return nil
				}
			}
			var err error
			if frame, err = c.answer(ready, a); err != nil {
				return err
			}
			ready = nil
		}
		if a.x != nil && a.x.Close {
			return fmt.Errorf("%s: closed by the script", a.api.Name)
		}
		if a.x != nil && a.x.Silent {
			<-c.ctx.Done()
			return nil
		}
		if a.x != nil && a.x.Write != nil {
			if err := a.x.Write(c.client, frame); err != nil {
				return err
			}
			c.tapSent(a, frame)
			continue
		}
		length := len(frame)
		for _, act := range a.after {
			switch {
			case act.Rule.Delay > 0:
				if !c.sleep(act.Rule.Delay) {
					return nil
				}
			case act.Rule.Close:
				return fmt.Errorf("closed by %s", act.String())
			case act.Rule.Silence:
				<-c.ctx.Done()
				return nil
			case act.Rule.Error == "":
				head := headerSize(a)
				body, claim := act.Alter(frame[head:])
				frame = append(frame[:head:head], body...)
				if length = len(frame); claim != nil {
					length = int(*claim)
				}
			}
		}
		if length == len(frame) {
			c.tapSent(a, frame)
		}
		if err := writeClaiming(c.client, frame, length); err != nil {
			return err
		}
	}
}

// headerSize is the size of an answer's header: the correlation id, and in flexible versions an empty section of tagged fields.
func headerSize(a *asked) int {
	if a.api != nil && a.api.IsFlexible(a.header.Version) && a.header.Key != apiVersionsKey {
		return 5
	}
	return 4
}

// tapSent tells the tap of an answer, without secrets.
func (c *connection) tapSent(a *asked, frame []byte) {
	c.proxy.o.Tap.Sent(c.id, secrets.FromAnswerFrame(a.header.Key, a.header.Version, frame, headerSize(a)))
}

// answer is the answer of a request as the client is to get it, but for wrong bytes.
func (c *connection) answer(frame []byte, a *asked) ([]byte, error) {
	if len(frame) < 4 || a.api == nil {
		return frame, nil
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != a.header.CorrelationID {
		return nil, fmt.Errorf("the broker answers %d where %s with %d is next", got, a.api.Name, a.header.CorrelationID)
	}
	errs := slices.ContainsFunc(a.after, func(act fault.Action) bool { return act.Rule.Error != "" })
	if !errs && !rewritten[a.header.Key] && a.x == nil {
		return frame, nil
	}
	body := frame[4:]
	if headerSize(a) > 4 {
		var err error
		if body, err = protocol.SkipTags(body); err != nil {
			return frame, nil
		}
	}
	p := a.api.NewResponse(protocol.AnswerVersion(a.header.Key, a.header.Version, body))
	if p == nil || a.header.Version > p.MaxVersion() || p.ReadFrom(body) != nil {
		c.proxy.log.Warn("an answer cannot be read, so addresses in it stay as they are", "api", a.api.Name, "version", a.header.Version)
		return frame, nil
	}
	changed, err := c.proxy.rewrite(p)
	if err != nil {
		return nil, err
	}
	for _, act := range slices.Backward(a.after) {
		place, ok := act.Rule.Place(a.api, a.header.Version)
		if act.Rule.Error == "" || !ok || a.q == nil {
			continue
		}
		changed = true
		if place.Level == fault.Top {
			p = fault.FailTop(a.q, act.Rule.Code())
			continue
		}
		s := fault.Selector{Rule: act.Rule, TopicName: c.proxy.topicName}
		s.Fail(p, place, act.Rule.Code())
	}
	if a.x != nil {
		a.x.Response = p
		changed = c.proxy.o.Script.Answered(a.x) || changed
		p = a.x.Response
	}
	if !changed {
		return frame, nil
	}
	return a.encode(p), nil
}

// encode makes the frame of an answer.
func (a *asked) encode(p kmsg.Response) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(a.header.CorrelationID))
	if headerSize(a) > 4 {
		frame = append(frame, 0)
	}
	return p.AppendTo(frame)
}

// readFrame reads a frame without its length.
func readFrame(r *bufio.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes, the proxy carries %d", n, maxFrame)
	}
	frame := make([]byte, 0, min(n, 1<<20))
	for uint32(len(frame)) < n { // memory is taken as bytes arrive
		at := len(frame)
		frame = slices.Grow(frame, int(min(n-uint32(at), max(1<<20, uint32(at)))))
		frame = frame[:min(uint32(cap(frame)), n)]
		if _, err := io.ReadFull(r, frame[at:]); err != nil {
			return nil, err
		}
	}
	return frame, nil
}

func writeFrame(w io.Writer, frame []byte) error { return writeClaiming(w, frame, len(frame)) }

func writeClaiming(w io.Writer, frame []byte, length int) error {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(frame)), uint32(length))
	_, err := w.Write(append(b, frame...))
	return err
}
