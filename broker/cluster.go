// Package broker is the shell around the pure packages: it listens, reads requests, calls what decides, stores
// what must be stored and answers. There is one file per API key.
//
// All nodes of a cluster live in one process and share one state, which one lock guards. The lock is held for a
// change of state and never while a client is read from or written to.
package broker

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kshare/acl"
	"kshare/clock"
	"kshare/config"
	"kshare/protocol"
	"kshare/release"
	"kshare/requestlog"
	"kshare/sasl"
	"kshare/storage"
)

// Cluster is N nodes and what they share.
type Cluster struct {
	clock  clock.Clock
	timing Timing
	line   release.Line
	traits *release.Traits
	// forceShare is group.share.enable, which only Kafka 4.2 has: share groups are on whatever share.version says.
	forceShare bool
	store      storage.Store
	log        *slog.Logger
	static     *config.Static
	maxFrame   int // socket.request.max.bytes
	// unstableVersions tells that versions are offered which Kafka has not finished (unstable.api.versions.enable).
	unstableVersions bool
	nameID           func(topic string) [16]byte // Options.TopicID
	listen           func(nodeID int32, listener string) (net.Listener, error)
	apis             protocol.Catalog
	kip1289          transactionalAcks

	listeners  []listener // that every node has, at least one; fixed after New
	nodes      []*node    // in the order of their ids; fixed after New
	goroutines sync.WaitGroup

	connectionIDs atomic.Uint64
	answerBytes   int64         // as in Options
	held          atomic.Int64  // record bytes of answers that are being written
	maxIdle       time.Duration // connections.max.idle.ms, 0 where the clock is not the machine's
	connectionsMu sync.Mutex    // guards the nodes' sets of connections; may be taken while mu is held, not the reverse

	faults     faults
	timeStore  storage.Store // keeps the latest time that it has seen, nil for none
	seen       time.Time
	stopSeeing func()

	requestLog *requestlog.Log // nil where requests are not logged
	followed   *Followed
	random     io.Reader // of ids
	tap        Tap       // nil where nobody is told what clients send

	heavy sync.Mutex // held while a heavy request is handled, before mu

	failureDelay time.Duration // connection.failed.authentication.delay.ms
	maxToken     int           // sasl.server.max.receive.size

	mu         sync.Mutex // guards everything below and all that hangs on it
	closed     bool
	id         string // cluster id: 16 random bytes in URL-safe base64
	features   features
	config     *config.State
	topics     map[string]*topic
	topicsByID map[[16]byte]*topic
	spread     map[string]int32 // over how many partitions of an internal topic keys are spread
	placement  int              // how many partitions have been placed, so that leaders go round
	// nextProducerID is the next id to hand out; ids below producerIDsReserved are recorded as used, so that a
	// restart never hands one out twice: nextProducerID <= producerIDsReserved.
	nextProducerID, producerIDsReserved int64
	groups                              *groups
	share                               *share
	transactions                        *transactions
	producersChecked                    time.Time // when producers were last looked through for expired ones
	cleanup                             cleanup
	timers                              map[*lockedTimer]struct{} // those that may still fire

	authorizer  *acl.Authorizer // nil where everybody may do everything
	rules       map[acl.Binding]uint64
	lastRule    uint64
	credentials map[credentialKey]sasl.Credential
}

// New starts a cluster: it loads what the store holds, makes the topics asked for and begins to accept connections.
// The caller keeps the store if New fails; otherwise Close closes it.
func New(o Options) (*Cluster, error) {
	c := &Cluster{
		clock:  o.Clock,
		timing: o.Timing,
		store:  o.Store,
		log:    o.Log,
		static: o.Config,

		followed:         o.Followed,
		random:           o.Random,
		answerBytes:      o.AnswerBytes,
		nameID:           o.TopicID,
		listen:           o.Listen,
		maxFrame:         int(o.Config.Values().Int("socket.request.max.bytes")),
		forceShare:       o.Config.Values().Bool("group.share.enable"),
		unstableVersions: o.Config.Values().Bool("unstable.api.versions.enable"),
		topics:           map[string]*topic{},
		topicsByID:       map[[16]byte]*topic{},
		timers:           map[*lockedTimer]struct{}{},
		stopSeeing:       func() {},
	}
	if c.line = o.Kafka; c.line == 0 {
		c.line = release.Latest
	}
	c.traits = c.line.Traits()
	if c.random == nil {
		c.random = rand.Reader
	}
	if o.KIP1289 != nil {
		c.takeTransactionalAcks(o.KIP1289)
	}
	c.faults.set.APIs = c.apis
	c.tap = o.Tap
	if o.RequestLog > 0 {
		c.requestLog = requestlog.New(o.RequestLog, c.apis)
		if o.RequestLogBytes > 0 {
			c.requestLog.Bound(o.RequestLogBytes)
		}
	}
	if _, ok := o.Clock.(clock.Machine); ok {
		c.maxIdle = max(0, o.Config.Values().Duration("connections.max.idle.ms"))
	}
	if err := c.secure(&o); err != nil {
		return nil, err
	}
	for i := range o.Nodes {
		n := &node{cluster: c, id: o.FirstNodeID + int32(i)}
		c.nodes = append(c.nodes, n)
		err := n.listen()
		if err == nil {
			err = n.advertise(o.Advertise)
		}
		if err != nil {
			c.stopNodes()
			return nil, err
		}
	}
	var err error
	if c.timeStore = o.TimeStore; c.timeStore != nil {
		err = c.goOnInTime()
	}
	if err == nil {
		err = c.load(&o)
	}
	if err != nil {
		c.stopSeeing()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stopNodes()
		c.closed = true
		c.stopTimers()
		return nil, err
	}
	for _, n := range c.nodes {
		n.begin()
	}
	return c, nil
}

// load brings the state back that the store holds, or makes a new cluster's.
func (c *Cluster) load(o *Options) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.loadIdentity(o.ClusterID); err != nil {
		return err
	}
	if err := c.loadFeatures(o.Features); err != nil {
		return err
	}
	if err := c.loadConfigs(o.Config); err != nil {
		return err
	}
	if err := c.loadSecurity(o); err != nil {
		return err
	}
	if err := c.loadTopics(); err != nil {
		return err
	}
	for _, n := range c.nodes {
		n.fetchSessions = c.newFetchSessions()
	}
	c.spreadKeys()
	c.groups = newGroups(c)
	c.share = newShare(c)
	c.transactions = newTransactions(c)
	c.producersChecked = c.clock.Now()
	if err := c.loadCoordinators(); err != nil {
		return err
	}
	if err := c.finishDeletions(); err != nil {
		return err
	}
	c.reportStrayLogs()
	for _, t := range o.Topics {
		if c.topics[t.Name] == nil {
			if err := c.createAtStart(t); err != nil {
				return err
			}
		}
	}
	c.spreadKeys()
	c.groups.coordinator.SetPartitions(c.spread[consumerOffsetsTopic])
	c.beginCleanup()
	if commit := c.store.Commit(); commit != nil {
		return commit.Wait()
	}
	return nil
}

// stopNodes closes listeners and connections. The lock is held, unless the cluster is not started yet.
func (c *Cluster) stopNodes() {
	for _, n := range c.nodes {
		n.stop()
	}
}

// Close stops the cluster: listeners and connections are closed, requests that wait end without an answer, and the
// store is closed once every goroutine has ended.
func (c *Cluster) Close() error {
	if c.timeStore != nil {
		if err := c.seeTime(c.clock.Now()); err != nil {
			c.log.Error("the time could not be stored; a restart may go back to an earlier one", "error", err)
		}
	}
	c.stopSeeing()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.stopNodes()
	c.mu.Unlock()
	c.goroutines.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopTimers()
	return c.store.Close()
}

// stopTimers stops every timer, so that nothing holds on to a closed cluster and its clock owes nothing to it.
func (c *Cluster) stopTimers() {
	for t := range c.timers {
		t.Stop()
	}
}

// answerRoom is how many record bytes a new answer may hold.
func (c *Cluster) answerRoom() int32 {
	if c.answerBytes == 0 {
		return math.MaxInt32
	}
	return int32(min(math.MaxInt32, max(0, c.answerBytes-c.held.Load())))
}

// Addrs returns the host:port of every node as it is advertised on the listener at a place among Options.Listeners, in the order of node ids.
func (c *Cluster) Addrs(listener int) []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.endpoints[listener].addr()
	}
	return addrs
}

// ID returns the cluster id.
func (c *Cluster) ID() string { return c.id }

// after calls f under the lock once d has passed, unless the cluster has been closed or the timer stopped by then. The lock is held, and
// for Stop too.
func (c *Cluster) after(d time.Duration, f func()) clock.Timer {
	t := &lockedTimer{cluster: c, at: c.clock.Now().Add(max(d, 0))}
	c.timers[t] = struct{}{}
	t.Timer = c.clock.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, owed := c.timers[t]; owed && !c.closed {
			delete(c.timers, t)
			f()
		}
	})
	return t
}

// lockedTimer is a timer that has not fired before its function has the lock: one that was stopped while the function waited for it does
// nothing.
type lockedTimer struct {
	clock.Timer
	cluster *Cluster
	at      time.Time // when it fires
}

func (t *lockedTimer) Stop() bool {
	delete(t.cluster.timers, t)
	return t.Timer.Stop()
}

// now is the current time in ms since 1970, as records carry it.
func (c *Cluster) now() int64 { return c.clock.Now().UnixMilli() }

// node returns the node with the id, nil where there is none.
func (c *Cluster) node(id int32) *node {
	if i := int(id - c.nodes[0].id); i >= 0 && i < len(c.nodes) {
		return c.nodes[i]
	}
	return nil
}

// liveNodes are the nodes that the others count on, in the order of their ids.
func (c *Cluster) liveNodes() []*node {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return !n.live() })
}

// controllerID is the node that clients are told is the controller, noNode where none is live.
func (c *Cluster) controllerID() int32 {
	for _, n := range c.nodes {
		if n.live() {
			return n.id
		}
	}
	return noNode
}

// identity is what a cluster is known by, as stored.
type identity struct {
	ClusterID           string
	ProducerIDsReserved int64
}

const identityKey = "cluster"

// loadIdentity reads the identity of a cluster. A new one has the given id, or one that is made up.
func (c *Cluster) loadIdentity(newID string) error {
	id := identity{ClusterID: newID}
	if err := c.loadJSON(identityKey, &id); err != nil {
		return err
	}
	if id.ClusterID == "" {
		raw := c.randomID()
		id.ClusterID = base64.RawURLEncoding.EncodeToString(raw[:])
	}
	c.id = id.ClusterID
	c.nextProducerID, c.producerIDsReserved = id.ProducerIDsReserved, id.ProducerIDsReserved
	return c.storeIdentity()
}

func (c *Cluster) storeIdentity() error {
	return c.storeJSON(identityKey, identity{ClusterID: c.id, ProducerIDsReserved: c.producerIDsReserved})
}

// loadJSON reads the value of a metadata key into v, which keeps its value where there is none.
func (c *Cluster) loadJSON(key string, v any) error {
	return c.store.Metadata(key, func(k string, value []byte) error {
		if k != key {
			return nil
		}
		if err := json.Unmarshal(value, v); err != nil {
			return fmt.Errorf("stored metadata %q cannot be read: %w", key, err)
		}
		return nil
	})
}

// eachStored calls f for each value whose key begins with the prefix, in the order of keys.
func eachStored[V any](c *Cluster, prefix string, f func(V) error) error {
	return c.store.Metadata(prefix, func(key string, value []byte) error {
		var v V
		if err := json.Unmarshal(value, &v); err != nil {
			return fmt.Errorf("stored metadata %q cannot be read: %w", key, err)
		}
		return f(v)
	})
}

func (c *Cluster) storeJSON(key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("metadata %q: %w", key, err)
	}
	return c.store.PutMetadata(key, b)
}

// topicID is the id of a topic that is to be made.
func (c *Cluster) topicID(topic string) [16]byte {
	if c.nameID != nil {
		if id := c.nameID(topic); id != [16]byte{} && c.topicsByID[id] == nil {
			return id
		}
	}
	return c.randomID()
}

// fillRandom fills b with what ids are made of.
func (c *Cluster) fillRandom(b []byte) {
	if _, err := io.ReadFull(c.random, b); err != nil {
		panic(err) // crypto/rand.Reader never fails, nor may another
	}
}

// randomID makes an id as Kafka's Uuid.randomUuid does: never one whose text begins with a dash, so that it can
// be an argument of a command.
func (c *Cluster) randomID() [16]byte {
	var id [16]byte
	for {
		c.fillRandom(id[:])
		if id[0]>>2 != 62 {
			return id
		}
	}
}
