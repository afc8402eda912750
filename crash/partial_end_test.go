package crash

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare/kip1289"
	"kshare/protocol"
	"kshare/shareclient"
	"kshare/sharepartition"
	"kshare/storage"
	"kshare/storage/directory"
)

// choosy is a store that refuses the appends to the brokers' own logs which refuse picks.
type choosy struct {
	storage.Store
	refuse func(topic [16]byte) bool
}

func (c *choosy) OpenLog(id storage.PartitionID, internal bool) (storage.Log, error) {
	l, err := c.Store.OpenLog(id, internal)
	if err != nil || !internal {
		return l, err
	}
	return &choosyLog{l, func() bool { return c.refuse(id.Topic) }}, nil
}

type choosyLog struct {
	storage.Log
	refuse func() bool
}

func (l *choosyLog) Append(header *protocol.BatchHeader, batch []byte) error {
	if l.refuse() {
		return errors.New("refused")
	}
	return l.Log.Append(header, batch)
}

// The end of a transaction in two share partitions of one share coordinator is stored for the first, and not for the second before the marker comes again (KIP-1289): the leaders
// of both learn of it.
func TestEndThatIsStoredInParts(t *testing.T) {
	ctx := context.Background()
	var state atomic.Value // the id of __share_group_state, once the end is to come
	var ends atomic.Int64
	m := &machine{addr: "127.0.0.1:9092", kip1289: &kip1289.Switches{}, config: oneStatePartition, wrap: func(s storage.Store) storage.Store {
		return &choosy{s, func(topic [16]byte) bool { return topic == state.Load() && ends.Add(1) == 2 }}
	}}
	require.NoError(t, m.boot(vfs.NewMem(), directory.FlushNever))
	client := m.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	prepareShareGroup(t, client)
	for p := range int32(2) {
		require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: topicName, Partition: p, Value: []byte("in")}).FirstErr())
	}
	consumer, err := shareclient.NewConsumer(shareclient.ConsumerConfig{Group: shareGroup, Topics: []string{topicName}}, m.clientOptions()...)
	require.NoError(t, err)
	producer, err := shareclient.NewProducer(ctx, shareclient.ProducerConfig{TransactionalID: "t"}, m.clientOptions()...)
	require.NoError(t, err)
	defer producer.Close()
	require.NoError(t, producer.BeginTransaction())
	for n := 0; n < 2; {
		records, err := consumer.Poll(ctx)
		require.NoError(t, err)
		for _, r := range records {
			n++
			require.NoError(t, consumer.Acknowledge(r, shareclient.Accept))
		}
	}
	require.NoError(t, producer.SendShareAcknowledgementsToTransaction(ctx, consumer.AcknowledgementsForTransaction(), consumer.GroupMetadata()))
	for _, topic := range m.cluster.InspectTopics() {
		if topic.Name == "__share_group_state" {
			state.Store(topic.ID)
		}
	}
	require.NoError(t, producer.CommitTransaction(ctx))
	require.NoError(t, producer.BeginTransaction()) // which the next one waits for
	require.NoError(t, producer.Produce(ctx, &kgo.Record{Topic: topicName, Value: []byte("out")}))
	require.EqualValues(t, 3, ends.Load(), "one of two was to be refused")
	for p := range int32(2) {
		s, err := m.cluster.InspectSharePartition(shareGroup, topicName, p)
		require.NoError(t, err)
		require.Equal(t, int64(1), s.StartOffset, "partition %d: %+v", p, s.Runs)
		require.Equal(t, int8(sharepartition.Acknowledged), s.Persisted.Batches[0].State)
	}
	require.NoError(t, m.stop(t))
}
