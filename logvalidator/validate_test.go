package logvalidator

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

const testNow = 1_796_000_000_000

func testParams() Params {
	return Params{
		Topic: "t", Version: 13, MaxMessageBytes: 1048588, SegmentBytes: 1 << 30, MaxDecompressedMessageBytes: 2147483639,
		TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: 3600000, Compression: protocol.Compression{Type: ProducerCompression}, NowMs: testNow,
	}
}

// testBatch is a batch of n records with value of size bytes and timestamps from testNow on.
func testBatch(t require.TestingT, codec int8, n, size int) []byte {
	b := protocol.NewBatchBuilder()
	b.Compression, b.LeaderEpoch = protocol.DefaultCompression(codec), -1
	require.NoError(t, b.Reset(nil))
	value := make([]byte, size)
	for i := range value {
		value[i] = byte('a' + i*i%13)
	}
	for i := range n {
		require.NoError(t, b.Append(testNow+int64(i), []byte("key"), value))
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	return batch
}

// seal writes the CRC anew after a test changed the header.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], protocol.BatchCRC(b))
	return b
}

func TestKeptBatchIsTheRequestsOwn(t *testing.T) {
	for codec := protocol.CompressionNone; codec <= protocol.CompressionZstd; codec++ {
		batch := testBatch(t, codec, 3, 100)
		raw := append(bytes.Clone(batch), 1, 2, 3)
		p := testParams()
		res, refusal := Validate(raw, &p)
		require.Nil(t, refusal)
		assert.Same(t, &raw[0], &res.Batch[0])
		assert.Equal(t, batch, res.Batch, "stray bytes are gone, nothing else is changed")
		assert.Equal(t, len(res.Batch), cap(res.Batch))
		h, err := protocol.ParseBatchHeader(batch)
		require.NoError(t, err)
		assert.Equal(t, Result{Batch: res.Batch, Header: h, LogAppendTimeMs: -1, BaseTimestampMs: testNow, MaxTimestampMs: testNow + 2, MaxTimestampDelta: 2}, res)
	}
}

func TestLogAppendTime(t *testing.T) {
	for codec := protocol.CompressionNone; codec <= protocol.CompressionZstd; codec++ {
		for _, target := range []int8{ProducerCompression, protocol.CompressionGzip} {
			p := testParams()
			p.LogAppendTime, p.NowMs, p.Compression.Type = true, testNow+50, target
			if target == protocol.CompressionGzip {
				p.Compression = protocol.DefaultCompression(target)
			}
			res, refusal := Validate(testBatch(t, codec, 3, 10), &p)
			require.Nil(t, refusal)
			assert.Equal(t, [3]int64{testNow + 50, testNow + 50, testNow + 50}, [3]int64{res.LogAppendTimeMs, res.BaseTimestampMs, res.MaxTimestampMs})
			assert.Equal(t, int32(0), res.MaxTimestampDelta)
			assert.True(t, res.Header.IsLogAppendTime())
			assert.Equal(t, protocol.BatchCRC(res.Batch), res.Header.CRC)
			h, err := protocol.ParseBatchHeader(res.Batch)
			require.NoError(t, err)
			assert.Equal(t, h, res.Header)
			assert.Equal(t, target == protocol.CompressionGzip && codec != target, res.Recompressed)
		}
	}
}

func TestRecompressed(t *testing.T) {
	for source := protocol.CompressionNone; source <= protocol.CompressionZstd; source++ {
		for target := protocol.CompressionNone; target <= protocol.CompressionZstd; target++ {
			if source == target {
				continue
			}
			raw := testBatch(t, source, 5, 1000)
			h, err := protocol.ParseBatchHeader(raw)
			require.NoError(t, err)
			h.ProducerID, h.ProducerEpoch, h.BaseSequence = 7, 2, 9
			h.Attributes |= protocol.AttributeTransactional | protocol.AttributeDeleteHorizon | 0x80
			h.AppendTo(raw[:0])
			p := testParams()
			p.Compression = protocol.DefaultCompression(target)
			sent := bytes.Clone(seal(raw))
			res, refusal := Validate(raw, &p)
			require.Nil(t, refusal)
			assert.True(t, res.Recompressed)
			assert.Equal(t, sent, raw, "the request stays as it is")
			want := h
			want.Attributes = int16(target) | protocol.AttributeTransactional
			want.Length, want.CRC = res.Header.Length, protocol.BatchCRC(res.Batch)
			assert.Equal(t, want, res.Header)
			assert.Equal(t, [2]int64{testNow, testNow + 4}, [2]int64{res.BaseTimestampMs, res.MaxTimestampMs})
			before, err := protocol.Decompress(nil, source, raw[protocol.BatchHeaderSize:], 1<<20)
			require.NoError(t, err)
			after, err := protocol.Decompress(nil, target, res.Batch[protocol.BatchHeaderSize:], 1<<20)
			require.NoError(t, err)
			assert.Equal(t, before, after)
		}
	}
}

// TestSizeLimits takes the largest size that is allowed and one byte more.
func TestSizeLimits(t *testing.T) {
	batch := testBatch(t, protocol.CompressionNone, 1, 1000)
	p := testParams()
	p.MaxMessageBytes = int32(len(batch))
	_, refusal := Validate(bytes.Clone(batch), &p)
	assert.Nil(t, refusal)
	p.MaxMessageBytes--
	_, refusal = Validate(bytes.Clone(batch), &p)
	assert.Equal(t, errorcode.MessageTooLarge, refusal.Code)
	assert.False(t, refusal.LogStartOffset)

	packed := testBatch(t, protocol.CompressionGzip, 1, 1000)
	p.Compression = protocol.DefaultCompression(protocol.CompressionNone)
	_, refusal = Validate(bytes.Clone(packed), &p)
	assert.Equal(t, errorcode.MessageTooLarge, refusal.Code, "the batch grows beyond it")
	p.MaxMessageBytes++
	p.SegmentBytes = p.MaxMessageBytes
	_, refusal = Validate(bytes.Clone(packed), &p)
	assert.Nil(t, refusal)
	p.SegmentBytes--
	_, refusal = Validate(bytes.Clone(packed), &p)
	assert.Equal(t, errorcode.RecordListTooLarge, refusal.Code)
	assert.False(t, refusal.LogStartOffset)
}

// A batch that grows without end when it is written anew ends at the limit, not in memory.
func TestRecompressedBomb(t *testing.T) {
	b := protocol.NewBatchBuilder()
	b.Compression = protocol.DefaultCompression(protocol.CompressionZstd)
	require.NoError(t, b.Reset(nil))
	for range 8 {
		require.NoError(t, b.Append(testNow, nil, make([]byte, 1<<20)))
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	require.Less(t, len(batch), 64<<10)
	p := testParams()
	_, refusal := Validate(bytes.Clone(batch), &p)
	assert.Nil(t, refusal, "kept as it is, it is small")
	p.Compression = protocol.DefaultCompression(protocol.CompressionNone)
	_, refusal = Validate(batch, &p)
	require.NotNil(t, refusal)
	assert.Equal(t, errorcode.MessageTooLarge, refusal.Code)
}

// A small batch can hold more wrong records than an answer should name.
func TestRecordErrorsAreBounded(t *testing.T) {
	const n = 2 * maxRecordErrors
	b := protocol.NewBatchBuilder()
	b.Compression = protocol.DefaultCompression(protocol.CompressionZstd)
	require.NoError(t, b.Reset(nil))
	for range n {
		require.NoError(t, b.Append(testNow, nil, nil))
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	p := testParams()
	p.Compacted = true
	_, refusal := Validate(batch, &p)
	require.NotNil(t, refusal)
	assert.Equal(t, errorcode.InvalidRecord, refusal.Code)
	assert.Len(t, refusal.RecordErrors, maxRecordErrors)
}

// TestOrder has two faults in every batch: the one that is looked for first must win.
func TestOrder(t *testing.T) {
	const crc, twice = "CRC", "two batches" // made when everything else stands
	none := func([]byte, *Params) {}
	faults := []struct {
		name string
		code int16
		edit func(b []byte, p *Params)
	}{
		{"magic", errorcode.InvalidRecord, func(b []byte, _ *Params) { b[16] = 1 }},
		{"zstd before version 7", errorcode.UnsupportedCompressionType, func(b []byte, p *Params) { b[22], p.Version = b[22]&^7|4, 6 }},
		{twice, errorcode.InvalidRecord, none},
		{"base offset", errorcode.InvalidRecord, func(b []byte, _ *Params) { b[7] = 1 }},
		{"size", errorcode.MessageTooLarge, func(_ []byte, p *Params) { p.MaxMessageBytes = 10 }},
		{crc, errorcode.CorruptMessage, none},
		{"codec", errorcode.UnknownServerError, func(b []byte, _ *Params) { b[22] |= 7 }},
		{"count", errorcode.InvalidRecord, func(b []byte, _ *Params) { b[60]++ }},
		{"control", errorcode.InvalidRecord, func(b []byte, _ *Params) { b[22] |= 0x20 }},
		{"sequence", errorcode.InvalidRecord, func(b []byte, _ *Params) { copy(b[43:], make([]byte, 8)) }},
		{"structure", errorcode.InvalidRecord, func(b []byte, _ *Params) { b[61] = 1 }},
		{"timestamp", errorcode.InvalidTimestamp, func(b []byte, _ *Params) { binary.BigEndian.PutUint64(b[27:], testNow+1<<40) }},
		{"segment", errorcode.RecordListTooLarge, func(_ []byte, p *Params) { p.SegmentBytes = 10 }},
	}
	for i, first := range faults {
		for _, second := range faults[i:] {
			p := testParams()
			b := testBatch(t, protocol.CompressionNone, 2, 10)
			second.edit(b, &p)
			first.edit(b, &p)
			seal(b)
			if first.name == crc || second.name == crc {
				b[20] ^= 1
			}
			if first.name == twice || second.name == twice {
				b = append(b, b...)
			}
			_, refusal := Validate(b, &p)
			require.NotNil(t, refusal, "%s and %s", first.name, second.name)
			assert.Equal(t, first.code, refusal.Code, "%s and %s: %v", first.name, second.name, refusal)
		}
	}
}

func TestFirstBatch(t *testing.T) {
	batch := testBatch(t, protocol.CompressionNone, 1, 1)
	for n := range batch {
		got, refusal := FirstBatch(batch[:n])
		assert.Nil(t, got)
		assert.Nil(t, refusal, "%d bytes", n)
	}
	transactional, refusal := IsTransactional(batch)
	assert.False(t, transactional)
	assert.Nil(t, refusal)
	batch[22] |= protocol.AttributeTransactional
	transactional, _ = IsTransactional(batch)
	assert.True(t, transactional)
	for _, size := range []int32{-1, 0, 13, math.MinInt32} {
		binary.BigEndian.PutUint32(batch[8:], uint32(size))
		_, refusal = IsTransactional(batch)
		require.NotNil(t, refusal)
		assert.True(t, refusal.WholeRequest)
		assert.Equal(t, fmt.Sprintf("Record size %d is less than the minimum record overhead (14)", size), refusal.Message)
	}
	binary.BigEndian.PutUint32(batch[8:], math.MaxInt32)
	got, refusal := FirstBatch(batch)
	assert.Nil(t, got)
	assert.Nil(t, refusal)
	assert.Equal(t, "error 87: there must be a record batch", CheckFormat(nil, 13).Error())
}

// TestNoAllocations: a batch that is kept costs no memory, and one on a LogAppendTime topic neither.
func TestNoAllocations(t *testing.T) {
	for _, logAppendTime := range []bool{false, true} {
		batch := testBatch(t, protocol.CompressionNone, 100, 100)
		p := testParams()
		n := testing.AllocsPerRun(100, func() {
			p.LogAppendTime = logAppendTime
			batch[22] = 0
			seal(batch)
			if _, refusal := Validate(batch, &p); refusal != nil {
				t.Fatal(refusal)
			}
		})
		assert.Zero(t, n)
	}
}

// FuzzValidate takes anything for a partition's records. What is accepted keeps its limits and has a true header, and what is written anew can be read.
func FuzzValidate(f *testing.F) {
	for codec := protocol.CompressionNone; codec <= protocol.CompressionZstd; codec++ {
		f.Add(testBatch(f, codec, 2, 10), int16(13), int8(-1))
		f.Add(testBatch(f, codec, 2, 10), int16(3), int8(0))
		f.Add(testBatch(f, codec, 2, 10), int16(9), int8(4))
	}
	f.Fuzz(func(t *testing.T, raw []byte, version int16, target int8) {
		p := testParams()
		p.Version, p.MaxMessageBytes, p.MaxDecompressedMessageBytes = version, 1<<16, 1<<16
		if target >= 0 {
			p.Compression = protocol.DefaultCompression(target % 5)
		}
		if len(raw) >= protocol.BatchHeaderSize { // get beyond the CRC
			if batch, _ := FirstBatch(raw); len(batch) >= protocol.BatchHeaderSize {
				seal(batch)
			}
		}
		_, _ = IsTransactional(raw)
		res, refusal := Validate(raw, &p)
		if refusal != nil {
			assert.NotZero(t, refusal.Code)
			return
		}
		require.LessOrEqual(t, len(res.Batch), 1<<16)
		h, err := protocol.ParseBatchHeader(res.Batch)
		require.NoError(t, err)
		require.Equal(t, res.Header, h)
		require.Equal(t, protocol.BatchCRC(res.Batch), h.CRC)
		if res.Recompressed {
			_, _, err = protocol.FindTimestamp(&h, res.Batch, math.MinInt64, math.MaxInt64, protocol.NoRecordLimit)
			require.NoError(t, err)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	for _, c := range []struct {
		name    string
		codec   int8
		n, size int
	}{
		{"1 record of 1 KiB", 0, 1, 1024}, {"1 MB of 1 KiB", 0, 1000, 1000}, {"1 record of 100 B", 0, 1, 100}, {"1000 records of 100 B", 0, 1000, 100},
		{"1 MB of 100 B", 0, 9000, 100}, {"1000 of 100 B gzip", 1, 1000, 100}, {"1000 of 100 B snappy", 2, 1000, 100}, {"1000 of 100 B lz4", 3, 1000, 100}, {"1000 of 100 B zstd", 4, 1000, 100},
	} {
		b.Run(c.name, func(b *testing.B) {
			batch := testBatch(b, c.codec, c.n, c.size)
			p := testParams()
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for b.Loop() {
				if _, refusal := Validate(batch, &p); refusal != nil {
					b.Fatal(refusal)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.n), "ns/record")
		})
	}
}
