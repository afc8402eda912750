package txn

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// twoPhase is a coordination that takes two-phase commit, and keeps what is prepared.
func twoPhase(t require.TestingT) *coordination {
	return newCoordination(t, func(c *Config) { c.TwoPhaseCommit, c.KeepPrepared = true, true })
}

// keep takes an id over and keeps the transaction under way.
func (x *coordination) keep(id string) Decision {
	return x.store(x.c.InitProducerID(x.now, id, Init{TimeoutMs: 60_000, KeepPrepared: true}))
}

// reload is another coordinator that has read the log.
func (x *coordination) reload() {
	next := x.fresh(func(c *Config) { *c = x.c.config })
	for _, r := range x.records {
		require.NoError(x.t, next.Replay(r[0], r[1]))
	}
	x.c = next
	x.markers = next.Loaded(x.now, 0)
}

func TestTwoPhaseTransactionsDoNotTimeOut(t *testing.T) {
	x := twoPhase(t)
	d := x.store(x.c.InitProducerID(x.now, "a", Init{TimeoutMs: -7, TwoPhaseCommit: true}))
	require.Equal(t, errorcode.None, d.Code, "the timeout is not looked at")
	x.add("a", d.Producer, Flow2)
	for range 2 {
		now, _ := x.c.Lookup("a")
		assert.Equal(t, int32(math.MaxInt32), now.TimeoutMs)
		x.now = x.now.Add(100 * 24 * time.Hour)
		x.expire()
		_, waits := x.c.NextDeadline()
		assert.False(t, waits)
		assert.Equal(t, Ongoing, x.state("a"))
		x.reload()
	}
	// Whoever takes the id over without it has a timeout again.
	x.init("a")
	x.complete()
	x.init("a")
	now, _ := x.c.Lookup("a")
	assert.Equal(t, int32(60_000), now.TimeoutMs)
	assert.Equal(t, Producer{d.Producer.ID, 2}, now.Producer)
}

// The owner of a transaction that was kept has an epoch of its own and ends it; those before end nothing, nor what is sent late after the end.
func TestKeptTransactionIsEndedByTheLastOwner(t *testing.T) {
	for _, commit := range []bool{true, false} {
		x := twoPhase(t)
		first := x.init("a").Producer
		x.add("a", first, Flow2)
		second := x.keep("a")
		assert.Equal(t, Decision{Producer: Producer{first.ID, 1}, Kept: &first, Transition: second.Transition}, second)
		x.reload() // a crash between
		third := x.keep("a")
		assert.Equal(t, Producer{first.ID, 2}, third.Producer)
		assert.Equal(t, first, *third.Kept)

		for _, by := range []Producer{first, second.Producer} {
			assert.Equal(t, errorcode.ProducerFenced, x.end("a", by, commit, Flow2).Code)
			assert.Equal(t, errorcode.ProducerFenced, x.end("a", by, commit, Flow0).Code)
			assert.Equal(t, errorcode.ProducerFenced, x.add("a", by, Flow2).Code)
		}
		assert.Equal(t, errorcode.InvalidTxnState, x.add("a", third.Producer, Flow2).Code, "it is prepared: nothing is added")
		assert.Equal(t, Ongoing, x.state("a"))

		end := x.end("a", third.Producer, commit, Flow2)
		assert.Equal(t, Producer{first.ID, 3}, end.Producer)
		require.Len(t, x.markers, 1)
		assert.Equal(t, &Markers{ID: "a", Producer: Producer{first.ID, 1}, Commit: commit, Flow: Flow2, Partitions: []TopicPartition{{"orders", 0}}}, x.markers[0],
			"markers are above what the transaction has written, whoever ends it")
		x.reload() // a crash before the markers
		x.complete()
		now, _ := x.c.Lookup("a")
		assert.Equal(t, end.Producer, now.Producer)
		assert.False(t, now.kept())
		assert.Equal(t, end.Producer, x.end("a", third.Producer, commit, Flow2).Producer, "the same again, whose answer was lost")
		assert.Equal(t, errorcode.ProducerFenced, x.end("a", second.Producer, commit, Flow2).Code)
		assert.Equal(t, errorcode.None, x.add("a", end.Producer, Flow2).Code)
	}
}

// Epochs run out between two owners: the new one has a new id, and the markers the old.
func TestKeptTransactionOfAnExhaustedProducer(t *testing.T) {
	x := twoPhase(t)
	by := x.init("a").Producer
	for by.Epoch < lastEpoch {
		d := x.store(x.c.InitProducerID(x.now, "a", Init{TimeoutMs: 1, Expected: &by}))
		require.Equal(t, errorcode.None, d.Code)
		by = d.Producer
	}
	x.add("a", by, Flow2)
	kept := x.keep("a")
	assert.Equal(t, Producer{by.ID + 1, 0}, kept.Producer)
	assert.Equal(t, by, *kept.Kept)
	end := x.end("a", kept.Producer, true, Flow2)
	assert.Equal(t, Producer{by.ID + 1, 1}, end.Producer)
	assert.Equal(t, Producer{by.ID, math.MaxInt16}, x.markers[0].Producer)
	x.complete()
	now, _ := x.c.Lookup("a")
	assert.Equal(t, end.Producer, now.Producer)
	assert.Equal(t, kept.Producer.ID, now.PreviousProducerID)

	// With markers of an end that keeps the epoch, which old clients ask for.
	x.add("a", end.Producer, Flow0)
	kept = x.keep("a")
	assert.Equal(t, kept.Producer, x.end("a", kept.Producer, false, Flow0).Producer)
	x.complete()
	now, _ = x.c.Lookup("a")
	assert.Equal(t, kept.Producer, now.Producer)
}

// A transaction that was kept and is abandoned ends as any: whoever takes the id over without keeping it aborts it, and so does its timeout where it has one.
func TestKeptTransactionIsAborted(t *testing.T) {
	for name, abort := range map[string]func(x *coordination){
		"taken over": func(x *coordination) { require.Equal(t, errorcode.ConcurrentTransactions, x.init("a").Code) },
		"timed out": func(x *coordination) {
			x.now = x.now.Add(time.Hour)
			x.expire()
		},
		"by an admin": func(x *coordination) { require.Equal(t, errorcode.None, x.store(x.c.Abort(x.now, "a")).Code) },
	} {
		t.Run(name, func(t *testing.T) {
			x := twoPhase(t)
			by := x.init("a").Producer
			x.add("a", by, Flow2)
			kept := x.keep("a").Producer
			abort(x)
			require.Len(t, x.markers, 1)
			assert.False(t, x.markers[0].Commit)
			x.complete()
			now, _ := x.c.Lookup("a")
			assert.Equal(t, CompleteAbort, now.State)
			assert.Equal(t, Producer{by.ID, 2}, now.Producer, "the one that kept it is fenced")
			assert.Equal(t, errorcode.ProducerFenced, x.add("a", kept, Flow2).Code)
		})
	}
}

func TestKeepingNothing(t *testing.T) {
	x := twoPhase(t)
	assert.Nil(t, x.keep("a").Kept, "no transaction is under way")
	by := x.keep("a").Producer
	assert.EqualValues(t, 1, by.Epoch)
	x.add("a", by, Flow2)
	x.end("a", by, true, Flow2)
	assert.Equal(t, errorcode.ConcurrentTransactions, x.keep("a").Code, "it is decided, and its markers are to be written")
	x.complete()
	assert.Nil(t, x.keep("a").Kept)
	x.level = 1
	assert.Equal(t, errorcode.UnsupportedVersion, x.keep("a").Code)
}

func TestAbortRefuses(t *testing.T) {
	x := twoPhase(t)
	assert.Equal(t, errorcode.InvalidProducerIDMapping, x.c.Abort(x.now, "a").Code)
	by := x.init("a").Producer
	assert.Equal(t, errorcode.InvalidTxnState, x.c.Abort(x.now, "a").Code)
	x.add("a", by, Flow2)
	x.end("a", by, true, Flow2)
	assert.Equal(t, errorcode.ConcurrentTransactions, x.c.Abort(x.now, "a").Code, "it is decided")
}

// The next epoch is where Apache Kafka's TransactionLogValue has it, tag 3, and not there at all for what was not kept.
func TestRecordOfKeptTransaction(t *testing.T) {
	x := twoPhase(t)
	by := x.init("a").Producer
	x.add("a", by, Flow2)
	read := func() (v kmsg.TxnMetadataValue) {
		require.NoError(t, v.ReadFrom(x.records[len(x.records)-1][1]))
		assert.Zero(t, v.UnknownTags.Len())
		return v
	}
	assert.EqualValues(t, -1, read().NextProducerEpoch)
	x.keep("a")
	v := read()
	assert.Equal(t, []int64{by.ID, 0, by.ID, 1}, []int64{v.ProducerID, int64(v.ProducerEpoch), v.NextProducerID, int64(v.NextProducerEpoch)})
	assert.Contains(t, string(x.records[len(x.records)-1][1]), "\x03\x02\x00\x01", "tag 3 of 2 bytes: epoch 1")
}
