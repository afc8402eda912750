// Package histories holds what clients of transactions were answered, while things went wrong, against what Kafka promises: porcupine looks for an order of
// all operations, each at one moment between its call and its return, in which every answer is right.
//
// A history is recorded by producers that share transactional ids or have their own, fenced ones among them that go on, and by readers of both isolation
// levels (simulation_test.go). It is a function of its seed: requests go over direct connections, and time is a virtual clock's.
//
//	go test ./histories -histories.seeds 1000     # more runs
//	go test ./histories -histories.seed 17 -histories.seeds 1 -v
package histories

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

type kind uint8

const (
	// appended: a record was written. Attempts to write the same one with the same sequence are one operation.
	appended kind = iota
	// ended: a producer asked for the end of its transaction, and asked again where the answer was lost.
	ended
	// initialised: a transactional id was initialised.
	initialised
	// read: a partition was read from its start.
	read
	// pended: an offset was committed in a transaction for the group of its transactional id.
	pended
	// fetched: the stable offset of a group was fetched.
	fetched
	// decided: the fate of a transaction became what it is. No client sees it; resolve adds it.
	decided
)

// never is the return of an operation whose outcome its client does not know: it may come about at any time, or not at all.
const never = math.MaxInt64

// producer is a producer id and its epoch.
type producer struct {
	id    int64
	epoch int16
}

func (p producer) String() string { return fmt.Sprintf("%d/%d", p.id, p.epoch) }

// newerThan tells whether a producer takes the place of another of its transactional id. Who gets another producer id is newer: ids are not given twice.
func (p producer) newerThan(q producer) bool { return p.id != q.id || p.epoch > q.epoch }

// record is a record as readers see it. Values differ.
type record struct {
	offset int64
	value  int
}

// transaction is one as its producer sees it.
type transaction struct {
	id      string
	by      producer
	old     bool // the producer's epoch stays the same when it has ended
	timeout time.Duration
}

// operation is what a client did. call and ret are moments of a clock that counts, not of one that shows the time.
type operation struct {
	kind      kind
	client    string
	call, ret int64
	at, until time.Duration // the times of both, since the history began

	txn    int    // appended, pended, ended, decided: the transaction
	id     string // pended, fetched, ended, initialised, decided: the transactional id, which its group is called after
	by     producer
	commit bool // ended, decided

	partition int // appended, read
	record        // appended: offset -1 where it is not known; pended and fetched have their offset as value, -1 for none

	committed    bool // read: records that are committed alone
	final        bool // read: when everything is over
	high, stable int64
	seen         []record
}

func (o *operation) String() string {
	until := fmt.Sprint(o.ret)
	if o.ret == never {
		until = "?"
	}
	what := ""
	switch o.kind {
	case appended:
		what = fmt.Sprintf("append %d to %d of transaction %d: offset %d", o.value, o.partition, o.txn, o.offset)
	case ended:
		what = fmt.Sprintf("end %s, transaction %d, commit=%t: %s", o.id, o.txn, o.commit, o.by)
	case initialised:
		what = fmt.Sprintf("init %s: %s", o.id, o.by)
	case read:
		what = fmt.Sprintf("read %d committed=%t final=%t: to %d, stable to %d: %v", o.partition, o.committed, o.final, o.high, o.stable, o.seen)
	case pended:
		what = fmt.Sprintf("commit %d for %s in transaction %d", o.value, o.id, o.txn)
	case fetched:
		what = fmt.Sprintf("fetch of %s, final=%t: %d", o.id, o.final, o.value)
	case decided:
		what = fmt.Sprintf("transaction %d of %s is decided, commit=%t", o.txn, o.id, o.commit)
	}
	return fmt.Sprintf("%5d-%-5s %9s %-8s %s", o.call, until, o.at, o.client, what)
}

// history is what clients did, and at the end the final reads of every partition.
type history struct {
	txns       []transaction
	partitions int
	operations []*operation
	stuck      []string // transactional ids of which no transaction could be ended, or no offset fetched, when everything was over
}

func (h *history) String() string {
	sorted := slices.SortedStableFunc(slices.Values(h.operations), func(a, b *operation) int { return cmp.Compare(a.call, b.call) })
	var b strings.Builder
	for i, t := range h.txns {
		fmt.Fprintf(&b, "transaction %d: %s by %s, old=%t, timeout %s\n", i, t.id, t.by, t.old, t.timeout)
	}
	for _, o := range sorted {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}

// clone is a copy that can be altered.
func (h *history) clone() *history {
	c := &history{txns: slices.Clone(h.txns), partitions: h.partitions, stuck: h.stuck}
	for _, o := range h.operations {
		x := *o
		x.seen = slices.Clone(o.seen)
		c.operations = append(c.operations, &x)
	}
	return c
}

// finals are the final reads of a partition.
func (h *history) finals(partition int) (all, committed *operation) {
	for _, o := range h.operations {
		if o.kind == read && o.final && o.partition == partition {
			if o.committed {
				committed = o
			} else {
				all = o
			}
		}
	}
	return all, committed
}
