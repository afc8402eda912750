package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// State is how a connector or a task does, in the words of Kafka Connect.
type State string

// The states.
const (
	Unassigned State = "UNASSIGNED" // it is about to start
	Running    State = "RUNNING"
	Paused     State = "PAUSED"
	Stopped    State = "STOPPED"
	Failed     State = "FAILED"
)

// source is where a task's records come from, and who tells what became of them.
type source interface {
	// iteration does with the next records all that there is to do. It waits for some until the context ends.
	iteration(ctx context.Context) error
	// close tells what was done and gives back the rest. It does as much of that as the context has time for.
	close(ctx context.Context)
}

// task runs a SinkTask until it is told to stop, or fails.
type task struct {
	id         int
	set        *settings
	topics     []string
	plugin     SinkTask
	config     map[string]string
	worker     map[string]string
	clientOpts []kgo.Opt
	log        *slog.Logger
	metrics    *taskMetrics
	open       func() (source, error) // makes the source

	life context.Context // of all calls, ends when the task is not waited for any longer
	kill context.CancelFunc
	done chan struct{}

	mu         sync.Mutex
	want       State // Running, Paused or Stopped
	changed    context.CancelFunc
	state      State
	trace      string
	unreturned <-chan error // of the call that was abandoned
	reports    map[*SinkRecord]error
}

func (t *task) setState(s State, trace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state, t.trace = s, trace
}

func (t *task) status() (State, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state, t.trace
}

// tell has the task be in another state. It gets there when the call that runs has returned.
func (t *task) tell(want State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.want == Stopped {
		return
	}
	t.want = want
	t.changed()
}

// stop ends the task. A call that has not returned after the grace is abandoned.
func (t *task) stop(grace time.Duration) {
	t.tell(Stopped)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-t.done:
	case <-timer.C:
	}
	t.kill()
	<-t.done
}

// wanted is what the task is to be, and a context that ends when that changes.
func (t *task) wanted() (State, context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, cancel := context.WithCancel(t.life)
	t.changed = cancel
	return t.want, ctx
}

// run is the whole life of the task.
func (t *task) run() {
	defer close(t.done)
	defer t.kill()
	err := t.work()
	if err == nil || t.life.Err() != nil && errors.Is(err, errAbandoned) {
		t.setState(Stopped, "")
	} else {
		t.log.Error("the task has failed", "error", err)
		t.setState(Failed, err.Error())
	}
	t.stopPlugin()
}

// stopPlugin stops the plug-in, once it has returned where it was abandoned: nobody waits for that.
func (t *task) stopPlugin() {
	stop := func() {
		if err := t.guard(func() error { return t.plugin.Stop() }); err != nil {
			t.log.Warn("the task does not stop cleanly", "error", err)
		}
	}
	if t.unreturned != nil {
		go func() { <-t.unreturned; stop() }()
		return
	}
	stopped := make(chan error, 1)
	go func() { stop(); stopped <- nil }()
	timer := time.NewTimer(t.set.shutdown)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C:
		t.log.Warn("the task's Stop has not returned and is abandoned", "after", t.set.shutdown)
	}
}

// work starts the plug-in and has it work as long as that is wanted.
func (t *task) work() (err error) {
	if err := t.await("Start", nil, func(ctx context.Context) error {
		return t.plugin.Start(ctx, TaskContext{
			Connector: t.set.name, Task: t.id, Log: t.log, Worker: t.worker, ClientOpts: t.clientOpts, Report: t.report,
		}, t.config)
	}); err != nil {
		return fmt.Errorf("%s: the task does not start: %w", t.set.name, err)
	}
	if err := t.await("Open", nil, func(context.Context) error { return t.plugin.Open(t.topics) }); err != nil {
		return fmt.Errorf("%s: the task does not open: %w", t.set.name, err)
	}
	var from source
	leave := func() {
		if from == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), max(t.set.shutdown, time.Second)) // a task that is killed gives its records back too
		defer cancel()
		from.close(ctx)
		from = nil
	}
	defer leave()
	for {
		want, ctx := t.wanted()
		switch want {
		case Stopped:
			return nil
		case Paused: // without records in its hands: others may have them
			leave()
			t.setState(Paused, "")
			<-ctx.Done()
		default:
			if from == nil {
				if from, err = t.open(); err != nil {
					return err
				}
				t.setState(Running, "")
			}
			err = from.iteration(ctx)
		}
		t.mu.Lock()
		t.changed()
		t.mu.Unlock()
		switch {
		case err != nil:
			return err
		case t.life.Err() != nil:
			return errAbandoned
		}
	}
}

// report is TaskContext.Report.
func (t *task) report(r *SinkRecord, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reports == nil {
		t.reports = map[*SinkRecord]error{}
	}
	t.reports[r] = why
}

// reported takes what was reported.
func (t *task) reported() map[*SinkRecord]error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.reports
	t.reports = nil
	return r
}

// errAbandoned is the error of a call that is not waited for any longer.
var errAbandoned = errors.New("it is not waited for any longer")

// guard makes a panic of a plug-in an error.
func (t *task) guard(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			t.log.Error("the plug-in panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return call()
}

// tending is what is due while a call runs, again and again.
type tending interface {
	due() time.Time // zero for never
	tend(ctx context.Context)
}

// await makes a call that may take long, with what is due meanwhile. A call that takes longer than max.poll.interval.ms is abandoned, as one is when the task is killed.
func (t *task) await(what string, meanwhile tending, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(t.life)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- t.guard(func() error { return call(ctx) }) }()
	limit := time.NewTimer(t.set.maxPollInterval)
	defer limit.Stop()
	for {
		var due <-chan time.Time
		if meanwhile != nil {
			if at := meanwhile.due(); !at.IsZero() {
				timer := time.NewTimer(time.Until(at))
				defer timer.Stop()
				due = timer.C
			}
		}
		select {
		case err := <-done:
			return err
		case <-due:
			meanwhile.tend(ctx)
			continue
		case <-t.life.Done():
			t.unreturned = done
			return fmt.Errorf("%s: %w", what, errAbandoned)
		case <-limit.C:
			t.unreturned = done
			return fmt.Errorf("consumer.override.max.poll.interval.ms: %s has not returned for %s", what, t.set.maxPollInterval)
		}
	}
}

// rest waits, with what is due meanwhile, until the time is over or the context ends.
func (t *task) rest(ctx context.Context, d time.Duration, meanwhile tending) {
	_ = t.await("rest", meanwhile, func(context.Context) error {
		timer := time.NewTimer(min(d, t.set.maxPollInterval/2))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return nil
	})
}

// retryDelayMin is the first wait before a retry, which doubles up to errors.retry.delay.max.ms, as in Kafka Connect.
const retryDelayMin = 300 * time.Millisecond

// backoff is how long to wait after so many failures in a row.
func (s *settings) backoff(failures int) time.Duration {
	d := retryDelayMin << min(failures, 20)
	return min(d, s.retryDelayMax)
}
