package cases

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance"
	"kshare/conformance/proxy"
	"kshare/protocol"
)

const batches = "Kafka's record batches; KIP-932"

// bytesOf makes a batch of records at offsets, whose values are their offsets, which ends at an offset.
func bytesOf(first, last int64, offsets []int64, f func(*protocol.BatchBuilder)) []byte {
	b := protocol.NewBatchBuilder()
	b.BaseOffset = first
	if f != nil {
		f(b)
	}
	if err := b.Reset(nil); err != nil {
		panic(err)
	}
	for _, o := range offsets {
		b.SkipTo(int32(o - first))
		if err := b.Append(1, nil, valueOf(o)); err != nil {
			panic(err)
		}
	}
	b.SkipTo(int32(last - first + 1))
	batch, err := b.Finish()
	if err != nil {
		panic(err)
	}
	binary.BigEndian.PutUint32(batch[23:], uint32(last-first))
	return sealed(batch)
}

// sealed puts the right length and checksum into a batch.
func sealed(batch []byte) []byte {
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
	return batch
}

func span(first, last int64) (offsets []int64) {
	for o := first; o <= last; o++ {
		offsets = append(offsets, o)
	}
	return offsets
}

// shape is a case in which the first answer has other bytes of records 0 to n-1, all of which are acquired.
func shape(n int, bytes func() []byte, check func(*Stage)) func(*Stage) {
	return func(s *Stage) {
		done := s.acquired(func(p *part) {
			p.Records = bytes()
			p.AcquiredRecords = ranges([3]int64{0, int64(n - 1), 1})
		})
		s.Launch()
		s.Run()
		if !s.until(20*time.Second, done.Load) {
			s.Inconclusivef("no answer brought records")
		}
		check(s)
	}
}

// types checks what is sent for records, at last.
func (s *Stage) types(within time.Duration, offsets []int64, want ...int8) {
	for _, o := range offsets {
		s.Await(within, fmt.Sprintf("an acknowledgement of record %d", o), func() bool { return len(s.TypesOf(0, 0, o)) > 0 })
		if got := s.TypesOf(0, 0, o); !slices.Contains(want, got[0]) {
			s.Failf("record %d is acknowledged with the type %d, %v is right", o, got[0], want)
		}
	}
}

// gone checks records that cannot be read: they are released, rejected or left alone.
func (s *Stage) gone(offsets []int64) {
	for _, o := range offsets {
		if s.Times("t", 0, o) > 0 && len(s.TypesOf(0, 0, o)) == 0 {
			continue // it came again, whole
		}
		for _, t := range s.TypesOf(0, 0, o)[:min(1, len(s.TypesOf(0, 0, o)))] {
			if t == accept || t == gap {
				s.Failf("record %d cannot be read, and is acknowledged with the type %d", o, t)
			}
		}
	}
}

// goneFor checks it once the client has had the time to acknowledge them, and lets their locks end.
func (s *Stage) goneFor(offsets []int64) {
	s.Wait(2 * time.Second)
	s.gone(offsets)
	s.Pass(lockDuration + time.Second)
}

// damaged is a case with three batches of ten, of which the second is damaged.
func damaged(f func(batch []byte) []byte) func(*Stage) {
	return shape(30, func() []byte {
		return slices.Concat(bytesOf(0, 9, span(0, 9), nil), f(bytesOf(10, 19, span(10, 19), nil)), bytesOf(20, 29, span(20, 29), nil))
	}, func(s *Stage) {
		s.deliveredOnce(0, 9)
		s.Wait(3 * time.Second)
		s.gone(span(10, 19))
		for _, o := range span(0, 9) {
			if got := s.TypesOf(0, 0, o); len(got) > 0 && got[0] != accept {
				s.Failf("record %d was delivered, and is acknowledged with the type %d", o, got[0])
			}
		}
		s.Pass(lockDuration + time.Second)
		s.Await(15*time.Second, "the delivery of records 20 to 29", func() bool { return s.Times("t", 0, 29) > 0 && s.Times("t", 0, 20) > 0 })
		s.Pass(lockDuration + time.Second)
		s.Resumes(15 * time.Second)
	})
}

func shapeCase(id string, level conformance.Level, says string, n int, run func(*Stage)) Case {
	return Case{ID: id, Level: level, Says: says, Source: batches, Setup: oneBatch(n), Within: 60 * time.Second, run: run}
}

var shapes = []Case{
	shapeCase("dat.01", conformance.Must, "a batch has no records 3 and 4: the others are accepted, and 3 and 4 are gaps", 10, shape(10, func() []byte { return bytesOf(0, 9, []int64{0, 1, 2, 5, 6, 7, 8, 9}, nil) }, func(s *Stage) {
		s.types(10*time.Second, []int64{0, 1, 2, 5, 6, 7, 8, 9}, accept)
		s.types(10*time.Second, []int64{3, 4}, gap)
	})),
	shapeCase("dat.02", conformance.Must, "a batch has no records at its head and its end: they are gaps", 10, shape(10, func() []byte { return bytesOf(0, 9, span(3, 7), nil) }, func(s *Stage) {
		s.types(10*time.Second, span(3, 7), accept)
		s.types(10*time.Second, []int64{0, 1, 2, 8, 9}, gap)
	})),
	shapeCase("dat.03", conformance.Must, "only holes of a batch are acquired: they are gaps, within 5 s", 10, func(s *Stage) {
		done := s.acquired(func(p *part) {
			p.Records = bytesOf(0, 9, []int64{0, 1, 2, 6, 7, 8, 9}, nil)
			p.AcquiredRecords = ranges([3]int64{3, 5, 1})
		})
		s.Launch()
		s.Run()
		if !s.until(20*time.Second, done.Load) {
			s.Inconclusivef("no answer brought records")
		}
		s.types(7*time.Second, []int64{3, 4, 5}, gap)
		if len(s.Delivered()) > 0 {
			s.Failf("a record is delivered that was not acquired")
		}
	}),
	shapeCase("dat.04", conformance.Must, "a batch has no records at all: all its offsets are gaps", 10, shape(10, func() []byte { return emptyBatch(0, 9) }, func(s *Stage) {
		s.types(10*time.Second, span(0, 9), gap)
		s.Resumes(10 * time.Second)
	})),
	shapeCase("dat.05", conformance.Must, "a batch has a hole, and the application acknowledges at once: ranges are ascending", 10, shape(10, func() []byte { return bytesOf(0, 9, []int64{0, 1, 2, 3, 6, 7, 8, 9}, nil) }, func(s *Stage) {
		s.types(10*time.Second, []int64{0, 9}, accept)
		s.types(10*time.Second, []int64{4, 5}, gap)
	})),
	shapeCase("dat.06", conformance.Must, "the last batch is a commit marker: it is a gap, and not delivered", 11, shape(11, func() []byte { return slices.Concat(bytesOf(0, 9, span(0, 9), nil), marker(10)) }, func(s *Stage) {
		s.types(10*time.Second, span(0, 9), accept)
		s.types(10*time.Second, []int64{10}, gap)
		if s.Times("t", 0, 10) > 0 {
			s.Failf("the marker is delivered")
		}
	})),
	shapeCase("dat.07", conformance.Must, "a marker is between two batches: ranges are ascending", 21, shape(21, func() []byte {
		return slices.Concat(bytesOf(0, 9, span(0, 9), nil), marker(10), bytesOf(11, 20, span(11, 20), nil))
	}, func(s *Stage) {
		s.types(10*time.Second, span(0, 9), accept)
		s.types(10*time.Second, []int64{10}, gap)
		s.types(10*time.Second, span(11, 20), accept)
	})),
	shapeCase("dat.08", conformance.Must, "nothing but a marker is acquired: it is a gap, and polls go on", 1, shape(1, func() []byte { return marker(0) }, func(s *Stage) {
		s.types(10*time.Second, []int64{0}, gap)
		s.Resumes(10 * time.Second)
	})),
	{ID: "dat.09", Level: conformance.Must, Says: "the group reads what is committed, and records of an aborted transaction are in an answer: they are neither delivered nor acknowledged", Source: "KIP-932, share.isolation.level",
		Setup: Setup{Records: -1, Group: map[string]string{"share.isolation.level": "read_committed"}}, run: func(s *Stage) {
			s.Produce("t", 0, 2)
			s.abort(3)
			s.Run()
			s.Resumes(20 * time.Second)
			for _, o := range []int64{2, 3, 4} {
				if s.Times("t", 0, o) > 0 || len(s.TypesOf(0, 0, o)) > 0 {
					s.Failf("record %d was aborted, and is delivered or acknowledged", o)
				}
			}
		}},
	{ID: "dat.10", Level: conformance.Must, Says: "the group reads what is not committed, and records of an aborted transaction are acquired: they are delivered", Source: "KIP-932, share.isolation.level", Setup: Setup{Records: -1}, run: func(s *Stage) {
		s.Produce("t", 0, 2)
		s.abort(3)
		s.Run()
		s.deliveredOnce(0, 4)
		s.Resumes(20 * time.Second)
	}},
	{ID: "dat.11", Level: conformance.Must, Says: "batches with gzip, snappy, lz4, zstd and without compression: all are delivered", Source: batches, Setup: Setup{Records: -1}, run: func(s *Stage) {
		for i, codec := range []int8{protocol.CompressionNone, protocol.CompressionGzip, protocol.CompressionSnappy, protocol.CompressionLZ4, protocol.CompressionZstd} {
			s.append("t", 0, bytesOf(0, 9, span(0, 9), func(b *protocol.BatchBuilder) { b.Compression = protocol.DefaultCompression(codec) }))
			s.mu.Lock()
			s.sent["t-0"] = int64(10 * (i + 1))
			s.mu.Unlock()
		}
		s.Run()
		s.Drained(20*time.Second, "t", 0)
		s.deliveredOnce(0, 49)
	}},
	shapeCase("dat.12", conformance.Must, "the second of three batches has a codec that does not exist: the others are delivered, and it is neither accepted nor a gap", 30, damaged(func(b []byte) []byte { b[22] |= 6; return sealed(b) })),
	shapeCase("dat.13", conformance.Must, "the second of three batches has a wrong checksum: the others are delivered, and it is neither accepted nor a gap", 30, damaged(func(b []byte) []byte { b[len(b)-2] ^= 0xff; return b })),
	shapeCase("dat.14", conformance.Must, "the first and third of four batches have wrong checksums: the others are delivered, and they alone are released or rejected", 40, shape(40, func() []byte {
		bad := func(first, last int64) []byte {
			b := bytesOf(first, last, span(first, last), nil)
			b[len(b)-2] ^= 0xff
			return b
		}
		return slices.Concat(bad(0, 9), bytesOf(10, 19, span(10, 19), nil), bad(20, 29), bytesOf(30, 39, span(30, 39), nil))
	}, func(s *Stage) {
		s.Wait(4 * time.Second)
		s.gone(slices.Concat(span(0, 9), span(20, 29)))
		s.Pass(lockDuration + time.Second)
		s.Await(15*time.Second, "the delivery of records 10 and 39", func() bool { return s.Times("t", 0, 10) > 0 && s.Times("t", 0, 39) > 0 })
		for _, o := range slices.Concat(span(10, 19), span(30, 39)) {
			if got := s.TypesOf(0, 0, o); len(got) > 0 && got[0] == gap {
				s.Failf("record %d can be read, and is acknowledged as a gap", o)
			}
		}
	})),
	shapeCase("dat.15", conformance.Must, "the second of three batches has damaged compressed records and a right checksum: it is neither accepted nor a gap", 30, damaged(func([]byte) []byte {
		b := bytesOf(10, 19, span(10, 19), func(b *protocol.BatchBuilder) { b.Compression = protocol.DefaultCompression(protocol.CompressionGzip) })
		for i := 70; i < len(b); i++ {
			b[i] ^= 0x55
		}
		return sealed(b)
	})),
	shapeCase("dat.17", conformance.Must, "a batch behind those that are acquired is cut off: it is ignored", 10, shape(10, func() []byte {
		tail := bytesOf(10, 19, span(10, 19), nil)
		return slices.Concat(bytesOf(0, 9, span(0, 9), nil), tail[:len(tail)/2])
	}, func(s *Stage) {
		s.types(10*time.Second, span(0, 9), accept)
		s.Resumes(10 * time.Second)
	})),
	shapeCase("dat.18", conformance.Must, "a batch that is acquired is cut off: its records are released, rejected or left alone", 20, shape(20, func() []byte {
		tail := bytesOf(10, 19, span(10, 19), nil)
		return slices.Concat(bytesOf(0, 9, span(0, 9), nil), tail[:len(tail)/2])
	}, func(s *Stage) {
		s.types(10*time.Second, span(0, 9), accept)
		s.goneFor(span(10, 19))
		s.Resumes(15 * time.Second)
	})),
	shapeCase("dat.19", conformance.Should, "a batch has magic 3, and a good one follows: the good one is delivered", 20, shape(20, func() []byte {
		first := bytesOf(0, 9, span(0, 9), nil)
		first[16] = 3
		return slices.Concat(first, bytesOf(10, 19, span(10, 19), nil))
	}, func(s *Stage) {
		s.goneFor(span(0, 9))
		s.Await(15*time.Second, "the delivery of record 19", func() bool { return s.Times("t", 0, 19) > 0 })
	})),
	{ID: "dat.21", Level: conformance.Must, Says: "records have a null key, a null value, an empty value, 100 headers and a header with a null value: they are delivered as they are", Source: batches, Setup: Setup{Records: -1}, run: func(s *Stage) {
		many := make([]protocol.Header, 100)
		for i := range many {
			many[i] = protocol.Header{Key: fmt.Append(nil, "h", i), Value: fmt.Append(nil, i)}
		}
		want := []string{
			s.hashed(nil, []byte("v")), s.hashed([]byte("k"), nil), s.hashed([]byte("k"), []byte{}), s.hashed([]byte("k"), []byte("v"), many...),
			s.hashed([]byte("k"), []byte("v"), protocol.Header{Key: []byte("h")}),
		}
		s.Run()
		s.Await(20*time.Second, "the delivery of the records", func() bool { return len(s.Delivered()) >= len(want) })
		for i, e := range s.Delivered()[:len(want)] {
			if e.Hash != want[i] {
				s.Failf("record %d is delivered with other bytes: their checksum is %s, %s is right", i, e.Hash, want[i])
			}
		}
	}},
	{ID: "dat.22", Level: conformance.Must, Says: "a record of 8 MiB: it is delivered", Source: batches, Setup: Setup{Records: -1, Config: map[string]string{"message.max.bytes": "20000000"}}, Within: 40 * time.Second, run: func(s *Stage) {
		s.produceBatch("t", 0, nil, make([]byte, 8<<20))
		s.Run()
		s.Await(30*time.Second, "the delivery of the record", func() bool { return s.Times("t", 0, 0) > 0 })
	}},
	shapeCase("dat.23", conformance.Should, "a batch says that it has ten records and has five: they are released, rejected or left alone", 20, shape(20, func() []byte {
		first := bytesOf(0, 9, span(0, 4), nil)
		binary.BigEndian.PutUint32(first[57:], 10)
		return slices.Concat(sealed(first), bytesOf(10, 19, span(10, 19), nil))
	}, func(s *Stage) {
		s.goneFor(span(5, 9))
		s.Resumes(15 * time.Second)
	})),
	shapeCase("dat.24", conformance.Should, "a batch has a wrong checksum and says that it ends at 2^31: memory stays bounded, and nothing is acknowledged that was not acquired", 10, shape(10, func() []byte {
		b := bytesOf(0, 9, span(0, 9), nil)
		binary.BigEndian.PutUint32(b[23:], 1<<31-1)
		return b
	}, func(s *Stage) {
		s.Wait(2 * time.Second)
		if rss := s.memory(); rss > 700<<20 {
			s.Failf("the client takes %d MiB", rss>>20)
		}
		if slices.ContainsFunc(s.Acks(0), func(a Ack) bool { return a.Last > 9 }) {
			s.Failf("records are acknowledged that were not acquired")
		}
		s.Pass(lockDuration + time.Second)
		s.Resumes(15 * time.Second)
	})),
	shapeCase("dat.25", conformance.Must, "records before and behind those that are acquired are in the batch: they are neither delivered nor acknowledged", 10, changedRanges(10, [][3]int64{{2, 7, 1}}, func(s *Stage) {
		s.deliveredOnce(2, 7)
		for _, o := range []int64{0, 1, 8, 9} {
			if s.Times("t", 0, o) > 0 || len(s.TypesOf(0, 0, o)) > 0 {
				s.Failf("record %d was not acquired, and is delivered or acknowledged", o)
			}
		}
	})),
	{ID: "dat.28", Level: conformance.Must, Says: "five answers in a row have nothing but markers: the client goes on fetching", Source: batches, Setup: Setup{Records: -1}, Within: 60 * time.Second, run: func(s *Stage) {
		n := 0
		s.Edit(func(x *proxy.Exchange) bool {
			return n < 5 && parts(x, func(_ *kmsg.ShareFetchResponseTopic, p *part) bool {
				if len(p.AcquiredRecords) != 1 || p.AcquiredRecords[0].FirstOffset != p.AcquiredRecords[0].LastOffset {
					return false
				}
				p.Records = marker(p.AcquiredRecords[0].FirstOffset)
				n++
				return true
			})
		})
		s.Run()
		for range 5 {
			offset := s.Produce("t", 0, 1)
			s.types(12*time.Second, []int64{offset}, gap)
		}
		s.Resumes(10 * time.Second)
		if len(s.troubles(0)) > 0 {
			s.Shouldf(false, "the application is told of trouble: %s", s.troubles(0)[0].Text)
		}
	}},
	{ID: "dat.26", Level: conformance.Must, Says: "one partition of an answer cannot be read, another can: its records are delivered", Source: batches, Setup: Setup{Topics: map[string]int{"t": 2}, Records: 10, Late: true}, Within: 60 * time.Second, run: func(s *Stage) {
		s.acquired(func(p *part) { p.Records = slices.Clone(p.Records); p.Records[len(p.Records)-2] ^= 0xff })
		s.Launch()
		s.Run()
		s.Await(20*time.Second, "the delivery of the records of t-1", func() bool { return s.Times("t", 1, 9) > 0 })
		s.Pass(lockDuration + time.Second)
		s.ResumesAt(15*time.Second, "t", 1)
	}},
}

// abort appends records of a transaction that is aborted, and its marker.
func (s *Stage) abort(n int) {
	node := s.Leader("t", 0)
	id := "judge"
	init := kmsg.NewPtrInitProducerIDRequest()
	init.Version, init.TransactionalID, init.TransactionTimeoutMillis, init.ProducerID, init.ProducerEpoch = 4, &id, 60_000, -1, -1
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorType, find.CoordinatorKeys = 4, 1, []string{id}
	s.ask(node, find) // has the coordinator's topic made
	var p *kmsg.InitProducerIDResponse
	for range 50 { // the coordinator is new
		if p = s.ask(node, init).(*kmsg.InitProducerIDResponse); p.ErrorCode == 0 {
			break
		}
		s.Wait(20 * time.Millisecond)
	}
	if p.ErrorCode != 0 {
		panic(fmt.Sprintf("a transactional producer is refused: %d", p.ErrorCode))
	}
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.Version, add.TransactionalID, add.ProducerID, add.ProducerEpoch = 3, id, p.ProducerID, p.ProducerEpoch
	add.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	s.ask(node, add)
	s.mu.Lock()
	first := s.sent["t-0"]
	s.sent["t-0"] += int64(n) + 1
	s.mu.Unlock()
	batch := bytesOf(0, int64(n-1), span(0, int64(n-1)), func(b *protocol.BatchBuilder) {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = p.ProducerID, p.ProducerEpoch, 0, true
	})
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.TransactionID, q.Acks, q.TimeoutMillis = 9, &id, -1, 5000
	q.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}
	if r := s.ask(node, q).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; r.ErrorCode != 0 || r.BaseOffset != first {
		panic(fmt.Sprintf("a record in a transaction is refused: %d, offset %d", r.ErrorCode, r.BaseOffset))
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.Version, end.TransactionalID, end.ProducerID, end.ProducerEpoch = 3, id, p.ProducerID, p.ProducerEpoch
	if r := s.ask(node, end).(*kmsg.EndTxnResponse); r.ErrorCode != 0 {
		panic(fmt.Sprintf("the abort is refused: %d", r.ErrorCode))
	}
}

// emptyBatch is what compaction leaves of a batch whose records are all gone.
func emptyBatch(first, last int64) []byte {
	b := bytesOf(first, last, []int64{first}, nil)[:61]
	binary.BigEndian.PutUint32(b[57:], 0)
	return sealed(b)
}

// marker is a commit marker at an offset.
func marker(offset int64) []byte { return markerOf(offset, 1000, 0, true) }

// markerOf is the marker of a transaction of a producer, which ends with it.
func markerOf(offset, producer int64, epoch int16, commit bool) []byte {
	b := protocol.NewBatchBuilder()
	b.BaseOffset, b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional, b.Control = offset, producer, epoch, -1, true, true
	if err := b.Reset(nil); err != nil {
		panic(err)
	}
	key := []byte{0, 0, 0, 0}
	if commit {
		key[3] = 1
	}
	if err := b.Append(1, key, []byte{0, 0, 0, 0, 0, 0}); err != nil {
		panic(err)
	}
	batch, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return batch
}

// hashed appends a record and returns the checksum that a driver is to tell of it.
func (s *Stage) hashed(key, value []byte, headers ...protocol.Header) string {
	s.produceBatch("t", 0, key, value, headers...)
	return checksum(key, value, headers...)
}

// valueOf is the value of the record at an offset of those that cases produce.
func valueOf(offset int64) []byte { return fmt.Append(nil, offset) }

// checksum is what a driver is to tell of a record's bytes.
func checksum(key, value []byte, headers ...protocol.Header) string {
	table := crc32.MakeTable(crc32.Castagnoli)
	h := crc32.Update(crc32.Checksum(key, table), table, value)
	for _, x := range headers {
		h = crc32.Update(crc32.Update(h, table, x.Key), table, x.Value)
	}
	return fmt.Sprintf("%08x", h)
}
