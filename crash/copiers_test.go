package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare/shareclient"
)

// copyTopic is where copiers write.
const copyTopic = "copies"

// copier copies what a share group is given into another topic, in transactions that take its acknowledgements (KIP-1289).
type copier struct {
	name   string
	opts   []kgo.Opt
	copies *atomic.Int64 // of all copiers
	in     *shareclient.Consumer
	out    *shareclient.Producer
}

// run copies until the context ends. What fails is begun again.
func (w *copier) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.ready(ctx)
		if err == nil {
			err = w.step(ctx)
		}
		if err != nil && shareclient.IsFatal(err) && w.out != nil {
			w.out.Close()
			w.out = nil
		}
	}
	if w.out != nil {
		w.out.Close()
	}
	if w.in != nil {
		_ = w.in.Close(ctx)
	}
}

func (w *copier) ready(ctx context.Context) (err error) {
	if w.in == nil {
		if w.in, err = shareclient.NewConsumer(shareclient.ConsumerConfig{Group: shareGroup, Topics: []string{topicName}, MaxRecords: 20, MaxWait: 20 * time.Millisecond}, w.opts...); err != nil {
			return err
		}
	}
	if w.out == nil {
		w.out, err = shareclient.NewProducer(ctx, shareclient.ProducerConfig{TransactionalID: w.name, MaxBlock: 10 * time.Second}, w.opts...)
	}
	return err
}

// step is one transaction.
func (w *copier) step(ctx context.Context) error {
	polling, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	records, err := w.in.Poll(polling)
	if err != nil {
		return err
	}
	if err := w.out.BeginTransaction(); err != nil {
		return err
	}
	for _, r := range records {
		value := fmt.Appendf(nil, "%d/%d", r.Partition, r.Offset)
		err = errors.Join(err, w.out.Produce(ctx, &kgo.Record{Topic: copyTopic, Value: value}), w.in.Acknowledge(r, shareclient.Accept))
	}
	err = errors.Join(err, w.out.SendShareAcknowledgementsToTransaction(ctx, w.in.AcknowledgementsForTransaction(), w.in.GroupMetadata()))
	end := w.out.CommitTransaction
	switch {
	case err != nil && shareclient.IsFatal(err):
		return err
	case err != nil:
		end = w.out.AbortTransaction
	}
	for { // as often as its outcome stays unknown
		failed := end(ctx)
		if failed == nil && err == nil {
			w.copies.Add(int64(len(records)))
		}
		if failed == nil || shareclient.IsFatal(failed) || ctx.Err() != nil {
			return failed
		}
	}
}

// Copiers are at work while their broker is killed again and again. In the end each record is copied once, or it is a dead letter, given up after as many deliveries as there may be, and not
// copied.
func TestKillOfCopiers(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 1))
	addr := fmt.Sprintf("127.0.0.1:%d", fixedPort(t, rng))
	dir := t.TempDir()
	start := func(round int) *process {
		args := []string{"--listen", addr, "--dir", dir, "--kip1289", "--topic", fmt.Sprintf("%s:%d", topicName, partitions), "--topic", copyTopic + ":2"}
		return startProcess(t, append(args, flushPolicies[round%len(flushPolicies)]...)...)
	}
	broker := start(0)
	connect := connectTo(t, addr)
	client := connect(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	admin := kadm.NewClient(client)
	prepareShareGroup(t, client)
	prepareDeadLetters(t, client)

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var working sync.WaitGroup
	var copies atomic.Int64
	for i := range 3 {
		w := &copier{name: fmt.Sprint("copier-", i), opts: persistent(addr), copies: &copies}
		working.Go(func() { w.run(ctx) })
	}
	produced := 0
	produce := func(n int) {
		for range n {
			client.Produce(ctx, &kgo.Record{Topic: topicName, Partition: rng.Int32N(partitions), Value: strconv.AppendInt(nil, int64(produced), 10)}, nil)
			produced++
		}
		require.NoError(t, client.Flush(ctx))
	}
	for round := range *rounds {
		before := copies.Load()
		produce(200 + rng.IntN(200))
		want := before + 1 + rng.Int64N(200)
		require.Eventually(t, func() bool { return copies.Load() >= want }, time.Minute, time.Millisecond, "round %d, -seed %d", round, *seed)
		broker.kill(t)
		broker = start(round + 1)
	}
	require.Eventually(t, func() bool { return shareLag(client) == 0 }, 3*time.Minute, 10*time.Millisecond, "records that the share group is not done with, -seed %d", *seed)
	stop()
	working.Wait()

	reading, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	copied := map[string]int{}
	readCommitted(t, reading, admin, connect, copyTopic, func(r *kgo.Record) { copied[string(r.Value)]++ })
	dead := deadLetters(t, admin, connect)
	var wrong []string
	all := readAll(t, reading, admin, connect)
	require.Len(t, all, produced)
	for at := range all {
		n := copied[fmt.Sprintf("%d/%d", at.partition, at.offset)]
		if dead[at] && n != 0 || !dead[at] && n != 1 {
			wrong = append(wrong, fmt.Sprintf("%d/%d: %d copies, a dead letter: %t", at.partition, at.offset, n, dead[at]))
		}
	}
	slices.Sort(wrong)
	require.Empty(t, wrong, "-seed %d", *seed)
	t.Logf("%d rounds: %d records, %d copied, %d dead letters", *rounds, produced, len(copied), len(dead))
	broker.terminate(t, reading)
}
