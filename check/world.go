package check

import (
	"errors"
	"math/bits"
	"slices"
	"time"

	"kshare/kip1289"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
	"kshare/txn"
)

// world is a state of the model: the machines, what is on its way between them, what clients know, and what properties have to remember. It is a value:
// copying it and own* make another one that goes its own way.
type world struct {
	*system

	part    *sharepartition.Partition // nil where the leader does not know the share partition
	shares  *sharecoordinator.Coordinator
	txns    *txn.Coordinator
	owned   machines                // which of them are this world's alone
	kept    *sharecoordinator.State // what shares keeps, where it is known not to change; see persisted
	now     time.Time               // it passes as locks are taken and as they end
	faults  int                     // in this trace
	leader  int8                    // the node that leads the records, 0 or 1
	unused  bool                    // as in broker.sharePartition
	epoch   int32                   // of the leader
	term    uint32                  // of the leader's knowledge: a write of another one's is answered to nobody
	start   int64                   // of the log
	writes  []stateWrite
	markers []marker

	members   [maxMembers]member
	producers [maxProducers]producer
	records   [maxRecords]record

	broken *Broken
}

type machines uint8

const (
	partMachine machines = 1 << iota
	sharesMachine
	txnsMachine
)

// system is what all states of a model have in common.
type system struct {
	model   Model
	limits  sharepartition.Limits
	draft   draft
	key     sharecoordinator.Key
	ids     map[int64]int8 // producers by their ids
	names   [maxMembers]string
	txnIDs  [maxProducers]string
	indices map[string]int8 // transactional ids
}

// draft is what the shell does as the draft of KIP-1289 does.
type draft struct {
	passBelowStart, loseLock, gap, release, noMemberCheck, ignoreLimit, reload bool
}

// member is a member of the group, with its client. A client asks one thing at a time.
type member struct {
	in       bool    // the group has it
	sessions [2]bool // its share sessions, by node
	made     [2]bool // a share session was made over its connection
	had      uint8   // the records that were taken from it since it fetched last, where clients may be late
}

// producer is a transactional producer, with its client: it commits only where all that it has staged was taken.
type producer struct {
	id      int64
	epoch   int16 // that its client knows
	alive   bool  // its client has an epoch
	spoiled bool  // something in the transaction has failed: it can only be aborted
	staged  uint8 // the records that were staged in the transaction
	serial  int32 // of the transaction
	// coordinator is the epoch of its transaction coordinator.
	coordinator int32
}

// record is what properties remember of a record.
type record struct {
	settled uint8     // how often its acknowledgement has taken effect, 2 for more
	plain   bool      // it may have been accepted outside of transactions without an answer
	holder  int8      // the member whose lock it has, noMember without
	until   time.Time // the end of that
	// by is the transaction in which it is staged in what is persisted.
	by transaction
}

// transaction names a transaction of a producer.
type transaction struct {
	producer int8 // noProducer for none
	serial   int32
}

const (
	noMember   int8 = -1
	noProducer int8 = -1
)

const (
	lockDuration = 30 * time.Second
	tick         = time.Second // passes before a lock is taken, or less
)

// maxDepth bounds traces.
const maxDepth = 250

// newWorld is where every trace begins: all members are in the group and have share sessions, all producers have an epoch, and there was nothing to read yet.
func newWorld(m *Model) (*world, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	sys := &system{
		model:  *m,
		limits: sharepartition.Limits{DeliveryCount: m.Limit, RecordLocks: 2000, LockDuration: lockDuration, Renew: true},
		draft: draft{
			passBelowStart: m.Switches.Is(kip1289.StageBelowStart, "pass"), loseLock: m.Switches.Is(kip1289.StageRevertRearms, "off"),
			gap: m.Switches.Is(kip1289.AllowGap, "true"), release: m.Switches.Is(kip1289.AllowRelease, "true"),
			noMemberCheck: m.Switches.Is(kip1289.MemberValidation, "off"), ignoreLimit: m.Switches.Is(kip1289.DeliveryLimitOnAbort, "ignore"),
			reload: m.Switches.Is(kip1289.LeaderRefresh, "reload"),
		},
		key:     sharecoordinator.Key{Group: "workers", Topic: [16]byte{1}},
		ids:     map[int64]int8{},
		indices: map[string]int8{},
	}
	w := &world{system: sys, owned: partMachine | sharesMachine | txnsMachine, now: time.Unix(1_000_000_000, 0), epoch: 0}
	w.shares = sys.newShares()
	r, no := w.shares.Initialize(0, sys.key, 2, -1)
	if no != nil {
		return nil, errors.New(no.Message)
	}
	w.shares.Apply(&r, 0)
	w.txns = txn.New(sys.txnConfig(), w.now)
	for i := range m.Members {
		sys.names[i] = memberName(int8(i))
		w.members[i] = member{in: true, sessions: [2]bool{true}, made: [2]bool{true}}
	}
	w.know()
	for i := range w.records {
		w.records[i].holder, w.records[i].by.producer = noMember, noProducer
	}
	for i := range m.Producers {
		id := txnName(int8(i))
		sys.txnIDs[i], sys.indices[id] = id, int8(i)
		d := w.txns.InitProducerID(w.now, id, txn.Init{TimeoutMs: 1})
		if d.Transition == nil {
			return nil, errors.New("a new transactional id has no producer")
		}
		w.txns.Stored(w.now, d.Transition)
		w.producers[i] = producer{id: d.Producer.ID, epoch: d.Producer.Epoch, alive: true}
		sys.ids[d.Producer.ID] = int8(i)
	}
	w.owned = 0
	return w, nil
}

func (s *system) newShares() *sharecoordinator.Coordinator {
	is := s.model.Switches.Is
	return sharecoordinator.New(sharecoordinator.Config{
		UpdatesPerSnapshot: 500,
		Exists:             func([16]byte, int32) bool { return true },
		Draft: sharecoordinator.Draft{
			NoLateStageFence: is(kip1289.LateStageFence, "off"), ExactEpochs: is(kip1289.EpochMatch, "exact"),
			NoCoordinatorEpochs: is(kip1289.CoordinatorEpochCheck, "off"), HigherStateWins: is(kip1289.PersistedMerge, "higher-state"),
		},
	})
}

// txnConfig is that of a coordinator whose transactional ids are each kept by a partition of its own.
func (s *system) txnConfig() txn.Config {
	next := int64(1000)
	return txn.Config{
		MaxTimeoutMs: 1 << 30, IDExpiration: 1 << 40,
		Level:         func() int16 { return 2 },
		NewProducerID: func() (int64, error) { next++; return next, nil }, // only as a world begins: epochs do not run out
		PartitionFor:  func(id string) int32 { return int32(s.indices[id]) },
		StorageError:  func(error) int16 { return errorcode.UnknownServerError },
	}
}

func memberName(i int8) string { return "m" + string(rune('1'+i)) }
func txnName(i int8) string    { return "t" + string(rune('1'+i)) }

// child is a copy that may be changed.
func (w *world) child() *world {
	c := *w
	c.owned, c.broken = 0, nil
	c.writes, c.markers = slices.Clip(w.writes), slices.Clip(w.markers)
	return &c
}

// ownPart, ownShares and ownTxns are the machines to be changed, copied from the state before where they were not yet.
func (w *world) ownPart() *sharepartition.Partition {
	if w.owned&partMachine == 0 && w.part != nil {
		w.part = w.part.Clone()
	}
	w.owned |= partMachine
	return w.part
}

func (w *world) ownShares() *sharecoordinator.Coordinator {
	if w.owned&sharesMachine == 0 {
		w.shares = w.shares.Clone()
	}
	w.kept = nil
	w.owned |= sharesMachine
	return w.shares
}

func (w *world) ownTxns() *txn.Coordinator {
	if w.owned&txnsMachine == 0 {
		w.txns = w.txns.Clone()
	}
	w.owned |= txnsMachine
	return w.txns
}

// persisted is what the share coordinator keeps. It is not to be changed.
func (w *world) persisted() *sharecoordinator.State {
	if w.kept != nil {
		return w.kept
	}
	for _, s := range w.shares.States() {
		return s
	}
	return nil
}

func (w *world) entry(p int8) txn.Transaction {
	t, _ := w.txns.Lookup(w.txnIDs[p])
	return t
}

// busy tells whether a member waits for an answer.
func (w *world) busy(m int8) bool {
	return slices.ContainsFunc(w.writes, func(x stateWrite) bool { return x.asked && x.member == m })
}

// staging tells whether a transaction waits for what it has staged.
func (w *world) staging(t transaction) bool {
	return slices.ContainsFunc(w.writes, func(x stateWrite) bool { return x.asked && x.stage == t })
}

// idle tells whether a transactional id has no transaction that is not complete.
func idle(t *txn.Transaction) bool { return !t.Open() }

// letGo takes records from their holder, as far as properties are concerned.
func (w *world) letGo(which func(r *record) bool) {
	late := w.model.has(Late)
	for i := range w.records {
		if r := &w.records[i]; r.holder != noMember && which(r) {
			if late {
				w.members[r.holder].had |= 1 << i
			}
			r.holder, r.until = noMember, time.Time{}
		}
	}
}

func offsetsOf(mask uint8) (offsets []int64) {
	for ; mask != 0; mask &= mask - 1 {
		offsets = append(offsets, int64(bits.TrailingZeros8(mask)))
	}
	return offsets
}
