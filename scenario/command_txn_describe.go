package scenario

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "txn-describe",
		usage:   "txn-describe ID ... [times=yes]",
		summary: "Shows the state of transactional ids (DescribeTransactions). times=yes shows how long ago a transaction began.",
		example: `
topic orders
txn-describe payments
init-producer p1 txn=payments
txn-describe payments
produce orders-0 a producer=p1 txn=yes
txn-describe payments
txn-end p1 commit
txn-describe payments
----
orders: 1 partition
payments: TRANSACTIONAL_ID_NOT_FOUND (105)
p1: producer <p1>, epoch 0
payments: Empty, producer <p1>, epoch 0, timeout 1m
orders-0: offset 0
payments: Ongoing, producer <p1>, epoch 0, timeout 1m, partitions orders-0
p1: committed, producer <p1>, epoch 1
payments: CompleteCommit, producer <p1>, epoch 1, timeout 1m
`,
		optionNames: []string{"times"},
		least:       1, most: -1,
		run: func(s *step, c *call) error {
			times, err := c.flag("times")
			if err != nil {
				return err
			}
			for _, id := range slices.Sorted(slices.Values(c.words)) {
				t, err := s.transaction(s.wire(id))
				if err != nil {
					return err
				}
				s.showTransaction(t, times)
			}
			return nil
		},
	})
}

// transaction asks for the state of a transactional id.
func (s *step) transaction(id string) (*kmsg.DescribeTransactionsResponseTransactionState, error) {
	node, err := s.transactional(id)
	if err != nil {
		return nil, err
	}
	q := kmsg.NewPtrDescribeTransactionsRequest()
	q.TransactionalIDs = []string{id}
	p, err := request[*kmsg.DescribeTransactionsResponse](s, s.as(admin), node, q)
	if err != nil {
		return nil, err
	}
	if len(p.TransactionStates) != 1 {
		return nil, noAnswer{"an answer without the transactional id"}
	}
	return &p.TransactionStates[0], nil
}

// answeredTimeout is a transaction's timeout, 0 for none: those of two-phase commit have the longest that there is, which Kafka never applies.
func answeredTimeout(ms int32) time.Duration {
	if ms == math.MaxInt32 {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// transactionTimeoutText writes a transaction's timeout, 0 for none.
func transactionTimeoutText(timeout time.Duration) string {
	if timeout == 0 {
		return "no timeout"
	}
	return "timeout " + show(timeout)
}

// transactionPartitions writes the partitions of a transaction, whose names are those on the wire: users' first.
func (s *step) transactionPartitions(all []topicPartition) (text string) {
	var users []topicPartition
	var internal []string
	for _, p := range all {
		if strings.HasPrefix(p.topic, "__") { // which partition it is follows from names on the wire
			internal = append(internal, p.topic)
			continue
		}
		users = append(users, topicPartition{s.script(p.topic), p.partition})
	}
	if len(users) > 0 {
		text += ", partitions " + partitionNames(sorted(users))
	}
	if len(internal) > 0 {
		slices.Sort(internal)
		text += ", " + strings.Join(slices.Compact(internal), ", ")
	}
	return text
}

func (s *step) showTransaction(t *kmsg.DescribeTransactionsResponseTransactionState, times bool) {
	if t.ErrorCode != errorcode.None {
		s.printf("%s: %s", t.TransactionalID, failure(t.ErrorCode, nil))
		return
	}
	text := fmt.Sprintf("%s: %s, producer %s, %s", t.TransactionalID, t.State, s.showEpoch(t.ProducerID, int32(t.ProducerEpoch)), transactionTimeoutText(answeredTimeout(t.TimeoutMillis)))
	var all []topicPartition
	for _, x := range t.Topics {
		for _, p := range x.Partitions {
			all = append(all, topicPartition{x.Topic, p})
		}
	}
	text += s.transactionPartitions(all)
	if times {
		text += ", began " + s.age(t.StartTimestamp)
	}
	s.printf("%s", text)
}
