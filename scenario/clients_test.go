package scenario

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mistakeOf runs a scenario in the process that has a mistake, and returns its line and reason.
func mistakeOf(t *testing.T, text string) *Mistake {
	t.Helper()
	f, err := Parse("x", []byte(text))
	if err == nil {
		_, err = Run(f, NewLocal(), Options{})
	}
	var m *Mistake
	require.ErrorAs(t, err, &m)
	return m
}

func TestMistakesOfGroupsAndProducers(t *testing.T) {
	for text, reason := range map[string]string{
		"commit readers orders-0":                                       "write PARTITION=OFFSET",
		"commit readers orders=5":                                       "is no partition",
		"commit readers orders-0=five":                                  "is no whole number",
		"committed readers orders":                                      "is no partition",
		"delete-offsets readers orders":                                 "orders is no topic",
		"classic-sync readers m1 orders-0":                              "write MEMBER:PARTITION",
		"classic-leave readers":                                         "nobody is to leave",
		"classic-join readers m1 orders session=long":                   "is no duration",
		"classic-join readers m1 orders owned=orders":                   "is no partition",
		"consumer-heartbeat readers m1 epoch=9999999999":                "is no whole number",
		"consumer-heartbeat readers m1 owned=all":                       "is no partition",
		"consumer-leave readers m1 static=perhaps":                      "yes or no",
		"txn-end p1 commit":                                             "there is no producer p1",
		"init-producer p1\ntxn-end p1 commit":                           "p1 has no transactional id",
		"init-producer p1 id=nobody":                                    "is no producer",
		"txn-end p1 perhaps":                                            "commit or abort",
		"txn-add-partitions p1 orders":                                  "is no partition",
		"txn-markers p1 commit orders":                                  "is no partition",
		"txn-commit-offsets p1 readers orders-0":                        "write PARTITION=OFFSET",
		"describe-producers orders":                                     "is no partition",
		"init-producer p1 version=99":                                   "is no whole number",
		"classic-join readers m1 orders &a\nclassic-join r m orders &a": "a runs already",
	} {
		t.Run(text, func(t *testing.T) {
			assert.Contains(t, mistakeOf(t, text).Reason, reason)
		})
	}
}

// Ids that a broker makes have the names of the members that they were made for, wherever they are seen first.
func TestMemberNames(t *testing.T) {
	runText(t, "names", `
topic orders
classic-join readers m1 orders
classic-join readers m2 orders version=3 &two
classic-join readers m1 orders
wait two
classic-leave readers m2
classic-join readers m2 orders &two
classic-join readers m1 orders
wait two
----
orders: 1 partition
m1: generation 1, protocol range, leader m1
  m1: topics orders
m1: generation 2, protocol range, leader m1
  m1: topics orders
  m2: topics orders
m2: generation 2, protocol range, leader m1
m2: left
m1: generation 3, protocol range, leader m1
  m1: topics orders
  m2#2: topics orders
m2: generation 3, protocol range, leader m1
`)
}

// A member has one connection to a node, on which requests are answered one after the other.
func TestRequestsOfAMemberAreAnsweredInOrder(t *testing.T) {
	runText(t, "order", `
topic orders
join workers m1 orders
fetch workers m1
fetch workers m1 wait=2s &first
fetch workers m1 epoch=2 wait=2s &second
advance 1s
produce orders-0 a
wait second
wait first
----
orders: 1 partition
m1: epoch 3, assigned orders-0
after 500ms: orders-0: nothing
orders-0: offset 0
after 3s: nothing
after 1s: orders-0: acquired 0 count 1, lock 30s
  0 a
`)
}
