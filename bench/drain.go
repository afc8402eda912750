package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	drainRecords = 500                    // that a member asks for at once
	drainWait    = 100 * time.Millisecond // for which it waits for some
)

// drained is how a share group emptied a topic.
type drained struct {
	records int           // that the drain was about
	took    time.Duration // from the first fetch to the last answer that had records
	cpu     time.Duration // of the broker, until every member had found the topic empty
	user    time.Duration // the part of it outside of the kernel
	fetches int
	empty   int // fetches that found nothing
	early   int // of them, those that were answered before the member had waited for as long as it would
}

func (d *drained) rate() float64 { return float64(d.records) / d.took.Seconds() / 1e6 }

func (d *drained) cpuPerRecord() float64 { return perRecord(d.cpu, d.records) }

// perRecord is a time for one of n records, in us.
func perRecord(t time.Duration, n int) float64 { return float64(t.Nanoseconds()) / 1000 / float64(n) }

// drain lets raw members consume a topic until each record is settled.
func drain(ctx context.Context, p *process, topic [16]byte, members, records int, how func(number int) settle) (*drained, error) {
	all := make([]*member, members)
	for i := range all {
		m, err := join(ctx, p.addr, i, topic)
		if err != nil {
			return nil, err
		}
		defer m.close()
		all[i] = m
	}
	before, err := p.cpu()
	if err != nil {
		return nil, err
	}
	userBefore, err := p.userCPU()
	if err != nil {
		return nil, err
	}
	d := &drained{records: records}
	begun := time.Now()
	var settledAll, last, fetches, empty, early atomic.Int64
	errs := make([]error, members)
	var wg sync.WaitGroup
	for i, m := range all {
		answer := how(i)
		wg.Go(func() {
			var acks []acknowledgement
			for errs[i] == nil {
				sent := time.Now()
				got, err := m.fetch(drainRecords, drainWait, acks)
				if errs[i] = errors.Join(err, ctx.Err()); errs[i] != nil {
					m.close()
					return
				}
				fetches.Add(1)
				if len(got) == 0 {
					empty.Add(1)
					if time.Since(sent) < drainWait {
						early.Add(1)
					}
					if settledAll.Load() == int64(records) {
						return
					}
				} else {
					last.Store(int64(time.Since(begun)))
				}
				var settled int
				acks, settled = answer(got)
				settledAll.Add(int64(settled))
			}
		})
	}
	wg.Wait()
	after, err := p.cpu()
	userAfter, userErr := p.userCPU()
	d.took, d.cpu, d.user = time.Duration(last.Load()), after-before, userAfter-userBefore
	d.fetches, d.empty, d.early = int(fetches.Load()), int(empty.Load()), int(early.Load())
	return d, errors.Join(err, userErr, errors.Join(errs...))
}

// drainWithClients lets franz-go's share consumers drain a topic. strict is its record-limit mode; the default takes whole batches.
func drainWithClients(ctx context.Context, p *process, members, records int, strict bool) (*drained, error) {
	before, err := p.cpu()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts := []kgo.Opt{kgo.SeedBrokers(p.addr), kgo.ShareGroup(groupName), kgo.ConsumeTopics(topicName)}
	if strict {
		opts = append(opts, kgo.ShareMaxRecordsStrict())
	}
	var seen, first, last atomic.Int64
	begun := time.Now()
	errs := make([]error, members)
	var wg sync.WaitGroup
	for i := range members {
		client, err := kgo.NewClient(opts...)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		wg.Go(func() {
			for seen.Load() < int64(records) {
				fetches := client.PollFetches(ctx)
				if ctx.Err() != nil {
					return
				}
				if errs[i] = fetches.Err(); errs[i] != nil {
					cancel()
					return
				}
				now := int64(time.Since(begun))
				first.CompareAndSwap(0, now)
				last.Store(now)
				if seen.Add(int64(fetches.NumRecords())) >= int64(records) {
					cancel()
				}
			}
		})
	}
	wg.Wait()
	after, err := p.cpu()
	return &drained{records: records, took: time.Duration(last.Load() - first.Load()), cpu: after - before}, errors.Join(err, errors.Join(errs...))
}
