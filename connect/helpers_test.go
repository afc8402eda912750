package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare"
	"kshare/sharepartition"
)

// discard is a log for nobody.
var discard = slog.New(slog.DiscardHandler)

// house is a cluster and what a test has on it.
type house struct {
	t       *testing.T
	cluster *kshare.Cluster
	opts    []kgo.Opt
	other   testSink // of connectors of the class OtherSink
}

// inBubble runs a test against a cluster with orders where time passes only when everything waits.
func inBubble(t *testing.T, test func(h *house), options ...kshare.Option) {
	synctest.Test(t, func(t *testing.T) {
		cluster, err := kshare.Start(append([]kshare.Option{kshare.WithInMemoryNetwork(), kshare.WithKIP1289(), kshare.WithTopic("orders", 1), kshare.WithTopic("invoices", 1)}, options...)...)
		require.NoError(t, err)
		defer func() { require.NoError(t, cluster.Close()) }()
		test(&house{t: t, cluster: cluster, opts: []kgo.Opt{kgo.SeedBrokers(cluster.Addrs()...), kgo.Dialer(cluster.Dial)}})
	})
}

// link is a client's way to the cluster, which can be cut: what is left of the client then is what the brokers have.
type link struct {
	cluster *kshare.Cluster

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED} // what kgo takes for a broker that may come back
	}
	conn, err := l.cluster.Dial(ctx, network, addr)
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

func (l *link) crash() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

// testSink is a plug-in that does what a test says and remembers what was put.
type testSink struct {
	put      func(ctx context.Context, task int, records []*SinkRecord) error // nil takes everything
	flush    func(task int) error
	start    func(task int) error
	outputs  func(records []*SinkRecord) ([]*kgo.Record, error)
	report   func(r *SinkRecord) error // what to report of a record
	mu       sync.Mutex
	batches  [][]string // of all puts that were tried
	written  []string   // of those that succeeded
	by       map[int]int
	opened   [][]string
	flushes  int
	stops    int
	attempts map[string]int
	count    map[string]int16 // the highest delivery count of a value
}

func (s *testSink) Validate(map[string]string) error { return nil }
func (s *testSink) TaskConfigs(config map[string]string, n int) []map[string]string {
	return alike(config, n)
}
func (s *testSink) NewTask() SinkTask {
	if s.outputs != nil {
		return &testTransactionalTask{testTask{sink: s}}
	}
	return &testTask{sink: s}
}

type testTask struct {
	sink *testSink
	ctx  TaskContext
}

func (t *testTask) Start(_ context.Context, ctx TaskContext, _ map[string]string) error {
	t.ctx = ctx
	if t.sink.start != nil {
		return t.sink.start(ctx.Task)
	}
	return nil
}

func (t *testTask) Open(topics []string) error {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	t.sink.opened = append(t.sink.opened, topics)
	return nil
}

func (t *testTask) Put(ctx context.Context, records []*SinkRecord) error {
	s := t.sink
	s.mu.Lock()
	s.batches = append(s.batches, valuesOf(records))
	if s.attempts == nil {
		s.attempts, s.by, s.count = map[string]int{}, map[int]int{}, map[string]int16{}
	}
	for _, r := range records {
		s.attempts[valueOf(r)]++
		s.count[valueOf(r)] = max(s.count[valueOf(r)], r.DeliveryCount)
	}
	s.mu.Unlock()
	if s.put != nil {
		if err := s.put(ctx, t.ctx.Task, records); err != nil {
			return err
		}
	}
	for _, r := range records {
		if s.report != nil {
			if err := s.report(r); err != nil {
				t.ctx.Report(r, err)
				continue
			}
		}
		s.mu.Lock()
		s.written = append(s.written, valueOf(r))
		s.by[t.ctx.Task]++
		s.mu.Unlock()
	}
	return nil
}

func (t *testTask) Flush(context.Context) error {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	t.sink.flushes++
	if t.sink.flush != nil {
		return t.sink.flush(t.ctx.Task)
	}
	return nil
}

func (t *testTask) Stop() error {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	t.sink.stops++
	return nil
}

type testTransactionalTask struct{ testTask }

func (t *testTransactionalTask) Outputs(records []*SinkRecord) ([]*kgo.Record, error) {
	return t.sink.outputs(records)
}

func valueOf(r *SinkRecord) string {
	data, _ := bytesOfValue(r.Value)
	return string(data)
}

func valuesOf(records []*SinkRecord) (values []string) {
	for _, r := range records {
		values = append(values, valueOf(r))
	}
	return values
}

// all are the values that were written, in order of the text.
func (s *testSink) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.written))
}

// different are the values that were written, each once.
func (s *testSink) different() []string { return slices.Compact(s.all()) }

func (s *testSink) delivered(value string) int16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[value]
}

// puts are how many were tried.
func (s *testSink) puts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.batches)
}

// byTask are the records that each task has written.
func (s *testSink) byTask() map[int]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.by)
}

// tried is how often a value was put.
func (s *testSink) tried(value string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts[value]
}

// workerProperties are those of a worker whose connectors are in share groups.
func workerProperties(more ...string) map[string]string {
	return with(map[string]string{bootstrapKey: "in-memory:9092", workerKey: "share", "key.converter": "StringConverter", "value.converter": "StringConverter"}, more...)
}

// config is a connector's configuration, with key=value over it.
func config(more ...string) map[string]string {
	return with(map[string]string{nameKey: "copy", classKey: "TestSink", topicsKey: "orders"}, more...)
}

func with(base map[string]string, more ...string) map[string]string {
	base = maps.Clone(base)
	for _, m := range more {
		key, value, _ := strings.Cut(m, "=")
		base[key] = value
	}
	return base
}

// worker makes a worker with a sink, over a link of its own.
func (h *house) worker(sink *testSink, more ...string) (*Worker, *link) {
	h.t.Helper()
	l := &link{cluster: h.cluster}
	plugins := Plugins()
	plugins["OtherSink"] = func() SinkConnector { return &h.other }
	plugins["TestSink"] = func() SinkConnector { return sink }
	w, err := NewWorker(WorkerConfig{
		Properties: with(workerProperties(bootstrapKey+"="+strings.Join(h.cluster.Addrs(), ",")), more...), Plugins: plugins,
		ClientOpts: func(string, int) []kgo.Opt { return []kgo.Opt{kgo.Dialer(l.dial)} },
	})
	require.NoError(h.t, err)
	return w, l
}

// crash ends a worker as a crash does: no broker hears of it.
func crash(w *Worker, l *link) {
	l.crash()
	w.Close()
}

// produce writes values, each a batch of its own, in turn to all partitions.
func (h *house) produce(topic string, values ...string) {
	h.t.Helper()
	client, err := kgo.NewClient(append(h.opts, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))...)
	require.NoError(h.t, err)
	defer client.Close()
	for _, v := range values {
		require.NoError(h.t, client.ProduceSync(h.t.Context(), kgo.StringRecord(v)).FirstErr())
	}
}

// batch writes values as one batch.
func (h *house) batch(topic string, values ...string) {
	h.t.Helper()
	client, err := kgo.NewClient(append(h.opts, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(time.Millisecond))...)
	require.NoError(h.t, err)
	defer client.Close()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, kgo.StringRecord(v))
	}
	require.NoError(h.t, client.ProduceSync(h.t.Context(), records...).FirstErr())
}

// numbered are n different values in the order of the text.
func numbered(n int) (values []string) {
	for i := range n {
		values = append(values, fmt.Sprintf("order %04d", i))
	}
	return values
}

// eventually waits until something is so, for as long as is said.
func (h *house) eventually(patience time.Duration, so func() bool, what string) {
	h.t.Helper()
	for began := time.Now(); !so(); time.Sleep(max(50*time.Millisecond, time.Since(began)/20)) { // the longer, the less often
		if time.Since(began) > patience {
			require.Fail(h.t, what, "not after %s", patience)
		}
	}
}

// lag is how many records of a topic a share group has not done with, as the brokers know it.
func (h *house) lag(group, topic string) (sum int64) {
	h.t.Helper()
	for _, t := range h.cluster.InspectTopics() {
		if t.Name != topic {
			continue
		}
		for p, of := range t.Partitions {
			s, err := h.cluster.InspectSharePartition(group, topic, int32(p))
			require.NoError(h.t, err)
			sum += of.EndOffset
			switch {
			case s.Known:
				sum -= s.StartOffset
			case s.Persisted != nil: // by who led the partition when there were members
				start := max(s.Persisted.StartOffset, 0)
				for _, b := range s.Persisted.Batches {
					if b.FirstOffset == start && (b.State == int8(sharepartition.Acknowledged) || b.State == int8(sharepartition.Archived)) {
						start = b.LastOffset + 1
					}
				}
				sum -= start
			}
		}
	}
	return sum
}

// done waits until the group is through with a topic.
func (h *house) done(sink *testSink, n int) {
	h.t.Helper()
	h.eventually(time.Hour, func() bool { return len(sink.different()) >= n && h.lag("connect-copy", "orders") == 0 }, "the group is through with the topic")
}

// states are those of a connector's tasks.
func states(w *Worker) (all []State) {
	s, err := w.Status("copy")
	if err != nil {
		return nil
	}
	for _, t := range s.Tasks {
		all = append(all, t.State)
	}
	return all
}

// trace is why a connector, or its first task that has, has failed.
func trace(w *Worker) string {
	s, _ := w.Status("copy")
	if s.Connector.State == Failed {
		return s.Connector.Trace
	}
	for _, t := range s.Tasks {
		if t.State == Failed {
			return t.Trace
		}
	}
	return ""
}

// running waits until so many tasks run.
func (h *house) running(w *Worker, n int) {
	h.t.Helper()
	h.eventually(time.Minute, func() bool {
		all := states(w)
		return len(all) == n && !slices.ContainsFunc(all, func(s State) bool { return s != Running })
	}, strconv.Itoa(n)+" tasks run")
}

// read is all that a topic shows to read_committed, once nothing more comes for a minute.
func (h *house) read(topic string) (values []string) {
	h.t.Helper()
	client, err := kgo.NewClient(append(h.opts, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	require.NoError(h.t, err)
	defer client.Close()
	for {
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
		fetches := client.PollFetches(ctx)
		cancel()
		for _, r := range fetches.Records() {
			values = append(values, string(r.Value))
		}
		if fetches.Empty() || errors.Is(fetches.Err0(), context.DeadlineExceeded) {
			slices.Sort(values)
			return values
		}
	}
}

// current is a task of the connector.
func (w *Worker) current(id int) *task {
	c, err := w.named("copy")
	if err != nil {
		panic(err)
	}
	return c.current()[id]
}
