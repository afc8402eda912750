package scenario

import (
	"context"
	"time"

	"kshare"
)

// Target is what a scenario runs against: a kshare in the process or any Kafka on the network.
type Target interface {
	// open opens a connection to a node, 0 for any.
	open(node int32, addr string) (conn, error)
	// now is the time there.
	now() time.Time
	// virtual tells whether time passes only when it is let, so that what is sent has been handled.
	virtual() bool
	// pass lets time pass until something may have happened, at most until limit or the end of the context.
	pass(ctx context.Context, limit time.Time)
	// setUp takes the settings of a cluster command, before anything is asked.
	setUp(settings) error
	// starts tells whether the target starts its cluster as the cluster command wants it.
	starts() bool
	// nodes does things to the cluster's nodes, nil where nobody can.
	nodes() Nodes
	// cluster is the kshare in the process, nil where there is none.
	cluster() *kshare.Cluster
	// close ends what the scenario used.
	close() error
}

// Nodes does to the nodes of a cluster what only those can who started them. What each method means is said at the kshare.Cluster's of the same name.
type Nodes interface {
	StopNode(id int32) error
	StartNode(id int32) error
	CutNode(id int32) error
	HealNode(id int32) error
}

// conn is a connection that can be asked without waiting.
type conn interface {
	// send sends a frame without its length.
	send(frame []byte)
	// receive returns the next answer without its length, nil where there is none yet, and io.EOF where the connection has ended.
	receive() ([]byte, error)
	close()
}

// settings are how a scenario wants its cluster.
type settings struct {
	brokers  int
	kafka    string         // "": the target's own
	timing   *kshare.Timing // nil: the target's own
	config   map[string]string
	features map[string]int16
	kip1289  *[]string // switches, nil where transactional acknowledgements are not asked for
}
