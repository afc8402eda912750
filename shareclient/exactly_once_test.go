package shareclient_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare"
	"kshare/shareclient"
)

// What befalls a worker with what it has polled.
const (
	nothing       = "nothing"
	abort         = "abort"
	slow          = "lock expires before staging"
	crashEarly    = "crash before staging"
	crashStaged   = "crash after staging"
	crashedCommit = "crash while committing"
)

var fates = []string{nothing, nothing, nothing, nothing, nothing, nothing, abort, slow, crashEarly, crashStaged, crashedCommit}

// deck deals each fate as often as fates has it before it deals any again, so that a run meets all of them.
type deck struct {
	mu     sync.Mutex
	random *rand.Rand
	left   []string
}

func (d *deck) deal() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.left) == 0 {
		d.left = slices.Clone(fates)
		d.random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	fate := d.left[0]
	d.left = d.left[1:]
	return fate
}

// worker is a consume-transform-produce loop that is not let alone.
type worker struct {
	cluster *kshare.Cluster
	name    string
	random  *rand.Rand
	fates   *deck             // shared by the workers
	met     func(fate string) // counts what has befallen it
	link    *link
	in      *shareclient.Consumer
	out     *shareclient.Producer
}

// run works until the context ends, then leaves properly.
func (w *worker) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.ready(ctx); err != nil {
			continue // the cluster is not fit for it now: again
		}
		err := w.step(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, errCrashed):
			w.link.crash()
			w.drop()
		case shareclient.IsFatal(err):
			w.met("fatal error")
			w.out.Close()
			w.out = nil
		default:
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	closing, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if w.out != nil {
		w.out.Close()
	}
	if w.in != nil {
		_ = w.in.Close(closing) // what it gives back late is given back by the end of its lock
	}
	return nil
}

var errCrashed = errors.New("the worker has crashed")

// ready makes what the worker lacks.
func (w *worker) ready(ctx context.Context) (err error) {
	if w.link == nil {
		w.link = &link{cluster: w.cluster}
	}
	if w.in == nil {
		if w.in, err = shareclient.NewConsumer(shareclient.ConsumerConfig{Group: "workers", Topics: []string{"orders"}, MaxRecords: 5, RecordLimit: true}, w.link.opts()...); err != nil {
			return err
		}
	}
	if w.out == nil {
		w.out, err = shareclient.NewProducer(ctx, shareclient.ProducerConfig{TransactionalID: w.name, TransactionTimeout: 20 * time.Second}, w.link.opts()...)
	}
	return err
}

// drop lets go of clients whose link was cut: no broker hears of it.
func (w *worker) drop() {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = w.in.Close(gone)
	w.out.Close()
	w.in, w.out, w.link = nil, nil, nil
}

// step is one transaction.
func (w *worker) step(ctx context.Context) error {
	polling, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	records, err := w.in.Poll(polling)
	if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	fate := nothing
	if !slices.ContainsFunc(records, func(r *shareclient.Record) bool { return r.DeliveryCount > 4 }) { // or a record would be archived in the end
		fate = w.fates.deal()
	}
	w.met(fate)
	switch fate {
	case slow:
		time.Sleep(20 * time.Second)
	case crashEarly:
		return errCrashed
	}
	if err := w.out.BeginTransaction(); err != nil {
		return err
	}
	for _, r := range records {
		err = errors.Join(err, w.out.Produce(ctx, &kgo.Record{Topic: "invoices", Value: r.Value}), w.in.Acknowledge(r, shareclient.Accept))
	}
	err = errors.Join(err, w.out.SendShareAcknowledgementsToTransaction(ctx, w.in.AcknowledgementsForTransaction(), w.in.GroupMetadata()))
	switch {
	case shareclient.IsFatal(err):
		return err
	case err != nil:
		w.met("abortable error")
		return w.again(ctx, w.out.AbortTransaction)
	}
	switch fate {
	case abort:
		return w.again(ctx, w.out.AbortTransaction)
	case crashStaged:
		return errCrashed
	case crashedCommit:
		dying, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = w.out.CommitTransaction(dying)
		}()
		time.Sleep(time.Duration(w.random.IntN(3)) * time.Millisecond)
		w.link.crash()
		cancel()
		<-done
		return errCrashed
	}
	return w.again(ctx, w.out.CommitTransaction)
}

// again ends a transaction, as often as its outcome stays unknown.
func (w *worker) again(ctx context.Context, end func(context.Context) error) error {
	for {
		if err := end(ctx); err == nil || shareclient.IsFatal(err) || ctx.Err() != nil {
			return err
		}
	}
}

// disturb moves leaders and coordinators about and restarts nodes, one disturbance every two seconds of
// every other minute.
func disturb(ctx context.Context, cluster *kshare.Cluster, random *rand.Rand, met func(string)) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	began, stopped := time.Now(), int32(0)
	for i := 0; ; {
		select {
		case <-ctx.Done():
			if stopped != 0 {
				_ = cluster.StartNode(stopped)
			}
			return
		case <-tick.C:
		}
		if stopped == 0 && time.Since(began)%(2*time.Minute) > time.Minute {
			continue // a coordinator that moves gives the members that have crashed another session timeout of 45 s, while they keep their partitions
		}
		to := random.Int32N(3) + 1
		if stopped != 0 {
			if cluster.StartNode(stopped) == nil {
				met("node restart")
			}
			stopped = 0
			continue
		}
		i++
		switch i % 5 {
		case 0:
			p := random.Int32N(6)
			if to == leader(cluster, p) {
				to = to%3 + 1
			}
			if cluster.MoveLeader("orders", p, to, false) == nil {
				met("leader move")
			}
		case 1:
			if cluster.MoveCoordinator(kshare.GroupCoordinator, "workers", to, 200*time.Millisecond) == nil {
				met("group coordinator move")
			}
		case 2:
			if cluster.MoveCoordinator(kshare.TransactionCoordinator, fmt.Sprint("worker-", random.IntN(4)), to, 200*time.Millisecond) == nil {
				met("transaction coordinator move")
			}
		case 3:
			if key := shareKey(cluster, random.Int32N(6)); cluster.MoveCoordinator(kshare.ShareCoordinator, key, to, 200*time.Millisecond) == nil {
				met("share coordinator move")
			}
		case 4:
			if cluster.StopNode(to) == nil {
				stopped = to
			}
		}
	}
}

// Four workers copy orders to invoices while workers crash, abort and let locks expire, leaders and coordinators move and nodes restart. Every order is there once.
func TestExactlyOnce(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("Seed", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt) { exactlyOnce(t, cluster, opts, seed) },
				kshare.WithBrokers(3), kshare.WithConfig("default.replication.factor", "3"),
				kshare.WithConfig("group.share.record.lock.duration.ms", "15000"), kshare.WithConfig("group.share.delivery.count.limit", "10"))
		})
	}
}

func exactlyOnce(t *testing.T, cluster *kshare.Cluster, opts []kgo.Opt, seed uint64) {
	const orders = 300
	var mu sync.Mutex
	counts := map[string]int{}
	met := func(what string) { mu.Lock(); defer mu.Unlock(); counts[what]++ }
	values := numbered(orders)
	produce(t, opts, values...)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { disturb(ctx, cluster, rand.New(rand.NewPCG(seed, 99)), met) })
	var failures [4]error
	dealt := &deck{random: rand.New(rand.NewPCG(seed, 98))}
	for i := range 4 {
		w := &worker{cluster: cluster, name: fmt.Sprint("worker-", i), random: rand.New(rand.NewPCG(seed, uint64(i))), fates: dealt, met: met}
		all.Go(func() { failures[i] = w.run(ctx) })
	}
	began := time.Now()
	seen := untilSeen(t, opts, orders, 2*time.Hour)
	t.Logf("%d of %d orders after %s: %v", seen, orders, time.Since(began), counts)
	cancel()
	all.Wait()
	require.NoError(t, errors.Join(failures[:]...))

	assert.ElementsMatch(t, values, everything(t, "invoices", opts), "every order is there once")
	assert.Zero(t, lag(t, opts), "the group has done with every order")
	for _, what := range append([]string{"leader move", "group coordinator move", "transaction coordinator move", "share coordinator move", "node restart", "abortable error"}, fates...) {
		assert.NotZero(t, counts[what], "%s: it has to happen for the test to mean something", what)
	}
}

// untilSeen reads invoices until there are n different ones, or the time is over, and returns how many there are.
func untilSeen(t *testing.T, opts []kgo.Opt, n int, patience time.Duration) int {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := kgo.NewClient(append(opts, kgo.ConsumeTopics("invoices"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	require.NoError(t, err)
	defer client.Close()
	seen := map[string]bool{}
	for len(seen) < n && ctx.Err() == nil {
		for _, r := range client.PollFetches(ctx).Records() {
			seen[string(r.Value)] = true
		}
	}
	return len(seen)
}
