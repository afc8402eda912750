package proxy_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
	"kshare/conformance"
	"kshare/conformance/live"
	"kshare/conformance/proxy"
	"kshare/fault"
	"kshare/internal/memorynet"
)

// stage is a cluster of three and a proxy in front of it, in memory.
type stage struct {
	cluster *kshare.Cluster
	proxy   *proxy.Proxy
	judge   *live.Judge
	front   *memorynet.Network
}

func begin(t *testing.T, faults ...string) *stage {
	var rules []fault.Rule
	for _, text := range faults {
		r, err := fault.ParseRule(strings.Fields(text)...)
		require.NoError(t, err)
		rules = append(rules, r)
	}
	cluster, err := kshare.Start(kshare.WithBrokers(3), kshare.WithTopic("orders", 3), kshare.WithInMemoryNetwork(), kshare.WithConfig("default.replication.factor", "3"))
	require.NoError(t, err)
	s := &stage{cluster: cluster, judge: live.New(conformance.Options{}, clock.Machine{}, nil), front: &memorynet.Network{}}
	s.proxy, err = proxy.Start(t.Context(), proxy.Options{
		Upstream: cluster.Addrs(), Listen: "127.0.0.1:19092", Dial: cluster.Dial, Listener: s.front.Listen, Tap: s.judge, Faults: rules,
	})
	require.NoError(t, err)
	return s
}

func (s *stage) end(t *testing.T) {
	require.NoError(t, s.proxy.Close())
	require.NoError(t, s.cluster.Close())
}

// client is a client that can reach nothing but the proxy.
func (s *stage) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(s.proxy.Addrs()[0]), kgo.Dialer(s.front.Dial))...)
	require.NoError(t, err)
	return c
}

func earliest(t *testing.T, client *kgo.Client, group string) {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "share.auto.offset.reset", kmsg.StringPtr("earliest")
	resource.Configs = append(resource.Configs, config)
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Resources = append(q.Resources, resource)
	_, err := q.RequestWith(t.Context(), client)
	require.NoError(t, err)
}

// produceAndShare has records go to the cluster and to a share consumer, through leaders that move, and returns how many different ones came.
func (s *stage) produceAndShare(t *testing.T, n int) int {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	producer := s.client(t, kgo.ClientID("producer"))
	defer producer.Close()
	earliest(t, producer, "workers")
	for i := range n {
		require.NoError(t, producer.ProduceSync(ctx, &kgo.Record{Topic: "orders", Partition: int32(i % 3), Value: []byte("v")}).FirstErr())
	}
	c := s.client(t, kgo.ClientID("consumer"), kgo.ConsumeTopics("orders"), kgo.ShareGroup("workers"))
	got := map[[2]int64]bool{}
	for more := 3; len(got) < n && ctx.Err() == nil || more > 0; more-- {
		pctx, done := context.WithTimeout(ctx, time.Second)
		fetches := c.PollFetches(pctx)
		done()
		fetches.EachRecord(func(r *kgo.Record) { got[[2]int64{int64(r.Partition), r.Offset}] = true })
	}
	c.Close()
	return len(got)
}

// A client stays on the proxy for all nodes, whichever move, and is judged.
func TestClientStaysOnTheProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t)
		defer s.end(t)
		require.Len(t, s.proxy.Addrs(), 3)
		require.Equal(t, 30, s.produceAndShare(t, 30))
		for _, topic := range s.cluster.InspectTopics() {
			if topic.Name == "orders" {
				require.NoError(t, s.cluster.MoveLeader("orders", 0, topic.Partitions[0].Leader%3+1, true))
			}
		}
		require.Equal(t, 30, s.produceAndShare(t, 30))
		r := s.judge.Report()
		require.Empty(t, r.Failures)
		require.Equal(t, conformance.Pass, r.Rule("share.session.epoch.2").Verdict)
		require.Equal(t, conformance.Pass, r.Rule("share.session.node.1").Verdict, "the judge knows three nodes")
	})
}

func TestFaultsOfTheProxy(t *testing.T) {
	for _, c := range []struct {
		fault string
		rule  string // that the fault has a reason to be looked at
	}{
		{"api=ShareFetch nth=3 times=1 error=SHARE_SESSION_NOT_FOUND", "share.session.epoch.6"},
		{"api=ShareFetch nth=3 times=1 close", ""},
		{"api=ShareFetch nth=3 times=1 stage=after close", ""},
		{"api=ShareGroupHeartbeat times=1 error=UNKNOWN_MEMBER_ID", "share.member.id.1"},
		{"api=ShareFetch times=2 delay=2s", ""},
		{"api=ShareFetch times=1 stage=after delay=2s", ""},
		{"api=Metadata times=1 truncate=3", ""},
		{"api=ShareFetch topic=orders times=1 error=UNKNOWN_SERVER_ERROR level=partition", ""},
	} {
		t.Run(c.fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := begin(t, c.fault)
				defer s.end(t)
				require.Equal(t, 30, s.produceAndShare(t, 30))
				require.NotZero(t, s.proxy.Faults()[0].Acts)
				r := s.judge.Report()
				require.Empty(t, r.Failures)
				if c.rule != "" {
					require.Equal(t, conformance.Pass, r.Rule(c.rule).Verdict)
				}
			})
		})
	}
}

func TestMistakesAreTold(t *testing.T) {
	_, err := proxy.Start(t.Context(), proxy.Options{})
	require.ErrorContains(t, err, "no address of a broker")
	_, err = proxy.Start(t.Context(), proxy.Options{Faults: []fault.Rule{{Name: "slow", Hold: true}}})
	require.ErrorContains(t, err, "use delay")
	front := &memorynet.Network{}
	_, err = proxy.Start(t.Context(), proxy.Options{Upstream: []string{"nowhere:9092"}, Listen: "127.0.0.1:0", Dial: front.Dial})
	require.ErrorContains(t, err, "the cluster behind nowhere:9092")
	for upstream, want := range map[string]string{
		"1=a:9092,b:9092":   "either all addresses of brokers have the id of a node in front",
		"x=a:9092":          `"x" is no id of a node`,
		"1=a":               "missing port",
		"1=a:b":             `"b" is no port`,
		"1=a:9092,1=b:9092": "node 1 is there twice",
	} {
		_, err = proxy.Start(t.Context(), proxy.Options{Upstream: strings.Split(upstream, ","), Listen: "127.0.0.1:0", Listener: front.Listen})
		require.ErrorContains(t, err, want)
	}
}

// What is at an address that is no broker ends the start, not the process.
func TestUpstreamThatIsNoBroker(t *testing.T) {
	back := &memorynet.Network{}
	l, err := back.Listen("127.0.0.1:9092")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte{0, 0, 0, 2, 1, 2})
			c.Close()
		}
	}()
	_, err = proxy.Start(t.Context(), proxy.Options{Upstream: []string{"127.0.0.1:9092"}, Listen: "127.0.0.1:0", Dial: back.Dial})
	require.ErrorContains(t, err, "the cluster behind 127.0.0.1:9092 cannot be asked for its nodes")
}
