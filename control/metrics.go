package control

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kshare"
	"kshare/sharepartition"
)

// metricsPath is where Prometheus finds the metrics.
const metricsPath = "/metrics"

// metric is a family of metrics. Kafka's metrics have the names that the rules for Kafka of Prometheus' JMX exporter make of its MBeans; those that Kafka
// does not have begin with kshare.
type metric struct {
	name   string
	help   string
	kind   prometheus.ValueType // of all but histograms
	labels []string
	emit   func(m *kshare.Metrics, e *emitter)
}

// Labels of what is measured of a share partition.
var (
	ofPartition        = []string{"group", "topic", "partition"}
	ofPartitionAndType = []string{"group", "topic", "partition", "ackType"}
)

// acknowledgeTypes are the values of the label ackType.
var acknowledgeTypes = map[int8]string{
	sharepartition.TypeAccept: "Accept", sharepartition.TypeRelease: "Release", sharepartition.TypeReject: "Reject", sharepartition.TypeRenew: "Renew",
}

// metrics are all that is served, in the order of docs/control.md.
var metrics = []metric{
	{"kafka_server_sharegroupmetrics_recordacknowledgements_total", "records acknowledged, by type", prometheus.CounterValue, []string{"ackType"},
		func(m *kshare.Metrics, e *emitter) {
			for t, name := range acknowledgeTypes {
				e.add(float64(m.Acknowledged[t]), name)
			}
		}},
	{"kafka_server_sharegroupmetrics_deadletterqueuerecordcount_count", "records written to the group's dead-letter queue", prometheus.CounterValue, []string{"group"},
		eachQueue(func(d kshare.DeadLetterCounters) int64 { return d.Records })},
	{"kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests_total", "attempts to write a batch to the group's dead-letter queue", prometheus.CounterValue, []string{"group"},
		eachQueue(func(d kshare.DeadLetterCounters) int64 { return d.Produces })},
	{"kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total", "batches that could not be written to the group's dead-letter queue", prometheus.CounterValue, []string{"group"},
		eachQueue(func(d kshare.DeadLetterCounters) int64 { return d.FailedProduces })},
	{"kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total", "records whose acquisition lock ended by itself", prometheus.CounterValue, ofPartition,
		eachPartition(func(p *kshare.SharePartitionMetrics) float64 { return float64(p.LockTimeouts) })},
	{"kafka_server_sharepartitionmetrics_inflightmessagecount", "offsets in flight: all that count against share.partition.max.record.locks", prometheus.GaugeValue, ofPartition,
		eachKnown(func(p *kshare.SharePartitionMetrics) float64 { return float64(p.InFlight) })},
	{"kafka_server_sharepartitionmetrics_inflightbatchcount", "batches in flight", prometheus.GaugeValue, ofPartition,
		eachKnown(func(p *kshare.SharePartitionMetrics) float64 { return float64(p.InFlightBatches) })},
	{"kafka_server_sharepartitionmetrics_inflightbatchmessagecount", "histogram of the records of a batch when it comes to be in flight", 0, ofPartition,
		func(m *kshare.Metrics, e *emitter) {
			for i := range m.SharePartitions {
				p := &m.SharePartitions[i]
				counts := p.Batches.Count[:]
				e.histogram(counts[:len(counts)-1], func(i int) float64 { return float64(int64(1) << i) }, counts[len(counts)-1], float64(p.Batches.Records), labelsOf(p)...)
			}
		}},
	{"kafka_server_sharesessioncache_sharesessionscount", "share sessions", prometheus.GaugeValue, nil,
		func(m *kshare.Metrics, e *emitter) { e.add(float64(m.ShareSessions)) }},
	{"kafka_server_sharesessioncache_sharepartitionscount", "partitions of all share sessions together", prometheus.GaugeValue, nil,
		func(m *kshare.Metrics, e *emitter) { e.add(float64(m.ShareSessionPartitions)) }},
	{"kafka_server_sharesessioncache_sharesessionevictions_total", "share sessions that ended because their connection did", prometheus.CounterValue, nil,
		func(m *kshare.Metrics, e *emitter) { e.add(float64(m.ShareSessionEvictions)) }},
	{"kafka_server_delayedsharefetchmetrics_expires_total", "ShareFetch requests that found nothing until MaxWaitMs had passed", prometheus.CounterValue, nil,
		func(m *kshare.Metrics, e *emitter) { e.add(float64(m.ExpiredShareFetches)) }},
	{"kafka_server_delayedoperationpurgatory_numdelayedoperations", "ShareFetch requests that wait for records", prometheus.GaugeValue, []string{"delayedOperation"},
		func(m *kshare.Metrics, e *emitter) { e.add(float64(m.WaitingShareFetches), "ShareFetch") }},
	{"kafka_server_share_coordinator_metrics_write_total", "calls of the share coordinator that write state", prometheus.CounterValue, nil,
		func(m *kshare.Metrics, e *emitter) { e.add(float64(m.ShareStateWrites)) }},
	{"kafka_server_share_coordinator_metrics_num_partitions", "partitions of __share_group_state that a share coordinator has read, is reading, or cannot read", prometheus.GaugeValue, []string{"state"},
		func(m *kshare.Metrics, e *emitter) {
			active, loading, failed := 0, 0, 0
			for _, p := range m.ShareStatePartitions {
				switch {
				case p.Led && p.Failed:
					failed++
				case p.Led && p.Loading:
					loading++
				case p.Led:
					active++
				}
			}
			e.add(float64(active), "active")
			e.add(float64(loading), "loading")
			e.add(float64(failed), "failed")
		}},
	{"kafka_server_share_coordinator_metrics_last_pruned_offset", "offset below which a partition of __share_group_state was pruned", prometheus.GaugeValue, []string{"topic", "partition"},
		func(m *kshare.Metrics, e *emitter) {
			for _, p := range m.ShareStatePartitions {
				if p.PrunedTo > 0 {
					e.add(float64(p.PrunedTo), "__share_group_state", strconv.Itoa(int(p.Partition)))
				}
			}
		}},
	{"kafka_server_group_coordinator_metrics_group_count", "groups, by protocol", prometheus.GaugeValue, []string{"protocol"},
		func(m *kshare.Metrics, e *emitter) {
			for _, protocol := range []string{"classic", "consumer", "share"} {
				n := 0
				for g, more := range m.Groups {
					if g.Type == protocol {
						n += more
					}
				}
				e.add(float64(n), protocol)
			}
		}},
	{"kafka_server_group_coordinator_metrics_share_group_count", "share groups, by state", prometheus.GaugeValue, []string{"state"},
		func(m *kshare.Metrics, e *emitter) {
			for _, state := range []string{"Dead", "Empty", "Stable"} {
				e.add(float64(m.Groups[kshare.GroupCount{Type: "share", State: state}]), state)
			}
		}},
	{"kafka_server_group_coordinator_metrics_share_group_rebalance_count", "heartbeats that began a new epoch of a share group", prometheus.CounterValue, nil,
		func(m *kshare.Metrics, e *emitter) { e.add(float64(m.ShareGroupRebalances)) }},

	{"kshare_share_partition_acquired_records_total", "records acquired", prometheus.CounterValue, ofPartition,
		eachPartition(func(p *kshare.SharePartitionMetrics) float64 {
			n := int64(0)
			for _, more := range p.Acquired {
				n += more
			}
			return float64(n)
		})},
	{"kshare_share_partition_delivery_count", "histogram of the delivery counts that records were acquired with", 0, ofPartition,
		func(m *kshare.Metrics, e *emitter) {
			for i := range m.SharePartitions {
				p := &m.SharePartitions[i]
				sum := int64(0)
				for count, n := range p.Acquired {
					sum += int64(count) * n
				}
				e.histogram(p.Acquired[1:], func(i int) float64 { return float64(i + 1) }, 0, float64(sum), labelsOf(p)...)
			}
		}},
	{"kshare_share_partition_acknowledged_records_total", "records acknowledged, by type", prometheus.CounterValue, ofPartitionAndType,
		func(m *kshare.Metrics, e *emitter) {
			for i := range m.SharePartitions {
				for t, name := range acknowledgeTypes {
					e.add(float64(m.SharePartitions[i].Acknowledged[t]), append(labelsOf(&m.SharePartitions[i]), name)...)
				}
			}
		}},
	{"kshare_share_partition_start_offset", "start offset, as the leader knows it", prometheus.GaugeValue, ofPartition,
		eachKnown(func(p *kshare.SharePartitionMetrics) float64 { return float64(p.StartOffset) })},
	{"kshare_share_partition_start_offset_lag", "offsets from the start offset to the high watermark", prometheus.GaugeValue, ofPartition,
		eachKnown(func(p *kshare.SharePartitionMetrics) float64 { return float64(p.StartOffsetLag) })},
	{"kshare_share_partition_staged_records", "records whose acknowledgements wait for the end of transactions (KIP-1289)", prometheus.GaugeValue, ofPartition,
		eachPartition(func(p *kshare.SharePartitionMetrics) float64 { return float64(p.Staged) })},
	{"kshare_open_transactions", "transactions that are not complete, by whether they have a timeout", prometheus.GaugeValue, []string{"timeout"},
		func(m *kshare.Metrics, e *emitter) {
			n := map[string]int{"yes": 0, "none": 0}
			for i := range m.OpenTransactions {
				n[timeoutLabel(&m.OpenTransactions[i])]++
			}
			for timeout, n := range n {
				e.add(float64(n), timeout)
			}
		}},
	{"kshare_oldest_open_transaction_seconds", "how long the transaction lasts that began first of those that are not complete, by whether they have a timeout", prometheus.GaugeValue, []string{"timeout"},
		func(m *kshare.Metrics, e *emitter) {
			oldest := map[string]time.Duration{"yes": 0, "none": 0}
			for i := range m.OpenTransactions {
				if t := &m.OpenTransactions[i]; !t.Began.IsZero() {
					label := timeoutLabel(t)
					oldest[label] = max(oldest[label], m.At.Sub(t.Began))
				}
			}
			for timeout, d := range oldest {
				e.add(d.Seconds(), timeout)
			}
		}},
	{"kshare_share_partition_lag", "records that the group has yet to finish, as DescribeShareGroupOffsets says", prometheus.GaugeValue, ofPartition,
		func(m *kshare.Metrics, e *emitter) {
			for i := range m.SharePartitions {
				if p := &m.SharePartitions[i]; p.Lag >= 0 {
					e.add(float64(p.Lag), labelsOf(p)...)
				}
			}
		}},
}

// timeoutLabel tells whether a transaction has a timeout.
func timeoutLabel(t *kshare.OpenTransaction) string {
	if t.Timeout == 0 {
		return "none"
	}
	return "yes"
}

// eachQueue emits a value for each group that has dead letters.
func eachQueue(value func(kshare.DeadLetterCounters) int64) func(*kshare.Metrics, *emitter) {
	return func(m *kshare.Metrics, e *emitter) {
		for group, d := range m.DeadLetters {
			e.add(float64(value(d)), strings.ToValidUTF8(group, "\uFFFD"))
		}
	}
}

// eachPartition emits a value for each share partition.
func eachPartition(value func(*kshare.SharePartitionMetrics) float64) func(*kshare.Metrics, *emitter) {
	return func(m *kshare.Metrics, e *emitter) {
		for i := range m.SharePartitions {
			e.add(value(&m.SharePartitions[i]), labelsOf(&m.SharePartitions[i])...)
		}
	}
}

// eachKnown emits a value for each share partition that its leader knows.
func eachKnown(value func(*kshare.SharePartitionMetrics) float64) func(*kshare.Metrics, *emitter) {
	return func(m *kshare.Metrics, e *emitter) {
		for i := range m.SharePartitions {
			if p := &m.SharePartitions[i]; p.Known {
				e.add(value(p), labelsOf(p)...)
			}
		}
	}
}

// labelsOf are the values of ofPartition. A group has a name that is no text where somebody has written it into __share_group_state.
func labelsOf(p *kshare.SharePartitionMetrics) []string {
	return []string{strings.ToValidUTF8(p.Group, "\uFFFD"), p.Topic, strconv.Itoa(int(p.Partition))}
}

// emitter makes the metrics of one family.
type emitter struct {
	family *metric
	desc   *prometheus.Desc
	out    chan<- prometheus.Metric
}

func (e *emitter) add(value float64, labels ...string) {
	e.send(prometheus.NewConstMetric(e.desc, e.family.kind, value, labels...))
}

// histogram makes a histogram of what was counted up to each bound, and beyond the last.
func (e *emitter) histogram(counts []int64, bound func(int) float64, beyond int64, sum float64, labels ...string) {
	buckets := map[float64]uint64{}
	n := uint64(0)
	for i, more := range counts {
		n += uint64(more)
		buckets[bound(i)] = n
	}
	e.send(prometheus.NewConstHistogram(e.desc, n+uint64(beyond), sum, buckets, labels...))
}

func (e *emitter) send(m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(e.desc, err)
	}
	e.out <- m
}

// collector reads the metrics of a cluster, all at one moment.
type collector struct {
	cluster *kshare.Cluster
	descs   []*prometheus.Desc // of metrics
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	m := c.cluster.InspectMetrics()
	for i := range metrics {
		metrics[i].emit(m, &emitter{&metrics[i], c.descs[i], out})
	}
}

// metricsHandler answers Prometheus.
func metricsHandler(cluster *kshare.Cluster) http.Handler {
	c := &collector{cluster: cluster}
	for i := range metrics {
		c.descs = append(c.descs, prometheus.NewDesc(metrics[i].name, metrics[i].help, metrics[i].labels, nil))
	}
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}
