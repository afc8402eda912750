// Package kshare runs a fake Kafka inside the process: real clients cannot tell it from Apache Kafka 4.4.
//
//	cluster, err := kshare.Start(kshare.WithTopic("orders", 3))
//	if err != nil { ... }
//	defer cluster.Close()
//	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...))
//
// Without options a cluster has one node on a free port of the loopback interface and keeps everything in memory.
// [WithInMemoryNetwork] does without a port, [WithClock] and a clock.Virtual without waiting, [WithDirectory] survives a restart.
// Any number of clusters can run in one process; they share nothing.
package kshare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"kshare/broker"
	"kshare/clock"
	"kshare/config"
	"kshare/coordinator"
	"kshare/internal/handover"
	"kshare/internal/memorynet"
	"kshare/kip1289"
	"kshare/release"
	"kshare/storage"
	"kshare/storage/faulty"
)

// Timing says how long the cluster makes clients wait where nothing but patience is at stake.
type Timing = broker.Timing

const (
	// TimingFast shortens waits that carry no meaning; it is the default.
	TimingFast = broker.TimingFast
	// TimingKafka waits exactly as Apache Kafka 4.4.0 does.
	TimingKafka = broker.TimingKafka
)

// TimingNamed is the timing profile with a name that people write: fast or kafka; false for another name.
func TimingNamed(name string) (Timing, bool) {
	t, ok := map[string]Timing{"fast": TimingFast, "kafka": TimingKafka}[name]
	return t, ok
}

// Option changes how a cluster is started.
type Option func(*options) error

type options struct {
	broker      broker.Options
	listeners   []*listenerOptions
	security    securityOptions
	memory      *memorynet.Network
	ports       *handover.Ports
	properties  []config.Property
	openStore   func(*config.Static, *slog.Logger) (storage.Store, error) // nil for a store in memory that ends with the broker
	keepTime    bool                                                      // the store keeps the time, because another process may go on with it
	judged      bool
	judgeClock  clock.Clock // nil for the cluster's
	judgeRecord io.Writer   // nil for nowhere
	judge       *Judge      // nil where none is asked for
}

// WithBrokers makes a cluster of n nodes, at least 1, each with an address of its own. Partitions are led across them.
func WithBrokers(n int) Option {
	return func(o *options) error {
		if n < 1 || n > maxBrokers {
			return fmt.Errorf("a cluster has 1 to %d nodes, not %d", maxBrokers, n)
		}
		o.broker.Nodes = n
		return nil
	}
}

const maxBrokers = 1000

// WithNodeID sets the id of the first node; the others count up from it. It is 1 otherwise.
func WithNodeID(id int32) Option {
	return func(o *options) error {
		if id < 0 {
			return fmt.Errorf("node id %d is negative", id)
		}
		o.broker.FirstNodeID = id
		return nil
	}
}

// WithInMemoryNetwork makes the nodes reachable through Cluster.Dial only: no port is opened.
func WithInMemoryNetwork() Option {
	return func(o *options) error { o.memory = &memorynet.Network{}; return nil }
}

// WithClock sets the clock that the cluster lives by: a *clock.Virtual moves only when it is advanced.
func WithClock(c clock.Clock) Option {
	return func(o *options) error { o.broker.Clock = c; return nil }
}

// WithTiming sets the timing profile.
func WithTiming(t Timing) Option {
	return func(o *options) error { o.broker.Timing = t; return nil }
}

// WithConfig sets a broker configuration by Kafka's name for it. Start fails for a name that Kafka does not know or a value that it would refuse.
func WithConfig(key, value string) Option {
	return func(o *options) error {
		o.properties = append(o.properties, config.Property{Key: key, Value: value, Origin: "option"})
		return nil
	}
}

// WithProperties sets broker configurations as they were read from somewhere, whose name is in the errors about them.
func WithProperties(properties ...config.Property) Option {
	return func(o *options) error {
		o.properties = append(o.properties, properties...)
		return nil
	}
}

// WithFeature finalises a feature at a level when the cluster is made, as in WithFeature("share.version", 1).
func WithFeature(name string, level int16) Option {
	return func(o *options) error {
		if o.broker.Features == nil {
			o.broker.Features = map[string]int16{}
		}
		o.broker.Features[name] = level
		return nil
	}
}

// WithKIP1289 has the brokers take acknowledgements of share groups in transactions (KIP-1289, which is proposed only): share.version 3 is there, and
// finalised unless WithFeature says otherwise. switches, of the form name=value, are points on which its texts differ; package kip1289 lists them. It is
// an error if there is no such switch or value.
func WithKIP1289(switches ...string) Option {
	return func(o *options) error {
		s, err := kip1289.Parse(switches...)
		if err != nil {
			return err
		}
		o.broker.KIP1289 = &s
		return nil
	}
}

// WithKafkaVersion makes the cluster one of a line of Apache Kafka that has share groups for production: "4.2", "4.3" or "4.4", the default. Package
// release lists in what they differ.
func WithKafkaVersion(version string) Option {
	return func(o *options) (err error) {
		o.broker.Kafka, err = release.Parse(version)
		return err
	}
}

// WithTopic makes a topic at start where it does not exist. -1 partitions are the broker's num.partitions.
func WithTopic(name string, partitions int32) Option {
	return func(o *options) error {
		o.broker.Topics = append(o.broker.Topics, broker.TopicSpec{Name: name, Partitions: partitions})
		return nil
	}
}

// WithTopicIDs sets where the ids of new topics come from; they are random otherwise. What Kafka answers in the order of a hash map
// follows from them, so equal ids make runs equal. An id that is zero or in use is replaced by a random one. The function is
// called under the cluster's lock and must not call the cluster.
func WithTopicIDs(id func(topic string) [16]byte) Option {
	return func(o *options) error { o.broker.TopicID = id; return nil }
}

// WithRandom sets where the ids come from that brokers make up: of the cluster, of topics, members and fetch sessions. They are random otherwise. Equal bytes make runs on a
// virtual clock equal. It is read under the cluster's lock, must not fail and must not end.
func WithRandom(r io.Reader) Option {
	return func(o *options) error { o.broker.Random = r; return nil }
}

// WithLogger sets where the cluster logs; without it nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) error { o.broker.Log = l; return nil }
}

// Cluster is a running fake Kafka.
type Cluster struct {
	options  options
	memory   *memorynet.Network
	changing sync.Mutex // held while the broker is replaced or closed
	closed   bool       // guarded by changing
	current  atomic.Pointer[running]
}

// running is a broker and its store.
type running struct {
	broker *broker.Cluster
	disk   *faulty.Store
}

// Start starts a cluster. It accepts connections when Start returns.
func Start(opts ...Option) (*Cluster, error) {
	o := options{
		broker: broker.Options{Nodes: 1, FirstNodeID: 1, Followed: &broker.Followed{}, Kafka: release.Latest, Clock: clock.Machine{}, Log: slog.New(slog.DiscardHandler)},
		ports:  &handover.Ports{},
	}
	for _, opt := range opts {
		if err := opt(&o); err != nil {
			return nil, fmt.Errorf("kshare: %w", err)
		}
	}
	o.makeJudge()
	c := &Cluster{memory: o.memory}
	b, err := o.start()
	if err != nil {
		return nil, fmt.Errorf("kshare: %w", err)
	}
	c.options = o
	c.options.keepIDs(b.broker)
	c.current.Store(b)
	return c, nil
}

// keepIDs has what is started again have the ids that it had.
func (o *options) keepIDs(b *broker.Cluster) {
	o.broker.ClusterID = b.ID()
	for _, t := range b.InspectTopics() {
		for i := range o.broker.Topics {
			if o.broker.Topics[i].Name == t.Name {
				o.broker.Topics[i].ID = t.ID
			}
		}
	}
}

// raiseEpochs has the topics that keep their ids go on in leader epochs above those of the broker: a client takes metadata with a lower epoch for old news.
func (o *options) raiseEpochs(b *broker.Cluster) {
	last := map[[16]byte][]broker.PartitionState{}
	for _, t := range b.InspectTopics() {
		last[t.ID] = t.Partitions
	}
	for i := range o.broker.Topics {
		t := &o.broker.Topics[i]
		partitions := last[t.ID]
		t.LeaderEpochs = append(t.LeaderEpochs, make([]int32, max(0, len(partitions)-len(t.LeaderEpochs)))...)
		for k := range t.LeaderEpochs {
			if k < len(partitions) {
				t.LeaderEpochs[k] = max(t.LeaderEpochs[k], partitions[k].LeaderEpoch)
			}
			t.LeaderEpochs[k]++
		}
	}
}

// broker is the broker of the time.
func (c *Cluster) broker() *broker.Cluster { return c.current.Load().broker }

func (o *options) start() (*running, error) {
	static, err := config.ParseFor(o.broker.Kafka, o.properties)
	if err != nil {
		return nil, err
	}
	o.broker.Config = static
	if err := o.secure(static); err != nil {
		return nil, err
	}
	o.broker.Listen = func(id int32, listener string) (net.Listener, error) {
		return o.ports.Listen(handover.Port{Node: id, Listener: listener}, func() (net.Listener, error) { return o.listenNode(id, listener) })
	}
	o.broker.Advertise = o.advertiseNode
	store := storage.NewMemory()
	if o.openStore != nil {
		if store, err = o.openStore(static, o.broker.Log); err != nil {
			return nil, err
		}
	}
	if o.keepTime {
		o.broker.TimeStore = store
	}
	disk := faulty.New(store)
	o.broker.Store = disk
	b, err := broker.New(o.broker)
	if err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	return &running{b, disk}, nil
}

// Addrs returns the host:port of every node, as clients are told, in the order of the nodes: what a client's bootstrap servers are. Of several listeners it is
// the first that was asked for.
func (c *Cluster) Addrs() []string { return c.broker().Addrs(0) }

// ID returns the cluster id.
func (c *Cluster) ID() string { return c.broker().ID() }

// Clock returns the clock that the cluster lives by.
func (c *Cluster) Clock() clock.Clock { return c.options.broker.Clock }

// Dial connects to a node by one of Addrs. With WithInMemoryNetwork it is the only way in, to be given to a client as its dialer.
func (c *Cluster) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if c.memory != nil {
		return c.memory.Dial(ctx, network, addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// Direct is a connection to a node without network and goroutine: what is sent is handled before Send returns. On a virtual clock a run
// over direct connections is a function of its input.
type Direct = broker.Direct

// OpenDirect opens a direct connection to a node.
func (c *Cluster) OpenDirect(nodeID int32) (*Direct, error) { return c.broker().OpenDirect(nodeID) }

// ErrNotInMemory is the error of Reset for a cluster with WithDirectory or WithMemory.
var ErrNotInMemory = errors.New("a cluster that is kept in a directory, or in a memory that outlives it, is not reset")

// ErrClosed is the error of Reset for a cluster that was closed.
var ErrClosed = errors.New("the cluster was closed")

// Reset makes the cluster empty, as it was after Start: the topics asked for there exist again, without records, and everything else is gone, what was configured since
// and faults with it. The cluster keeps its id, the ids of those topics, its addresses and its clock, so that clients can go on; the clock's timers for the cluster
// are dropped. Those topics' partitions go on in a leader epoch above the last one. All connections are closed; those that come in meanwhile wait. It takes about a millisecond. Where it fails otherwise than with ErrNotInMemory and ErrClosed, the cluster is closed.
func (c *Cluster) Reset() error {
	c.changing.Lock()
	defer c.changing.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.options.openStore != nil:
		return ErrNotInMemory
	}
	c.options.ports.Keep(true)
	err := c.broker().Close()
	c.options.ports.Keep(false)
	var b *running
	if c.options.judge != nil {
		c.options.judge.Restart()
	}
	if err == nil {
		c.options.raiseEpochs(c.broker())
		b, err = c.options.start()
	}
	if err != nil {
		c.closed = true
		return errors.Join(fmt.Errorf("kshare: the cluster could not be started again: %w", err), c.options.ports.Close())
	}
	c.current.Store(b)
	return nil
}

// SharePartitionState is a share partition as its leader knows it, and what is persisted of it.
type SharePartitionState = broker.SharePartitionState

// InspectSharePartition returns the state of a group's share partition: records in flight with their states, owners and locks. It fails for a
// topic or partition that does not exist.
func (c *Cluster) InspectSharePartition(group, topic string, partition int32) (*SharePartitionState, error) {
	return c.broker().InspectSharePartition(group, topic, partition)
}

// NodeState is a node, its address and how it does.
type NodeState = broker.NodeState

// InspectNodes returns all nodes in the order of their ids.
func (c *Cluster) InspectNodes() []NodeState { return c.broker().InspectNodes() }

// TopicState is a topic and how far its partitions are.
type TopicState = broker.TopicState

// GroupState is a group and its members.
type GroupState = coordinator.GroupState

// InspectTopics returns all topics in the order of their names, internal ones included.
func (c *Cluster) InspectTopics() []TopicState { return c.broker().InspectTopics() }

// Metrics are what Apache Kafka measures of share groups.
type Metrics = broker.Metrics

// SharePartitionMetrics are the metrics of a share partition.
type SharePartitionMetrics = broker.SharePartitionMetrics

// DeadLetterCounters are what has happened to records on their way to a group's dead-letter queue.
type DeadLetterCounters = broker.DeadLetterCounters

// GroupCount is a type and a state that groups are counted by.
type GroupCount = coordinator.GroupCount

// InspectMetrics returns the metrics as they stand at one moment.
func (c *Cluster) InspectMetrics() *Metrics { return c.broker().InspectMetrics() }

// OpenTransaction is a transaction that is not complete, with the records whose acknowledgements wait for its end.
type OpenTransaction = broker.OpenTransaction

// InspectTransactions returns the transactions of all nodes that are not complete, in the order of their ids: what read_committed and share groups wait for.
func (c *Cluster) InspectTransactions() []OpenTransaction { return c.broker().InspectTransactions() }

// AbortTransaction aborts the ongoing transaction of a transactional id, whoever owns it, and fences its owner, as any client does that takes the id over. It fails where none is ongoing.
func (c *Cluster) AbortTransaction(id string) error {
	return failed("abort transaction", c.broker().AbortTransaction(id))
}

// ReleaseStaged gives records back whose acknowledgements wait for a transaction that is not there any more, as its abort would: those that InspectTransactions lists with a producer and
// without a transactional id. It fails where there are none.
func (c *Cluster) ReleaseStaged(producerID int64) error {
	return failed("release staged records", c.broker().ReleaseStaged(producerID))
}

// InspectGroups returns all groups in the order of their ids.
func (c *Cluster) InspectGroups() []GroupState { return c.broker().InspectGroups() }

// Close stops the cluster and returns once all its goroutines have ended. Connections are closed; with a directory,
// everything that was answered is in it.
func (c *Cluster) Close() error {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.closed = true
	return c.broker().Close()
}
