package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
	"kshare/txn"
)

// EndTxn (26), v0 to v5.
//
// Behaviour: package txn.
//   - The answer is due once the decision is stored; the markers are written at once behind it.
//   - From v5 on every end raises the producer's epoch and the answer has the producer to go on with, -1 and -1 with an error.
//   - PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before v2.

const endTxnKey = 26

func init() {
	handlers[endTxnKey] = needing(locked((*Cluster).endTxn),
		onOne(acl.Write, acl.TransactionalID, func(q *kmsg.EndTxnRequest) string { return q.TransactionalID }),
	)
}

// firstRaisingEnd is the first version of EndTxn that raises the epoch.
const firstRaisingEnd = 5

func (c *Cluster) endTxn(r *request, q *kmsg.EndTxnRequest) kmsg.Response {
	p := response[*kmsg.EndTxnResponse](q)
	p.ProducerID, p.ProducerEpoch = txn.NoProducerID, txn.NoEpoch
	if q.TransactionalID == "" {
		p.ErrorCode = errorcode.InvalidRequest
		return p
	}
	if p.ErrorCode = c.notCoordinatingTransactions(r.node, q.TransactionalID); p.ErrorCode != errorcode.None {
		return p
	}
	flow := txn.Flow0
	if q.Version >= firstRaisingEnd {
		flow = txn.Flow2
	}
	code, by := c.transact(r, c.transactions.coordinator.End(c.clock.Now(), q.TransactionalID, txn.Producer{ID: q.ProducerID, Epoch: q.ProducerEpoch}, q.Commit, flow))
	if p.ErrorCode = fencedBefore(2, q.Version, code); code == errorcode.None {
		p.ProducerID, p.ProducerEpoch = by.ID, by.Epoch
	}
	return p
}
