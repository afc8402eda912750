package broker

import (
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/internal/javamap"
	"kshare/protocol/errorcode"
	"kshare/txn"
)

// ListTransactions (66), v0 to v2.
//
// Behaviour:
//   - The transactional ids that the node coordinates, partition by partition of __transaction_state.
//   - Filters go together: states (unknown ones are named in UnknownStateFilters and match nothing), producer ids, from v1 on those whose transaction began
//     longer ago than DurationFilterMillis, also where it has ended or, at -1, never began, from v2 on a regular expression for the whole id (INVALID_REGULAR_EXPRESSION).

const listTransactionsKey = 66

func init() {
	handlers[listTransactionsKey] = needing(locked((*Cluster).listTransactions),
		looksItself(acl.Describe, acl.TransactionalID, "each id; those without are left out").silently(),
	)
}

// listedStates are the names that a filter may have.
var listedStates = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}

func (c *Cluster) listTransactions(r *request, q *kmsg.ListTransactionsRequest) kmsg.Response {
	p := response[*kmsg.ListTransactionsResponse](q)
	if t := c.topics[transactionStateTopic]; t != nil && slices.ContainsFunc(t.partitions, func(of *partition) bool {
		return of.notCoordinating(r.node) == errorcode.CoordinatorLoadInProgress
	}) {
		p.ErrorCode = errorcode.CoordinatorLoadInProgress
		return p
	}
	for _, s := range q.StateFilters {
		if !slices.Contains(listedStates, s) {
			p.UnknownStateFilters = append(p.UnknownStateFilters, s)
		}
	}
	var pattern *regexp.Regexp
	if q.TransactionalIDPattern != nil && *q.TransactionalIDPattern != "" {
		var err error
		if pattern, err = regexp.Compile("^(?:" + *q.TransactionalIDPattern + ")$"); err != nil {
			p.ErrorCode = errorcode.InvalidRegularExpression
			return p
		}
	}
	for _, id := range c.transactionsOf(r.node) {
		t, _ := c.transactions.coordinator.Lookup(id)
		if !c.listed(q, &t) || !r.may(acl.Describe, acl.TransactionalID, id) || pattern != nil && !pattern.MatchString(id) {
			continue
		}
		s := kmsg.NewListTransactionsResponseTransactionState()
		s.TransactionalID, s.ProducerID, s.TransactionState = id, t.ID, t.State.String()
		p.TransactionStates = append(p.TransactionStates, s)
	}
	return p
}

// transactionsOf are the transactional ids that a node coordinates, in Kafka's order.
func (c *Cluster) transactionsOf(n *node) []string {
	t := c.topics[transactionStateTopic]
	if t == nil {
		return nil
	}
	kept := make([][]string, len(t.partitions))
	for _, id := range c.transactions.coordinator.IDs() {
		if p := c.transactionPartition(id); p.notCoordinating(n) == errorcode.None {
			kept[p.index] = append(kept[p.index], id)
		}
	}
	var ids []string
	for _, of := range kept {
		ids = append(ids, javamap.OrderOfPut(of, javamap.String)...)
	}
	return ids
}

// listed tells whether a transaction passes the filters, that of ids aside.
func (c *Cluster) listed(q *kmsg.ListTransactionsRequest, t *txn.Transaction) bool {
	switch {
	case len(q.ProducerIDFilters) > 0 && !slices.Contains(q.ProducerIDFilters, t.ID):
		return false
	case len(q.StateFilters) > 0 && !slices.Contains(q.StateFilters, t.State.String()):
		return false
	}
	return q.DurationFilterMillis < 0 || c.now()-t.StartMs > q.DurationFilterMillis
}
