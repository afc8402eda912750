package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is what the rounds of a trial found.
type result struct {
	trial  *trial
	values [2][][]float64 // by broker, round and measure
}

// of are the values of one measure, sorted.
func (r *result) of(broker, measure int) []float64 {
	var all []float64
	for _, round := range r.values[broker] {
		all = append(all, round[measure])
	}
	slices.Sort(all)
	return all
}

// line is one measure as text.
type line struct{ name, kshare, kfake, ratio, target, met string }

func (r *result) lines() []line {
	var lines []line
	for i, m := range r.trial.measures {
		k, f := r.of(kshareBroker, i), r.of(kfakeBroker, i)
		l := line{name: m.name, kshare: m.text(k), kfake: m.text(f)}
		if m.unit != "" {
			l.name += ", " + m.unit
		}
		if len(f) > 0 && median(f) > 0 {
			l.ratio = fmt.Sprintf("%.2f", median(k)/median(f))
		}
		if m.target != nil && (len(f) > 0 || r.trial.alone) {
			l.target, l.met = m.target.text, "no"
			if m.target.met(median(k), median(f)) { // without kfake its median is 0, and the target asks for no more than kshare's
				l.met = "yes"
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// text is the median of sorted values and, in brackets, the least and the largest.
func (m *measure) text(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	t := fmt.Sprintf("%.*f", m.digits, median(values))
	if len(values) > 1 {
		t += fmt.Sprintf(" [%.*f - %.*f]", m.digits, values[0], m.digits, values[len(values)-1])
	}
	return t
}

// print writes a result for people to watch.
func (r *result) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", r.trial.section, r.trial.name)
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range r.lines() {
		fmt.Fprintf(tabs, "  %s\tkshare %s\tkfake %s\tratio %s\t%s\t%s\n", l.name, l.kshare, l.kfake, l.ratio, l.target, l.met)
	}
	tabs.Flush()
}

// writePage writes all results as a page of documentation.
func writePage(name string, results []*result, s *sizes) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Benchmarks

kshare beside kfake (franz-go's fake Kafka), as `+"`make bench`"+` measured them. The command writes this page.

Each broker is a process of its own, started anew for each run, and does the same work for the same load generator over
loopback connections; the two take turns. A value is the median of %s, with the least and the largest in brackets.
Look at the ratios: the absolute values are this machine's, and the load generator shares its cores. CPU is the CPU
time of the broker's process, all threads, user and system. Peak memory is what was resident at most.

- %s
- kfake %s, built with the same Go and flags
- Produce: requests of about 1 MiB, one uncompressed batch for each partition, %d of them on their way at once. Fetch: one consumer with a client's default limits.
- Raw members: hand-made frames, records of 100 B in one partition, in batches of %d; up to %d records a ShareFetch in
  record_limit mode, with the acknowledgements of the fetch before. A member ends when all is settled and %d ms brought nothing.
- franz-go's consumer: its defaults, batches of 9000 records of 100 B.
- Transactions: hand-made frames, of Produce v13 and EndTxn v5 (KIP-890), one after the other on each producer's connection.
- Many records in flight: up to %d of a partition, the largest group.share.partition.max.record.locks that Kafka takes.
`, plural(s.rounds, "run"), machine(), moduleVersion("github.com/twmb/franz-go/pkg/kfake"), inFlight, shareBatch, drainRecords, drainWait.Milliseconds(), locksEach)
	section := ""
	for _, r := range results {
		if r.trial.section != section {
			section = r.trial.section
			fmt.Fprintf(&b, "\n## %s\n\n| | kshare | kfake | kshare / kfake | target | met |\n|---|---|---|---|---|---|\n", section)
		}
		title := "**" + r.trial.name + "**"
		if r.trial.note != "" {
			title += ". " + r.trial.note
		}
		fmt.Fprintf(&b, "| %s | | | | | |\n", title)
		for _, l := range r.lines() {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", l.name, l.kshare, l.kfake, l.ratio, l.target, l.met)
		}
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// machine says what the brokers ran on.
func machine() string {
	model := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for l := range strings.Lines(string(info)) {
			if key, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d x %s, %s, %s/%s", runtime.NumCPU(), model, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// moduleVersion is the version of a module that this program was built with.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "of unknown version"
}
