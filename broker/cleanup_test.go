package broker_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
	"kshare/protocol"
)

// cleaned is a cluster on a virtual clock with a topic t.
type cleaned struct {
	t     *testing.T
	clock *clock.Virtual
	began time.Time
	d     *kshare.Direct
	sent  int32
}

func startCleaned(t *testing.T, configs map[string]string) *cleaned {
	c := &cleaned{t: t, began: time.Unix(1_800_000_000, 0)}
	c.clock = clock.NewVirtual(c.began)
	cluster, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithClock(c.clock),
		kshare.WithConfig("offsets.retention.check.interval.ms", strconv.FormatInt(other.Milliseconds(), 10)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	c.d, err = cluster.OpenDirect(1)
	require.NoError(t, err)
	q := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 1, 1
	for key, value := range configs {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = key, &value
		topic.Configs = append(topic.Configs, config)
	}
	q.Topics = append(q.Topics, topic)
	require.Zero(t, askDirect[*kmsg.CreateTopicsResponse](c, q, 5).Topics[0].ErrorCode)
	return c
}

func askDirect[R kmsg.Response](c *cleaned, q kmsg.Request, version int16) R {
	q.SetVersion(version)
	c.sent++
	sendDirect(c.d, q, c.sent)
	return receiveDirect[R](c.t, c.d, q)
}

// produce appends a record of a key, as old as told.
func (c *cleaned) produce(key string, age time.Duration) {
	b := protocol.NewBatchBuilder()
	require.NoError(c.t, b.Append(c.clock.Now().Add(-age).UnixMilli(), []byte(key), make([]byte, 20)))
	batch, err := b.Finish()
	require.NoError(c.t, err)
	q := kmsg.NewPtrProduceRequest()
	q.Acks = -1
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	q.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{p}}}
	require.Zero(c.t, askDirect[*kmsg.ProduceResponse](c, q, 9).Topics[0].Partitions[0].ErrorCode)
}

// set sets a configuration of the topic.
func (c *cleaned) set(key, value string) {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = key, &value
	resource.Configs = append(resource.Configs, config)
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Resources = append(q.Resources, resource)
	require.Zero(c.t, askDirect[*kmsg.IncrementalAlterConfigsResponse](c, q, 1).Resources[0].ErrorCode)
}

// other is when a timer fires that has nothing to do with logs.
const other = 10 * 365 * 24 * time.Hour

// next is how long after the start the next timer fires.
func (c *cleaned) next() time.Duration {
	at, ok := c.clock.NextDeadline()
	require.True(c.t, ok)
	return at.Sub(c.began)
}

// A log that nothing is to be done for costs no timer, and any other one, to the first turn of the cleaner or of retention at which there is.
func TestCleanupHasATimerOnlyWhereItIsDue(t *testing.T) {
	const week = 7 * 24 * time.Hour
	type configs = map[string]string
	for name, x := range map[string]struct {
		configs configs
		do      func(c *cleaned)
		next    time.Duration
	}{
		"nothing in it":           {configs{}, func(*cleaned) {}, other},
		"records without a limit": {configs{"retention.ms": "-1"}, func(c *cleaned) { c.produce("k", 0) }, other},
		"a week":                  {configs{}, func(c *cleaned) { c.produce("k", 0) }, week + 30*time.Second},
		"old already":             {configs{}, func(c *cleaned) { c.produce("k", 2*week) }, 30 * time.Second},
		"old when the first turn is over": {configs{}, func(c *cleaned) {
			c.clock.Advance(time.Minute)
			c.produce("k", 2*week)
		}, 5*time.Minute + 30*time.Second},
		"on the very turn": {configs{"retention.ms": "29999"}, func(c *cleaned) { c.produce("k", 0) }, 30 * time.Second},
		"just after it":    {configs{"retention.ms": "30000"}, func(c *cleaned) { c.produce("k", 0) }, 5*time.Minute + 30*time.Second},
		"not too large": {configs{"retention.ms": "-1", "retention.bytes": "150", "segment.ms": "1000"}, func(c *cleaned) {
			c.produce("k", time.Hour)
			c.produce("k", 0)
		}, other},
		"too large": {configs{"retention.ms": "-1", "retention.bytes": "150", "segment.ms": "1000"}, func(c *cleaned) {
			c.produce("k", time.Hour)
			c.produce("k", 0)
			c.produce("k", 0)
		}, 30 * time.Second},
		"too large and gone": {configs{"retention.ms": "-1", "retention.bytes": "150", "segment.ms": "1000"}, func(c *cleaned) {
			c.produce("k", time.Hour)
			c.produce("k", 0)
			c.produce("k", 0)
			c.clock.Advance(30 * time.Second)
		}, other},
		"compacted, one segment": {configs{"cleanup.policy": "compact", "retention.ms": "1"}, func(c *cleaned) { c.produce("k", time.Hour) }, other},
		"compacted and dirty": {configs{"cleanup.policy": "compact", "segment.ms": "1000"}, func(c *cleaned) {
			c.produce("k", time.Hour)
			c.clock.Advance(20 * time.Second)
			c.produce("k", 0)
		}, 30 * time.Second},
		"compacted and clean": {configs{"cleanup.policy": "compact", "segment.ms": "1000"}, func(c *cleaned) {
			c.produce("k", time.Hour)
			c.produce("k", 0)
			c.clock.Advance(15 * time.Second)
		}, other},
		"compacted, too young": {configs{"cleanup.policy": "compact", "segment.ms": "1000", "min.compaction.lag.ms": "60000"}, func(c *cleaned) {
			c.produce("k", 10*time.Second)
			c.produce("k", 0)
		}, time.Minute},
		"compacted, not dirty enough yet": {configs{"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "100000"}, func(c *cleaned) {
			c.produce("k", 10*time.Second)
			c.produce("k", 0)
		}, 105 * time.Second},
		"compacted and deleted": {configs{"cleanup.policy": "compact,delete", "retention.ms": "20000"}, func(c *cleaned) { c.produce("k", 0) }, 30 * time.Second},
		"a limit that comes later": {configs{"retention.ms": "-1"}, func(c *cleaned) {
			c.produce("k", time.Hour)
			c.set("retention.ms", "1000")
		}, 30 * time.Second},
		"compaction that comes later": {configs{"retention.ms": "-1", "segment.ms": "1000"}, func(c *cleaned) {
			c.produce("k", time.Hour)
			c.produce("k", 0)
			c.set("cleanup.policy", "compact")
		}, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCleaned(t, x.configs)
			x.do(c)
			assert.Equal(t, x.next, c.next())
		})
	}
}

// The cleaner works while others write, and what they wrote last is there when it has done its work, in memory and in a directory, and after a restart of it.
func TestCleaningWhileOthersWork(t *testing.T) {
	for name, opts := range map[string][]kshare.Option{"memory": nil, "directory": {kshare.WithDirectory(t.TempDir())}} {
		t.Run(name, func(t *testing.T) {
			opts = append(opts, kshare.WithInMemoryNetwork(), kshare.WithConfig("log.cleaner.backoff.ms", "1"), kshare.WithConfig("log.cleaner.min.cleanable.ratio", "0.01"))
			start := func() *kshare.Cluster {
				c, err := kshare.Start(opts...)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, c.Close()) })
				return c
			}
			c := start()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			compact, segment := "compact", "2000"
			_, err := kadm.NewClient(newClient(t, c)).CreateTopic(ctx, 1, 1, map[string]*string{"cleanup.policy": &compact, "internal.segment.bytes": &segment}, "t")
			require.NoError(t, err)
			const writers, each = 4, 300
			want := map[string]string{}
			var mu sync.Mutex
			var wg sync.WaitGroup
			for w := range writers {
				client := newClient(t, c, kgo.ProducerLinger(0))
				wg.Go(func() {
					for n := range each {
						key, value := fmt.Sprint(w, "-", n%5), strconv.Itoa(n)
						if !assert.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: "t", Key: []byte(key), Value: []byte(value)}).FirstErr()) {
							return
						}
						mu.Lock()
						want[key] = value
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			read := func(c *kshare.Cluster) (records int) {
				client := newClient(t, c, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(0)}}))
				have := map[string]string{}
				for offset := int64(0); offset < writers*each; {
					fetches := client.PollFetches(ctx)
					require.NoError(t, fetches.Err())
					fetches.EachRecord(func(r *kgo.Record) {
						have[string(r.Key)] = string(r.Value)
						offset = r.Offset + 1
						records++
					})
				}
				require.True(t, maps.Equal(want, have), "%v, want %v", have, want)
				return records
			}
			for read(c) > writers*each/2 {
				require.NoError(t, ctx.Err(), "it is not cleaned")
			}
			if name == "directory" {
				require.NoError(t, c.Close())
				require.LessOrEqual(t, read(start()), writers*each/2)
			}
		})
	}
}
