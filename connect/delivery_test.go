package connect

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare"
)

// A basic sink in a share group gets every record, those of before it existed too, and accepts them.
func TestEveryRecordIsDelivered(t *testing.T) {
	inBubble(t, func(h *house) {
		h.produce("orders", numbered(50)...)
		sink := &testSink{}
		w, _ := h.worker(sink)
		require.NoError(t, w.Put(config("tasks.max=2")))
		h.done(sink, 50)
		w.Close()
		assert.Equal(t, numbered(50), sink.all(), "each once")
		assert.Equal(t, [][]string{{"orders"}, {"orders"}}, sink.opened, "each task is opened once, with all topics")
		assert.Equal(t, 2, sink.stops)
	}, kshare.WithTopic("orders", 4))
}

// A worker that crashes between put and acknowledge leaves the records to others, when their lock has ended or their connection has.
func TestCrashBetweenPutAndAcknowledge(t *testing.T) {
	inBubble(t, func(h *house) {
		h.produce("orders", numbered(10)...)
		var w *Worker
		var l *link
		dying := &testSink{}
		dying.put = func(context.Context, int, []*SinkRecord) error { l.crash(); return nil }
		w, l = h.worker(dying)
		require.NoError(t, w.Put(config()))
		h.eventually(time.Minute, func() bool { return len(dying.all()) > 0 }, "it has put")
		w.Close()
		sink := &testSink{}
		w, _ = h.worker(sink)
		defer w.Close()
		require.NoError(t, w.Put(config()))
		h.done(sink, 10)
		assert.Equal(t, numbered(10), sink.all(), "nothing of what was put without an acknowledgement is lost")
	})
}

// A task of two that dies while it puts leaves its records to the other, within the time of the lock.
func TestKilledTaskLeavesItsRecordsToTheSurvivor(t *testing.T) {
	inBubble(t, func(h *house) {
		hang := make(chan struct{})
		sink := &testSink{}
		sink.put = func(_ context.Context, task int, _ []*SinkRecord) error {
			if task == 0 {
				<-hang
				return errors.New("too late")
			}
			return nil
		}
		w, _ := h.worker(sink, "task.shutdown.graceful.timeout.ms=1000")
		defer w.Close()
		defer close(hang)
		require.NoError(t, w.Put(config("tasks.max=1", "consumer.override.max.poll.records=5", "consumer.override.share.acquire.mode=record_limit")))
		h.running(w, 1)
		h.produce("orders", numbered(20)...)
		h.eventually(time.Minute, func() bool { return len(sink.batches) > 0 }, "task 0 is at it")
		require.NoError(t, w.Put(config("tasks.max=2", "consumer.override.max.poll.records=5", "consumer.override.share.acquire.mode=record_limit")))
		killed := time.Now()
		w.current(0).kill()
		h.eventually(31*time.Second, func() bool { return len(sink.different()) == 20 }, "the other task has all")
		t.Logf("all was there %s after the kill", time.Since(killed))
		require.NoError(t, w.Stop("copy"))
		assert.Equal(t, numbered(20), sink.all())
	})
}
