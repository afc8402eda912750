package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
	"kshare/protocol"
)

// find makes the topic of a kind of coordinator.
func (r *restarting) find(kind int8, key string) {
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.CoordinatorType, q.CoordinatorKeys = kind, []string{key}
	ask[*kmsg.FindCoordinatorResponse](r, q)
}

func (r *restarting) initTransactions(id string) *kmsg.InitProducerIDResponse {
	q := kmsg.NewPtrInitProducerIDRequest()
	q.TransactionalID, q.TransactionTimeoutMillis = &id, 60_000
	return ask[*kmsg.InitProducerIDResponse](r, q)
}

// produceIn writes a record of a transaction to orders-0.
func (r *restarting) produceIn(id string, by *kmsg.InitProducerIDResponse, sequence int32) {
	r.t.Helper()
	b := protocol.NewBatchBuilder()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = by.ProducerID, by.ProducerEpoch, sequence, true
	require.NoError(r.t, b.Append(0, nil, []byte("value")))
	batch, err := b.Finish()
	require.NoError(r.t, err)
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID, t.Partitions = "orders", r.topicID("orders"), append(t.Partitions, p)
	q := kmsg.NewPtrProduceRequest()
	q.Acks, q.TimeoutMillis, q.TransactionID, q.Topics = -1, 10_000, &id, append(q.Topics, t)
	require.Zero(r.t, ask[*kmsg.ProduceResponse](r, q).Topics[0].Partitions[0].ErrorCode)
}

// commitIn commits offset 7 of orders-0 for a group in a transaction.
func (r *restarting) commitIn(id, group string, by *kmsg.InitProducerIDResponse) {
	r.t.Helper()
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = 7
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic, t.TopicID, t.Partitions = "orders", r.topicID("orders"), append(t.Partitions, p)
	q := kmsg.NewPtrTxnOffsetCommitRequest()
	q.TransactionalID, q.Group, q.ProducerID, q.ProducerEpoch, q.Topics = id, group, by.ProducerID, by.ProducerEpoch, append(q.Topics, t)
	require.Zero(r.t, ask[*kmsg.TxnOffsetCommitResponse](r, q).Topics[0].Partitions[0].ErrorCode)
}

// committed is the offset of orders-0 that a group has committed, -1 for none; a pending one is an error.
func (r *restarting) committed(group string) (int64, error) {
	p := kmsg.NewOffsetFetchRequestGroupTopic()
	p.Topic, p.TopicID, p.Partitions = "orders", r.topicID("orders"), []int32{0}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = group, append(g.Topics, p)
	q := kmsg.NewPtrOffsetFetchRequest()
	q.RequireStable, q.Groups = true, append(q.Groups, g)
	answer := ask[*kmsg.OffsetFetchResponse](r, q).Groups[0].Topics[0].Partitions[0]
	return answer.Offset, kerr.ErrorForCode(answer.ErrorCode)
}

func (r *restarting) end(id string, by *kmsg.InitProducerIDResponse, commit bool) *kmsg.EndTxnResponse {
	q := kmsg.NewPtrEndTxnRequest()
	q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Commit = id, by.ProducerID, by.ProducerEpoch, commit
	return ask[*kmsg.EndTxnResponse](r, q)
}

// stableEnd is the last stable offset of orders-0.
func (r *restarting) stableEnd() int64 {
	ends, err := r.admin().ListCommittedOffsets(context.Background(), "orders")
	require.NoError(r.t, err)
	end, _ := ends.Lookup("orders", 0)
	return end.Offset
}

func (r *restarting) describeTransaction(id string) kmsg.DescribeTransactionsResponseTransactionState {
	q := kmsg.NewPtrDescribeTransactionsRequest()
	q.TransactionalIDs = []string{id}
	return ask[*kmsg.DescribeTransactionsResponse](r, q).TransactionStates[0]
}

// A transaction that is open goes on after a restart, one that was decided and not ended is ended as it was decided, and so are the offsets in them.
func TestTransactionsSurvive(t *testing.T) {
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprintf("commit=%t", commit), func(t *testing.T) {
			virtual := clock.NewVirtual(time.Now())
			// With TimingKafka the markers wait for a time that this clock does not see before the restart.
			r := startRestarting(t, kshare.WithTopic("orders", 1), kshare.WithClock(virtual), kshare.WithTiming(kshare.TimingKafka))
			r.find(1, "open")
			open, decided := r.initTransactions("open"), r.initTransactions("decided")
			r.produceIn("decided", decided, 0)
			r.commitIn("decided", "g", decided)
			r.produceIn("open", open, 0)
			require.Zero(t, r.end("decided", decided, commit).ErrorCode)
			require.Equal(t, []string{"Prepare", "Ongoing"}, []string{r.describeTransaction("decided").State[:7], r.describeTransaction("open").State})
			require.Zero(t, r.stableEnd())

			r.restart()
			require.Equal(t, []string{"Prepare", "Ongoing"}, []string{r.describeTransaction("decided").State[:7], r.describeTransaction("open").State})
			_, err := r.committed("g")
			require.ErrorIs(t, err, kerr.UnstableOffsetCommit)
			virtual.Advance(time.Second)
			require.Equal(t, "Complete", r.describeTransaction("decided").State[:8])
			require.EqualValues(t, 1, r.stableEnd(), "behind the record of decided")
			want := int64(7)
			if !commit {
				want = -1
			}
			offset, err := r.committed("g")
			require.NoError(t, err)
			require.Equal(t, want, offset)

			r.produceIn("open", open, 1)
			require.Zero(t, r.end("open", open, commit).ErrorCode)
			virtual.Advance(time.Second)
			require.EqualValues(t, 5, r.stableEnd(), "three records and two markers")
			r.restart()
			offset, err = r.committed("g")
			require.NoError(t, err)
			require.Equal(t, want, offset)
			require.Equal(t, "Complete", r.describeTransaction("open").State[:8])
		})
	}
}
