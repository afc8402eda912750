package connect

import (
	"context"
	"errors"
	"slices"
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
		h.eventually(time.Minute, func() bool { return sink.puts() > 0 }, "task 0 is at it")
		require.NoError(t, w.Put(config("tasks.max=2", "consumer.override.max.poll.records=5", "consumer.override.share.acquire.mode=record_limit")))
		killed := time.Now()
		w.current(0).kill()
		h.eventually(31*time.Second, func() bool { return len(sink.different()) == 20 }, "the other task has all")
		t.Logf("all was there %s after the kill", time.Since(killed))
		require.NoError(t, w.Stop("copy"))
		assert.Equal(t, numbered(20), sink.all())
	})
}

// A put that takes longer than the lock keeps its records: the other task, which is free, gets none of them.
func TestSlowPutPastTheLock(t *testing.T) {
	inBubble(t, func(h *house) {
		h.batch("orders", numbered(5)...)
		sink := &testSink{put: func(context.Context, int, []*SinkRecord) error { time.Sleep(100 * time.Second); return nil }}
		w, _ := h.worker(sink)
		defer w.Close()
		require.NoError(t, w.Put(config("tasks.max=2")))
		h.done(sink, 5)
		assert.Equal(t, 1, sink.puts(), "one delivery")
		assert.Equal(t, numbered(5), sink.all())
	})
}

// What passes is released and comes again, here or elsewhere.
func TestRetriablePut(t *testing.T) {
	inBubble(t, func(h *house) {
		h.batch("orders", numbered(5)...)
		sink := &testSink{}
		sink.put = func(context.Context, int, []*SinkRecord) error {
			sink.mu.Lock()
			defer sink.mu.Unlock()
			if len(sink.batches) < 3 {
				return Retriable(errors.New("later"))
			}
			return nil
		}
		w, _ := h.worker(sink)
		defer w.Close()
		require.NoError(t, w.Put(config()))
		h.done(sink, 5)
		assert.Equal(t, numbered(5), sink.all())
		assert.Equal(t, 3, sink.tried("order 0000"))
		assert.Equal(t, []State{Running}, states(w))
	})
}

// A record that always fails for now is given up at the delivery limit, which the broker counts. With errors.retry.timeout=-1 it is never given back.
func TestPoisonReachesTheDeliveryLimit(t *testing.T) {
	inBubble(t, func(h *house) {
		h.batch("orders", numbered(8)...)
		sink := &testSink{put: func(_ context.Context, _ int, records []*SinkRecord) error {
			for _, v := range valuesOf(records) {
				if v == "order 0003" {
					return Retriable(errors.New("later"))
				}
			}
			return nil
		}}
		w, _ := h.worker(sink)
		defer w.Close()
		require.NoError(t, w.Put(config()))
		h.eventually(time.Hour, func() bool { return h.lag("connect-copy", "orders") == 0 && sink.tried("order 0003") == 5 }, "the group is done with it")
		assert.Equal(t, append(numbered(3), numbered(8)[4:]...), sink.all(), "all the others: the broker narrows what is delivered with it down to it alone")
	})
	inBubble(t, func(h *house) {
		h.batch("orders", numbered(1)...)
		began := time.Now()
		sink := &testSink{put: func(context.Context, int, []*SinkRecord) error {
			if time.Since(began) < time.Hour {
				return Retriable(errors.New("the sink is down"))
			}
			return nil
		}}
		w, _ := h.worker(sink)
		defer w.Close()
		require.NoError(t, w.Put(config("errors.retry.timeout=-1")))
		h.eventually(2*time.Hour, func() bool { return len(sink.all()) == 1 }, "it is written once the sink is back")
		h.done(sink, 1)
		s, err := h.cluster.InspectSharePartition("connect-copy", "orders", 0)
		require.NoError(t, err)
		assert.EqualValues(t, 1, s.StartOffset)
	})
}

// What fails for good is rejected alone, and has one dead letter, which the broker writes.
func TestFatalPut(t *testing.T) {
	for _, tolerance := range []string{"none", "all"} {
		t.Run(tolerance, func(t *testing.T) {
			inBubble(t, func(h *house) {
				h.batch("orders", numbered(6)...)
				sink := &testSink{put: func(_ context.Context, _ int, records []*SinkRecord) error {
					for _, v := range valuesOf(records) {
						if v == "order 0002" {
							return errors.New("no good")
						}
					}
					return nil
				}}
				w, _ := h.worker(sink)
				defer w.Close()
				require.NoError(t, w.Put(config("errors.tolerance="+tolerance, "errors.deadletterqueue.topic.name=dlq.orders", "errors.deadletterqueue.context.headers.enable=true")))
				h.done(sink, 5)
				assert.Equal(t, append(numbered(2), numbered(6)[3:]...), sink.all())
				assert.Len(t, h.read("dlq.orders"), 1, "one dead letter for one record")
				if tolerance == "none" {
					assert.Equal(t, []State{Failed}, states(w))
					assert.Contains(t, trace(w), "no good")
					assert.Contains(t, trace(w), toleranceKey)
				} else {
					assert.Equal(t, []State{Running}, states(w))
				}
			}, kshare.WithConfig("errors.deadletterqueue.auto.create.topics.enable", "true"), kshare.WithConfig("errors.deadletterqueue.topic.name.prefix", "dlq."))
		})
	}
}

// A record that cannot be converted fails the task and is not lost, or is rejected alone where errors are tolerated.
func TestConversionFails(t *testing.T) {
	bad := []string{`{"a":1}`, `no json`, `{"a":2}`}
	inBubble(t, func(h *house) {
		h.batch("orders", bad...)
		sink := &testSink{}
		w, _ := h.worker(sink)
		defer w.Close()
		json := []string{"value.converter=JsonConverter", "value.converter.schemas.enable=false"}
		require.NoError(t, w.Put(config(json...)))
		h.eventually(time.Minute, func() bool { return slices.Equal(states(w), []State{Failed}) }, "it fails")
		assert.Contains(t, trace(w), "value.converter: orders-0 offset 1: it is not JSON")
		assert.Empty(t, sink.all())
		assert.EqualValues(t, 3, h.lag("connect-copy", "orders"), "nothing is lost")
		require.NoError(t, w.Put(config(append(json, "errors.tolerance=all")...)))
		h.done(sink, 2)
		assert.Equal(t, []string{`{"a":1}`, `{"a":2}`}, sink.all())
	})
}

// Leaders move, a broker stops and comes back: every record is delivered.
func TestLeaderMovesAndBrokersRestart(t *testing.T) {
	inBubble(t, func(h *house) {
		sink := &testSink{put: func(context.Context, int, []*SinkRecord) error { time.Sleep(300 * time.Millisecond); return nil }}
		w, _ := h.worker(sink)
		defer w.Close()
		require.NoError(t, w.Put(config("tasks.max=3", "consumer.override.max.poll.records=2", "consumer.override.share.acquire.mode=record_limit")))
		h.running(w, 3)
		h.produce("orders", numbered(60)...)
		for i := range int32(6) {
			to := i%3 + 1
			if i%2 == 0 {
				_ = h.cluster.MoveLeader("orders", 0, to, false)
				_ = h.cluster.MoveCoordinator(kshare.GroupCoordinator, "connect-copy", to, 0)
			} else {
				require.NoError(t, h.cluster.StopNode(to))
				time.Sleep(2 * time.Second)
				require.NoError(t, h.cluster.StartNode(to))
			}
			time.Sleep(time.Second)
		}
		h.done(sink, 60)
		assert.Equal(t, numbered(60), sink.different())
		assert.Equal(t, []State{Running, Running, Running}, states(w), "no task fails of it")
	}, kshare.WithBrokers(3), kshare.WithConfig("default.replication.factor", "3"))
}

// Six tasks on one partition are faster than two, and going from two to six stops nobody and loses nothing.
func TestScaleFromTwoToSixTasks(t *testing.T) {
	inBubble(t, func(h *house) {
		sink := &testSink{put: func(_ context.Context, _ int, records []*SinkRecord) error {
			time.Sleep(time.Duration(len(records)) * 100 * time.Millisecond)
			return nil
		}}
		w, _ := h.worker(sink)
		defer w.Close()
		small := []string{"consumer.override.max.poll.records=1", "consumer.override.share.acquire.mode=record_limit"}
		require.NoError(t, w.Put(config(append(small, "tasks.max=2")...)))
		h.running(w, 2)
		first := w.current(0)
		h.produce("orders", numbered(600)...)
		through := func() int { return len(sink.all()) }
		h.eventually(time.Hour, func() bool { return through() > 20 }, "two are at it")
		before, at := through(), time.Now()
		time.Sleep(10 * time.Second)
		two := float64(through()-before) / time.Since(at).Seconds()
		require.NoError(t, w.Put(config(append(small, "tasks.max=6")...)))
		h.running(w, 6)
		assert.Same(t, first, w.current(0), "who works goes on working")
		time.Sleep(2 * time.Second)
		before, at = through(), time.Now()
		time.Sleep(5 * time.Second)
		six := float64(through()-before) / time.Since(at).Seconds()
		t.Logf("two tasks put %.1f records a second, six %.1f", two, six)
		assert.Greater(t, six, 2.5*two)
		h.done(sink, 600)
		assert.Equal(t, numbered(600), sink.all(), "each once")
		for task := range 6 {
			assert.NotZero(t, sink.byTask()[task], "task %d had a part in it", task)
		}
		require.NoError(t, w.Put(config(append(small, "tasks.max=1")...)))
		h.running(w, 1)
		h.produce("orders", "order 9999")
		h.done(sink, 601)
	})
}

// A record that was put and whose acknowledgement was lost comes again: N records, N or more deliveries.
func TestDuplicateDelivery(t *testing.T) {
	inBubble(t, func(h *house) {
		h.batch("orders", numbered(4)...)
		sink := &testSink{}
		_, err := h.cluster.AddFault(kshare.Fault{Name: "lost", API: "ShareAcknowledge", Times: 1, Error: "INVALID_SHARE_SESSION_EPOCH", Stage: "before"})
		require.NoError(t, err)
		w, _ := h.worker(sink)
		defer w.Close()
		require.NoError(t, w.Put(config()))
		h.done(sink, 4)
		assert.Equal(t, numbered(4), sink.different())
		assert.Equal(t, 2, sink.tried("order 0000"))
	})
}

// A worker that is closed while it puts lets the put end and acknowledges it; one that takes too long is given up, and its records come again.
func TestCloseDuringPut(t *testing.T) {
	inBubble(t, func(h *house) {
		h.batch("orders", numbered(4)...)
		sink := &testSink{put: func(context.Context, int, []*SinkRecord) error { time.Sleep(3 * time.Second); return nil }}
		w, _ := h.worker(sink)
		require.NoError(t, w.Put(config()))
		h.eventually(time.Minute, func() bool { return sink.tried("order 0000") == 1 }, "it puts")
		w.Close()
		assert.Equal(t, numbered(4), sink.all())
		assert.Zero(t, h.lag("connect-copy", "orders"))
		assert.Equal(t, 1, sink.stops)
	})
	inBubble(t, func(h *house) {
		h.batch("orders", numbered(4)...)
		sink := &testSink{put: func(ctx context.Context, _ int, _ []*SinkRecord) error { <-ctx.Done(); return ctx.Err() }}
		w, _ := h.worker(sink)
		require.NoError(t, w.Put(config()))
		h.eventually(time.Minute, func() bool { return sink.tried("order 0000") == 1 }, "it puts")
		at := time.Now()
		w.Close()
		assert.GreaterOrEqual(t, time.Since(at), 5*time.Second, "task.shutdown.graceful.timeout.ms")
		assert.Less(t, time.Since(at), 12*time.Second)
		for _, g := range h.cluster.InspectGroups() {
			assert.Empty(t, g.Members, "the member has left")
		}
		sink = &testSink{}
		w, _ = h.worker(sink)
		defer w.Close()
		at = time.Now()
		require.NoError(t, w.Put(config()))
		h.done(sink, 4)
		assert.Less(t, time.Since(at), 30*time.Second, "they were given back, not kept to the end of their lock")
	})
}

// Paused, resumed, stopped and restarted, a connector loses nothing, and while it is paused its tasks hold nothing.
func TestPauseResumeStopRestart(t *testing.T) {
	inBubble(t, func(h *house) {
		sink := &testSink{}
		w, _ := h.worker(sink)
		defer w.Close()
		require.NoError(t, w.Put(config("tasks.max=2")))
		h.running(w, 2)
		all := numbered(50)
		next := func(n int) { h.produce("orders", all[:n]...); all = all[n:] }
		next(10)
		h.done(sink, 10)
		require.NoError(t, w.Pause("copy"))
		h.eventually(time.Minute, func() bool { return slices.Equal(states(w), []State{Paused, Paused}) }, "both pause")
		next(10)
		time.Sleep(time.Minute)
		assert.Len(t, sink.all(), 10)
		s, err := h.cluster.InspectSharePartition("connect-copy", "orders", 0)
		require.NoError(t, err)
		assert.Zero(t, s.InFlight, "nobody holds anything")
		require.NoError(t, w.Resume("copy"))
		h.done(sink, 20)
		next(10)
		require.NoError(t, w.Stop("copy"))
		assert.Empty(t, states(w))
		next(10)
		require.NoError(t, w.Resume("copy"))
		h.done(sink, 40)
		require.NoError(t, w.Restart("copy"))
		h.running(w, 2)
		require.NoError(t, w.RestartTask("copy", 1))
		next(10)
		h.done(sink, 50)
		assert.Equal(t, numbered(50), sink.all(), "each once")
		require.ErrorIs(t, w.Pause("none"), ErrNoConnector)
		require.ErrorIs(t, w.RestartTask("copy", 2), ErrNoConnector)
		require.NoError(t, w.Delete("copy"))
		assert.Empty(t, w.Connectors())
	})
}

// A task that fails, panics, does not start or never returns stops neither the others nor the worker, and loses nothing.
func TestFailingTasksLeaveOthersAlone(t *testing.T) {
	hang := make(chan struct{})
	for name, sink := range map[string]*testSink{
		"panics": {put: func(_ context.Context, task int, _ []*SinkRecord) error {
			if task == 0 {
				panic("oh")
			}
			return nil
		}},
		"does not start": {start: func(task int) error {
			if task == 0 {
				return errors.New("no")
			}
			return nil
		}},
		"never returns": {},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *house) {
				if name == "never returns" {
					hang = make(chan struct{})
					sink.put = func(_ context.Context, task int, _ []*SinkRecord) error {
						if task == 0 {
							<-hang
						}
						return nil
					}
				}
				w, _ := h.worker(sink)
				defer w.Close()
				require.NoError(t, w.Put(config("tasks.max=2", "errors.tolerance=none", "consumer.override.max.poll.records=1", "consumer.override.share.acquire.mode=record_limit")))
				h.eventually(time.Minute, func() bool { return len(states(w)) == 2 }, "they start")
				other := config("name=other", "connector.class=OtherSink", "share.group.id=others")
				require.NoError(t, w.Put(other))
				h.produce("orders", numbered(20)...)
				h.eventually(10*time.Minute, func() bool { return slices.Contains(states(w), Failed) }, "one fails")
				h.eventually(10*time.Minute, func() bool { return h.lag("connect-copy", "orders") == 0 && h.lag("others", "orders") == 0 }, "all is done")
				assert.Equal(t, Failed, states(w)[0])
				assert.Equal(t, Running, states(w)[1])
				switch name {
				case "never returns":
					assert.Contains(t, trace(w), "consumer.override.max.poll.interval.ms: Put has not returned for 5m0s")
					close(hang)
				case "panics":
					assert.Contains(t, trace(w), "panic: oh")
				}
				assert.Equal(t, numbered(20), h.other.all(), "the other connector does not notice")
				if name != "panics" { // which has its record rejected
					assert.Equal(t, numbered(20), sink.different())
				}
			})
		})
	}
}
