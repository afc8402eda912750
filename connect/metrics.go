package connect

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Rates and averages are over the last two windows, as with Kafka's metrics.sample.window.ms and metrics.num.samples.
const (
	sampleWindow = 30 * time.Second
	samples      = 2
)

// sample is what was recorded in a window.
type sample struct {
	began           time.Time
	count, sum, max float64
}

// sensor records values, in total and lately.
type sensor struct {
	count, sum float64
	lately     []sample // the newest last
}

func (s *sensor) record(now time.Time, v float64) {
	s.count++
	s.sum += v
	s.purge(now)
	if n := len(s.lately); n == 0 || now.Sub(s.lately[n-1].began) >= sampleWindow {
		s.lately = append(s.lately, sample{began: now})
		s.lately = s.lately[max(0, len(s.lately)-samples):]
	}
	last := &s.lately[len(s.lately)-1]
	last.count++
	last.sum += v
	last.max = max(last.max, v)
}

// purge forgets what is older than all windows together.
func (s *sensor) purge(now time.Time) {
	for len(s.lately) > 0 && now.Sub(s.lately[0].began) >= samples*sampleWindow {
		s.lately = s.lately[1:]
	}
}

// rate is what was recorded for each second: over one full window at least, as in Kafka.
func (s *sensor) rate(now time.Time) float64 {
	s.purge(now)
	if len(s.lately) == 0 {
		return 0
	}
	sum := 0.0
	for _, l := range s.lately {
		sum += l.sum
	}
	return sum / max(now.Sub(s.lately[0].began), sampleWindow).Seconds()
}

func (s *sensor) avgMax(now time.Time) (avg, most float64) {
	s.purge(now)
	n, sum := 0.0, 0.0
	for _, l := range s.lately {
		n, sum, most = n+l.count, sum+l.sum, max(most, l.max)
	}
	if n > 0 {
		avg = sum / n
	}
	return avg, most
}

// taskMetrics are a task's metrics of the group sink-task-metrics.
type taskMetrics struct {
	share bool

	mu                                                       sync.Mutex
	read, send, putTime, active                              sensor // of both kinds
	acquire, acknowledge, release, reject, took, redelivered sensor // of share groups
	completed, skipped                                       sensor // of consumer groups: commits
	activeNow, partitions, sequence                          int
}

// note records v unless it is 0.
func (m *taskMetrics) note(s *sensor, v int) {
	if v == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.record(time.Now(), float64(v))
}

func (m *taskMetrics) noteTime(s *sensor, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.record(time.Now(), float64(d)/float64(time.Millisecond))
}

// hold counts records that have been read and are not done with.
func (m *taskMetrics) hold(change int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.activeNow += change
	m.active.record(time.Now(), float64(m.activeNow))
}

// assigned counts the partitions of a task in a consumer group.
func (m *taskMetrics) assigned(change int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.partitions += change
}

// attribute is a metric of a task by Kafka's name.
type attribute struct {
	name, help string
	counts     bool
	group      string // "" for all tasks, share or consumer
	value      func(m *taskMetrics, now time.Time) float64
}

// rateAndTotal are the two metrics that Kafka makes of such a sensor.
func rateAndTotal(name, of, group string, pick func(*taskMetrics) *sensor) []attribute {
	return []attribute{
		{name + "-rate", of + ", for each second of the last minute at most", false, group, func(m *taskMetrics, now time.Time) float64 { return pick(m).rate(now) }},
		{name + "-total", of, true, group, func(m *taskMetrics, _ time.Time) float64 { return pick(m).sum }},
	}
}

// attributes are all, in the order of docs/kip-1302.md.
var attributes = func() (all []attribute) {
	add := func(more ...attribute) { all = append(all, more...) }
	add(rateAndTotal("sink-record-read", "records read, before transformations", "", func(m *taskMetrics) *sensor { return &m.read })...)
	add(rateAndTotal("sink-record-send", "records put, after transformations", "", func(m *taskMetrics) *sensor { return &m.send })...)
	add(
		attribute{"sink-record-active-count", "records read and not done with", false, "", func(m *taskMetrics, _ time.Time) float64 { return float64(m.activeNow) }},
		attribute{"sink-record-active-count-avg", "the same, on average of the last minute", false, "", func(m *taskMetrics, now time.Time) float64 { a, _ := m.active.avgMax(now); return a }},
		attribute{"sink-record-active-count-max", "the same, at most in the last minute", false, "", func(m *taskMetrics, now time.Time) float64 { _, x := m.active.avgMax(now); return x }},
		attribute{"put-batch-avg-time-ms", "time that a put takes, on average", false, "", func(m *taskMetrics, now time.Time) float64 { a, _ := m.putTime.avgMax(now); return a }},
		attribute{"put-batch-max-time-ms", "time that a put takes, at most", false, "", func(m *taskMetrics, now time.Time) float64 { _, x := m.putTime.avgMax(now); return x }},
	)
	add(rateAndTotal("sink-record-acquire", "records acquired from the share group", shareProtocol, func(m *taskMetrics) *sensor { return &m.acquire })...)
	add(rateAndTotal("sink-record-acknowledge", "records accepted", shareProtocol, func(m *taskMetrics) *sensor { return &m.acknowledge })...)
	add(rateAndTotal("sink-record-release", "records released, to be delivered again", shareProtocol, func(m *taskMetrics) *sensor { return &m.release })...)
	add(rateAndTotal("sink-record-reject", "records rejected", shareProtocol, func(m *taskMetrics) *sensor { return &m.reject })...)
	add(
		attribute{"acknowledge-time-avg", "ms from poll to acknowledgement of a poll's records, on average", false, shareProtocol, func(m *taskMetrics, now time.Time) float64 { a, _ := m.took.avgMax(now); return a }},
		attribute{"acknowledge-time-max", "the same, at most", false, shareProtocol, func(m *taskMetrics, now time.Time) float64 { _, x := m.took.avgMax(now); return x }},
		attribute{"sink-record-redelivery-total", "records acquired that had been delivered before", true, shareProtocol, func(m *taskMetrics, _ time.Time) float64 { return m.redelivered.sum }},
		attribute{"partition-count", "partitions assigned", false, consumerProtocol, func(m *taskMetrics, _ time.Time) float64 { return float64(m.partitions) }},
		attribute{"offset-commit-seq-no", "number of the last commit of offsets", false, consumerProtocol, func(m *taskMetrics, _ time.Time) float64 { return float64(m.sequence) }},
	)
	add(rateAndTotal("offset-commit-completion", "commits of offsets that succeeded", consumerProtocol, func(m *taskMetrics) *sensor { return &m.completed })...)
	add(rateAndTotal("offset-commit-skip", "commits of offsets that failed", consumerProtocol, func(m *taskMetrics) *sensor { return &m.skipped })...)
	return all
}()

// isOf tells whether tasks of a kind have a metric: what means nothing for them is not registered.
func (a attribute) isOf(share bool) bool { return a.group == "" || (a.group == shareProtocol) == share }

// metricsPrefix is what the JMX exporter's rules make of kafka.connect:type=sink-task-metrics.
const metricsPrefix = "kafka_connect_sink_task_metrics_"

// desc is how Prometheus knows a metric.
func (a attribute) desc() *prometheus.Desc {
	return prometheus.NewDesc(metricsPrefix+strings.ReplaceAll(a.name, "-", "_"), a.help, []string{"connector", "task"}, nil)
}

// Describe sends nothing: which metrics there are depends on the connectors. It is prometheus.Collector's.
func (w *Worker) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of all tasks. It is prometheus.Collector's.
func (w *Worker) Collect(to chan<- prometheus.Metric) {
	now := time.Now()
	for _, c := range w.all() {
		for _, t := range c.current() {
			m := t.metrics
			m.mu.Lock()
			for _, a := range attributes {
				if !a.isOf(m.share) {
					continue
				}
				kind := prometheus.GaugeValue
				if a.counts {
					kind = prometheus.CounterValue
				}
				to <- prometheus.MustNewConstMetric(a.desc(), kind, a.value(m, now), c.name, strconv.Itoa(t.id))
			}
			m.mu.Unlock()
		}
	}
}
