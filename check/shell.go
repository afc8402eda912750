package check

import (
	"slices"

	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
	"kshare/txn"
)

// This file is what package broker does between the machines: each function names its like there.

// stateWrite is a write that the share coordinator has not answered (broker.shareWrite).
type stateWrite struct {
	write     sharepartition.Write
	term      uint32 // the leader's knowledge that it is from
	epoch     int32  // the leader's
	stored    bool   // the share coordinator has it, and its answer, code, is on its way
	code      int16
	overtaken bool
	ends      []sharepartition.StateBatch
	// asked tells that a request of a member waits for it: an acknowledgement of a record, or with stage one in a transaction.
	asked  bool
	member int8
	record int64
	kind   int8 // the acknowledge type
	stage  transaction
	guard  *sharecoordinator.Guard // of stage
	number int                     // of the action that it comes from, for people
}

// marker is a marker on its way to the share coordinator (broker.markerWrite).
type marker struct {
	markers     *txn.Markers
	of          transaction
	coordinator int32
	stored      bool // the share coordinator has it, and its answer, code, is on its way
	code        int16
	number      int
}

// way is how a write or a marker goes.
type way int8

const (
	goes    way = iota // it is done and answered
	held               // it waits
	answers            // it is done, and its answer waits
)

// know has the leader know the share partition (broker.sharePartitionOf).
func (w *world) know() {
	w.unused = false
	if w.part != nil {
		return
	}
	c := w.ownShares()
	persisted, record, no := c.Read(0, w.key, w.epoch)
	if no != nil {
		panic("the leader may not read the state: " + no.Message)
	}
	if !record.IsEmpty() {
		c.Apply(&record, 0)
	}
	start := persisted.StartOffset
	if start == -1 {
		start = w.start
	}
	batches := make([]sharepartition.StateBatch, len(persisted.Batches))
	for i, b := range persisted.Batches {
		batches[i] = sharepartition.StateBatch{FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, State: sharepartition.State(b.State), DeliveryCount: b.DeliveryCount}
		if batches[i].State == sharepartition.TxPending {
			batches[i].Staged = stagedInPartition(b.Staged)
		}
	}
	part, err := sharepartition.Restore(start, batches)
	if err != nil {
		panic(err)
	}
	w.part, w.owned = part, w.owned|partMachine
	w.term++
	w.writes = slices.Clone(w.writes) // broker.sharePartition.overtakeAsRead
	for i := range w.writes {
		w.writes[i].write.StartOffset = min(w.writes[i].write.StartOffset, part.StartOffset())
	}
	w.overtake(part.Staged(nil), len(w.writes))
}

// forget has the leader forget it (broker.sharePartition.forget).
func (w *world) forget() {
	w.part, w.unused = nil, false
	w.term++
}

// persist writes what a change asks for (broker.sharePartition.persist). It returns the write where that is still open, and else its error code.
func (w *world) persist(by *stateWrite, how way) int16 {
	if by.write.ID == 0 {
		return errorcode.None
	}
	by.term, by.epoch = w.term, w.epoch
	by.write.Batches = slices.Clone(by.write.Batches)
	if how == goes {
		code := w.store(by, len(w.writes))
		w.answered(by, code)
		return code
	}
	if how == answers {
		by.stored, by.code = true, w.store(by, len(w.writes))
	}
	w.writes = append(w.writes, *by)
	return errorcode.None
}

// store has the share coordinator write (broker.sharePartition.write, shareWrite.doFirst). earlier is the number of writes that were begun before it.
func (w *world) store(x *stateWrite, earlier int) int16 {
	if x.overtaken {
		return errorcode.FencedStateEpoch
	}
	batches := make([]sharecoordinator.Batch, len(x.write.Batches))
	for i, b := range x.write.Batches {
		batches[i] = sharecoordinator.Batch{FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, State: int8(b.State), DeliveryCount: b.DeliveryCount}
		if b.State == sharepartition.TxPending {
			batches[i].Staged = stagedInCoordinator(b.Staged)
		}
	}
	c := w.ownShares()
	record, no := c.Write(0, w.key, &sharecoordinator.Update{
		StateEpoch: 2, LeaderEpoch: x.epoch, StartOffset: x.write.StartOffset, DeliveryCompleteCount: x.write.DeliveryCompleteCount, Batches: batches, Guard: x.guard,
	})
	if no != nil {
		return no.ErrorCode
	}
	c.Apply(&record, 0)
	w.nowStaged(x)
	w.overtake(x.write.Batches, earlier)
	return errorcode.None
}

// overtake keeps the first writes on their way from undoing what was made of records (broker.sharePartition.overtake).
func (w *world) overtake(batches []sharepartition.StateBatch, earlier int) {
	w.writes = slices.Clone(w.writes)
	for i := range w.writes[:earlier] {
		x := &w.writes[i]
		if x.write.Overtake(batches, x.asked) {
			x.overtaken = true
		}
	}
}

// goOn ends what has kept a write (broker.shareWrite.goOn).
func (w *world) goOn(i int, code int16) {
	x := w.writes[i]
	switch {
	case x.stored && x.code != errorcode.None:
		code = x.code
	case !x.stored && code == errorcode.None:
		code = w.store(&x, i)
	}
	w.writes = slices.Delete(slices.Clone(w.writes), i, i+1)
	w.answered(&x, code)
}

// answered takes the share coordinator's answer in (broker.shareWrite.answered).
func (w *world) answered(x *stateWrite, code int16) {
	if x.term == w.term && w.part != nil {
		w.ownPart().Persisted(x.write.ID, code)
		if code == errorcode.FencedLeaderEpoch || code == errorcode.FencedStateEpoch { // NOT_LEADER_OR_FOLLOWER to the leader
			w.forget()
		} else {
			if len(x.ends) > 0 && code == errorcode.None {
				w.ownPart().Resolve(w.now, x.ends, w.limits)
			}
			if w.unused && !w.hasOpenAcknowledgements() {
				w.forget()
			}
		}
	}
	if x.asked {
		w.told(x, code)
	}
}

func (w *world) hasOpenAcknowledgements() bool {
	return slices.ContainsFunc(w.writes, func(x stateWrite) bool { return x.term == w.term && x.asked })
}

// closeSession ends a member's share session with a node (broker.Cluster.releaseShare).
func (w *world) closeSession(m int8, node int8, how way) {
	w.members[m].sessions[node] = false
	if node != w.leader {
		return
	}
	w.letGo(func(r *record) bool { return r.holder == m })
	if w.part != nil {
		w.persist(&stateWrite{write: w.ownPart().ReleaseMember(w.names[m], w.limits)}, how)
	}
}

// disconnected ends the sessions of a member (broker.Cluster.shareConnectionClosed).
func (w *world) disconnected(m int8, how way) {
	for node, made := range w.members[m].made {
		if !made {
			continue
		}
		w.members[m].made[node] = false
		if w.members[m].sessions[node] {
			w.closeSession(m, int8(node), how)
		}
		if int8(node) != w.leader || w.part == nil || slices.ContainsFunc(w.members[:], func(x member) bool { return x.sessions[node] }) {
			continue
		}
		if w.unused = w.hasOpenAcknowledgements(); !w.unused {
			w.forget()
		}
	}
}

// store of a transition (broker.Cluster.storeTransition): markers that follow are on their way.
func (w *world) transact(p int8, t *txn.Transition, how way, of transaction, number int) {
	if t == nil {
		return
	}
	if m := w.ownTxns().Stored(w.now, t); m != nil {
		w.send(p, m, how, of, number)
	}
}

// send sends a marker (broker.markerWrite.send). That of other partitions is written at once.
func (w *world) send(p int8, m *txn.Markers, how way, of transaction, number int) {
	x := marker{markers: m, of: of, coordinator: w.producers[p].coordinator, number: number}
	if len(m.Partitions) == 0 {
		w.complete(&x)
		return
	}
	if how == goes {
		w.written(&x, w.end(&x))
		return
	}
	if how == answers {
		x.stored, x.code = true, w.end(&x)
	}
	w.markers = append(w.markers, x)
}

// arrives ends what has kept a marker (broker.markerWrite.goOn).
func (w *world) arrives(i int) {
	x := w.markers[i]
	w.markers = slices.Delete(slices.Clone(w.markers), i, i+1)
	code := x.code
	if !x.stored {
		code = w.end(&x)
	}
	w.written(&x, code)
}

func (w *world) written(x *marker, code int16) {
	if code == errorcode.None && w.txns.Completing(x.markers) && w.producers[x.of.producer].coordinator == x.coordinator {
		w.complete(x)
	}
}

// complete completes a transaction (broker.Cluster.completeTransaction).
func (w *world) complete(x *marker) {
	c := w.ownTxns()
	if t := c.Complete(w.now, x.markers); t != nil {
		c.Stored(w.now, t)
	}
}

// end ends a transaction at the share coordinator (broker.Cluster.endShareTransaction).
func (w *world) end(x *marker) int16 {
	m := sharecoordinator.Marker{
		ProducerID: x.markers.Producer.ID, ProducerEpoch: x.markers.Epoch, CoordinatorEpoch: x.coordinator, Commit: x.markers.Commit, Version: int8(x.markers.Flow),
	}
	c := w.ownShares()
	endings, no := c.EndTransaction(0, 0, 1, m, func(_ sharecoordinator.Key, b *sharecoordinator.Batch) int8 { return w.afterTransaction(b, m.Commit) })
	if no != nil {
		return no.ErrorCode
	}
	for i := range endings {
		c.Apply(&endings[i].Record, 0)
		w.resolved(endings[i].Decided, x)
		w.tellLeader(endings[i].Decided)
	}
	c.TransactionEnded(0, 0, m)
	return errorcode.None
}

// afterTransaction is broker.Cluster's.
func (w *world) afterTransaction(b *sharecoordinator.Batch, commit bool) int8 {
	switch {
	case commit && b.Staged.DeliveryState != int8(sharepartition.Available):
		return b.Staged.DeliveryState
	case int(b.DeliveryCount) < w.limits.DeliveryCount || !commit && w.draft.ignoreLimit:
		return int8(sharepartition.Available)
	}
	return int8(sharepartition.Archived)
}

// tellLeader is broker.Cluster's.
func (w *world) tellLeader(ended []sharecoordinator.Batch) {
	switch {
	case w.part == nil:
		return
	case w.draft.reload:
		w.forget()
		return
	}
	resolved := make([]sharepartition.StateBatch, len(ended))
	for i, b := range ended {
		resolved[i] = sharepartition.StateBatch{
			FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, State: sharepartition.State(b.State), DeliveryCount: b.DeliveryCount, Staged: stagedInPartition(b.Staged),
		}
	}
	w.writes = slices.Clone(w.writes)
	for i := range w.writes {
		if x := &w.writes[i]; x.term == w.term {
			x.ends = slices.Concat(x.ends, x.write.Decided(resolved))
		}
	}
	w.ownPart().Resolve(w.now, resolved, w.limits)
}

func stagedInPartition(s sharecoordinator.Staged) sharepartition.Staged {
	return sharepartition.Staged{ProducerID: s.ProducerID, ProducerEpoch: s.ProducerEpoch, Type: s.Type, Committed: sharepartition.State(s.DeliveryState)}
}

func stagedInCoordinator(s sharepartition.Staged) sharecoordinator.Staged {
	return sharecoordinator.Staged{ProducerID: s.ProducerID, ProducerEpoch: s.ProducerEpoch, Type: s.Type, DeliveryState: int8(s.Committed)}
}

// reloadShares has the share coordinator begin with what its log holds: its state, but not which transactions have ended.
func (w *world) reloadShares() {
	state, _ := w.shares.State(w.key)
	c := w.newShares()
	c.Apply(&sharecoordinator.Record{Key: w.key, Snapshot: &sharecoordinator.Snapshot{State: state}}, 0)
	w.shares, w.kept, w.owned = c, nil, w.owned|sharesMachine
}

// reloadTxn has a transactional id read by its coordinator anew (broker.Cluster.transactionsMoved). What is decided is ended again.
func (w *world) reloadTxn(p int8, how way, number int) {
	c := w.ownTxns()
	t := txn.Transition{ID: w.txnIDs[p], Next: w.entry(p)}
	key, value := t.Record(2)
	c.Unload(int32(p))
	if err := c.Replay(key, value); err != nil {
		panic(err)
	}
	for _, m := range c.Loaded(w.now, int32(p)) {
		w.send(p, m, how, transaction{p, w.producers[p].serial - 1}, number)
	}
}
