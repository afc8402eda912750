package kshare_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"kshare"
	"kshare/clock"
)

// After Reset the cluster is as it was after Start, behind the same addresses.
func TestResetEmpties(t *testing.T) {
	for name, opts := range clusters(t) {
		t.Run(name, func(t *testing.T) {
			cluster, err := kshare.Start(append(opts, kshare.WithTopic("orders", 2))...)
			require.NoError(t, err)
			defer func() { require.NoError(t, cluster.Close()) }()
			if name == "Directory" || name == "Flushing" {
				require.ErrorIs(t, cluster.Reset(), kshare.ErrNotInMemory)
				return
			}
			ctx := context.Background()
			addrs, id := cluster.Addrs(), cluster.ID()
			client := newClient(t, cluster, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequestRetries(0))
			admin := kadm.NewClient(client)
			setGroupConfig(t, client, "workers", "share.auto.offset.reset", "earliest")
			require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr())
			_, err = admin.CreateTopic(ctx, 1, 1, nil, "more")
			require.NoError(t, err)
			before, err := admin.Metadata(ctx)
			require.NoError(t, err)
			idle, err := cluster.Dial(ctx, "tcp", addrs[0])
			require.NoError(t, err)
			defer idle.Close()
			_, err = idle.Write(kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1))
			require.NoError(t, err)
			answer := make([]byte, 4)
			_, err = io.ReadFull(idle, answer)
			require.NoError(t, err)
			_, err = io.CopyN(io.Discard, idle, int64(binary.BigEndian.Uint32(answer)))
			require.NoError(t, err)

			require.NoError(t, cluster.Reset())

			_, err = idle.Read(answer)
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, addrs, cluster.Addrs())
			require.Equal(t, id, cluster.ID())
			fresh := newClient(t, cluster)
			admin = kadm.NewClient(fresh)
			after, err := admin.Metadata(ctx)
			require.NoError(t, err)
			require.Equal(t, []string{"orders"}, after.Topics.Names())
			require.Equal(t, id, after.Cluster)
			require.Equal(t, before.Topics["orders"].ID, after.Topics["orders"].ID, "some clients never believe in another")
			ends, err := admin.ListEndOffsets(ctx, "orders")
			require.NoError(t, err)
			require.NoError(t, ends.Error())
			ends.Each(func(o kadm.ListedOffset) { require.Zero(t, o.Offset) })
			groups, err := admin.ListGroups(ctx)
			require.NoError(t, err)
			require.Empty(t, groups)
			list := kmsg.NewPtrListConfigResourcesRequest()
			list.ResourceTypes = []int8{int8(kmsg.ConfigResourceTypeGroupConfig)}
			listed, err := list.RequestWith(ctx, fresh)
			require.NoError(t, err)
			require.Empty(t, listed.ConfigResources)
		})
	}
}

// A client that knows a later leader epoch than the first goes on at once after Reset, whatever became of the nodes meanwhile.
func TestResetGoesOnInALaterLeaderEpoch(t *testing.T) {
	for name, disturb := range map[string]func(*kshare.Cluster) error{
		"LeaderMoved": func(c *kshare.Cluster) error { return c.MoveLeader("orders", 0, 2, true) },
		"NodeStopped": func(c *kshare.Cluster) error { return c.StopNode(1) },
		"NodeCutOff": func(c *kshare.Cluster) error {
			err := c.CutNode(1)
			time.Sleep(10 * time.Second) // until it is fenced
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, err := kshare.Start(kshare.WithBrokers(3), kshare.WithInMemoryNetwork(), kshare.WithTopic("orders", 2),
					kshare.WithConfig("default.replication.factor", "3"))
				require.NoError(t, err)
				defer func() { require.NoError(t, cluster.Close()) }()
				client := newClient(t, cluster, kgo.RecordPartitioner(kgo.ManualPartitioner()))
				defer client.Close()
				produce := func() {
					require.NoError(t, client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr())
				}
				epochs := func() (all []int32) {
					for _, p := range cluster.InspectTopics()[0].Partitions {
						all = append(all, p.LeaderEpoch)
					}
					return all
				}
				produce()
				require.Equal(t, []int32{0, 0}, epochs())
				for round := range int32(2) {
					require.NoError(t, disturb(cluster))
					if name == "LeaderMoved" || name == "NodeStopped" {
						produce()
					}
					before := epochs()
					require.NoError(t, cluster.Reset())
					require.Equal(t, []int32{before[0] + 1, before[1] + 1}, epochs(), "round %d", round)
					reset := time.Now()
					produce()
					require.Less(t, time.Since(reset), 10*time.Second)
					require.EqualValues(t, 1, cluster.InspectTopics()[0].Partitions[0].EndOffset)
				}
			})
		})
	}
}

// A virtual clock stands where it stood, and owes nothing to the cluster that is gone.
func TestResetDropsTimers(t *testing.T) {
	virtual := clock.NewVirtual(time.Unix(1_800_000_000, 0))
	cluster, err := kshare.Start(kshare.WithClock(virtual), kshare.WithInMemoryNetwork(), kshare.WithTopic("orders", 1), kshare.WithTiming(kshare.TimingKafka))
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	fresh, armed := virtual.NextDeadline()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := newClient(t, cluster, kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("readers"), kgo.FetchMaxWait(time.Second))
	polled := make(chan struct{})
	go func() { defer close(polled); client.PollFetches(ctx) }()
	direct, err := cluster.OpenDirect(1)
	require.NoError(t, err)
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.PartitionMaxBytes = 1 << 20
	poll := kmsg.NewPtrFetchRequest()
	poll.Version, poll.MaxWaitMillis, poll.MinBytes, poll.MaxBytes = 12, 20_000, 1, 1<<20
	poll.Topics = []kmsg.FetchRequestTopic{{Topic: "orders", Partitions: []kmsg.FetchRequestTopicPartition{partition}}}
	direct.Send(kmsg.NewRequestFormatter().AppendRequest(nil, poll, 1)[4:])
	require.True(t, direct.Waits())
	waits, _ := virtual.NextDeadline()
	require.False(t, waits.After(virtual.Now().Add(20*time.Second)))

	require.NoError(t, cluster.Reset())
	cancel()
	<-polled
	client.Close()
	require.NoError(t, cluster.Reset(), "once more, since the client has come back meanwhile")
	require.Equal(t, time.Unix(1_800_000_000, 0), virtual.Now())
	next, ok := virtual.NextDeadline()
	require.Equal(t, armed, ok)
	require.Equal(t, fresh, next)
}

// Clients of every kind go on across resets, no connection or goroutine is left behind, and the addresses are never refused.
func TestResetUnderLoad(t *testing.T) {
	for name, opts := range map[string][]kshare.Option{"Ports": {kshare.WithBrokers(3)}, "NoPort": {kshare.WithInMemoryNetwork()}} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			cluster, err := kshare.Start(append(opts, kshare.WithTopic("orders", 3))...)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			var load sync.WaitGroup
			produced := make(chan struct{})
			client := func(opts ...kgo.Opt) *kgo.Client {
				client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(cluster.Addrs()...), kgo.Dialer(cluster.Dial), kgo.MetadataMinAge(10 * time.Millisecond), kgo.DisableIdempotentWrite(),
					kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond })}, opts...)...)
				require.NoError(t, err)
				return client
			}
			for i := range 4 {
				load.Go(func() {
					client := client()
					defer client.Close()
					for ctx.Err() == nil {
						err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: fmt.Append(nil, i)}).FirstErr()
						if err == nil {
							select {
							case produced <- struct{}{}:
							case <-ctx.Done():
							}
						}
					}
				})
			}
			for _, group := range []kgo.Opt{kgo.ConsumerGroup("readers"), kgo.ShareGroup("workers")} {
				load.Go(func() {
					client := client(kgo.ConsumeTopics("orders"), group)
					defer client.Close()
					for ctx.Err() == nil {
						client.PollFetches(ctx)
					}
				})
			}
			load.Go(func() {
				for ctx.Err() == nil {
					c, err := cluster.Dial(ctx, "tcp", cluster.Addrs()[0])
					if ctx.Err() == nil {
						require.NoError(t, err, "the address is always open")
					}
					if err == nil {
						c.Close()
					}
				}
			})
			for range 20 {
				for range 5 {
					<-produced
				}
				require.NoError(t, cluster.Reset())
			}
			<-produced
			cancel()
			load.Wait()
			require.NoError(t, cluster.Close())
			require.ErrorIs(t, cluster.Reset(), kshare.ErrClosed)
			goleak.VerifyNone(t, before)
		})
	}
}

func TestResetAndCloseAtOnce(t *testing.T) {
	before := goleak.IgnoreCurrent()
	for range 20 {
		cluster, err := kshare.Start(kshare.WithBrokers(2))
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := cluster.Reset(); err != nil {
					require.ErrorIs(t, err, kshare.ErrClosed)
				}
			})
		}
		all.Go(func() { require.NoError(t, cluster.Close()) })
		all.Wait()
		_, err = cluster.Dial(context.Background(), "tcp", cluster.Addrs()[0])
		require.Error(t, err)
	}
	goleak.VerifyNone(t, before)
}

func BenchmarkReset(b *testing.B) {
	cluster, err := kshare.Start(kshare.WithTopic("orders", 3))
	require.NoError(b, err)
	defer cluster.Close()
	ctx := context.Background()
	for b.Loop() {
		b.StopTimer()
		producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...))
		require.NoError(b, err)
		require.NoError(b, producer.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: make([]byte, 1000)}).FirstErr())
		b.StartTimer()
		require.NoError(b, cluster.Reset())
		b.StopTimer()
		producer.Close()
		b.StartTimer()
	}
}
