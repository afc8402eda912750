package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/shareclient"
)

// mockConsumer is a share consumer whose polls a test has written.
type mockConsumer struct {
	log     *[]string
	polls   [][]*shareclient.Record
	lock    time.Duration
	refuses error // what Commit says
}

// logging is held by whoever writes to the log of a mock: the task and the goroutine of a call do.
var logging sync.Mutex

// note writes to a log.
func note(log *[]string, format string, args ...any) {
	logging.Lock()
	defer logging.Unlock()
	*log = append(*log, fmt.Sprintf(format, args...))
}

func (c *mockConsumer) note(format string, args ...any) { note(c.log, format, args...) }

func (c *mockConsumer) Poll(ctx context.Context) ([]*shareclient.Record, error) {
	if len(c.polls) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	next := c.polls[0]
	c.polls = c.polls[1:]
	return next, nil
}

func (c *mockConsumer) Acknowledge(r *shareclient.Record, t shareclient.AcknowledgeType) error {
	names := map[shareclient.AcknowledgeType]string{shareclient.Accept: "ACCEPT", shareclient.Release: "RELEASE", shareclient.Reject: "REJECT"}
	c.note("%s %d", names[t], r.Offset)
	return nil
}

func (c *mockConsumer) Commit(context.Context) error          { c.note("commit"); return c.refuses }
func (c *mockConsumer) Renew(context.Context) error           { c.note("renew"); return nil }
func (c *mockConsumer) AcquisitionLockTimeout() time.Duration { return c.lock }
func (c *mockConsumer) AcknowledgementsForTransaction() shareclient.Acknowledgements {
	return nil
}
func (c *mockConsumer) GroupMetadata() shareclient.GroupMetadata {
	return shareclient.GroupMetadata{}
}
func (c *mockConsumer) Close(context.Context) error { c.note("close"); return nil }

// records are records of orders-0.
func records(offsets ...int64) (all []*shareclient.Record) {
	for _, o := range offsets {
		all = append(all, &shareclient.Record{Topic: "orders", Offset: o, Value: fmt.Append(nil, o), DeliveryCount: 1})
	}
	return all
}

// loop runs iterations of a task over a mock consumer and returns what happened in order. Releases and rejections of one commit are told before its accepts.
func loop(t *testing.T, properties []string, sink *testSink, iterations int, polls ...[]*shareclient.Record) (log []string, m *taskMetrics, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		set, bad := resolve(workerProperties(), config(properties...))
		require.NoError(t, bad)
		m = &taskMetrics{share: true}

		tk := &task{set: set, plugin: sink.NewTask(), log: discard, metrics: m, done: make(chan struct{}), changed: func() {}}
		tk.life, tk.kill = context.WithCancel(t.Context())
		defer tk.kill()
		require.NoError(t, tk.plugin.Start(t.Context(), TaskContext{Report: tk.report}, nil))

		put := sink.put
		sink.put = func(ctx context.Context, task int, records []*SinkRecord) error {
			note(&log, "put %v", valuesOf(records))
			if put != nil {
				return put(ctx, task, records)
			}
			return nil
		}
		sink.flush = func(int) error { note(&log, "flush"); return nil }
		s := newShareSource(tk, &mockConsumer{log: &log, polls: polls, lock: 30 * time.Second}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for range iterations {
			if err = s.iteration(ctx); err != nil {
				break
			}
		}
		s.close(ctx)
		sink.put, sink.flush = put, nil
	})
	return log, m, err
}

func TestAcceptAfterPut(t *testing.T) {
	log, m, err := loop(t, nil, &testSink{}, 1, records(0, 1))
	require.NoError(t, err)
	assert.Equal(t, []string{"put [0 1]", "flush", "ACCEPT 0", "ACCEPT 1", "commit", "close"}, log)
	assert.EqualValues(t, 2, m.acknowledge.sum)
}

func TestReleaseAfterRetriable(t *testing.T) {
	sink := &testSink{put: func(context.Context, int, []*SinkRecord) error { return Retriable(errors.New("later")) }}
	log, m, err := loop(t, nil, sink, 1, records(0, 1))
	require.NoError(t, err, "the task goes on")
	assert.Equal(t, []string{"put [0 1]", "RELEASE 0", "RELEASE 1", "commit", "close"}, log)
	assert.EqualValues(t, 2, m.release.sum)
	assert.Zero(t, m.acknowledge.sum)
}

func TestRejectAfterUnrecoverable(t *testing.T) {
	never := func(context.Context, int, []*SinkRecord) error { return errors.New("never") }
	log, m, err := loop(t, []string{"errors.tolerance=all"}, &testSink{put: never}, 1, records(7))
	require.NoError(t, err, "tolerated")
	assert.Equal(t, []string{"put [7]", "REJECT 7", "commit", "close"}, log)
	assert.EqualValues(t, 1, m.reject.sum)

	log, _, err = loop(t, nil, &testSink{put: never}, 1, records(7))
	require.ErrorContains(t, err, "errors.tolerance", "it fails once the rejection is told")
	assert.Equal(t, []string{"put [7]", "REJECT 7", "commit", "close"}, log)

	log, _, err = loop(t, []string{"errors.tolerance=all", "share.reject.scope=batch"}, &testSink{put: never}, 1, records(7, 8))
	require.NoError(t, err)
	assert.Equal(t, []string{"put [7 8]", "REJECT 7", "REJECT 8", "commit", "close"}, log, "as the KIP's text has it")
}

// Of a batch that fails for good only those are rejected that fail alone.
func TestRejectWhoIsToBlame(t *testing.T) {
	poison := func(_ context.Context, _ int, records []*SinkRecord) error {
		if slices.Contains(valuesOf(records), "1") {
			return errors.New("1 is no good")
		}
		return nil
	}
	log, m, err := loop(t, []string{"errors.tolerance=all"}, &testSink{put: poison}, 1, records(0, 1, 2))
	require.NoError(t, err)
	assert.Equal(t, []string{"put [0 1 2]", "put [0]", "flush", "put [1]", "put [2]", "flush"}, log[:6])
	assert.ElementsMatch(t, []string{"ACCEPT 0", "REJECT 1", "ACCEPT 2", "commit", "close"}, log[6:])
	assert.EqualValues(t, 2, m.acknowledge.sum)
	assert.EqualValues(t, 1, m.reject.sum)
}

// commitSync is called at configured intervals: after each put without a configuration.
func TestCommitIntervals(t *testing.T) {
	log, _, err := loop(t, nil, &testSink{}, 2, records(0), records(1))
	require.NoError(t, err)
	assert.Equal(t, []string{"put [0]", "flush", "ACCEPT 0", "commit", "put [1]", "flush", "ACCEPT 1", "commit", "close"}, log)

	slow := &testSink{put: func(context.Context, int, []*SinkRecord) error { time.Sleep(400 * time.Millisecond); return nil }}
	log, _, err = loop(t, []string{"share.commit.interval.ms=1000"}, slow, 3, records(0), records(1), records(2))
	require.NoError(t, err)
	assert.Equal(t, []string{"put [0]", "put [1]", "put [2]", "flush", "ACCEPT 0", "ACCEPT 1", "ACCEPT 2", "commit", "close"}, log)

	log, _, err = loop(t, []string{"share.commit.interval.ms=1000"}, &testSink{}, 2, records(0))
	require.NoError(t, err)
	assert.Equal(t, []string{"put [0]", "flush", "ACCEPT 0", "commit", "close"}, log, "it is committed without another record")

	log, _, err = loop(t, []string{"share.commit.interval.ms=1000"}, &testSink{}, 1, records(0))
	require.NoError(t, err)
	assert.Equal(t, []string{"put [0]", "flush", "ACCEPT 0", "commit", "close"}, log, "and when the task is closed")
}

// In implicit mode acknowledgements go with the next poll, nothing can be released or rejected, and what fails is put again.
func TestImplicitMode(t *testing.T) {
	log, _, err := loop(t, []string{"share.acknowledgement.mode=implicit"}, &testSink{}, 2, records(0), records(1))
	require.NoError(t, err)
	assert.Equal(t, []string{"put [0]", "flush", "ACCEPT 0", "commit", "put [1]", "flush", "ACCEPT 1", "commit", "close"}, log)

	tries := 0
	later := &testSink{put: func(context.Context, int, []*SinkRecord) error {
		if tries++; tries < 3 {
			return Retriable(errors.New("later"))
		}
		return nil
	}}
	log, _, err = loop(t, []string{"share.acknowledgement.mode=implicit"}, later, 1, records(0))
	require.NoError(t, err)
	assert.Equal(t, []string{"put [0]", "put [0]", "put [0]", "flush", "ACCEPT 0", "commit", "close"}, log)

	never := &testSink{put: func(context.Context, int, []*SinkRecord) error { return errors.New("never") }}
	log, _, err = loop(t, []string{"share.acknowledgement.mode=implicit", "errors.tolerance=all"}, never, 1, records(0))
	require.ErrorContains(t, err, "never")
	assert.Equal(t, []string{"put [0]", "close"}, log, "nothing is said, so that closing gives the record back")
}

// Locks are renewed while a put is slow, and no longer.
func TestRenewWhilePutIsSlow(t *testing.T) {
	slow := &testSink{put: func(context.Context, int, []*SinkRecord) error { time.Sleep(45 * time.Second); return nil }}
	log, _, err := loop(t, nil, slow, 1, records(0))
	require.NoError(t, err)
	assert.Equal(t, []string{"put [0]", "renew", "renew", "renew", "renew", "flush", "ACCEPT 0", "commit", "close"}, log)
}

// What is retriable is put again in place for errors.retry.timeout, with waits that double.
func TestRetryInPlace(t *testing.T) {
	var at []time.Duration
	var began time.Time
	tries := 0
	sink := &testSink{put: func(context.Context, int, []*SinkRecord) error {
		if tries++; tries == 1 {
			began = time.Now()
		}
		at = append(at, time.Since(began))
		if tries < 5 {
			return Retriable(errors.New("later"))
		}
		return nil
	}}
	log, _, err := loop(t, []string{"errors.retry.timeout=60000", "errors.retry.delay.max.ms=1000"}, sink, 1, records(0))
	require.NoError(t, err)
	assert.Equal(t, []string{"ACCEPT 0", "commit", "close"}, log[len(log)-3:])
	ms := func(all ...int) (d []time.Duration) {
		for _, n := range all {
			d = append(d, time.Duration(n)*time.Millisecond)
		}
		return d
	}
	assert.Equal(t, ms(0, 300, 900, 1900, 2900), at)
	tries, at = 0, nil
	log, _, err = loop(t, []string{"errors.retry.timeout=1000"}, sink, 1, records(0))
	require.NoError(t, err)
	assert.Equal(t, ms(0, 300, 900), at, "a fourth try would come too late")
	assert.Equal(t, []string{"RELEASE 0", "commit", "close"}, log[len(log)-3:])
}

// A flush that fails rejects nothing: no record is to blame.
func TestFlushFails(t *testing.T) {
	sink := &flushSink{}
	sink.outcomes = []error{Retriable(errors.New("later")), nil, errors.New("never")}
	log, err := sink.loop(t, records(0), records(1), records(2))
	require.ErrorContains(t, err, "Flush: never")
	assert.Equal(t, []string{"RELEASE 0", "commit", "ACCEPT 1", "commit", "RELEASE 2", "commit"}, log)
}

// flushSink is a sink whose flushes have outcomes.
type flushSink struct{ outcomes []error }

func (f *flushSink) loop(t *testing.T, polls ...[]*shareclient.Record) (log []string, err error) {
	synctest.Test(t, func(t *testing.T) {
		set, bad := resolve(workerProperties(), config())
		require.NoError(t, bad)
		sink := &testSink{flush: func(int) error {
			next := f.outcomes[0]
			f.outcomes = f.outcomes[1:]
			return next
		}}
		tk := &task{set: set, plugin: sink.NewTask(), log: discard, metrics: &taskMetrics{share: true}, changed: func() {}}
		tk.life, tk.kill = context.WithCancel(t.Context())
		defer tk.kill()
		require.NoError(t, tk.plugin.Start(t.Context(), TaskContext{}, nil))
		s := newShareSource(tk, &mockConsumer{log: &log, polls: polls}, nil)
		for range polls {
			if err = s.iteration(t.Context()); err != nil {
				return
			}
		}
	})
	return log, err
}

// What a task reports of one record (KIP-610) has that one rejected.
func TestReportedRecords(t *testing.T) {
	sink := &testSink{report: func(r *SinkRecord) error {
		if r.Offset == 1 {
			return errors.New("1 is no good")
		}
		return nil
	}}
	log, _, err := loop(t, []string{"errors.tolerance=all"}, sink, 1, records(0, 1))
	require.NoError(t, err)
	assert.Equal(t, []string{"put [0 1]", "flush"}, log[:2])
	assert.ElementsMatch(t, []string{"ACCEPT 0", "REJECT 1", "commit", "close"}, log[2:])
}

// A commit that is refused is no failure of the task, and what it was about is counted as nothing.
func TestCommitIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := resolve(workerProperties(), config())
		require.NoError(t, err)
		var log []string
		m := &taskMetrics{share: true}
		tk := &task{set: set, plugin: (&testSink{}).NewTask(), log: discard, metrics: m, changed: func() {}}
		tk.life, tk.kill = context.WithCancel(t.Context())
		defer tk.kill()
		mixed := append(records(0), &shareclient.Record{Topic: "orders", Partition: 1, Offset: 0, DeliveryCount: 2})
		refusal := errors.Join(&shareclient.Error{API: "ShareAcknowledge", Of: "orders-1", OfPartition: true, Code: 121})
		s := newShareSource(tk, &mockConsumer{log: &log, polls: [][]*shareclient.Record{mixed, records(1)}, refuses: refusal}, nil)
		require.NoError(t, s.iteration(t.Context()))
		assert.EqualValues(t, 1, m.acknowledge.sum, "orders-0 alone")
		assert.EqualValues(t, 1, m.redelivered.sum)
		require.NoError(t, s.iteration(t.Context()))
		assert.EqualValues(t, 2, m.acknowledge.sum)
		assert.EqualValues(t, 3, m.acquire.sum)
		assert.Zero(t, m.activeNow)
	})
}
