package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// rec is a record as a test writes it.
type rec struct {
	timestamp  int64
	key, value []byte
	headers    []Header
}

func build(t require.TestingT, b *BatchBuilder, recs []rec) []byte {
	require.NoError(t, b.Reset(nil))
	for _, r := range recs {
		require.NoError(t, b.Append(r.timestamp, r.key, r.value, r.headers...))
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	return batch
}

// read reads a batch back, record by record.
func read(t require.TestingT, batch []byte) (h BatchHeader, recs []rec) {
	h, err := ParseBatchHeader(batch)
	require.NoError(t, err)
	require.Equal(t, len(batch), h.Size())
	require.Equal(t, BatchCRC(batch), h.CRC)
	rr, err := OpenRecords(&h, batch, NoRecordLimit)
	require.NoError(t, err)
	defer rr.Close()
	var r Record
	for i := int32(0); ; i++ {
		err := rr.Next(&r)
		if err == io.EOF {
			return h, recs
		}
		require.NoError(t, err)
		require.Equal(t, i, r.OffsetDelta)
		got := rec{timestamp: h.BaseTimestamp + r.TimestampDelta, key: bytes.Clone(r.Key), value: bytes.Clone(r.Value)}
		for rest := bytes.Clone(r.Headers); len(rest) > 0; {
			var hd Header
			hd, rest, err = NextHeader(rest)
			require.NoError(t, err)
			got.headers = append(got.headers, hd)
		}
		require.Len(t, got.headers, int(r.NumHeaders))
		recs = append(recs, got)
	}
}

func genBytes(t *rapid.T, name string) []byte {
	switch rapid.IntRange(0, 9).Draw(t, name+" kind") {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return bytes.Repeat([]byte{'x'}, rapid.IntRange(0, 40_000).Draw(t, name))
	}
	return rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, name)
}

func genRecords(t *rapid.T) []rec {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) rec {
		r := rec{timestamp: rapid.Int64Range(-1, math.MaxInt64/4).Draw(t, "timestamp"), key: genBytes(t, "key"), value: genBytes(t, "value")}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			k := genBytes(t, "header key")
			if k == nil {
				k = []byte{}
			}
			r.headers = append(r.headers, Header{k, genBytes(t, "header value")})
		}
		return r
	}), 1, 30).Draw(t, "records")
}

func TestBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genRecords(t)
		b := NewBatchBuilder()
		b.Compression = DefaultCompression(rapid.Int8Range(CompressionNone, CompressionZstd).Draw(t, "codec"))
		b.BaseOffset, b.LeaderEpoch = rapid.Int64Min(0).Draw(t, "offset"), rapid.Int32().Draw(t, "leader epoch")
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = rapid.Int64().Draw(t, "producer"), rapid.Int16().Draw(t, "epoch"), rapid.Int32().Draw(t, "sequence")
		b.Transactional = rapid.Bool().Draw(t, "transactional")
		batch := build(t, b, want)
		h, got := read(t, batch)
		require.Equal(t, want, got)
		top, _ := b.MaxTimestamp()
		require.Equal(t, BatchHeader{
			BaseOffset: b.BaseOffset, Length: int32(len(batch) - 12), PartitionLeaderEpoch: b.LeaderEpoch, Magic: 2, CRC: h.CRC, Attributes: h.Attributes,
			LastOffsetDelta: int32(len(want) - 1), BaseTimestamp: want[0].timestamp, MaxTimestamp: top,
			ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, BaseSequence: b.BaseSequence, NumRecords: int32(len(want)),
		}, h)
		require.Equal(t, b.Transactional, h.IsTransactional())
		require.Equal(t, b.Compression.Type, h.Compression())

		// A record copied from one batch into another is the same record.
		c := NewBatchBuilder()
		c.Compression = DefaultCompression(rapid.Int8Range(CompressionNone, CompressionZstd).Draw(t, "second codec"))
		require.NoError(t, c.Reset(nil))
		rr, err := OpenRecords(&h, batch, NoRecordLimit)
		require.NoError(t, err)
		defer rr.Close()
		var r Record
		for rr.Next(&r) == nil {
			require.NoError(t, c.AppendRecord(h.RecordTimestamp(&r), &r))
		}
		again, err := c.Finish()
		require.NoError(t, err)
		_, copied := read(t, again)
		require.Equal(t, want, copied)

		// Sizes alone come out the same.
		sizes, err := OpenRecords(&h, batch, NoRecordLimit)
		require.NoError(t, err)
		defer sizes.Close()
		for _, w := range want {
			require.NoError(t, sizes.NextPartial(&r))
			require.Equal(t, [3]int32{size(w.key), size(w.value), int32(len(w.headers))}, [3]int32{r.KeySize, r.ValueSize, r.NumHeaders})
			require.Equal(t, w.timestamp, h.RecordTimestamp(&r))
		}
		require.Equal(t, io.EOF, sizes.NextPartial(&r))
	})
}

func size(b []byte) int32 {
	if b == nil {
		return -1
	}
	return int32(len(b))
}

// kmsg reads what the builder writes.
func TestBatchAgainstKmsg(t *testing.T) {
	b := NewBatchBuilder()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = 7, 1, 3
	batch := build(t, b, []rec{{100, []byte("k"), []byte("v"), []Header{{[]byte("h"), nil}}}, {99, nil, nil, nil}})
	var kb kmsg.RecordBatch
	require.NoError(t, kb.ReadFrom(batch))
	assert.Equal(t, []any{int64(100), int64(100), int64(7), int16(1), int32(3), int32(2), int32(1)},
		[]any{kb.FirstTimestamp, kb.MaxTimestamp, kb.ProducerID, kb.ProducerEpoch, kb.FirstSequence, kb.NumRecords, kb.LastOffsetDelta})
	var r kmsg.Record
	require.NoError(t, r.ReadFrom(kb.Records))
	assert.Equal(t, []kmsg.Header{{Key: "h"}}, r.Headers)
	assert.Equal(t, batch, kb.AppendTo(nil))
}

func TestReset(t *testing.T) {
	b := NewBatchBuilder()
	require.NoError(t, b.Reset([]byte("head")))
	require.NoError(t, b.Append(1, nil, []byte("v")))
	assert.Equal(t, BatchHeaderSize+8, b.Len())
	out, err := b.Finish()
	require.NoError(t, err)
	assert.Equal(t, "head", string(out[:4]))
	b.LogAppendTime = 77
	one := build(t, b, []rec{{5, nil, []byte("v"), nil}})
	h, _ := read(t, one)
	assert.True(t, h.IsLogAppendTime())
	assert.Equal(t, [2]int64{5, 77}, [2]int64{h.BaseTimestamp, h.MaxTimestamp})
	assert.ErrorIs(t, b.Append(1, nil, nil, Header{}), ErrInvalidRecord)
}

func TestEndTxnMarker(t *testing.T) {
	batch := EndTxnMarker(4000, 3, 9, ControlCommit, 1234)
	h, recs := read(t, batch)
	assert.Equal(t, int16(AttributeTransactional|AttributeControl), h.Attributes)
	assert.Equal(t, []rec{{1234, []byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 9}, nil}}, recs)
	assert.Equal(t, [3]int64{4000, 3, -1}, [3]int64{h.ProducerID, int64(h.ProducerEpoch), int64(h.BaseSequence)})
	kind, epoch, ok := ParseEndTxnMarker(&h, batch)
	assert.True(t, ok)
	assert.Equal(t, [2]int32{int32(ControlCommit), 9}, [2]int32{int32(kind), epoch})
	for _, cut := range []int{BatchHeaderSize - 1, BatchHeaderSize, len(batch) - 1} {
		_, _, ok = ParseEndTxnMarker(&h, batch[:cut])
		assert.False(t, ok)
	}
	h.NumRecords = 0
	_, _, ok = ParseEndTxnMarker(&h, batch)
	assert.False(t, ok)
}

// cat builds the bytes of a record out of varints (ints) and bytes.
func cat(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = binary.AppendVarint(b, int64(p))
		case string:
			b = append(b, p...)
		}
	}
	return b
}

func TestInvalidRecords(t *testing.T) {
	body := func(parts ...any) []byte { b := cat(parts...); return append(cat(len(b)), b...) }
	good := body("\x00", 0, 0, 1, "k", 1, "v", 0)
	for name, c := range map[string]struct {
		n       int32
		b       []byte
		partial bool // a compressed batch's sizes are fine all the same
	}{
		"empty":                     {1, nil, false},
		"one missing":               {2, good, false},
		"one too many":              {1, append(bytes.Clone(good), good...), false},
		"trailing byte":             {1, append(bytes.Clone(good), 0), false},
		"length cut":                {2, append(bytes.Clone(good), 0x80), false},
		"length negative":           {1, append(cat(-3), good[1:]...), false},
		"length beyond the end":     {1, append(cat(100), good[1:]...), true},
		"length of 0":               {1, cat(0), false},
		"length one short":          {1, append(cat(len(good)-2), good[1:]...), true},
		"key beyond the record":     {1, body("\x00", 0, 0, 9, "k", 1, "v", 0), false},
		"value beyond the record":   {1, body("\x00", 0, 0, 1, "k", 9, "v", 0), false},
		"key size of six bytes":     {1, body("\x00", 0, 0, "\x80\x80\x80\x80\x80\x01", 1, "v", 0), false},
		"timestamp of eleven bytes": {1, body("\x00", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 0, -1, -1, 0), false},
		"headers negative":          {1, body("\x00", 0, 0, -1, -1, -1), false},
		"headers missing":           {1, body("\x00", 0, 0, -1, -1, 2, 1, "h", -1), false},
		"headers 2147483647":        {1, body("\x00", 0, 0, -1, -1, math.MaxInt32), false},
		"header key null":           {1, body("\x00", 0, 0, -1, -1, 1, -1, -1), false},
		"header value cut":          {1, body("\x00", 0, 0, -1, -1, 1, 1, "h", 5, "v"), false},
	} {
		t.Run(name, func(t *testing.T) {
			for codec := CompressionNone; codec <= CompressionZstd; codec++ {
				h, batch := wrap(t, codec, c.n, c.b)
				assert.ErrorIs(t, drain(&h, batch, NoRecordLimit, false), ErrInvalidRecord, "codec %d", codec)
				err := drain(&h, batch, NoRecordLimit, true)
				if c.partial && codec != CompressionNone {
					assert.NoError(t, err, "codec %d", codec)
				} else {
					assert.ErrorIs(t, err, ErrInvalidRecord, "codec %d", codec)
				}
			}
		})
	}
	// Kafka reads these.
	for name, b := range map[string][]byte{
		"padded length":   append([]byte{good[0] | 0x80, 0x80, 0x80, 0x80, 0}, good[1:]...),
		"sizes below -1":  body("\x00", 0, 0, -5, -7, 1, 1, "h", -3),
		"attributes 0xff": body("\xff", 0, 0, 1, "k", 1, "v", 0),
	} {
		for codec := CompressionNone; codec <= CompressionZstd; codec++ {
			h, batch := wrap(t, codec, 1, b)
			assert.NoError(t, drain(&h, batch, NoRecordLimit, false), name)
			assert.NoError(t, drain(&h, batch, NoRecordLimit, true), name)
		}
	}
}

// wrap puts bytes into a batch that declares n records.
func wrap(t require.TestingT, codec int8, n int32, records []byte) (BatchHeader, []byte) {
	h := BatchHeader{Magic: 2, Attributes: int16(codec), NumRecords: n, LastOffsetDelta: n - 1, ProducerID: -1}
	batch, err := Compress(make([]byte, BatchHeaderSize), DefaultCompression(codec), records)
	require.NoError(t, err)
	h.Length = int32(len(batch) - 12)
	h.AppendTo(batch[:0])
	return h, batch
}

func drain(h *BatchHeader, batch []byte, maxBody int, partial bool) error {
	rr, err := OpenRecords(h, batch, maxBody)
	if err != nil {
		return err
	}
	defer rr.Close()
	var r Record
	for err == nil {
		if partial {
			err = rr.NextPartial(&r)
		} else {
			err = rr.Next(&r)
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// TestRecordLimit bounds one record, not the batch, and takes no memory on a record's word.
func TestRecordLimit(t *testing.T) {
	b := NewBatchBuilder()
	b.Compression = DefaultCompression(CompressionGzip)
	batch := build(t, b, []rec{{0, nil, make([]byte, 993), nil}, {0, nil, make([]byte, 993), nil}})
	h, err := ParseBatchHeader(batch)
	require.NoError(t, err)
	for _, partial := range []bool{false, true} {
		// attributes, timestamp delta, offset delta, key size, two bytes of value size, headers
		assert.NoError(t, drain(&h, batch, 1000, partial))
		assert.ErrorIs(t, drain(&h, batch, 999, partial), ErrInvalidRecord)
	}
	h, batch = wrap(t, CompressionGzip, 1, cat(math.MaxInt32, "\x00", 0, 0, -1, math.MaxInt32))
	n := allocated(func() {
		assert.ErrorIs(t, drain(&h, batch, math.MaxInt32, false), ErrInvalidRecord)
		assert.ErrorIs(t, drain(&h, batch, math.MaxInt32, true), ErrInvalidRecord)
	})
	assert.Less(t, n, uint64(1<<20))
}

func TestFindTimestamp(t *testing.T) {
	for codec := CompressionNone; codec <= CompressionZstd; codec++ {
		b := NewBatchBuilder()
		b.Compression, b.BaseOffset = DefaultCompression(codec), 100
		batch := build(t, b, []rec{{timestamp: 10}, {timestamp: 30}, {timestamp: 20}, {timestamp: 30}})
		h, err := ParseBatchHeader(batch)
		require.NoError(t, err)
		for _, c := range []struct{ timestamp, start, offset, found int64 }{
			{0, 0, 100, 10}, {10, 100, 100, 10}, {10, 102, 102, 20}, {11, 0, 101, 30}, {30, 0, 101, 30}, {30, 102, 103, 30}, {31, 0, -1, -1}, {10, 104, -1, -1},
		} {
			f, ok, err := FindTimestamp(&h, batch, c.timestamp, c.start, NoRecordLimit)
			require.NoError(t, err)
			assert.Equal(t, c.offset >= 0, ok)
			if ok {
				assert.Equal(t, Found{c.offset, c.found}, f)
			}
		}
		f, ok, err := FindMaxTimestamp(&h, batch, NoRecordLimit)
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Equal(t, Found{101, 30}, f)

		SetBatchTimestamps(batch, int16(codec)|AttributeLogAppendTime, 500)
		h, err = ParseBatchHeader(batch)
		require.NoError(t, err)
		f, ok, err = FindMaxTimestamp(&h, batch, NoRecordLimit)
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Equal(t, Found{100, 500}, f)
		f, _, err = FindTimestamp(&h, batch, 31, 102, NoRecordLimit)
		require.NoError(t, err)
		assert.Equal(t, Found{102, 500}, f)

		_, ok, err = FindMaxTimestamp(&BatchHeader{MaxTimestamp: -1}, nil, 0)
		require.NoError(t, err)
		assert.False(t, ok)
		h.NumRecords++
		_, _, err = FindTimestamp(&h, batch, 0, 1000, NoRecordLimit)
		assert.ErrorIs(t, err, ErrInvalidRecord)
	}
}

// FuzzRecords reads anything as the records of a batch: whole and by sizes, in place and compressed, with the same outcome.
func FuzzRecords(f *testing.F) {
	b := NewBatchBuilder()
	require.NoError(f, b.Append(5, []byte("key"), []byte("value"), Header{[]byte("h"), nil}))
	require.NoError(f, b.Append(6, nil, nil))
	batch, err := b.Finish()
	require.NoError(f, err)
	f.Add(int32(2), batch[BatchHeaderSize:])
	f.Add(int32(1), []byte{})
	f.Add(int32(1), []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x01})
	f.Fuzz(func(t *testing.T, n int32, records []byte) {
		h, plain := wrap(t, CompressionNone, n, records)
		plainErr := drain(&h, plain, NoRecordLimit, false)
		z, packed := wrap(t, CompressionSnappy, n, records)
		packedErr := drain(&z, packed, NoRecordLimit, false)
		assert.Equal(t, plainErr == nil, packedErr == nil, "%v, %v", plainErr, packedErr)
		partialErr := drain(&z, packed, NoRecordLimit, true)
		if plainErr == nil {
			assert.NoError(t, partialErr)
		}
	})
}

// FuzzBatch reads anything as a whole batch.
func FuzzBatch(f *testing.F) {
	for _, c := range codecs() {
		b := NewBatchBuilder()
		b.Compression = c
		f.Add(build(f, b, []rec{{5, []byte("k"), []byte("v"), nil}, {6, nil, text(300), nil}}))
	}
	f.Add(EndTxnMarker(1, 2, 3, ControlAbort, 4))
	f.Fuzz(func(t *testing.T, batch []byte) {
		h, err := ParseBatchHeader(batch)
		if err != nil {
			return
		}
		_ = drain(&h, batch, 1<<20, false)
		_ = drain(&h, batch, 1<<20, true)
		_, _, _ = ParseEndTxnMarker(&h, batch)
		_, _, _ = FindTimestamp(&h, batch, 0, 0, 1<<20)
		_, _, _ = FindMaxTimestamp(&h, batch, 1<<20)
	})
}

func BenchmarkRecordReader(b *testing.B) {
	for codec := CompressionNone; codec <= CompressionZstd; codec++ {
		bb := NewBatchBuilder()
		bb.Compression = DefaultCompression(codec)
		value := text(100)
		var recs []rec
		for range 1000 {
			recs = append(recs, rec{5, []byte("key"), value, nil})
		}
		batch := build(b, bb, recs)
		h, err := ParseBatchHeader(batch)
		require.NoError(b, err)
		for _, partial := range []bool{false, true} {
			b.Run(fmt.Sprintf("codec=%d/partial=%t", codec, partial), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := drain(&h, batch, NoRecordLimit, partial); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
			})
		}
	}
}
