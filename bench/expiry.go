package main

import (
	"context"
	"errors"
	"time"
)

// lockDuration is the shortest lock that group.share.record.lock.duration.ms allows.
const lockDuration = time.Second

// expiryTrial finds how long after the end of its lock a record is with a member that waits for it.
func expiryTrial(s *sizes) trial {
	return trial{
		section: "Share groups, timing",
		name:    "the end of locks of 1 s",
		note: "Another member waits for the record in a ShareFetch. Counted from 1 s after the first member had its answer until the other one has its own: " +
			"the way to the clients is within it, and what else runs on the machine.",
		measures: []measure{
			{name: "late, p50", unit: "ms", digits: 2},
			{name: "late, at most", unit: "ms", digits: 2},
		},
		run: func(ctx context.Context, b *broker) (found []float64, err error) {
			b = b.with("group.share.record.lock.duration.ms=1000", "group.share.min.record.lock.duration.ms=1000")
			err = withRecords(ctx, b, s.expiries, 1, func(p *process, topic [16]byte) error {
				first, err := join(ctx, p.addr, 0, topic)
				if err != nil {
					return err
				}
				defer first.close()
				other, err := join(ctx, p.addr, 1, topic)
				if err != nil {
					return err
				}
				defer other.close()
				var ends []time.Time // of the locks, by offset
				for range s.expiries {
					if _, err := first.fetch(1, time.Second, nil); err != nil {
						return err
					}
					ends = append(ends, time.Now().Add(lockDuration))
					pause(ctx, 5*time.Millisecond) // so that each lock has an end of its own
				}
				var late []float64
				for range s.expiries {
					got, err := other.fetch(1, 20*time.Second, nil)
					if err != nil {
						return err
					}
					if len(got) != 1 || got[0].FirstOffset >= int64(len(ends)) {
						return errors.New("no record came back within 20 s")
					}
					late = append(late, float64(time.Since(ends[got[0].FirstOffset]).Microseconds())/1000)
				}
				found = []float64{quantile(late, 0.5), quantile(late, 1)}
				return nil
			})
			return found, err
		},
	}
}

// pause waits for a time, or the end of the context.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
