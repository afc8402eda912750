package shareclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare/protocol/errorcode"
)

// What the draft's client does after each error of TxnShareAcknowledge; whatever else there is is fatal.
func TestAcknowledgeClass(t *testing.T) {
	retriable := []string{"UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PARTITION", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE",
		"CONCURRENT_TRANSACTIONS", "NETWORK_EXCEPTION", "NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "REQUEST_TIMED_OUT"}
	abortable := []string{"GROUP_AUTHORIZATION_FAILED", "UNKNOWN_MEMBER_ID", "STALE_MEMBER_EPOCH", "TRANSACTION_ABORTABLE", "INVALID_RECORD_STATE"}
	seen := 0
	for _, name := range errorcode.Names() {
		code, ok := errorcode.Code(name)
		require.True(t, ok)
		want := Fatal
		switch {
		case slices.Contains(retriable, name):
			want, seen = Retriable, seen+1
		case slices.Contains(abortable, name):
			want, seen = Abortable, seen+1
		}
		assert.Equal(t, want, acknowledgeClass(code), name)
	}
	assert.Equal(t, len(retriable)+len(abortable), seen, "every name is one")
}

func TestOtherClasses(t *testing.T) {
	for name, want := range map[string][2]Class{ // of Produce, and of InitProducerId and EndTxn
		"NOT_LEADER_OR_FOLLOWER":      {Retriable, Fatal},
		"CONCURRENT_TRANSACTIONS":     {Retriable, Retriable},
		"NOT_COORDINATOR":             {Retriable, Retriable},
		"MESSAGE_TOO_LARGE":           {Abortable, Fatal},
		"TRANSACTION_ABORTABLE":       {Abortable, Abortable},
		"INVALID_PRODUCER_EPOCH":      {Fatal, Fatal},
		"PRODUCER_FENCED":             {Fatal, Fatal},
		"INVALID_TXN_STATE":           {Fatal, Fatal},
		"INVALID_PRODUCER_ID_MAPPING": {Fatal, Fatal},
	} {
		code, ok := errorcode.Code(name)
		require.True(t, ok, name)
		assert.Equal(t, want, [2]Class{produceClass(code), coordinatorClass(code)}, name)
	}
	assert.Equal(t, Abortable, unanswered(context.DeadlineExceeded))
	assert.Equal(t, Fatal, unanswered(kgo.ErrClientClosed))
	assert.Equal(t, Retriable, unanswered(errors.New("connection reset")))
}

func TestClassesOfJoinedErrors(t *testing.T) {
	abortable := &Error{API: "TxnShareAcknowledge", Of: "orders-0", Code: errorcode.InvalidRecordState, Message: "gone", Class: Abortable}
	fatal := &Error{API: "EndTxn", Of: "worker", Code: errorcode.ProducerFenced, Class: Fatal}
	assert.True(t, IsAbortable(fmt.Errorf("a step: %w", errors.Join(errors.New("other"), abortable))))
	assert.False(t, IsFatal(abortable))
	both := errors.Join(abortable, fatal)
	assert.True(t, IsFatal(both), "one is enough")
	assert.False(t, IsAbortable(both))
	assert.True(t, IsAbortable(ErrAborting))
	assert.False(t, IsAbortable(nil) || IsFatal(nil) || IsAbortable(ErrNotInTransaction))
	assert.Equal(t, "TxnShareAcknowledge for orders-0: INVALID_RECORD_STATE: gone (abortable)", abortable.Error())
	assert.Equal(t, "EndTxn for w: no route (retriable)", (&Error{API: "EndTxn", Of: "w", Cause: errors.New("no route")}).Error())
}
