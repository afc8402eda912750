package conformance

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// transactionRules are about idempotent and transactional producers.
var transactionRules = []Rule{
	{ID: "txn.init.1", Level: Must, Source: "KIP-98, KIP-360", Says: "Batches have a producer id and epoch that a broker gave; without transactions the epoch may be raised by the client.", checks: onBatch(func(x *exam, r *request, q *kmsg.ProduceRequest, b *producedBatch) {
		x.expect(x.producers.knows(b.pid, b.epoch, q.TransactionID == nil), nil, "%s has the producer id %d and epoch %d, which no answer gave", b.text(x), b.pid, b.epoch)
	})},
	{ID: "txn.coord.1", Level: Must, Needs: NeedsNodes, Source: "KIP-98: NOT_COORDINATOR", Says: "Requests about a transaction go to its coordinator, offsets in it to that of the group.", checks: checks{request: func(x *exam, r *request) {
		kind, key := transactionCoordinator, ""
		switch q := r.q.(type) {
		case *protocol.InitProducerIDRequest:
			if q.TransactionalID != nil {
				key = *q.TransactionalID
			}
		case *kmsg.AddPartitionsToTxnRequest:
			key = q.TransactionalID
		case *kmsg.AddOffsetsToTxnRequest:
			key = q.TransactionalID
		case *kmsg.EndTxnRequest:
			key = q.TransactionalID
		case *kmsg.TxnOffsetCommitRequest:
			kind, key = groupCoordinator, q.Group
		}
		if key == "" {
			return
		}
		if may, of := x.coordinates(r.conn.client, kind, key, r.conn.node); of != nil {
			x.expect(may, []int{of.told.no}, "%s goes to node %d, the coordinator of %q is node %d", r.api.Name, r.conn.node, key, of.node)
		}
	}}},
	{ID: "txn.seq.1", Level: Must, Source: "KIP-98: OUT_OF_ORDER_SEQUENCE_NUMBER", Says: "The sequences of a partition begin at 0 and go on without gap and overlap.", checks: onBatch(func(x *exam, r *request, q *kmsg.ProduceRequest, b *producedBatch) {
		s := x.producers.sequenceOf(b)
		switch {
		case s == nil:
			x.expect(b.base == 0, nil, "%s begins with the sequence %d", b.text(x), b.base)
		case s.find(b.base) != nil || s.loose && (b.base == 0 || b.base <= s.next):
		default:
			x.expect(b.base == s.next, []int{s.last}, "%s has the sequence %d, %d is next", b.text(x), b.base, s.next)
		}
	})},
	{ID: "txn.seq.2", Level: Must, Source: "KIP-98; franz-go #1484", Says: "A batch that is sent again is the same batch.", checks: onBatch(func(x *exam, r *request, q *kmsg.ProduceRequest, b *producedBatch) {
		s := x.producers.sequenceOf(b)
		if s == nil {
			return
		}
		if old := s.find(b.base); old != nil && !old.failed {
			x.expect(old.count == b.count && old.crc == b.crc, []int{old.no}, "%s with the sequence %d has %d records and CRC %08x, the first time it had %d and %08x", b.text(x), b.base, b.count, b.crc, old.count, old.crc)
		}
	})},
	{ID: "txn.flight.1", Level: Must, Source: "KIP-98", Says: "An idempotent producer has 5 requests in flight on a connection at most.", checks: onProduce(func(x *exam, r *request, q *kmsg.ProduceRequest, bs []producedBatch) {
		n := 1
		for _, other := range r.conn.flight {
			if _, ok := other.q.(*kmsg.ProduceRequest); ok {
				n++
			}
		}
		x.expect(n <= 5, nil, "%d Produce requests are in flight on connection %d", n, r.conn.id)
	})},
	{ID: "txn.acks.1", Level: Must, Source: "KIP-98", Says: "An idempotent producer asks for all acknowledgements.", checks: onProduce(func(x *exam, r *request, q *kmsg.ProduceRequest, bs []producedBatch) {
		x.expect(q.Acks == -1, nil, "Acks is %d, and the batches have a producer id", q.Acks)
	})},
	{ID: "txn.batch.1", Level: Must, Source: "KIP-98", Says: "Batches of a transactional producer are transactional, and no others.", checks: onBatch(func(x *exam, r *request, q *kmsg.ProduceRequest, b *producedBatch) {
		x.expect(b.transactional == (q.TransactionID != nil), nil, "%s: the batch's bit is %t and TransactionalId is %s", b.text(x), b.transactional, orNull(q.TransactionID))
	})},
	{ID: "txn.add.1", Level: Must, Source: "KIP-98", Says: "With Produce below version 12 a partition is added to the transaction before its first batch.", checks: onBatch(func(x *exam, r *request, q *kmsg.ProduceRequest, b *producedBatch) {
		if q.TransactionID != nil && q.Version < 12 {
			t := x.producers.transaction(*q.TransactionID)
			x.expect(t.added[b.partitionName()], []int{t.begun.no}, "%s has a batch, and no AddPartitionsToTxn was answered for it in this transaction", b.text(x))
		}
	})},
	{ID: "txn.add.2", Level: Must, Source: "KIP-890", Says: "A transaction is one of the old protocol or of the new: Produce 12, TxnOffsetCommit 5 and EndTxn 5 go without AddPartitionsToTxn and AddOffsetsToTxn, and need transaction.version 2.", checks: checks{request: func(x *exam, r *request) {
		id, new, ok := protocolOf(r)
		if !ok {
			return
		}
		t := x.producers.transaction(id)
		other := t.oldest
		if !new {
			other = t.newest
		}
		switch {
		case new && x.producers.level == 1:
			x.wrong(nil, "%s v%d is of transaction.version 2, the cluster has 1", r.api.Name, r.header.Version)
		default:
			x.expect(!other.is(), []int{other.no}, "%s v%d is of another protocol than an earlier request of the transaction", r.api.Name, r.header.Version)
		}
	}}},
	{ID: "txn.off.1", Level: Must, Source: "KIP-98, KIP-447", Says: "Below version 5 AddOffsetsToTxn goes before TxnOffsetCommit.", checks: on(func(x *exam, r *request, q *kmsg.TxnOffsetCommitRequest) {
		if q.Version < 5 {
			t := x.producers.transaction(q.TransactionalID)
			x.expect(t.added["group "+q.Group], nil, "no AddOffsetsToTxn was answered for the group %q in this transaction", q.Group)
		}
	})},
	{ID: "txn.end.1", Level: Must, Source: "KIP-98", Says: "A transaction is committed when all its batches and offsets are answered without error.", checks: onEnd(func(x *exam, r *request, q *kmsg.EndTxnRequest, t *transaction) {
		if q.Commit {
			x.expect(len(t.unresolved) == 0, t.unresolvedFrames(), "the transaction is committed, and %d of its batches or offset commits are not answered well", len(t.unresolved))
		}
	})},
	{ID: "txn.end.2", Level: Must, Source: "KIP-890", Says: "After TRANSACTION_ABORTABLE a transaction is aborted.", checks: onEnd(func(x *exam, r *request, q *kmsg.EndTxnRequest, t *transaction) {
		if t.abortable.is() {
			x.expect(!q.Commit, []int{t.abortable.no}, "the transaction is committed after TRANSACTION_ABORTABLE")
		}
	})},
	{ID: "txn.end.3", Level: Must, Source: "KIP-890", Says: "After EndTxn 5 the id and epoch of its answer are used.", checks: checks{request: func(x *exam, r *request) {
		id, pid, epoch, ok := producerOf(r)
		if !ok {
			return
		}
		t := x.producers.transaction(id)
		if t.next.is() && t.endedBy == r.conn.client {
			_, isEnd := r.q.(*kmsg.EndTxnRequest) // which may be a retry
			x.expect(isEnd || pid == t.nextPID && epoch == t.nextEpoch, []int{t.next.no}, "%s has the producer id %d and epoch %d, EndTxn was answered with %d and %d", r.api.Name, pid, epoch, t.nextPID, t.nextEpoch)
		}
	}}},
	{ID: "txn.end.4", Level: Should, Source: "KIP-98", Says: "A transaction in which nothing was done sends no EndTxn.", checks: onEnd(func(x *exam, r *request, q *kmsg.EndTxnRequest, t *transaction) {
		x.expect(t.work || t.unknown.is(), []int{t.begun.no}, "the transaction has neither batches nor offsets nor acknowledgements")
	})},
	{ID: "txn.end.5", Level: Must, Source: "franz-go v1.21.6", Says: "After an EndTxn without an answer nothing new is done under the same epoch.", checks: checks{request: func(x *exam, r *request) {
		id, pid, epoch, ok := producerOf(r)
		if !ok {
			return
		}
		t := x.producers.transaction(id)
		if _, isEnd := r.q.(*kmsg.EndTxnRequest); t.unknown.is() && !isEnd {
			x.expect(pid != t.endPID || epoch != t.endEpoch, []int{t.unknown.no}, "%s has the epoch %d of an EndTxn that was not answered", r.api.Name, epoch)
		}
	}}},
	{ID: "txn.fence.1", Level: Must, Source: "KIP-98, KIP-360", Says: "A producer that is fenced sends nothing about transactions until it has initialised again.", checks: checks{request: func(x *exam, r *request) {
		id, pid, epoch, ok := producerOf(r)
		if !ok {
			return
		}
		t := x.producers.transaction(id)
		if t.fenced.is() {
			x.expect(!x.old(t.fenced) || pid != t.fencedPID || epoch != t.fencedEpoch, []int{t.fenced.no}, "%s comes after %s", r.api.Name, codeName(t.code))
		}
	}}},
	{ID: "txn.read.1", Level: Must, Source: "KIP-98", Needs: NeedsDriver, Says: "Readers of committed records drop exactly those of aborted transactions."},
}

// producedBatch is a batch of a Produce.
type producedBatch struct {
	namedPartition
	pid           int64
	epoch         int16
	base, count   int32
	crc           uint32
	transactional bool
}

func (b *producedBatch) text(x *exam) string {
	return fmt.Sprintf("%s-%d", x.named(b.name, b.id), b.index)
}

func (b *producedBatch) partitionName() string {
	if b.name != "" {
		return fmt.Sprintf("%s-%d", b.name, b.index)
	}
	return fmt.Sprintf("%x-%d", b.id, b.index)
}

// batchesOf are the first batches of the partitions of a Produce that have a producer id. There is one each.
func batchesOf(q *kmsg.ProduceRequest) (all []producedBatch) {
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			h, err := protocol.ParseBatchHeader(p.Records)
			if err == nil && h.Magic == 2 && h.ProducerID >= 0 {
				all = append(all, producedBatch{namedPartition{t.Topic, t.TopicID, p.Partition}, h.ProducerID, h.ProducerEpoch, h.BaseSequence, h.NumRecords, h.CRC, h.IsTransactional()})
			}
		}
	}
	return all
}

// onProduce makes a check of requests of idempotent producers.
func onProduce(f func(*exam, *request, *kmsg.ProduceRequest, []producedBatch)) checks {
	return on(func(x *exam, r *request, q *kmsg.ProduceRequest) {
		if bs := r.extra.([]producedBatch); len(bs) > 0 {
			f(x, r, q, bs)
		}
	})
}

// onBatch makes a check of their batches.
func onBatch(f func(*exam, *request, *kmsg.ProduceRequest, *producedBatch)) checks {
	return onProduce(func(x *exam, r *request, q *kmsg.ProduceRequest, bs []producedBatch) {
		for i := range bs {
			f(x, r, q, &bs[i])
		}
	})
}

// onEnd makes a check of the ends of transactions. Whoever has lost the transactional id to another producer is not looked at.
func onEnd(f func(*exam, *request, *kmsg.EndTxnRequest, *transaction)) checks {
	return on(func(x *exam, r *request, q *kmsg.EndTxnRequest) {
		if t := x.producers.transaction(q.TransactionalID); !t.owned || q.ProducerID == t.pid && q.ProducerEpoch >= t.epoch {
			f(x, r, q, t)
		}
	})
}

// protocolOf tells whether a request is one of the new protocol of transactions (KIP-890) or of the old, if it is of either.
func protocolOf(r *request) (id string, new, ok bool) {
	switch q := r.q.(type) {
	case *kmsg.ProduceRequest:
		if q.TransactionID != nil {
			return *q.TransactionID, q.Version >= 12, true
		}
	case *kmsg.AddPartitionsToTxnRequest:
		return q.TransactionalID, false, q.Version < 4
	case *kmsg.AddOffsetsToTxnRequest:
		return q.TransactionalID, false, true
	case *kmsg.TxnOffsetCommitRequest:
		return q.TransactionalID, q.Version >= 5, true
	case *kmsg.EndTxnRequest:
		return q.TransactionalID, q.Version >= 5, true
	}
	return "", false, false
}

// producerOf is the transactional id, producer id and epoch of a request that acts in a transaction.
func producerOf(r *request) (id string, pid int64, epoch int16, ok bool) {
	switch q := r.q.(type) {
	case *kmsg.ProduceRequest:
		if bs := r.extra.([]producedBatch); q.TransactionID != nil && len(bs) > 0 {
			return *q.TransactionID, bs[0].pid, bs[0].epoch, true
		}
	case *kmsg.AddPartitionsToTxnRequest:
		return q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Version < 4
	case *kmsg.AddOffsetsToTxnRequest:
		return q.TransactionalID, q.ProducerID, q.ProducerEpoch, true
	case *kmsg.TxnOffsetCommitRequest:
		return q.TransactionalID, q.ProducerID, q.ProducerEpoch, true
	case *kmsg.EndTxnRequest:
		return q.TransactionalID, q.ProducerID, q.ProducerEpoch, true
	}
	return "", 0, 0, false
}

// transaction is what the judge knows of a transactional id.
type transaction struct {
	begun       mark // the InitProducerId or EndTxn before
	owned       bool // an InitProducerId was answered, with
	pid         int64
	epoch       int16
	added       map[string]bool
	unresolved  map[string]int // batches and offset commits that are not answered well: the frame
	work        bool
	abortable   mark
	oldest      mark // a request of the old protocol
	newest      mark // one of the new
	next        mark // an answer of EndTxn 5
	nextPID     int64
	nextEpoch   int16
	unknown     mark // an EndTxn whose answer was lost
	endPID      int64
	endEpoch    int16
	endedBy     *client
	fenced      mark
	fencedPID   int64
	fencedEpoch int16
	code        int16
	staging     map[int]bool // TxnShareAcknowledge in flight
	unstaged    mark         // one that failed
}

func (t *transaction) unresolvedFrames() []int {
	least := 0
	for _, no := range t.unresolved {
		if least == 0 || no < least {
			least = no
		}
	}
	return []int{least}
}

func (t *transaction) restart(m mark) {
	t.begun, t.added, t.unresolved, t.work, t.abortable, t.oldest, t.newest = m, map[string]bool{}, map[string]int{}, false, mark{}, mark{}, mark{}
	t.unknown, t.unstaged = mark{}, mark{}
}

// sequence is how far the batches of a producer are in a partition.
type sequence struct {
	next   int32
	last   int // frame
	loose  bool
	recent []sentBatch
}

type sentBatch struct {
	base, count int32
	crc         uint32
	no          int
	failed      bool
}

func (s *sequence) find(base int32) *sentBatch {
	for i := range s.recent {
		if s.recent[i].base == base {
			return &s.recent[i]
		}
	}
	return nil
}

type sequenceKey struct {
	namedPartition
	pid   int64
	epoch int16
}

// producerModel is what the judge knows of producers.
type producerModel struct {
	level        int16                 // of transaction.version, -1 where it is not known
	given        bounded[int64, int16] // the latest epoch of a producer id
	sequences    bounded[sequenceKey, *sequence]
	transactions bounded[string, *transaction]
}

func newProducerModel() producerModel {
	return producerModel{-1, newBounded[int64, int16](maxGroups), newBounded[sequenceKey, *sequence](maxLeaders), newBounded[string, *transaction](maxGroups)}
}

func (m *producerModel) knows(pid int64, epoch int16, idempotentOnly bool) bool {
	last, ok := m.given.get(pid)
	if ok && idempotentOnly && epoch == last+1 {
		m.given.put(pid, epoch)
	}
	return ok && (epoch <= last || idempotentOnly && epoch == last+1)
}

func (m *producerModel) sequenceOf(b *producedBatch) *sequence {
	s, _ := m.sequences.get(sequenceKey{b.namedPartition, b.pid, b.epoch})
	return s
}

func (m *producerModel) transaction(id string) *transaction {
	t, ok := m.transactions.get(id)
	if !ok {
		t = &transaction{staging: map[int]bool{}}
		t.restart(mark{})
		m.transactions.put(id, t)
	}
	return t
}

func (m *producerModel) prepare(_ *Judge, r *request) {
	if q, ok := r.q.(*kmsg.ProduceRequest); ok {
		r.extra = batchesOf(q)
	}
}

func (m *producerModel) take(j *Judge, r *request) {
	if id, new, ok := protocolOf(r); ok {
		t := m.transaction(id)
		if new {
			t.newest = r.mark
		} else {
			t.oldest = r.mark
		}
		if _, isEnd := r.q.(*kmsg.EndTxnRequest); !isEnd {
			t.work = true
			t.next = mark{} // a transaction goes on
		}
	}
	switch q := r.q.(type) {
	case *kmsg.ProduceRequest:
		for _, b := range r.extra.([]producedBatch) {
			m.takeBatch(r, q, &b)
		}
	case *kmsg.TxnOffsetCommitRequest:
		m.transaction(q.TransactionalID).unresolved["offsets of "+q.Group] = r.no
	case *kmsg.EndTxnRequest:
		t := m.transaction(q.TransactionalID)
		t.endPID, t.endEpoch, t.endedBy = q.ProducerID, q.ProducerEpoch, r.conn.client
	case *protocol.InitProducerIDRequest:
		if q.TransactionalID != nil {
			t := m.transaction(*q.TransactionalID)
			t.fenced = mark{}
		}
	}
}

func (m *producerModel) takeBatch(r *request, q *kmsg.ProduceRequest, b *producedBatch) {
	s := m.sequenceOf(b)
	if s == nil {
		s = &sequence{}
		m.sequences.put(sequenceKey{b.namedPartition, b.pid, b.epoch}, s)
	}
	sent := sentBatch{b.base, b.count, b.crc, r.no, false}
	if old := s.find(b.base); old != nil {
		*old = sent
	} else {
		if s.recent = append(s.recent, sent); len(s.recent) > 5 {
			s.recent = s.recent[1:]
		}
		s.next, s.last = advance(b.base, b.count), r.no
	}
	if q.TransactionID != nil {
		t := m.transaction(*q.TransactionID)
		if len(t.unresolved) < maxNames {
			t.unresolved[fmt.Sprintf("%s at %d", b.partitionName(), b.base)] = r.no
		}
	}
}

// advance is the sequence behind some records; 0 follows 2147483647.
func advance(base, count int32) int32 {
	return int32((int64(base) + int64(count)) & (1<<31 - 1))
}

func (m *producerModel) learn(_ *Judge, a *answer) {
	switch p := a.p.(type) {
	case *protocol.InitProducerIDResponse:
		q := a.q.(*protocol.InitProducerIDRequest)
		if p.ErrorCode == errorcode.None {
			m.give(p.ProducerID, p.ProducerEpoch)
		}
		if q.TransactionalID != nil {
			t := m.transaction(*q.TransactionalID)
			if p.ErrorCode == errorcode.None {
				t.restart(a.mark)
				t.next = mark{}
				t.owned, t.pid, t.epoch = true, p.ProducerID, p.ProducerEpoch
			} else {
				t.fail(a, p.ErrorCode, q.ProducerID, q.ProducerEpoch)
			}
		}
	case *kmsg.AddPartitionsToTxnResponse:
		q := a.q.(*kmsg.AddPartitionsToTxnRequest)
		if q.Version >= 4 {
			return
		}
		t := m.transaction(q.TransactionalID)
		for _, topic := range p.Topics {
			for _, pp := range topic.Partitions {
				if pp.ErrorCode == errorcode.None {
					if len(t.added) < maxNames {
						t.added[fmt.Sprintf("%s-%d", topic.Topic, pp.Partition)] = true
					}
				} else {
					t.fail(a, pp.ErrorCode, q.ProducerID, q.ProducerEpoch)
				}
			}
		}
	case *kmsg.AddOffsetsToTxnResponse:
		q := a.q.(*kmsg.AddOffsetsToTxnRequest)
		t := m.transaction(q.TransactionalID)
		if p.ErrorCode == errorcode.None {
			t.added["group "+q.Group] = true
		} else {
			t.fail(a, p.ErrorCode, q.ProducerID, q.ProducerEpoch)
		}
	case *kmsg.TxnOffsetCommitResponse:
		q := a.q.(*kmsg.TxnOffsetCommitRequest)
		t := m.transaction(q.TransactionalID)
		well := true
		for _, topic := range p.Topics {
			for _, pp := range topic.Partitions {
				if pp.ErrorCode != errorcode.None {
					well = false
					t.fail(a, pp.ErrorCode, q.ProducerID, q.ProducerEpoch)
				}
			}
		}
		if well {
			delete(t.unresolved, "offsets of "+q.Group)
		}
	case *kmsg.EndTxnResponse:
		q := a.q.(*kmsg.EndTxnRequest)
		t := m.transaction(q.TransactionalID)
		t.unknown = mark{}
		if p.ErrorCode != errorcode.None {
			t.fail(a, p.ErrorCode, q.ProducerID, q.ProducerEpoch)
			return
		}
		t.restart(a.mark)
		if q.Version >= 5 && p.ProducerID >= 0 {
			t.next, t.nextPID, t.nextEpoch = a.mark, p.ProducerID, p.ProducerEpoch
			t.pid, t.epoch = p.ProducerID, p.ProducerEpoch
			m.give(p.ProducerID, p.ProducerEpoch)
		}
	case *kmsg.ProduceResponse:
		m.learnProduce(a, p)
	}
}

func (m *producerModel) give(pid int64, epoch int16) {
	if last, ok := m.given.get(pid); !ok || epoch > last {
		m.given.put(pid, epoch)
	}
}

func (m *producerModel) learnProduce(a *answer, p *kmsg.ProduceResponse) {
	q := a.q.(*kmsg.ProduceRequest)
	codes := map[namedPartition]int16{}
	for _, t := range p.Topics {
		for _, pp := range t.Partitions {
			codes[namedPartition{t.Topic, t.TopicID, pp.Partition}] = pp.ErrorCode
		}
	}
	for _, b := range a.extra.([]producedBatch) {
		code, ok := codes[b.namedPartition]
		s := m.sequenceOf(&b)
		if !ok || s == nil {
			continue
		}
		if code == errorcode.DuplicateSequenceNumber {
			code = errorcode.None
		}
		old := s.find(b.base)
		s.loose = code != errorcode.None
		if old != nil {
			old.failed = code != errorcode.None && code != errorcode.RequestTimedOut && code != errorcode.NotEnoughReplicasAfterAppend
		}
		if q.TransactionID != nil {
			t := m.transaction(*q.TransactionID)
			if code == errorcode.None {
				delete(t.unresolved, fmt.Sprintf("%s at %d", b.partitionName(), b.base))
			} else if code == errorcode.TransactionAbortable {
				t.abortable = a.mark
			}
		}
	}
}

// fail notes an error that a transaction's coordinator has answered.
func (t *transaction) fail(a *answer, code int16, pid int64, epoch int16) {
	switch code {
	case errorcode.TransactionAbortable:
		t.abortable = a.mark
	case errorcode.ProducerFenced, errorcode.InvalidProducerEpoch, errorcode.TransactionalIDAuthorizationFailed:
		t.fenced, t.fencedPID, t.fencedEpoch, t.code = a.mark, pid, epoch, code
	}
}

func (m *producerModel) lose(j *Judge, c *conn) {
	for _, r := range c.flight {
		switch q := r.q.(type) {
		case *kmsg.EndTxnRequest:
			t := m.transaction(q.TransactionalID)
			t.unknown = j.mark()
		case *kmsg.ProduceRequest:
			for _, b := range r.extra.([]producedBatch) {
				if s := m.sequenceOf(&b); s != nil {
					s.loose = true
				}
			}
		}
	}
}
