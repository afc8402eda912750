package sharecoordinator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/protocol/errorcode"
)

const shards = 5

var otherKey = Key{Group: "g", Topic: [16]byte{7}, Partition: 1}

// transacted is a coordinator of two share partitions that keeps what it stores.
type transacted struct {
	t       *testing.T
	c       *Coordinator
	records []Record
}

func newTransacted(t *testing.T, draft Draft) *transacted {
	x := &transacted{t: t, c: New(Config{UpdatesPerSnapshot: 500, Exists: func([16]byte, int32) bool { return true }, Draft: draft})}
	for _, k := range []Key{exampleKey, otherKey} {
		r, no := x.c.Initialize(1, k, 1, 0)
		require.Nil(t, no)
		x.apply(r)
	}
	return x
}

func (x *transacted) apply(r Record) {
	key, value := r.Encode()
	decoded, err := Decode(key, value)
	require.NoError(x.t, err)
	require.Equal(x.t, r, decoded)
	x.records = append(x.records, r)
	x.c.Apply(&r, int64(len(x.records)))
}

// write writes batches one after the other, those that are staged in a transaction that has just become one of the share partition's state. It returns the first refusal.
func (x *transacted) write(k Key, batches ...Batch) *Refusal {
	for _, b := range batches {
		var g *Guard
		if b.State == txPending {
			g = x.guard(k, b.Staged.ProducerID, b.Staged.ProducerEpoch)
		}
		if no := x.stage(k, g, b); no != nil {
			return no
		}
	}
	return nil
}

func (x *transacted) guard(k Key, producer int64, epoch int16) *Guard {
	return x.c.Guard(1, PartitionFor(k, shards), producer, epoch)
}

// stage writes a batch with a guard that was taken before.
func (x *transacted) stage(k Key, g *Guard, b Batch) *Refusal {
	r, no := x.c.Write(1, k, &Update{StateEpoch: 1, StartOffset: 0, Batches: []Batch{b}, Guard: g})
	if no == nil {
		x.apply(r)
	}
	return no
}

func staged(first, last, producer int64, epoch int16, deliveryState int8) Batch {
	return Batch{first, last, txPending, 1, Staged{producer, epoch, 1, deliveryState}}
}

// end ends a transaction as the broker does: committed batches have their own state, others are available.
func (x *transacted) end(m Marker) ([]Ending, *Refusal) {
	var all []Ending
	for partition := range int32(shards) {
		endings, no := x.c.EndTransaction(2, partition, shards, m, func(_ Key, b *Batch) int8 {
			if m.Commit {
				return b.Staged.DeliveryState
			}
			return 0
		})
		if no != nil {
			return nil, no
		}
		for _, e := range endings {
			x.apply(e.Record)
		}
		all = append(all, endings...)
		x.c.TransactionEnded(2, partition, m)
	}
	return all, nil
}

func (x *transacted) batches(k Key) []Batch {
	s, _ := x.c.State(k)
	return s.Batches
}

func TestTransactionsEnd(t *testing.T) {
	x := newTransacted(t, Draft{})
	require.Nil(t, x.write(exampleKey, Batch{0, 4, 0, 1, Staged{}}, staged(5, 9, 70, 3, 2), staged(10, 12, 71, 0, 4)))
	require.Nil(t, x.write(otherKey, staged(0, 0, 70, 3, 4)))
	assert.Len(t, x.c.Waiting(), 2)

	endings, no := x.end(Marker{ProducerID: 70, ProducerEpoch: 4, CoordinatorEpoch: 1, Commit: true, Version: 2})
	require.Nil(t, no)
	require.Len(t, endings, 2)
	assert.Equal(t, []Batch{{0, 4, 0, 1, Staged{}}, {5, 9, 2, 1, Staged{}}, staged(10, 12, 71, 0, 4)}, x.batches(exampleKey))
	assert.Equal(t, []Batch{{0, 0, 4, 1, Staged{}}}, x.batches(otherKey))
	assert.Equal(t, map[Key][]int64{exampleKey: {71}}, x.c.Waiting())
	snapshot := x.records[len(x.records)-1].Snapshot
	require.NotNil(t, snapshot, "an end is a snapshot, which nothing is merged into")

	endings, no = x.end(Marker{ProducerID: 70, ProducerEpoch: 4, CoordinatorEpoch: 1, Commit: true, Version: 2})
	require.Nil(t, no)
	assert.Empty(t, endings, "the same marker again")
	_, no = x.end(Marker{ProducerID: 71, ProducerEpoch: 1, CoordinatorEpoch: 1, Version: 2})
	require.Nil(t, no)
	assert.Equal(t, []Batch{{0, 4, 0, 1, Staged{}}, {5, 9, 2, 1, Staged{}}, {10, 12, 0, 1, Staged{}}}, x.batches(exampleKey))
	assert.Empty(t, x.c.Waiting())

	again := newTransacted(t, Draft{})
	for i := range x.records {
		again.c.Apply(&x.records[i], int64(i))
	}
	assert.Equal(t, x.batches(exampleKey), again.batches(exampleKey))
}

func TestMarkersThatEndNothing(t *testing.T) {
	x := newTransacted(t, Draft{})
	require.Nil(t, x.write(exampleKey, staged(0, 9, 70, 3, 2)))
	for _, m := range []Marker{{ProducerID: 71, ProducerEpoch: 4, Version: 2}, {ProducerID: 70, ProducerEpoch: 2, Version: 2}} {
		endings, no := x.c.EndTransaction(1, PartitionFor(exampleKey, shards), shards, m, nil)
		require.Nil(t, no)
		assert.Empty(t, endings)
	}
	endings, no := x.end(Marker{ProducerID: 70, ProducerEpoch: 3, Version: 1})
	require.Nil(t, no)
	assert.Len(t, endings, 1, "one of transaction.version 1 has the epoch of the transaction")
}

// What is staged once the transaction has ended would wait for ever, or be decided with the next transaction of the same epoch: it is refused, unless the draft is to be seen.
func TestLateStage(t *testing.T) {
	for _, x := range []struct {
		what   string
		marker Marker
		next   int16 // the epoch of the transaction after it
		code   int16
	}{
		{"the end has raised the epoch", Marker{ProducerID: 70, ProducerEpoch: 4, Version: 2}, 4, errorcode.InvalidProducerEpoch},
		{"EndTxn of version 4 or less", Marker{ProducerID: 70, ProducerEpoch: 3, Version: 0}, 3, errorcode.TransactionAbortable},
		{"an abort with transaction.version 1", Marker{ProducerID: 70, ProducerEpoch: 4, Version: 0}, 4, errorcode.InvalidProducerEpoch},
	} {
		for _, draft := range []bool{false, true} {
			c := newTransacted(t, Draft{NoLateStageFence: draft})
			before := c.guard(exampleKey, 70, 3)
			_, no := c.end(x.marker)
			require.Nil(t, no)
			if draft {
				assert.Nil(t, c.stage(exampleKey, before, staged(0, 9, 70, 3, 2)), x.what)
				assert.Len(t, c.c.Waiting(), 1)
				continue
			}
			assert.Equal(t, x.code, c.stage(exampleKey, before, staged(0, 9, 70, 3, 2)).ErrorCode, x.what)
			next := c.guard(exampleKey, 70, x.next)
			assert.Equal(t, x.code, c.stage(exampleKey, before, staged(0, 9, 70, 3, 2)).ErrorCode, "%s, and the next transaction has begun", x.what)
			assert.Nil(t, c.stage(exampleKey, next, staged(10, 19, 70, x.next, 2)), x.what)
			assert.Equal(t, []Batch{staged(10, 19, 70, x.next, 2)}, c.batches(exampleKey))
		}
	}
}

// Nothing is staged but with a guard that holds.
func TestGuards(t *testing.T) {
	batch := staged(0, 9, 70, 3, 2)
	refused := func(x *transacted, g *Guard, b Batch, why string) {
		no := x.stage(exampleKey, g, b)
		require.NotNil(t, no, why)
		assert.Equal(t, errorcode.TransactionAbortable, no.ErrorCode, why)
	}
	holds := func(x *transacted, g *Guard, why string) { assert.Nil(t, x.stage(exampleKey, g, batch), why) }

	x := newTransacted(t, Draft{})
	g := x.guard(exampleKey, 70, 3)
	refused(x, nil, batch, "without a guard")
	refused(x, g, staged(0, 9, 71, 3, 2), "another producer")
	refused(x, g, staged(0, 9, 70, 2, 2), "another epoch")
	assert.Same(t, g, x.guard(exampleKey, 70, 3), "the same transaction once more")
	holds(x, g, "while the transaction is open")
	assert.Nil(t, x.stage(exampleKey, nil, Batch{0, 9, txPending, 1, NoStaged}), "what no producer has staged waits for no transaction")

	for _, m := range []Marker{{ProducerID: 71, ProducerEpoch: 9}, {ProducerID: 70, ProducerEpoch: 3, Version: 2}, {ProducerID: 70, ProducerEpoch: 2}} {
		_, no := x.end(m)
		require.Nil(t, no)
		holds(x, g, "a marker that is not the transaction's")
	}
	at := PartitionFor(exampleKey, shards)
	end := Marker{ProducerID: 70, ProducerEpoch: 3}
	x.c.TransactionEnded(2, (at+1)%shards, end)
	holds(x, g, "the marker has come to another partition alone")
	x.c.TransactionEnded(2, at, end)
	refused(x, g, batch, "the marker has come")

	g = x.guard(exampleKey, 70, 3)
	x.c.ForgetGuards((at + 1) % shards)
	holds(x, g, "another partition is taken over")
	x.c.ForgetGuards(at)
	refused(x, g, batch, "the partition is taken over")

	g = x.guard(exampleKey, 70, 3)
	x.guard(exampleKey, 70, 4)
	refused(x, g, batch, "a transaction of a higher epoch has begun")
}

// What is known of producers is forgotten in time.
func TestProducersExpire(t *testing.T) {
	const day = 24 * 60 * 60 * 1000
	x := newTransacted(t, Draft{})
	g := x.guard(exampleKey, 70, 3)
	for id := range int64(1000) {
		x.guard(exampleKey, 1000+id, 0)
		x.c.TransactionEnded(2, PartitionFor(exampleKey, shards), Marker{ProducerID: 1000 + id, ProducerEpoch: 1, CoordinatorEpoch: 8, Version: 2})
	}
	require.Nil(t, x.stage(exampleKey, g, staged(0, 9, 70, 3, 2)))
	assert.Len(t, x.c.guards, 1)
	x.c.ExpireProducers(day+1, day)
	assert.Len(t, x.c.ended, 1000)
	assert.Empty(t, x.c.guards, "that is one millisecond older")
	x.c.ExpireProducers(day+2, day)
	assert.Empty(t, x.c.ended)

	endings, no := x.end(Marker{ProducerID: 70, ProducerEpoch: 4, Version: 2})
	require.Nil(t, no)
	assert.Len(t, endings, 1, "what is staged still has an end")
}

func TestCoordinatorEpochs(t *testing.T) {
	for _, draft := range []bool{false, true} {
		x := newTransacted(t, Draft{NoCoordinatorEpochs: draft})
		require.Nil(t, x.write(exampleKey, staged(0, 9, 70, 5, 2)))
		_, no := x.end(Marker{ProducerID: 70, ProducerEpoch: 5, CoordinatorEpoch: 8, Version: 2})
		require.Nil(t, no)
		require.Nil(t, x.write(exampleKey, staged(0, 9, 70, 6, 2)))
		_, no = x.end(Marker{ProducerID: 70, ProducerEpoch: 7, CoordinatorEpoch: 7, Version: 2})
		if draft {
			assert.Nil(t, no)
			continue
		}
		assert.Equal(t, errorcode.TransactionCoordinatorFenced, no.ErrorCode)
	}
}

// A fence may raise the epoch by more than one: the draft then leaves the records waiting.
func TestEpochsThatAreNotNext(t *testing.T) {
	for _, draft := range []bool{false, true} {
		x := newTransacted(t, Draft{ExactEpochs: draft})
		require.Nil(t, x.write(exampleKey, staged(0, 9, 70, 3, 2)))
		endings, no := x.end(Marker{ProducerID: 70, ProducerEpoch: 5, Version: 2})
		require.Nil(t, no)
		assert.Len(t, endings, map[bool]int{false: 1, true: 0}[draft])
	}
}

// With transaction.version 2 the marker of a transaction has the epoch of the next one: if it comes twice it does not end that. Before, both have the same. The
// last epoch's marker has one that no producer is given.
func TestMarkersOfTheEpochBefore(t *testing.T) {
	for _, x := range []struct {
		staged, marker int16
		version        int8
		ends           int
	}{{3, 3, 2, 0}, {3, 4, 2, 1}, {3, 3, 1, 1}, {3, 3, 0, 1}, {3, 2, 0, 0}, {32766, 32767, 2, 1}} {
		c := newTransacted(t, Draft{})
		require.Nil(t, c.write(exampleKey, staged(0, 9, 70, x.staged, 2)))
		endings, no := c.end(Marker{ProducerID: 70, ProducerEpoch: x.marker, Version: x.version})
		require.Nil(t, no)
		assert.Len(t, endings, x.ends, "%+v", x)
	}
}

// Later writes get past TX_PENDING, which no other state does in the draft.
func TestPendingYieldsToLaterWrites(t *testing.T) {
	for _, draft := range []bool{false, true} {
		x := newTransacted(t, Draft{HigherStateWins: draft})
		require.Nil(t, x.write(exampleKey, staged(0, 9, 70, 3, 2)))
		require.Nil(t, x.write(exampleKey, Batch{0, 9, 2, 1, Staged{}}))
		want := []Batch{{0, 9, 2, 1, Staged{}}}
		if draft {
			want = []Batch{staged(0, 9, 70, 3, 2)}
		}
		assert.Equal(t, want, x.batches(exampleKey))
	}
}

// With a partition of __share_group_state goes what it has kept, and what waits for transactions there is told, with the state that it is given. The end of the transaction finds
// nothing of it, and what is staged for it from then on is refused.
func TestUnloadedPartition(t *testing.T) {
	require.NotEqual(t, PartitionFor(exampleKey, shards), PartitionFor(otherKey, shards))
	x := newTransacted(t, Draft{})
	require.Nil(t, x.write(exampleKey, staged(0, 4, 7, 2, 2), Batch{FirstOffset: 5, LastOffset: 5, State: 0, DeliveryCount: 1}, staged(6, 6, 8, 0, 4)))
	require.Nil(t, x.write(otherKey, staged(0, 0, 7, 2, 2)))
	var asked []Batch
	got := x.c.Unload(PartitionFor(exampleKey, shards), shards, func(k Key, b *Batch) int8 {
		require.Equal(t, exampleKey, k)
		asked = append(asked, *b)
		return 4
	})
	require.Equal(t, []Batch{staged(0, 4, 7, 2, 2), staged(6, 6, 8, 0, 4)}, asked)
	first, second := asked[0], asked[1]
	first.State, second.State = 4, 4
	require.Equal(t, []Ending{{Record: Record{Key: exampleKey}, Decided: []Batch{first, second}}}, got)
	_, kept := x.c.State(exampleKey)
	require.False(t, kept)
	require.Equal(t, map[Key][]int64{otherKey: {7}}, x.c.Waiting())

	endings, no := x.end(Marker{ProducerID: 7, ProducerEpoch: 3, Commit: true, Version: 2})
	require.Nil(t, no)
	require.Len(t, endings, 1)
	require.Equal(t, otherKey, endings[0].Record.Key)
	r, no := x.c.Initialize(3, exampleKey, 1, 0)
	require.Nil(t, no)
	x.apply(r)
	require.Equal(t, refuseLateStage, x.write(exampleKey, staged(0, 0, 7, 2, 2)))
}
