package shareclient_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/shareclient"
)

// all polls until there are n records, and says the same of each.
func all(t *testing.T, c *shareclient.Consumer, n int, say shareclient.AcknowledgeType) (records []*shareclient.Record) {
	t.Helper()
	for len(records) < n {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		more, err := c.Poll(ctx)
		cancel()
		require.NoError(t, err)
		records = append(records, more...)
	}
	for _, r := range records {
		require.NoError(t, c.Acknowledge(r, say))
	}
	return records
}

// empty tells that nothing comes for ten seconds.
func empty(t *testing.T, c *shareclient.Consumer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	records, err := c.Poll(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "%v", records)
}

// A transaction in which nothing is produced has its EndTxn.
func TestTransactionOfAcknowledgementsAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) {
		produce(t, opts, numbered(12)...)
		in, out := newConsumer(t, opts), newProducer(t, opts)
		all(t, in, 12, shareclient.Accept)
		require.NoError(t, out.BeginTransaction())
		require.NoError(t, out.SendShareAcknowledgementsToTransaction(t.Context(), in.AcknowledgementsForTransaction(), in.GroupMetadata()))
		require.NoError(t, out.AbortTransaction(t.Context()))
		for _, r := range all(t, in, 12, shareclient.Reject) {
			assert.EqualValues(t, 2, r.DeliveryCount)
		}
		require.NoError(t, out.BeginTransaction())
		require.NoError(t, out.SendShareAcknowledgementsToTransaction(t.Context(), in.AcknowledgementsForTransaction(), in.GroupMetadata()))
		assert.EqualValues(t, 12, lag(t, opts))
		require.NoError(t, out.CommitTransaction(t.Context()))
		empty(t, in)
		assert.Zero(t, lag(t, opts))
	})
}

// There is a request for each partition, and it goes to the partition's leader.
func TestEachPartitionsLeaderIsAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) {
		produce(t, opts, numbered(12)...)
		sent := &requests{}
		in, out := newConsumer(t, opts), newProducer(t, append(opts, kgo.WithHooks(sent)))
		all(t, in, 12, shareclient.Accept)
		acks := in.AcknowledgementsForTransaction()
		require.Len(t, acks, 6)
		assert.Empty(t, in.AcknowledgementsForTransaction(), "they are taken once")
		require.NoError(t, out.BeginTransaction())
		require.NoError(t, out.SendShareAcknowledgementsToTransaction(t.Context(), acks, in.GroupMetadata()))
		assert.Equal(t, map[int32]int{1: 2, 2: 2, 3: 2}, sent.of(protocol.TxnShareAcknowledgeKey))
		require.NoError(t, out.CommitTransaction(t.Context()))
		empty(t, in)
	}, kshare.WithBrokers(3))
}

func TestWhatIsRefusedWithoutARequest(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) {
		produce(t, opts, "a")
		sent := &requests{}
		in, out := newConsumer(t, opts), newProducer(t, append(opts, kgo.WithHooks(sent)))
		all(t, in, 1, shareclient.Accept)
		acks := in.AcknowledgementsForTransaction()
		require.ErrorIs(t, out.SendShareAcknowledgementsToTransaction(t.Context(), acks, in.GroupMetadata()), shareclient.ErrNotInTransaction)
		require.ErrorIs(t, out.Produce(t.Context(), &kgo.Record{Topic: "invoices"}), shareclient.ErrNotInTransaction)
		require.ErrorIs(t, out.CommitTransaction(t.Context()), shareclient.ErrNotInTransaction)
		require.ErrorIs(t, out.AbortTransaction(t.Context()), shareclient.ErrNotInTransaction)
		require.NoError(t, out.BeginTransaction())
		require.Error(t, out.BeginTransaction())
		require.NoError(t, out.SendShareAcknowledgementsToTransaction(t.Context(), shareclient.Acknowledgements{}, in.GroupMetadata()))
		require.NoError(t, out.CommitTransaction(t.Context()), "nothing is to be committed")
		assert.Len(t, sent.of(kmsg.InitProducerID.Int16()), 1)
		assert.Empty(t, sent.of(protocol.TxnShareAcknowledgeKey))
		assert.Empty(t, sent.of(kmsg.EndTxn.Int16()))
		_, err := shareclient.NewProducer(t.Context(), shareclient.ProducerConfig{}, opts...)
		require.Error(t, err)
		_, err = shareclient.NewConsumer(shareclient.ConsumerConfig{Group: "workers"}, opts...)
		require.Error(t, err)
		out.Close()
		require.ErrorIs(t, out.BeginTransaction(), shareclient.ErrClosed)
	})
}

// After an abortable error an abort is all that is left, and then the producer goes on.
func TestAbortableErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) {
		produce(t, opts, "a")
		in, out := newConsumer(t, opts), newProducer(t, opts)
		all(t, in, 1, shareclient.Accept)
		require.NoError(t, out.BeginTransaction())
		stale := in.GroupMetadata()
		stale.MemberEpoch += 5
		err := out.SendShareAcknowledgementsToTransaction(t.Context(), in.AcknowledgementsForTransaction(), stale)
		require.True(t, shareclient.IsAbortable(err), "%v", err)
		require.ErrorContains(t, err, "STALE_MEMBER_EPOCH")
		require.ErrorIs(t, out.CommitTransaction(t.Context()), shareclient.ErrAborting)
		require.ErrorIs(t, out.Produce(t.Context(), &kgo.Record{Topic: "invoices"}), shareclient.ErrAborting)
		require.NoError(t, out.AbortTransaction(t.Context()))

		again := all(t, in, 1, shareclient.Accept) // once its lock has ended: it was never staged
		assert.EqualValues(t, 2, again[0].DeliveryCount)
		require.NoError(t, out.BeginTransaction())
		require.NoError(t, out.SendShareAcknowledgementsToTransaction(t.Context(), in.AcknowledgementsForTransaction(), in.GroupMetadata()))
		require.NoError(t, out.CommitTransaction(t.Context()))
		empty(t, in)
	})
}

// What passes is tried again for as long as the producer may block, and no longer.
func TestRetriableErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) {
		produce(t, opts, "a")
		in, out := newConsumer(t, opts), newProducer(t, opts)
		all(t, in, 1, shareclient.Accept)
		require.NoError(t, cluster.MoveCoordinator(kshare.GroupCoordinator, "workers", 1, 70*time.Second))
		acks := in.AcknowledgementsForTransaction()
		require.NoError(t, out.BeginTransaction())
		began := time.Now()
		err := out.SendShareAcknowledgementsToTransaction(t.Context(), acks, in.GroupMetadata())
		require.True(t, shareclient.IsAbortable(err), "%v", err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "COORDINATOR_LOAD_IN_PROGRESS")
		assert.Equal(t, time.Minute, time.Since(began))
		require.NoError(t, out.AbortTransaction(t.Context()))

		time.Sleep(10 * time.Second)
		all(t, in, 1, shareclient.Accept)
		require.NoError(t, out.BeginTransaction())
		require.NoError(t, cluster.MoveCoordinator(kshare.GroupCoordinator, "workers", 1, 5*time.Second))
		began = time.Now()
		require.NoError(t, out.SendShareAcknowledgementsToTransaction(t.Context(), in.AcknowledgementsForTransaction(), in.GroupMetadata()))
		assert.GreaterOrEqual(t, time.Since(began), 5*time.Second)
		require.NoError(t, out.CommitTransaction(t.Context()))
		empty(t, in)
	})
}

// A producer with the same transactional id takes over.
func TestFencedProducer(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) {
		produce(t, opts, "a")
		in, old := newConsumer(t, opts), newProducer(t, opts)
		all(t, in, 1, shareclient.Accept)
		require.NoError(t, old.BeginTransaction())
		require.NoError(t, old.Produce(t.Context(), &kgo.Record{Topic: "invoices", Value: []byte("never seen")}))
		require.NoError(t, old.SendShareAcknowledgementsToTransaction(t.Context(), in.AcknowledgementsForTransaction(), in.GroupMetadata()))
		next := newProducer(t, opts)
		err := old.CommitTransaction(t.Context())
		require.True(t, shareclient.IsFatal(err), "%v", err)
		require.Equal(t, err, old.BeginTransaction(), "a fatal error stays")
		all(t, in, 1, shareclient.Accept)
		require.NoError(t, next.BeginTransaction())
		require.NoError(t, next.SendShareAcknowledgementsToTransaction(t.Context(), in.AcknowledgementsForTransaction(), in.GroupMetadata()))
		require.NoError(t, next.CommitTransaction(t.Context()))
		assert.Empty(t, everything(t, "invoices", opts))
	})
}

// Outside of transactions a consumer acknowledges by itself; what nothing is said of stays with it.
func TestCommit(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) {
		produce(t, opts, numbered(12)...)
		in := newConsumer(t, opts)
		records := all(t, in, 12, shareclient.Accept)
		require.NoError(t, in.Acknowledge(records[0], shareclient.Release))
		require.NoError(t, in.Acknowledge(records[1], shareclient.Reject))
		require.NoError(t, in.Acknowledge(records[2], shareclient.Renew))
		require.Error(t, in.Acknowledge(records[3], 9))
		time.Sleep(20 * time.Second)
		require.NoError(t, in.Commit(t.Context()))
		require.ErrorIs(t, in.Acknowledge(records[3], shareclient.Accept), shareclient.ErrNotHeld)
		again := all(t, in, 1, shareclient.Accept)
		assert.Equal(t, records[0].Value, again[0].Value)
		time.Sleep(20 * time.Second) // the lock that was renewed goes on
		require.NoError(t, in.Acknowledge(records[2], shareclient.Accept))
		require.NoError(t, in.Commit(t.Context()))
		assert.Zero(t, lag(t, opts))
	})
}

// A record whose lock has ended and that comes again is another delivery: what was made of the first one is not to be committed.
func TestSecondDeliveryToTheSameMember(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) {
		produce(t, opts, "a")
		in := newConsumer(t, opts)
		first := all(t, in, 1, shareclient.Accept)
		time.Sleep(31 * time.Second)
		second, err := in.Poll(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, in.Acknowledge(first[0], shareclient.Accept), shareclient.ErrNotHeld)
		assert.Empty(t, in.AcknowledgementsForTransaction(), "what was said of the first delivery does not hold for the second")
		require.NoError(t, in.Acknowledge(second[0], shareclient.Accept))
		require.NoError(t, in.Commit(t.Context()))
		assert.Zero(t, lag(t, opts))
	})
}

// Who closes gives back at once what it holds, and is no member any more.
func TestClose(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) {
		produce(t, opts, numbered(12)...)
		in := newConsumer(t, opts)
		records := all(t, in, 12, shareclient.Renew)
		for _, r := range records[:6] {
			require.NoError(t, in.Acknowledge(r, shareclient.Accept))
		}
		require.NoError(t, in.Close(t.Context()))
		require.NoError(t, in.Close(t.Context()), "once more does nothing")
		_, err := in.Poll(t.Context())
		require.ErrorIs(t, err, shareclient.ErrClosed)
		began := time.Now()
		other := newConsumer(t, opts)
		all(t, other, 6, shareclient.Accept)
		assert.Less(t, time.Since(began), 10*time.Second, "before any lock or session has ended")
		require.NoError(t, other.Commit(t.Context()))
		assert.Zero(t, lag(t, opts))
	})
}

// A member that was removed because no heartbeat came joins again by itself.
func TestExpelledMember(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) {
		produce(t, opts, "a")
		in := newConsumer(t, opts)
		held := all(t, in, 1, shareclient.Accept)
		_, err := cluster.AddFault(kshare.Fault{API: "ShareGroupHeartbeat", Error: "UNKNOWN_MEMBER_ID", Times: 1})
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, in.Acknowledge(held[0], shareclient.Accept), shareclient.ErrNotHeld)
		all(t, in, 1, shareclient.Accept)
		require.NoError(t, in.Commit(t.Context()))
		assert.Zero(t, lag(t, opts))
	})
}

// A cluster without KIP-1289 is told apart at once.
func TestClusterWithoutTheKIP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, err := kshare.Start(kshare.WithInMemoryNetwork())
		require.NoError(t, err)
		defer func() { require.NoError(t, cluster.Close()) }()
		_, err = shareclient.NewProducer(t.Context(), shareclient.ProducerConfig{TransactionalID: "worker"}, kgo.SeedBrokers(cluster.Addrs()...), kgo.Dialer(cluster.Dial))
		var e *shareclient.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, errorcode.UnsupportedVersion, e.Code)
		assert.True(t, shareclient.IsFatal(err))
	})
}

// Where what is read was written in transactions, some offsets have no record: the consumer tells of them by itself.
func TestGaps(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) {
		source, err := shareclient.NewProducer(t.Context(), shareclient.ProducerConfig{TransactionalID: "shop"}, opts...)
		require.NoError(t, err)
		defer source.Close()
		for range 3 {
			require.NoError(t, source.BeginTransaction())
			require.NoError(t, source.Produce(t.Context(), &kgo.Record{Topic: "orders", Key: []byte("k"), Value: []byte("a")}))
			require.NoError(t, source.CommitTransaction(t.Context()))
		}
		in, out := newConsumer(t, opts), newProducer(t, opts)
		for _, r := range all(t, in, 3, shareclient.Accept) {
			assert.Contains(t, []int64{0, 2, 4}, r.Offset, "a marker follows each")
		}
		require.NoError(t, out.BeginTransaction())
		require.NoError(t, out.SendShareAcknowledgementsToTransaction(t.Context(), in.AcknowledgementsForTransaction(), in.GroupMetadata()))
		require.NoError(t, out.CommitTransaction(t.Context()))
		empty(t, in)
		assert.Zero(t, lag(t, opts))
	})
}

// Renew keeps what was polled and what was fetched with it from others for as long as it is called, and leaves what was said alone.
func TestRenewHoldsWhatWasFetched(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) {
		client, err := kgo.NewClient(append(opts, kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(time.Second))...)
		require.NoError(t, err)
		defer client.Close()
		require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord("a"), kgo.StringRecord("b"), kgo.StringRecord("c")).FirstErr(), "one batch")
		in, err := shareclient.NewConsumer(shareclient.ConsumerConfig{Group: "workers", Topics: []string{"orders"}, MaxRecords: 1}, opts...)
		require.NoError(t, err)
		defer func() { require.NoError(t, in.Close(t.Context())) }()
		assert.Zero(t, in.AcquisitionLockTimeout())
		first := all(t, in, 1, shareclient.Accept)
		assert.Len(t, first, 1, "the others wait in the consumer")
		assert.Equal(t, 30*time.Second, in.AcquisitionLockTimeout())
		for range 5 {
			time.Sleep(20 * time.Second)
			require.NoError(t, in.Renew(t.Context()))
		}
		other := newConsumer(t, opts)
		empty(t, other)
		for _, r := range all(t, in, 2, shareclient.Accept) {
			assert.EqualValues(t, 1, r.DeliveryCount)
		}
		require.NoError(t, in.Commit(t.Context()))
		assert.Zero(t, lag(t, opts))
	})
}
