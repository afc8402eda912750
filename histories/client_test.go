package histories

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/broker"
)

// client sends one request after the other, each over a connection of its own to the node that it is for.
type client struct {
	s       *simulation
	name    string
	conns   map[int32]*broker.Direct
	number  int32
	request kmsg.Request // that waits for its answer, nil for none
	over    *broker.Direct
	node    int32
}

func newClient(s *simulation, name string) *client {
	return &client{s: s, name: name, conns: map[int32]*broker.Direct{}}
}

// send sends a request to a node. It tells whether it could.
func (c *client) send(node int32, q kmsg.Request) bool {
	d := c.conns[node]
	if d == nil {
		var err error
		if d, err = c.s.machine.OpenDirect(node); err != nil {
			return false
		}
		c.conns[node] = d
	}
	if c.s.spoil.request != nil {
		c.s.spoil.request(c.s, c.name, q)
	}
	c.number++
	b := binary.BigEndian.AppendUint16(nil, uint16(q.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(q.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(c.number))
	b = kbin.AppendNullableString(b, &c.name)
	if q.IsFlexible() {
		b = append(b, 0)
	}
	c.request, c.over, c.node = q, d, node
	d.Send(q.AppendTo(b))
	return true
}

// received is the answer to the request that was sent: nil where there is none yet, lost where there will be none.
func (c *client) received() (answer kmsg.Response, lost bool, err error) {
	frame, eof := c.over.Receive()
	if c.s.machine.killed != nil { // what it answers now nobody sees
		return nil, false, nil
	}
	switch {
	case eof != nil:
		c.lose()
		return nil, true, nil
	case frame == nil:
		return nil, false, nil
	}
	r := c.request.ResponseKind()
	body := frame[4:]
	if r.IsFlexible() {
		body = body[1:]
	}
	if err := r.ReadFrom(body); err != nil {
		return nil, false, fmt.Errorf("the answer of %s: %w", kmsg.NameForKey(r.Key()), err)
	}
	if c.s.spoil.answer != nil {
		c.s.spoil.answer(c.s, c.request, r)
	}
	c.request = nil
	return r, false, nil
}

// lose gives up on the answer, and the connection.
func (c *client) lose() {
	delete(c.conns, c.node)
	c.s.leaving = append(c.s.leaving, c.over)
	c.request, c.over = nil, nil
}

// forget forgets all connections: their other end is gone.
func (c *client) forget() {
	clear(c.conns)
	c.request, c.over = nil, nil
}
