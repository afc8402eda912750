package shareclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"kshare/protocol/errorcode"
)

// Class says what is left to do after an error.
type Class int

const (
	// Retriable errors pass: the client sends again by itself, for as long as it may block.
	Retriable Class = iota
	// Abortable errors end the transaction: AbortTransaction comes next, then another transaction may begin.
	Abortable
	// Fatal errors end the producer: the application closes it and makes another.
	Fatal
)

// String is the class in lower case.
func (c Class) String() string { return [...]string{"retriable", "abortable", "fatal"}[c] }

// ErrNotInTransaction is the error of what belongs in a transaction and was called outside of one.
var ErrNotInTransaction = errors.New("no transaction has begun: call BeginTransaction first")

// ErrAborting is the error of whatever but AbortTransaction follows an abortable error.
var ErrAborting = errors.New("the transaction has failed: call AbortTransaction")

// ErrClosed is the error of a client that was closed.
var ErrClosed = errors.New("the client was closed")

// Error is an error of a broker, or of the way to it.
type Error struct {
	API     string // Kafka's name of the request
	Of      string // what it was about: a partition, a group, a transactional id
	Code    int16  // the error code; 0 where Cause says why there was no answer
	Message string // what the broker adds, often nothing
	Class   Class
	Cause   error

	OfPartition bool // Of is a partition, and nothing else was refused
}

func (e *Error) Error() string {
	text := errorcode.Name(e.Code)
	if e.Code == errorcode.None {
		text = e.Cause.Error()
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return fmt.Sprintf("%s for %s: %s (%s)", e.API, e.Of, text, e.Class)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

// IsAbortable tells whether a transaction can be aborted after the error and another begun with the same producer.
func IsAbortable(err error) bool { return err != nil && !IsFatal(err) && hasClass(err, Abortable) }

// IsFatal tells whether the producer is of no more use. Of several errors that are joined one is enough.
func IsFatal(err error) bool { return hasClass(err, Fatal) }

// hasClass looks through joined errors, where errors.As stops at the first *Error.
func hasClass(err error, class Class) bool {
	switch e := err.(type) {
	case nil:
		return false
	case *Error:
		return e.Class == class
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if hasClass(one, class) {
				return true
			}
		}
		return false
	}
	if class == Abortable && errors.Is(err, ErrAborting) {
		return true
	}
	return hasClass(errors.Unwrap(err), class)
}

// acknowledgeClass is the class of an error of TxnShareAcknowledge, as the draft's TransactionManager has it: what it does not know is fatal.
func acknowledgeClass(code int16) Class {
	switch code {
	case errorcode.UnknownTopicOrPartition, errorcode.LeaderNotAvailable, errorcode.NotLeaderOrFollower, errorcode.NetworkException,
		errorcode.CoordinatorLoadInProgress, errorcode.CoordinatorNotAvailable, errorcode.NotCoordinator,
		errorcode.ConcurrentTransactions, errorcode.UnknownTopicID, errorcode.RequestTimedOut:
		return Retriable
	case errorcode.GroupAuthorizationFailed, errorcode.UnknownMemberID, errorcode.StaleMemberEpoch, errorcode.TransactionAbortable,
		errorcode.InvalidRecordState:
		return Abortable
	}
	return Fatal
}

// produceClass is the class of an error of Produce.
func produceClass(code int16) Class {
	switch code {
	case errorcode.UnknownTopicOrPartition, errorcode.LeaderNotAvailable, errorcode.NotLeaderOrFollower, errorcode.NetworkException, errorcode.RequestTimedOut,
		errorcode.NotEnoughReplicas, errorcode.NotEnoughReplicasAfterAppend, errorcode.CoordinatorLoadInProgress, errorcode.CoordinatorNotAvailable,
		errorcode.NotCoordinator, errorcode.ConcurrentTransactions, errorcode.UnknownTopicID, errorcode.KafkaStorageError, errorcode.FencedLeaderEpoch:
		return Retriable
	case errorcode.InvalidProducerEpoch, errorcode.ProducerFenced, errorcode.InvalidProducerIDMapping, errorcode.InvalidTxnState,
		errorcode.TransactionalIDAuthorizationFailed, errorcode.UnsupportedVersion:
		return Fatal
	}
	return Abortable
}

// coordinatorClass is the class of an error of InitProducerId and EndTxn.
func coordinatorClass(code int16) Class {
	switch code {
	case errorcode.CoordinatorLoadInProgress, errorcode.CoordinatorNotAvailable, errorcode.NotCoordinator, errorcode.ConcurrentTransactions,
		errorcode.RequestTimedOut, errorcode.NetworkException:
		return Retriable
	case errorcode.TransactionAbortable:
		return Abortable
	}
	return Fatal
}

// unanswered is the class of an error of the way to a broker.
func unanswered(err error) Class {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Abortable
	case errors.Is(err, kgo.ErrClientClosed):
		return Fatal
	}
	return Retriable
}

// errTooOld is why a cluster is not fit for the client.
var errTooOld = errors.New("the brokers do not have what KIP-1289 needs")
