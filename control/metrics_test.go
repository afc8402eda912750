package control_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
)

// families are the metrics that were answered, as Prometheus reads them.
func (a *api) families(w *httptest.ResponseRecorder) map[string]*dto.MetricFamily {
	a.t.Helper()
	require.Equal(a.t, http.StatusOK, w.Code, "%s", w.Body)
	require.Contains(a.t, w.Header().Get("Content-Type"), "text/plain")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(w.Body.Bytes()))
	require.NoError(a.t, err)
	return families
}

func (a *api) scrape() *httptest.ResponseRecorder {
	return a.do(request(a.t, http.MethodGet, "/metrics", nil))
}

// scrapeDuring runs a scenario and scrapes when some of the cluster's time has passed, while the members of the scenario are there.
func (a *api) scrapeDuring(text string, after time.Duration) *httptest.ResponseRecorder {
	a.t.Helper()
	var w *httptest.ResponseRecorder
	a.cluster.Clock().AfterFunc(after, func() { w = a.scrape() })
	a.run(text)
	require.NotNil(a.t, w, "the scenario took less than %s", after)
	return w
}

// samples are the metrics whose names begin with one of the prefixes, as name{label="value",...} and value.
func (a *api) samples(prefixes ...string) map[string]float64 {
	a.t.Helper()
	return a.samplesOf(a.scrape(), prefixes...)
}

func (a *api) samplesOf(w *httptest.ResponseRecorder, prefixes ...string) map[string]float64 {
	a.t.Helper()
	all := map[string]float64{}
	for name, f := range a.families(w) {
		if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		for _, m := range f.Metric {
			var pairs []string
			for _, l := range m.Label {
				pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			add := func(suffix string, value float64, more ...string) {
				key := name + suffix
				if labels := strings.Join(append(slices.Clone(pairs), more...), ","); labels != "" {
					key += "{" + labels + "}"
				}
				all[key] = value
			}
			switch {
			case m.Histogram != nil:
				add("_count", float64(m.Histogram.GetSampleCount()))
				add("_sum", m.Histogram.GetSampleSum())
				for _, b := range m.Histogram.Bucket {
					add("_bucket", float64(b.GetCumulativeCount()), fmt.Sprintf("le=\"%v\"", b.GetUpperBound()))
				}
			case m.Counter != nil:
				add("", m.Counter.GetValue())
			default:
				add("", m.Gauge.GetValue())
			}
		}
	}
	return all
}

// shared is a share group with every kind of acknowledgement behind it. Apache Kafka 4.4.0 was made to do the same, and its MBeans said the same as the test
// below, but for those that it forgets.
const shared = `topic pair partitions=2
config group workers share.auto.offset.reset=earliest share.record.lock.duration.ms=15000
produce pair-0 r count=10
produce pair-0 s count=5
produce pair-1 t count=4
join workers m1 pair
fetch workers m1
ack workers m1 pair-0 0-5=accept,accept,accept,accept,release,reject
ack workers m1 pair-0 6-7=renew renew=yes
ack workers m1 pair-0 0-1=accept
advance 15s
fetch workers m1
ack workers m1 pair-1 0-1=accept,release
`

func TestMetrics(t *testing.T) {
	a := newAPI(t)
	w := a.scrapeDuring(shared+"advance 1s\n", 16*time.Second)
	pair0, pair1 := `group="workers",partition="0",topic="pair"`, `group="workers",partition="1",topic="pair"`
	const server = "kafka_server_"
	want := map[string]float64{
		server + `sharegroupmetrics_recordacknowledgements_total{ackType="Accept"}`:  7, // those below the start offset, too
		server + `sharegroupmetrics_recordacknowledgements_total{ackType="Reject"}`:  1,
		server + `sharegroupmetrics_recordacknowledgements_total{ackType="Release"}`: 2,
		server + `sharegroupmetrics_recordacknowledgements_total{ackType="Renew"}`:   2,

		server + "sharepartitionmetrics_acquisitionlocktimeout_total{" + pair0 + "}": 9, // 6 to 14
		server + "sharepartitionmetrics_acquisitionlocktimeout_total{" + pair1 + "}": 4,
		server + "sharepartitionmetrics_inflightmessagecount{" + pair0 + "}":         11, // from 4 on
		server + "sharepartitionmetrics_inflightmessagecount{" + pair1 + "}":         3,
		server + "sharepartitionmetrics_inflightbatchcount{" + pair0 + "}":           1,
		server + "sharepartitionmetrics_inflightbatchcount{" + pair1 + "}":           1,

		server + "sharesessioncache_sharesessionscount":                                          1,
		server + "sharesessioncache_sharepartitionscount":                                        2,
		server + "sharesessioncache_sharesessionevictions_total":                                 0,
		server + "delayedsharefetchmetrics_expires_total":                                        0,
		server + "share_coordinator_metrics_write_total":                                         2 + 2, // each partition was acknowledged and had locks end
		server + `group_coordinator_metrics_group_count{protocol="classic"}`:                     0,
		server + `group_coordinator_metrics_group_count{protocol="consumer"}`:                    0,
		server + `group_coordinator_metrics_group_count{protocol="share"}`:                       1,
		server + `group_coordinator_metrics_share_group_count{state="Dead"}`:                     0,
		server + `group_coordinator_metrics_share_group_count{state="Empty"}`:                    0,
		server + `group_coordinator_metrics_share_group_count{state="Stable"}`:                   1,
		server + "group_coordinator_metrics_share_group_rebalance_count":                         2, // the member joins, its partitions get their state
		server + `share_coordinator_metrics_num_partitions{state="active"}`:                      50,
		server + `share_coordinator_metrics_num_partitions{state="loading"}`:                     0,
		server + `share_coordinator_metrics_num_partitions{state="failed"}`:                      0,
		server + `delayedoperationpurgatory_numdelayedoperations{delayedOperation="ShareFetch"}`: 0,
	}
	got := a.samplesOf(w, server)
	maps.DeleteFunc(got, func(name string, _ float64) bool { return strings.Contains(name, "inflightbatchmessagecount") })
	require.Equal(t, want, got)

	batches := func(of string, upTo16, upTo8, upTo4, sum float64) map[string]float64 {
		const name = server + "sharepartitionmetrics_inflightbatchmessagecount"
		m := map[string]float64{name + "_count{" + of + "}": 1, name + "_sum{" + of + "}": sum}
		for size, i := 1, 0; i < 14; size, i = size*2, i+1 {
			n := 0.0
			switch {
			case size >= 16:
				n = upTo16
			case size == 8:
				n = upTo8
			case size == 4:
				n = upTo4
			}
			m[fmt.Sprintf("%s_bucket{%s,le=\"%d\"}", name, of, size)] = n
		}
		m[name+`_bucket{`+of+`,le="+Inf"}`] = 1
		return m
	}
	want = batches(pair0, 1, 0, 0, 15)
	for name, n := range batches(pair1, 1, 1, 1, 4) {
		want[name] = n
	}
	require.Equal(t, want, a.samplesOf(w, server+"sharepartitionmetrics_inflightbatchmessagecount"))

	const own = "kshare_share_partition_"
	want = map[string]float64{
		own + "acquired_records_total{" + pair0 + "}":                       15 + 10,
		own + "acquired_records_total{" + pair1 + "}":                       4 + 4,
		own + `acknowledged_records_total{ackType="Accept",` + pair0 + "}":  6,
		own + `acknowledged_records_total{ackType="Reject",` + pair0 + "}":  1,
		own + `acknowledged_records_total{ackType="Release",` + pair0 + "}": 1,
		own + `acknowledged_records_total{ackType="Renew",` + pair0 + "}":   2,
		own + `acknowledged_records_total{ackType="Accept",` + pair1 + "}":  1,
		own + `acknowledged_records_total{ackType="Reject",` + pair1 + "}":  0,
		own + `acknowledged_records_total{ackType="Release",` + pair1 + "}": 1,
		own + `acknowledged_records_total{ackType="Renew",` + pair1 + "}":   0,
		own + "start_offset{" + pair0 + "}":                                 4,
		own + "start_offset{" + pair1 + "}":                                 1,
		own + "start_offset_lag{" + pair0 + "}":                             11,
		own + "start_offset_lag{" + pair1 + "}":                             3,
		own + "staged_records{" + pair0 + "}":                               0,
		own + "staged_records{" + pair1 + "}":                               0,
		own + "lag{" + pair0 + "}":                                          10, // and one of them is rejected
		own + "lag{" + pair1 + "}":                                          3,
		own + "delivery_count_count{" + pair0 + "}":                         25,
		own + "delivery_count_sum{" + pair0 + "}":                           15 + 2*10,
		own + "delivery_count_count{" + pair1 + "}":                         8,
		own + "delivery_count_sum{" + pair1 + "}":                           4 + 2*4,
		own + `delivery_count_bucket{` + pair0 + `,le="+Inf"}`:              25,
		own + `delivery_count_bucket{` + pair1 + `,le="+Inf"}`:              8,
	}
	for count := 1; count <= 31; count++ {
		n0, n1 := 25.0, 8.0
		if count == 1 {
			n0, n1 = 15, 4
		}
		want[fmt.Sprintf("%sdelivery_count_bucket{%s,le=\"%d\"}", own, pair0, count)] = n0
		want[fmt.Sprintf("%sdelivery_count_bucket{%s,le=\"%d\"}", own, pair1, count)] = n1
	}
	require.Equal(t, want, a.samplesOf(w, own))
}

// What a leader forgets is not served any more, what has happened is.
func TestMetricsOfWhatIsGone(t *testing.T) {
	a := newAPI(t)
	a.run(shared) // the member's connection ends with the scenario
	const inFlight, timeouts = "kafka_server_sharepartitionmetrics_inflight", "kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total"
	got := a.samples("kafka_server_sharesessioncache_", "kshare_share_partition_start_offset", timeouts)
	require.Equal(t, map[string]float64{
		"kafka_server_sharesessioncache_sharesessionscount":          0,
		"kafka_server_sharesessioncache_sharepartitionscount":        0,
		"kafka_server_sharesessioncache_sharesessionevictions_total": 1,
		timeouts + `{group="workers",partition="0",topic="pair"}`:    9,
		timeouts + `{group="workers",partition="1",topic="pair"}`:    4,
	}, got)
	require.Empty(t, a.samples(inFlight+"message", inFlight+"batchcount"))

	a.run("delete-topic pair\n")
	require.Empty(t, a.samples("kafka_server_sharepartitionmetrics_", "kshare_share_partition_"))
	require.InDelta(t, 7, a.samples("kafka_server_sharegroupmetrics_")[`kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Accept"}`], 0)

	a.post("/v1/reset", "{}", nil)
	require.Zero(t, a.samples("kafka_server_sharegroupmetrics_")[`kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Accept"}`])
}

const accepted = `kshare_share_partition_acknowledged_records_total{ackType="Accept",group="workers",partition="0",topic="orders"}`

// A fetch that waits is counted while it does, and for ever when it was in vain.
func TestMetricsOfFetchesThatWait(t *testing.T) {
	a := newAPI(t)
	const waiting, expired = `kafka_server_delayedoperationpurgatory_numdelayedoperations{delayedOperation="ShareFetch"}`, "kafka_server_delayedsharefetchmetrics_expires_total"
	w := a.scrapeDuring("topic quiet\njoin workers m1 quiet\njoin workers m2 quiet\nfetch workers m1 wait=5s &1\nfetch workers m2 wait=5s &2\nadvance 2s\nadvance 5s\nwait 1\nwait 2\n", time.Second)
	require.Equal(t, map[string]float64{waiting: 2, expired: 0}, a.samplesOf(w, "kafka_server_delayed"))
	require.Equal(t, map[string]float64{waiting: 0, expired: 2}, a.samples("kafka_server_delayed"))
}

// Acknowledgements are counted when their write is answered, and only where it succeeded. A lock that ends meanwhile has ended all the same.
func TestMetricsOfUnansweredWrites(t *testing.T) {
	a := newAPI(t)
	const timeouts = `kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total{group="workers",partition="0",topic="orders"}`
	const begin = "config group workers share.auto.offset.reset=earliest\nproduce orders-0 a b c\njoin workers m1 orders\nfetch workers m1\n"
	w := a.scrapeDuring(begin+"share-writes slow workers hold=yes\nack workers m1 orders-0 0-1=accept &1\nadvance 40s\nrelease slow\nwait 1\n", 35*time.Second)
	require.Equal(t, map[string]float64{accepted: 0, timeouts: 3}, pick(a.samplesOf(w, "k"), accepted, timeouts))
	require.Equal(t, map[string]float64{accepted: 2, timeouts: 3}, pick(a.samples("k"), accepted, timeouts))
}

// A group whose name is no text has metrics, too, and does not spoil those of others.
func TestMetricsOfNamesThatAreNoText(t *testing.T) {
	a := newAPI(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(a.cluster.Addrs()...), kgo.Dialer(a.cluster.Dial))
	require.NoError(t, err)
	defer client.Close()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"a\xff"}
	_, err = find.RequestWith(context.Background(), client)
	require.NoError(t, err)
	join := kmsg.NewPtrShareGroupHeartbeatRequest()
	join.GroupID, join.MemberID, join.SubscribedTopicNames = "a\xff", "m", []string{"orders"}
	resp, err := join.RequestWith(context.Background(), client.Broker(1))
	require.NoError(t, err)
	require.Zero(t, resp.ErrorCode)
	const name = "kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total"
	require.Equal(t, map[string]float64{name + `{group="a�",partition="0",topic="orders"}`: 0}, a.samples(name))
}

// What goes to a dead-letter queue is counted, and what could not.
func TestMetricsOfDeadLetters(t *testing.T) {
	a := newAPI(t)
	a.run(deadLetters)
	const prefix = "kafka_server_sharegroupmetrics_deadletterqueue"
	require.Equal(t, map[string]float64{
		prefix + `recordcount_count{group="workers"}`:           3,
		prefix + `totalproducerequests_total{group="workers"}`:  3,
		prefix + `failedproducerequests_total{group="workers"}`: 1,
	}, a.samples(prefix))
}

// deadLetters has three records of a share group go to its queue, in two batches, and another one be too large for it. Apache Kafka 4.4.0 counted the same
// records and failures, and one more attempt.
const deadLetters = `topic dlq.workers errors.deadletterqueue.group.enable=true
config group workers share.auto.offset.reset=earliest errors.deadletterqueue.topic.name=dlq.workers
produce orders-0 a b c d e
join workers m1 orders
fetch workers m1
ack workers m1 orders-0 0-1=reject
ack workers m1 orders-0 2=reject
config topic dlq.workers max.message.bytes=1
ack workers m1 orders-0 3=reject
`

// documented are the rows of the table in docs/control.md: name with labels, meaning, MBean and attribute.
func documented(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile("../docs/control.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `((?:kafka|kshare)_\\S+)` \\| (.*) \\| (none|`.*`) \\|$").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, rows)
	return rows
}

// The documentation lists what is served, under its names, with its labels and meanings.
func TestMetricsAreThoseOfTheDocumentation(t *testing.T) {
	a := newAPI(t)
	// Everything happens that a metric tells of: state is pruned, too.
	served := a.families(a.scrapeDuring(shared+deadLetters+"advance 7m\n", 6*time.Minute))
	var names []string
	for _, row := range documented(t) {
		name, labels, _ := strings.Cut(strings.TrimSuffix(row[1], "}"), "{")
		names = append(names, name)
		f := served[name]
		if !assert.NotNil(t, f, "%s is not served", name) {
			continue
		}
		assert.Equal(t, row[2], f.GetHelp(), name)
		assert.Equal(t, strings.HasPrefix(row[2], "histogram "), f.GetType() == dto.MetricType_HISTOGRAM, name)
		var want, got []string
		if labels != "" {
			want = strings.Split(labels, ",")
		}
		for _, l := range f.Metric[0].Label {
			got = append(got, l.GetName())
		}
		assert.ElementsMatch(t, want, got, name)
	}
	var all []string
	for name := range served {
		all = append(all, name)
	}
	require.ElementsMatch(t, names, all)
}

// exported is the name that the JMX exporter's rules for Kafka give to an attribute of an MBean, as docs/control.md says it.
func exported(bean, attribute string) string {
	m := regexp.MustCompile(`^kafka\.server:type=([^,]+)(?:,name=([^,]+))?`).FindStringSubmatch(bean)
	name := "kafka_server_" + m[1] + "_" + m[2]
	if m[2] == "" {
		name = "kafka_server_" + strings.ReplaceAll(m[1]+"_"+attribute, "-", "_")
	}
	if rate, is := strings.CutSuffix(name, "PerSec"); is {
		name = rate + "_total"
	} else if attribute == "Count" {
		name += "_count"
	}
	return strings.ToLower(name)
}

// Every metric of Kafka's is one that an Apache Kafka 4.4.0 was seen to have, with the name that the rule makes of it, and its labels.
func TestMetricsAreThoseOfKafka(t *testing.T) {
	text, err := os.ReadFile("testdata/kafka-4.4.0-mbeans.txt")
	require.NoError(t, err)
	beans := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, row := range documented(t) {
		name, labels, _ := strings.Cut(strings.TrimSuffix(row[1], "}"), "{")
		if row[3] == "none" {
			assert.True(t, strings.HasPrefix(name, "kshare_"), name)
			continue
		}
		bean, attribute, _ := strings.Cut(strings.Trim(row[3], "`"), " ")
		assert.Contains(t, beans, bean+" "+attribute)
		if strings.HasPrefix(row[2], "histogram ") {
			name += "_count"
		}
		assert.Equal(t, exported(bean, attribute), name)
		var keys []string
		for _, property := range strings.Split(bean, ",")[1:] {
			if !strings.Contains(property, "=") {
				keys = append(keys, property)
			}
		}
		assert.Equal(t, strings.Join(keys, ","), labels, name)
	}
}

// Scrapes while clients work see counters that only grow and gauges that fit together.
func TestMetricsUnderLoad(t *testing.T) {
	a := newAPI(t, kshare.WithClock(clock.Machine{}))
	a.post("/v1/scenarios", map[string]any{"text": "config group workers share.auto.offset.reset=earliest\n"}, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const records, workers = 2000, 3
	client := func(opts ...kgo.Opt) *kgo.Client {
		client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(a.cluster.Addrs()...), kgo.Dialer(a.cluster.Dial)}, opts...)...)
		require.NoError(t, err)
		return client
	}
	producer := client(kgo.DefaultProduceTopic("orders"))
	defer producer.Close()
	for i := range records {
		producer.Produce(ctx, kgo.StringRecord(fmt.Sprint(i)), nil)
	}
	require.NoError(t, producer.Flush(ctx))

	var got sync.WaitGroup
	got.Add(records)
	var working sync.WaitGroup
	until, stop := context.WithCancel(ctx)
	for range workers {
		worker := client(kgo.ConsumeTopics("orders"), kgo.ShareGroup("workers"))
		working.Go(func() {
			defer worker.Close()
			for until.Err() == nil {
				fetches := worker.PollFetches(until)
				got.Add(-len(fetches.Records()))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		got.Wait()
	}()
	const acquired = `kshare_share_partition_acquired_records_total{group="workers",partition="0",topic="orders"}`
	last := 0.0
	for scraping := true; scraping; {
		select {
		case <-done:
			scraping = false
		case <-ctx.Done():
			require.NoError(t, ctx.Err(), "not all records came")
		default:
		}
		m := a.samples("kafka_", "kshare_")
		require.GreaterOrEqual(t, m[acquired], last)
		last = m[acquired]
		require.Equal(t, last, m[`kshare_share_partition_delivery_count_count{group="workers",partition="0",topic="orders"}`])
	}
	stop()
	working.Wait()
	m := a.samples("kafka_", "kshare_")
	require.InDelta(t, records, m[acquired], 0)
	require.InDelta(t, records, m[`kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Accept"}`], 0)
	require.Zero(t, m["kafka_server_sharesessioncache_sharesessionscount"])
}

// pick is what has one of the names.
func pick(samples map[string]float64, names ...string) map[string]float64 {
	picked := map[string]float64{}
	for _, name := range names {
		if value, ok := samples[name]; ok {
			picked[name] = value
		}
	}
	return picked
}
