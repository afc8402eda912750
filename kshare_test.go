package kshare_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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

func TestShareConsume(t *testing.T) {
	cluster, err := kshare.Start(kshare.WithTopic("orders", 3))
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()

	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...))
	require.NoError(t, err)
	defer producer.Close()
	ctx := context.Background()
	setGroupConfig(t, producer, "workers", "share.auto.offset.reset", "earliest")
	require.NoError(t, producer.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr())

	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.ConsumeTopics("orders"), kgo.ShareGroup("workers"))
	require.NoError(t, err)
	defer client.Close()
	fetches := client.PollFetches(ctx)
	require.NoError(t, fetches.Err())
	require.Len(t, fetches.Records(), 1)
}

// setGroupConfig sets one configuration of a group.
func setGroupConfig(t *testing.T, client *kgo.Client, group, key, value string) {
	t.Helper()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = key, &value
	resource.Configs = append(resource.Configs, config)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(context.Background(), client)
	require.NoError(t, err)
	require.Len(t, response.Resources, 1)
	require.Zero(t, response.Resources[0].ErrorCode)
}
