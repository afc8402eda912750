package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kshare/internal/spelling"
	"kshare/shareclient"
)

// WorkerConfig says what a worker is made of. Properties are needed.
type WorkerConfig struct {
	Properties map[string]string                          // the worker's, bootstrap.servers among them
	Plugins    map[string]func() SinkConnector            // by connector.class; nil stands for Plugins()
	ClientOpts func(connector string, task int) []kgo.Opt // how a task's clients reach the brokers beside bootstrap.servers: dialer, TLS; task is -1 for the worker's own
	Log        *slog.Logger                               // nil for none
}

// Worker runs connectors.
type Worker struct {
	cfg WorkerConfig
	log *slog.Logger

	mu         sync.Mutex
	connectors map[string]*connector
	closed     bool
}

// NewWorker makes a worker that runs nothing. The error is a *ConfigError.
func NewWorker(cfg WorkerConfig) (*Worker, error) {
	if err := checkWorker(cfg.Properties); err != nil {
		return nil, err
	}
	if cfg.Plugins == nil {
		cfg.Plugins = Plugins()
	}
	w := &Worker{cfg: cfg, log: cfg.Log, connectors: map[string]*connector{}}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	return w, nil
}

// connector is a connector and its tasks.
type connector struct {
	worker *Worker
	name   string

	op sync.Mutex // held by whoever starts and stops tasks

	mu     sync.Mutex
	set    *settings
	plugin SinkConnector
	want   State
	state  State
	trace  string
	tasks  []*task
	leave  context.CancelFunc // ends what launches tasks
	left   chan struct{}      // closed when it has
}

// ErrNoConnector is the error of a connector or task that is not there.
var ErrNoConnector = errors.New("there is no such connector or task")

// ErrWorkerClosed is the error of a worker that was closed.
var ErrWorkerClosed = errors.New("the worker was closed")

// all are the connectors in the order of their names.
func (w *Worker) all() (all []*connector) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.connectors)) {
		all = append(all, w.connectors[name])
	}
	return all
}

// named is a connector.
func (w *Worker) named(name string) (*connector, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.connectors[name]
	switch {
	case w.closed:
		return nil, ErrWorkerClosed
	case c == nil:
		return nil, fmt.Errorf("connector %q: %w", name, ErrNoConnector)
	}
	return c, nil
}

// Validate tells what is wrong with a connector's configuration, without running it or asking a broker. The error is a *ConfigError, or the plug-in's.
func (w *Worker) Validate(config map[string]string) error {
	_, _, err := w.resolve(config)
	return err
}

func (w *Worker) resolve(config map[string]string) (*settings, SinkConnector, error) {
	set, err := resolve(w.cfg.Properties, config)
	if err != nil {
		return nil, nil, err
	}
	known := slices.Sorted(maps.Keys(w.cfg.Plugins))
	make := w.cfg.Plugins[set.class]
	if make == nil {
		hint := spelling.DidYouMean(set.class, known)
		if hint == "" {
			hint = fmt.Sprintf(": %v are", known)
		}
		return nil, nil, wrong(classKey, set.class, "is no sink connector here"+hint)
	}
	plugin := make()
	if err := plugin.Validate(config); err != nil {
		return nil, nil, err
	}
	if _, ok := plugin.NewTask().(TransactionalTask); set.exactlyOnce && !ok {
		return nil, nil, wrong(exactlyOnceKey, "required", "is for sinks that write to the Kafka they read from: "+set.class+" does not")
	}
	return set, plugin, nil
}

// Put runs a connector, or gives one that runs another configuration: its tasks start anew, except where nothing but tasks.max differs. The error is that of
// Validate, and then the connector stays as it was. What brokers have against it shows in its status.
func (w *Worker) Put(config map[string]string) error {
	set, plugin, err := w.resolve(config)
	if err != nil {
		return err
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrWorkerClosed
	}
	c := w.connectors[set.name]
	if c == nil {
		c = &connector{worker: w, name: set.name, want: Running}
		w.connectors[set.name] = c
	}
	w.mu.Unlock()
	for _, key := range set.unused() {
		w.log.Warn("a property has no effect", "connector", set.name, "property", key, "because", set.protocolFrom+" is "+set.protocol)
	}
	c.op.Lock()
	defer c.op.Unlock()
	if _, err := w.named(set.name); err != nil { // it was closed or deleted meanwhile
		return err
	}
	c.mu.Lock()
	before, running := c.set, c.want == Running && c.state == Running
	c.set, c.plugin = set, plugin
	c.mu.Unlock()
	if before != nil && running && sameButTasks(before.config, set.config) {
		c.resize()
		return nil
	}
	c.halt()
	c.launch()
	return nil
}

// sameButTasks tells whether configurations differ in the number of tasks at most.
func sameButTasks(a, b map[string]string) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	delete(a, tasksMaxKey)
	delete(b, tasksMaxKey)
	return maps.Equal(a, b)
}

// Pause has a connector's tasks do nothing until Resume. They hold no records meanwhile.
func (w *Worker) Pause(name string) error { return w.move(name, Paused) }

// Resume has a connector that is paused or stopped go on.
func (w *Worker) Resume(name string) error { return w.move(name, Running) }

// Stop ends a connector's tasks and keeps the connector, until Resume.
func (w *Worker) Stop(name string) error { return w.move(name, Stopped) }

func (w *Worker) move(name string, to State) error {
	c, err := w.named(name)
	if err != nil {
		return err
	}
	c.op.Lock()
	defer c.op.Unlock()
	c.mu.Lock()
	from := c.want
	c.want = to
	tasks := c.tasks
	if from != Stopped && to != Stopped && c.state != Failed {
		c.state = to
	}
	c.mu.Unlock()
	switch {
	case from == to:
	case to == Stopped:
		c.halt()
	case from == Stopped:
		c.launch()
	default:
		for _, t := range tasks {
			t.tell(to)
		}
	}
	return nil
}

// Restart starts a connector and all its tasks anew.
func (w *Worker) Restart(name string) error {
	c, err := w.named(name)
	if err != nil {
		return err
	}
	c.op.Lock()
	defer c.op.Unlock()
	c.halt()
	c.launch()
	return nil
}

// RestartTask starts one task anew.
func (w *Worker) RestartTask(name string, id int) error {
	c, err := w.named(name)
	if err != nil {
		return err
	}
	c.op.Lock()
	defer c.op.Unlock()
	tasks := c.current()
	if id < 0 || id >= len(tasks) {
		return fmt.Errorf("connector %q, task %d: %w", name, id, ErrNoConnector)
	}
	old := tasks[id]
	old.stop(old.set.shutdown)
	c.mu.Lock()
	defer c.mu.Unlock()
	configs := c.plugin.TaskConfigs(c.set.config, c.set.tasksMax)
	if id < len(configs) {
		c.tasks[id] = c.begin(id, old.topics, configs[id])
	}
	return nil
}

// Delete ends a connector and forgets it. What its group has done stays with the brokers.
func (w *Worker) Delete(name string) error {
	c, err := w.named(name)
	if err != nil {
		return err
	}
	w.mu.Lock()
	delete(w.connectors, name)
	w.mu.Unlock()
	c.op.Lock()
	defer c.op.Unlock()
	c.halt()
	return nil
}

// Close ends all connectors. Tasks have task.shutdown.graceful.timeout.ms to finish what they are at; what they hold then is given back.
func (w *Worker) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	var all sync.WaitGroup
	for _, c := range w.all() {
		all.Go(func() {
			c.op.Lock()
			defer c.op.Unlock()
			c.halt()
		})
	}
	all.Wait()
}

// current are the tasks as they are.
func (c *connector) current() []*task {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tasks)
}

// halt ends what runs. c.op is held.
func (c *connector) halt() {
	c.mu.Lock()
	leave, left := c.leave, c.left
	c.mu.Unlock()
	if leave != nil {
		leave()
		<-left
	}
	stopAll(c.current())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks, c.leave, c.left = nil, nil, nil
	c.state, c.trace = Stopped, ""
}

func stopAll(tasks []*task) {
	var all sync.WaitGroup
	for _, t := range tasks {
		all.Go(func() { t.stop(t.set.shutdown) })
	}
	all.Wait()
}

// launch has the connector start its tasks as soon as the brokers are there. c.op is held.
func (c *connector) launch() {
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want == Stopped {
		cancel()
		return
	}
	c.leave, c.left, c.state, c.trace = cancel, left, Unassigned, ""
	set := c.set
	go func() {
		defer close(left)
		if err := c.supervise(ctx, set); err != nil && ctx.Err() == nil {
			c.worker.log.Error("the connector has failed", "connector", c.name, "error", err)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.state, c.trace = Failed, err.Error()
		}
	}()
}

// supervise readies the group, starts the tasks, and starts them anew when the topics of topics.regex change.
func (c *connector) supervise(ctx context.Context, set *settings) error {
	client, err := kgo.NewClient(append(c.worker.opts(set, -1), kgo.MaxVersions(nil))...)
	if err != nil {
		return &ConfigError{bootstrapKey, err.Error()}
	}
	defer client.Close()
	if err := c.insist(ctx, set, "the brokers are not ready", func() error { return set.preflight(ctx, client) }); err != nil {
		return err
	}
	for {
		var topics []string
		if err := c.insist(ctx, set, "topics are not known", func() (err error) {
			topics, err = set.matching(ctx, client)
			return err
		}); err != nil {
			return err
		}
		next := set.metadataAge
		switch started := c.startOn(ctx, topics); {
		case started && set.regex == nil:
			return nil
		case !started:
			next = busyRetry
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// busyRetry is how long to wait for whoever starts or stops tasks.
const busyRetry = 100 * time.Millisecond

// startOn starts all tasks, anew where they have other topics. It returns false while others start and stop tasks: they may wait for the caller.
func (c *connector) startOn(ctx context.Context, topics []string) bool {
	if !c.op.TryLock() {
		return false
	}
	defer c.op.Unlock()
	now := c.current()
	if len(topics) == 0 || len(now) > 0 && slices.Equal(now[0].topics, topics) {
		return true
	}
	stopAll(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() == nil {
		c.begun(topics)
	}
	return true
}

// insist tries again what passes, until the context ends.
func (c *connector) insist(ctx context.Context, set *settings, what string, try func() error) error {
	for failures := 0; ; failures++ {
		err := try()
		if err == nil || !isRetriable(err) || ctx.Err() != nil {
			return err
		}
		c.worker.log.Warn(what, "connector", c.name, "error", err)
		c.mu.Lock()
		c.trace = err.Error()
		c.mu.Unlock()
		timer := time.NewTimer(set.backoff(failures))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// begun starts all tasks. c.mu is held.
func (c *connector) begun(topics []string) {
	c.tasks = nil
	for id, config := range c.plugin.TaskConfigs(c.set.config, c.set.tasksMax) {
		c.tasks = append(c.tasks, c.begin(id, topics, config))
	}
	c.state, c.trace = c.want, ""
}

// resize starts and stops tasks where their number has changed. The others go on. c.op is held.
func (c *connector) resize() {
	c.mu.Lock()
	if len(c.tasks) == 0 { // none yet: they are started with the new number
		c.mu.Unlock()
		return
	}
	configs := c.plugin.TaskConfigs(c.set.config, c.set.tasksMax)
	var over []*task
	if n := len(configs); n < len(c.tasks) {
		over = slices.Clone(c.tasks[n:])
		c.tasks = c.tasks[:n]
	}
	for id := len(c.tasks); id < len(configs); id++ {
		c.tasks = append(c.tasks, c.begin(id, c.tasks[0].topics, configs[id]))
	}
	c.mu.Unlock()
	stopAll(over)
}

// opts are how a task's clients reach the brokers.
func (w *Worker) opts(set *settings, id int) []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(list(w.cfg.Properties[bootstrapKey])...), kgo.ClientID(fmt.Sprintf("connector-consumer-%s-%d", set.name, id))}
	if w.cfg.ClientOpts != nil {
		opts = append(opts, w.cfg.ClientOpts(set.name, id)...)
	}
	return opts
}

// begin starts a task. c.mu is held.
func (c *connector) begin(id int, topics []string, config map[string]string) *task {
	w, set := c.worker, c.set
	t := &task{
		id: id, set: set, topics: topics, plugin: c.plugin.NewTask(), config: config, worker: w.cfg.Properties, clientOpts: w.opts(set, id),
		log: w.log.With("connector", c.name, "task", id), metrics: &taskMetrics{share: set.protocol == shareProtocol},
		done: make(chan struct{}), want: c.want, state: Unassigned, changed: func() {},
	}
	t.life, t.kill = context.WithCancel(context.Background())
	t.open = func() (source, error) {
		if set.protocol != shareProtocol {
			g, err := newGroupSource(t)
			if err != nil {
				return nil, err
			}
			return g, nil
		}
		consumer, err := shareclient.NewConsumer(shareclient.ConsumerConfig{
			Group: set.group, Topics: topics, MaxRecords: set.maxPollRecords, RecordLimit: set.recordLimit, MaxWait: set.maxWait,
		}, t.clientOpts...)
		if err != nil {
			return nil, err
		}
		return newShareSource(t, consumer, func(ctx context.Context) (transaction, error) {
			p, err := shareclient.NewProducer(ctx, shareclient.ProducerConfig{TransactionalID: fmt.Sprintf("%s-%d", set.transactionalID, id)}, t.clientOpts...)
			if err != nil {
				return nil, err // a nil *Producer is no nil transaction
			}
			return p, nil
		}), nil
	}
	go t.run()
	return t
}

// Status is how a connector does, in the words of Kafka Connect's REST interface.
type Status struct {
	Name      string       `json:"name"`
	Connector PartStatus   `json:"connector"`
	Tasks     []TaskStatus `json:"tasks"`
	Type      string       `json:"type"`
}

// PartStatus is how a connector or a task does. Trace says why it has failed, or what a connector waits for.
type PartStatus struct {
	State    State  `json:"state"`
	WorkerID string `json:"worker_id"`
	Trace    string `json:"trace,omitempty"`
}

// TaskStatus is how a task does.
type TaskStatus struct {
	ID int `json:"id"`
	PartStatus
}

// Status is how a connector does.
func (w *Worker) Status(name string) (Status, error) {
	c, err := w.named(name)
	if err != nil {
		return Status{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{Name: name, Connector: PartStatus{c.state, workerID, c.trace}, Tasks: []TaskStatus{}, Type: "sink"}
	for _, t := range c.tasks {
		state, trace := t.status()
		s.Tasks = append(s.Tasks, TaskStatus{t.id, PartStatus{state, workerID, trace}})
	}
	return s, nil
}

// workerID names the one worker there is.
const workerID = "kshare"

// Connectors are the names of the connectors.
func (w *Worker) Connectors() []string {
	names := []string{}
	for _, c := range w.all() {
		names = append(names, c.name)
	}
	return names
}

// Config is the configuration of a connector.
func (w *Worker) Config(name string) (map[string]string, error) {
	c, err := w.named(name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.set.config), nil
}
