package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/txn"
)

// InitProducerId (22), v0 to v5, and v6 with unstable.api.versions.enable.
//
// Behaviour:
//   - Without a transactional id every request gets a new producer id with epoch 0; the timeout is not looked at.
//   - With one: package txn. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before v4.
//   - Exactly one of ProducerId and ProducerEpoch: INVALID_REQUEST.
//   - v6: Enable2PC where transaction.two.phase.commit.enable does not allow it is TRANSACTIONAL_ID_AUTHORIZATION_FAILED. KeepPreparedTxn is
//     UNSUPPORTED_VERSION, as in 4.4.0, unless a switch of KIP-1289 says otherwise. Neither is looked at without a transactional id.
//   - Ids are handed out in blocks of 1000 that are stored before their first use, so that no restart hands one out again.

const initProducerIDKey = 22

func init() {
	handlers[initProducerIDKey] = needing(writing(locked((*Cluster).initProducerID)),
		onOne(acl.Write, acl.TransactionalID, func(q *protocol.InitProducerIDRequest) string { return *q.TransactionalID }).when(func(q kmsg.Request) bool { return q.(*protocol.InitProducerIDRequest).TransactionalID != nil }),
		looksItself(acl.IdempotentWrite, acl.Cluster, "or WRITE to any topic, without a transactional id"),
	)
}

const producerIDBlock = 1000

func (c *Cluster) initProducerID(r *request, q *protocol.InitProducerIDRequest) kmsg.Response {
	p := response[*protocol.InitProducerIDResponse](q)
	p.ProducerEpoch = txn.NoEpoch
	switch {
	case q.TransactionalID == nil && !r.mayWriteSomewhere():
		p.ErrorCode = errorcode.ClusterAuthorizationFailed
	case (q.ProducerID == -1) != (q.ProducerEpoch == -1):
		p.ErrorCode = errorcode.InvalidRequest
	case q.TransactionalID != nil:
		p.ErrorCode = fencedBefore(4, q.Version, c.initTransactions(r, q, p))
	default:
		id, err := c.newProducerID()
		if err != nil {
			p.ErrorCode = c.storageRefusal(err).code
			break
		}
		p.ProducerID, p.ProducerEpoch = id, 0
	}
	return p
}

// mayWriteSomewhere tells whether the client may be an idempotent producer.
func (r *request) mayWriteSomewhere() bool {
	return r.mayOnCluster(acl.IdempotentWrite) || r.cluster.authorizer.AllowsAny(r.conn.client, acl.Write, acl.Topic)
}

// initTransactions makes the caller the owner of a transactional id. It returns the code of the answer and, with 0, fills in the rest.
func (c *Cluster) initTransactions(r *request, q *protocol.InitProducerIDRequest, p *protocol.InitProducerIDResponse) int16 {
	id := *q.TransactionalID
	if id == "" {
		return errorcode.InvalidRequest
	}
	if code := c.notCoordinatingTransactions(r.node, id); code != errorcode.None {
		return code
	}
	init := txn.Init{TimeoutMs: q.TransactionTimeoutMillis, TwoPhaseCommit: q.Enable2PC, KeepPrepared: q.KeepPreparedTxn}
	if q.ProducerID != -1 {
		init.Expected = &txn.Producer{ID: q.ProducerID, Epoch: q.ProducerEpoch}
	}
	d := c.transactions.coordinator.InitProducerID(c.clock.Now(), id, init)
	code, by := c.transact(r, d)
	if code != errorcode.None {
		return code
	}
	p.ProducerID, p.ProducerEpoch = by.ID, by.Epoch
	if d.Kept != nil {
		p.OngoingTxnProducerID, p.OngoingTxnProducerEpoch = d.Kept.ID, d.Kept.Epoch
	}
	return errorcode.None
}

// newProducerID hands out a producer id that no producer of this cluster has had.
func (c *Cluster) newProducerID() (int64, error) {
	if c.nextProducerID == c.producerIDsReserved {
		c.producerIDsReserved += producerIDBlock
		if err := c.storeIdentity(); err != nil {
			c.producerIDsReserved -= producerIDBlock
			return -1, err
		}
	}
	id := c.nextProducerID
	c.nextProducerID++
	return id, nil
}

// expireProducers has the partitions and the share coordinator forget the producers that have not written for producer.id.expiration.ms, as of the last of the checks that
// Apache Kafka makes every producer.id.expiration.check.interval.ms. It is called before anybody looks at producers.
func (c *Cluster) expireProducers() {
	v := c.brokerValues()
	period := v.Duration("producer.id.expiration.check.interval.ms")
	passed := c.clock.Now().Sub(c.producersChecked) / period
	if passed < 1 {
		return
	}
	c.producersChecked = c.producersChecked.Add(passed * period)
	checked, expiration := c.producersChecked.UnixMilli(), v.Duration("producer.id.expiration.ms").Milliseconds()
	for _, t := range c.topics {
		for _, p := range t.partitions {
			p.producers.Expire(checked, expiration)
		}
	}
	c.share.coordinator.ExpireProducers(checked, expiration)
}
