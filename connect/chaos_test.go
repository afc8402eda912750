package connect

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/protocol"
)

// crashPoints are requests at which a worker may crash: when one is sent, and when its answer is there.
var crashPoints = map[int16]string{
	kmsg.ShareFetch.Int16(): "ShareFetch", kmsg.ShareAcknowledge.Int16(): "ShareAcknowledge", kmsg.Produce.Int16(): "Produce",
	kmsg.EndTxn.Int16(): "EndTxn", kmsg.InitProducerID.Int16(): "InitProducerId", protocol.TxnShareAcknowledgeKey: "TxnShareAcknowledge",
}

// crasher is a hook of kgo that crashes a worker at points that follow from a seed.
type crasher struct {
	*storm
	link *link
	gone func()
	once sync.Once
}

func (c *crasher) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	c.at(key, "sent", err)
}

func (c *crasher) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	c.at(key, "answered", err)
}

func (c *crasher) at(key int16, when string, err error) {
	name, ok := crashPoints[key]
	if !ok || err != nil || !c.strikes(key) {
		return
	}
	c.once.Do(func() {
		c.met("crash when " + name + " is " + when)
		c.link.crash()
		c.gone()
	})
}

// storm is what befalls a run, and how much of it is left.
type storm struct {
	mu      sync.Mutex
	random  *rand.Rand
	crashes int // left
	counts  map[string]int
}

// strikes decides whether a worker crashes at a request. Fetches are many, the others are what matters.
func (s *storm) strikes(key int16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	chance := 0.06
	if key == kmsg.ShareFetch.Int16() {
		chance = 0.01
	}
	if s.crashes == 0 || s.random.Float64() >= chance {
		return false
	}
	s.crashes--
	return true
}

func (s *storm) met(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

func (s *storm) intN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// process is a worker process that is started again whenever it has crashed.
func (h *house) process(ctx context.Context, s *storm, sink *testSink, number int, connector map[string]string) {
	for ctx.Err() == nil {
		l := &link{cluster: h.cluster}
		crashed := make(chan struct{})
		hook := &crasher{storm: s, link: l, gone: func() { close(crashed) }}
		plugins := Plugins()
		plugins["TestSink"] = func() SinkConnector { return sink }
		w, err := NewWorker(WorkerConfig{
			Properties: workerProperties(bootstrapKey+"="+strings.Join(h.cluster.Addrs(), ","), "task.shutdown.graceful.timeout.ms=2000"), Plugins: plugins,
			ClientOpts: func(string, int) []kgo.Opt { return []kgo.Opt{kgo.Dialer(l.dial), kgo.WithHooks(hook)} },
		})
		require.NoError(h.t, err)
		require.NoError(h.t, w.Put(with(connector, fmt.Sprintf("producer.override.transactional.id=process-%d", number))))
		kills := time.NewTicker(time.Duration(3+s.intN(5)) * time.Second)
		for running := true; running; {
			select {
			case <-ctx.Done():
				running = false
			case <-crashed:
				running = false
			case <-kills.C: // a task alone, with all it holds
				if c, err := w.named("copy"); err == nil && s.intN(3) == 0 && len(c.current()) > 0 {
					c.current()[0].kill()
					<-c.current()[0].done
					if w.RestartTask("copy", 0) == nil {
						s.met("task kill")
					}
				}
			}
		}
		kills.Stop()
		w.Close()
	}
}

// disturb moves leaders and coordinators and stops brokers until the context ends.
func (h *house) disturb(ctx context.Context, s *storm) {
	tick := time.NewTicker(1500 * time.Millisecond)
	defer tick.Stop()
	stopped := int32(0)
	for rounds := 0; ; rounds++ {
		select {
		case <-ctx.Done():
			if stopped != 0 {
				_ = h.cluster.StartNode(stopped)
			}
			return
		case <-tick.C:
		}
		to := int32(s.intN(3) + 1)
		switch what := s.intN(4); {
		case stopped != 0:
			if h.cluster.StartNode(stopped) == nil {
				s.met("broker restart")
			}
			stopped = 0
		case rounds > 20: // or no record would ever be through
		case what == 0:
			if h.cluster.StopNode(to) == nil {
				stopped = to
			}
		case what == 1:
			if h.cluster.MoveLeader("orders", int32(s.intN(2)), to, false) == nil {
				s.met("leader move")
			}
		case what == 2:
			if h.cluster.MoveCoordinator(kshare.GroupCoordinator, "connect-copy", to, 100*time.Millisecond) == nil {
				s.met("group coordinator move")
			}
		default:
			if h.cluster.MoveCoordinator(kshare.TransactionCoordinator, fmt.Sprintf("process-%d-%d", s.intN(2), s.intN(2)), to, 100*time.Millisecond) == nil {
				s.met("transaction coordinator move")
			}
		}
	}
}

// storms has two processes of two tasks each read orders while all that can go wrong does, once for each seed.
func storms(t *testing.T, seeds uint64, connector map[string]string, sink func() *testSink, check func(h *house, sink *testSink, want []string)) map[string]int {
	const orders = 80
	counts := map[string]int{}
	if testing.Short() {
		seeds = min(seeds, 6)
	}
	for seed := range seeds {
		inBubble(t, func(h *house) {
			s := &storm{random: rand.New(rand.NewPCG(seed, 1302)), crashes: 8, counts: counts}
			out := sink()
			ctx, cancel := context.WithCancel(h.t.Context())
			var all sync.WaitGroup
			for i := range 2 {
				all.Go(func() { h.process(ctx, s, out, i, connector) })
			}
			all.Go(func() { h.disturb(ctx, s) })
			values := numbered(orders)
			for len(values) > 0 { // in the middle of it
				n := min(s.intN(20)+1, len(values))
				h.produce("orders", values[:n]...)
				values = values[n:]
				time.Sleep(time.Second)
			}
			h.eventually(4*time.Hour, func() bool { return h.lag("connect-copy", "orders") == 0 }, fmt.Sprintf("seed %d: the group is through with the topic", seed))
			cancel()
			all.Wait()
			check(h, out, numbered(orders))
		}, kshare.WithBrokers(3), kshare.WithTopic("orders", 2), kshare.WithConfig("default.replication.factor", "3"), kshare.WithConfig("group.share.delivery.count.limit", "10"),
			kshare.WithConfig("group.share.record.lock.duration.ms", "15000"))
		if t.Failed() {
			t.Fatalf("seed %d fails", seed)
		}
	}
	t.Logf("%d runs of %d records: %v", seeds, orders, counts)
	return counts
}

// happened tells whether all that a storm is to have has happened.
func happened(t *testing.T, counts map[string]int, transactions bool) {
	if testing.Short() {
		return // a few seeds do not have everything
	}
	for _, what := range []string{"task kill", "broker restart", "leader move", "group coordinator move", "crash when ShareFetch is answered", "crash when ShareFetch is sent"} {
		assert.NotZero(t, counts[what], "%s: it has to happen for the test to mean something", what)
	}
	of := []string{"ShareAcknowledge"}
	if transactions {
		of = []string{"Produce", "TxnShareAcknowledge", "EndTxn", "InitProducerId"}
	}
	for _, name := range of {
		assert.NotZero(t, counts["crash when "+name+" is sent"], name)
		assert.NotZero(t, counts["crash when "+name+" is answered"], name)
	}
}

var small = []string{"tasks.max=2", "consumer.override.max.poll.records=5", "consumer.override.share.acquire.mode=record_limit"}

// Whatever crashes, every record is put at least once.
func TestChaosAtLeastOnce(t *testing.T) {
	twice := 0
	counts := storms(t, 20, config(small...), func() *testSink {
		return &testSink{put: func(context.Context, int, []*SinkRecord) error { time.Sleep(200 * time.Millisecond); return nil }}
	}, func(h *house, sink *testSink, want []string) {
		assert.Equal(h.t, want, sink.different(), "nothing is lost")
		twice += len(sink.all()) - len(want)
	})
	t.Logf("%d records were put once more", twice)
	assert.NotZero(t, twice, "a crash between put and acknowledge has to happen for the test to mean something")
	happened(t, counts, false)
}

// Whatever crashes, what comes out is what went in, record by record.
func TestChaosExactlyOnce(t *testing.T) {
	counts := storms(t, 50, config(append(small, "connector.class=KafkaSink", "kafka.topic=invoices", "exactly.once.support=required")...), func() *testSink { return &testSink{} },
		func(h *house, _ *testSink, want []string) {
			assert.Equal(h.t, want, h.read("invoices"), "the same multiset")
		})
	happened(t, counts, true)
}

// Without transactions the same storms leave records twice: they are what TestChaosExactlyOnce is about.
func TestChaosWithoutTransactions(t *testing.T) {
	twice := 0
	storms(t, 6, config(append(small, "connector.class=KafkaSink", "kafka.topic=invoices")...), func() *testSink { return &testSink{} },
		func(h *house, _ *testSink, want []string) {
			got := h.read("invoices")
			twice += len(got) - len(want)
			assert.Equal(h.t, want, slices.Compact(got), "nothing is lost")
		})
	assert.NotZero(t, twice)
}
