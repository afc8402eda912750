package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
	"kshare/txn"
)

// InitProducerId (22), v0 to v5.
//
// Behaviour:
//   - Without a transactional id every request gets a new producer id with epoch 0; the timeout is not looked at.
//   - With one: package txn. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before v4.
//   - Exactly one of ProducerId and ProducerEpoch: INVALID_REQUEST.
//   - Ids are handed out in blocks of 1000 that are stored before their first use, so that no restart hands one out again.

const initProducerIDKey = 22

func init() { handlers[initProducerIDKey] = writing(locked((*Cluster).initProducerID)) }

const producerIDBlock = 1000

func (c *Cluster) initProducerID(r *request, q *kmsg.InitProducerIDRequest) kmsg.Response {
	p := response[*kmsg.InitProducerIDResponse](q)
	p.ProducerID, p.ProducerEpoch = -1, -1
	switch {
	case (q.ProducerID == -1) != (q.ProducerEpoch == -1):
		p.ErrorCode = errorcode.InvalidRequest
	case q.TransactionalID != nil:
		code, by := c.initTransactions(r, q)
		p.ErrorCode = fencedBefore(4, q.Version, code)
		p.ProducerID, p.ProducerEpoch = by.ID, by.Epoch
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

// initTransactions makes the caller the owner of a transactional id.
func (c *Cluster) initTransactions(r *request, q *kmsg.InitProducerIDRequest) (int16, txn.Producer) {
	id := *q.TransactionalID
	if id == "" {
		return errorcode.InvalidRequest, txn.NoProducer
	}
	if code := c.notCoordinatingTransactions(r.node, id); code != errorcode.None {
		return code, txn.NoProducer
	}
	init := txn.Init{TimeoutMs: q.TransactionTimeoutMillis}
	if q.ProducerID != -1 {
		init.Expected = &txn.Producer{ID: q.ProducerID, Epoch: q.ProducerEpoch}
	}
	code, by := c.transact(r, c.transactions.coordinator.InitProducerID(c.clock.Now(), id, init))
	if code != errorcode.None {
		return code, txn.NoProducer
	}
	return code, by
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

// expireProducers has the partitions forget the producers that have not written for producer.id.expiration.ms, as of the last of the checks that
// Apache Kafka makes every producer.id.expiration.check.interval.ms. It is called before anybody looks at producers.
func (c *Cluster) expireProducers() {
	v := c.brokerValues()
	period := v.Duration("producer.id.expiration.check.interval.ms")
	passed := c.clock.Now().Sub(c.producersChecked) / period
	if passed < 1 {
		return
	}
	c.producersChecked = c.producersChecked.Add(passed * period)
	for _, t := range c.topics {
		for _, p := range t.partitions {
			p.producers.Expire(c.producersChecked.UnixMilli(), v.Duration("producer.id.expiration.ms").Milliseconds())
		}
	}
}
