package sharepartition

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"
)

// window is a partition with about size records in flight, on which benchmarks act in steps of 500.
type window struct {
	p   *Partition
	lim Limits
	now time.Time
	req AcquireRequest
	out []AcquiredRange
	bnd [8]Bounds
}

func newWindow() *window {
	return &window{p: New(0), now: epoch,
		lim: Limits{DeliveryCount: 25, RecordLocks: 1 << 30, LockDuration: 30 * time.Second, Renew: true},
		req: AcquireRequest{Member: "m1", BatchSize: 500, MaxRecords: 500}}
}

// acquire reads producer batches of the size at the next fetch offset.
func (w *window) acquire(size int64, max int32) []AcquiredRange {
	w.req.FetchOffset = w.p.NextFetchOffset()
	base := w.req.FetchOffset / size * size
	for i := range w.bnd {
		w.bnd[i] = Bounds{base, base + size - 1}
		base += size
	}
	w.req.Batches, w.req.MaxRecords = w.bnd[:], max
	w.out, _ = w.p.Acquire(w.now, &w.req, w.lim, w.out[:0])
	return w.out
}

func (w *window) ack(acks []Acknowledgement) {
	write, refusal := w.p.Acknowledge(w.now, "m1", acks, w.lim)
	if refusal != nil {
		panic(fmt.Sprint(*refusal, acks[0]))
	}
	if write.ID != 0 {
		w.p.Persisted(write.ID, 0)
	}
}

func windows(b *testing.B, f func(b *testing.B, size int64)) {
	for _, size := range []int64{2_000, 20_000, 200_000} {
		b.Run(fmt.Sprintf("W=%dk", size/1000), func(b *testing.B) {
			b.ReportAllocs()
			f(b, size)
		})
	}
}

// measure runs one step of a benchmark again and again, and reports the processor time of a step beside the
// elapsed time, which says little on a machine with other work.
func measure(b *testing.B, step func()) {
	started := false
	var before time.Duration
	for b.Loop() {
		if !started {
			started, before = true, processorTime()
		}
		step()
	}
	b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var accept, release = []int8{TypeAccept}, []int8{TypeRelease}

// BenchmarkRange acquires 500 new records and accepts the oldest 500 as one range.
func BenchmarkRange(b *testing.B) {
	windows(b, func(b *testing.B, size int64) {
		w := newWindow()
		for w.p.InFlight() < size {
			w.acquire(500, 500)
		}
		acks := make([]Acknowledgement, 1)
		measure(b, func() {
			w.acquire(500, 500)
			first := w.p.StartOffset()
			acks[0] = Acknowledgement{FirstOffset: first, LastOffset: first + 499, Types: accept}
			w.ack(acks)
		})
	})
}

// BenchmarkMixed acquires 500 and acknowledges the 500 oldest held records with a type each: accept 80%, release
// 10%, reject 10%. What is released comes back.
func BenchmarkMixed(b *testing.B) {
	windows(b, func(b *testing.B, size int64) {
		w := newWindow()
		rnd := rand.New(rand.NewPCG(1, 2))
		types := make([]int8, 1<<16)
		for i := range types {
			types[i] = [10]int8{1, 1, 1, 1, 1, 1, 1, 1, 2, 3}[rnd.IntN(10)]
		}
		var queue []AcquiredRange
		take := func(records int64) {
			for records > 0 {
				for _, r := range w.acquire(500, int32(records)) {
					queue = append(queue, r)
					records -= r.LastOffset - r.FirstOffset + 1
				}
			}
		}
		take(size)
		acks := make([]Acknowledgement, 0, 500)
		done := 0
		measure(b, func() {
			take(500)
			acks = acks[:0]
			for left, at := int64(500), 0; left > 0; {
				r := &queue[0]
				n := min(left, r.LastOffset-r.FirstOffset+1)
				at = (done * 500) % (len(types) - 500)
				acks = append(acks, Acknowledgement{FirstOffset: r.FirstOffset, LastOffset: r.FirstOffset + n - 1,
					Types: types[at : at+int(n)]})
				left -= n
				if r.FirstOffset += n; r.FirstOffset > r.LastOffset {
					queue = queue[1:]
				}
				done++
			}
			slices.SortFunc(acks, func(a, b Acknowledgement) int { return int(a.FirstOffset - b.FirstOffset) })
			w.ack(acks)
		})
	})
}

// BenchmarkOldest releases the oldest record and fetches it back.
func BenchmarkOldest(b *testing.B) {
	windows(b, func(b *testing.B, size int64) {
		w := newWindow()
		w.lim.DeliveryCount = 1 << 20
		for w.p.InFlight() < size {
			w.acquire(500, 500)
		}
		acks := []Acknowledgement{{FirstOffset: 0, LastOffset: 0, Types: release}}
		measure(b, func() {
			w.ack(acks)
			if got := w.acquire(500, 1); len(got) == 0 || got[0].FirstOffset != 0 {
				b.Fatal(got)
			}
		})
	})
}

// BenchmarkExpire ends a lock of 500 records and acquires them again.
func BenchmarkExpire(b *testing.B) {
	windows(b, func(b *testing.B, size int64) {
		w := newWindow()
		w.lim.DeliveryCount = 1 << 20
		for w.p.InFlight() < size {
			w.acquire(500, 500)
			w.now = w.now.Add(time.Millisecond)
		}
		measure(b, func() {
			deadline, _ := w.p.NextDeadline()
			w.now = deadline
			write := w.p.Expire(w.now, w.lim)
			if write.ID == 0 {
				b.Fatal("nothing has ended")
			}
			w.p.Persisted(write.ID, 0)
			w.acquire(500, 500)
		})
	})
}

// BenchmarkAlternating accepts every second record one by one, so that no two neighbours are in one state, and
// acquires 500 new ones for each 250 accepted.
func BenchmarkAlternating(b *testing.B) {
	windows(b, func(b *testing.B, size int64) {
		w := newWindow()
		for w.p.InFlight() < size {
			w.acquire(500, 500)
		}
		acks := make([]Acknowledgement, 1)
		first := w.p.StartOffset()
		measure(b, func() {
			w.acquire(500, 500)
			for parity := range int64(2) {
				for offset := first + parity; offset < first+500; offset += 2 {
					acks[0] = Acknowledgement{FirstOffset: offset, LastOffset: offset, Types: accept}
					w.ack(acks)
				}
			}
			first += 500
		})
	})
}

// BenchmarkCounters does the work of BenchmarkRange and of BenchmarkExpire with counters and without.
func BenchmarkCounters(b *testing.B) {
	for name, counters := range map[string]*Counters{"off": nil, "on": {}} {
		b.Run("range/"+name, func(b *testing.B) {
			w := newWindow()
			w.p.CountIn(counters)
			for w.p.InFlight() < 2000 {
				w.acquire(500, 500)
			}
			acks := make([]Acknowledgement, 1)
			measure(b, func() {
				w.acquire(500, 500)
				first := w.p.StartOffset()
				acks[0] = Acknowledgement{FirstOffset: first, LastOffset: first + 499, Types: accept}
				w.ack(acks)
			})
		})
		b.Run("expire/"+name, func(b *testing.B) {
			w := newWindow()
			w.p.CountIn(counters)
			w.lim.DeliveryCount = 1 << 20
			w.acquire(500, 500)
			measure(b, func() {
				w.now, _ = w.p.NextDeadline()
				w.p.Persisted(w.p.Expire(w.now, w.lim).ID, 0)
				w.acquire(500, 500)
			})
		})
	}
}
