package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
)

const (
	// locksEach is how many records of a partition a group may hold at most: the largest group.share.partition.max.record.locks there is.
	locksEach = 10_000
	// smallBatch is the number of records in a batch where many are held: they are of 10 B, so that a fetch of one record is a small answer.
	smallBatch = 100
	smallValue = 10 // bytes
)

// flat is the target that what takes its time at the most records takes little more than at the fewest.
var flat = &target{"at most 1.5", func(k, _ float64) bool { return k <= 1.5 }}

// withHolder runs f with a member that has joined a group on a fresh broker whose topic has so many records in each partition.
func withHolder(ctx context.Context, b *broker, partitions, each int, f func(p *process, c *conn, m *member) error) error {
	return withTopic(ctx, b, partitions, func(p *process, c *conn, topic [16]byte) error {
		if _, err := c.produce(&load{partitions: partitions, records: smallBatch, valueSize: smallValue, requests: each / smallBatch}); err != nil {
			return err
		}
		if err := c.readFromStart(groupName); err != nil {
			return err
		}
		m, err := join(ctx, p.addr, 0, topic)
		if err != nil {
			return err
		}
		defer m.close()
		return f(p, c, m)
	})
}

// hold acquires records of a partition, which it adds to the session, until the member holds so many more.
func (m *member) hold(partition int32, records int) error {
	const atOnce = 2000
	for records > 0 {
		got, err := m.take(partition, int32(min(records, atOnce)), recordLimit)
		if err != nil {
			return err
		}
		if len(got) == 0 {
			return fmt.Errorf("partition %d: no records to hold, %d missing", partition, records)
		}
		for _, r := range got {
			records -= int(r.LastOffset - r.FirstOffset + 1)
		}
	}
	return nil
}

// oldestTrial releases one of the oldest records and fetches it back, with more and more others in flight.
func oldestTrial(s *sizes) trial {
	const share = 10 // of the most that are held there are in one partition
	t := trial{
		section: "Share groups, many records in flight",
		name:    "one of the oldest is released and fetched back",
		note:    fmt.Sprintf("Up to %d in one partition, the last of them in %d partitions.", s.held/share, share),
	}
	stages := []int{s.held / 100, s.held / share, s.held}
	for _, n := range stages {
		t.measures = append(t.measures, measure{name: fmt.Sprintf("with %d in flight, p50", n), unit: "us", digits: 1}, measure{name: fmt.Sprintf("with %d in flight, broker CPU", n), unit: "us", digits: 1})
	}
	t.measures = append(t.measures, measure{name: fmt.Sprintf("CPU with %d / with %d", stages[2], stages[0]), digits: 2, target: flat})
	t.run = func(ctx context.Context, b *broker) (found []float64, err error) {
		each := s.held / share
		err = withHolder(ctx, b, share, each, func(p *process, _ *conn, m *member) error {
			held := 0
			for _, n := range stages {
				for held < n {
					more := min(n-held, each-held%each)
					if err := m.hold(int32(held/each), more); err != nil {
						return err
					}
					held += more
				}
				var took []float64
				_, cpu, err := timed(p, func() (err error) {
					took, err = m.releaseOldest(s.releases)
					return err
				})
				if err != nil {
					return err
				}
				found = append(found, quantile(took, 0.5), perRecord(cpu, s.releases))
			}
			found = append(found, found[5]/found[1])
			return nil
		})
		return found, err
	}
	return t
}

// releaseOldest releases each of the oldest n records once and fetches it back. It returns how long each took, in us.
func (m *member) releaseOldest(n int) (took []float64, err error) {
	for offset := range int64(n) {
		begun := time.Now()
		if err := m.settle(0, release, offset, offset); err != nil {
			return nil, err
		}
		got, err := m.take(0, 1, recordLimit)
		if err != nil {
			return nil, err
		}
		if len(got) != 1 || got[0].FirstOffset != offset || got[0].LastOffset != offset {
			return nil, fmt.Errorf("the record at %d was released, and %d ranges fetched that are not it", offset, len(got))
		}
		took = append(took, float64(time.Since(begun).Nanoseconds())/1000)
	}
	return took, nil
}

// leaveTrial asks for the state of a group that holds many records, and then its member leaves, which releases them all.
func leaveTrial(s *sizes) trial {
	const partitions = 10
	wait := func(what string) measure {
		return measure{name: "longest wait of another client while " + what, unit: "ms", digits: 2}
	}
	return trial{
		section: "Share groups, many records in flight",
		name:    fmt.Sprintf("%d in %d partitions: describing the group, leaving it", s.held, partitions),
		note:    "The other client asks for the Metadata of the topic all the time.",
		measures: []measure{
			{name: "DescribeShareGroupOffsets, p50", unit: "us", digits: 1},
			{name: "DescribeShareGroupOffsets, broker CPU with the other client's requests", unit: "us", digits: 1},
			wait("offsets are described"),
			{name: "ShareGroupDescribe, p50", unit: "us", digits: 1},
			{name: "the last ShareAcknowledge, which releases all", unit: "us", digits: 1},
			wait("all are released"),
		},
		run: func(ctx context.Context, b *broker) (found []float64, err error) {
			each := s.held / partitions
			err = withHolder(ctx, b, partitions, each, func(p *process, c *conn, m *member) error {
				for i := range int32(partitions) {
					if err := m.hold(i, each); err != nil {
						return err
					}
				}
				const times = 50
				ask := func(q kmsg.Request, times int) (p50 float64, err error) {
					var took []float64
					for range times {
						begun := time.Now()
						if err := c.request(q, q.ResponseKind()); err != nil {
							return 0, err
						}
						took = append(took, float64(time.Since(begun).Nanoseconds())/1000)
					}
					return quantile(took, 0.5), nil
				}
				offsets := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
				offsets.Groups = []kmsg.DescribeShareGroupOffsetsRequestGroup{{GroupID: groupName}}
				describe := kmsg.NewPtrShareGroupDescribeRequest()
				describe.SetVersion(1)
				describe.GroupIDs = []string{groupName}
				var described, groups, left float64
				var cpu time.Duration
				waitedOffsets, err := besides(p, func() (err error) {
					_, cpu, err = timed(p, func() (err error) { described, err = ask(offsets, times); return err })
					return err
				})
				if err != nil {
					return err
				}
				if groups, err = ask(describe, times); err != nil {
					return err
				}
				waited, err := besides(p, func() error {
					begun := time.Now()
					defer func() { left = float64(time.Since(begun).Nanoseconds()) / 1000 }()
					return m.leave()
				})
				found = []float64{described, perRecord(cpu, times), waitedOffsets, groups, left, waited}
				return err
			})
			return found, err
		},
	}
}

// besides runs f while another client asks one thing after the other, and returns how long that has waited at most, in ms.
func besides(p *process, f func() error) (float64, error) {
	other, err := dial(p.addr)
	if err != nil {
		return 0, err
	}
	defer other.close()
	q := kmsg.NewPtrMetadataRequest()
	q.SetVersion(12)
	q.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(topicName)}}
	if err := other.request(q, kmsg.NewPtrMetadataResponse()); err != nil {
		return 0, err
	}
	end, ended := make(chan struct{}), make(chan error)
	longest := time.Duration(0)
	go func() {
		for {
			begun := time.Now()
			if err := other.request(q, kmsg.NewPtrMetadataResponse()); err != nil {
				ended <- err
				return
			}
			longest = max(longest, time.Since(begun))
			select {
			case <-end:
				ended <- nil
				return
			default:
			}
		}
	}()
	err = f()
	close(end)
	err = errors.Join(err, <-ended)
	return float64(longest.Nanoseconds()) / 1e6, err
}

// memoryTrial finds what records in flight take in the memory of a process. Both brokers run within the program that measures: nothing else tells
// exactly what a process holds on to.
func memoryTrial(s *sizes) trial {
	const partitions = 4
	atMost := func(n float64) *target {
		return &target{fmt.Sprintf("at most %g", n), func(k, _ float64) bool { return k <= n }}
	}
	return trial{
		section: "Share groups, many records in flight",
		name:    fmt.Sprintf("memory of %d records in flight", s.inMemory),
		note:    fmt.Sprintf("Bytes of the heap a record. One producer batch in each of %d partitions; renewals are the worst case, for they make two locks of it and persist nothing.", partitions),
		measures: []measure{
			{name: "all acquired", unit: "B", digits: 2, target: atMost(1)},
			{name: "every second one renewed by itself", unit: "B", digits: 2, target: atMost(8)},
			{name: "left when all are accepted", unit: "B", digits: 2, target: atMost(0.1)},
		},
		run: func(ctx context.Context, b *broker) (found []float64, err error) {
			addr, stop, err := startHere(b)
			if err != nil {
				return nil, err
			}
			defer stop()
			c, err := dial(addr)
			if err != nil {
				return nil, err
			}
			defer c.close()
			topic, err := c.createTopic(partitions)
			if err != nil {
				return nil, err
			}
			each := s.inMemory / partitions
			if _, err := c.produce(&load{partitions: partitions, records: each, requests: 1}); err != nil {
				return nil, err
			}
			if err := c.readFromStart(groupName); err != nil {
				return nil, err
			}
			m, err := join(ctx, addr, 0, topic)
			if err != nil {
				return nil, err
			}
			defer m.close()
			if _, err := m.take(0, 0, recordLimit); err != nil { // begins the session
				return nil, err
			}
			heap := func() float64 {
				c.out, c.buf, m.out, m.buf, m.records = nil, nil, nil, nil, nil // what this program holds itself
				m.named().AcknowledgementBatches = nil
				runtime.GC()
				runtime.GC() // finds what a pool held on to
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				return float64(now.HeapAlloc)
			}
			before := heap()
			note := func() { found = append(found, max(0, heap()-before)/float64(s.inMemory)) }
			for i := range int32(partitions) {
				for held := 0; held < each; {
					got, err := m.take(i, int32(each), batchOptimized)
					if err != nil {
						return nil, err
					}
					for _, r := range got {
						held += int(r.LastOffset - r.FirstOffset + 1)
					}
				}
			}
			note()
			for i := range int32(partitions) {
				if err := m.renewEverySecond(i, int64(each)); err != nil {
					return nil, err
				}
			}
			note()
			for i := range int32(partitions) {
				if err := m.settle(i, accept, 0, int64(each)-1); err != nil {
					return nil, err
				}
			}
			note()
			return found, nil
		},
	}
}

// renewEverySecond renews the lock of every second record of a partition, each by itself.
func (m *member) renewEverySecond(partition int32, end int64) error {
	const atOnce = 5000
	var offsets []int64
	for o := int64(0); o < end; o += 2 {
		offsets = append(offsets, o, o)
		if len(offsets) == 2*atOnce || o+2 >= end {
			if err := m.settle(partition, renew, offsets...); err != nil {
				return err
			}
			offsets = offsets[:0]
		}
	}
	return nil
}

// startHere starts a broker in this process.
func startHere(b *broker) (addr string, stop func(), err error) {
	if b.name == "kshare" {
		c, err := kshare.Start()
		if err != nil {
			return "", nil, err
		}
		return c.Addrs()[0], func() { c.Close() }, nil
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.share.partition.max.record.locks": "10000000"}))
	if err != nil {
		return "", nil, err
	}
	return c.ListenAddrs()[0], c.Close, nil
}
