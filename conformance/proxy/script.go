package proxy

import (
	"context"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

// Script decides about what passes beyond what faults say: what no broker does, or what is to happen at a moment. Its methods are called by the goroutines of
// connections, several at a time, and may block until the exchange's context ends.
type Script interface {
	// Opens tells whether a client's connection to a node is served; it is closed at once where it is not.
	Opens(conn uint64, node int32) bool
	// Asked is called with each request that can be decoded, before it goes on.
	Asked(x *Exchange)
	// Answered is called with each answer to such a request, as the client would get it. It tells whether the script has changed it.
	Answered(x *Exchange) (changed bool)
}

// Exchange is a request and its answer.
type Exchange struct {
	Context context.Context // ends with the connection
	Conn    uint64
	Node    int32
	Header  protocol.RequestHeader
	API     *protocol.API
	Request kmsg.Request
	// Response is the answer. Where Asked sets it, the client gets it, and the broker does not get the request.
	Response kmsg.Response
	// Changed tells, where Asked sets it, that the script has changed the request.
	Changed bool
	// Close closes the connection: set by Asked without the request having been sent on, and by Answered instead of the answer.
	Close bool
	// Silent leaves the request without an answer, and those behind it; set by Asked the broker does not get it.
	Silent bool
	// Write writes the frame of the answer, which begins behind its length, in another way than the usual one. Where it fails, the connection ends.
	Write func(c net.Conn, frame []byte) error
}

// ask asks the script about a request.
func (c *connection) ask(a *asked) (forward bool, err error) {
	if a.q == nil {
		return true, nil
	}
	a.x = &Exchange{Context: c.ctx, Conn: c.id, Node: c.node.id, Header: a.header, API: a.api, Request: a.q}
	c.proxy.o.Script.Asked(a.x)
	switch {
	case a.x.Close:
		return false, fmt.Errorf("%s: closed by the script", a.api.Name)
	case a.x.Silent:
		a.silent = true
		return false, nil
	case a.x.Response != nil:
		a.local = a.x.Response
		return false, nil
	}
	return true, nil
}
