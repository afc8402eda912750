package crash

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"kshare/protocol"
)

// A transaction of two-phase commit outlives a kill of the process behind every answer: once it is prepared, once it is kept for the next owner, and once that has decided.
func TestKillOfAPreparedTransaction(t *testing.T) {
	addr := fmt.Sprintf("127.0.0.1:%d", fixedPort(t, rand.New(rand.NewPCG(rand.Uint64(), 0))))
	dir := t.TempDir()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.InitProducerID.Int16(), protocol.InitTwoPhase)
	var broker *process
	r := &restarting{t: t}
	start := func() {
		broker = startProcess(t, "--listen", addr, "--dir", dir, "--topic", "orders:1", "--kip1289", "--kip1289-switch", "keep.prepared.txn=keep",
			"--config", "unstable.api.versions.enable=true", "--config", "transaction.two.phase.commit.enable=true")
		var err error
		r.client, err = kgo.NewClient(kgo.SeedBrokers(addr), kgo.MaxVersions(versions), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
	}
	kill := func() {
		r.client.Close()
		broker.kill(t)
		start()
	}
	init := func() *protocol.InitProducerIDResponse {
		q := protocol.NewInitProducerIDRequest()
		id := "t"
		q.TransactionalID, q.Enable2PC, q.KeepPreparedTxn = &id, true, true
		return ask[*protocol.InitProducerIDResponse](r, q)
	}
	kmsgs := func(p *protocol.InitProducerIDResponse) *kmsg.InitProducerIDResponse {
		return &kmsg.InitProducerIDResponse{ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch}
	}

	start()
	defer func() { r.client.Close() }()
	r.find(1, "t")
	first := init()
	require.Zero(t, first.ErrorCode)
	require.EqualValues(t, -1, first.OngoingTxnProducerID)
	r.produceIn("t", kmsgs(first), 0)

	kill()
	described := r.describeTransaction("t")
	require.Equal(t, "Ongoing", described.State)
	require.EqualValues(t, math.MaxInt32, described.TimeoutMillis)
	second := init()
	require.Equal(t, []int64{first.ProducerID, 1}, []int64{second.ProducerID, int64(second.ProducerEpoch)})
	require.Equal(t, []int64{first.ProducerID, 0}, []int64{second.OngoingTxnProducerID, int64(second.OngoingTxnProducerEpoch)})

	kill()
	require.NotZero(t, r.end("t", kmsgs(first), false).ErrorCode, "who prepared it does not own it any more")
	end := r.end("t", kmsgs(second), true)
	require.Zero(t, end.ErrorCode)
	require.EqualValues(t, 2, end.ProducerEpoch)

	kill()
	require.EqualValues(t, 2, r.stableEnd(), "a record and a marker")
	require.Equal(t, "CompleteCommit", r.describeTransaction("t").State)
	third := init()
	require.Equal(t, []int64{first.ProducerID, 3, -1}, []int64{third.ProducerID, int64(third.ProducerEpoch), third.OngoingTxnProducerID})
}
