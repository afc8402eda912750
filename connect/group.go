package connect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kshare/shareclient"
)

// groupSource is the loop of a task in an ordinary consumer group, as WorkerSinkTask has it: partitions belong to one task, what fails for now is put again, and offsets
// are committed every offset.flush.interval.ms.
type groupSource struct {
	*task
	client *kgo.Client
	dead   *kgo.Client // writes dead letters, nil without

	mu        sync.Mutex
	pending   []*kgo.Record // put and not committed
	committed time.Time
}

// newGroupSource joins the group.
func newGroupSource(t *task) (*groupSource, error) {
	g := &groupSource{task: t, committed: time.Now()}
	set := t.set
	start := kgo.NewOffset().AtStart()
	if set.offsetReset == "latest" {
		start = kgo.NewOffset().AtEnd()
	}
	level := kgo.ReadUncommitted()
	if set.isolation == "read_committed" {
		level = kgo.ReadCommitted()
	}
	opts := append(slices.Clone(t.clientOpts), kgo.ConsumerGroup(set.group), kgo.ConsumeTopics(t.topics...), kgo.ConsumeResetOffset(start), kgo.FetchIsolationLevel(level),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(max(set.maxWait, 10*time.Millisecond)),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { t.metrics.assigned(count(p)) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, p map[string][]int32) {
			g.giveUp(ctx)
			t.metrics.assigned(-count(p))
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, p map[string][]int32) {
			g.mu.Lock()
			g.pending = nil // others have them
			g.mu.Unlock()
			t.metrics.assigned(-count(p))
		}))
	if set.protocol == consumerProtocol {
		//lint:ignore SA1029 kgo asks for this very key
		opts = append(opts, kgo.WithContext(context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)))
	}
	var err error
	if g.client, err = kgo.NewClient(opts...); err != nil {
		return nil, err
	}
	if set.deadLetters != "" && set.tolerateAll {
		if g.dead, err = kgo.NewClient(append(slices.Clone(t.clientOpts), kgo.DefaultProduceTopic(set.deadLetters), kgo.AllowAutoTopicCreation(),
			kgo.AllowIdempotentProduceCancellation(), kgo.RecordDeliveryTimeout(deliveryTimeout))...); err != nil {
			g.client.Close()
			return nil, err
		}
	}
	return g, nil
}

func count(partitions map[string][]int32) (n int) {
	for p := range maps.Values(partitions) {
		n += len(p)
	}
	return n
}

func (g *groupSource) close(ctx context.Context) {
	g.client.AllowRebalance()
	g.giveUp(ctx)
	g.client.CloseAllowingRebalance()
	if g.dead != nil {
		g.dead.Close()
	}
}

func (g *groupSource) iteration(ctx context.Context) error {
	g.client.AllowRebalance()
	polling, cancel := context.WithDeadline(ctx, g.nextCommit())
	defer cancel()
	fetches := g.client.PollRecords(polling, int(g.set.maxPollRecords))
	records := fetches.Records()
	m := g.metrics
	m.note(&m.read, len(records))
	m.hold(len(records))
	var batch []*SinkRecord
	for _, r := range records {
		raw := &shareclient.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
		converted, err := g.set.convert(raw)
		switch {
		case err != nil && !g.set.tolerateAll:
			return fmt.Errorf("%w (%s=all skips such records)", err, toleranceKey)
		case err != nil:
			if err := g.deadLetter(ctx, r, err); err != nil {
				return err
			}
		case converted != nil:
			batch = append(batch, converted)
		}
	}
	if err := g.put(ctx, batch); err != nil {
		return err
	}
	g.mu.Lock()
	g.pending = append(g.pending, records...)
	g.mu.Unlock()
	if !time.Now().Before(g.nextCommit()) {
		return g.flush(ctx)
	}
	return nil
}

// nextCommit is when offsets are to be committed.
func (g *groupSource) nextCommit() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.committed.Add(g.set.flushInterval)
}

// put has the task put records until it succeeds or fails for good.
func (g *groupSource) put(ctx context.Context, batch []*SinkRecord) error {
	if len(batch) == 0 {
		return nil
	}
	for tries := 0; ; tries++ {
		g.reported()
		at := time.Now()
		err := g.await("Put", nil, func(ctx context.Context) error { return g.plugin.Put(ctx, batch) })
		g.metrics.noteTime(&g.metrics.putTime, time.Since(at))
		switch {
		case err == nil:
			g.metrics.note(&g.metrics.send, len(batch))
			return g.letters(ctx, batch)
		case !isRetriable(err), ctx.Err() != nil:
			return err
		}
		g.rest(ctx, g.set.backoff(tries), nil)
	}
}

// letters writes dead letters of what the task has reported.
func (g *groupSource) letters(ctx context.Context, batch []*SinkRecord) error {
	reports := g.reported()
	for _, r := range batch {
		why, ok := reports[r]
		switch {
		case !ok:
		case !g.set.tolerateAll:
			return why
		default:
			from := r.from
			if err := g.deadLetter(ctx, &kgo.Record{Topic: from.Topic, Partition: from.Partition, Offset: from.Offset, Key: from.Key, Value: from.Value, Headers: from.Headers}, why); err != nil {
				return err
			}
		}
	}
	return nil
}

// deadLetter writes a record to the dead-letter queue, if there is one. With a share group the brokers do that.
func (g *groupSource) deadLetter(ctx context.Context, r *kgo.Record, why error) error {
	if g.set.logErrors {
		g.log.Error("a record is skipped", "error", why)
	}
	if g.dead == nil {
		return nil
	}
	letter := &kgo.Record{Key: r.Key, Value: r.Value, Headers: slices.Clone(r.Headers)}
	if g.set.deadContext {
		for _, h := range [][2]string{
			{"topic", r.Topic}, {"partition", strconv.Itoa(int(r.Partition))}, {"offset", strconv.FormatInt(r.Offset, 10)},
			{"connector.name", g.set.name}, {"task.id", strconv.Itoa(g.id)}, {"exception.message", why.Error()},
		} {
			letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: "__connect.errors." + h[0], Value: []byte(h[1])})
		}
	}
	if err := g.dead.ProduceSync(ctx, letter).FirstErr(); err != nil {
		return fmt.Errorf("%s: %s: %w", deadKey, g.set.deadLetters, err)
	}
	return nil
}

// flush commits, and rests where the task's Flush has failed for now.
func (g *groupSource) flush(ctx context.Context) error {
	err := g.commit(g.life)
	if isRetriable(err) {
		g.log.Warn("a flush has failed for now", "error", err)
		g.rest(ctx, retryDelayMin, nil)
		return nil
	}
	return err
}

// commit has the task flush and commits what was put. Nothing is put while partitions are revoked, so that the task is called by one goroutine at a time.
func (g *groupSource) commit(ctx context.Context) error {
	g.mu.Lock()
	records := g.pending
	g.committed = time.Now()
	g.mu.Unlock()
	if len(records) == 0 || g.unreturned != nil {
		return nil
	}
	if err := g.guard(func() error { return g.plugin.Flush(ctx) }); err != nil {
		return &flushError{err}
	}
	g.mu.Lock()
	g.pending = nil
	g.mu.Unlock()
	m := g.metrics
	m.hold(-len(records))
	if err := g.client.CommitRecords(ctx, records...); err != nil {
		g.log.Warn("offsets were not committed: the records come again", "error", err)
		m.note(&m.skipped, 1)
		return nil
	}
	m.note(&m.completed, 1)
	m.mu.Lock()
	m.sequence++
	m.mu.Unlock()
	return nil
}

// giveUp commits what can be before partitions are others'. What cannot be comes again.
func (g *groupSource) giveUp(ctx context.Context) {
	if err := g.commit(ctx); err != nil {
		g.log.Warn("records that were put come again", "error", err)
	}
	g.mu.Lock()
	g.pending = nil
	g.mu.Unlock()
}
