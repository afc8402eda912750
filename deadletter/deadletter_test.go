package deadletter

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"kshare/protocol"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// read reads back what a batch holds: each record's key, value and headers in words.
func read(t require.TestingT, batch []byte) (all []string) {
	h, err := protocol.ParseBatchHeader(batch)
	require.NoError(t, err)
	require.Equal(t, len(batch), h.Size())
	require.Equal(t, h.CRC, protocol.BatchCRC(batch))
	rr, err := protocol.OpenRecords(&h, batch, math.MaxInt32)
	require.NoError(t, err)
	defer rr.Close()
	for range h.NumRecords {
		var r protocol.Record
		require.NoError(t, rr.Next(&r))
		text := fmt.Sprintf("%d:", h.BaseTimestamp+r.TimestampDelta)
		for _, part := range []struct {
			b    []byte
			size int32
		}{{r.Key, r.KeySize}, {r.Value, r.ValueSize}} {
			if part.size < 0 {
				text += " null"
			} else {
				text += fmt.Sprintf(" %q", part.b)
			}
		}
		for rest := r.Headers; len(rest) > 0; {
			var x protocol.Header
			x, rest, err = protocol.NextHeader(rest)
			require.NoError(t, err)
			text += fmt.Sprintf(" %s=%s", x.Key, x.Value)
		}
		all = append(all, text)
	}
	return all
}

var letters = Letters{Group: "workers", Topic: "orders", Partition: 3, FirstOffset: 7, LastOffset: 9, DeliveryCount: 2, Message: Exceeded}

func TestBatch(t *testing.T) {
	copies := &Copies{last: math.MaxInt64, records: map[int64]content{8: {key: []byte("k"), value: nil}, 9: {key: nil, value: []byte{}}}}
	batch, last, err := letters.Batch(protocol.NewBatchBuilder(), 7, 1000, 1<<20, copies)
	require.NoError(t, err)
	require.Equal(t, int64(9), last)
	tail := func(offset int) string {
		return fmt.Sprintf(" __dlq.errors.topic=orders __dlq.errors.partition=3 __dlq.errors.offset=%d __dlq.errors.group=workers"+
			" __dlq.errors.delivery.count=2 __dlq.errors.message=Offset delivery count exceeded the threshold.", offset)
	}
	require.Equal(t, []string{`1000: null null` + tail(7), `1000: "k" null` + tail(8), `1000: null ""` + tail(9)}, read(t, batch))
}

// A row is cut into batches that fit, one after the other; a record that does not fit alone is in one alone.
func TestBatchesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := letters
		l.LastOffset = l.FirstOffset + rapid.Int64Range(0, 30).Draw(t, "more")
		copies := &Copies{records: map[int64]content{}, last: math.MaxInt64}
		for offset := l.FirstOffset; offset <= l.LastOffset; offset++ {
			copies.records[offset] = content{value: make([]byte, rapid.IntRange(0, 300).Draw(t, "size"))}
		}
		most := rapid.IntRange(0, 2000).Draw(t, "max.message.bytes")
		var offsets []string
		for next := l.FirstOffset; next <= l.LastOffset; {
			if rapid.Bool().Draw(t, "look up part") {
				copies.last = rapid.Int64Range(next-1, l.LastOffset).Draw(t, "looked up to")
			}
			batch, last, err := l.Batch(protocol.NewBatchBuilder(), next, 1000, most, copies)
			require.NoError(t, err)
			records := read(t, batch)
			require.Len(t, records, int(last-next+1))
			require.True(t, len(batch) <= most || len(records) == 1, "%d records in %d bytes of %d", len(records), len(batch), most)
			require.LessOrEqual(t, last, max(next, copies.last))
			offsets = append(offsets, records...)
			next, copies.last = last+1, math.MaxInt64
		}
		for i, r := range offsets {
			require.Contains(t, r, fmt.Sprintf("offset=%d ", l.FirstOffset+int64(i)))
		}
	})
}

// source is a log for a test: batches of records by offset.
type source struct {
	batches [][]byte
	records map[int64]int // size of the value by offset
	large   map[int64]bool
	end     int64
}

func (s *source) read(offset int64) ([][]byte, error) {
	for i, b := range s.batches {
		h, err := protocol.ParseBatchHeader(b)
		if err != nil {
			return nil, err
		}
		if h.LastOffset() >= offset {
			return s.batches[i:min(i+2, len(s.batches))], nil
		}
	}
	return nil, nil
}

func value(offset int64, size int) []byte {
	return []byte(strings.Repeat(string(rune('a'+offset%26)), size))
}

// What is copied is what the source has, within the bytes that may be taken; nothing that is there and fits is left out, and every offset is settled in the end.
func TestCopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 600).Draw(t, "max")
		s := source{records: map[int64]int{}, large: map[int64]bool{}}
		for range rapid.IntRange(0, 6).Draw(t, "batches") {
			s.end += rapid.Int64Range(0, 2).Draw(t, "hole")
			b := protocol.NewBatchBuilder()
			b.BaseOffset = s.end
			if rapid.Bool().Draw(t, "compressed") {
				b.Compression = protocol.DefaultCompression(protocol.CompressionGzip)
			}
			require.NoError(t, b.Reset(nil))
			whole := 0
			for range rapid.IntRange(1, 5).Draw(t, "records") {
				size := rapid.IntRange(0, 300).Draw(t, "size")
				whole += protocol.RecordSize(b.NumRecords(), 0, nil, value(s.end, size), nil)
				require.NoError(t, b.Append(5, nil, value(s.end, size)))
				s.records[s.end] = size
				s.end++
			}
			for offset := b.BaseOffset; offset < s.end; offset++ {
				s.large[offset] = b.Compression.Type != protocol.CompressionNone && whole > most
			}
			batch, err := b.Finish()
			require.NoError(t, err)
			s.batches = append(s.batches, batch)
		}
		first := rapid.Int64Range(0, s.end).Draw(t, "first")
		last := first + rapid.Int64Range(0, s.end+3).Draw(t, "more")
		for next := first; next <= last; {
			c, err := Copy(next, last, most, s.read)
			require.NoError(t, err)
			taken := 0
			for offset, r := range c.records {
				require.True(t, next <= offset && offset <= c.last)
				require.Equal(t, value(offset, s.records[offset]), r.value)
				taken += len(r.value)
			}
			require.LessOrEqual(t, taken, most)
			settled := min(max(c.last, next), last)
			for offset := next; offset <= min(c.last, last); offset++ {
				size, is := s.records[offset]
				_, copied := c.records[offset]
				fits := is && !s.large[offset] && size+10 <= most
				require.True(t, copied || !fits, "offset %d of %d bytes is left out, %d bytes may be taken", offset, size, most)
			}
			next = settled + 1
		}
	})
}

// What cannot be read goes without, and the error tells of it.
func TestCopyOfWhatCannotBeRead(t *testing.T) {
	broken := errors.New("broken")
	c, err := Copy(3, 9, 1000, func(int64) ([][]byte, error) { return nil, broken })
	require.ErrorIs(t, err, broken)
	require.Empty(t, c.records)
	require.Equal(t, int64(9), c.last)

	c, err = Copy(3, 9, 1000, func(int64) ([][]byte, error) { return [][]byte{make([]byte, 70)}, nil })
	require.Error(t, err)
	require.Equal(t, int64(9), c.last)
}
