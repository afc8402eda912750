package kshare_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare"
)

func TestProduceAndConsume(t *testing.T) {
	cluster, err := kshare.Start(kshare.WithTopic("orders", 3))
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()

	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("g"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer client.Close()
	ctx := context.Background()
	require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr())
	fetches := client.PollFetches(ctx)
	require.NoError(t, fetches.Err())
	require.Len(t, fetches.Records(), 1)
}
