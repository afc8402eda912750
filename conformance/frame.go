package conformance

import "time"

// FrameKind is what happened on a connection.
type FrameKind uint8

// The kinds of frames.
const (
	Opened   FrameKind = iota + 1 // a client has connected
	Received                      // a request has arrived
	Sent                          // an answer is sent
	Closed                        // the connection has ended
)

// Frame is something that happened on a connection, in the order in which a broker sees it: an answer stands before what its client does because of it.
type Frame struct {
	Kind FrameKind
	At   time.Time
	Conn uint64 // tells connections apart
	// Node is the node that was connected to, of Opened alone.
	Node int32
	// Host is where the client is, without its port, of Opened alone.
	Host string
	// Bytes are the request or the answer without its length, of Received and Sent. They may be changed once Observe has returned.
	Bytes []byte
}
