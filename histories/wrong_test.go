package histories

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/broker"
	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// example is a history in which nothing is wrong: a commits 1 and 2, which are in two partitions, and aborts 3; b takes the id over, which aborts 4.
func example() *history {
	h := &history{partitions: 2, txns: []transaction{
		{"id", producer{1, 0}, false, time.Minute}, {"id", producer{1, 1}, false, time.Minute}, {"id", producer{1, 2}, false, time.Minute}, {"id", producer{1, 4}, false, time.Minute},
	}}
	moment := int64(0)
	add := func(o operation) {
		moment += 10
		o.call, o.ret, o.id = moment, moment+5, "id"
		h.operations = append(h.operations, &o)
	}
	a, b := "a", "b"
	add(operation{kind: initialised, client: a, by: producer{1, 0}})
	add(operation{kind: appended, client: a, txn: 0, by: producer{1, 0}, partition: 0, record: record{0, 1}})
	add(operation{kind: appended, client: a, txn: 0, by: producer{1, 0}, partition: 1, record: record{0, 2}})
	add(operation{kind: read, client: "r", partition: 0, committed: true, high: 1, stable: 0})
	add(operation{kind: ended, client: a, txn: 0, by: producer{1, 1}, commit: true})
	add(operation{kind: appended, client: a, txn: 1, by: producer{1, 1}, partition: 0, record: record{2, 3}})
	add(operation{kind: read, client: "r", partition: 0, high: 3, stable: 2, seen: []record{{0, 1}, {2, 3}}})
	add(operation{kind: read, client: "r", partition: 0, committed: true, high: 3, stable: 2, seen: []record{{0, 1}}})
	add(operation{kind: ended, client: a, txn: 1, by: producer{1, 2}, commit: false})
	add(operation{kind: appended, client: a, txn: 2, by: producer{1, 2}, partition: 0, record: record{4, 4}})
	add(operation{kind: initialised, client: b, by: producer{1, 4}})
	add(operation{kind: appended, client: b, txn: 3, by: producer{1, 4}, partition: 0, record: record{6, 5}})
	add(operation{kind: ended, client: b, txn: 3, by: producer{1, 5}, commit: true})
	add(operation{kind: read, client: "last", partition: 0, committed: true, final: true, high: 8, stable: 8, seen: []record{{0, 1}, {6, 5}}})
	add(operation{kind: read, client: "last", partition: 0, final: true, high: 8, stable: 8, seen: []record{{0, 1}, {2, 3}, {4, 4}, {6, 5}}})
	add(operation{kind: read, client: "last", partition: 1, committed: true, final: true, high: 2, stable: 2, seen: []record{{0, 2}}})
	add(operation{kind: read, client: "last", partition: 1, final: true, high: 2, stable: 2, seen: []record{{0, 2}}})
	at := func(call int64, o operation) {
		o.call, o.ret, o.id = call, call+1, "id"
		h.operations = append(h.operations, &o)
	}
	at(36, operation{kind: pended, client: a, txn: 0, by: producer{1, 0}, record: record{-1, 70}})
	at(58, operation{kind: fetched, client: "r", record: record{-1, 70}})
	at(66, operation{kind: pended, client: a, txn: 1, by: producer{1, 1}, record: record{-1, 71}})
	at(96, operation{kind: fetched, client: "r", record: record{-1, 70}})
	at(126, operation{kind: pended, client: b, txn: 3, by: producer{1, 4}, record: record{-1, 72}})
	at(180, operation{kind: fetched, client: "last", final: true, record: record{-1, 72}})
	return h
}

// Each property is looked after: the example holds them all, and what is altered in it breaks one.
func TestBrokenHistories(t *testing.T) {
	v := check(example())
	require.Nil(t, v, "%+v", v)
	const (
		initA, one, two, firstRead, commit, three, readAll, readCommitted, abort, four, initB, five, commitB, allCommitted, all, secondCommitted, second = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
		pend, fetch, pendAborted, fetchAgain, pendB, fetchLast                                                                                           = 17, 18, 19, 20, 21, 22
	)
	for name, test := range map[string]struct {
		property string // "" for none
		alter    func(h *history, o []*operation)
	}{
		"an aborted record is seen":                      {noAborted, func(_ *history, o []*operation) { o[allCommitted].seen = []record{{0, 1}, {2, 3}, {6, 5}} }},
		"a record of an open transaction is seen":        {noAborted, func(_ *history, o []*operation) { o[firstRead].seen = []record{{0, 1}} }},
		"a committed record is not seen":                 {noLost, func(_ *history, o []*operation) { o[allCommitted].seen = []record{{0, 1}} }},
		"a committed record is not seen on the way":      {noLost, func(_ *history, o []*operation) { o[readCommitted].seen = nil }},
		"an answered record is not there":                {noLost, func(_ *history, o []*operation) { o[all].seen = []record{{0, 1}, {2, 3}, {6, 5}} }},
		"an answered record is not there on the way":     {noLost, func(_ *history, o []*operation) { o[readAll].seen = []record{{0, 1}} }},
		"a fenced producer writes":                       {noZombie, func(_ *history, o []*operation) { o[four].call, o[four].ret = o[initB].ret+1, o[initB].ret+2 }},
		"a fenced producer writes, and gets no answer":   {noZombie, func(_ *history, o []*operation) { o[four].call, o[four].ret = o[initB].ret+1, never }},
		"a transaction is half committed":                {allOrNone, func(_ *history, o []*operation) { o[secondCommitted].seen = nil }},
		"a transaction is half committed, and no answer": {allOrNone, func(_ *history, o []*operation) { o[commit].ret, o[secondCommitted].seen = never, nil }},
		"committed, and answered to be aborted": {noAborted, func(_ *history, o []*operation) {
			o[allCommitted].seen = []record{{0, 1}, {2, 3}, {6, 5}}
			o[readCommitted].seen = nil
		}},
		"answered both ways": {asAnswered, func(h *history, o []*operation) {
			x := *o[commit]
			x.commit = false
			h.operations = append(h.operations, &x)
		}},
		"a record is there twice":      {noInvented, func(_ *history, o []*operation) { o[all].seen = append(o[all].seen, record{7, 5}) }},
		"a record that nobody wrote":   {noInvented, func(_ *history, o []*operation) { o[readAll].seen = append(o[readAll].seen, record{1, 99}) }},
		"the high watermark goes back": {noGoingBack, func(_ *history, o []*operation) { o[all].high = 6 }},
		"the last stable one goes back": {noGoingBack, func(_ *history, o []*operation) {
			o[readCommitted].stable, o[firstRead].stable = 0, 1
			o[firstRead].call, o[firstRead].ret = o[commit].ret+1, o[commit].ret+2
			o[firstRead].seen = []record{{0, 1}}
			o[readCommitted].seen = nil
		}},
		"an aborted offset is fetched":         {noAborted, func(_ *history, o []*operation) { o[fetchAgain].value = 71 }},
		"an offset is fetched before its time": {noOvertaken, func(_ *history, o []*operation) { o[fetch].call, o[fetch].ret, o[fetch].value = 38, 39, -1 }},
		"a committed offset is lost":           {noLost, func(_ *history, o []*operation) { o[fetchLast].value = 70 }},
		"an offset that nobody committed":      {noAborted, func(_ *history, o []*operation) { o[fetchLast].value = 99 }},
		"a fenced producer commits an offset": {noZombie, func(_ *history, o []*operation) {
			o[pendB].txn, o[pendB].by, o[fetchLast].value = 2, producer{1, 2}, 70
		}},
		"offsets are committed, and records are not": {allOrNone, func(_ *history, o []*operation) {
			o[commitB].ret, o[allCommitted].seen = never, []record{{0, 1}}
		}},
		"a commit of an offset without an answer": {"", func(_ *history, o []*operation) { o[pendB].ret = never }},
		"an open transaction is passed":           {noOvertaken, func(_ *history, o []*operation) { o[firstRead].stable = 1 }},
		"an id cannot go on":                      {noStuck, func(h *history, _ []*operation) { h.stuck = []string{"id"} }},
		"a transaction stays open":                {noStuck, func(_ *history, o []*operation) { o[allCommitted].stable = 6 }},
		"an abort that nobody asked for": {noReason, func(h *history, o []*operation) {
			h.txns[3].id, o[initB].id, o[commitB].id, o[pendB].id, o[fetchLast].value = "other", "other", "other", "other", 70
		}},
		"a commit that nobody asked for": {noReason, func(_ *history, o []*operation) { o[commitB].commit, o[commitB].ret = false, never }},
		"an epoch is given twice":        {oneOwner, func(h *history, o []*operation) { o[initB].by, h.txns[3].by = producer{1, 2}, producer{1, 2} }},
		"an abort by the timeout":        {"", func(_ *history, o []*operation) { timedOut(o) }},
		"a record without an answer":     {"", func(_ *history, o []*operation) { o[one].ret, o[one].offset = never, -1 }},
		"a record that came to nothing": {"", func(h *history, o []*operation) {
			h.operations = append(h.operations, &operation{kind: appended, txn: 2, by: producer{1, 2}, record: record{-1, 9}, call: 120, ret: never})
		}},
		"a commit without an answer": {"", func(_ *history, o []*operation) { o[commitB].ret = never }},
		"a read sees what comes about": {"", func(_ *history, o []*operation) {
			o[commit].call = o[firstRead].call - 1
			o[firstRead].stable, o[firstRead].high, o[firstRead].seen = 2, 2, []record{{0, 1}}
		}},
		"a record by the first of two": {"", func(_ *history, o []*operation) { o[four].ret = o[initB].ret + 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			h := example()
			test.alter(h, slices.Clone(h.operations))
			v := check(h)
			if test.property == "" {
				require.Nil(t, v, "%+v", v)
				return
			}
			require.NotNil(t, v, "nothing is found")
			require.Equal(t, test.property, v.property, v.what)
		})
	}
}

// timedOut has the third transaction end by its timeout, before b takes over.
func timedOut(o []*operation) {
	for _, x := range o[10:] {
		x.at, x.until = time.Hour, time.Hour
	}
}

// A server that does something wrong is found out: each of them stands between the clients and kshare, and breaks a property within some runs.
func TestWrongServers(t *testing.T) {
	for name, test := range map[string]struct {
		properties []string
		spoil      spoil
	}{
		"fetch answers do not name aborted transactions": {[]string{noAborted}, spoil{answer: func(_ *simulation, _ kmsg.Request, a kmsg.Response) {
			if f, ok := a.(*kmsg.FetchResponse); ok && len(f.Topics) > 0 {
				f.Topics[0].Partitions[0].AbortedTransactions = nil
			}
		}}},
		"fetch goes to the high watermark": {[]string{noAborted, noOvertaken}, spoil{
			request: func(_ *simulation, _ string, q kmsg.Request) {
				if f, ok := q.(*kmsg.FetchRequest); ok {
					f.IsolationLevel = 0
				}
			},
			answer: func(_ *simulation, _ kmsg.Request, a kmsg.Response) {
				if f, ok := a.(*kmsg.FetchResponse); ok && len(f.Topics) > 0 {
					f.Topics[0].Partitions[0].LastStableOffset = f.Topics[0].Partitions[0].HighWatermark
				}
			}}},
		"commits are aborts": {[]string{noLost}, spoil{request: func(_ *simulation, _ string, q kmsg.Request) {
			if e, ok := q.(*kmsg.EndTxnRequest); ok {
				e.Commit = false
			}
		}}},
		"aborts are commits": {[]string{noAborted}, spoil{request: func(_ *simulation, _ string, q kmsg.Request) {
			if e, ok := q.(*kmsg.EndTxnRequest); ok {
				e.Commit = true
			}
		}}},
		"records that are refused are answered": {[]string{noLost}, spoil{answer: func(_ *simulation, _ kmsg.Request, a kmsg.Response) {
			if p, ok := a.(*kmsg.ProduceResponse); ok {
				p.Topics[0].Partitions[0].ErrorCode = errorcode.None
			}
		}}},
		"offsets are committed at once": {[]string{noAborted, noOvertaken, allOrNone}, spoil{request: commitAtOnce}},
		"offsets are forgotten": {[]string{noLost}, spoil{answer: func(_ *simulation, _ kmsg.Request, a kmsg.Response) {
			if o, ok := a.(*kmsg.OffsetFetchResponse); ok && len(o.Groups[0].Topics) > 0 {
				o.Groups[0].Topics[0].Partitions[0].Offset = -1
			}
		}}},
		"fenced producers are let in":            {[]string{noZombie}, spoil{request: letIn}},
		"records are written twice":              {[]string{noInvented}, spoil{request: twice}},
		"a partition is aborted before a commit": {[]string{allOrNone, noLost}, spoil{request: abortOne}},
		"a coordinator gives up on markers":      {[]string{noStuck}, spoil{request: giveUpMarkers}},
		"a producer's epoch is given out again":  {[]string{oneOwner, noZombie}, spoil{answer: oldEpoch}},
		"consumers are sent back": {[]string{noGoingBack}, spoil{answer: func(s *simulation, q kmsg.Request, a kmsg.Response) {
			if f, ok := q.(*kmsg.FetchRequest); ok && f.IsolationLevel == 0 && len(a.(*kmsg.FetchResponse).Topics) > 0 && s.one(3) {
				a.(*kmsg.FetchResponse).Topics[0].Partitions[0].HighWatermark--
			}
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 20; seed++ {
				s, err := run(seed, test.spoil)
				require.NoError(t, err, "seed %d\n%s", seed, s.text())
				if v := check(&s.history); v != nil {
					require.Contains(t, test.properties, v.property, "seed %d: %s", seed, v.what)
					return
				}
			}
			t.Error("no run shows it")
		})
	}
}

func (s *simulation) instance(name string) *instance {
	i := slices.IndexFunc(s.producers, func(p *instance) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return s.producers[i]
}

// letIn has a record of a fenced producer written for the one that owns the id now, in its transaction.
func letIn(s *simulation, name string, q kmsg.Request) {
	p, ok := q.(*kmsg.ProduceRequest)
	from := s.instance(name)
	if !ok || from == nil || from.old {
		return
	}
	for _, to := range s.producers {
		if to.id == from.id && to.has && to.txn >= 0 && to.by.newerThan(from.by) && to.request == nil {
			partition := int(p.Topics[0].Partitions[0].Partition)
			rewrite(p, to.by, to.sequences[partition])
			to.sequences[partition]++
		}
	}
}

// rewrite gives a batch another producer.
func rewrite(q *kmsg.ProduceRequest, by producer, sequence int32) {
	p := &q.Topics[0].Partitions[0]
	h, err := protocol.ParseBatchHeader(p.Records)
	if err != nil {
		panic(err)
	}
	h.ProducerID, h.ProducerEpoch, h.BaseSequence = by.id, by.epoch, sequence
	body := p.Records[protocol.BatchHeaderSize:]
	p.Records = append(h.AppendTo(nil), body...)
	h.CRC = protocol.BatchCRC(p.Records)
	p.Records = append(h.AppendTo(nil), body...)
}

// twice writes a record with the sequence that the next one would have, before it is written.
func twice(s *simulation, name string, q kmsg.Request) {
	p, ok := q.(*kmsg.ProduceRequest)
	from := s.instance(name)
	if !ok || from == nil || from.old || !s.one(4) {
		return
	}
	partition := p.Topics[0].Partitions[0].Partition
	if a, ok := s.besides(s.machine.leader(topicName, partition), p).(*kmsg.ProduceResponse); ok && a.Topics[0].Partitions[0].ErrorCode == errorcode.None {
		from.sequences[int(partition)]++
		rewrite(p, from.by, from.sequences[int(partition)])
	}
}

// commitAtOnce commits an offset that is to be committed with a transaction.
func commitAtOnce(s *simulation, _ string, q kmsg.Request) {
	o, ok := q.(*kmsg.TxnOffsetCommitRequest)
	if !ok {
		return
	}
	c := kmsg.NewPtrOffsetCommitRequest()
	c.SetVersion(8)
	x := kmsg.NewOffsetCommitRequestTopicPartition()
	x.Offset = o.Topics[0].Partitions[0].Offset
	c.Group, c.Topics = o.Group, []kmsg.OffsetCommitRequestTopic{{Topic: topicName, Partitions: []kmsg.OffsetCommitRequestTopicPartition{x}}}
	s.besides(s.machine.groupCoordinator(o.Group), c)
}

// besides sends a request that is no client's, and returns the answer, nil where there is none at once.
func (s *simulation) besides(node int32, q kmsg.Request) kmsg.Response {
	spoiled := s.spoil
	s.spoil = spoil{}
	defer func() { s.spoil = spoiled }()
	other := newClient(s, "other")
	if node == 0 || !other.send(node, q) {
		return nil
	}
	a, _, err := other.received()
	if err != nil {
		panic(err)
	}
	return a
}

// abortOne writes an abort marker to one partition when a transaction is to be committed.
func abortOne(s *simulation, name string, q kmsg.Request) {
	e, ok := q.(*kmsg.EndTxnRequest)
	if !ok || !e.Commit {
		return
	}
	w := kmsg.NewPtrWriteTxnMarkersRequest()
	w.SetVersion(1)
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch = e.ProducerID, e.ProducerEpoch, 0
	m.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topicName, Partitions: []int32{0}}}
	w.Markers = append(w.Markers, m)
	s.besides(s.machine.leader(topicName, 0), w)
}

// giveUpMarkers has a partition answer a marker so that the coordinator does not send it again.
func giveUpMarkers(s *simulation, _ string, q kmsg.Request) {
	if q.Key() == kmsg.NewPtrEndTxnRequest().Key() {
		_, err := s.machine.FaultMarkers(broker.MarkerWrites{Count: 1, ErrorCode: errorcode.InvalidProducerEpoch})
		if err != nil {
			panic(err)
		}
	}
}

// oldEpoch answers an initialisation with the epoch before.
func oldEpoch(s *simulation, _ kmsg.Request, a kmsg.Response) {
	if i, ok := a.(*kmsg.InitProducerIDResponse); ok && i.ErrorCode == errorcode.None && i.ProducerEpoch > 0 && s.one(3) {
		i.ProducerEpoch--
	}
}
