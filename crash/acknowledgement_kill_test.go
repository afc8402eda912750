package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare/config"
	"kshare/kip1289"
	"kshare/shareclient"
	"kshare/sharepartition"
	"kshare/storage"
	"kshare/storage/directory"
)

// oneStatePartition has one partition of __share_group_state keep all share partitions.
var oneStatePartition = []config.Property{{Key: "share.coordinator.state.topic.num.partitions", Value: "1"}}

// A kill behind any batch of a transaction that has taken an acknowledgement of a share group (KIP-1289), the brokers' own batches too, leaves the record acknowledged and its output
// committed, or neither.
func TestKillInsideATransactionalAcknowledgement(t *testing.T) {
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprintf("commit=%t", commit), func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			type kill struct {
				behind storage.PartitionID
				fs     *vfs.MemFS
			}
			var mu sync.Mutex
			var watching bool
			var kills []kill
			watch := func(on bool) {
				mu.Lock()
				defer mu.Unlock()
				watching = on
			}
			m := &machine{addr: "127.0.0.1:9092", kip1289: &kip1289.Switches{}, config: oneStatePartition, wrap: func(s storage.Store) storage.Store {
				return &watched{Store: s, internal: true, appended: func(id storage.PartitionID) {
					mu.Lock()
					defer mu.Unlock()
					if watching {
						kills = append(kills, kill{id, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 0))})})
					}
				}}
			}}
			require.NoError(t, m.boot(fs, directory.FlushNever))
			acknowledgeInTransaction(t, m, commit, watch)
			names := map[[16]byte]string{}
			for _, topic := range m.cluster.InspectTopics() {
				names[topic.ID] = topic.Name
			}
			require.NoError(t, m.stop(t))

			var points []string
			for _, k := range kills {
				points = append(points, names[k.behind.Topic])
			}
			require.Equal(t, []string{
				"__transaction_state", topicName, // the output
				"__transaction_state", "__share_group_state", // what is staged
				"__transaction_state",            // how it is to end
				"__share_group_state", topicName, // the markers
				"__transaction_state", // that it has ended
			}, points)
			for n, k := range kills {
				when := fmt.Sprintf("killed behind batch %d, of %s", n, points[n])
				after := &machine{addr: "127.0.0.1:9092", kip1289: &kip1289.Switches{}, config: oneStatePartition}
				require.NoError(t, after.boot(k.fs, directory.FlushNever), when)
				producer, err := shareclient.NewProducer(context.Background(), shareclient.ProducerConfig{TransactionalID: "t"}, after.clientOptions()...)
				require.NoError(t, err, when)
				producer.Close()
				require.Equal(t, holdsCommitted(t, after, 1, endOf(t, after, 1)), acknowledged(t, after), when)
				require.NoError(t, after.stop(t))
			}
		})
	}
}

// acknowledgeInTransaction reads a record from one partition and writes one to another in a transaction, while appends are watched.
func acknowledgeInTransaction(t *testing.T, m *machine, commit bool, watch func(bool)) {
	ctx := context.Background()
	client := m.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	prepareShareGroup(t, client)
	require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: topicName, Partition: 0, Value: []byte("in")}).FirstErr())
	consumer, err := shareclient.NewConsumer(shareclient.ConsumerConfig{Group: shareGroup, Topics: []string{topicName}}, m.clientOptions()...)
	require.NoError(t, err)
	records, err := consumer.Poll(ctx)
	require.NoError(t, err)
	require.Len(t, records, 1)
	producer, err := shareclient.NewProducer(ctx, shareclient.ProducerConfig{TransactionalID: "t"}, m.clientOptions()...)
	require.NoError(t, err)
	defer producer.Close()
	watch(true)
	defer watch(false)
	require.NoError(t, producer.BeginTransaction())
	out := &kgo.Record{Topic: topicName, Key: []byte("a"), Value: []byte("out")}
	require.NoError(t, producer.Produce(ctx, out))
	require.EqualValues(t, 1, out.Partition, "the key is to lead to partition 1")
	require.NoError(t, consumer.Acknowledge(records[0], shareclient.Accept))
	require.NoError(t, producer.SendShareAcknowledgementsToTransaction(ctx, consumer.AcknowledgementsForTransaction(), consumer.GroupMetadata()))
	if commit {
		require.NoError(t, producer.CommitTransaction(ctx))
	} else {
		require.NoError(t, producer.AbortTransaction(ctx))
	}
}

func endOf(t *testing.T, m *machine, partition int32) int64 {
	for _, topic := range m.cluster.InspectTopics() {
		if topic.Name == topicName {
			return topic.Partitions[partition].EndOffset
		}
	}
	require.Fail(t, "there is no topic")
	return 0
}

// acknowledged tells whether the share coordinator has the record acknowledged. It must not be waiting for anything.
func acknowledged(t *testing.T, m *machine) bool {
	s, err := m.cluster.InspectSharePartition(shareGroup, topicName, 0)
	require.NoError(t, err)
	if s.Persisted == nil || len(s.Persisted.Batches) == 0 {
		return false
	}
	state := sharepartition.State(s.Persisted.Batches[0].State)
	require.Contains(t, []sharepartition.State{sharepartition.Acknowledged, sharepartition.Available}, state)
	require.Zero(t, s.Persisted.Batches[0].Staged)
	return state == sharepartition.Acknowledged
}
