package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kshare/protocol/errorcode"
	"kshare/shareclient"
)

// transaction is what a task needs of a transactional producer; *shareclient.Producer is one.
type transaction interface {
	BeginTransaction() error
	Produce(ctx context.Context, records ...*kgo.Record) error
	SendShareAcknowledgementsToTransaction(ctx context.Context, acks shareclient.Acknowledgements, group shareclient.GroupMetadata) error
	CommitTransaction(ctx context.Context) error
	AbortTransaction(ctx context.Context) error
	Close()
}

// ready makes the producer. It stays nil where the cluster is not fit for it now, and is tried again.
func (s *shareSource) ready(ctx context.Context) error {
	p, err := s.produce(ctx)
	switch {
	case err == nil:
		s.producer, s.failures = p, 0
		return nil
	case ctx.Err() != nil:
		return nil
	case shareclient.IsFatal(err):
		return fmt.Errorf("%s: %w", exactlyOnceKey, err)
	}
	s.log.Warn("there is no producer yet", "error", err)
	s.failures++
	s.rest(ctx, s.set.backoff(s.failures-1), s)
	return nil
}

// unfitCodes are errors of Produce that a record is to blame for.
var unfitCodes = []int16{errorcode.MessageTooLarge, errorcode.InvalidRecord, errorcode.InvalidTimestamp, errorcode.RecordListTooLarge}

// unfit tells whether a record is to blame for an error.
func unfit(err error) bool {
	var e *shareclient.Error
	return errors.As(err, &e) && slices.Contains(unfitCodes, e.Code)
}

// errUnfit is why the task cannot make output of a record.
type errUnfit struct{ err error }

func (e *errUnfit) Error() string { return e.err.Error() }
func (e *errUnfit) Unwrap() error { return e.err }

// transact writes a batch's output and stages its acknowledgements in one transaction. What was dropped or could not be converted is staged with it. A record
// that is to blame is rejected outside of any transaction, once the transaction is aborted and the others have had theirs.
func (s *shareSource) transact(ctx context.Context, batch []*SinkRecord, out outcome) outcome {
	err := s.oneTransaction(batch, out)
	switch {
	case err == nil:
		return outcome{}
	case !errors.As(err, new(*errUnfit)):
		return s.rolledBack(batch, out, err)
	case len(batch) == 1 || s.set.rejectBatch:
		return s.refused(batch, outcome{release: append(out.accept, out.reject...)}, err)
	}
	result := outcome{}
	if len(out.accept)+len(out.reject) > 0 {
		if err := s.oneTransaction(nil, out); err != nil {
			return s.rolledBack(batch, out, err)
		}
	}
	for i, r := range batch {
		if s.producer == nil || ctx.Err() != nil {
			result.release = append(result.release, originals(batch[i:])...)
			return result
		}
		switch err := s.oneTransaction([]*SinkRecord{r}, outcome{}); {
		case err == nil:
		case errors.As(err, new(*errUnfit)):
			result = s.refused(batch[i:i+1], result, err)
		default:
			rest := s.rolledBack(batch[i:], outcome{}, err)
			result.release, result.transient = append(result.release, rest.release...), rest.transient
			result.failed = errors.Join(result.failed, rest.failed)
			return result
		}
	}
	return result
}

// rolledBack releases what no transaction has taken: what it had taken comes again by its abort.
func (s *shareSource) rolledBack(batch []*SinkRecord, out outcome, err error) outcome {
	back := outcome{release: append(append(originals(batch), out.accept...), out.reject...)}
	if s.unreturned != nil || errors.As(err, new(*refusal)) {
		back.failed = err
		return back
	}
	s.log.Warn("a transaction was rolled back, its records come again", "records", len(batch), "error", err)
	back.transient = true
	return back
}

// refusal is an error of the output that passes with no record: the task is not allowed to write, say.
type refusal struct{ err error }

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

// oneTransaction is one transaction: it has been committed, or has been aborted and err says why.
func (s *shareSource) oneTransaction(batch []*SinkRecord, out outcome) error {
	began := time.Now()
	err := s.await("a transaction", s, func(ctx context.Context) error {
		err := s.produceAndStage(ctx, batch, out)
		switch {
		case err == nil:
			return s.end(ctx, true)
		case shareclient.IsFatal(err):
			return err
		}
		if aborted := s.end(ctx, false); aborted != nil {
			return errors.Join(aborted, err)
		}
		return err
	})
	s.metrics.noteTime(&s.metrics.putTime, time.Since(began))
	m := s.metrics
	if err == nil {
		m.note(&m.send, len(batch))
		m.note(&m.acknowledge, len(batch)+len(out.accept))
		m.note(&m.reject, len(out.reject))
		m.noteTime(&m.took, time.Since(s.polled))
		m.hold(-len(batch) - len(out.accept) - len(out.reject))
		return nil
	}
	if shareclient.IsFatal(err) && s.unreturned == nil {
		s.producer.Close() // another one with its id aborts what it has left
		s.producer = nil
	}
	return err
}

// produceAndStage is a transaction up to its end.
func (s *shareSource) produceAndStage(ctx context.Context, batch []*SinkRecord, out outcome) error {
	task, ok := s.plugin.(TransactionalTask)
	if !ok {
		return &refusal{fmt.Errorf("%s=required: %s writes to no Kafka of the same cluster", exactlyOnceKey, s.set.class)}
	}
	if err := s.producer.BeginTransaction(); err != nil {
		return err
	}
	outputs, err := task.Outputs(batch)
	switch {
	case isRetriable(err):
		return err
	case err != nil:
		return &errUnfit{err}
	}
	if len(outputs) > 0 {
		if err := s.producer.Produce(ctx, outputs...); err != nil {
			switch {
			case unfit(err):
				return &errUnfit{err}
			case notAllowed(err):
				return &refusal{err}
			}
			return err
		}
	}
	for t, records := range map[shareclient.AcknowledgeType][]*shareclient.Record{shareclient.Accept: append(originals(batch), out.accept...), shareclient.Reject: out.reject} {
		for _, r := range records {
			if err := s.consumer.Acknowledge(r, t); err != nil {
				return err // others may have it already
			}
		}
	}
	return s.producer.SendShareAcknowledgementsToTransaction(ctx, s.consumer.AcknowledgementsForTransaction(), s.consumer.GroupMetadata())
}

// notAllowed tells whether the task may not write where it wants to.
func notAllowed(err error) bool {
	var e *shareclient.Error
	return errors.As(err, &e) && (e.Code == errorcode.TopicAuthorizationFailed || e.Code == errorcode.InvalidTopicException)
}

// endRetry is how long to wait until the end of a transaction is asked for again.
const endRetry = 100 * time.Millisecond

// end commits or aborts, as often as the outcome stays unknown.
func (s *shareSource) end(ctx context.Context, commit bool) error {
	for {
		var err error
		if commit {
			err = s.producer.CommitTransaction(ctx)
		} else {
			err = s.producer.AbortTransaction(ctx)
		}
		var e *shareclient.Error
		switch {
		case err == nil, shareclient.IsFatal(err), ctx.Err() != nil:
			return err
		case errors.Is(err, shareclient.ErrNotInTransaction): // nothing had begun
			return nil
		case commit && (errors.Is(err, shareclient.ErrAborting) || errors.As(err, &e) && e.Code == errorcode.TransactionAbortable):
			return errors.Join(err, s.end(ctx, false))
		}
		timer := time.NewTimer(endRetry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}
