package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	topicName    = "orders"
	partitions   = 3
	classicGroup = "classic"
	nextGroup    = "kip-848"
	shareGroup   = "workers"
)

// load is clients at work. They live through the kills of the broker and connect again as real ones do.
type load struct {
	ledger *ledger
	seed   uint64
	ctx    context.Context // of consumers
	stop   context.CancelFunc
	wg     sync.WaitGroup

	producing context.Context // of the producer
	pause     context.CancelFunc
	produced  sync.WaitGroup
	values    int
}

// connect makes a client of the cluster under load.
type connect func(...kgo.Opt) *kgo.Client

// persistent are the options of clients that look for a broker at an address again and again.
func persistent(addr string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(addr),
		kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }),
		kgo.DialTimeout(time.Second),
	}
}

// connectTo makes clients that look for a broker at an address again and again.
func connectTo(t *testing.T, addr string) connect {
	return func(opts ...kgo.Opt) *kgo.Client {
		t.Helper()
		client, err := kgo.NewClient(append(persistent(addr), opts...)...)
		require.NoError(t, err)
		return client
	}
}

// startLoad starts a producer, a consumer of each group protocol and two share consumers.
func startLoad(t *testing.T, ledger *ledger, seed uint64, client connect) *load {
	l := &load{ledger: ledger, seed: seed}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.producing, l.pause = context.WithCancel(context.Background())

	producer := client(kgo.DefaultProduceTopic(topicName), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.MaxBufferedRecords(300), kgo.StopProducerOnDataLossDetected())
	l.produced.Go(func() { defer producer.Close(); l.produce(producer) })

	churner := client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	l.produced.Go(func() { defer churner.Close(); l.churn(churner) })

	group := []kgo.Opt{kgo.ConsumeTopics(topicName), kgo.DisableAutoCommit(), kgo.FetchMaxWait(20 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	classic := client(append(group, kgo.ConsumerGroup(classicGroup))...)
	l.wg.Go(func() { defer classic.CloseAllowingRebalance(); l.consume(classic, classicGroup) })
	next := client(append(group, kgo.ConsumerGroup(nextGroup), kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))...)
	l.wg.Go(func() { defer next.CloseAllowingRebalance(); l.consume(next, nextGroup) })

	for i := range 2 {
		s := &shareConsumer{load: l, rng: rand.New(rand.NewPCG(seed, uint64(i)+100)), failed: map[int32]error{}}
		s.client = client(kgo.ConsumeTopics(topicName), kgo.ShareGroup(shareGroup), kgo.ShareMaxRecords(40),
			kgo.FetchMaxWait(20*time.Millisecond), kgo.ShareAckCallback(s.acknowledged), kgo.WithHooks(s))
		l.wg.Go(func() { defer s.client.Close(); s.consume() })
	}
	return l
}

// stopProducing returns once every record is answered.
func (l *load) stopProducing() {
	l.pause()
	l.produced.Wait()
}

func (l *load) stopAll() {
	l.stopProducing()
	l.stop()
	l.wg.Wait()
}

// produce produces numbered records, so that order and repetition can be seen, until told to stop.
func (l *load) produce(client *kgo.Client) {
	rng := rand.New(rand.NewPCG(l.seed, 7))
	ctx := context.Background()
	for l.producing.Err() == nil {
		value := fmt.Appendf(nil, "%08d", l.values)
		l.values++
		for range rng.IntN(3) * 50 {
			value = append(value, byte('a'+rng.IntN(26)))
		}
		client.Produce(ctx, &kgo.Record{Partition: rng.Int32N(partitions), Value: value}, l.ledger.noteProduced)
		if rng.IntN(20) == 0 {
			_ = client.Flush(l.producing)
		}
	}
	_ = client.Flush(ctx)
}

// consume reads and commits what it has read.
func (l *load) consume(client *kgo.Client, group string) {
	for l.ctx.Err() == nil {
		fetches := client.PollRecords(l.ctx, 200)
		if fetches.NumRecords() == 0 {
			continue
		}
		client.CommitOffsetsSync(l.ctx, client.UncommittedOffsets(), func(_ *kgo.Client, q *kmsg.OffsetCommitRequest, p *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				return
			}
			for i, t := range p.Topics {
				for j, answered := range t.Partitions {
					if asked := q.Topics[i].Partitions[j]; answered.ErrorCode == 0 && asked.Partition == answered.Partition {
						l.ledger.noteCommitted(group, asked.Partition, asked.Offset)
					}
				}
			}
		})
	}
}

// shareConsumer accepts most records, releases some and rejects a few, and notes what was answered.
type shareConsumer struct {
	load   *load
	client *kgo.Client
	rng    *rand.Rand

	mu     sync.Mutex
	failed map[int32]error // by partition: what the last acknowledgements were answered with
	sent   [2]time.Time    // when the last two answered fetches were sent: the last may have been answered since the poll returned
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (s *shareConsumer) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if kmsg.Key(key) == kmsg.ShareFetch {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = [2]time.Time{s.sent[1], time.Now().Add(-e2e.DurationE2E())}
	}
}

func (s *shareConsumer) acknowledged(_ *kgo.Client, results kgo.ShareAckResults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range results {
		if _, ok := s.failed[r.Partition]; !ok || r.Err != nil {
			s.failed[r.Partition] = r.Err
		}
	}
}

type delivery struct {
	at     place
	count  int32
	status kgo.AckStatus
}

func (s *shareConsumer) consume() {
	for s.load.ctx.Err() == nil {
		fetches := s.client.PollFetches(s.load.ctx)
		s.mu.Lock()
		clear(s.failed)
		sent := s.sent[0]
		s.mu.Unlock()
		var deliveries []delivery
		fetches.EachRecord(func(r *kgo.Record) {
			d := delivery{at: place{r.Partition, r.Offset}, count: r.DeliveryCount(), status: kgo.AckAccept}
			s.load.ledger.noteDelivered(d.at, d.count, sent)
			switch n := s.rng.IntN(100); {
			case n < 15 && s.load.producing.Err() == nil:
				d.status = kgo.AckRelease
			case n < 20 && s.load.producing.Err() == nil:
				d.status = kgo.AckReject
			}
			if d.status == kgo.AckAccept {
				s.load.ledger.noteAccepting(d.at)
			}
			deliveries = append(deliveries, d)
			r.Ack(d.status)
		})
		if len(deliveries) == 0 {
			continue
		}
		if err := s.client.FlushAcks(s.load.ctx); err != nil {
			return
		}
		s.note(deliveries)
	}
}

// note takes the answers to the acknowledgements of deliveries.
func (s *shareConsumer) note(deliveries []delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range deliveries {
		err, answered := s.failed[d.at.partition]
		switch {
		case err != nil || !answered:
		case d.status == kgo.AckRelease:
			s.load.ledger.noteReleased(d.at, d.count)
		default:
			s.load.ledger.noteSettled(d.at)
		}
	}
}
