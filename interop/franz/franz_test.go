// Package franz runs franz-go, with kadm for administration, against the broker that KSHARE_BOOTSTRAP names.
package franz

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	partitions = 4
	records    = 100
	limit      = 40 * time.Second
)

// env is what one test works with: a context that ends with the limit, an admin client, names of its own.
type env struct {
	*testing.T
	ctx       context.Context
	bootstrap string
	admin     *kadm.Client
	topic     string
	group     string
}

func start(t *testing.T) *env {
	t.Helper()
	bootstrap := os.Getenv("KSHARE_BOOTSTRAP")
	if bootstrap == "" {
		t.Skip("KSHARE_BOOTSTRAP names no broker")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	name := fmt.Sprintf("franz-%s-%x", t.Name(), time.Now().UnixNano())
	e := &env{T: t, ctx: ctx, bootstrap: bootstrap, topic: name, group: name + "-group"}
	e.admin = kadm.NewClient(e.client())
	return e
}

func (e *env) client(opts ...kgo.Opt) *kgo.Client {
	e.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(e.bootstrap))...)
	require.NoError(e, err)
	e.Cleanup(cl.Close)
	return cl
}

// prepare creates the topic and produces record i with value i to partition i mod partitions.
func (e *env) prepare(partitions, n int) {
	e.Helper()
	created, err := e.admin.CreateTopic(e.ctx, int32(partitions), 1, nil, e.topic)
	require.NoError(e, err)
	require.NoError(e, created.Err)
	e.produce(partitions, 0, n)
}

func (e *env) produce(partitions, from, to int, opts ...kgo.Opt) {
	e.Helper()
	opts = append(opts, kgo.DefaultProduceTopic(e.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.UnknownTopicRetries(-1))
	cl := e.client(opts...)
	var rs []*kgo.Record
	for i := from; i < to; i++ {
		rs = append(rs, &kgo.Record{
			Partition: int32(i % partitions),
			Key:       []byte("k" + strconv.Itoa(i)),
			Value:     []byte(strconv.Itoa(i)),
			Headers:   []kgo.RecordHeader{{Key: "h", Value: []byte{0, 0xff}}, {Key: "null"}},
		})
	}
	require.NoError(e, cl.ProduceSync(e.ctx, rs...).FirstErr())
}

// collect polls all clients in turn until done says that no more is needed.
func (e *env) collect(each func(*kgo.Record), done func() bool, cls ...*kgo.Client) {
	e.Helper()
	for !done() {
		for _, cl := range cls {
			ctx, cancel := context.WithTimeout(e.ctx, 100*time.Millisecond)
			fetches := cl.PollFetches(ctx)
			cancel()
			fetches.EachError(func(t string, p int32, err error) {
				if ctx.Err() == nil {
					assert.NoError(e, err, "%s/%d", t, p)
				}
			})
			fetches.EachRecord(each)
		}
		require.NoError(e, e.ctx.Err(), "not within %s", limit)
	}
}

func TestProduceConsume(t *testing.T) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			e := start(t)
			e.topic = fmt.Sprintf("franz-%s-%x", name, time.Now().UnixNano())
			e.prepare(partitions, 0)
			e.produce(partitions, 0, records, kgo.ProducerBatchCompression(codec))
			cl := e.client(kgo.ConsumeTopics(e.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			n := 0
			e.collect(func(r *kgo.Record) {
				n++
				i := int(r.Offset)*partitions + int(r.Partition)
				assert.Equal(t, "k"+strconv.Itoa(i), string(r.Key))
				assert.Equal(t, strconv.Itoa(i), string(r.Value))
				assert.Equal(t, []kgo.RecordHeader{{Key: "h", Value: []byte{0, 0xff}}, {Key: "null"}}, r.Headers)
			}, func() bool { return n >= records }, cl)
			assert.Equal(t, records, n)
		})
	}
}

// TestGroups runs two members of one group of each protocol: rebalance, commits, and a group left empty.
func TestGroups(t *testing.T) {
	for _, native := range []bool{false, true} {
		t.Run(map[bool]string{false: "classic", true: "consumer"}[native], func(t *testing.T) {
			e := start(t)
			e.topic = fmt.Sprintf("franz-group-%x", time.Now().UnixNano())
			e.group = e.topic + "-group"
			e.prepare(partitions, records)
			member := func() *kgo.Client {
				opts := []kgo.Opt{
					kgo.ConsumerGroup(e.group), kgo.ConsumeTopics(e.topic), kgo.DisableAutoCommit(),
					kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(300 * time.Millisecond),
					kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, _ map[string][]int32) {
						assert.NoError(t, cl.CommitUncommittedOffsets(ctx))
					}),
				}
				if native {
					opts = append(opts, kgo.ServerSideBalancer())
				}
				return e.client(opts...)
			}
			seen := map[string]int{}
			each := func(r *kgo.Record) { seen[string(r.Value)]++ }
			a := member()
			e.collect(each, func() bool { return len(seen) == records }, a)
			b := member()
			e.collect(each, func() bool { return e.members(native, 2) }, a, b)
			e.produce(partitions, records, 2*records)
			e.collect(each, func() bool { return len(seen) == 2*records }, a, b)
			for value, n := range seen {
				assert.Equal(t, 1, n, "deliveries of record %s", value)
			}
			require.NoError(t, a.CommitUncommittedOffsets(e.ctx))
			require.NoError(t, b.CommitUncommittedOffsets(e.ctx))
			b.Close()
			a.Close()

			committed, err := e.admin.FetchOffsets(e.ctx, e.group)
			require.NoError(t, err)
			for p := range int32(partitions) {
				o, _ := committed.Lookup(e.topic, p)
				assert.Equal(t, int64(2*records/partitions), o.At, "committed offset of partition %d", p)
			}
			_, err = e.admin.DeleteGroup(e.ctx, e.group)
			assert.NoError(t, err)
		})
	}
}

// members reports whether the group is stable with n members that own equally many partitions.
func (e *env) members(native bool, n int) bool {
	e.Helper()
	var owned []int
	if native {
		ds, err := e.admin.DescribeConsumerGroups(e.ctx, e.group)
		require.NoError(e, err)
		d := ds[e.group]
		require.NoError(e, d.Err)
		for _, m := range d.Members {
			owned = append(owned, len(m.Assignment[e.topic]))
		}
		if d.State != "Stable" {
			return false
		}
	} else {
		ds, err := e.admin.DescribeGroups(e.ctx, e.group)
		require.NoError(e, err)
		d := ds[e.group]
		require.NoError(e, d.Err)
		if d.State != "Stable" {
			return false
		}
		for _, m := range d.Members {
			c, _ := m.Assigned.AsConsumer()
			if c == nil || len(c.Topics) == 0 {
				return false
			}
			owned = append(owned, len(c.Topics[0].Partitions))
		}
	}
	if len(owned) != n {
		return false
	}
	for _, o := range owned {
		if o != partitions/n {
			return false
		}
	}
	return true
}

// setGroup sets a config of the share group and waits until the broker describes it.
func (e *env) setGroup(key, value string) {
	e.Helper()
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = key, kmsg.StringPtr(value)
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, e.group
	r.Configs = append(r.Configs, c)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(e.ctx, e.client())
	require.NoError(e, err)
	require.NoError(e, kerr.ErrorForCode(resp.Resources[0].ErrorCode))
}

// TestShareGroup accepts, releases and rejects, and checks every delivery count and the offsets that kadm describes.
func TestShareGroup(t *testing.T) {
	e := start(t)
	e.prepare(2, records)
	e.setGroup("share.auto.offset.reset", "earliest")
	failed := 0
	cl := e.client(kgo.ShareGroup(e.group), kgo.ConsumeTopics(e.topic),
		kgo.ShareAckCallback(func(_ *kgo.Client, rs kgo.ShareAckResults) {
			if rs.Error() != nil {
				failed++
			}
		}))
	deliveries := map[int]int32{}
	settled := 0
	e.collect(func(r *kgo.Record) {
		i, err := strconv.Atoi(string(r.Value))
		require.NoError(t, err)
		deliveries[i]++
		assert.Equal(t, deliveries[i], r.DeliveryCount(), "delivery count of record %d", i)
		// Of each three, one is accepted, one released once and then accepted, one rejected.
		switch {
		case i%3 == 2:
			r.Ack(kgo.AckReject)
		case i%3 == 1 && deliveries[i] == 1:
			r.Ack(kgo.AckRelease)
			return
		default:
			r.Ack(kgo.AckAccept)
		}
		settled++
	}, func() bool { return settled >= records }, cl)
	require.NoError(t, cl.FlushAcks(e.ctx))
	assert.Equal(t, records, settled)
	for i, n := range deliveries {
		assert.Equal(t, map[bool]int32{true: 2, false: 1}[i%3 == 1], n, "deliveries of record %d", i)
	}

	groups, err := e.admin.DescribeShareGroups(e.ctx, e.group)
	require.NoError(t, err)
	require.NoError(t, groups[e.group].Err)
	assert.Equal(t, "Stable", groups[e.group].GroupState)
	assert.Len(t, groups[e.group].Members, 1)
	cl.Close()
	assert.Zero(t, failed, "acknowledgements refused")

	to := kadm.Offsets{}
	to.AddOffset(e.topic, 0, 10, -1)
	altered, err := e.admin.AlterShareGroupOffsets(e.ctx, e.group, to)
	require.NoError(t, err)
	require.NoError(t, altered.Error())
	described, err := e.admin.DescribeShareGroupOffsets(e.ctx, e.group)
	require.NoError(t, err)
	require.NoError(t, described[e.group].Err)
	assert.Equal(t, int64(10), described[e.group].Offsets[e.topic][0].StartOffset)
	deleted, err := e.admin.DeleteShareGroupOffsets(e.ctx, e.group, e.topic)
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
	_, err = e.admin.DeleteGroup(e.ctx, e.group)
	require.NoError(t, err)
}

// TestAdmin runs kadm on the cluster, topics, configs, logs and offsets of a group without members.
func TestAdmin(t *testing.T) {
	e := start(t)
	e.prepare(partitions, records)
	meta, err := e.admin.BrokerMetadata(e.ctx)
	require.NoError(t, err)
	assert.NotEmpty(t, meta.Cluster)
	assert.NotEmpty(t, meta.Brokers)
	_, err = e.admin.CreateTopic(e.ctx, 1, 1, nil, e.topic)
	require.ErrorIs(t, err, kerr.TopicAlreadyExists)
	topics, err := e.admin.ListTopics(e.ctx, e.topic)
	require.NoError(t, err)
	assert.Len(t, topics[e.topic].Partitions, partitions)

	altered, err := e.admin.AlterTopicConfigs(e.ctx, []kadm.AlterConfig{{Name: "segment.ms", Value: kmsg.StringPtr("60000")}}, e.topic)
	require.NoError(t, err)
	require.NoError(t, altered[0].Err)
	e.eventually("segment.ms as it was set", func() bool {
		described, err := e.admin.DescribeTopicConfigs(e.ctx, e.topic)
		require.NoError(t, err)
		r, err := described.On(e.topic, nil)
		require.NoError(t, err)
		for _, c := range r.Configs {
			if c.Key == "segment.ms" {
				return c.MaybeValue() == "60000"
			}
		}
		return false
	})

	ends, err := e.admin.ListEndOffsets(e.ctx, e.topic)
	require.NoError(t, err)
	require.NoError(t, ends.Error())
	end, _ := ends.Lookup(e.topic, 0)
	assert.Equal(t, int64(records/partitions), end.Offset)
	to := kadm.Offsets{}
	to.AddOffset(e.topic, 0, 5, -1)
	_, err = e.admin.DeleteRecords(e.ctx, to)
	require.NoError(t, err)
	starts, err := e.admin.ListStartOffsets(e.ctx, e.topic)
	require.NoError(t, err)
	first, _ := starts.Lookup(e.topic, 0)
	assert.Equal(t, int64(5), first.Offset)

	require.NoError(t, e.admin.CommitAllOffsets(e.ctx, e.group, to))
	fetched, err := e.admin.FetchOffsets(e.ctx, e.group)
	require.NoError(t, err)
	committed, _ := fetched.Lookup(e.topic, 0)
	assert.Equal(t, int64(5), committed.At)
	groups, err := e.admin.ListGroups(e.ctx)
	require.NoError(t, err)
	assert.Contains(t, groups, e.group)
	_, err = e.admin.DeleteGroup(e.ctx, e.group)
	require.NoError(t, err)

	grown, err := e.admin.CreatePartitions(e.ctx, 1, e.topic)
	require.NoError(t, err)
	require.NoError(t, grown.Error())
	e.eventually("the new partition", func() bool {
		topics, err := e.admin.ListTopics(e.ctx, e.topic)
		require.NoError(t, err)
		return len(topics[e.topic].Partitions) == partitions+1
	})
	_, err = e.admin.DeleteTopic(e.ctx, e.topic)
	require.NoError(t, err)
}

// eventually repeats probe until it holds or the test's limit has passed.
func (e *env) eventually(what string, probe func() bool) {
	e.Helper()
	for !probe() {
		require.NoError(e, e.ctx.Err(), what)
	}
}
