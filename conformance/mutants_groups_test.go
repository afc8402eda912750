package conformance_test

import (
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/protocol"
)

// next sends a heartbeat of a consumer group of KIP-848.
func (c *consumer) next(epoch int32, change func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatResponse {
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.MemberEpoch, q.RebalanceTimeoutMillis = 1, "readers", c.member, epoch, -1
	if epoch == 0 {
		q.RebalanceTimeoutMillis, q.SubscribedTopicNames, q.Topics = 30_000, c.names, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if change != nil {
		change(q)
	}
	return c.link(1).call(q).(*kmsg.ConsumerGroupHeartbeatResponse)
}

// owner joins a consumer group and reports that it owns what it was given.
func (c *consumer) owner() (epoch int32, owned []kmsg.ConsumerGroupHeartbeatRequestTopic) {
	c.find()
	c.metadata()
	p := c.next(0, nil)
	for range 10 {
		if p.Assignment != nil && len(p.Assignment.Topics) > 0 {
			break
		}
		c.wait(5 * time.Second)
		p = c.next(p.MemberEpoch, nil)
	}
	for _, t := range p.Assignment.Topics {
		owned = append(owned, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t.TopicID, Partitions: t.Partitions})
	}
	c.next(p.MemberEpoch, func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.Topics = owned })
	return p.MemberEpoch, owned
}

// fetchOf makes a Fetch of a partition by id.
func fetchOf(id [16]byte, partition int32, session, epoch int32, offset int64) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.Version, q.MaxBytes, q.SessionID, q.SessionEpoch, q.MaxWaitMillis = 13, 1<<20, session, epoch, 10
	t := kmsg.NewFetchRequestTopic()
	t.TopicID = id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.CurrentLeaderEpoch, p.PartitionMaxBytes = partition, offset, -1, 1<<20
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return q
}

// classic joins a classic group and returns member id and generation.
func (c *consumer) classic() (id string, generation int32) {
	c.find()
	first := c.link(1).call(c.joining("")).(*kmsg.JoinGroupResponse)
	p := c.link(1).call(c.joining(first.MemberID)).(*kmsg.JoinGroupResponse)
	require.Zero(c, p.ErrorCode)
	q := kmsg.NewPtrSyncGroupRequest()
	q.Version, q.Group, q.MemberID, q.Generation = 4, "classics", p.MemberID, p.Generation
	q.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: p.MemberID, MemberAssignment: []byte{}}}
	c.link(1).call(q)
	return p.MemberID, p.Generation
}

func (c *consumer) joining(id string) *kmsg.JoinGroupRequest {
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version, q.Group, q.MemberID, q.ProtocolType, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 9, "classics", id, "consumer", 30_000, 1_000
	q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{}}}
	return q
}

func (c *consumer) commit(id string, generation int32, offset int64) {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.MemberID, q.Generation = 8, "classics", id, generation
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	c.link(1).call(q)
}

var groupMutants = []mutant{
	{rule: "group.next.join.1", what: "null", run: func(c *consumer) {
		c.next(0, func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.Topics = nil })
	}},
	{rule: "group.next.id.1", what: "no id", run: func(c *consumer) {
		c.member = ""
		c.next(0, nil)
	}},
	{rule: "group.next.epoch.1", what: "an old epoch", run: func(c *consumer) {
		epoch, _ := c.owner()
		c.next(epoch+70, nil)
	}},
	{rule: "group.next.null.1", what: "repeats the names", run: func(c *consumer) {
		epoch, _ := c.owner()
		c.next(epoch, func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.SubscribedTopicNames = c.names })
	}},
	{rule: "group.next.own.1", what: "reports before it stops", run: func(c *consumer) {
		epoch, owned := c.owner()
		c.next(epoch, func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{} })
		c.wait(time.Second)
		c.link(1).call(fetchOf(owned[0].TopicID, 0, 0, -1, 0))
	}},
	{rule: "group.next.revoke.1", what: "goes on", run: func(c *consumer) {
		epoch, owned := c.owner()
		errorOnce(c.world, func(p *kmsg.ConsumerGroupHeartbeatResponse) {
			p.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
		})
		c.next(epoch, nil)
		c.wait(time.Second)
		c.link(1).call(fetchOf(owned[0].TopicID, 0, 0, -1, 0))
	}},
	{rule: "group.classic.join.1", what: "without the id", run: func(c *consumer) {
		c.find()
		c.link(1).call(c.joining(""))
		c.link(1).call(c.joining(""))
	}},
	{rule: "group.classic.sync.1", what: "no assignment", run: func(c *consumer) {
		id, generation := c.classic()
		q := kmsg.NewPtrSyncGroupRequest()
		q.Version, q.Group, q.MemberID, q.Generation = 4, "classics", id, generation
		c.link(1).call(q)
	}},
	{rule: "group.classic.beat.1", what: "an old generation", run: func(c *consumer) {
		id, generation := c.classic()
		c.wait(time.Second)
		q := kmsg.NewPtrHeartbeatRequest()
		q.Version, q.Group, q.MemberID, q.Generation = 4, "classics", id, generation-1
		c.link(1).call(q)
	}},
	{rule: "group.commit.2", what: "goes back", run: func(c *consumer) {
		id, generation := c.classic()
		c.commit(id, generation, 10)
		c.commit(id, generation, 5)
	}},
	{rule: "group.commit.3", what: "the refused generation again", run: func(c *consumer) {
		id, generation := c.classic()
		errorOnce(c.world, func(p *kmsg.OffsetCommitResponse) { p.Topics[0].Partitions[0].ErrorCode = 22 })
		c.commit(id, generation, 10)
		c.wait(time.Second)
		c.commit(id, generation, 10)
	}},
	{rule: "group.fetch.sess.1", what: "the epoch stays", run: func(c *consumer) {
		c.metadata()
		id := c.topicIDs[topic]
		p := c.link(1).call(fetchOf(id, 0, 0, 0, 0)).(*kmsg.FetchResponse)
		require.NotZero(c, p.SessionID)
		c.link(1).call(fetchOf(id, 0, p.SessionID, 1, 0))
		c.link(1).call(fetchOf(id, 0, p.SessionID, 1, 0))
	}},
	{rule: "group.fetch.sess.2", what: "goes on", run: func(c *consumer) {
		c.metadata()
		id := c.topicIDs[topic]
		p := c.link(1).call(fetchOf(id, 0, 0, 0, 0)).(*kmsg.FetchResponse)
		errorOnce(c.world, func(p *kmsg.FetchResponse) { p.ErrorCode = 70 })
		c.link(1).call(fetchOf(id, 0, p.SessionID, 1, 0))
		c.link(1).call(fetchOf(id, 0, p.SessionID, 2, 0))
	}},
	{rule: "group.fetch.offset.1", what: "skips one", run: func(c *consumer) {
		c.produce(0, 10)
		c.metadata()
		id := c.topicIDs[topic]
		c.link(1).call(fetchOf(id, 0, 0, -1, 0))
		c.link(1).call(fetchOf(id, 0, 0, -1, 11))
	}},
	{rule: "group.fetch.id.1", what: "the id of a topic that is gone", run: func(c *consumer) {
		c.metadata()
		id := c.topicIDs[topic]
		always(c.world, func(p *kmsg.MetadataResponse) { p.Topics[0].TopicID[0]++ })
		c.metadata()
		c.wait(time.Second)
		c.link(1).call(fetchOf(id, 0, 0, -1, 0))
	}},
}

const transactional = "payments"

// producer is an idempotent or transactional producer.
type producer struct {
	*consumer
	id    *string
	pid   int64
	epoch int16
}

// findTransactional asks for the coordinator of the transactional id.
func (c *consumer) findTransactional() int32 {
	for range 50 {
		q := kmsg.NewPtrFindCoordinatorRequest()
		q.Version, q.CoordinatorType, q.CoordinatorKeys = 6, 1, []string{transactional}
		if p := c.link(1).call(q).(*kmsg.FindCoordinatorResponse); p.Coordinators[0].ErrorCode == 0 {
			return p.Coordinators[0].NodeID
		}
		c.wait(100 * time.Millisecond)
	}
	require.Fail(c, "no coordinator")
	return -1
}

func initialisation(id *string) *protocol.InitProducerIDRequest {
	q := protocol.NewInitProducerIDRequest()
	q.Version, q.TransactionalID, q.TransactionTimeoutMillis = 5, id, 60_000
	return q
}

// initialised gets a producer id.
func (c *consumer) initialised(id *string) *producer {
	node := int32(1)
	if id != nil {
		node = c.findTransactional()
	}
	for range 50 {
		p := c.link(node).call(initialisation(id)).(*protocol.InitProducerIDResponse)
		if p.ErrorCode == 0 {
			return &producer{c, id, p.ProducerID, p.ProducerEpoch}
		}
		c.wait(100 * time.Millisecond)
	}
	require.Fail(c, "no producer id")
	return nil
}

// batchOf makes a Produce of one batch.
func (p *producer) batchOf(version int16, base int32, n int, bit bool) *kmsg.ProduceRequest {
	b := protocol.NewBatchBuilder()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = p.pid, p.epoch, base, bit
	require.NoError(p, b.Reset(nil))
	for range n {
		require.NoError(p, b.Append(p.clock.Now().UnixMilli(), nil, []byte("v")))
	}
	out, err := b.Finish()
	require.NoError(p, err)
	q := produceRequest(version, topic, 0, out)
	q.TransactionID = p.id
	return q
}

func (p *producer) addPartitions() *kmsg.AddPartitionsToTxnRequest {
	q := kmsg.NewPtrAddPartitionsToTxnRequest()
	q.Version, q.TransactionalID, q.ProducerID, q.ProducerEpoch = 3, *p.id, p.pid, p.epoch
	q.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	return q
}

func (p *producer) end(version int16, commit bool) *kmsg.EndTxnRequest {
	q := kmsg.NewPtrEndTxnRequest()
	q.Version, q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Commit = version, *p.id, p.pid, p.epoch, commit
	return q
}

var transactionMutants = []mutant{
	{rule: "txn.init.1", what: "an id of its own", run: func(c *consumer) {
		p := &producer{consumer: c, pid: 77}
		c.link(1).call(p.batchOf(9, 0, 1, false))
	}},
	{rule: "txn.coord.1", what: "another node", opts: threeNodes, run: func(c *consumer) {
		c.link(c.findTransactional()%3 + 1).call(initialisation(pointer(transactional)))
	}},
	{rule: "txn.seq.1", what: "begins with 5", run: func(c *consumer) {
		p := c.initialised(nil)
		c.link(1).call(p.batchOf(9, 5, 1, false))
	}},
	{rule: "txn.seq.1", what: "leaves a gap", run: func(c *consumer) {
		p := c.initialised(nil)
		c.link(1).call(p.batchOf(9, 0, 3, false))
		c.link(1).call(p.batchOf(9, 4, 3, false))
	}},
	{rule: "txn.seq.2", what: "another batch", run: func(c *consumer) {
		p := c.initialised(nil)
		c.link(1).call(p.batchOf(9, 0, 3, false))
		c.link(1).call(p.batchOf(9, 0, 2, false))
	}},
	{rule: "txn.flight.1", what: "six", run: func(c *consumer) {
		p := c.initialised(nil)
		for i := range int32(6) {
			c.link(1).post(p.batchOf(9, i, 1, false))
		}
	}},
	{rule: "txn.acks.1", what: "acks 1", run: func(c *consumer) {
		p := c.initialised(nil)
		q := p.batchOf(9, 0, 1, false)
		q.Acks = 1
		c.link(1).call(q)
	}},
	{rule: "txn.batch.1", what: "without the bit", run: func(c *consumer) {
		p := c.initialised(pointer(transactional))
		c.link(1).call(p.batchOf(12, 0, 1, false))
	}},
	{rule: "txn.add.1", what: "adds nothing", run: func(c *consumer) {
		p := c.initialised(pointer(transactional))
		c.link(1).call(p.batchOf(9, 0, 1, true))
	}},
	{rule: "txn.add.2", what: "both protocols", run: func(c *consumer) {
		p := c.initialised(pointer(transactional))
		c.link(1).call(p.batchOf(12, 0, 1, true))
		c.link(1).call(p.addPartitions())
	}},
	{rule: "txn.add.2", what: "EndTxn 5 under version 1", opts: []kshare.Option{kshare.WithFeature("transaction.version", 1)}, run: func(c *consumer) {
		p := c.initialised(pointer(transactional))
		c.link(1).call(p.addPartitions())
		c.link(1).call(p.end(5, true))
	}},
	{rule: "txn.off.1", what: "adds nothing", run: func(c *consumer) {
		p := c.initialised(pointer(transactional))
		q := kmsg.NewPtrTxnOffsetCommitRequest()
		q.Version, q.TransactionalID, q.Group, q.ProducerID, q.ProducerEpoch, q.Generation = 3, *p.id, "readers", p.pid, p.epoch, -1
		q.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: 1}}}}
		c.link(1).call(q)
	}},
	{rule: "txn.end.1", what: "a batch is on its way", run: func(c *consumer) {
		p := c.initialised(pointer(transactional))
		c.link(1).post(p.batchOf(12, 0, 1, true))
		c.hello(1, "a").post(p.end(5, true))
	}},
	{rule: "txn.end.2", what: "commits after TRANSACTION_ABORTABLE", run: func(c *consumer) {
		p := c.initialised(pointer(transactional))
		errorOnce(c.world, func(p *kmsg.AddPartitionsToTxnResponse) { p.Topics[0].Partitions[0].ErrorCode = 120 })
		c.link(1).call(p.addPartitions())
		c.link(1).call(p.end(4, true))
	}},
	{rule: "txn.end.3", what: "the old epoch", run: func(c *consumer) {
		p := c.initialised(pointer(transactional))
		c.link(1).call(p.batchOf(12, 0, 1, true))
		c.link(1).call(p.end(5, true))
		c.link(1).call(p.batchOf(12, 1, 1, true))
	}},
	{rule: "txn.end.4", what: "ends nothing", run: func(c *consumer) {
		p := c.initialised(pointer(transactional))
		c.link(1).call(p.end(5, true))
	}},
	{rule: "txn.end.5", what: "goes on", run: func(c *consumer) {
		p := c.initialised(pointer(transactional))
		c.link(1).call(p.batchOf(12, 0, 1, true))
		c.lose = func(q kmsg.Request) bool { _, ok := q.(*kmsg.EndTxnRequest); return ok }
		c.link(1).call(p.end(5, true))
		c.link(1).close()
		c.link(1).call(p.batchOf(12, 1, 1, true))
	}},
	{rule: "txn.fence.1", what: "goes on", run: func(c *consumer) {
		p := c.initialised(pointer(transactional))
		errorOnce(c.world, func(p *kmsg.AddPartitionsToTxnResponse) { p.Topics[0].Partitions[0].ErrorCode = 90 })
		c.link(1).call(p.addPartitions())
		c.wait(time.Second)
		c.link(1).call(p.addPartitions())
	}},
}

// staged holds ten records and makes their acknowledgement a part of a transaction, as change wants it.
func (c *consumer) staged(change func(*protocol.TxnShareAcknowledgeRequest)) (*producer, tp, *protocol.TxnShareAcknowledgeRequest) {
	at := c.held()
	p := c.initialised(pointer(transactional))
	return p, at, p.stage(at, change)
}

func (p *producer) stage(at tp, change func(*protocol.TxnShareAcknowledgeRequest)) *protocol.TxnShareAcknowledgeRequest {
	q := &protocol.TxnShareAcknowledgeRequest{
		TransactionalID: p.id, GroupID: p.group, ProducerID: p.pid, ProducerEpoch: p.epoch, MemberID: p.member, MemberEpoch: p.consumer.epoch,
		Topics: []protocol.TxnShareAcknowledgeTopic{{TopicID: at.id, Partitions: []protocol.TxnShareAcknowledgePartition{{
			Partition: at.partition, AcknowledgementBatches: []protocol.TxnShareAcknowledgeBatch{{FirstOffset: 10, LastOffset: 19, AcknowledgeTypes: []int8{1}}},
		}}}},
	}
	if change != nil {
		change(q)
	}
	return q
}

func types(kinds ...int8) func(*protocol.TxnShareAcknowledgeRequest) {
	return func(q *protocol.TxnShareAcknowledgeRequest) {
		q.Topics[0].Partitions[0].AcknowledgementBatches[0].AcknowledgeTypes = kinds
	}
}

var (
	ktx      = []kshare.Option{kshare.WithKIP1289()}
	ktxNodes = []kshare.Option{kshare.WithKIP1289(), kshare.WithBrokers(3)}
)

var kip1289Mutants = []mutant{
	{rule: "ktx.gate.1", what: "not advertised", note: "advertised: false", opts: ktx, run: func(c *consumer) {
		at := c.held()
		p := c.initialised(pointer(transactional))
		always(c.world, func(p *kmsg.ApiVersionsResponse) { p.ApiKeys = p.ApiKeys[:len(p.ApiKeys)-1] })
		c.hello(1, "a").call(p.stage(at, nil))
	}, also: []string{"wire.api.2"}},
	{rule: "ktx.route.1", what: "another node", note: "its leader is node", opts: ktxNodes, run: func(c *consumer) {
		c.join()
		c.wait(time.Second)
		at := c.assigned[0]
		p := c.initialised(pointer(transactional))
		c.link(c.leaders[at]%3 + 1).call(p.stage(at, nil))
	}},
	{rule: "ktx.type.1", what: "releases", note: "type 2", opts: ktx, run: func(c *consumer) {
		_, _, q := c.staged(types(2))
		c.link(1).call(q)
	}},
	{rule: "ktx.owner.1", what: "what another holds", note: "is no open acquisition", opts: ktx, run: func(c *consumer) {
		_, _, q := c.staged(func(q *protocol.TxnShareAcknowledgeRequest) {
			b := &q.Topics[0].Partitions[0].AcknowledgementBatches[0]
			b.FirstOffset, b.LastOffset = 900, 900
		})
		c.link(1).call(q)
	}},
	{rule: "ktx.dup.1", what: "accepts besides", note: "while it is part of a transaction", opts: ktx, run: func(c *consumer) {
		_, at, q := c.staged(nil)
		a := c.link(1).call(q).(*protocol.TxnShareAcknowledgeResponse)
		require.Zero(c, a.ErrorCode)
		require.Zero(c, a.Topics[0].Partitions[0].ErrorCode)
		c.sendAck(1, c.one(at, 10, 19, 1))
	}},
	{rule: "ktx.end.1", what: "does not wait", note: "before TxnShareAcknowledge is answered", opts: ktx, run: func(c *consumer) {
		p, _, q := c.staged(nil)
		c.link(1).post(q)
		c.hello(1, "a").post(p.end(5, true))
	}},
	{rule: "ktx.only.1", what: "no end", note: "has had no EndTxn", opts: ktx, run: func(c *consumer) {
		_, _, q := c.staged(nil)
		l := c.hello(1, "a")
		l.call(q)
		l.close()
	}},
	{rule: "ktx.retry.1", what: "other types", note: "is now with", opts: ktx, run: func(c *consumer) {
		p, at, q := c.staged(nil)
		errorOnce(c.world, func(p *protocol.TxnShareAcknowledgeResponse) { p.Topics[0].Partitions[0].ErrorCode = 15 })
		c.link(1).call(q)
		c.link(1).call(p.stage(at, types(3)))
	}},
}
