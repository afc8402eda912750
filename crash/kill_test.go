package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	rounds = flag.Int("rounds", 5, "how many times TestKill and TestKillOfCopiers kill the broker")
	seed   = flag.Uint64("seed", 0, "the random choices of TestKill and TestKillOfCopiers; 0 chooses one")
)

// flushPolicies are what Kafka's keys can ask for; rounds take them in turn.
var flushPolicies = [][]string{
	nil,
	{"--config", "log.flush.interval.messages=1"},
	{"--config", "log.flush.interval.ms=5"},
}

// A broker under load is killed again and again. What it had answered holds after each restart: no record is lost or
// there twice, no committed offset is behind, no settled share record comes back, no delivery count falls. In the end each record is accepted, or a dead letter: one that was rejected
// or delivered as often as it may be is told from one that was lost.
func TestKill(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 0))
	addr := fmt.Sprintf("127.0.0.1:%d", fixedPort(t, rng))
	dir := t.TempDir()
	start := func(round int) *process {
		return startProcess(t, append([]string{"--listen", addr, "--dir", dir, "--topic", fmt.Sprintf("%s:%d", topicName, partitions), "--feature", "share.version=2"},
			slices.Concat(cleaning, flushPolicies[round%len(flushPolicies)])...)...)
	}
	broker := start(0)
	ledger := newLedger()
	connect := connectTo(t, addr)
	client := connect()
	defer client.Close()
	admin := kadm.NewClient(client)
	prepareShareGroup(t, client)
	prepareDeadLetters(t, client)
	l := startLoad(t, ledger, *seed, connect)
	keyed := &keyed{last: map[string]int{}}
	keyedClient := connect(kgo.ProducerLinger(0))
	l.produced.Go(func() { defer keyedClient.Close(); keyed.produce(l, keyedClient) })
	began := time.Now()
	for round := range *rounds {
		<-ledger.after(1 + rng.IntN(2000))
		later := time.NewTimer(time.Duration(rng.IntN(3000)) * time.Microsecond) // so that it is not always just behind an answer
		<-later.C
		answered := ledger.snapshot()
		broker.kill(t)
		broker = start(round + 1)
		verify(t, ledger, admin, answered, connect)
		keyed.verify(t, admin, connect)
		require.Empty(t, ledger.broken(), "round %d, -seed %d", round, *seed)
	}
	l.stopProducing()
	drainShareGroup(t, ledger)
	require.Eventually(t, func() bool { return shareLag(client) == 0 }, time.Minute, 10*time.Millisecond, "records that the share group is not done with")
	l.stopAll()
	dead := deadLetters(t, admin, connect)
	require.Empty(t, ledger.unaccounted(dead), "records that nobody has accepted and that are no dead letters, -seed %d", *seed)
	verify(t, ledger, admin, ledger.snapshot(), connect)
	left := keyed.verify(t, admin, connect)
	require.Less(t, left, keyed.written, "records that were superseded are gone")
	require.Empty(t, ledger.broken(), "-seed %d", *seed)
	require.Len(t, ledger.produced, l.values, "every record was answered in the end")
	committed := 0
	for _, offsets := range ledger.committed {
		committed += len(offsets)
	}
	require.Equal(t, 2*partitions, committed, "both groups committed in every partition")
	t.Logf("%d rounds in %v: %d answers, %d records, %d settled share records, %d released, %d dead letters, %d of %d records left by the cleaner", *rounds,
		time.Since(began).Round(time.Millisecond), ledger.events, len(ledger.produced), len(ledger.settled), len(ledger.released), len(dead), left, keyed.written)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	filled := filledPartitions(t, ctx, admin)
	broker.terminate(t, ctx)
	verifyFiles(t, dir, filled)
}

// deadLetterTopic is where the records go that the share group has given up.
const deadLetterTopic = "dlq." + shareGroup

// prepareShareGroup lets the share group begin at the first record and deliver a record as often as it takes.
func prepareShareGroup(t *testing.T, client *kgo.Client) {
	t.Helper()
	configureShareGroup(t, client, map[string]string{"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"})
}

// prepareDeadLetters has the share group keep what it gives up.
func prepareDeadLetters(t *testing.T, client *kgo.Client) {
	t.Helper()
	enabled := "true"
	topics, err := kadm.NewClient(client).CreateTopics(context.Background(), 1, 1, map[string]*string{"errors.deadletterqueue.group.enable": &enabled}, deadLetterTopic)
	require.NoError(t, err)
	require.NoError(t, topics.Error())
	configureShareGroup(t, client, map[string]string{"errors.deadletterqueue.topic.name": deadLetterTopic})
}

func configureShareGroup(t *testing.T, client *kgo.Client, configs map[string]string) {
	t.Helper()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, shareGroup
	for name, value := range configs {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = name, &value
		resource.Configs = append(resource.Configs, config)
	}
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(context.Background(), client)
	require.NoError(t, err)
	require.Len(t, response.Resources, 1)
	require.Zero(t, response.Resources[0].ErrorCode)
}

// verify reads everything back and compares it with what was answered before.
func verify(t *testing.T, ledger *ledger, admin *kadm.Client, answered snapshot, connect connect) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stored := readAll(t, ctx, admin, connect)
	for at, value := range answered.produced {
		if stored[at] != value {
			t.Fatalf("%v was answered for %s and holds %q", at, value, stored[at])
		}
	}
	values := map[string]place{}
	last := map[int32]string{}
	for partition := range int32(partitions) {
		for offset := int64(0); ; offset++ {
			at := place{partition, offset}
			value, ok := stored[at]
			if !ok {
				break
			}
			if other, twice := values[value]; twice {
				t.Fatalf("%s is at %v and at %v", value, other, at)
			}
			values[value] = at
			require.Less(t, last[partition], value[:8], "the order of partition %d", partition)
			last[partition] = value[:8]
		}
	}
	require.Equal(t, len(stored), len(values), "records that lie behind a hole")
	ledger.verifyTopics(t, ctx, admin, answered.topics)
	for group, offsets := range answered.committed {
		got, err := admin.FetchOffsets(ctx, group)
		require.NoError(t, err)
		for partition, offset := range offsets {
			o, ok := got.Lookup(topicName, partition)
			require.True(t, ok, "group %s has no offset of partition %d, %d was committed", group, partition, offset)
			require.GreaterOrEqual(t, o.At, offset, "group %s, partition %d", group, partition)
		}
	}
}

// readAll reads every record up to the current ends of the partitions.
func readAll(t *testing.T, ctx context.Context, admin *kadm.Client, connect connect) map[place]string {
	t.Helper()
	stored := map[place]string{}
	readTopic(t, ctx, admin, connect, topicName, func(r *kgo.Record) { stored[place{r.Partition, r.Offset}] = string(r.Value) })
	return stored
}

// readTopic calls f for every record of a topic up to the current ends of its partitions.
func readTopic(t *testing.T, ctx context.Context, admin *kadm.Client, connect connect, topic string, f func(*kgo.Record)) {
	t.Helper()
	readUpTo(t, ctx, connect, topic, kgo.ReadUncommitted(), must(admin.ListEndOffsets(ctx, topic))(t), f)
}

// readCommitted calls f for every record of a topic that is committed by now.
func readCommitted(t *testing.T, ctx context.Context, admin *kadm.Client, connect connect, topic string, f func(*kgo.Record)) {
	t.Helper()
	readUpTo(t, ctx, connect, topic, kgo.ReadCommitted(), must(admin.ListCommittedOffsets(ctx, topic))(t), f)
}

func must(ends kadm.ListedOffsets, err error) func(*testing.T) kadm.ListedOffsets {
	return func(t *testing.T) kadm.ListedOffsets {
		t.Helper()
		require.NoError(t, err)
		require.NoError(t, ends.Error())
		return ends
	}
}

// readUpTo calls f for every record of a topic below some offsets.
func readUpTo(t *testing.T, ctx context.Context, connect connect, topic string, level kgo.IsolationLevel, ends kadm.ListedOffsets, f func(*kgo.Record)) {
	t.Helper()
	from, left := map[int32]kgo.Offset{}, map[int32]bool{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			from[o.Partition] = kgo.NewOffset().At(0)
			left[o.Partition] = true
		}
	})
	if len(left) == 0 {
		return
	}
	client := connect(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchMaxWait(10*time.Millisecond), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords())
	defer client.Close()
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err0())
		fetches.EachRecord(func(r *kgo.Record) {
			end, _ := ends.Lookup(topic, r.Partition)
			if r.Offset < end.Offset && !r.Attrs.IsControl() {
				f(r)
			}
			if r.Offset >= end.Offset-1 {
				delete(left, r.Partition)
			}
		})
	}
}

// drainShareGroup waits until every record was delivered to the share group.
func drainShareGroup(t *testing.T, l *ledger) {
	t.Helper()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.delivered) == len(l.produced)
	}, time.Minute, 10*time.Millisecond, "records that were never delivered")
}

// shareLag is how many records the share group has yet to finish, negative where that is not known.
func shareLag(client *kgo.Client) (lag int64) {
	q := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	q.Groups = []kmsg.DescribeShareGroupOffsetsRequestGroup{{GroupID: shareGroup}}
	p, err := q.RequestWith(context.Background(), client)
	if err != nil || len(p.Groups[0].Topics) != 1 || len(p.Groups[0].Topics[0].Partitions) != partitions { // a connection that was killed is noticed when it is used
		return -1
	}
	for _, x := range p.Groups[0].Topics[0].Partitions {
		if x.ErrorCode != 0 || x.Lag < 0 {
			return -1
		}
		lag += x.Lag
	}
	return lag
}

// deadLetters are the records that the share group has given up.
func deadLetters(t *testing.T, admin *kadm.Client, connect connect) map[place]bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dead := map[place]bool{}
	readTopic(t, ctx, admin, connect, deadLetterTopic, func(r *kgo.Record) {
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		var at place
		_, err := fmt.Sscanf(headers["__dlq.errors.partition"]+" "+headers["__dlq.errors.offset"], "%d %d", &at.partition, &at.offset)
		require.NoError(t, err, "%v", headers)
		dead[at] = true
	})
	return dead
}
