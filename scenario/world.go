package scenario

import (
	"cmp"
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"time"

	"kshare"
)

// world is what a scenario knows of its cluster: topics, members, producers and the connections it has.
type world struct {
	ctx         context.Context // the run ends with it
	target      Target
	prefix      string // of the names of topics, groups and the like on the wire
	ready       bool   // set up
	names       *names
	user        string           // who sends requests, "" for ANONYMOUS
	nodes       map[int32]string // addresses by id
	cut         map[int32]bool   // nodes that the script has cut off
	offered     map[int16][2]int16
	conns       map[connKey]*link
	topics      map[string][16]byte   // latest ids by name
	made        map[string][][16]byte // all ids by name on the wire, in the order of their appearance
	byID        map[[16]byte]string
	strange     map[[16]byte]bool // ids that no topic has
	members     map[memberKey]*member
	produced    int // bytes of keys and values, of which there may be maxProduced
	maxProduced int
	producers   map[string]*producer
	// transactions tells whether the transaction coordinators were made.
	transactions bool
	strands      []*strand // in the background, in the order of their start
	started      time.Time // the time at which the scenario began
	writeFaults  map[string]*kshare.WriteFault
	wake         time.Time // when a waiting command is to be looked at again, zero for none
}

type connKey struct {
	client string
	node   int32
	user   string // "" for ANONYMOUS
}

func newWorld(t Target, prefix string) *world {
	return &world{ctx: context.Background(), target: t, started: t.now(), prefix: prefix, names: newNames(prefix), cut: map[int32]bool{}, conns: map[connKey]*link{}, topics: map[string][16]byte{}, made: map[string][][16]byte{},
		byID: map[[16]byte]string{}, strange: map[[16]byte]bool{}, members: map[memberKey]*member{}, maxProduced: maxProducedInAll, producers: map[string]*producer{}}
}

// fingerprint makes ids out of names.
func fingerprint(s string) [32]byte { return sha256.Sum256([]byte(s)) }

// deadLetterPrefix is what names of dead-letter queues begin with on a broker that is not told otherwise.
const deadLetterPrefix = "dlq."

// wire is a script's name as brokers know it.
func (w *world) wire(name string) string {
	if name == "" || strings.HasPrefix(name, "__") {
		return name
	}
	if rest, ok := strings.CutPrefix(name, deadLetterPrefix); ok {
		return deadLetterPrefix + w.prefix + rest
	}
	return w.prefix + name
}

// Kinds of coordinators (FindCoordinatorRequest.CoordinatorType).
const (
	groupCoordinator       = 0
	transactionCoordinator = 1
	shareCoordinator       = 2
)

// admin is the client that does what is no member's business.
const admin = "admin"

// end closes what is open and stops what runs.
func (w *world) end() error {
	for _, st := range w.strands {
		st.stop()
	}
	for _, k := range w.connKeys() {
		w.dropLink(k)
	}
	return w.target.close()
}

// connKeys are the keys of the connections in their order.
func (w *world) connKeys() []connKey {
	return slices.SortedFunc(maps.Keys(w.conns), func(a, b connKey) int {
		return cmp.Or(strings.Compare(a.client, b.client), cmp.Compare(a.node, b.node), strings.Compare(a.user, b.user))
	})
}
