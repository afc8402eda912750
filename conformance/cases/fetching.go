package cases

import (
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/proxy"
	"kshare/protocol"
)

var fetching = []Case{
	{ID: "fet.01", Level: conformance.Must, Says: "six partitions on three nodes: each is fetched where it is led, and all are consumed", Source: kip932, Setup: Setup{Brokers: 3, Topics: map[string]int{"t": 6}, Records: 30}, run: func(s *Stage) {
		s.Run()
		for p := range int32(6) {
			s.Drained(20*time.Second, "t", p)
		}
	}},
	{ID: "fet.03", Level: conformance.Should, Says: "an answer asks the client to wait for 2 s: nothing is sent on the connection meanwhile", Source: "KIP-219", run: func(s *Stage) {
		s.Steady()
		done := s.once(shareFetchKey, func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ShareFetchResponse)
			if ok {
				p.ThrottleMillis = 2000
			}
			return ok
		})
		s.Await(5*time.Second, "a ShareFetch", done.Load)
		x := s.Next(5*time.Second, 0, shareFetchKey, "the answer", func(x *Seen) bool { p := fetched(x); return p != nil && p.ThrottleMillis == 2000 })
		s.Wait(2500 * time.Millisecond)
		if next := s.first(x.N+1, -1, func(y *Seen) bool { return y.Conn == x.Conn && y.At.After(x.Answered) }); next != nil {
			s.Shouldf(next.At.Sub(x.Answered) >= 1600*time.Millisecond, "%s is sent after %s", kmsg.NameForKey(next.Key), next.At.Sub(x.Answered).Round(time.Millisecond))
		}
	}},
	{ID: "fet.04", Level: conformance.Must, Says: "a record of 20 MiB where 1 MiB is asked for: it is delivered and acknowledged", Source: kip932, Within: 60 * time.Second,
		Setup: Setup{Records: 10, Props: map[string]any{"max_bytes": 1 << 20}, Config: map[string]string{"message.max.bytes": "30000000"}}, run: func(s *Stage) {
			s.Steady()
			offset := s.produceBatch("t", 0, nil, make([]byte, 20<<20))
			s.Await(30*time.Second, "the delivery of the record", func() bool { return s.Times("t", 0, offset) == 1 })
			s.Await(10*time.Second, "the acknowledgement of the record", func() bool { return s.Settled("t", 0, offset) })
		}},
	{ID: "fet.05", Level: conformance.Must, Says: "ten records are asked for, and a batch of 500 is acquired: all are delivered and acknowledged", Source: "KIP-1206", Setup: Setup{Records: 500, Batch: 500, Props: map[string]any{"max_poll_records": 10}}, Within: 60 * time.Second,
		run: func(s *Stage) {
			s.Run()
			s.Drained(45*time.Second, "t", 0)
			for offset := range int64(500) {
				if s.Times("t", 0, offset) == 0 {
					s.Failf("record %d is acknowledged and was not delivered", offset)
				}
			}
		}},
	{ID: "fet.06", Level: conformance.Should, Says: "the acquisition lock timeout is 0, then -1, then 1 ms: the client goes on", Source: "a hostile broker", Expects: []string{"share.ack.done"}, run: func(s *Stage) {
		values := []int32{0, -1, 1}
		var n atomic.Int32
		s.Edit(func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ShareFetchResponse)
			if ok {
				p.AcquisitionLockTimeoutMillis = values[int(n.Add(1))%len(values)]
			}
			return ok
		})
		s.Steady()
		for range 3 {
			s.Resumes(10 * time.Second)
		}
		s.Calm(shareFetchKey, time.Now(), 3*time.Second)
	}},
	{ID: "fet.07", Level: conformance.Should, Says: "the acquisition lock timeout changes from 15 s to 20 s: the application can learn of it", Source: "KIP-1222", run: func(s *Stage) {
		s.Steady()
		if !slices.ContainsFunc(s.Events(), func(e driver.Event) bool { return e.Ev == "lock" }) {
			panic(stop{Skip, "the driver does not tell the acquisition lock timeout"})
		}
		s.alter(kmsg.ConfigResourceTypeGroupConfig, groupID, map[string]string{"share.record.lock.duration.ms": "20000"})
		from := len(s.Events())
		s.Resumes(10 * time.Second)
		s.Resumes(10 * time.Second)
		ok := slices.ContainsFunc(s.driver.Events(from), func(e driver.Event) bool { return e.Ev == "lock" && e.Millis > 16000 })
		s.Shouldf(ok, "the application still sees the old timeout")
	}},
	{ID: "fet.08", Level: conformance.Must, Says: "ten partitions of a node, all full: each is consumed", Source: kip932, Setup: Setup{Topics: map[string]int{"t": 10}, Records: 200}, Within: 60 * time.Second, run: func(s *Stage) {
		s.Run()
		for p := range int32(10) {
			s.Drained(40*time.Second, "t", p)
		}
	}},
	{ID: "fet.09", Level: conformance.Info, Says: "the application polls no more, and there are new records: how many fetches acquire some", Source: "clients differ", Within: 50 * time.Second, run: func(s *Stage) {
		s.Run()
		s.Drained(20*time.Second, "t", 0)
		s.Do(10*time.Second, driver.Op{"op": "pause"}, "done")
		mark := s.Mark()
		for range 10 {
			s.Produce("t", 0, 10)
			s.Wait(time.Second)
		}
		n := 0
		for _, x := range s.Since(mark, shareFetchKey) {
			if p := fetched(x); p != nil && acquiresAny(p) {
				n++
			}
		}
		s.Tellf("%d fetches acquire records for an application that does not poll", n)
	}},
	{ID: "fet.10", Level: conformance.Should, Says: "the application keeps what it got for 8 s while there are more records: the client does not acquire without end", Source: kip932, Needs: explicit,
		Setup: Setup{Explicit: true, Records: 3000, Batch: 10, Headers: holdAll(100), Props: map[string]any{"max_poll_records": 100}}, run: func(s *Stage) {
			s.hold(1)
			mark := s.Mark()
			s.Wait(8 * time.Second)
			n := 0
			for _, x := range s.Since(mark, shareFetchKey) {
				if p := fetched(x); p != nil && acquiresAny(p) {
					n++
				}
			}
			s.Shouldf(n <= 2, "%d more answers brought records while the application kept the first ones", n)
		}},
	{ID: "fet.11", Level: conformance.Must, Says: "an answer has records of one partition and an error of another: the records are delivered", Source: kip932, Setup: Setup{Topics: map[string]int{"t": 2}, Records: 10}, run: func(s *Stage) {
		s.Run()
		s.Drained(20*time.Second, "t", 0)
		s.Drained(20*time.Second, "t", 1)
		done := s.once(shareFetchKey, func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ShareFetchResponse)
			if !ok || !acquiresAny(p) || len(p.Topics) != 1 {
				return false
			}
			t := &p.Topics[0]
			t.Partitions = slices.DeleteFunc(t.Partitions, func(part kmsg.ShareFetchResponseTopicPartition) bool { return part.Partition == 1 })
			bad := kmsg.NewShareFetchResponseTopicPartition()
			bad.Partition, bad.ErrorCode, bad.Records = 1, 6, []byte{}
			bad.CurrentLeader.LeaderID, bad.CurrentLeader.LeaderEpoch = -1, -1
			t.Partitions = append(t.Partitions, bad)
			return true
		})
		offset := s.Produce("t", 0, 1)
		s.Await(8*time.Second, "the delivery of a record beside the error", func() bool { return s.Times("t", 0, offset) > 0 })
		if !done.Load() {
			s.Inconclusivef("no answer was changed")
		}
		s.ResumesAt(10*time.Second, "t", 1)
	}},
	{ID: "fet.13", Level: conformance.Must, Says: "maximum wait, minimum and maximum bytes and records are configured: they are sent", Source: kip932,
		Setup: Setup{Props: map[string]any{"max_wait_ms": 1500, "min_bytes": 100, "max_bytes": 2 << 20, "max_poll_records": 7}}, run: func(s *Stage) {
			s.Run()
			x := s.Next(20*time.Second, 0, shareFetchKey, "a ShareFetch without acknowledgements", func(x *Seen) bool { return len(acksIn(x)) == 0 })
			q := fetchOf(x)
			switch {
			case q.MaxWaitMillis != 1500:
				s.Failf("MaxWaitMs is %d, 1500 is configured", q.MaxWaitMillis)
			case q.MinBytes != 100:
				s.Failf("MinBytes is %d, 100 is configured", q.MinBytes)
			case q.MaxBytes != 2<<20:
				s.Failf("MaxBytes is %d, %d is configured", q.MaxBytes, 2<<20)
			case q.MaxRecords != 7 && q.BatchSize != 7:
				s.Failf("MaxRecords is %d and BatchSize %d, 7 is configured", q.MaxRecords, q.BatchSize)
			}
		}},
	{ID: "fet.14", Level: conformance.Must, Says: "100,000 records, each a batch of its own: all are delivered, without a stall of a second", Source: "confluent-kafka field reports", Full: true, Setup: Setup{Records: 100_000, Batch: 1}, Within: 140 * time.Second,
		run: func(s *Stage) {
			s.Run()
			s.Await(120*time.Second, "the delivery of all records", func() bool { return len(s.Delivered()) >= 100_000 })
			recs := s.Delivered()
			for i := 1; i < len(recs); i++ {
				gap := recs[i].At.Sub(recs[i-1].At)
				s.Shouldf(gap < time.Second, "%s pass without a record behind record %d", gap.Round(time.Millisecond), i)
			}
		}},
	{ID: "fet.15", Level: conformance.Must, Says: "answers come in segments of one byte: they are decoded", Source: "TCP", Setup: Setup{Late: true}, run: func(s *Stage) {
		s.Edit(func(x *proxy.Exchange) bool {
			if x.Header.Key == shareFetchKey || x.Header.Key == heartbeatKey {
				x.Write = func(c net.Conn, frame []byte) error {
					for _, b := range prefixed(frame, len(frame)) {
						if _, err := c.Write([]byte{b}); err != nil {
							return err
						}
					}
					return nil
				}
			}
			return false
		})
		s.Launch()
		s.Steady()
	}},
}

// acquiresAny tells whether an answer brings records.
func acquiresAny(p *kmsg.ShareFetchResponse) bool {
	return slices.ContainsFunc(p.Topics, func(t kmsg.ShareFetchResponseTopic) bool {
		return slices.ContainsFunc(t.Partitions, func(p kmsg.ShareFetchResponseTopicPartition) bool { return len(p.AcquiredRecords) > 0 })
	})
}

// prefixed is a frame behind a length.
func prefixed(frame []byte, length int) []byte {
	return append([]byte{byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)}, frame...)
}

// produceBatch appends a batch of one record.
func (s *Stage) produceBatch(topic string, partition int32, key, value []byte, headers ...protocol.Header) int64 {
	b := protocol.NewBatchBuilder()
	if err := b.Append(s.clock.Now().UnixMilli(), key, value, headers...); err != nil {
		panic(err)
	}
	batch, err := b.Finish()
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	s.sent[topic+"-"+strconv.Itoa(int(partition))]++
	s.mu.Unlock()
	return s.append(topic, partition, batch)
}
