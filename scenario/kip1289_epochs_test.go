package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
)

// What is staged in the last epoch of a producer id is ended by a marker of the epoch above it, which no producer has, and the producer goes on with another id: after a commit, an abort, and
// where somebody takes the transactional id over.
func TestStagedInTheLastEpoch(t *testing.T) {
	const lastEpoch = 32766
	c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithClock(clock.NewVirtual(Began)), kshare.WithKIP1289())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	d, err := c.OpenDirect(1)
	require.NoError(t, err)
	defer d.Close()
	format := kmsg.NewRequestFormatter()
	ask := func(q kmsg.Request) {
		d.Send(format.AppendRequest(nil, q, 1)[4:])
		_, err := d.Receive()
		require.NoError(t, err)
	}
	for _, id := range []string{"payments", "refunds", "salaries"} {
		ask(&kmsg.FindCoordinatorRequest{Version: 4, CoordinatorType: 1, CoordinatorKeys: []string{id}})
		for range lastEpoch {
			ask(&kmsg.InitProducerIDRequest{Version: 4, TransactionalID: &id, TransactionTimeoutMillis: 60_000, ProducerID: -1, ProducerEpoch: -1})
		}
	}
	runLive(t, c, `topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a b c
join workers m1 orders
fetch workers m1
init-producer p1 txn=payments
init-producer p2 txn=refunds
init-producer p3 txn=salaries
----
orders: 1 partition
workers: ok
orders-0: offsets 0-2
m1: epoch 3, assigned orders-0
orders-0: acquired 0-2 count 1, lock 30s
  0 a | 1 b | 2 c
p1: producer <p1>, epoch 32766
p2: producer <p2>, epoch 32766
p3: producer <p3>, epoch 32766

txn-ack workers m1 p1 orders-0 0=accept
txn-ack workers m1 p2 orders-0 1=accept
txn-ack workers m1 p3 orders-0 2=accept
persisted workers orders-0
txn-end p1 commit
txn-end p2 abort
init-producer p4 txn=salaries
persisted workers orders-0
open-transactions
fetch workers m1
txn-ack workers m1 p2 orders-0 1=accept
txn-ack workers m1 p3 orders-0 2=accept
txn-ack workers m1 p4 orders-0 2=accept
txn-end p2 commit
txn-end p4 commit
state workers orders-0
open-transactions
----
orders-0: ok
orders-0: ok
orders-0: ok
orders-0: start 0, state epoch 2; 0 TX_PENDING count 1, 1 TX_PENDING count 1, 2 TX_PENDING count 1
p1: committed, producer <p1#2>, epoch 0
p2: aborted, producer <p2#2>, epoch 0
p4: producer <p4>, epoch 0
orders-0: start 0, state epoch 2; 0 ACKNOWLEDGED count 1, 1-2 AVAILABLE count 1
no open transactions
orders-0: acquired 1-2 count 2, lock 30s
  1 b | 2 c
orders-0: ok
INVALID_PRODUCER_ID_MAPPING (49)
orders-0: ok
p2: committed, producer <p2#2>, epoch 1
p4: committed, producer <p4>, epoch 1
orders-0: start 3, end 3, 0 in flight
persisted: start 1, state epoch 2; 1-2 ACKNOWLEDGED count 2
no open transactions
`)
}
