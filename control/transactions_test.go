package control_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"kshare"
	"kshare/control"
)

// A transaction without a timeout holds records of a share group until an admin who finds it in the list, or by the metrics, aborts it.
// What the member held besides went back when its connection ended with the scenario.
func TestTransactions(t *testing.T) {
	a := newAPI(t, kshare.WithKIP1289(), kshare.WithConfig("unstable.api.versions.enable", "true"), kshare.WithConfig("transaction.two.phase.commit.enable", "true"))
	var all control.Transactions
	a.get("/v1/transactions", &all)
	require.Empty(t, all.Transactions)
	a.run(`config group workers share.auto.offset.reset=earliest
produce orders-0 a b c
join workers m1 orders
fetch workers m1
init-producer p1 txn=payments two-phase=yes
init-producer p2 txn=refunds timeout=10m
init-producer p3 txn=idle
produce orders-0 d producer=p2 txn=yes
txn-ack workers m1 p1 orders-0 0=accept 2=reject
`)
	a.post("/v1/time/advance", map[string]any{"by": "9m"}, nil)

	const own = "kshare_"
	staged := own + `share_partition_staged_records{group="workers",partition="0",topic="orders"}`
	got := a.samples(own+"open", own+"oldest", own+"share_partition_staged")
	require.Equal(t, map[string]float64{
		own + `open_transactions{timeout="none"}`: 1, own + `open_transactions{timeout="yes"}`: 1,
		own + `oldest_open_transaction_seconds{timeout="none"}`: 540, own + `oldest_open_transaction_seconds{timeout="yes"}`: 540,
		staged: 2,
	}, got)

	tenMinutes := (10 * time.Minute).Milliseconds()
	a.get("/v1/transactions", &all)
	require.Len(t, all.Transactions, 2)
	payments, refunds := all.Transactions[0], all.Transactions[1]
	require.Len(t, payments.Partitions, 1)
	require.Equal(t, "__share_group_state", payments.Partitions[0].Topic)
	require.Equal(t, control.Transaction{
		TransactionalID: "payments", State: "Ongoing", ProducerID: payments.ProducerID, Began: payments.Began, Partitions: payments.Partitions,
		Staged: []control.StagedRecords{{Group: "workers", Topic: "orders"}, {Group: "workers", Topic: "orders", FirstOffset: 2, LastOffset: 2}},
	}, payments)
	require.Equal(t, control.Transaction{
		TransactionalID: "refunds", State: "Ongoing", ProducerID: refunds.ProducerID, TimeoutMs: &tenMinutes, Began: refunds.Began,
		Partitions: []control.TransactionPartition{{Topic: "orders"}}, Staged: []control.StagedRecords{},
	}, refunds)
	require.Equal(t, began, payments.Began.UTC())

	a.post("/v1/time/advance", map[string]any{"by": "500h"}, nil)
	a.get("/v1/transactions", &all)
	require.Len(t, all.Transactions, 1, "the one with a timeout is gone")
	a.post("/v1/transactions/abort", map[string]any{"transactionalId": "payments"}, nil)
	a.get("/v1/transactions", &all)
	require.Empty(t, all.Transactions)
	require.Equal(t, []string{"payments: CompleteAbort, producer <producer>, epoch 1, no timeout", "orders-0: start 0, state epoch 2; 0-2 AVAILABLE count 1"},
		a.run("txn-describe payments\npersisted workers orders-0\n"))
	require.Zero(t, a.samples(staged)[staged])
	require.Zero(t, a.samples(own + "open")[own+`open_transactions{timeout="none"}`])

	abort := func(id string) string {
		return a.refused(http.StatusConflict, http.MethodPost, "/v1/transactions/abort", map[string]any{"transactionalId": id})
	}
	require.Contains(t, abort("payments"), `the transaction of "payments" cannot be aborted: its state is CompleteAbort: INVALID_TXN_STATE`)
	require.Contains(t, abort("nobody"), `there is no transactional id "nobody"`)
}

// What waits for a transaction that has ended without it, as the draft lets it, is listed without a transactional id.
func TestRecordsWithoutATransaction(t *testing.T) {
	a := newAPI(t, kshare.WithKIP1289("late.stage.fence=off"))
	a.run(`config group workers share.auto.offset.reset=earliest
produce orders-0 a
join workers m1 orders
fetch workers m1
init-producer p1 txn=payments
share-writes slow workers hold=yes
txn-ack workers m1 p1 orders-0 0=accept &staging
txn-end p1 abort
release slow
wait staging
`)
	var all control.Transactions
	a.get("/v1/transactions", &all)
	require.Len(t, all.Transactions, 1)
	x := all.Transactions[0]
	require.Equal(t, control.Transaction{
		ProducerID: x.ProducerID, ProducerEpoch: -1, Partitions: []control.TransactionPartition{}, Staged: []control.StagedRecords{{Group: "workers", Topic: "orders"}},
	}, x)

	const release = "/v1/transactions/release"
	refused := func(producerID int64) string {
		return a.refused(http.StatusConflict, http.MethodPost, release, map[string]any{"producerId": producerID})
	}
	require.Equal(t, []string{"p1: producer <p1>, epoch 2", "orders-0: offset 1"}, a.run("init-producer p1 txn=payments\nproduce orders-0 b producer=p1 txn=yes\n"), "which does not free it")
	require.Contains(t, refused(x.ProducerID), `has the open transaction of "payments", which can be aborted`)
	a.post("/v1/transactions/abort", map[string]any{"transactionalId": "payments"}, nil)
	a.get("/v1/transactions", &all)
	require.Equal(t, []control.Transaction{x}, all.Transactions)
	require.Contains(t, refused(x.ProducerID+1), "nothing waits for a transaction of the producer")
	a.post(release, map[string]any{"producerId": x.ProducerID}, nil)
	a.get("/v1/transactions", &all)
	require.Empty(t, all.Transactions)
	require.Equal(t, []string{"orders-0: start 0, state epoch 2; 0 AVAILABLE count 1"}, a.run("persisted workers orders-0\n"))
	require.Contains(t, refused(x.ProducerID), "nothing waits for a transaction of the producer")
}
