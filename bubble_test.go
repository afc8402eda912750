package kshare_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare"
)

// A whole cluster with real clients runs in a testing/synctest bubble, where time passes only when everything waits. A record that a share
// consumer keeps too long goes to another one after exactly the 30 s of group.share.record.lock.duration.ms, and the test waits for none of them.
func TestLockExpiresWithoutWaiting(t *testing.T) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		cluster, err := kshare.Start(
			kshare.WithInMemoryNetwork(), // a bubble knows no ports
			kshare.WithTopic("orders", 1),
		)
		require.NoError(t, err)
		defer func() { require.NoError(t, cluster.Close()) }()
		worker := func() *kgo.Client {
			client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.Dialer(cluster.Dial),
				kgo.ConsumeTopics("orders"), kgo.ShareGroup("workers"),
				kgo.ConnIdleTimeout(time.Minute), // a connection that is closed gives its records back before their lock ends
				kgo.MaxConcurrentFetches(0))      // nothing is fetched before it is polled for
			require.NoError(t, err)
			return client
		}
		ctx := context.Background()

		slow := worker()
		defer slow.Close()
		setGroupConfig(t, slow, "workers", "share.auto.offset.reset", "earliest")
		require.NoError(t, slow.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr())
		first := slow.PollFetches(ctx).Records()
		require.Len(t, first, 1)
		acquired := time.Now()

		other := worker()
		defer other.Close()
		second := other.PollFetches(ctx).Records()
		require.Len(t, second, 1)
		require.EqualValues(t, 2, second[0].DeliveryCount())
		require.Equal(t, 30*time.Second, time.Since(acquired))
	})
	require.Less(t, time.Since(began), 30*time.Second)
}
