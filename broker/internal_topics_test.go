package broker_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/coordinator"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
)

// startIn starts a cluster in a directory.
func startIn(t *testing.T, dir string, opts ...kshare.Option) *kshare.Cluster {
	t.Helper()
	c, err := kshare.Start(append(opts, kshare.WithDirectory(dir), kshare.WithInMemoryNetwork())...)
	require.NoError(t, err)
	return c
}

// commitAndFetch commits an offset in groups whose names are spread over partitions, and reads them back. Those that kept leaves out have none until they commit.
func commitAndFetch(t *testing.T, client *kgo.Client, commit bool, kept ...func(group string) bool) {
	t.Helper()
	for i := range 20 {
		group := fmt.Sprint("g", i)
		if commit {
			q := kmsg.NewPtrOffsetCommitRequest()
			q.Group = group
			topic := kmsg.NewOffsetCommitRequestTopic()
			topic.Topic, topic.TopicID = "t", metadata(t, client, "t").Topics[0].TopicID
			partition := kmsg.NewOffsetCommitRequestTopicPartition()
			partition.Offset = 5
			topic.Partitions = append(topic.Partitions, partition)
			q.Topics = append(q.Topics, topic)
			require.Zero(t, send[*kmsg.OffsetCommitResponse](t, client, q).Topics[0].Partitions[0].ErrorCode)
		}
		q := kmsg.NewPtrOffsetFetchRequest()
		asked := kmsg.NewOffsetFetchRequestGroup()
		asked.Group = group
		q.Groups = append(q.Groups, asked)
		groups := send[*kmsg.OffsetFetchResponse](t, client, q).Groups
		if len(kept) > 0 && !kept[0](group) {
			require.Empty(t, groups[0].Topics, group)
			continue
		}
		require.Len(t, groups[0].Topics, 1, group)
		require.EqualValues(t, 5, groups[0].Topics[0].Partitions[0].Offset)
	}
}

// __consumer_offsets may have another number of partitions than is configured: somebody made it, or the configuration has changed. Partitions that are added count from the
// next start on: groups that other partitions keep then are lost.
func TestOffsetsTopicOfAnotherSize(t *testing.T) {
	dir := t.TempDir()
	opts := []kshare.Option{kshare.WithBrokers(3), kshare.WithTopic("t", 1)}
	c := startIn(t, dir, append(opts, kshare.WithTopic("__consumer_offsets", 4))...)
	client := newClient(t, c)
	commitAndFetch(t, client, true)
	q := kmsg.NewPtrCreatePartitionsRequest()
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = "__consumer_offsets", 6
	q.Topics = append(q.Topics, topic)
	require.Zero(t, send[*kmsg.CreatePartitionsResponse](t, client, q).Topics[0].ErrorCode)
	commitAndFetch(t, client, true)
	client.Close()
	require.NoError(t, c.Close())

	c = startIn(t, dir, append(opts, kshare.WithConfig("offsets.topic.num.partitions", "60"))...)
	client = newClient(t, c)
	commitAndFetch(t, client, false, func(group string) bool {
		return coordinator.PartitionFor(group, 4) == coordinator.PartitionFor(group, 6)
	})
	commitAndFetch(t, client, true)
	client.Close()
	require.NoError(t, c.Close())
}

// What a client writes to the internal topics does not keep the cluster from starting again. Types of records that a later Kafka may know are passed over; what
// makes no sense otherwise stops what the partition keeps, and nothing else.
func TestGarbageInInternalTopics(t *testing.T) {
	dir := t.TempDir()
	c := startIn(t, dir, kshare.WithTopic("t", 1), kshare.WithTopic("__share_group_state", 50))
	client := newClient(t, c)
	makeCoordinators(t, client)
	commitAndFetch(t, client, true)
	for _, group := range []string{"s0", "s1"} {
		m := startGroup(t, c, group, "t")
		m.fetch(0)
	}
	admin := newClient(t, c, kgo.ClientID("__admin_client"))
	put := func(topic string, partition int32, key ...byte) {
		r := &kgo.Record{Topic: topic, Partition: partition, Key: key, Value: []byte("v")}
		require.NoError(t, admin.ProduceSync(context.Background(), r).FirstErr())
	}
	for _, topic := range []string{"__consumer_offsets", "__share_group_state"} {
		for p := range int32(50) {
			put(topic, p, 0, 99, 'x')
		}
	}
	id := metadata(t, client, "t").Topics[0].TopicID
	put("__share_group_state", sharecoordinator.PartitionFor(sharecoordinator.Key{Group: "s0", Topic: id}, 50), 0, 1, 'x')
	put("__consumer_offsets", coordinator.PartitionFor("g0", 50), 0, 1, 'x')
	admin.Close()
	client.Close()
	require.NoError(t, c.Close())

	for range 2 { // it stays so
		logs := &bytes.Buffer{}
		c = startIn(t, dir, kshare.WithLogger(slog.New(slog.NewTextHandler(logs, nil))))
		client = newClient(t, c)
		failed := []string{}
		for i := range 20 {
			group := fmt.Sprint("g", i)
			q := kmsg.NewPtrOffsetFetchRequest()
			q.Version = 8
			q.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group, MemberEpoch: -1}}
			switch g := askOver(t, c, 1, q).(*kmsg.OffsetFetchResponse).Groups[0]; g.ErrorCode {
			case errorcode.None:
				require.EqualValues(t, 5, g.Topics[0].Partitions[0].Offset, group)
			case errorcode.NotCoordinator:
				failed = append(failed, group)
			}
		}
		require.Equal(t, []string{"g0"}, failed)
		for group, want := range map[string]int16{"s0": errorcode.NotCoordinator, "s1": errorcode.None} {
			q := kmsg.NewPtrReadShareGroupStateRequest()
			q.GroupID = group
			q.Topics = []kmsg.ReadShareGroupStateRequestTopic{{TopicID: id, Partitions: []kmsg.ReadShareGroupStateRequestTopicPartition{{LeaderEpoch: 100}}}}
			require.Equal(t, want, askOver(t, c, 1, q).(*kmsg.ReadShareGroupStateResponse).Topics[0].Partitions[0].ErrorCode, group)
		}
		require.Equal(t, 2, strings.Count(logs.String(), "are not served"))
		client.Close()
		require.NoError(t, c.Close())
	}
}
