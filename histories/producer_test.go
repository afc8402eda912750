package histories

import (
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// instance is a producer that works in one transaction after the other. Of those that share a transactional id the one that has come last owns it, which the
// others notice when they are refused, and then some still try to go on.
type instance struct {
	*client
	id        string
	old       bool // transactions as before KIP-890: AddPartitionsToTxn, and the epoch stays
	timeout   time.Duration
	has       bool // a producer
	by        producer
	sequences map[int]int32
	txn       int // the open transaction, -1 for none
	records   int // that the transaction still gets
	added     map[int]bool
	doing     *operation
	lost      bool // an attempt may have come about
	adds      bool // the attempt adds the partition
	stubborn  int  // what is tried as a fenced producer
	rests     time.Time
}

func newInstance(s *simulation, name, id string, old bool) *instance {
	return &instance{client: newClient(s, name), id: id, old: old, timeout: time.Duration(2+s.rand.IntN(9)) * time.Second, txn: -1}
}

// turn lets the producer do one thing.
func (p *instance) turn() error {
	switch {
	case p.request != nil:
		return p.listen()
	case p.s.machine.clock.Now().Before(p.rests):
		return nil
	case p.doing != nil:
		if p.lost && p.s.one(5) { // it does not try again
			p.giveUp()
			return nil
		}
		return p.attempt()
	case !p.has:
		p.begin(&operation{kind: initialised, id: p.id})
	case p.s.one(40):
		p.has, p.txn = false, -1 // it begins anew, as after a restart of its own
		return nil
	case p.txn < 0:
		p.txn = len(p.s.history.txns)
		p.s.history.txns = append(p.s.history.txns, transaction{p.id, p.by, p.old, p.timeout})
		p.records, p.added = 1+p.s.rand.IntN(4), map[int]bool{}
		return nil
	case p.records > 0:
		p.records--
		p.s.values++
		if p.s.one(5) {
			p.begin(&operation{kind: pended, txn: p.txn, id: p.id, by: p.by, record: record{-1, p.s.values}})
			break
		}
		p.begin(&operation{kind: appended, txn: p.txn, by: p.by, partition: p.s.rand.IntN(partitions), record: record{-1, p.s.values}})
	default:
		p.begin(&operation{kind: ended, txn: p.txn, id: p.id, by: p.by, commit: !p.s.one(3)})
	}
	return p.attempt()
}

func (p *instance) begin(o *operation) {
	o.client = p.name
	p.doing, p.lost, p.adds = o, false, false
	o.call, o.at = p.s.moment()
	o.ret = never
}

// attempt sends what is to be done.
func (p *instance) attempt() error {
	node, q, err := p.ask()
	if err != nil {
		return err
	}
	if node == 0 || !p.send(node, q) {
		p.rest()
		return nil
	}
	p.s.trace("%s: %s to node %d", p.name, kmsg.NameForKey(q.Key()), node)
	return p.listen()
}

func (p *instance) rest() {
	p.rests = p.s.machine.clock.Now().Add(time.Duration(1+p.s.rand.IntN(200)) * time.Millisecond)
}

// ask is the request of an attempt, and the node that it is for.
func (p *instance) ask() (int32, kmsg.Request, error) {
	o := p.doing
	switch o.kind {
	case initialised:
		q := kmsg.NewPtrInitProducerIDRequest()
		q.SetVersion(5)
		q.TransactionalID, q.TransactionTimeoutMillis = &p.id, int32(p.timeout.Milliseconds())
		return p.s.machine.transactionCoordinator(p.id), q, nil
	case ended:
		q := kmsg.NewPtrEndTxnRequest()
		q.SetVersion(5)
		if p.old {
			q.SetVersion(4)
		}
		q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Commit = p.id, o.by.id, o.by.epoch, o.commit
		return p.s.machine.transactionCoordinator(p.id), q, nil
	}
	if o.kind == pended {
		return p.askOffsets(o)
	}
	if p.old && !p.added[o.partition] {
		p.adds = true
		q := kmsg.NewPtrAddPartitionsToTxnRequest()
		q.SetVersion(3)
		q.TransactionalID, q.ProducerID, q.ProducerEpoch = p.id, o.by.id, o.by.epoch
		q.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topicName, Partitions: []int32{int32(o.partition)}}}
		return p.s.machine.transactionCoordinator(p.id), q, nil
	}
	p.adds = false
	b := protocol.NewBatchBuilder()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = o.by.id, o.by.epoch, p.sequences[o.partition], true
	if err := b.Append(p.s.machine.clock.Now().UnixMilli(), nil, strconv.AppendInt(nil, int64(o.value), 10)); err != nil {
		return 0, nil, err
	}
	batch, err := b.Finish()
	if err != nil {
		return 0, nil, err
	}
	q := kmsg.NewPtrProduceRequest()
	q.SetVersion(12)
	if p.old {
		q.SetVersion(11)
	}
	x := kmsg.NewProduceRequestTopicPartition()
	x.Partition, x.Records = int32(o.partition), batch
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topicName, append(t.Partitions, x)
	q.Acks, q.TimeoutMillis, q.TransactionID, q.Topics = -1, 5000, &p.id, append(q.Topics, t)
	return p.s.machine.leader(topicName, int32(o.partition)), q, nil
}

// offsets stands among the added partitions for the group's offsets.
const offsets = -1

// askOffsets is ask for the offsets of the id's group.
func (p *instance) askOffsets(o *operation) (int32, kmsg.Request, error) {
	p.adds = p.old && !p.added[offsets]
	if p.adds {
		q := kmsg.NewPtrAddOffsetsToTxnRequest()
		q.SetVersion(3)
		q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Group = p.id, o.by.id, o.by.epoch, p.id
		return p.s.machine.transactionCoordinator(p.id), q, nil
	}
	q := kmsg.NewPtrTxnOffsetCommitRequest()
	q.SetVersion(5)
	if p.old {
		q.SetVersion(3)
	}
	x := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	x.Offset = int64(o.value)
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic, t.Partitions = topicName, append(t.Partitions, x)
	q.TransactionalID, q.Group, q.ProducerID, q.ProducerEpoch, q.Topics = p.id, p.id, o.by.id, o.by.epoch, append(q.Topics, t)
	return p.s.machine.groupCoordinator(p.id), q, nil
}

// listen takes the answer of an attempt if it has come.
func (p *instance) listen() error {
	a, lost, err := p.received()
	switch {
	case err != nil:
		return err
	case lost:
		p.s.trace("%s: the connection is gone", p.name)
		p.unsure()
		return nil
	case a == nil:
		if p.s.one(60) {
			p.s.trace("%s gives up on the answer", p.name)
			p.lose()
			p.unsure()
		}
		return nil
	}
	return p.take(a)
}

func (p *instance) take(a kmsg.Response) error {
	code, message := errorcode.None, ""
	offset := int64(-1)
	next := p.by
	switch a := a.(type) {
	case *kmsg.InitProducerIDResponse:
		code, next = a.ErrorCode, producer{a.ProducerID, a.ProducerEpoch}
	case *kmsg.EndTxnResponse:
		code = a.ErrorCode
		if !p.old {
			next = producer{a.ProducerID, a.ProducerEpoch}
		}
	case *kmsg.AddPartitionsToTxnResponse:
		code = a.Topics[0].Partitions[0].ErrorCode
	case *kmsg.AddOffsetsToTxnResponse:
		code = a.ErrorCode
	case *kmsg.TxnOffsetCommitResponse:
		code = a.Topics[0].Partitions[0].ErrorCode
	case *kmsg.ProduceResponse:
		x := a.Topics[0].Partitions[0]
		code, offset = x.ErrorCode, x.BaseOffset
		if x.ErrorMessage != nil {
			message = *x.ErrorMessage
		}
	}
	p.s.trace("%s: answered %s %s offset %d producer %s", p.name, errorcode.Name(code), message, offset, next)
	o := p.doing
	switch {
	case code == errorcode.None && p.adds:
		if o.kind == pended {
			p.added[offsets] = true
		} else {
			p.added[o.partition] = true
		}
		return p.attempt()
	case code == errorcode.None:
		p.done(offset, next)
		return nil
	case again(code):
		p.rest()
		if o.kind == initialised && code == errorcode.ConcurrentTransactions || code == errorcode.RequestTimedOut || code == errorcode.NotEnoughReplicasAfterAppend {
			p.unsure()
		}
		return nil
	case refused(code):
		p.s.refused++
		p.giveUp()
		return nil
	}
	return fmt.Errorf("%s: %s was answered with %s %s", p.name, o, errorcode.Name(code), message)
}

// unsure notes that the attempt may have come about. Each attempt to initialise is an operation of its own. The end of an old transaction is not asked for
// again, and an offset in it is not committed again: the first request may still be on its way, and would be taken for one of the next transaction, which has the same epoch.
func (p *instance) unsure() {
	p.lost = true
	if p.doing.kind == initialised || p.old && (p.doing.kind == ended || p.doing.kind == pended) {
		p.giveUp()
	}
}

// again tells whether an error is one after which the same request is sent again.
func again(code int16) bool {
	switch code {
	case errorcode.CoordinatorLoadInProgress, errorcode.CoordinatorNotAvailable, errorcode.NotCoordinator, errorcode.ConcurrentTransactions,
		errorcode.NotLeaderOrFollower, errorcode.LeaderNotAvailable, errorcode.UnknownTopicOrPartition, errorcode.RequestTimedOut,
		errorcode.NotEnoughReplicas, errorcode.NotEnoughReplicasAfterAppend:
		return true
	}
	return false
}

// refused tells whether an error is one with which a producer that is fenced, or whose transaction is over, is refused.
func refused(code int16) bool {
	switch code {
	case errorcode.InvalidProducerEpoch, errorcode.ProducerFenced, errorcode.InvalidTxnState, errorcode.InvalidProducerIDMapping, errorcode.OutOfOrderSequenceNumber,
		errorcode.UnknownProducerID, errorcode.TransactionAbortable:
		return true
	}
	return false
}

// done notes that the operation has come about.
func (p *instance) done(offset int64, next producer) {
	o := p.doing
	p.doing = nil
	o.ret, o.until = p.s.moment()
	switch o.kind {
	case initialised:
		o.by, p.by, p.has, p.txn = next, next, true, -1
		p.sequences, p.stubborn = map[int]int32{}, p.s.rand.IntN(3)
	case appended:
		o.offset = offset
		p.sequences[o.partition]++
	case ended:
		o.by, p.txn = next, -1
		if next != p.by {
			p.sequences = map[int]int32{}
		}
		p.by = next
	}
	p.s.note(o)
}

// giveUp leaves the operation. One that may have come about is noted, without a return. A producer begins anew, some only after they have tried more.
func (p *instance) giveUp() {
	o := p.doing
	p.doing = nil
	if p.lost {
		p.s.note(o)
	}
	switch {
	case o.kind == initialised:
	case p.stubborn > 0 && !(p.old && p.lost): // what an old producer has on its way may be taken for part of its next transaction
		p.stubborn--
		if o.kind == appended {
			p.sequences[o.partition]++
		}
		p.s.trace("%s goes on all the same", p.name)
	default:
		p.has, p.txn = false, -1
	}
}
