package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "txn-list",
		usage:   "txn-list [states=STATE,...] [producers=PRODUCER|N,...] [pattern=PATTERN] [longer=DURATION] [version=N]",
		summary: "Lists the transactional ids of all nodes (ListTransactions) that the script has to do with: those in the states, of the producers, that the regular expression matches and whose transaction lasts longer.",
		example: `
topic orders
init-producer p1 txn=payments
init-producer p2 txn=refunds
produce orders-0 a producer=p2 txn=yes
txn-list
txn-list states=Ongoing,Bored
txn-list pattern=pay.*
----
orders: 1 partition
p1: producer <p1>, epoch 0
p2: producer <p2>, epoch 0
orders-0: offset 0
payments: Empty, producer <p1>
refunds: Ongoing, producer <p2>
refunds: Ongoing, producer <p2>
unknown states: Bored
payments: Empty, producer <p1>
`,
		optionNames: []string{"states", "producers", "pattern", "longer", "version"},
		run:         txnList,
	})
}

func txnList(s *step, c *call) error {
	q := kmsg.NewPtrListTransactionsRequest()
	if err := s.version(q, c); err != nil {
		return err
	}
	q.StateFilters = nonEmpty(c.options["states"])
	for _, p := range nonEmpty(c.options["producers"]) {
		id, err := s.producerID(p)
		if err != nil {
			return err
		}
		q.ProducerIDFilters = append(q.ProducerIDFilters, id)
	}
	if pattern, ok := c.options["pattern"]; ok {
		pattern = s.pattern(pattern)
		q.TransactionalIDPattern = &pattern
	}
	if _, ok := c.options["longer"]; ok {
		d, err := c.durationOption("longer", 0)
		if err != nil {
			return err
		}
		q.DurationFilterMillis = d.Milliseconds()
	}
	var lines, unknown []string
	for _, node := range s.allNodes() {
		p, err := ask[*kmsg.ListTransactionsResponse](s, s.as(admin), node, q)
		if err != nil {
			return err
		}
		if p.ErrorCode != errorcode.None {
			lines = append(lines, failure(p.ErrorCode, nil))
		}
		unknown = p.UnknownStateFilters
		for _, t := range p.TransactionStates {
			if strings.HasPrefix(t.TransactionalID, s.prefix) {
				lines = append(lines, fmt.Sprintf("%s: %s, producer %s", t.TransactionalID, t.TransactionState, s.producerName(t.ProducerID)))
			}
		}
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		lines = []string{"no transactions"}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		lines = append(lines, "unknown states: "+strings.Join(unknown, ", "))
	}
	s.printf("%s", strings.Join(slices.Compact(lines), "\n"))
	return nil
}
