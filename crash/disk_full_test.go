package crash

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/storage/directory"
)

// fullFS is a file system that can be full.
func fullFS(fs vfs.FS) (vfs.FS, *atomic.Bool) {
	full := &atomic.Bool{}
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpMkdirAll:
			if full.Load() {
				return syscall.ENOSPC
			}
		}
		return nil
	})), full
}

// The disk is full now and then while clients work. Nothing that was answered is lost, nothing is there twice, and all goes on when there is space again.
func TestDiskFullUnderLoad(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for name, flush := range map[string]directory.Flush{"Never": directory.FlushNever, "Always": directory.FlushAlways} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			fs, full := fullFS(mem)
			m := bootMachine(t, fs, flush)
			l := newLedger()
			work := m.work(t, l, seed)
			for range 6 {
				<-l.after(1 + rng.IntN(800))
				full.Store(true)
				<-time.NewTimer(time.Duration(rng.IntN(20)) * time.Millisecond).C
				full.Store(false)
			}
			<-l.after(500)
			work.stopProducing()
			drainShareGroup(t, l)
			work.stopAll()
			m.verify(t, l, l.snapshot())
			require.Empty(t, l.broken())
			require.NoError(t, m.stop(t))
			again := bootMachine(t, mem, flush)
			again.verify(t, l, l.snapshot())
			require.NoError(t, again.stop(t))
		})
	}
}

// What cannot be stored is answered with an error that says so, and the same request succeeds when there is space again.
func TestDiskFullIsAnswered(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fs, full := fullFS(vfs.NewMem())
	m := bootMachine(t, fs, directory.FlushNever)
	client := m.client(t, kgo.RequestRetries(0), kgo.RecordRetries(0), kgo.DisableIdempotentWrite(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	produce := func() error {
		return client.ProduceSync(ctx, &kgo.Record{Topic: topicName, Value: []byte("value")}).FirstErr()
	}
	commit := func() error {
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Offset = 1
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.Partitions = topicName, []kmsg.OffsetCommitRequestTopicPartition{partition}
		q := kmsg.NewPtrOffsetCommitRequest()
		q.Group, q.Topics = "simple", []kmsg.OffsetCommitRequestTopic{topic}
		r, err := client.Broker(1).Request(ctx, pinned{q, 9})
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
	}
	create := func(name string) func() error {
		return func() error {
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
			q := kmsg.NewPtrCreateTopicsRequest()
			q.Topics, q.TimeoutMillis = append(q.Topics, topic), 1000
			r, err := client.Broker(1).Request(ctx, q)
			if err != nil {
				return err
			}
			return kerr.ErrorForCode(r.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
		}
	}
	findGroupCoordinator(ctx, t, client)
	for _, f := range []func() error{produce, commit, create("a")} {
		require.NoError(t, f())
	}
	full.Store(true)
	require.ErrorIs(t, produce(), kerr.KafkaStorageError)
	require.Error(t, create("b")(), "the first write that the log of the state does not take may only show as it is flushed")
	require.ErrorIs(t, create("c")(), kerr.KafkaStorageError)
	require.ErrorIs(t, commit(), kerr.NotCoordinator)
	require.NoError(t, m.reads(ctx, t, 1), "what is there can be read")
	full.Store(false)
	for _, f := range []func() error{produce, commit, create("c")} {
		require.NoError(t, f())
	}
	require.Contains(t, m.logs.String(), "free space")
	require.NoError(t, m.stop(t))
}

// A fetch of a share group goes on with a full disk, and says of the acknowledgements that it carries that they were not stored.
func TestDiskFullShareFetch(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fs, full := fullFS(vfs.NewMem())
	m := bootMachine(t, fs, directory.FlushNever)
	client := m.client(t, kgo.RequestRetries(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	prepareShareGroup(t, client)
	for range 3 {
		require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: topicName}).FirstErr())
	}
	topics, err := kadm.NewClient(client).ListTopics(ctx, topicName)
	require.NoError(t, err)
	group, member := shareGroup, newMemberID
	joining := kmsg.NewPtrShareGroupHeartbeatRequest()
	joining.GroupID, joining.MemberID, joining.SubscribedTopicNames = group, member, []string{topicName}
	findGroupCoordinator(ctx, t, client)
	joined, err := client.Broker(1).Request(ctx, joining)
	require.NoError(t, err)
	require.Zero(t, joined.(*kmsg.ShareGroupHeartbeatResponse).ErrorCode)
	q := kmsg.NewPtrShareFetchRequest()
	q.GroupID, q.MemberID, q.MaxBytes, q.MaxRecords, q.BatchSize, q.MaxWaitMillis, q.MinBytes, q.ShareAcquireMode = &group, &member, 8<<20, 1, 1, 1000, 1, 1
	q.Version = 2
	q.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: topics[topicName].ID, Partitions: []kmsg.ShareFetchRequestTopicPartition{{}}}}
	fetch := func(acknowledged ...int64) kmsg.ShareFetchResponseTopicPartition {
		p := &q.Topics[0].Partitions[0]
		p.AcknowledgementBatches = nil
		for _, offset := range acknowledged {
			p.AcknowledgementBatches = append(p.AcknowledgementBatches, kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{FirstOffset: offset, LastOffset: offset, AcknowledgeTypes: []int8{1}})
		}
		r, err := client.Broker(1).Request(ctx, q)
		require.NoError(t, err)
		q.ShareSessionEpoch++
		require.Zero(t, r.(*kmsg.ShareFetchResponse).ErrorCode)
		return r.(*kmsg.ShareFetchResponse).Topics[0].Partitions[0]
	}
	require.Len(t, fetch().AcquiredRecords, 1)
	full.Store(true)
	r := fetch(0)
	require.ErrorIs(t, kerr.ErrorForCode(r.AcknowledgeErrorCode), kerr.KafkaStorageError)
	require.EqualValues(t, 1, r.AcquiredRecords[0].FirstOffset)
	full.Store(false)
	r = fetch(1)
	require.Zero(t, r.AcknowledgeErrorCode)
	require.EqualValues(t, 2, r.AcquiredRecords[0].FirstOffset)
	require.NoError(t, m.stop(t))
}

// findGroupCoordinator has the topic of groups made.
func findGroupCoordinator(ctx context.Context, t *testing.T, client *kgo.Client) {
	t.Helper()
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.CoordinatorKeys = []string{"any"}
	_, err := client.Request(ctx, q)
	require.NoError(t, err)
}

// reads consumes n records.
func (m *machine) reads(ctx context.Context, t *testing.T, n int) error {
	consumer := m.client(t, kgo.ConsumeTopics(topicName), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer consumer.Close()
	for n > 0 {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		n -= fetches.NumRecords()
	}
	return nil
}

// pinned is a request of one version.
type pinned struct {
	kmsg.Request
	version int16
}

func (p pinned) MaxVersion() int16 { return p.version }
