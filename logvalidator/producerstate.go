package logvalidator

import (
	"fmt"
	"math"
	"slices"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// Origin is who appends a batch (org.apache.kafka.storage.internals.log.AppendOrigin).
type Origin int8

const (
	// Client is a producer: epoch, sequence and duplicates are checked.
	Client Origin = iota
	// Coordinator is the group coordinator writing offsets in a transaction: they have no sequence, so only the epoch is checked.
	Coordinator
)

// retainedBatches is the number of a producer's last batches that a repetition is recognised from (ProducerStateEntry.NUM_BATCHES_TO_RETAIN).
const retainedBatches = 5

// noEpoch is the epoch of a producer that the partition knows nothing of.
const noEpoch = -1

// noOffset stands where a producer has no transaction open.
const noOffset = -1

// ProducerState is what one partition remembers of the producers that write to it: their last batches, their open
// transactions, and which transactions were aborted. It is rebuilt from the log by Replay.
//
// Invariants: ongoing holds exactly the producers whose txnStart >= 0, ascending by txnStart; aborted ascends by LastOffset.
type ProducerState struct {
	producers     map[int64]*producer
	verifications map[int64]*verification
	ongoing       []ongoingTxn
	aborted       []AbortedTxn
}

type producer struct {
	epoch            int16
	n                int8 // batches in use, the oldest first
	coordinatorEpoch int32
	lastTimestamp    int64 // ms
	txnStart         int64 // offset of the open transaction's first record, noOffset for none
	batches          [retainedBatches]producedBatch
}

type producedBatch struct {
	firstSeq, lastSeq int32
	delta             int32 // last offset less first offset
	lastOffset        int64
	timestamp         int64 // max timestamp, ms
}

type ongoingTxn struct{ first, producerID int64 }

// verification is what is known of a transaction between asking its coordinator and its first record here (VerificationStateEntry).
type verification struct {
	started           int64 // ms
	lowestSequence    int32
	epoch             int16
	supportsEpochBump bool
}

// Duplicate is the batch that a repeated one was found to be.
type Duplicate struct {
	BaseOffset  int64
	LastOffset  int64
	TimestampMs int64 // the answer's LogAppendTime: the batch's max timestamp, whatever the topic's timestamp type
}

// AbortedTxn is an aborted transaction of the partition: what Fetch with read_committed tells of it.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64
	LastOffset       int64 // of the marker
	LastStableOffset int64 // as the marker was written
}

// Producer is what DescribeProducers tells of a producer.
type Producer struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32 // -1 where no batch of the epoch is remembered
	LastTimestampMs  int64
	CoordinatorEpoch int32 // -1 before the first marker
	TxnStartOffset   int64 // -1 while no transaction is open
	LastOffset       int64 // of the last data batch of the epoch, -1 where none is remembered
}

// NewProducerState returns the state of an empty log.
func NewProducerState() *ProducerState {
	return &ProducerState{producers: map[int64]*producer{}, verifications: map[int64]*verification{}}
}

func lastSequence(h *protocol.BatchHeader) int32 {
	if h.BaseSequence == -1 {
		return -1
	}
	return addSequence(h.BaseSequence, h.LastOffsetDelta)
}

// addSequence wraps from 2147483647 to 0.
func addSequence(sequence, n int32) int32 {
	return int32((int64(sequence) + int64(n)) & math.MaxInt32)
}

// Check tells whether a batch whose header Validate has passed may be appended now. dup is set for a batch that is in the log
// already: it must be answered like the first one and not appended. verified tells that the transaction coordinator
// vouches for the batch or need not (transaction.partition.verification.enable=false).
// Refusals have code 45, 47 or 48, no message, and the log start offset. A batch without producer id always passes.
func (s *ProducerState) Check(h *protocol.BatchHeader, origin Origin, verified bool) (dup *Duplicate, refusal *Refusal) {
	if h.ProducerID < 0 {
		return nil, nil
	}
	p := s.producers[h.ProducerID]
	if origin == Client {
		if dup := p.duplicate(h); dup != nil {
			return dup, nil
		}
	}
	if h.IsTransactional() && !verified && !s.OngoingTransaction(h.ProducerID, h.ProducerEpoch) {
		return nil, appendRefusal(errorcode.InvalidTxnState, "record was not part of an ongoing transaction")
	}
	if no := p.fences(h); no != nil {
		return nil, no
	}
	if origin == Client {
		if why := s.checkSequence(p, h); why != "" {
			return nil, appendRefusal(errorcode.OutOfOrderSequenceNumber, "producer %d, epoch %d, sequence %d: %s", h.ProducerID, h.ProducerEpoch, h.BaseSequence, why)
		}
	}
	if p != nil && p.txnStart != noOffset && !h.IsTransactional() {
		return nil, appendRefusal(errorcode.InvalidTxnState, "expected transactional write from producer %d", h.ProducerID)
	}
	return nil, nil
}

// fences refuses a batch whose epoch is below that of the producer.
func (p *producer) fences(h *protocol.BatchHeader) *Refusal {
	if p == nil || h.ProducerEpoch >= p.epoch {
		return nil
	}
	return appendRefusal(errorcode.InvalidProducerEpoch, "epoch of producer %d is %d, which is < the last seen epoch %d", h.ProducerID, h.ProducerEpoch, p.epoch)
}

func (p *producer) duplicate(h *protocol.BatchHeader) *Duplicate {
	if p == nil || p.epoch != h.ProducerEpoch {
		return nil
	}
	last := lastSequence(h)
	for _, b := range p.batches[:p.n] {
		if b.firstSeq == h.BaseSequence && b.lastSeq == last {
			return &Duplicate{b.lastOffset - int64(b.delta), b.lastOffset, b.timestamp}
		}
	}
	return nil
}

// checkSequence says why the batch is out of order, "" where it is not.
func (s *ProducerState) checkSequence(p *producer, h *protocol.BatchHeader) string {
	if v := s.verifications[h.ProducerID]; v != nil {
		if v.supportsEpochBump && h.BaseSequence != 0 && (p == nil || p.n == 0) {
			return "expected 0 for a producer without state"
		}
		if h.BaseSequence > v.lowestSequence {
			return fmt.Sprintf("%d is the earliest seen", v.lowestSequence)
		}
	}
	if p == nil || p.epoch == noEpoch {
		return ""
	}
	if h.ProducerEpoch != p.epoch {
		if h.BaseSequence != 0 {
			return fmt.Sprintf("expected 0 for an epoch that follows %d", p.epoch)
		}
		return ""
	}
	last := int32(-1)
	if p.n > 0 {
		last = p.batches[p.n-1].lastSeq
	}
	if int64(h.BaseSequence) == int64(last)+1 || h.BaseSequence == 0 && last == math.MaxInt32 {
		return ""
	}
	return fmt.Sprintf("%d is the last", last)
}

// OngoingTransaction tells whether the producer has a transaction open here in that very epoch. If so, its further batches need no verification.
func (s *ProducerState) OngoingTransaction(producerID int64, epoch int16) bool {
	p := s.producers[producerID]
	return p != nil && p.txnStart != noOffset && p.epoch == epoch
}

// StartVerification remembers that the coordinator is about to be asked for a transactional batch whose producer has no transaction
// open here. supportsEpochBump tells that it came by Produce of version 12 or above (transactions of version 2). What it
// leaves behind makes Check refuse a later sequence as long as no transactional batch is appended: 45. A batch of a producer that has been fenced
// here is refused with 47: its coordinator need not be asked.
func (s *ProducerState) StartVerification(h *protocol.BatchHeader, supportsEpochBump bool, nowMs int64) *Refusal {
	if no := s.producers[h.ProducerID].fences(h); no != nil {
		return no
	}
	v := s.verifications[h.ProducerID]
	if v == nil {
		s.verifications[h.ProducerID] = &verification{nowMs, h.BaseSequence, h.ProducerEpoch, supportsEpochBump}
		return nil
	}
	switch {
	case h.ProducerEpoch > v.epoch:
		v.epoch, v.lowestSequence = h.ProducerEpoch, h.BaseSequence
	case h.ProducerEpoch == v.epoch:
		v.lowestSequence = min(v.lowestSequence, h.BaseSequence)
	}
	return nil
}

// Verified tells whether the coordinator was asked for a producer's transactional batch, and neither a batch nor a marker was appended since: what is
// appended now begins the very transaction that it was asked for.
func (s *ProducerState) Verified(producerID int64) bool { return s.verifications[producerID] != nil }

// Apply takes in a data batch that was appended, with its offsets assigned.
func (s *ProducerState) Apply(h *protocol.BatchHeader) {
	if h.ProducerID < 0 {
		return
	}
	p := s.producer(h.ProducerID)
	p.setEpoch(h.ProducerEpoch)
	if p.n == retainedBatches {
		copy(p.batches[:], p.batches[1:])
		p.n--
	}
	last := lastSequence(h)
	p.batches[p.n] = producedBatch{h.BaseSequence, last, h.LastOffsetDelta, h.LastOffset(), h.MaxTimestamp}
	p.n++
	p.lastTimestamp = h.MaxTimestamp
	if !h.IsTransactional() {
		return
	}
	delete(s.verifications, h.ProducerID)
	if p.txnStart == noOffset {
		p.txnStart = h.BaseOffset
		s.ongoing = append(s.ongoing, ongoingTxn{h.BaseOffset, h.ProducerID})
	}
}

func (s *ProducerState) producer(id int64) *producer {
	p := s.producers[id]
	if p == nil {
		p = &producer{epoch: noEpoch, coordinatorEpoch: -1, lastTimestamp: -1, txnStart: noOffset}
		s.producers[id] = p
	}
	return p
}

func (p *producer) setEpoch(epoch int16) {
	if p.epoch != epoch {
		p.epoch, p.n = epoch, 0
	}
}

// CheckMarker tells whether a transaction marker may be written. From transactionVersion 2 on its epoch must be above the producer's, or
// equal to it while no transaction is open (the repetition of a marker); below, it must not be lower.
// Refusals have code 47, or 52 for a coordinator epoch below the last one seen.
func (s *ProducerState) CheckMarker(producerID int64, epoch int16, coordinatorEpoch int32, transactionVersion int8) *Refusal {
	current, open, coordinator := int16(noEpoch), false, int32(-1)
	if p := s.producers[producerID]; p != nil {
		current, open, coordinator = p.epoch, p.txnStart != noOffset, p.coordinatorEpoch
	}
	if epoch < current || transactionVersion >= 2 && epoch == current && open {
		return appendRefusal(errorcode.InvalidProducerEpoch, "the marker's epoch %d of producer %d does not follow %d in transaction version %d",
			epoch, producerID, current, transactionVersion)
	}
	if coordinatorEpoch < coordinator {
		return appendRefusal(errorcode.TransactionCoordinatorFenced, "coordinator epoch %d of producer %d is below %d", coordinatorEpoch, producerID, coordinator)
	}
	return nil
}

// ApplyMarker takes in a marker that was appended, with its offset assigned. If it aborts an open transaction, that joins the list of AbortedTxns.
// completed tells whether a transaction was open.
func (s *ProducerState) ApplyMarker(h *protocol.BatchHeader, controlType int16, coordinatorEpoch int32) (completed bool) {
	p := s.producer(h.ProducerID)
	delete(s.verifications, h.ProducerID)
	first := p.txnStart
	p.setEpoch(h.ProducerEpoch)
	p.coordinatorEpoch, p.lastTimestamp, p.txnStart = coordinatorEpoch, h.MaxTimestamp, noOffset
	if first == noOffset {
		return false
	}
	s.ongoing = slices.DeleteFunc(s.ongoing, func(t ongoingTxn) bool { return t.producerID == h.ProducerID })
	if controlType == protocol.ControlAbort {
		stable := h.LastOffset() + 1
		if len(s.ongoing) > 0 {
			stable = s.ongoing[0].first
		}
		s.aborted = append(s.aborted, AbortedTxn{h.ProducerID, first, h.LastOffset(), stable})
	}
	return true
}

// Replay takes in a batch read back from the log. controlType and coordinatorEpoch are those of protocol.ParseEndTxnMarker and not looked at for a
// data batch; a control batch of another type, such as one emptied by compaction (type -1), changes nothing.
func (s *ProducerState) Replay(h *protocol.BatchHeader, controlType int16, coordinatorEpoch int32) {
	switch {
	case h.ProducerID < 0:
	case !h.IsControl():
		s.Apply(h)
	case controlType == protocol.ControlAbort || controlType == protocol.ControlCommit:
		s.ApplyMarker(h, controlType, coordinatorEpoch)
	}
}

// Expire forgets the producers without open transaction whose last batch's timestamp lies expirationMs or more back
// (producer.id.expiration.ms). Kafka does so every producer.id.expiration.check.interval.ms. It returns how many went.
func (s *ProducerState) Expire(nowMs, expirationMs int64) int {
	before := len(s.producers)
	for id, p := range s.producers {
		if p.txnStart == noOffset && nowMs-p.lastTimestamp >= expirationMs {
			delete(s.producers, id)
		}
	}
	for id, v := range s.verifications {
		if nowMs-v.started >= expirationMs {
			delete(s.verifications, id)
		}
	}
	return before - len(s.producers)
}

// FirstUnstableOffset is the first offset of the oldest open transaction: the last stable offset while there is one.
func (s *ProducerState) FirstUnstableOffset() (int64, bool) {
	if len(s.ongoing) == 0 {
		return 0, false
	}
	return s.ongoing[0].first, true
}

// Aborted returns the aborted transactions that a fetch of [from, to) must know, in the order of their markers.
func (s *ProducerState) Aborted(from, to int64) []AbortedTxn {
	i, _ := slices.BinarySearchFunc(s.aborted, from, func(t AbortedTxn, from int64) int {
		if t.LastOffset < from {
			return -1
		}
		return 1
	})
	var found []AbortedTxn
	for _, t := range s.aborted[i:] {
		if t.FirstOffset < to {
			found = append(found, t)
		}
		if t.LastStableOffset >= to {
			break
		}
	}
	return found
}

// DropAborted forgets the aborted transactions that end below the log start offset.
func (s *ProducerState) DropAborted(logStartOffset int64) {
	i := 0
	for i < len(s.aborted) && s.aborted[i].LastOffset < logStartOffset {
		i++
	}
	s.aborted = slices.Delete(s.aborted, 0, i)
}

// AbortedBefore are the aborted transactions that begin below an offset, in the order of their markers.
func (s *ProducerState) AbortedBefore(offset int64) (found []AbortedTxn) {
	for _, t := range s.aborted {
		if t.FirstOffset < offset {
			found = append(found, t)
		}
	}
	return found
}

// RetainAborted forgets the aborted transactions that end below an offset and that f does not want kept: those of which compaction has left nothing.
func (s *ProducerState) RetainAborted(offset int64, f func(AbortedTxn) bool) {
	s.aborted = slices.DeleteFunc(s.aborted, func(t AbortedTxn) bool { return t.LastOffset < offset && !f(t) })
}

// Producers calls f for each producer, in no order, until f returns false.
func (s *ProducerState) Producers(f func(Producer) bool) {
	for id, p := range s.producers {
		d := Producer{id, p.epoch, -1, p.lastTimestamp, p.coordinatorEpoch, p.txnStart, -1}
		if p.n > 0 {
			last := &p.batches[p.n-1]
			d.LastSequence, d.LastOffset = last.lastSeq, last.lastOffset
		}
		if !f(d) {
			return
		}
	}
}

// Len is the number of producers remembered.
func (s *ProducerState) Len() int { return len(s.producers) }
