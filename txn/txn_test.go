package txn

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/protocol/errorcode"
)

var begin = time.UnixMilli(1_800_000_000_000)

// coordination is a coordinator whose transitions are stored at once.
type coordination struct {
	t       require.TestingT
	c       *Coordinator
	now     time.Time
	level   int16
	nextID  int64
	records [][2][]byte
	markers []*Markers // written, and not yet completed
}

func newCoordination(t require.TestingT, change func(*Config)) *coordination {
	x := &coordination{t: t, now: begin, level: 2, nextID: 1000}
	x.c = x.fresh(change)
	return x
}

func (x *coordination) fresh(change func(*Config)) *Coordinator {
	config := Config{
		MaxTimeoutMs: 900_000, AbortPeriod: 10 * time.Second, IDExpiration: 7 * 24 * time.Hour, ExpirePeriod: time.Hour,
		Level:         func() int16 { return x.level },
		NewProducerID: func() (int64, error) { x.nextID++; return x.nextID - 1, nil },
		StorageError:  func(error) int16 { return errorcode.KafkaStorageError },
		PartitionFor:  func(string) int32 { return 0 },
	}
	if change != nil {
		change(&config)
	}
	return New(config, begin)
}

// store stores what a decision wants stored, and the markers with it.
func (x *coordination) store(d Decision) Decision {
	if d.Transition != nil {
		x.storeTransition(d.Transition)
	}
	return d
}

func (x *coordination) storeTransition(t *Transition) {
	key, value := t.Record(x.level)
	x.records = append(x.records, [2][]byte{key, value})
	if m := x.c.Stored(x.now, t); m != nil {
		x.markers = append(x.markers, m)
	}
}

// complete writes all markers.
func (x *coordination) complete() {
	for _, m := range x.markers {
		if t := x.c.Complete(x.now, m); t != nil {
			x.storeTransition(t)
		}
	}
	x.markers = nil
}

func (x *coordination) init(id string) Decision {
	return x.store(x.c.InitProducerID(x.now, id, Init{TimeoutMs: 60_000}))
}

func (x *coordination) add(id string, by Producer, flow Flow) Decision {
	return x.store(x.c.AddPartitions(x.now, id, by, []TopicPartition{{"orders", 0}}, flow))
}

func (x *coordination) end(id string, by Producer, commit bool, flow Flow) Decision {
	return x.store(x.c.End(x.now, id, by, commit, flow))
}

func (x *coordination) expire() {
	for _, t := range x.c.Expire(x.now) {
		x.storeTransition(t)
	}
}

func (x *coordination) state(id string) State {
	t, ok := x.c.Lookup(id)
	require.True(x.t, ok)
	return t.State
}

func TestOwnersComeOneAfterTheOther(t *testing.T) {
	x := newCoordination(t, nil)
	first := x.init("a")
	assert.Equal(t, Producer{1000, 0}, first.Producer)
	second := x.init("a")
	assert.Equal(t, Producer{1000, 1}, second.Producer)
	for _, d := range []Decision{
		x.add("a", first.Producer, Flow0), x.end("a", first.Producer, true, Flow0), x.end("a", first.Producer, true, Flow2),
		x.store(x.c.InitProducerID(x.now, "a", Init{TimeoutMs: 1, Expected: &first.Producer})),
	} {
		assert.Equal(t, errorcode.ProducerFenced, d.Code)
	}
	assert.Equal(t, errorcode.InvalidProducerIDMapping, x.add("b", second.Producer, Flow0).Code)
	assert.Equal(t, errorcode.InvalidProducerIDMapping, x.add("a", Producer{7, 1}, Flow0).Code)
}

// Every cell of EndTxn's table: the state, what is asked by whom, and the answer.
func TestEnd(t *testing.T) {
	const ok = errorcode.None
	states := []struct {
		name  string
		reach func(x *coordination, by Producer) Producer // the producer that the client goes on as
		codes [6]int16                                    // Flow2 commit, abort; again with the epoch before: commit, abort; Flow0 commit, abort
	}{
		{"Empty", func(_ *coordination, by Producer) Producer { return by },
			[6]int16{errorcode.InvalidTxnState, ok, errorcode.ProducerFenced, errorcode.ProducerFenced, errorcode.InvalidTxnState, errorcode.InvalidTxnState}},
		{"Ongoing", func(x *coordination, by Producer) Producer { x.add("a", by, Flow2); return by },
			[6]int16{ok, ok, errorcode.ProducerFenced, errorcode.ProducerFenced, ok, ok}},
		{"PrepareCommit", func(x *coordination, by Producer) Producer {
			x.add("a", by, Flow2)
			return x.end("a", by, true, Flow2).Producer
		},
			[6]int16{51, 51, 51, 51, 51, 51}},
		{"PrepareAbort", func(x *coordination, by Producer) Producer {
			x.add("a", by, Flow2)
			return x.end("a", by, false, Flow2).Producer
		},
			[6]int16{51, 51, 51, 51, 51, 51}},
		{"CompleteCommit", func(x *coordination, by Producer) Producer {
			x.add("a", by, Flow2)
			defer x.complete()
			return x.end("a", by, true, Flow2).Producer
		}, [6]int16{errorcode.InvalidTxnState, ok, ok, errorcode.InvalidTxnState, ok, errorcode.InvalidTxnState}},
		{"CompleteAbort", func(x *coordination, by Producer) Producer {
			x.add("a", by, Flow2)
			defer x.complete()
			return x.end("a", by, false, Flow2).Producer
		}, [6]int16{errorcode.InvalidTxnState, ok, errorcode.InvalidTxnState, ok, errorcode.InvalidTxnState, ok}},
	}
	for _, s := range states {
		for i, want := range s.codes {
			flow, commit, again := Flow2, i%2 == 0, i == 2 || i == 3
			if i > 3 {
				flow = Flow0
			}
			t.Run(fmt.Sprintf("%s/%d", s.name, i), func(t *testing.T) {
				x := newCoordination(t, nil)
				by := s.reach(x, x.init("a").Producer)
				require.Equal(t, s.name, x.state("a").String())
				if again {
					by.Epoch--
				}
				d := x.end("a", by, commit, flow)
				assert.Equal(t, want, d.Code)
				switch {
				case want != ok:
					assert.Equal(t, NoProducer, d.Producer)
				case again || flow == Flow0:
					assert.Equal(t, by.ID, d.Producer.ID)
				default:
					assert.Equal(t, Producer{by.ID, by.Epoch + 1}, d.Producer)
				}
			})
		}
	}
}

// Who takes a transactional id over in the middle of a transaction is told to come again, and has the epoch e+2 then, in both flows. The abort is of Flow2 at
// level 2 alone, whatever the flow of the former owner.
func TestTakeover(t *testing.T) {
	for level, flow := range map[int16]Flow{1: Flow0, 2: Flow2} {
		x := newCoordination(t, nil)
		x.level = level
		old := x.init("a").Producer
		x.add("a", old, Flow2-flow)
		assert.Equal(t, errorcode.ConcurrentTransactions, x.init("a").Code)
		assert.Equal(t, flow, x.markers[0].Flow)
		assert.Equal(t, PrepareAbort, x.state("a"))
		assert.Equal(t, Producer{old.ID, 1}, x.markers[0].Producer)
		assert.Equal(t, errorcode.ConcurrentTransactions, x.init("a").Code)
		x.complete()
		assert.Equal(t, Producer{old.ID, 2}, x.init("a").Producer)
	}
}

// A transaction that takes too long is aborted at the next check, and its owner fenced; with Flow2 its abort looks like one sent again.
func TestTimeout(t *testing.T) {
	x := newCoordination(t, nil)
	by := x.init("a").Producer
	x.now = begin.Add(3 * time.Second)
	x.add("a", by, Flow2)
	at, ok := x.c.NextDeadline()
	require.True(t, ok)
	assert.Equal(t, begin.Add(70*time.Second), at, "a check comes each 10 s, the timeout is over 63.001 s after the beginning")
	x.now = at.Add(-time.Millisecond)
	x.expire()
	assert.Equal(t, Ongoing, x.state("a"))
	x.now = at
	x.expire()
	x.complete()
	assert.Equal(t, CompleteAbort, x.state("a"))
	assert.Equal(t, errorcode.ProducerFenced, x.end("a", by, true, Flow0).Code)
	assert.Equal(t, errorcode.InvalidTxnState, x.end("a", by, true, Flow2).Code)
	d := x.end("a", by, false, Flow2)
	assert.Equal(t, errorcode.None, d.Code)
	assert.Equal(t, Producer{by.ID, 1}, d.Producer)
}

// Without a period checks come exactly when they are due.
func TestTimeoutExactly(t *testing.T) {
	x := newCoordination(t, func(c *Config) { c.AbortPeriod = 0 })
	x.add("a", x.init("a").Producer, Flow2)
	at, _ := x.c.NextDeadline()
	assert.Equal(t, begin.Add(60*time.Second+time.Millisecond), at)
}

func TestIDsExpire(t *testing.T) {
	x := newCoordination(t, nil)
	x.init("a")
	x.now = begin.Add(30 * time.Minute)
	open := x.init("open").Producer
	x.now = begin.Add(7*24*time.Hour - time.Second)
	x.add("open", open, Flow2)
	x.now = begin.Add(7 * 24 * time.Hour)
	x.expire()
	_, ok := x.c.Lookup("a")
	assert.False(t, ok)
	_, ok = x.c.Lookup("open")
	assert.True(t, ok)
	assert.Equal(t, Producer{1002, 0}, x.init("a").Producer, "who comes again is somebody else")
}

// The last epoch is followed by another producer id, and a client that missed the answer learns it.
func TestEpochsRunOut(t *testing.T) {
	x := newCoordination(t, nil)
	by := x.init("a").Producer
	for by.Epoch < math.MaxInt16-1 {
		by = x.init("a").Producer
	}
	x.add("a", by, Flow2)
	d := x.end("a", by, true, Flow2)
	assert.Equal(t, Producer{1001, 0}, d.Producer)
	assert.Equal(t, Producer{1000, math.MaxInt16}, x.markers[0].Producer, "the markers are of the old one")
	x.complete()
	assert.Equal(t, d.Producer, x.end("a", by, true, Flow2).Producer)
	assert.Equal(t, errorcode.None, x.add("a", d.Producer, Flow2).Code)

	for by = x.init("b").Producer; by.Epoch < math.MaxInt16-1; {
		by = x.init("b").Producer
	}
	assert.Equal(t, Producer{1003, 0}, x.init("b").Producer)
}

// A client that has missed the answer to an InitProducerId with its epoch has the same again.
func TestInitAgain(t *testing.T) {
	x := newCoordination(t, nil)
	by := x.init("a").Producer
	raise := func() Decision { return x.store(x.c.InitProducerID(x.now, "a", Init{TimeoutMs: 1, Expected: &by})) }
	assert.Equal(t, Producer{by.ID, 1}, raise().Producer)
	assert.Equal(t, Producer{by.ID, 1}, raise().Producer)
}

// While a change is on its way every other call has to come again; if it cannot be stored, all is as before.
func TestPending(t *testing.T) {
	x := newCoordination(t, nil)
	by := x.init("a").Producer
	d := x.c.AddPartitions(x.now, "a", by, []TopicPartition{{"orders", 0}}, Flow2)
	for _, other := range []Decision{x.init("a"), x.add("a", by, Flow2), x.end("a", by, true, Flow2), x.end("a", by, true, Flow0)} {
		assert.Equal(t, errorcode.ConcurrentTransactions, other.Code)
	}
	x.c.Unstored(x.now, d.Transition)
	assert.Equal(t, Empty, x.state("a"))
	assert.Equal(t, errorcode.None, x.add("a", by, Flow2).Code)

	d = x.c.InitProducerID(x.now, "new", Init{TimeoutMs: 1})
	x.c.Unstored(x.now, d.Transition)
	_, ok := x.c.Lookup("new")
	assert.False(t, ok, "an id that was never stored is not known")
}

// A fence that could not be stored does not raise the epoch twice.
func TestUnstoredFence(t *testing.T) {
	for _, level := range []int16{1, 2} {
		x := newCoordination(t, nil)
		x.level = level
		by := x.init("a").Producer
		x.add("a", by, Flow0)
		x.c.Unstored(x.now, x.c.InitProducerID(x.now, "a", Init{TimeoutMs: 1}).Transition)
		assert.Equal(t, Ongoing, x.state("a"))
		x.init("a")
		assert.Equal(t, Producer{by.ID, 1}, x.markers[0].Producer)
	}
}

func TestRefusals(t *testing.T) {
	x := newCoordination(t, nil)
	init := func(r Init) int16 { return x.c.InitProducerID(x.now, "a", r).Code }
	assert.Equal(t, errorcode.InvalidRequest, x.init("").Code)
	assert.Equal(t, errorcode.InvalidTransactionTimeout, init(Init{}))
	assert.Equal(t, errorcode.InvalidTransactionTimeout, init(Init{TimeoutMs: 900_001}))
	assert.Equal(t, errorcode.TransactionalIDAuthorizationFailed, init(Init{TwoPhaseCommit: true}))
	assert.Equal(t, errorcode.UnsupportedVersion, init(Init{TimeoutMs: 1, KeepPrepared: true}))
	assert.Equal(t, errorcode.InvalidRequest, x.add("", Producer{}, Flow0).Code)
	_, code := x.c.Verify("a", Producer{}, nil)
	assert.Equal(t, errorcode.InvalidProducerIDMapping, code)
	assert.Equal(t, errorcode.None, init(Init{TimeoutMs: 900_000}))

	full := newCoordination(t, func(c *Config) { c.NewProducerID = func() (int64, error) { return 0, errors.New("full") } })
	assert.Equal(t, errorcode.KafkaStorageError, full.init("a").Code)
	_, ok := full.c.Lookup("a")
	assert.False(t, ok)
}

func TestVerify(t *testing.T) {
	x := newCoordination(t, nil)
	by := x.init("a").Producer
	x.add("a", by, Flow0)
	codes, code := x.c.Verify("a", by, []TopicPartition{{"orders", 0}, {"orders", 1}})
	assert.Equal(t, errorcode.None, code)
	assert.Equal(t, []int16{errorcode.None, errorcode.TransactionAbortable}, codes)
	x.end("a", by, true, Flow0)
	_, code = x.c.Verify("a", by, nil)
	assert.Equal(t, errorcode.ConcurrentTransactions, code)
}

// At level 0 the log has no place for Flow2, and the id is lost for it.
func TestLevelZero(t *testing.T) {
	x := newCoordination(t, nil)
	x.level = 0
	by := x.init("a").Producer
	assert.Equal(t, errorcode.UnsupportedVersion, x.add("a", by, Flow2).Code)
	assert.Equal(t, errorcode.ConcurrentTransactions, x.add("a", by, Flow0).Code)
}

// What is decided and not complete as a coordinator begins is ended by it.
func TestLoaded(t *testing.T) {
	x := newCoordination(t, nil)
	by := x.init("a").Producer
	x.add("a", by, Flow2)
	x.end("a", by, true, Flow2)
	x.init("idle")
	next := x.fresh(nil)
	for _, r := range x.records {
		require.NoError(t, next.Replay(r[0], r[1]))
	}
	markers := next.Loaded(x.now, 0)
	require.Len(t, markers, 1)
	assert.Equal(t, &Markers{ID: "a", Producer: Producer{by.ID, 1}, Commit: true, Flow: Flow2, Partitions: []TopicPartition{{"orders", 0}}}, markers[0])
	x.c.Unload(0)
	assert.Empty(t, x.c.IDs())
	assert.Nil(t, x.c.Complete(x.now, x.markers[0]), "who was unloaded does not complete it")
}

func TestReplayRefuses(t *testing.T) {
	c := newCoordination(t, nil).c
	assert.ErrorContains(t, c.Replay([]byte{0, 9, 0, 1, 'a'}, nil), "version 9")
	assert.Error(t, c.Replay([]byte{0}, nil))
	assert.ErrorContains(t, c.Replay([]byte{0, 0, 0, 1, 'a'}, []byte{0}), `"a"`)
}
