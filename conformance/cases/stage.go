package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/live"
	"kshare/conformance/proxy"
	"kshare/fault"
	"kshare/protocol"
)

// Keys of APIs that cases speak of.
const (
	produceKey     int16 = 0
	fetchKey       int16 = 1
	metadataKey    int16 = 3
	findKey        int16 = 10
	apiVersionsKey int16 = 18
	heartbeatKey   int16 = 76
	shareFetchKey  int16 = 78
	shareAckKey    int16 = 79
)

// What every case has.
const (
	defaultTopic = "t"
	groupID      = "judged"
	lockDuration = 15 * time.Second
)

// Stage is the cluster, the client and all that has passed between them, of one case.
type Stage struct {
	c       *Case
	argv    []string
	ctx     context.Context
	clock   *clock.Paced
	began   time.Time // by it
	cluster *kshare.Cluster
	proxy   *proxy.Proxy
	mutant  *proxy.Proxy // in front of it, nil without
	judge   *live.Judge
	// authority is the file of what vouches for the proxy's certificate, "" without TLS.
	authority string
	frames    frameBuffer

	driver  *driver.Driver
	closing bool // the client is told to close: its process may end

	mu      sync.Mutex
	changed chan struct{}
	seen    []*Seen
	answers map[*proxy.Exchange]*Seen
	asks    []*hook[func(*proxy.Exchange)]
	edits   []*hook[func(*proxy.Exchange) bool]
	opens   []*hook[func(node int32) bool]
	conns   []opened
	sent    map[string]int64 // records that were produced, by topic-partition
	notes   []string         // what a SHOULD has broken beside the case's own verdict
	telling []string         // what there is to tell
	missed  bool             // a should of the case is broken
}

type hook[F any] struct{ f F }

// opened is a connection.
type opened struct {
	at   time.Time
	node int32
}

// Seen is an exchange that has passed. It is not to be changed.
type Seen struct {
	N            int
	At, Answered time.Time // the latter zero without an answer
	Conn         uint64
	Node         int32
	Key, Version int16
	Client       string
	Request      kmsg.Request
	Response     kmsg.Response

	clockAsked, clockAnswered time.Time // by the cluster's clock, which cases move
}

// stop ends a case with a verdict.
type stop struct {
	verdict Verdict
	why     string
}

// frameBuffer keeps the recording of a case up to a bound.
type frameBuffer struct {
	bytes.Buffer
	full bool
}

const maxRecording = 8 << 20

func (b *frameBuffer) Write(p []byte) (int, error) {
	if b.full || b.Len()+len(p) > maxRecording {
		b.full = true
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// open makes the cluster and the proxy of a case.
func open(ctx context.Context, c *Case, o *Options) (*Stage, error) {
	s := &Stage{c: c, argv: o.Client, ctx: ctx, changed: make(chan struct{}), answers: map[*proxy.Exchange]*Seen{}, sent: map[string]int64{}}
	s.clock = clock.NewPaced(time.Now(), 2*time.Millisecond)
	opts := []kshare.Option{
		kshare.WithInMemoryNetwork(), kshare.WithClock(s.clock), kshare.WithBrokers(max(1, c.Setup.Brokers)),
	}
	if c.Setup.Nodes {
		opts = append(opts, kshare.WithNodeID(c.Setup.FirstNode))
	}
	s.began = s.clock.Now()
	for k, v := range s.config() {
		opts = append(opts, kshare.WithConfig(k, v))
	}
	for name, partitions := range s.topicsOfSetup() {
		opts = append(opts, kshare.WithTopic(name, int32(partitions)))
	}
	for name, level := range c.Setup.Features {
		opts = append(opts, kshare.WithFeature(name, level))
	}
	if c.Setup.SASL {
		opts = append(opts, loginOptions()...)
	}
	if c.Setup.Atomic {
		opts = append(opts, kshare.WithKIP1289())
	}
	err := s.openCluster(opts, o)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *Stage) openCluster(opts []kshare.Option, o *Options) (err error) {
	if s.cluster, err = kshare.Start(opts...); err != nil {
		return err
	}
	apis := protocol.Catalog{}
	if s.c.Setup.Atomic {
		apis = protocol.WithTxnShareAcknowledge(protocol.TxnShareAcknowledgeKey)
	}
	s.judge = live.New(conformance.Options{APIs: apis}, clock.Machine{}, &s.frames)
	front := proxy.Options{Upstream: s.upstream(s.cluster.Addrs()), Listen: "127.0.0.1:0", Dial: s.cluster.Dial, Tap: s.judge, Script: s, APIs: apis}
	if s.c.Setup.TLS {
		if front.Listener, s.authority, err = certified(); err != nil {
			return err
		}
	}
	s.proxy, err = proxy.Start(s.ctx, front)
	if err != nil || o.Mutant == nil {
		return err
	}
	s.mutant, err = proxy.Start(s.ctx, proxy.Options{Upstream: s.upstream(s.proxy.Addrs()), Listen: "127.0.0.1:0", Tap: nobody{}, Script: o.Mutant(), APIs: apis})
	return err
}

// entry is where the client connects to.
func (s *Stage) entry() *proxy.Proxy {
	if s.mutant != nil {
		return s.mutant
	}
	return s.proxy
}

// config is the configuration of the brokers.
func (s *Stage) config() map[string]string {
	config := map[string]string{
		"group.share.min.heartbeat.interval.ms": "100", "group.share.heartbeat.interval.ms": "1000", "group.share.record.lock.duration.ms": "15000",
		"group.share.min.record.lock.duration.ms": "1000", "auto.create.topics.enable": "false", "offsets.topic.num.partitions": "1",
		"share.coordinator.state.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1", "transaction.state.log.min.isr": "1", "transaction.state.log.replication.factor": "1", "group.initial.rebalance.delay.ms": "0",
		"group.consumer.min.heartbeat.interval.ms": "100", "group.consumer.heartbeat.interval.ms": "1000",
	}
	maps.Copy(config, s.c.Setup.Config)
	return config
}

// groupConfig is the configuration of the group.
func (s *Stage) groupConfig() map[string]string {
	group := map[string]string{"share.auto.offset.reset": "earliest"}
	maps.Copy(group, s.c.Setup.Group)
	return group
}

// recordsOfSetup are how many records each partition begins with, and how many a batch has.
func (s *Stage) recordsOfSetup() (n, batch int) {
	n, batch = s.c.Setup.Records, s.c.Setup.Batch
	if batch == 0 {
		batch = 10
	}
	if n == 0 {
		n = 100
	}
	return max(n, 0), batch
}

// upstream are the nodes of the cluster for a proxy that reaches them by these addresses.
func (s *Stage) upstream(addrs []string) (nodes []string) {
	for i, n := range s.cluster.InspectNodes() {
		nodes = append(nodes, fmt.Sprintf("%d=%s", n.ID, addrs[i]))
	}
	return nodes
}

// nobody is told nothing.
type nobody struct{}

func (nobody) Opened(uint64, int32, string) {}
func (nobody) Received(uint64, []byte)      {}
func (nobody) Sent(uint64, []byte)          {}
func (nobody) Closed(uint64)                {}

func (s *Stage) topicsOfSetup() map[string]int {
	if s.c.Setup.Topics == nil {
		return map[string]int{defaultTopic: 1}
	}
	return s.c.Setup.Topics
}

// close ends everything. The driver is killed where it still runs.
func (s *Stage) close() error {
	if s.driver != nil {
		s.driver.Stop(0)
	}
	var errs []error
	for _, p := range []*proxy.Proxy{s.mutant, s.proxy} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.Close())
	}
	s.clock.Close()
	if s.authority != "" {
		errs = append(errs, os.RemoveAll(filepath.Dir(s.authority)))
	}
	return errors.Join(errs...)
}

// perform runs the case and returns its verdict.
func (s *Stage) perform() (end stop) {
	defer func() {
		switch x := recover().(type) {
		case nil:
		case stop:
			end = x
		default:
			end = stop{HarnessFailed, fmt.Sprintf("the case itself has failed: %v\n%s", x, debug.Stack())}
		}
		if end.verdict == Pass && s.missed {
			end.verdict = Warn
		}
		if s.c.Level == conformance.Info && (end.verdict == Fail || end.verdict == Warn) {
			end.verdict = Info
		}
		if s.c.Level == conformance.Should && end.verdict == Fail {
			end.verdict = Warn
		}
	}()
	s.prepare()
	if !s.c.Setup.Late {
		s.Launch()
	}
	s.c.run(s)
	return stop{verdict: Pass}
}

// prepare sets the group up and writes the records.
func (s *Stage) prepare() {
	s.alter(kmsg.ConfigResourceTypeGroupConfig, groupID, s.groupConfig())
	n, batch := s.recordsOfSetup()
	for name, partitions := range s.topicsOfSetup() {
		for p := range int32(partitions) {
			for from := 0; from < n; from += batch {
				s.Produce(name, p, min(batch, n-from))
			}
		}
	}
}

// Launch starts the client. It is called once.
func (s *Stage) Launch() {
	props := map[string]any{"client_id": "judged-client"}
	maps.Copy(props, s.c.Setup.Props)
	if s.authority != "" {
		props["tls_ca"] = s.authority
	}
	text, err := json.Marshal(props)
	if err != nil {
		panic(err)
	}
	ack, kind := "implicit", s.c.Setup.Kind
	if s.c.Setup.Explicit {
		ack = "explicit"
	}
	if kind == "" {
		kind = "share"
	}
	names := s.c.Setup.Subscribe
	if names == nil {
		names = slices.Sorted(maps.Keys(s.topicsOfSetup()))
	}
	s.driver, err = driver.Start(s.argv, map[string]string{
		"KSJ_BOOTSTRAP": strings.Join(s.entry().Addrs(), ","), "KSJ_GROUP": groupID, "KSJ_TOPICS": strings.Join(names, ","), "KSJ_KIND": kind, "KSJ_ACK": ack,
		"KSJ_PROPS": string(text), "KSJ_CASE": s.c.ID,
	})
	if err != nil {
		panic(stop{HarnessFailed, err.Error()})
	}
	hello := s.event("its hello", 20*time.Second, 0, func(e driver.Event) bool { return e.Ev == "hello" || e.Ev == "unsupported" })
	if hello.Ev == "unsupported" {
		panic(stop{Skip, "the driver has no setting " + hello.What})
	}
	for _, need := range s.c.Needs {
		if !slices.Contains(hello.Caps, need) {
			panic(stop{Skip, "the driver lacks " + need})
		}
	}
}

// Opens implements proxy.Script.
func (s *Stage) Opens(_ uint64, node int32) bool {
	s.mu.Lock()
	s.conns = append(s.conns, opened{time.Now(), node})
	hooks := slices.Clone(s.opens)
	s.tell()
	s.mu.Unlock()
	for _, h := range hooks {
		if !h.f(node) {
			return false
		}
	}
	return true
}

// Asked implements proxy.Script.
func (s *Stage) Asked(x *proxy.Exchange) {
	s.mu.Lock()
	seen := &Seen{N: len(s.seen), At: time.Now(), Conn: x.Conn, Node: x.Node, Key: x.Header.Key, Version: x.Header.Version, Client: x.Header.ClientID, Request: x.Request, clockAsked: s.clock.Now()}
	s.seen = append(s.seen, seen)
	s.answers[x] = seen
	hooks := slices.Clone(s.asks)
	s.tell()
	s.mu.Unlock()
	for _, h := range hooks {
		h.f(x)
	}
}

// Answered implements proxy.Script.
func (s *Stage) Answered(x *proxy.Exchange) (changed bool) {
	s.mu.Lock()
	hooks := slices.Clone(s.edits)
	s.mu.Unlock()
	for _, h := range hooks {
		changed = h.f(x) || changed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen := s.answers[x]; seen != nil {
		if !x.Close && !x.Silent {
			seen.Answered, seen.clockAnswered, seen.Response = time.Now(), s.clock.Now(), x.Response
		}
		delete(s.answers, x)
	}
	s.tell()
	return changed
}

func (s *Stage) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// OnAsk has requests go through a function, until undo.
func (s *Stage) OnAsk(f func(*proxy.Exchange)) (undo func()) { return add(s, &s.asks, f) }

// Edit has answers go through a function, which tells whether it has changed them, until undo.
func (s *Stage) Edit(f func(*proxy.Exchange) bool) (undo func()) { return add(s, &s.edits, f) }

// OnOpen has connections go through a function, which tells whether they are served.
func (s *Stage) OnOpen(f func(node int32) bool) (undo func()) { return add(s, &s.opens, f) }

func add[F any](s *Stage, hooks *[]*hook[F], f F) (undo func()) {
	h := &hook[F]{f}
	s.mu.Lock()
	defer s.mu.Unlock()
	*hooks = append(*hooks, h)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*hooks = slices.DeleteFunc(*hooks, func(other *hook[F]) bool { return other == h })
	}
}

// Fault adds a rule of package fault to the cluster, in its text form, and returns its id.
func (s *Stage) Fault(words ...string) int {
	r, err := fault.ParseRule(strings.Fields(strings.Join(words, " "))...)
	if err != nil {
		panic(err)
	}
	id, err := s.cluster.AddFault(r)
	if err != nil {
		panic(err)
	}
	return id
}

// Unfault removes a rule.
func (s *Stage) Unfault(id int) {
	if err := s.cluster.RemoveFault(id); err != nil {
		panic(err)
	}
}

// Acts is how often a rule has acted.
func (s *Stage) Acts(id int) int {
	for _, f := range s.cluster.Faults() {
		if f.ID == id {
			return f.Acts
		}
	}
	return 0
}

// ask asks the cluster behind the proxy.
func (s *Stage) ask(node int32, q kmsg.Request) kmsg.Response {
	l := s.link(node)
	defer l.close()
	return l.ask(q)
}

// alter sets configurations of a resource.
func (s *Stage) alter(kind kmsg.ConfigResourceType, name string, values map[string]string) {
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Version = 1
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, k := range slices.Sorted(maps.Keys(values)) {
		v := values[k]
		r.Configs = append(r.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: k, Value: &v})
	}
	q.Resources = append(q.Resources, r)
	p := s.ask(s.anyNode(), q).(*kmsg.IncrementalAlterConfigsResponse)
	if code := p.Resources[0].ErrorCode; code != 0 {
		panic(fmt.Sprintf("the configuration of %s is refused: %d", name, code))
	}
}

func (s *Stage) anyNode() int32 {
	for _, n := range s.cluster.InspectNodes() {
		return n.ID
	}
	return 1
}

// Leader is the node that leads a partition, -1 without one.
func (s *Stage) Leader(topic string, partition int32) int32 {
	for _, t := range s.cluster.InspectTopics() {
		if t.Name == topic && int(partition) < len(t.Partitions) {
			return t.Partitions[partition].Leader
		}
	}
	return -1
}

// Produce appends a batch of records to a partition and returns the offset of the first. The value of a record is its offset; headers is what header ksj of
// each has, "" for none.
func (s *Stage) Produce(topic string, partition int32, n int, headers ...string) int64 {
	key := fmt.Sprintf("%s-%d", topic, partition)
	s.mu.Lock()
	first := s.sent[key]
	s.sent[key] = first + int64(n)
	s.mu.Unlock()
	b := protocol.NewBatchBuilder()
	for i := range n {
		offset := first + int64(i)
		header := ""
		if len(headers) > 0 {
			header = headers[i%len(headers)]
		} else {
			header = s.c.Setup.Headers[int(offset)]
		}
		var all []protocol.Header
		if header != "" {
			once, again, _ := strings.Cut(header, "/")
			all = append(all, protocol.Header{Key: []byte("ksj"), Value: []byte(once)})
			if again != "" {
				all = append(all, protocol.Header{Key: []byte("ksj2"), Value: []byte(again)})
			}
		}
		if err := b.Append(s.clock.Now().UnixMilli(), nil, valueOf(offset), all...); err != nil {
			panic(err)
		}
	}
	batch, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return s.append(topic, partition, batch)
}

// append appends a batch as it is.
func (s *Stage) append(topic string, partition int32, batch []byte) int64 {
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.Acks, q.TimeoutMillis = 9, -1, 5000
	q.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: batch}}}}
	p := s.ask(s.Leader(topic, partition), q).(*kmsg.ProduceResponse)
	if part := p.Topics[0].Partitions[0]; part.ErrorCode != 0 {
		panic(fmt.Sprintf("a record for %s-%d is refused: %d", topic, partition, part.ErrorCode))
	}
	return p.Topics[0].Partitions[0].BaseOffset
}

// Pass lets virtual time pass at once, as for locks.
func (s *Stage) Pass(d time.Duration) { s.clock.Advance(d) }
