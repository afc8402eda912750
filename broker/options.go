package broker

import (
	"context"
	"io"
	"log/slog"
	"net"

	"kshare/clock"
	"kshare/config"
	"kshare/kip1289"
	"kshare/release"
	"kshare/sasl"
	"kshare/storage"
)

// Timing says how long the broker makes its clients wait where nothing but patience is at stake.
type Timing int

const (
	// TimingFast shortens waits that carry no meaning: share groups assign at once instead of after their assignment
	// interval, and a record that becomes available wakes a waiting ShareFetch whatever made it available. It adds no error and no
	// state that Kafka could not show.
	TimingFast Timing = iota
	// TimingKafka waits exactly as Apache Kafka 4.4.0 does.
	TimingKafka
)

// Options is what a cluster is started with. Package kshare fills it in.
type Options struct {
	Nodes       int   // number of nodes, at least 1
	FirstNodeID int32 // id of the first node; the others follow
	// Listeners are those that every node has. Without any there is one, PLAINTEXT.
	Listeners []Listener
	// Listen makes one of the listeners of a node. It is called again for a node that was stopped, and then listens on the same address.
	Listen func(nodeID int32, listener string) (net.Listener, error)
	// Advertise returns the host and port that Metadata names on a listener for a node that listens on addr.
	Advertise func(nodeID int32, listener string, addr net.Addr) (host string, port int32, err error)
	// Credentials are what users get at start who have no credential of a mechanism.
	Credentials map[string]map[sasl.SCRAMMechanism]sasl.Credential
	// ClusterID is the id of a cluster that the store does not know yet, "" for a random one.
	ClusterID string
	Clock     clock.Clock
	Timing    Timing
	Store     storage.Store
	// AnswerBytes bounds the record bytes that answers hold which clients have not taken yet, where the store reads them into memory of their
	// own; 0 where it does not. Beyond it a Fetch gets one batch.
	AnswerBytes int64
	Config      *config.Static   // the brokers' configuration file, so to speak
	Kafka       release.Line     // the line of Apache Kafka that the nodes are, 0 for the latest
	Features    map[string]int16 // finalised feature levels at first start; a missing one has its default
	// KIP1289 has the broker offer transactional acknowledgements, nil for none.
	KIP1289 *kip1289.Switches
	Topics  []TopicSpec // made at start where they do not exist
	// TopicID names the id of a topic that is to be made, the zero id for a random one. nil: all are random.
	TopicID func(topic string) [16]byte
	Log     *slog.Logger
	// TimeStore keeps the latest time that it has seen, and a virtual clock goes on from there; nil where no cluster comes after this one. It is what is below
	// Store, so that faults of that are not used up by it.
	TimeStore storage.Store
	// Random is where the ids come from that brokers make up: of the cluster, topics, members and fetch sessions. It is read under the cluster's lock. nil: they
	// are random.
	Random io.Reader
	// RequestLog is how many of the last requests are remembered, 0 for none.
	RequestLog int
	// RequestLogBytes bounds what they take together, 0 for requestlog.MaxBytes.
	RequestLogBytes int
	// Followed is where a follower is set, nil where there never is one.
	Followed *Followed
	// Tap is told what clients and nodes send each other over a network, which direct connections are not; nil for nobody.
	Tap Tap
}

// Tap is told what clients and nodes send each other, in the order in which it happens: an answer before it is sent, an end before the client can see it. It is
// called from the goroutines of connections, under locks of the cluster too, and must not call the cluster. The bytes are valid until it returns.
type Tap interface {
	// Opened tells that a client has connected from a host.
	Opened(conn uint64, node int32, host string)
	// Received tells of a request, a frame without its length, whatever becomes of it.
	Received(conn uint64, frame []byte)
	// Sent tells of an answer, a frame without its length, as the client gets it. One that a fault gives a wrong length is not told.
	Sent(conn uint64, frame []byte)
	// Closed tells that the connection ends, once.
	Closed(conn uint64)
}

// TopicSpec is a topic to be made at start.
type TopicSpec struct {
	Name       string
	Partitions int32 // -1 for the broker's num.partitions
	// ID is the topic's id, zero for one as any topic gets.
	ID [16]byte
	// LeaderEpochs are the epochs that its partitions begin with, 0 for those that have none here.
	LeaderEpochs []int32
}

// Dialer connects to a node of a cluster.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
