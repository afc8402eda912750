package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kshare/shareclient"
)

// shareConsumer is what a task needs of a share consumer; *shareclient.Consumer is one.
type shareConsumer interface {
	Poll(ctx context.Context) ([]*shareclient.Record, error)
	Acknowledge(r *shareclient.Record, t shareclient.AcknowledgeType) error
	Commit(ctx context.Context) error
	Renew(ctx context.Context) error
	AcquisitionLockTimeout() time.Duration
	AcknowledgementsForTransaction() shareclient.Acknowledgements
	GroupMetadata() shareclient.GroupMetadata
	Close(ctx context.Context) error
}

// shareSource is the loop of KIP-1302's WorkerShareSinkTask.
type shareSource struct {
	*task
	consumer shareConsumer
	produce  func(ctx context.Context) (transaction, error) // makes the producer of exactly-once
	producer transaction                                    // nil before the first transaction, and after one that failed for good

	pending   []*shareclient.Record // put, not flushed and not acknowledged
	polled    time.Time             // when the oldest of pending was polled
	committed time.Time             // when was committed last
	renewed   time.Time             // when locks were renewed last
	failures  int                   // in a row
}

// commitTimeout bounds a commit (default.api.timeout.ms of Kafka's clients).
const commitTimeout = time.Minute

func newShareSource(t *task, consumer shareConsumer, produce func(context.Context) (transaction, error)) *shareSource {
	now := time.Now()
	return &shareSource{task: t, consumer: consumer, produce: produce, committed: now, renewed: now}
}

// due is when locks are to be renewed: after a third of their time, so that one renewal may fail.
func (s *shareSource) due() time.Time {
	lock := s.consumer.AcquisitionLockTimeout()
	if lock == 0 {
		return time.Time{}
	}
	return s.renewed.Add(lock / 3)
}

// tend renews the locks of all that is held. What is lost all the same is delivered again.
func (s *shareSource) tend(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	s.renewed = time.Now()
	if err := s.consumer.Renew(ctx); err != nil {
		s.log.Warn("locks are not renewed", "error", err)
	}
}

// renewIfDue renews locks between calls: of records that were fetched while calls that are short on their own went on.
func (s *shareSource) renewIfDue() {
	if at := s.due(); !at.IsZero() && !time.Now().Before(at) {
		s.tend(s.life)
	}
}

func (s *shareSource) close(ctx context.Context) {
	if len(s.pending) > 0 && s.unreturned == nil {
		_ = s.flush()
	}
	if err := s.consumer.Close(ctx); err != nil {
		s.log.Debug("the consumer does not leave cleanly", "error", err)
	}
	if s.producer != nil {
		s.producer.Close()
	}
	s.metrics.hold(-s.held())
}

// held is how many records the metrics count as active.
func (s *shareSource) held() int {
	s.metrics.mu.Lock()
	defer s.metrics.mu.Unlock()
	return s.metrics.activeNow
}

func (s *shareSource) iteration(ctx context.Context) error {
	if s.set.implicit { // acknowledgements go with the next poll
		s.accept(s.pending)
	}
	if s.set.exactlyOnce && s.producer == nil {
		if err := s.ready(ctx); err != nil || s.producer == nil {
			return err
		}
	}
	records, err := s.poll(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), ctx.Err() != nil && err != nil:
	case err != nil:
		return fmt.Errorf("%s: share group %s: %w", s.set.groupBy, s.set.group, err)
	}
	if len(records) > 0 {
		if err := s.handle(ctx, records); err != nil {
			return err
		}
	}
	if len(s.pending) > 0 && !s.set.implicit && time.Since(s.committed) >= s.set.commitInterval {
		return s.flush()
	}
	return nil
}

// poll waits for records, not beyond what is due.
func (s *shareSource) poll(ctx context.Context) ([]*shareclient.Record, error) {
	s.renewIfDue()
	if len(s.pending) > 0 {
		until := s.committed.Add(s.set.commitInterval)
		if at := s.due(); !at.IsZero() && at.Before(until) {
			until = at
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	records, err := s.consumer.Poll(ctx)
	if len(records) == 0 {
		return nil, err
	}
	again := 0
	for _, r := range records {
		if r.DeliveryCount > 1 {
			again++
		}
	}
	m := s.metrics
	m.note(&m.acquire, len(records))
	m.note(&m.read, len(records))
	m.note(&m.redelivered, again)
	m.hold(len(records))
	if len(s.pending) == 0 {
		s.polled, s.committed = time.Now(), time.Now()
	}
	return records, nil
}

// outcome is what becomes of records.
type outcome struct {
	accept, release, reject []*shareclient.Record
	transient               bool  // something failed that passes
	failed                  error // that something was rejected or cannot go on: the task's failure, unless it is tolerated
}

// handle does with the records of a poll all that there is to do.
func (s *shareSource) handle(ctx context.Context, records []*shareclient.Record) error {
	batch, out := s.convertAll(records)
	if out.failed != nil {
		s.settle(out)
		return out.failed
	}
	deliver := s.deliver
	if s.set.exactlyOnce {
		deliver = s.transact
	}
	out = deliver(ctx, batch, out)
	s.settle(out)
	if out.transient {
		s.failures++
		s.rest(ctx, s.set.backoff(s.failures-1), s)
	} else {
		s.failures = 0
	}
	return out.failed
}

// convertAll converts records. What a transformation drops is accepted; what cannot be converted is rejected where errors are tolerated, and fails the task without a
// record being lost where they are not.
func (s *shareSource) convertAll(records []*shareclient.Record) (batch []*SinkRecord, out outcome) {
	for _, r := range records {
		converted, err := s.set.convert(r)
		switch {
		case err == nil && converted != nil:
			batch = append(batch, converted)
			continue
		case err == nil:
			out.accept = append(out.accept, r)
			continue
		}
		s.logRecord("a record cannot be converted", r, err)
		if !s.set.tolerateAll {
			return nil, outcome{release: records, failed: fmt.Errorf("%w (%s=all rejects such records and goes on)", err, toleranceKey)}
		}
		out.reject = append(out.reject, r)
	}
	return batch, out
}

// logRecord tells of a record that failed, where errors.log.enable is on.
func (s *shareSource) logRecord(what string, r *shareclient.Record, err error) {
	if !s.set.logErrors {
		return
	}
	about := []any{"error", err}
	if s.set.logMessages {
		about = append(about, "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "deliveries", r.DeliveryCount)
	}
	s.log.Error(what, about...)
}

// deliver puts records and finds what becomes of them.
func (s *shareSource) deliver(ctx context.Context, batch []*SinkRecord, out outcome) outcome {
	if len(batch) == 0 {
		return out
	}
	err := s.put(ctx, batch)
	switch {
	case err == nil:
		return s.written(batch, out)
	case isRetriable(err):
		s.log.Warn("a put has failed for now, its records are released", "records", len(batch), "error", err)
		out.release, out.transient = append(out.release, originals(batch)...), true
		return out
	case s.unreturned != nil, errors.As(err, new(*flushError)), s.set.implicit:
		out.release, out.failed = append(out.release, originals(batch)...), err // the records are not what is wrong
		return out
	case len(batch) == 1 || s.set.rejectBatch:
		return s.refused(batch, out, err)
	}
	for i, r := range batch { // one after the other, to reject none that is not to blame
		err := s.put(ctx, []*SinkRecord{r})
		switch {
		case err == nil:
			out = s.written(batch[i:i+1], out)
		case isRetriable(err):
			out.release, out.transient = append(out.release, originals(batch[i:])...), true
			return out
		case s.unreturned != nil, errors.As(err, new(*flushError)):
			out.release, out.failed = append(out.release, originals(batch[i:])...), err
			return out
		default:
			out = s.refused(batch[i:i+1], out, err)
		}
	}
	return out
}

// written sorts records whose put has returned: what the task has reported is rejected.
func (s *shareSource) written(batch []*SinkRecord, out outcome) outcome {
	reports := s.reported()
	for _, r := range batch {
		if why, ok := reports[r]; ok {
			out = s.refused([]*SinkRecord{r}, out, why)
			continue
		}
		out.accept = append(out.accept, r.from)
	}
	return out
}

// refused rejects records. Where errors are not tolerated the task fails, once that has been told.
func (s *shareSource) refused(batch []*SinkRecord, out outcome, why error) outcome {
	for _, r := range batch {
		s.logRecord("a record is rejected", r.from, why)
	}
	out.reject = append(out.reject, originals(batch)...)
	if !s.set.tolerateAll && out.failed == nil {
		out.failed = fmt.Errorf("%d records from %s-%d offset %d on are rejected: %w (%s=all goes on)", len(batch), batch[0].from.Topic, batch[0].from.Partition, batch[0].from.Offset, why, toleranceKey)
	}
	return out
}

// originals are the records as they were polled.
func originals(batch []*SinkRecord) (records []*shareclient.Record) {
	for _, r := range batch {
		records = append(records, r.from)
	}
	return records
}

// flushError is why what was put is not safe: no record is to blame.
type flushError struct{ err error }

func (e *flushError) Error() string { return "Flush: " + e.err.Error() }
func (e *flushError) Unwrap() error { return e.err }

// put has the task put records, again for errors.retry.timeout where that passes, and flush them where each put is committed. In implicit mode, which cannot release, it is
// put again until it succeeds.
func (s *shareSource) put(ctx context.Context, batch []*SinkRecord) error {
	began := time.Now()
	for tries := 0; ; tries++ {
		s.reported() // of a try before
		at := time.Now()
		err := s.await("Put", s, func(ctx context.Context) error { return s.plugin.Put(ctx, batch) })
		s.metrics.noteTime(&s.metrics.putTime, time.Since(at))
		if err == nil && s.set.commitInterval == 0 {
			if err = s.await("Flush", s, s.plugin.Flush); err != nil {
				err = &flushError{err}
			}
		}
		if err == nil {
			s.metrics.note(&s.metrics.send, len(batch))
			return nil
		}
		wait := s.set.backoff(tries)
		forever := s.set.retryTimeout < 0 || s.set.implicit
		if !isRetriable(err) || s.unreturned != nil || ctx.Err() != nil || !forever && time.Since(began)+wait > s.set.retryTimeout {
			return err
		}
		s.log.Warn("a put has failed for now and is tried again", "records", len(batch), "after", wait, "error", err)
		s.rest(ctx, wait, s)
		if ctx.Err() != nil {
			return err
		}
	}
}

// settle acknowledges: what was accepted at once, with the next commit or with the next poll.
func (s *shareSource) settle(out outcome) {
	if s.set.implicit {
		if out.failed != nil {
			return // what nothing is said of is given back when the consumer closes
		}
		s.pending = append(s.pending, append(out.accept, out.reject...)...)
		return
	}
	say := map[shareclient.AcknowledgeType][]*shareclient.Record{shareclient.Release: out.release, shareclient.Reject: out.reject}
	if s.set.commitInterval > 0 {
		s.pending = append(s.pending, out.accept...)
	} else {
		say[shareclient.Accept] = out.accept
	}
	s.acknowledge(say)
}

// flush accepts what is pending, once it is safe.
func (s *shareSource) flush() error {
	s.committed = time.Now()
	records := s.pending
	if s.set.implicit {
		s.accept(records)
		return nil
	}
	err := s.await("Flush", s, s.plugin.Flush)
	if err == nil {
		s.accept(records)
		return nil
	}
	s.pending = nil
	s.acknowledge(map[shareclient.AcknowledgeType][]*shareclient.Record{shareclient.Release: records})
	if isRetriable(err) {
		s.log.Warn("a flush has failed for now, its records are released", "records", len(records), "error", err)
		return nil
	}
	return &flushError{err}
}

// accept accepts what is pending.
func (s *shareSource) accept(records []*shareclient.Record) {
	if len(records) == 0 {
		return
	}
	s.pending = nil
	s.acknowledge(map[shareclient.AcknowledgeType][]*shareclient.Record{shareclient.Accept: records})
}

// acknowledge tells the consumer what becomes of records and commits. A commit that fails is no failure of the task: its records come again.
func (s *shareSource) acknowledge(say map[shareclient.AcknowledgeType][]*shareclient.Record) {
	said := map[shareclient.AcknowledgeType][]*shareclient.Record{}
	n := 0
	for t, records := range say {
		for _, r := range records {
			n++
			if err := s.consumer.Acknowledge(r, t); err == nil {
				said[t] = append(said[t], r)
			}
		}
	}
	if n == 0 {
		return
	}
	s.metrics.hold(-n)
	ctx, cancel := context.WithTimeout(s.life, commitTimeout)
	defer cancel()
	err := s.consumer.Commit(ctx)
	s.committed = time.Now()
	if err != nil {
		s.log.Warn("acknowledgements were refused: the records come again", "error", err)
	}
	m := s.metrics
	m.noteTime(&m.took, time.Since(s.polled))
	count := func(t shareclient.AcknowledgeType) int {
		return len(slices.DeleteFunc(said[t], func(r *shareclient.Record) bool { return concerns(err, r) }))
	}
	m.note(&m.acknowledge, count(shareclient.Accept))
	m.note(&m.release, count(shareclient.Release))
	m.note(&m.reject, count(shareclient.Reject))
}

// concerns tells whether an error of Commit is about a record: about its partition, or about a whole node.
func concerns(err error, r *shareclient.Record) bool {
	if err == nil {
		return false
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(many.Unwrap(), func(err error) bool { return concerns(err, r) })
	}
	var e *shareclient.Error
	return !errors.As(err, &e) || !e.OfPartition || e.Of == shareclient.Partition{Topic: r.Topic, Partition: r.Partition}.String()
}
