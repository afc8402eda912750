package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
)

// sizes is how much work the trials do.
type sizes struct {
	rounds    int // in which each trial is run once for each broker
	starts    int // of a process, and in process, a round
	smallMiB  int // of records of 100 B to produce
	largeMiB  int // of records of 1 KiB
	accepted  int // records that raw members accept, in thousands, as the following
	mixed     int
	clients   int   // records for franz-go's share consumers
	oneByOne  int   // records that are fetched and acknowledged one by one; no thousands, as the following
	held      int   // records that a member holds in ten partitions
	releases  int   // of the oldest of them
	inMemory  int   // records that a member holds where memory is measured
	expiries  int   // of locks
	durable   int   // acknowledgements of a member, each on disk
	single    int   // transactions of one record of a producer
	loops     int   // turns of a loop of consuming, producing and acknowledging
	ends      int   // of transactions in a share partition
	shares    []int // partitions that have their state in one place
	fewShares bool
}

var (
	fullSizes = sizes{rounds: 5, starts: 4, smallMiB: 256, largeMiB: 1024, accepted: 2000, mixed: 500, clients: 300, oneByOne: 4000,
		held: 10 * locksEach, releases: 1000, inMemory: 400_000, expiries: 40, durable: 250,
		single: 10_000, loops: 4000, ends: 1000, shares: []int{1, 100, 10_000}}
	quickSizes = sizes{rounds: 1, starts: 2, smallMiB: 16, largeMiB: 32, accepted: 50, mixed: 20, clients: 50, oneByOne: 100, held: 10_000, releases: 50, inMemory: 40_000, expiries: 3, durable: 20, fewShares: true,
		single: 100, loops: 50, ends: 20, shares: []int{1, 100}}
)

// measure is one thing that a trial finds.
type measure struct {
	name, unit string
	digits     int // behind the point
	target     *target
}

// target is what kshare is to reach.
type target struct {
	text string
	met  func(kshare, kfake float64) bool
}

// ofKfake is the target that kshare takes at most a part of what kfake takes.
func ofKfake(text string, part float64) *target {
	return &target{"at most " + text + " of kfake", func(k, f float64) bool { return k <= part*f }}
}

// trial is something that both brokers are made to do.
type trial struct {
	section  string
	name     string
	note     string // what is different between the brokers
	measures []measure
	alone    bool // kfake cannot do it
	// run does it once and returns a value for each measure.
	run func(ctx context.Context, b *broker) ([]float64, error)
	// derive, instead of run, takes the values of all rounds of a broker from the results of trials before it.
	derive func(before []*result, broker int) [][]float64
}

func trials(s *sizes) []trial {
	all := []trial{startTrial(s), inProcessTrial(s)}
	const request = 1 << 20 // bytes of a Produce request, about
	for _, size := range []int{100, 1024} {
		mib := s.smallMiB
		if size > 100 {
			mib = s.largeMiB
		}
		for _, partitions := range []int{1, 12} {
			l := load{partitions: partitions, records: (request - 4096) / (size + 12) / partitions, valueSize: size, requests: mib}
			all = append(all, produceTrial(l))
		}
	}
	members := []int{1, 4, 16}
	if s.fewShares {
		members = []int{1, 4}
	}
	for _, n := range members {
		all = append(all, drainTrial("accept", n, s.accepted*1000, func(int) settle { return accepting() }))
	}
	for _, n := range members {
		all = append(all, drainTrial("mixed", n, s.mixed*1000, func(i int) settle { return mixing(uint64(i)) }))
	}
	all = append(all, againstOneTrial(members[len(members)-1]))
	for _, strict := range []bool{false, true} {
		for _, n := range members {
			all = append(all, clientTrial(n, s.clients*1000, strict))
		}
	}
	for _, records := range []int{1, 1000} {
		all = append(all, oneByOneTrial(records, s.oneByOne))
	}
	all = append(all, oldestTrial(s), leaveTrial(s), memoryTrial(s), expiryTrial(s))
	for _, n := range []int{1, 8} {
		all = append(all, oneRecordTrial(n, s.single/n))
	}
	return append(all, loopTrial(s), endTrial(s), durableTrial(s))
}

func startTrial(s *sizes) trial {
	return trial{
		section: "Start",
		name:    "kshare serve",
		measures: []measure{
			{name: "exec to first Metadata answer", unit: "ms", digits: 2, target: &target{"at most kfake + 3 ms", func(k, f float64) bool { return k <= f+3 }}},
			{name: "resident memory then", unit: "MiB", digits: 1},
		},
		run: func(ctx context.Context, b *broker) ([]float64, error) {
			var took, memory []float64
			for range s.starts {
				ms, mib, err := startOnce(ctx, b)
				if err != nil {
					return nil, err
				}
				took, memory = append(took, ms), append(memory, mib)
			}
			return []float64{median(took), median(memory)}, nil
		},
	}
}

func startOnce(ctx context.Context, b *broker) (ms, mib float64, err error) {
	p, err := b.start(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer p.stop()
	c, err := dial(p.addr)
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	q := kmsg.NewPtrMetadataRequest()
	q.SetVersion(12)
	if err := c.request(q, kmsg.NewPtrMetadataResponse()); err != nil {
		return 0, 0, err
	}
	ms = float64(time.Since(p.begun).Microseconds()) / 1000
	mib, err = p.memory(rssNow)
	return ms, mib, err
}

// inProcessTrial starts both as packages: in the program that measures.
func inProcessTrial(s *sizes) trial {
	return trial{
		section:  "Start",
		name:     "package kshare: Start, in a process that has started one before",
		measures: []measure{{name: "until it returns", unit: "ms", digits: 3, target: &target{"at most 1 ms", func(k, _ float64) bool { return k <= 1 }}}},
		run: func(_ context.Context, b *broker) ([]float64, error) {
			start := func() (func(), error) {
				c, err := kfake.NewCluster(kfake.NumBrokers(1))
				return func() { c.Close() }, err
			}
			if b.name == "kshare" {
				start = func() (func(), error) {
					c, err := kshare.Start()
					return func() { c.Close() }, err
				}
			}
			var took []float64
			for i := range s.starts + 1 {
				begun := time.Now()
				end, err := start()
				if err != nil {
					return nil, err
				}
				if i > 0 {
					took = append(took, float64(time.Since(begun).Nanoseconds())/1e6)
				}
				end()
			}
			return []float64{median(took)}, nil
		},
	}
}

// withTopic runs f against a fresh broker that has a topic.
func withTopic(ctx context.Context, b *broker, partitions int, f func(p *process, c *conn, topic [16]byte) error) error {
	p, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer p.stop()
	c, err := dial(p.addr)
	if err != nil {
		return err
	}
	defer c.close()
	topic, err := c.createTopic(int32(partitions))
	if err != nil {
		return err
	}
	return f(p, c, topic)
}

// timed measures the time and the broker's CPU time that f takes.
func timed(p *process, f func() error) (took, cpu time.Duration, err error) {
	before, err := p.cpu()
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	if err := f(); err != nil {
		return 0, 0, err
	}
	took = time.Since(begun)
	after, err := p.cpu()
	return took, after - before, err
}

func produceTrial(l load) trial {
	const mega = 1e6
	size, part := "100 B", (*target)(nil)
	if l.valueSize > 100 {
		size, part = "1 KiB", ofKfake("1/2", 0.5)
	}
	return trial{
		section: "Produce and Fetch",
		name:    fmt.Sprintf("%s records, %s", size, plural(l.partitions, "partition")),
		measures: []measure{
			{name: "Produce", unit: "M records/s", digits: 2},
			{name: "Produce, broker CPU", unit: "us/record", digits: 3, target: part},
			{name: "peak memory / bytes of the batches", digits: 2, target: &target{"at most 1.15", func(k, _ float64) bool { return k <= 1.15 }}},
			{name: "Fetch", unit: "M records/s", digits: 2},
			{name: "Fetch, broker CPU", unit: "us/record", digits: 3},
		},
		run: func(ctx context.Context, b *broker) (found []float64, err error) {
			err = withTopic(ctx, b, l.partitions, func(p *process, c *conn, topic [16]byte) error {
				var bytes int
				took, cpu, err := timed(p, func() (err error) {
					bytes, err = c.produce(&l)
					return err
				})
				if err != nil {
					return err
				}
				peak, err := p.memory(rssPeak)
				if err != nil {
					return err
				}
				readTook, readCPU, err := timed(p, func() error { return c.fetchAll(topic, l.partitions, l.total()) })
				n := float64(l.total())
				found = []float64{
					n / took.Seconds() / mega, perRecord(cpu, l.total()), peak * (1 << 20) / float64(bytes),
					n / readTook.Seconds() / mega, perRecord(readCPU, l.total()),
				}
				return err
			})
			return found, err
		},
	}
}

// shareBatch is the number of records in a batch that share groups drain.
const shareBatch = 1000

// withRecords runs f against a fresh broker whose topic has records of 100 B in one partition, in batches of a size.
func withRecords(ctx context.Context, b *broker, records, batch int, f func(p *process, topic [16]byte) error) error {
	return withTopic(ctx, b, 1, func(p *process, c *conn, topic [16]byte) error {
		if _, err := c.produce(&load{partitions: 1, records: batch, valueSize: 100, requests: records / batch}); err != nil {
			return err
		}
		if err := c.readFromStart(groupName); err != nil {
			return err
		}
		return f(p, topic)
	})
}

const (
	rawSection = "Share groups, raw members"
	rawCPU     = 1 // the place of the broker's CPU among the measures
)

func drainName(kind string, members int) string {
	what := "all accepted"
	if kind == "mixed" {
		what = "80 of 100 accepted, 10 released, 10 rejected"
	}
	return fmt.Sprintf("%s, %s", what, plural(members, "member"))
}

func drainTrial(kind string, members, records int, how func(int) settle) trial {
	return trial{
		section: rawSection,
		name:    drainName(kind, members),
		measures: []measure{
			{name: "drain", unit: "M records/s", digits: 2},
			rawCPU: {name: "broker CPU", unit: "us/record", digits: 3, target: ofKfake("1/3", 1.0/3)},
			{name: "of it, outside of the kernel", unit: "us/record", digits: 3},
			{name: "empty fetches", digits: 0, target: &target{fmt.Sprintf("at most %d", members), func(k, _ float64) bool { return k <= float64(members) }}},
			{name: "of them, answered before MaxWaitMs", digits: 0, target: &target{"none", func(k, _ float64) bool { return k == 0 }}},
		},
		run: func(ctx context.Context, b *broker) (found []float64, err error) {
			err = withRecords(ctx, b, records, shareBatch, func(p *process, topic [16]byte) error {
				d, err := drain(ctx, p, topic, members, records, how)
				if err != nil {
					return err
				}
				found = []float64{d.rate(), d.cpuPerRecord(), perRecord(d.user, records), float64(d.empty), float64(d.early)}
				return nil
			})
			return found, err
		},
	}
}

// againstOneTrial compares the mixed drain of many members with that of one, round by round.
func againstOneTrial(members int) trial {
	return trial{
		section: rawSection,
		name:    fmt.Sprintf("%s, against 1 member", drainName("mixed", members)),
		measures: []measure{
			{name: fmt.Sprintf("broker CPU with %d / with 1", members), digits: 2, target: &target{"at most 3", func(k, _ float64) bool { return k <= 3 }}},
		},
		derive: func(before []*result, broker int) (found [][]float64) {
			of := func(n int) [][]float64 {
				for _, r := range before {
					if r.trial.section == rawSection && r.trial.name == drainName("mixed", n) {
						return r.values[broker]
					}
				}
				return nil
			}
			one, many := of(1), of(members)
			for i := range min(len(one), len(many)) {
				found = append(found, []float64{many[i][rawCPU] / one[i][rawCPU]})
			}
			return found
		},
	}
}

func clientTrial(members, records int, strict bool) trial {
	t := trial{
		section: "Share groups, franz-go's consumer",
		name:    fmt.Sprintf("batch_optimized, %s", plural(members, "member")),
		note:    "kfake has record_limit only and answers with it. Two such batches are all that a group may hold: with more members they wait for each other's acknowledgements.",
		measures: []measure{
			{name: "drain", unit: "M records/s", digits: 2},
			{name: "broker CPU", unit: "us/record", digits: 3, target: ofKfake("1/10", 0.1)},
		},
	}
	if strict {
		t.name, t.note = fmt.Sprintf("record_limit, %s", plural(members, "member")), ""
		t.measures[1].target = ofKfake("1/2", 0.5)
	}
	const batch = 9000 // records of 100 B: what a producer with default settings puts into a batch under load
	t.run = func(ctx context.Context, b *broker) (found []float64, err error) {
		records := records / batch * batch
		err = withRecords(ctx, b, records, batch, func(p *process, _ [16]byte) error {
			d, err := drainWithClients(ctx, p, members, records, strict)
			if err != nil {
				return err
			}
			found = []float64{d.rate(), d.cpuPerRecord()}
			return nil
		})
		return found, err
	}
	return t
}

func oneByOneTrial(batch, records int) trial {
	name, cpu := "in batches of 1", ofKfake("0.4", 0.4)
	if batch > 1 {
		name, cpu = fmt.Sprintf("out of batches of %d", batch), ofKfake("1/3", 1.0/3)
		records = max(records/batch, 1) * batch
	}
	return trial{
		section: "One record at a time: ShareFetch, then ShareAcknowledge",
		name:    name,
		measures: []measure{
			{name: "ShareFetch, p50", unit: "us", digits: 1},
			{name: "ShareFetch, p99", unit: "us", digits: 1},
			{name: "ShareAcknowledge, p50", unit: "us", digits: 1},
			{name: "ShareAcknowledge, p99", unit: "us", digits: 1},
			{name: "both, broker CPU", unit: "us", digits: 1, target: cpu},
		},
		run: func(ctx context.Context, b *broker) (found []float64, err error) {
			err = withRecords(ctx, b, records, batch, func(p *process, topic [16]byte) error {
				m, err := join(ctx, p.addr, 0, topic)
				if err != nil {
					return err
				}
				defer m.close()
				var fetches, acks []float64
				_, cpu, err := timed(p, func() error {
					fetches, acks, err = m.oneByOne(records)
					return err
				})
				found = []float64{
					quantile(fetches, 0.5), quantile(fetches, 0.99), quantile(acks, 0.5), quantile(acks, 0.99), perRecord(cpu, records),
				}
				return err
			})
			return found, err
		},
	}
}

// oneByOne fetches and acknowledges records and returns how long each request took, in us.
func (m *member) oneByOne(records int) (fetches, acks []float64, err error) {
	for range records {
		begun := time.Now()
		got, err := m.fetch(1, time.Second, nil)
		fetched := time.Now()
		if err != nil {
			return nil, nil, err
		}
		if len(got) != 1 || got[0].FirstOffset != got[0].LastOffset {
			return nil, nil, errors.New("ShareFetch of one record did not give one")
		}
		if err := m.acknowledge(got[0]); err != nil {
			return nil, nil, err
		}
		fetches = append(fetches, float64(fetched.Sub(begun).Nanoseconds())/1000)
		acks = append(acks, float64(time.Since(fetched).Nanoseconds())/1000)
	}
	return fetches, acks, nil
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// quantile is the value below which a part of the values lies.
func quantile(values []float64, part float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

// median is the value in the middle, or between the two that are.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
