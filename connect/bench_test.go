package connect

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare"
)

// BenchmarkSink measures how fast tasks get through records of 100 bytes on 4 partitions, in a share group and in an ordinary one, with a sink that costs nothing, 2 ms
// for each put and 2 ms for each record. What is measured begins when the first record is written and all tasks wait.
//
//	go test ./connect -run '^$' -bench Sink -benchtime 1x -count 3
func BenchmarkSink(b *testing.B) {
	for _, cost := range []struct {
		name        string
		put, record time.Duration
		each        int // records for each task that can work
		poll        []string
	}{
		{"free", 0, 0, 40_000, []string{"consumer.override.max.poll.records=500"}},
		{"2ms-a-put", 2 * time.Millisecond, 0, 40_000, []string{"consumer.override.max.poll.records=500"}},
		{"2ms-a-record", 0, 2 * time.Millisecond, 1000, []string{"consumer.override.max.poll.records=20", "consumer.override.share.acquire.mode=record_limit"}},
	} {
		for _, protocol := range []string{"share", "classic"} {
			for _, tasks := range []int{1, 6, 24} {
				b.Run(fmt.Sprintf("%s/%s/tasks=%d", cost.name, protocol, tasks), func(b *testing.B) {
					for range b.N {
						n := cost.each
						if cost.record > 0 {
							n *= min(tasks, 4)
						}
						rate := through(b, n, append(cost.poll, "tasks.max="+fmt.Sprint(tasks), "consumer.override.group.protocol="+protocol), func(records int) {
							if d := cost.put + time.Duration(records)*cost.record; d > 0 {
								time.Sleep(d)
							}
						})
						b.ReportMetric(rate, "records/s")
						b.ReportMetric(0, "ns/op")
					}
				})
			}
		}
	}
}

// through has tasks get through n records and returns how many they did in a second.
func through(b *testing.B, n int, properties []string, put func(records int)) float64 {
	const partitions = 4
	cluster, err := kshare.Start(kshare.WithListen("127.0.0.1:0"), kshare.WithTopic("orders", partitions))
	require.NoError(b, err)
	defer func() { require.NoError(b, cluster.Close()) }()
	var left atomic.Int64
	left.Store(int64(n))
	done := make(chan struct{})
	sink := &countingSink{put: func(records []*SinkRecord) {
		put(len(records))
		if left.Add(-int64(len(records))) == 0 {
			close(done)
		}
	}}
	w, err := NewWorker(WorkerConfig{Properties: workerProperties(bootstrapKey+"="+strings.Join(cluster.Addrs(), ","), "key.converter=ByteArrayConverter", "value.converter=ByteArrayConverter"),
		Plugins: map[string]func() SinkConnector{"TestSink": func() SinkConnector { return sink }}})
	require.NoError(b, err)
	defer w.Close()
	require.NoError(b, w.Put(config(properties...)))
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerBatchMaxBytes(64<<10), kgo.MaxBufferedRecords(n))
	require.NoError(b, err)
	defer client.Close()
	time.Sleep(7 * time.Second) // until the group has settled: a share group's members learn of each other by heartbeats
	value := make([]byte, 100)
	began := time.Now()
	for range n {
		client.Produce(context.Background(), &kgo.Record{Value: value}, nil)
	}
	<-done
	return float64(n) / time.Since(began).Seconds()
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
