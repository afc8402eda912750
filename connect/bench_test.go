package connect

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare"
)

// settle is how long a group is given until its members have learned of each other: a share group's do by heartbeats.
const settle = 7 * time.Second

// spread has 20 records at most taken at once, or one task would have a whole batch of the producer while the others wait.
var spread = []string{"consumer.override.max.poll.records=20", "consumer.override.share.acquire.mode=record_limit"}

// BenchmarkSink measures how fast tasks get through 40000 records of 100 bytes on 4 partitions, and what CPU time of clients and broker together each costs, in a share group and in
// an ordinary one, with a sink that costs nothing. What is measured begins when the first record is written and all tasks wait.
//
//	go test ./connect -run '^$' -bench Sink -benchtime 1x -count 3
func BenchmarkSink(b *testing.B) {
	for _, protocol := range []string{"share", "classic"} {
		for _, tasks := range []int{1, 6, 24} {
			b.Run(fmt.Sprintf("%s/tasks=%d", protocol, tasks), func(b *testing.B) {
				for range b.N {
					const n = 40_000
					var before, after syscall.Rusage
					seconds := through(b, n, protocol, tasks, nil, func(int) {}, func() { require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before)) }, kshare.WithListen("127.0.0.1:0"))
					require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
					cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
					b.ReportMetric(n/seconds, "records/s")
					b.ReportMetric(float64(cpu)/n/1000, "cpu-us/record")
					b.ReportMetric(0, "ns/op")
				}
			})
		}
	}
}

// With a sink that takes 2 ms for a record a share group is as fast as it has tasks, and an ordinary one as it has partitions. On virtual time, so that the sink alone costs any.
func TestMoreTasksAreFaster(t *testing.T) {
	rate := map[string]float64{}
	for _, cost := range []struct {
		name string
		of   func(records int) time.Duration
		more []string
		each int // records for each task that can work
	}{
		{"record", func(records int) time.Duration { return time.Duration(records) * 2 * time.Millisecond }, spread, 1000},
		{"put", func(int) time.Duration { return 2 * time.Millisecond }, spread, 1000},
	} {
		for _, protocol := range []string{"share", "classic"} {
			for _, tasks := range []int{1, 6, 24} {
				synctest.Test(t, func(t *testing.T) {
					n := cost.each * min(tasks, 4)
					seconds := through(t, n, protocol, tasks, cost.more, func(records int) { time.Sleep(cost.of(records)) }, func() {}, kshare.WithInMemoryNetwork())
					name := fmt.Sprintf("2 ms a %s, %s, %d tasks", cost.name, protocol, tasks)
					rate[name] = float64(n) / seconds
					t.Logf("%s: %.0f records/s", name, rate[name])
				})
			}
		}
	}
	assert.InDelta(t, 500, rate["2 ms a record, share, 1 tasks"], 10, "what 2 ms allow")
	assert.Less(t, rate["2 ms a record, classic, 24 tasks"], 2010.0, "four partitions are four tasks")
	assert.Greater(t, rate["2 ms a record, share, 6 tasks"], 1950.0, "members are assigned partitions: where one has a partition to itself, the topic waits for it")
	assert.Greater(t, rate["2 ms a record, share, 24 tasks"], 4*rate["2 ms a record, classic, 24 tasks"])
}

// through has tasks get through n records and returns how many seconds they took.
func through(t testing.TB, n int, protocol string, tasks int, more []string, put func(records int), starts func(), options ...kshare.Option) float64 {
	const partitions = 4
	cluster, err := kshare.Start(append(options, kshare.WithTopic("orders", partitions))...)
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	reach := func(string, int) []kgo.Opt { return []kgo.Opt{kgo.Dialer(cluster.Dial)} }
	var left atomic.Int64
	left.Store(int64(n))
	done := make(chan struct{})
	sink := &countingSink{put: func(records []*SinkRecord) {
		put(len(records))
		if left.Add(-int64(len(records))) == 0 {
			close(done)
		}
	}}
	w, err := NewWorker(WorkerConfig{
		Properties: workerProperties(bootstrapKey+"="+strings.Join(cluster.Addrs(), ","), "key.converter=ByteArrayConverter", "value.converter=ByteArrayConverter"), ClientOpts: reach,
		Plugins: map[string]func() SinkConnector{"TestSink": func() SinkConnector { return sink }},
	})
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, w.Put(config(append(more, fmt.Sprintf("tasks.max=%d", tasks), "consumer.override.group.protocol="+protocol)...)))
	client, err := kgo.NewClient(append(reach("", 0), kgo.SeedBrokers(cluster.Addrs()...), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerBatchMaxBytes(64<<10), kgo.MaxBufferedRecords(n))...)
	require.NoError(t, err)
	defer client.Close()
	time.Sleep(settle)
	value := make([]byte, 100)
	starts()
	began := time.Now()
	for range n {
		client.Produce(context.Background(), &kgo.Record{Value: value}, nil)
	}
	<-done
	return time.Since(began).Seconds()
}

// countingSink does nothing but what a benchmark says.
type countingSink struct{ put func(records []*SinkRecord) }

func (s *countingSink) Validate(map[string]string) error { return nil }
func (s *countingSink) TaskConfigs(config map[string]string, n int) []map[string]string {
	return alike(config, n)
}
func (s *countingSink) NewTask() SinkTask                                           { return s }
func (s *countingSink) Start(context.Context, TaskContext, map[string]string) error { return nil }
func (s *countingSink) Open([]string) error                                         { return nil }
func (s *countingSink) Flush(context.Context) error                                 { return nil }
func (s *countingSink) Stop() error                                                 { return nil }
func (s *countingSink) Put(_ context.Context, records []*SinkRecord) error {
	s.put(records)
	return nil
}
