package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// InitProducerId (22), v0 to v5, for idempotent producers.
//
// Behaviour:
//   - Without a transactional id every request gets a new producer id with epoch 0; the timeout is not looked at.
//   - Exactly one of ProducerId and ProducerEpoch: INVALID_REQUEST.
//   - Ids are handed out in blocks of 1000 that are stored before their first use, so that no restart hands one out again.
//   - A transactional id is refused with UNSUPPORTED_VERSION: there is no transaction coordinator.

const initProducerIDKey = 22

func init() { handlers[initProducerIDKey] = writing(locked((*Cluster).initProducerID)) }

const producerIDBlock = 1000

func (c *Cluster) initProducerID(_ *request, q *kmsg.InitProducerIDRequest) kmsg.Response {
	p := response[*kmsg.InitProducerIDResponse](q)
	p.ProducerID, p.ProducerEpoch = -1, -1
	switch {
	case (q.ProducerID == -1) != (q.ProducerEpoch == -1):
		p.ErrorCode = errorcode.InvalidRequest
	case q.TransactionalID != nil && *q.TransactionalID == "":
		p.ErrorCode = errorcode.InvalidRequest
	case q.TransactionalID != nil:
		p.ErrorCode = errorcode.UnsupportedVersion
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
