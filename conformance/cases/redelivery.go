package cases

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/proxy"
)

type part = kmsg.ShareFetchResponseTopicPartition

// ranges are acquired ranges: first, last and delivery count of each.
func ranges(all ...[3]int64) (out []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord) {
	for _, r := range all {
		out = append(out, kmsg.ShareFetchResponseTopicPartitionAcquiredRecord{FirstOffset: r[0], LastOffset: r[1], DeliveryCount: int16(r[2])})
	}
	return out
}

// acquired has the first answer that brings records of t-0 changed.
func (s *Stage) acquired(f func(*part)) *atomic.Bool {
	return s.once(shareFetchKey, func(x *proxy.Exchange) bool {
		return parts(x, func(_ *kmsg.ShareFetchResponseTopic, p *part) bool {
			if len(p.AcquiredRecords) == 0 || p.Partition != 0 {
				return false
			}
			f(p)
			return true
		})
	})
}

// changedRanges runs a case in which the first answer, of records 0 to n-1 in a batch, has other acquired ranges.
func changedRanges(n int, all [][3]int64, check func(*Stage)) func(*Stage) {
	return func(s *Stage) {
		done := s.acquired(func(p *part) { p.AcquiredRecords = ranges(all...) })
		s.Launch()
		s.Run()
		if !s.until(20*time.Second, done.Load) {
			s.Inconclusivef("no answer brought records")
		}
		check(s)
	}
}

// shiftOffsets has the client see offsets that are larger by d than those of the log.
func (s *Stage) shiftOffsets(d int64) {
	s.Edit(func(x *proxy.Exchange) bool {
		return parts(x, func(_ *kmsg.ShareFetchResponseTopic, p *part) bool {
			for at := 0; at+12 <= len(p.Records); at += 12 + int(binary.BigEndian.Uint32(p.Records[at+8:])) {
				binary.BigEndian.PutUint64(p.Records[at:], binary.BigEndian.Uint64(p.Records[at:])+uint64(d))
			}
			for i := range p.AcquiredRecords {
				p.AcquiredRecords[i].FirstOffset += d
				p.AcquiredRecords[i].LastOffset += d
			}
			return true
		})
	})
	s.OnAsk(func(x *proxy.Exchange) {
		eachRange(x.Request, func(_ [16]byte, _ int32, first, last *int64, _ []int8) {
			*first, *last, x.Changed = *first-d, *last-d, true
		})
	})
}

func oneBatch(n int) Setup { return Setup{Records: n, Batch: n, Late: true} }

// deliveredOnce checks that records are delivered once each.
func (s *Stage) deliveredOnce(first, last int64) {
	s.Await(10*time.Second, "the delivery of the records", func() bool {
		for offset := first; offset <= last; offset++ {
			if s.Times("t", 0, offset) == 0 {
				return false
			}
		}
		return true
	})
	s.Wait(500 * time.Millisecond)
	for offset := first; offset <= last; offset++ {
		if n := s.Times("t", 0, offset); n > 1 {
			s.Failf("record %d is delivered %d times", offset, n)
		}
	}
}

var redelivery = []Case{
	{ID: "dlv.01", Level: conformance.Must, Says: "a record is released until its fifth delivery: the application sees the counts 1 to 5", Source: kip932, Needs: explicit, Setup: Setup{Explicit: true, Records: 1, Headers: map[int]string{0: "release/release"}}, Within: 40 * time.Second, run: func(s *Stage) {
		s.Run()
		s.Await(30*time.Second, "five deliveries", func() bool { return len(s.Delivered()) >= 5 })
		for i, e := range s.Delivered()[:5] {
			if e.Count != i+1 {
				s.Failf("delivery %d has the count %d", i+1, e.Count)
			}
		}
	}},
	{ID: "dlv.02", Level: conformance.Must, Says: "records 0 to 4 are released, later ones are delivered, then 0 to 4 come again: they are delivered and acknowledged", Source: kip932, Needs: explicit,
		Setup: Setup{Explicit: true, Records: 30, Headers: map[int]string{0: "release/accept", 1: "release/accept", 2: "release/accept", 3: "release/accept", 4: "release/accept"}}, Within: 40 * time.Second, run: func(s *Stage) {
			s.Run()
			s.Drained(30*time.Second, "t", 0)
			for offset := range int64(5) {
				if n := s.Times("t", 0, offset); n != 2 {
					s.Failf("record %d is delivered %d times", offset, n)
				}
			}
		}},
	{ID: "dlv.03", Level: conformance.Must, Says: "an answer has ranges with the delivery counts 2 and 1: the application sees each", Source: kip932, Setup: oneBatch(30), run: changedRanges(30, [][3]int64{{5, 7, 2}, {20, 29, 1}}, func(s *Stage) {
		s.deliveredOnce(5, 7)
		s.deliveredOnce(20, 29)
		for _, e := range s.Delivered() {
			want := 1
			if e.Offset <= 7 {
				want = 2
			}
			if e.Count != want {
				s.Failf("record %d has the delivery count %d, the answer says %d", e.Offset, e.Count, want)
			}
		}
	})},
	{ID: "dlv.04", Level: conformance.Should, Says: "ranges have the delivery counts 0, -1 and 32767: the client goes on", Source: "a hostile broker", Setup: oneBatch(30), run: changedRanges(30, [][3]int64{{0, 9, 0}, {10, 19, -1}, {20, 29, 32767}}, func(s *Stage) {
		s.deliveredOnce(0, 29)
		s.Resumes(10 * time.Second)
	})},
	{ID: "dlv.05", Level: conformance.Must, Says: "records are acquired again while the application still has them, for their locks have ended: the second delivery is acknowledged", Source: kip932, Needs: explicit, Setup: held, Within: 110 * time.Second,
		Expects: []string{"share.ack.done"}, run: func(s *Stage) {
			s.hold(10)
			s.Pass(lockDuration + time.Second)
			s.Tell(driver.Op{"op": "poll", "n": 1})
			s.Wait(2 * time.Second)
			s.settleHeld("accept")
			s.Tell(driver.Op{"op": "ack", "do": "accept", "sel": "all"})
			s.Pass(lockDuration + time.Second)
			s.alter(kmsg.ConfigResourceTypeGroupConfig, groupID, nil)
			deadline := time.Now().Add(30 * time.Second)
			for !s.Settled("t", 0, 9) && time.Now().Before(deadline) {
				s.Tell(driver.Op{"op": "poll", "n": 1})
				s.Wait(1500 * time.Millisecond)
				s.settleHeld("accept")
			}
			s.Drained(5*time.Second, "t", 0)
		}},
	{ID: "dlv.06", Level: conformance.Must, Says: "two acquired ranges of an answer overlap: each record is delivered once", Source: "a hostile broker", Setup: oneBatch(10), run: changedRanges(10, [][3]int64{{0, 5, 1}, {3, 9, 1}}, func(s *Stage) { s.deliveredOnce(0, 9) })},
	{ID: "dlv.07", Level: conformance.Should, Says: "acquired ranges are not in order: all records are delivered or released", Source: "a hostile broker", Setup: oneBatch(20), run: changedRanges(20, [][3]int64{{10, 19, 1}, {0, 9, 1}}, func(s *Stage) {
		s.Wait(2 * time.Second)
		for offset := range int64(20) {
			types := s.TypesOf(0, 0, offset)
			if s.Times("t", 0, offset) == 0 && (len(types) == 0 || types[0] != release) {
				s.Failf("record %d is neither delivered nor released: its acknowledgements are %v", offset, types)
			}
		}
	})},
	{ID: "dlv.08", Level: conformance.Should, Says: "acquired ranges end before they begin, or begin below 0: they are ignored", Source: "a hostile broker", Setup: oneBatch(10), run: changedRanges(10, [][3]int64{{5, 3, 1}, {-1, 2, 1}, {6, 9, 1}}, func(s *Stage) {
		s.Wait(time.Second)
		if a := s.Acks(0); slices.ContainsFunc(a, func(a Ack) bool { return a.First < 0 || a.Last < a.First }) {
			s.Failf("such a range is acknowledged")
		}
		s.Resumes(12 * time.Second)
	})},
	{ID: "dlv.09", Level: conformance.Should, Says: "a range of 2^62 offsets is acquired with ten records: memory and time stay bounded", Source: "a hostile broker", Setup: oneBatch(10), Expects: []string{"share.ack"}, run: changedRanges(10, [][3]int64{{0, 1 << 62, 1}}, func(s *Stage) {
		s.deliveredOnce(0, 9)
		if rss := s.memory(); rss > 512<<20 {
			s.Failf("the client takes %d MiB", rss>>20)
		}
		s.Resumes(10 * time.Second)
	})},
	{ID: "dlv.10", Level: conformance.Must, Says: "offsets end with 2^63-2: records are delivered and acknowledged by their offsets", Source: "Kafka's offsets", Setup: Setup{Records: 10, Late: true}, run: func(s *Stage) {
		const shift = 1<<63 - 2 - 9
		s.shiftOffsets(shift)
		s.Launch()
		s.Run()
		s.Drained(20*time.Second, "t", 0)
		var got []int64
		for _, e := range s.Delivered() {
			got = append(got, e.Offset)
		}
		if want := span(shift, shift+9); !slices.Equal(got, want) {
			s.Failf("the records %v are delivered, %v were acquired", got, want)
		}
	}},
	{ID: "dlv.11", Level: conformance.Must, Says: "records 3 to 5 of a batch of ten are acquired: they alone are delivered and acknowledged", Source: kip932, Setup: oneBatch(10), run: changedRanges(10, [][3]int64{{3, 5, 1}}, func(s *Stage) {
		s.deliveredOnce(3, 5)
		s.Await(8*time.Second, "the acknowledgement of record 3", func() bool { return len(s.TypesOf(0, 0, 3)) > 0 })
		for _, offset := range []int64{0, 1, 2, 6, 7, 8, 9} {
			if s.Times("t", 0, offset) > 0 || len(s.TypesOf(0, 0, offset)) > 0 {
				s.Failf("record %d was not acquired, and is delivered or acknowledged", offset)
			}
		}
	})},
	{ID: "dlv.14", Level: conformance.Must, Says: "another member has taken records, and has ended without a word: they are delivered with the count 2", Source: kip932, Setup: Setup{Records: 10, Late: true}, run: func(s *Stage) {
		other := s.rival()
		if !s.until(5*time.Second, func() bool { return len(other.take(10)) > 0 }) {
			s.Inconclusivef("the other member gets no records")
		}
		other.close()
		s.Launch()
		s.Run()
		s.Await(20*time.Second, "the delivery of all records", func() bool { return len(s.Delivered()) >= 10 })
		for _, e := range s.Delivered() {
			if e.Count != 2 {
				s.Failf("record %d is delivered with the count %d", e.Offset, e.Count)
			}
		}
	}},
}
