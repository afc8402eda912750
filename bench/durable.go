package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// durableTrial finds what an acknowledgement costs that is on disk when it is answered, beside a write to a file of its own and fsync.
func durableTrial(s *sizes) trial {
	const writers = 8
	return trial{
		section: "With a directory",
		name:    "ShareAcknowledge of one record",
		note:    "kfake keeps no share state on disk. The fsync is one after 200 B were appended to a file in the same directory, before and after the acknowledgements.",
		alone:   true,
		measures: []measure{
			{name: "fsync, p50", unit: "us", digits: 1},
			{name: "1 member, p50", unit: "us", digits: 1},
			{name: "1 member, p50 / fsync", digits: 2, target: &target{"at most 1.3", func(k, _ float64) bool { return k <= 1.3 }}},
			{name: "8 members, time / acknowledgements", unit: "us", digits: 1},
			{name: "8 members, time / acknowledgements / fsync", digits: 2, target: &target{"at most 0.5", func(k, _ float64) bool { return k <= 0.5 }}},
		},
		run: func(ctx context.Context, b *broker) (found []float64, err error) {
			dir, err := os.MkdirTemp("", "kshare-bench-dir")
			if err != nil {
				return nil, err
			}
			defer os.RemoveAll(dir)
			b = b.in(filepath.Join(dir, "kshare")).with("log.flush.interval.messages=1") // answers wait for the disk
			err = withRecords(ctx, b, 2*writers*s.durable, 1, func(p *process, topic [16]byte) error {
				var syncs []float64
				if err := appendSynced(filepath.Join(dir, "before"), s.durable, &syncs); err != nil {
					return err
				}
				took, _, err := acknowledgeEach(ctx, p, topic, 0, 1, s.durable)
				if err != nil {
					return err
				}
				_, all, err := acknowledgeEach(ctx, p, topic, 1, writers, s.durable)
				if err != nil {
					return err
				}
				if err := appendSynced(filepath.Join(dir, "after"), s.durable, &syncs); err != nil {
					return err
				}
				one := quantile(syncs, 0.5)
				each := perRecord(all, writers*s.durable)
				found = []float64{one, quantile(took, 0.5), quantile(took, 0.5) / one, each, each / one}
				return nil
			})
			return found, err
		},
	}
}

// appendSynced appends n times to a file, each time with fsync, and notes how long each took, in us.
func appendSynced(name string, n int, took *[]float64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 200)
	for range n {
		begun := time.Now()
		if _, err := f.Write(block); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		*took = append(*took, float64(time.Since(begun).Nanoseconds())/1000)
	}
	return nil
}

// acknowledgeEach lets members fetch n records each and then accept them one by one, all members at once. It returns how long each acknowledgement took, in
// us, and how long all of them together.
func acknowledgeEach(ctx context.Context, p *process, topic [16]byte, number, members, n int) (took []float64, all time.Duration, err error) {
	type one struct {
		*member
		offsets []int64
		took    []float64
		err     error
	}
	var ms []*one
	for i := range members {
		m, err := join(ctx, p.addr, number+i, topic)
		if err != nil {
			return nil, 0, err
		}
		defer m.close()
		o := &one{member: m}
		got, err := m.fetch(int32(n), time.Second, nil)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range got {
			for offset := r.FirstOffset; offset <= r.LastOffset; offset++ {
				o.offsets = append(o.offsets, offset)
			}
		}
		if len(o.offsets) != n {
			return nil, 0, errors.New("a member did not get as many records as it asked for")
		}
		ms = append(ms, o)
	}
	begun := time.Now()
	var wg sync.WaitGroup
	for _, m := range ms {
		wg.Go(func() {
			for _, offset := range m.offsets {
				sent := time.Now()
				if m.err = m.settle(0, accept, offset, offset); m.err != nil {
					return
				}
				m.took = append(m.took, float64(time.Since(sent).Nanoseconds())/1000)
			}
		})
	}
	wg.Wait()
	all = time.Since(begun)
	for _, m := range ms {
		took, err = append(took, m.took...), errors.Join(err, m.err)
	}
	return took, all, err
}
