package check

import (
	"kshare/protocol/errorcode"
	"kshare/sharepartition"
	"kshare/txn"
)

// kind is what is done in a step.
type kind uint8

const (
	fetches kind = iota
	acknowledges
	renews
	stagesRecord
	commits
	aborts
	lockEnds
	writeGoesOn
	writeFails
	markerArrives
	takesOver
	moves
	crashes
	coordinates
	disconnects
	endsSession
	leaves
	joins
	logStarts
)

// action is one step: who does what, with which record, and how what it has written goes.
type action struct {
	kind   kind
	member int8
	by     int8 // the producer, or the number of the write or marker on its way
	record int8 // for fetches the most records, for logStarts the offset
	ack    int8 // an acknowledge type
	how    way
}

// word packs an action, so that a trace of millions of states has room.
func (a action) word() uint32 {
	return uint32(a.kind) | uint32(a.member)<<5 | uint32(a.by)<<8 | uint32(a.record)<<12 | uint32(a.ack)<<16 | uint32(a.how)<<20
}

func actionOf(w uint32) action {
	return action{kind(w & 31), int8(w >> 5 & 7), int8(w >> 8 & 15), int8(w >> 12 & 15), int8(w >> 16 & 15), way(w >> 20 & 3)}
}

// counts tells whether a step is a fault for Model.MostFaults: something that goes wrong; with CountAll also what is to be expected of time (locks that end or
// are renewed, late clients). How a write ends that was late is none.
func (w *world) counts(a action) bool {
	if a.how != goes || a.kind >= takesOver && a.kind != joins {
		return true
	}
	late := a.kind == stagesRecord && w.members[a.member].had>>a.record&1 == 1
	return w.model.CountAll && (a.kind == lockEnds || a.kind == renews || late)
}

// faulty tells whether there may be another fault in the trace.
func (w *world) faulty() bool { return w.model.MostFaults == 0 || w.faults < w.model.MostFaults }

// timely tells whether locks may still end or be renewed, and clients be late.
func (w *world) timely() bool { return !w.model.CountAll || w.faulty() }

// actions appends what can be done next. What would be refused and change nothing is left out.
func (w *world) actions(dst []action, runs []sharepartition.Run) []action {
	m := &w.model
	ways, markerWays := []way{goes}, []way{goes}
	faulty := w.faulty()
	if faulty && m.has(Slow) && len(w.writes) < m.Writes {
		ways = allWays
	}
	if faulty && m.has(Markers) && len(w.markers) < m.Held {
		markerWays = allWays
	}
	add := func(a action, ways []way) {
		for _, how := range ways {
			a.how = how
			dst = append(dst, a)
		}
	}
	for i := range int8(m.Members) {
		if w.members[i].in && !w.busy(i) {
			dst = append(dst, action{kind: fetches, member: i, record: 1})
			if m.Records > 1 {
				dst = append(dst, action{kind: fetches, member: i, record: int8(m.Records)})
			}
		}
	}
	for i := range int8(m.Members) {
		w.memberActions(i, runs, faulty, ways, add)
	}
	for p := range int8(m.Producers) {
		x, e := &w.producers[p], w.entry(p)
		if x.alive && e.State == txn.Ongoing && e.Epoch == x.epoch {
			if !x.spoiled && !w.staging(transaction{p, x.serial}) {
				add(action{kind: commits, by: p}, markerWays)
			}
			add(action{kind: aborts, by: p}, markerWays)
		}
	}
	if m.has(Expire) && w.timely() && w.part != nil {
		if at, ok := w.part.NextDeadline(); ok && at.Sub(w.now) <= lockDuration {
			add(action{kind: lockEnds}, ways)
		}
	}
	for i := range int8(len(w.writes)) {
		dst = append(dst, action{kind: writeGoesOn, by: i}, action{kind: writeFails, by: i})
	}
	for i := range int8(len(w.markers)) {
		dst = append(dst, action{kind: markerArrives, by: i})
	}
	if m.has(Takeover) {
		for p := range int8(m.Producers) {
			if x := &w.producers[p]; faulty || !x.alive {
				add(action{kind: takesOver, by: p}, markerWays)
			}
		}
	}
	if !faulty {
		return dst
	}
	if m.has(Coordinator) {
		for p := range int8(m.Producers) {
			add(action{kind: coordinates, by: p}, markerWays)
		}
	}
	for _, x := range []struct {
		fault string
		kind  kind
	}{{Move, moves}, {Crash, crashes}} {
		if m.has(x.fault) {
			dst = append(dst, action{kind: x.kind})
		}
	}
	if next := w.start + 1; m.has(LogStart) && next < int64(m.Records) {
		dst = append(dst, action{kind: logStarts, record: int8(next)})
	}
	return dst
}

var allWays = []way{goes, held, answers}

// memberActions are those of one member.
func (w *world) memberActions(i int8, runs []sharepartition.Run, faulty bool, ways []way, add func(action, []way)) {
	m, x := &w.model, &w.members[i]
	if w.busy(i) {
		return
	}
	once := allWays[:1]
	holds := uint8(0)
	for j := range runs {
		r := &runs[j]
		if r.State != sharepartition.Acquired || r.Pending || r.Member != w.names[i] {
			continue
		}
		for offset := r.FirstOffset; offset <= r.LastOffset; offset++ {
			holds |= 1 << offset
		}
	}
	if m.InOrder {
		holds &= -holds
	}
	for _, offset := range offsetsOf(holds) {
		if !x.sessions[w.leader] {
			break
		}
		for _, t := range []int8{sharepartition.TypeAccept, sharepartition.TypeRelease} {
			add(action{kind: acknowledges, member: i, record: int8(offset), ack: t}, ways)
		}
		if m.has(Renew) && w.timely() {
			add(action{kind: renews, member: i, record: int8(offset)}, once)
		}
	}
	if x.in || w.draft.noMemberCheck {
		had := holds
		if w.timely() {
			had |= x.had
		}
		for p := range int8(m.Producers) {
			y := &w.producers[p]
			if e := w.entry(p); !y.alive || y.spoiled || e.Epoch != y.epoch || e.Open() && e.State != txn.Ongoing || w.staging(transaction{p, y.serial}) {
				continue
			}
			for _, offset := range offsetsOf(had &^ y.staged) {
				add(action{kind: stagesRecord, member: i, by: p, record: int8(offset), ack: sharepartition.TypeAccept}, ways)
			}
		}
	}
	if m.has(Leave) && !x.in {
		add(action{kind: joins, member: i}, once)
	}
	if !faulty {
		return
	}
	if m.has(Leave) && x.in {
		add(action{kind: leaves, member: i}, once)
	}
	if m.has(Disconnect) && (x.made[0] || x.made[1]) {
		add(action{kind: disconnects, member: i}, ways)
	}
	if m.has(EndSession) && x.sessions[w.leader] {
		add(action{kind: endsSession, member: i}, ways)
	}
}

// do does an action. number is its place in the trace.
func (w *world) do(a action, number int) {
	if w.model.MostFaults > 0 && w.counts(a) {
		w.faults = min(w.faults+1, w.model.MostFaults)
	}
	p := &w.producers[a.by%maxProducers]
	switch a.kind {
	case fetches:
		w.fetch(a.member, int32(a.record))
	case acknowledges:
		w.acknowledge(a, number)
	case renews:
		w.pass()
		w.ownPart().Acknowledge(w.now, w.names[a.member], acks(a.record, sharepartition.TypeRenew), w.limits)
		w.records[a.record].until = w.now.Add(lockDuration)
	case stagesRecord:
		w.stage(a, number)
	case commits, aborts:
		flow := txn.Flow2
		if w.model.EndTxn < 5 {
			flow = txn.Flow0
		}
		d := w.ownTxns().End(w.now, w.txnIDs[a.by], txn.Producer{ID: p.id, Epoch: p.epoch}, a.kind == commits, flow)
		if d.Code != errorcode.None {
			panic("EndTxn of the owner is refused: " + errorcode.Name(d.Code))
		}
		if a.kind == commits {
			for _, offset := range offsetsOf(p.staged) {
				w.settled(offset)
			}
		}
		p.epoch = d.Producer.Epoch
		w.transact(a.by, d.Transition, a.how, w.over(a.by), number)
	case takesOver:
		d := w.ownTxns().InitProducerID(w.now, w.txnIDs[a.by], txn.Init{TimeoutMs: 1})
		if p.alive = d.Code == errorcode.None; p.alive {
			p.epoch = d.Producer.Epoch
		}
		of := transaction{a.by, p.serial}
		if d.Transition != nil && !p.alive {
			of = w.over(a.by)
		}
		w.transact(a.by, d.Transition, a.how, of, number)
	case lockEnds:
		at, _ := w.part.NextDeadline()
		w.now = at
		w.letGo(func(r *record) bool { return !r.until.After(at) })
		w.persist(&stateWrite{write: w.ownPart().Expire(at, w.limits), number: number}, a.how)
	case writeGoesOn:
		w.goOn(int(a.by), errorcode.None)
	case writeFails:
		w.goOn(int(a.by), errorcode.InvalidRequest)
	case markerArrives:
		w.arrives(int(a.by))
	case moves:
		w.leader, w.epoch = 1-w.leader, w.epoch+1
		w.letGo(func(*record) bool { return true })
		w.forget()
	case crashes:
		w.crash(number)
	case coordinates:
		p.coordinator++
		w.reloadTxn(a.by, a.how, number)
	case disconnects:
		w.disconnected(a.member, a.how)
	case endsSession:
		w.closeSession(a.member, w.leader, a.how)
	case leaves:
		w.members[a.member].in = false
	case joins:
		w.members[a.member].in = true
	case logStarts:
		w.start = int64(a.record)
	}
	for i := range w.writes { // begun in this step
		if w.writes[i].number == 0 {
			w.writes[i].number = number
		}
	}
}

// pass lets some time pass before a lock is taken, so that no two end at once, and none by it.
func (w *world) pass() {
	d := tick
	if w.part != nil {
		if at, ok := w.part.NextDeadline(); ok {
			d = min(d, at.Sub(w.now)/2)
		}
	}
	if d <= 0 {
		panic("too many locks are taken while one is about to end")
	}
	w.now = w.now.Add(d)
}

// over begins the next transaction of a producer, and names the one that was.
func (w *world) over(p int8) transaction {
	x := &w.producers[p]
	x.serial, x.staged, x.spoiled = x.serial+1, 0, false
	return transaction{p, x.serial - 1}
}

func acks(record, kind int8) []sharepartition.Acknowledgement {
	return []sharepartition.Acknowledgement{{FirstOffset: int64(record), LastOffset: int64(record), Types: []int8{kind}}}
}

// fetch gives records to a member (broker.sharePartition.acquire). Each record is a batch of its own in the log.
func (w *world) fetch(m int8, most int32) {
	w.pass()
	x := &w.members[m]
	x.sessions[w.leader], x.made[w.leader], x.had = true, true, 0
	w.know()
	part := w.ownPart()
	if part.CanAcquire(w.limits.RecordLocks) && part.NextFetchOffset() < w.start {
		part.LogStartMoved(w.start)
	}
	from := part.NextFetchOffset()
	if !part.CanAcquire(w.limits.RecordLocks) || from >= int64(w.model.Records) {
		return
	}
	var batches []sharepartition.Bounds
	for offset := from; offset < int64(w.model.Records); offset++ {
		batches = append(batches, sharepartition.Bounds{BaseOffset: offset, LastOffset: offset})
	}
	got, _ := part.Acquire(w.now, &sharepartition.AcquireRequest{
		Member: w.names[m], Mode: sharepartition.RecordLimit, BatchSize: 500, MaxRecords: most, FetchOffset: from, Batches: batches,
	}, w.limits, nil)
	w.delivered(m, got)
}

// acknowledge acknowledges a record outside of transactions (broker.shareCaller.acknowledge).
func (w *world) acknowledge(a action, number int) {
	change, no := w.ownPart().Acknowledge(w.now, w.names[a.member], acks(a.record, a.ack), w.limits)
	if no != nil {
		panic("an acknowledgement of the holder is refused: " + no.Message)
	}
	r := &w.records[a.record]
	r.plain = r.plain || a.ack == sharepartition.TypeAccept
	x := stateWrite{write: change, asked: true, member: a.member, record: int64(a.record), kind: a.ack, stage: transaction{noProducer, 0}, number: number}
	w.persist(&x, a.how)
}

// stage writes an output of a record in a transaction and stages its acknowledgement (broker.Cluster.txnShareAcknowledge).
func (w *world) stage(a action, number int) {
	p := &w.producers[a.by]
	d := w.ownTxns().AddPartitions(w.now, w.txnIDs[a.by], txn.Producer{ID: p.id, Epoch: p.epoch}, kept, txn.Flow2)
	if d.Code != errorcode.None {
		panic("a partition cannot be added: " + errorcode.Name(d.Code))
	}
	w.transact(a.by, d.Transition, goes, transaction{}, number)
	guard := w.ownShares().Guard(0, 0, p.id, p.epoch)
	w.know()
	change, no := w.ownPart().Stage(w.names[a.member], acks(a.record, a.ack), sharepartition.Staging{
		ProducerID: p.id, ProducerEpoch: p.epoch, Gap: w.draft.gap, Release: w.draft.release,
		PassBelowStart: w.draft.passBelowStart, LoseLock: w.draft.loseLock,
	}, w.limits)
	if no != nil {
		p.spoiled = true
		return
	}
	x := stateWrite{write: change, asked: true, member: a.member, record: int64(a.record), kind: a.ack, stage: transaction{a.by, p.serial}, guard: guard, number: number}
	if change.ID == 0 {
		w.told(&x, errorcode.None)
		return
	}
	w.persist(&x, a.how)
}

// kept is the partition of __share_group_state that keeps the share partition's state.
var kept = []txn.TopicPartition{{Topic: "__share_group_state"}}

// crash has the cluster come back with what is stored. What waits for an answer gets none.
func (w *world) crash(number int) {
	for i := range w.writes {
		if x := &w.writes[i]; x.asked {
			w.told(x, errorcode.NetworkException)
		}
	}
	w.writes, w.markers = nil, nil
	w.letGo(func(*record) bool { return true })
	for i := range w.members {
		w.members[i].sessions, w.members[i].made = [2]bool{}, [2]bool{}
	}
	w.epoch++
	w.forget()
	w.reloadShares()
	for p := range int8(w.model.Producers) {
		w.producers[p].coordinator++
	}
	for p := range int8(w.model.Producers) {
		w.reloadTxn(p, goes, number)
	}
}
