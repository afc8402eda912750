package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare/protocol"
	"kshare/storage"
	"kshare/storage/directory"
)

// watched is a store that calls appended behind each batch that goes to a user's log, and with internal also to one of the brokers' own.
type watched struct {
	storage.Store
	internal bool
	appended func(storage.PartitionID)
}

func (w *watched) OpenLog(id storage.PartitionID, internal bool) (storage.Log, error) {
	l, err := w.Store.OpenLog(id, internal)
	if err != nil || internal && !w.internal {
		return l, err
	}
	return &watchedLog{Log: l, appended: func() { w.appended(id) }}, nil
}

type watchedLog struct {
	storage.Log
	appended func()
}

func (l *watchedLog) Append(header *protocol.BatchHeader, batch []byte) error {
	err := l.Log.Append(header, batch)
	l.appended()
	return err
}

// A kill behind any batch of a transaction, records or markers, leaves a transaction that can be ended, and all of its records committed or none.
func TestKillInsideATransaction(t *testing.T) {
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprintf("commit=%t", commit), func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			var mu sync.Mutex
			var killed []*vfs.MemFS // what the operating system has behind each batch
			m := &machine{addr: "127.0.0.1:9092", wrap: func(s storage.Store) storage.Store {
				return &watched{Store: s, appended: func(storage.PartitionID) {
					mu.Lock()
					defer mu.Unlock()
					killed = append(killed, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 0))}))
				}}
			}}
			require.NoError(t, m.boot(fs, directory.FlushNever))
			transact(t, m, commit)
			require.NoError(t, m.stop(t))
			require.Len(t, killed, 4, "two records and two markers")

			for n, clone := range killed {
				after := bootMachine(t, clone, directory.FlushNever)
				requireWhole(t, after, fmt.Sprintf("killed behind batch %d", n))
				require.NoError(t, after.stop(t))
			}
		})
	}
}

func transactional(t *testing.T, m *machine) *kgo.Client {
	return m.client(t, kgo.TransactionalID("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// transact writes a record to each of two partitions in a transaction.
func transact(t *testing.T, m *machine, commit bool) {
	ctx := context.Background()
	client := transactional(t, m)
	defer client.Close()
	require.NoError(t, client.BeginTransaction())
	require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: topicName, Partition: 0, Value: []byte("v")}, &kgo.Record{Topic: topicName, Partition: 1, Value: []byte("v")}).FirstErr())
	require.NoError(t, client.EndTransaction(ctx, kgo.TransactionEndTry(commit)))
}

// requireWhole has the producer come back, which ends what is open, and compares the partitions.
func requireWhole(t *testing.T, m *machine, when string) {
	ctx := context.Background()
	client := transactional(t, m)
	defer client.Close()
	_, _, err := client.ProducerID(ctx)
	require.NoError(t, err, when)
	stable, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topicName)
	require.NoError(t, err, when)
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topicName)
	require.NoError(t, err, when)
	seen := map[int32]bool{}
	for p := range int32(2) {
		end, _ := ends.Lookup(topicName, p)
		committed, _ := stable.Lookup(topicName, p)
		require.Equal(t, end.Offset, committed.Offset, "%s: the transaction of partition %d stays open", when, p)
		seen[p] = holdsCommitted(t, m, p, end.Offset)
	}
	require.Equal(t, seen[0], seen[1], "%s: one partition has the record committed, the other has not", when)
}

// holdsCommitted tells whether a consumer of committed records sees any in a partition.
func holdsCommitted(t *testing.T, m *machine, partition int32, end int64) bool {
	client := m.client(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topicName: {partition: kgo.NewOffset().AtStart()}}))
	defer client.Close()
	found := false
	for next := int64(0); next < end; {
		fetched := client.PollFetches(context.Background())
		require.NoError(t, fetched.Err())
		records := fetched.Records()
		found = found || slices.ContainsFunc(records, func(r *kgo.Record) bool { return !r.Attrs.IsControl() })
		next = records[len(records)-1].Offset + 1
	}
	return found
}
