package control_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/control"
	"kshare/protocol"
)

// directly sends requests over a direct connection.
type directly struct {
	b         *testing.B
	direct    *kshare.Direct
	formatter *kmsg.RequestFormatter
}

func (d *directly) ask(q kmsg.Request) kmsg.Response {
	d.direct.Send(d.formatter.AppendRequest(nil, q, 1)[4:])
	frame, err := d.direct.Receive()
	require.NoError(d.b, err)
	require.NotNil(d.b, frame, "%T waits", q)
	body := frame[4:] // behind the correlation id
	if q.IsFlexible() {
		body = body[1:] // and an empty tag section
	}
	p := q.ResponseKind()
	require.NoError(d.b, p.ReadFrom(body))
	return p
}

const benchmarkBatch = 100

// shareGroup joins a share group and returns a step of its work: 100 records are produced and acquired, and those acquired before accepted.
func (d *directly) shareGroup(topic [16]byte) (step func()) {
	d.ask(&kmsg.FindCoordinatorRequest{Version: 4, CoordinatorKeys: []string{"workers"}})
	join := kmsg.NewPtrShareGroupHeartbeatRequest()
	join.Version, join.GroupID, join.MemberID, join.SubscribedTopicNames = 1, "workers", "m1", []string{"orders"}
	require.Zero(d.b, d.ask(join).(*kmsg.ShareGroupHeartbeatResponse).ErrorCode)

	builder := protocol.NewBatchBuilder()
	require.NoError(d.b, builder.Reset(nil))
	for range benchmarkBatch {
		require.NoError(d.b, builder.Append(time.Now().UnixMilli(), nil, []byte("value")))
	}
	batch, err := builder.Finish()
	require.NoError(d.b, err)
	produce := kmsg.NewPtrProduceRequest()
	produce.Version, produce.Acks, produce.TimeoutMillis = 9, -1, 1000
	to := kmsg.NewProduceRequestTopic()
	to.Topic = "orders"
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = batch
	to.Partitions = append(to.Partitions, partition)
	produce.Topics = append(produce.Topics, to)

	fetch := kmsg.NewPtrShareFetchRequest()
	group, member := "workers", "m1"
	fetch.Version, fetch.GroupID, fetch.MemberID = 1, &group, &member
	fetch.MaxBytes, fetch.MaxRecords, fetch.BatchSize = 1<<20, benchmarkBatch, benchmarkBatch
	from := kmsg.NewShareFetchRequestTopic()
	from.TopicID = topic
	from.Partitions = append(from.Partitions, kmsg.NewShareFetchRequestTopicPartition())
	fetch.Topics = append(fetch.Topics, from)
	require.Zero(d.b, d.ask(fetch).(*kmsg.ShareFetchResponse).ErrorCode) // the group begins here
	fetch.ShareSessionEpoch++
	next := int64(0)
	return func() {
		d.ask(produce)
		p := d.ask(fetch).(*kmsg.ShareFetchResponse)
		require.Zero(d.b, p.ErrorCode)
		require.Len(d.b, p.Topics, 1)
		acquired := p.Topics[0].Partitions[0].AcquiredRecords
		require.Len(d.b, acquired, 1)
		require.Equal(d.b, next, acquired[0].FirstOffset)
		next += benchmarkBatch
		require.Equal(d.b, next-1, acquired[0].LastOffset)
		ack := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
		ack.FirstOffset, ack.LastOffset, ack.AcknowledgeTypes = acquired[0].FirstOffset, acquired[0].LastOffset, []int8{1}
		fetch.Topics[0].Partitions[0].AcknowledgementBatches = []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{ack}
		fetch.ShareSessionEpoch++
	}
}

// BenchmarkShareFetch is the work of a share group while nobody reads the metrics, and while they are read a hundred times a second.
func BenchmarkShareFetch(b *testing.B) {
	for name, scraped := range map[string]bool{"off": false, "on": true} {
		b.Run("metrics="+name, func(b *testing.B) {
			cluster, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithTopic("orders", 1), kshare.WithConfig("group.share.session.timeout.ms", "60000"))
			require.NoError(b, err)
			defer cluster.Close()
			direct, err := cluster.OpenDirect(1)
			require.NoError(b, err)
			defer direct.Close()
			d := &directly{b, direct, kmsg.NewRequestFormatter()}
			step := d.shareGroup(cluster.InspectTopics()[0].ID)
			if scraped {
				defer scrapeOften(control.Handler(cluster, control.Options{}))()
			}
			for b.Loop() {
				step()
			}
		})
	}
}

// scrapeOften reads the metrics every 10 ms until it is told to stop.
func scrapeOften(h http.Handler) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
				r.Host = "localhost"
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
	}()
	return func() { close(end); <-ended }
}
