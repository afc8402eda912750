package broker

import (
	"slices"
	"time"

	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
)

// How a leader goes on with a write that the share coordinator could not take (PersisterStateManager).
const (
	shareWriteAttempts   = 5
	shareWriteBackoff    = 2 * time.Second // before the second attempt, doubled before each further one; Apache Kafka's is up to a fifth more or less
	shareWritesExhausted = "Exhausted max retries to complete write state RPC without success."
)

// shareWrite is a state write that the share coordinator has not answered, of a leader in its leader epoch.
type shareWrite struct {
	sp          *sharePartition
	write       sharepartition.Write
	guard       *sharecoordinator.Guard // of the transaction that it stages records for, nil where it stages none
	leader      *node
	leaderEpoch int32
	stopped     <-chan struct{} // closed when the leader is stopped, and the write with it
	attempts    int
	done        *shareWriteAnswer           // of an attempt that was written before its answer went wrong
	ends        []sharepartition.StateBatch // what transactions that ended meanwhile have made of what it has staged
	overtaken   bool                        // a later write has changed records whose acknowledgement it is: it fails
	ended       bool                        // it has been answered, with the refusal if there is one
	refusal     *refusal
	then        func(*refusal) // called with the answer
}

// shareWriteAnswer is what the share coordinator says to a write.
type shareWriteAnswer struct {
	code    int16
	message string
}

// persist writes what a change of the share partition's state asks for, and tells the state how it went. It returns the code and message that the
// request which made the change is answered with, or the write if that is still open. guard is that of the transaction which the change stages records for, nil where it
// stages none.
func (sp *sharePartition) persist(w sharepartition.Write, guard *sharecoordinator.Guard) (no *refusal, open *shareWrite) {
	switch {
	case w.ID == 0:
		return nil, nil
	case sp.forgotten():
		return refused(errorcode.NotLeaderOrFollower, "The share partition was fenced meanwhile."), nil
	}
	c, p := sp.partition.cluster, sp.partition
	leader := c.node(p.leader)
	faulty := len(c.share.faults) > 0
	var code int16
	var message string
	kept := sp.stateKeptIn()
	if !faulty && (kept == nil || !kept.held) {
		if code, message = sp.write(leader, p.leaderEpoch, &w, guard); !retriable(code) {
			no = writeRefusal(code, message)
			sp.persisted(w.ID, no)
			return no, nil
		}
	}
	open = &shareWrite{sp: sp, write: w, guard: guard, leader: leader, leaderEpoch: p.leaderEpoch, stopped: leader.stopped}
	p.openShareWrites = append(p.openShareWrites, open)
	switch {
	case faulty:
		open.attempt()
	case kept != nil && kept.held:
		open.attempts = 1
		open.goOn(errorcode.None)
	default:
		open.attempts = 1
		open.answered(code, message)
	}
	if open.ended {
		return open.refusal, nil
	}
	return nil, open
}

// write has the share coordinator write a change that a node has made as leader in an epoch. It returns the code and message of the answer.
func (sp *sharePartition) write(leader *node, leaderEpoch int32, w *sharepartition.Write, guard *sharecoordinator.Guard) (int16, string) {
	if code := leader.findShareCoordinator(sp.statePartition); code != errorcode.None {
		return code, shareWriteMessage(code)
	}
	code, message := sp.partition.cluster.writeShareState(sp, leaderEpoch, w, guard)
	if code == errorcode.None {
		sp.overtake(w)
	}
	return code, message
}

// overtake keeps earlier writes of the group that are still open from undoing what the write has made of its records, which would come out when the state is
// read the next time. They are of a share partition that was forgotten since and read anew. What ended a lock or a session is stored without these records;
// an acknowledgement fails, for its records were delivered again.
func (sp *sharePartition) overtake(w *sharepartition.Write) {
	for _, earlier := range sp.partition.openShareWrites {
		if &earlier.write == w {
			return
		}
		if earlier.sp.group != sp.group {
			continue
		}
		if earlier.write.Overtake(w.Batches, earlier.then != nil) {
			earlier.overtaken = true
		}
	}
}

// overtakeAsRead keeps writes of the group that are still open from undoing what the share partition was read with: they are of one that was forgotten, which may
// have taken for free what is staged, and for done what is not.
func (sp *sharePartition) overtakeAsRead() {
	for _, w := range sp.partition.openShareWrites {
		if w.sp.group == sp.group {
			w.write.StartOffset = min(w.write.StartOffset, sp.state.StartOffset())
		}
	}
	if staged := sp.state.Staged(nil); len(staged) > 0 {
		sp.overtake(&sharepartition.Write{Batches: staged})
	}
}

// persisted tells the state how a write went.
func (sp *sharePartition) persisted(id uint64, no *refusal) {
	code := errorcode.None
	if no != nil {
		code = no.code
	}
	archiving := sp.state.Persisted(id, code).Archiving
	sp.tell(ActionWritten, func(s *ShareChange) { s.ErrorCode = code })
	if code == errorcode.NotLeaderOrFollower {
		sp.forget()
	}
	if len(archiving) > 0 {
		p := sp.partition
		sp.sendDeadLetters(archiving, p.cluster.node(p.leader), p.leaderEpoch)
	}
}

// retriable tells whether a leader tries a write again that was answered with the code.
func retriable(code int16) bool {
	switch code {
	case errorcode.NetworkException, errorcode.CoordinatorLoadInProgress, errorcode.CoordinatorNotAvailable, errorcode.NotCoordinator:
		return true
	}
	return false
}

// writeRefusal is what acknowledgements are answered with whose write was answered with the code, nil for success.
func writeRefusal(code int16, message string) *refusal {
	if code == errorcode.None {
		return nil
	}
	return refused(fetchErrorOf(code), "Error in write state RPC. %s", message)
}

// attempt has the share coordinator asked once more.
func (w *shareWrite) attempt() {
	w.attempts++
	w.done = nil
	if f := writeFaultOf(w.sp.partition.cluster.share.faults, w.sp.group, w.sp.partition); f != nil {
		f.take(w)
		return
	}
	w.goOn(errorcode.None)
}

// goOn ends what has kept the share coordinator from answering: it answers with a code, or writes where the code is 0. A write whose leader was stopped
// is gone, with who waits for it.
func (w *shareWrite) goOn(code int16) {
	select {
	case <-w.stopped:
		w.close()
		return
	default:
	}
	if w.done == nil && code == errorcode.None {
		w.doFirst()
	}
	if w.done != nil && (w.done.code != errorcode.None || code == errorcode.None) {
		w.written()
		return
	}
	w.answered(code, shareWriteMessage(code))
}

// doFirst writes, and keeps what the share coordinator says.
func (w *shareWrite) doFirst() {
	if w.overtaken {
		w.done = &shareWriteAnswer{errorcode.FencedStateEpoch, "The records were delivered again meanwhile."}
		return
	}
	code, message := w.sp.write(w.leader, w.leaderEpoch, &w.write, w.guard)
	w.done = &shareWriteAnswer{code, message}
}

// written takes in what the share coordinator has said, once what it has written has as many replicas as it is to have.
func (w *shareWrite) written() {
	code, message := w.done.code, w.done.message
	if kept := w.sp.stateKeptIn(); code == errorcode.None && kept != nil && kept.uncommitted() {
		limit := w.sp.partition.cluster.brokerValues().Duration("share.coordinator.write.timeout.ms")
		kept.afterCommit(limit, func(code int16) { w.answered(code, shareWriteMessage(code)) })
		return
	}
	w.answered(code, message)
}

// close takes the write out of those that are open.
func (w *shareWrite) close() {
	p := w.sp.partition
	p.openShareWrites = slices.DeleteFunc(p.openShareWrites, func(other *shareWrite) bool { return other == w })
}

// hasOpenAcknowledgements tells whether the share coordinator has yet to answer a write of the share partition's leader that a request waits for.
func (sp *sharePartition) hasOpenAcknowledgements() bool {
	return slices.ContainsFunc(sp.partition.openShareWrites, func(w *shareWrite) bool { return w.sp == sp && w.then != nil })
}

// answered takes the share coordinator's answer in: the end of the write, or of an attempt that another one follows.
func (w *shareWrite) answered(code int16, message string) {
	c := w.sp.partition.cluster
	if retriable(code) {
		if w.attempts < shareWriteAttempts {
			c.after(shareWriteBackoff<<(w.attempts-1), w.attempt)
			return
		}
		message = shareWritesExhausted
	}
	w.ended, w.refusal = true, writeRefusal(code, message)
	w.close()
	if !w.sp.forgotten() {
		before := w.sp.state.StartOffset()
		w.sp.persisted(w.write.ID, w.refusal)
		w.sp.settled(before)
		if len(w.ends) > 0 && w.refusal == nil && !w.sp.forgotten() {
			w.sp.resolve(w.ends)
		}
		if w.sp.unused && !w.sp.forgotten() && !w.sp.hasOpenAcknowledgements() {
			w.sp.forget()
		}
	} else if w.refusal == nil {
		archiving := slices.DeleteFunc(slices.Clone(w.write.Batches), func(b sharepartition.StateBatch) bool { return b.State != sharepartition.Archiving })
		if len(archiving) > 0 {
			w.sp.sendDeadLetters(archiving, w.leader, w.leaderEpoch)
		}
	}
	if w.then != nil {
		w.then(w.refusal)
	}
}

// openWrites are the n state writes that an answer waits for; then is called with the end of the last.
type openWrites struct {
	n    int
	then func()
}

// add waits for a write; f is told its outcome.
func (o *openWrites) add(w *shareWrite, f func(*refusal)) {
	o.n++
	w.then = func(no *refusal) {
		f(no)
		if o.n--; o.n == 0 && o.then != nil {
			o.then()
		}
	}
}
