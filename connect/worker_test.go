package connect

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare"
)

// Connectors in share groups and in ordinary ones run in one worker and read the same topics, each all of them.
func TestShareAndConsumerGroupsCoexist(t *testing.T) {
	inBubble(t, func(h *house) {
		h.produce("orders", numbered(40)...)
		sink := &testSink{}
		w, _ := h.worker(sink, "offset.flush.interval.ms=1000")
		defer w.Close()
		require.NoError(t, w.Put(config("tasks.max=3")))
		require.NoError(t, w.Put(config("name=classic", "connector.class=OtherSink", "consumer.override.group.protocol=classic", "tasks.max=2")))
		h.done(sink, 40)
		h.eventually(time.Minute, func() bool { return len(h.other.all()) == 40 }, "the ordinary one is through")
		require.NoError(t, w.Restart("classic"))
		h.produce("orders", "order 9999")
		h.done(sink, 41)
		h.eventually(time.Minute, func() bool { return len(h.other.different()) == 41 }, "it goes on")
		assert.Equal(t, 41, len(h.other.all()), "from where it had committed")
		err := w.Put(config("name=next", "connector.class=OtherSink", "share.group.id=connect-classic"))
		require.NoError(t, err)
		h.eventually(time.Minute, func() bool { s, err := w.Status("next"); return err == nil && s.Connector.State == Failed }, "it is refused")
		s, err := w.Status("next")
		require.NoError(t, err)
		assert.Equal(t, `share.group.id "connect-classic" is the id of a classic group, which cannot be a share group too: name another`, s.Connector.Trace)
		assert.Equal(t, []State{Running, Running, Running}, states(w), "the others go on")
	})
}

// Each protocol makes a group of its type, and its tasks have all records.
func TestProtocols(t *testing.T) {
	for _, protocol := range []string{classicProtocol, consumerProtocol, shareProtocol} {
		t.Run(protocol, func(t *testing.T) {
			inBubble(t, func(h *house) {
				h.produce("orders", numbered(10)...)
				sink := &testSink{}
				w, _ := h.worker(sink)
				defer w.Close()
				require.NoError(t, w.Put(config("consumer.override.group.protocol="+protocol, "tasks.max=2")))
				h.eventually(time.Minute, func() bool { return len(sink.all()) == 10 }, "all is there")
				groups := h.cluster.InspectGroups()
				require.Len(t, groups, 1)
				assert.Equal(t, protocol, groups[0].Type)
			})
		})
	}
}

// Back from share, a connector goes on where its consumer group had been.
func TestMigrationAndRollback(t *testing.T) {
	inBubble(t, func(h *house) {
		sink := &testSink{}
		w, _ := h.worker(sink, "offset.flush.interval.ms=1000", "consumer.group.protocol=classic")
		defer w.Close()
		h.produce("orders", numbered(10)...)
		require.NoError(t, w.Put(config()))
		h.eventually(time.Minute, func() bool { return len(sink.all()) == 10 }, "the ordinary one is through")
		time.Sleep(2 * time.Second)
		require.NoError(t, w.Put(config("consumer.override.group.protocol=share")))
		h.eventually(time.Minute, func() bool { return strings.Contains(trace(w), groupIDKey) }, "the group's id is taken, and the property says which to change")
		require.NoError(t, w.Put(config("consumer.override.group.protocol=share", "share.group.id=copy-share")))
		h.eventually(time.Minute, func() bool { return len(sink.all()) == 20 }, "the share group reads from the first record")
		require.NoError(t, w.Put(config("share.group.id=copy-share")))
		h.produce("orders", "order 9999")
		h.eventually(time.Minute, func() bool { return slices.Contains(sink.all(), "order 9999") }, "it goes on")
		assert.Len(t, sink.all(), 21, "from the ordinary group's offsets")
	})
}

// What brokers lack fails the connector with the property, and the worker goes on.
func TestMissingFeatures(t *testing.T) {
	for name, c := range map[string]struct {
		options    []kshare.Option
		properties []string
		want       string
	}{
		"no share groups":      {[]kshare.Option{kshare.WithFeature("share.version", 0)}, nil, `consumer.group.protocol "share" needs share groups, which the brokers do not have: share.version is 0`},
		"no dead letters":      {[]kshare.Option{kshare.WithFeature("share.version", 1)}, []string{"errors.deadletterqueue.topic.name=dlq.orders"}, `errors.deadletterqueue.topic.name "dlq.orders" needs brokers that write dead letters`},
		"old transactions":     {[]kshare.Option{kshare.WithFeature("transaction.version", 1)}, []string{"connector.class=KafkaSink", "kafka.topic=invoices", "exactly.once.support=required"}, `exactly.once.support "required" needs transaction.version 2`},
		"a lock that is short": {nil, []string{"share.acquisition.lock.timeout.ms=1"}, `share.acquisition.lock.timeout.ms "1" was refused as share.record.lock.duration.ms of group connect-copy`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *house) {
				h.produce("orders", "a")
				sink := &testSink{}
				w, _ := h.worker(sink)
				defer w.Close()
				require.NoError(t, w.Put(config(c.properties...)))
				h.eventually(time.Minute, func() bool { return trace(w) != "" }, "it fails")
				assert.Contains(t, trace(w), c.want)
				require.NoError(t, w.Put(config("name=other", "connector.class=OtherSink", "consumer.override.group.protocol=classic")))
				h.eventually(time.Minute, func() bool { return len(h.other.all()) == 1 }, "another one works")
			}, c.options...)
		})
	}
}

// The KIP's lock property is the group's, and so are where it begins to read and what it sees, unless somebody has configured that.
func TestGroupIsConfigured(t *testing.T) {
	inBubble(t, func(h *house) {
		h.produce("orders", "before")
		sink := &testSink{}
		w, l := h.worker(sink)
		require.NoError(t, w.Put(config("share.acquisition.lock.timeout.ms=20000", "consumer.override.auto.offset.reset=latest")))
		h.running(w, 1)
		time.Sleep(10 * time.Second)
		h.produce("orders", "after")
		h.eventually(time.Minute, func() bool { return len(sink.all()) > 0 }, "it reads")
		assert.Equal(t, []string{"after"}, sink.all())
		hang := make(chan struct{})
		sink.put = func(context.Context, int, []*SinkRecord) error { <-hang; return nil }
		h.produce("orders", "more")
		h.eventually(time.Minute, func() bool { return sink.tried("more") == 1 }, "it puts")
		s, err := h.cluster.InspectSharePartition("connect-copy", "orders", 0)
		require.NoError(t, err)
		assert.LessOrEqual(t, s.Runs[0].LockLeft, 20*time.Second)
		close(hang)
		crash(w, l)
	})
}

// Brokers that are not there yet are waited for.
func TestBrokersThatAreLate(t *testing.T) {
	inBubble(t, func(h *house) {
		h.produce("orders", "a")
		require.NoError(t, h.cluster.StopNode(1))
		sink := &testSink{}
		w, _ := h.worker(sink)
		defer w.Close()
		require.NoError(t, w.Put(config()))
		time.Sleep(time.Minute)
		s, err := w.Status("copy")
		require.NoError(t, err)
		assert.Equal(t, Unassigned, s.Connector.State)
		assert.Contains(t, s.Connector.Trace, bootstrapKey)
		require.NoError(t, h.cluster.StartNode(1))
		h.done(sink, 1)
	})
}

// With topics.regex topics that come later are read too.
func TestTopicsRegex(t *testing.T) {
	inBubble(t, func(h *house) {
		sink := &testSink{}
		w, _ := h.worker(sink)
		defer w.Close()
		c := config("topics.regex=eu-.*", "tasks.max=2", "consumer.override.metadata.max.age.ms=10000")
		delete(c, topicsKey)
		require.NoError(t, w.Put(c))
		h.create("eu-a")
		h.produce("eu-a", "a")
		h.create("us-a")
		h.produce("us-a", "no")
		h.eventually(time.Minute, func() bool { return slices.Equal(sink.all(), []string{"a"}) }, "the first")
		h.create("eu-b")
		h.produce("eu-b", "b")
		h.produce("eu-a", "c")
		h.eventually(time.Minute, func() bool { return slices.Equal(sink.all(), []string{"a", "b", "c"}) }, "the next")
	})
}

// Fifty tasks of three connectors share what there is on twelve partitions.
func TestMoreTasksThanPartitions(t *testing.T) {
	inBubble(t, func(h *house) {
		sink := &testSink{put: func(context.Context, int, []*SinkRecord) error { time.Sleep(time.Second); return nil }}
		w, _ := h.worker(sink)
		defer w.Close()
		require.NoError(t, w.Put(config("topics=many", "tasks.max=50", "consumer.override.max.poll.records=1", "consumer.override.share.acquire.mode=record_limit")))
		h.running(w, 50)
		time.Sleep(20 * time.Second) // all have partitions
		h.produce("many", numbered(300)...)
		h.eventually(10*time.Minute, func() bool { return h.lag("connect-copy", "many") == 0 }, "all is done")
		assert.Equal(t, numbered(300), sink.all())
		assert.Greater(t, len(sink.byTask()), 12, "more tasks than partitions had work")
	}, kshare.WithTopic("many", 12))
}

// The metrics of a task in a share group are those that the KIP lists, and those of consumer groups are not there.
func TestMetrics(t *testing.T) {
	inBubble(t, func(h *house) {
		h.batch("orders", numbered(6)...)
		sink := &testSink{}
		sink.put = func(_ context.Context, _ int, records []*SinkRecord) error {
			time.Sleep(500 * time.Millisecond)
			switch {
			case records[0].DeliveryCount == 1:
				return Retriable(fmt.Errorf("later"))
			case slices.Contains(valuesOf(records), "order 0005"):
				return fmt.Errorf("never")
			}
			return nil
		}
		w, _ := h.worker(sink)
		defer w.Close()
		require.NoError(t, w.Put(config("errors.tolerance=all")))
		h.done(sink, 5)
		h.eventually(time.Minute, func() bool { return h.lag("connect-copy", "orders") == 0 }, "all is done")
		time.Sleep(time.Second)
		want := `
kafka_connect_sink_task_metrics_sink_record_acknowledge_total{connector="copy",task="0"} 5
kafka_connect_sink_task_metrics_sink_record_acquire_total{connector="copy",task="0"} 12
kafka_connect_sink_task_metrics_sink_record_read_total{connector="copy",task="0"} 12
kafka_connect_sink_task_metrics_sink_record_redelivery_total{connector="copy",task="0"} 6
kafka_connect_sink_task_metrics_sink_record_reject_total{connector="copy",task="0"} 1
kafka_connect_sink_task_metrics_sink_record_release_total{connector="copy",task="0"} 6
kafka_connect_sink_task_metrics_sink_record_send_total{connector="copy",task="0"} 5
kafka_connect_sink_task_metrics_sink_record_active_count{connector="copy",task="0"} 0
kafka_connect_sink_task_metrics_put_batch_max_time_ms{connector="copy",task="0"} 500
`
		page := httptest.NewRecorder()
		w.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil))
		for line := range strings.Lines(strings.TrimSpace(want)) {
			assert.Contains(t, page.Body.String(), strings.TrimSpace(line)+"\n")
		}
		assert.Contains(t, page.Body.String(), "# HELP kafka_connect_sink_task_metrics_sink_record_release_total records released, to be delivered again\n# TYPE kafka_connect_sink_task_metrics_sink_record_release_total counter")
		for _, a := range attributes {
			name := metricsPrefix + strings.ReplaceAll(a.name, "-", "_") + "{"
			assert.Equal(t, a.isOf(true), strings.Contains(page.Body.String(), name), name)
		}
		assert.NotContains(t, page.Body.String(), "partition_count")
	})
}

// Rates are Kafka's: over the last two windows of 30 s, of which one counts in full from the first moment.
func TestRates(t *testing.T) {
	var s sensor
	at := time.Unix(0, 0)
	s.record(at, 60)
	assert.InDelta(t, 2, s.rate(at.Add(10*time.Second)), 1e-9)
	assert.InDelta(t, 60.0/45, s.rate(at.Add(45*time.Second)), 1e-9)
	s.record(at.Add(40*time.Second), 40)
	assert.InDelta(t, 2, s.rate(at.Add(50*time.Second)), 1e-9)
	avg, most := s.avgMax(at.Add(50 * time.Second))
	assert.InDelta(t, 50, avg, 1e-9)
	assert.InDelta(t, 60, most, 1e-9)
	assert.InDelta(t, 40.0/30, s.rate(at.Add(65*time.Second)), 1e-9, "the first window is over")
	assert.Zero(t, s.rate(at.Add(200*time.Second)))
	assert.InDelta(t, 100, s.sum, 1e-9)
}

// create makes a topic.
func (h *house) create(topic string) {
	h.t.Helper()
	client, err := kgo.NewClient(append(h.opts, kgo.AllowAutoTopicCreation())...)
	require.NoError(h.t, err)
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(h.t.Context(), 1, 1, nil, topic)
	require.NoError(h.t, err)
}

// rest asks the interface.
func rest(w *Worker, method, path, body string, headers ...string) (int, string) {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, "=")
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	answer := httptest.NewRecorder()
	w.Handler("sinks.local").ServeHTTP(answer, r)
	return answer.Code, strings.TrimSpace(answer.Body.String())
}

func TestREST(t *testing.T) {
	inBubble(t, func(h *house) {
		sink := &testSink{}
		w, _ := h.worker(sink)
		defer w.Close()
		ask := func(method, path, body, want string, code int) {
			t.Helper()
			got, text := rest(w, method, path, body)
			assert.Equal(t, code, got, text)
			if want != "" {
				assert.JSONEq(t, want, text)
			} else {
				assert.Empty(t, text)
			}
		}
		ask("GET", "/connectors", "", `[]`, 200)
		ask("GET", "/connectors/copy/status", "", `{"error_code":404,"message":"connector \"copy\": there is no such connector or task"}`, 404)
		ask("PUT", "/connectors/copy/config", `{"connector.class":"TestSink"}`, `{"error_code":400,"message":"topics is missing, and topics.regex too"}`, 400)
		ask("PUT", "/connectors/copy/config", `{"connector.class":1}`, `{"error_code":400,"message":"the body is no JSON object of texts: json: cannot unmarshal number into Go value of type string"}`, 400)
		ask("PUT", "/connectors/copy/config", `{"name":"b"}`, `{"error_code":400,"message":"name \"b\" is not the name in the path"}`, 400)
		ask("PUT", "/connectors/copy/config", `{"connector.class":"TestSink","topics":"orders"}`, `{"name":"copy","type":"sink","config":{"name":"copy","connector.class":"TestSink","topics":"orders"}}`, 201)
		h.running(w, 1)
		ask("PUT", "/connectors/copy/config", `{"connector.class":"TestSink","topics":"orders","tasks.max":"2"}`, `{"name":"copy","type":"sink","config":{"name":"copy","connector.class":"TestSink","topics":"orders","tasks.max":"2"}}`, 200)
		h.running(w, 2)
		ask("GET", "/connectors/copy/status", "", `{"name":"copy","type":"sink","connector":{"state":"RUNNING","worker_id":"kshare"},"tasks":[{"id":0,"state":"RUNNING","worker_id":"kshare"},{"id":1,"state":"RUNNING","worker_id":"kshare"}]}`, 200)
		ask("PUT", "/connectors/copy/pause", "", "", 202)
		h.eventually(time.Minute, func() bool { return slices.Equal(states(w), []State{Paused, Paused}) }, "both pause")
		ask("PUT", "/connectors/copy/resume", "", "", 202)
		h.running(w, 2)
		ask("POST", "/connectors/copy/restart", "", "", 204)
		h.running(w, 2)
		ask("POST", "/connectors/copy/tasks/1/restart", "", "", 204)
		h.running(w, 2)
		ask("PUT", "/connectors/copy/stop", "", "", 204)
		ask("GET", "/connectors/copy/status", "", `{"name":"copy","type":"sink","connector":{"state":"STOPPED","worker_id":"kshare"},"tasks":[]}`, 200)
		ask("DELETE", "/connectors/copy", "", "", 204)
		ask("DELETE", "/connectors/copy", "", `{"error_code":404,"message":"connector \"copy\": there is no such connector or task"}`, 404)
		for _, foreign := range []string{"Host=evil.example", "Origin=http://evil.example", "Sec-Fetch-Site=cross-site"} {
			code, _ := rest(w, "GET", "/connectors", "", foreign)
			assert.Equal(t, 403, code, foreign)
		}
		code, _ := rest(w, "GET", "/connectors", "", "Host=sinks.local:80")
		assert.Equal(t, 200, code)
		w.Close()
		require.ErrorIs(t, w.Put(config()), ErrWorkerClosed)
	})
}

// An HTTPSink posts what it gets; what an answer means is told from its status.
func TestHTTPSink(t *testing.T) {
	inBubble(t, func(h *house) {
		var bodies []string
		status := []int{503, 200, 429, 200, 400, 204, 204}
		plugins := Plugins()
		plugins["HTTPSink"] = func() SinkConnector {
			return HTTPSink{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				data, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				bodies = append(bodies, r.Header.Get("X-Token")+" "+string(data))
				code := status[0]
				status = status[1:]
				return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("because"))}, nil
			})}
		}
		w, err := NewWorker(WorkerConfig{Properties: workerProperties(bootstrapKey + "=" + h.cluster.Addrs()[0]), Plugins: plugins,
			ClientOpts: func(string, int) []kgo.Opt { return []kgo.Opt{kgo.Dialer(h.cluster.Dial)} }})
		require.NoError(t, err)
		defer w.Close()
		h.batch("orders", "a")
		require.NoError(t, w.Put(config("connector.class=HTTPSink", "http.url=http://sink/in", "http.header.X-Token=secret", "errors.tolerance=all", "http.batch.max.records=2")))
		h.eventually(time.Minute, func() bool { return h.lag("connect-copy", "orders") == 0 }, "503 passes")
		h.batch("orders", "b")
		h.eventually(time.Minute, func() bool { return h.lag("connect-copy", "orders") == 0 }, "429 passes")
		h.batch("orders", "c")
		h.eventually(time.Minute, func() bool { return h.lag("connect-copy", "orders") == 0 }, "400 is final")
		h.batch("orders", "d", "e", "f")
		h.eventually(time.Minute, func() bool { return h.lag("connect-copy", "orders") == 0 }, "two requests")
		require.Len(t, bodies, 7)
		assert.Regexp(t, `^secret \[\{"topic":"orders","partition":0,"offset":0,"deliveryCount":1,"timestamp":\d+,"key":null,"value":"a"\}\]$`, bodies[0])
		assert.Contains(t, bodies[1], `"deliveryCount":2`)
		assert.Contains(t, bodies[4], `"value":"c"`)
		assert.Equal(t, 2, strings.Count(bodies[5], `"topic"`))
		assert.Equal(t, 1, strings.Count(bodies[6], `"topic"`))
		end, err := w.Status("copy")
		require.NoError(t, err)
		assert.Equal(t, Running, end.Tasks[0].State)
	})
}

type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A FileSink appends lines; several tasks write whole ones.
func TestFileSink(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, func(h *house) {
		w, _ := h.worker(&testSink{})
		defer w.Close()
		h.produce("orders", numbered(30)...)
		name := filepath.Join(dir, "out.txt")
		require.NoError(t, w.Put(config("connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector", "file="+name, "tasks.max=3")))
		h.eventually(time.Minute, func() bool { return h.lag("connect-copy", "orders") == 0 }, "all is done")
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, numbered(30), slices.Sorted(strings.SplitSeq(strings.TrimSpace(string(text)), "\n")))
		require.NoError(t, w.Put(config("connector.class=FileSink", "file="+filepath.Join(dir, "none", "out.txt"))))
		h.eventually(time.Minute, func() bool { return trace(w) != "" }, "it fails")
		assert.Contains(t, trace(w), "file open ")
	})
}

// A KafkaSink writes to the same cluster and to another, and exactly once to the same one alone.
func TestKafkaSink(t *testing.T) {
	inBubble(t, func(h *house) {
		other, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithListen("127.0.0.2:9092"), kshare.WithTopic("copies", 1))
		require.NoError(t, err)
		defer func() { require.NoError(t, other.Close()) }()
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if slices.Contains(other.Addrs(), addr) {
				return other.Dial(ctx, network, addr)
			}
			return h.cluster.Dial(ctx, network, addr)
		}
		w, err := NewWorker(WorkerConfig{Properties: workerProperties(bootstrapKey + "=" + h.cluster.Addrs()[0]), ClientOpts: func(string, int) []kgo.Opt { return []kgo.Opt{kgo.Dialer(dial)} }})
		require.NoError(t, err)
		defer w.Close()
		h.produce("orders", numbered(5)...)
		require.NotEqual(t, other.Addrs(), h.cluster.Addrs())
		elsewhere := []string{"connector.class=KafkaSink", "kafka.topic=copies", "kafka.bootstrap.servers=" + other.Addrs()[0]}
		require.NoError(t, w.Put(config(elsewhere...)))
		h.eventually(time.Minute, func() bool { return h.lag("connect-copy", "orders") == 0 }, "all is done")
		there := &house{t: h.t, cluster: other, opts: []kgo.Opt{kgo.SeedBrokers(other.Addrs()...), kgo.Dialer(other.Dial)}}
		assert.Equal(t, numbered(5), there.read("copies"))
		require.NoError(t, w.Put(config(append(elsewhere, "exactly.once.support=required")...)))
		h.eventually(time.Minute, func() bool { return trace(w) != "" }, "it fails")
		assert.Contains(t, trace(w), `exactly.once.support "required" is for one cluster: kafka.bootstrap.servers is another than bootstrap.servers`)
	})
}
