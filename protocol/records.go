package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrInvalidRecord is returned for records that break the record format: Kafka's InvalidRecordException.
var ErrInvalidRecord = errors.New("invalid record")

// errLengthVarint is the one break of the format that is no InvalidRecordException in Kafka: a record's length of more
// than five bytes ends in an IllegalArgumentException there.
var errLengthVarint = errors.New("a record's length is no varint")

// Record is one record of a batch of magic 2 (org.apache.kafka.common.record.DefaultRecord). Its slices point into
// the batch or into the reader's buffer.
type Record struct {
	Attributes     int8
	TimestampDelta int64 // ms after the batch's base timestamp
	OffsetDelta    int32 // offsets after the batch's base offset
	KeySize        int32 // bytes, -1 or less for a null key
	ValueSize      int32 // bytes, -1 or less for a null value
	Key, Value     []byte
	// Headers holds NumHeaders headers as they are encoded: key size, key, value size, value. NextHeader reads them.
	Headers    []byte
	NumHeaders int32
}

// Header is a record header. A nil Value is null.
type Header struct {
	Key   []byte
	Value []byte
}

// varint1 reads a zig-zag varint of one byte at b[at:], as most in a record are. It is small enough to be put in line.
func varint1(b []byte, at int) (v int32, ok bool) {
	if at >= len(b) || b[at] >= 0x80 {
		return 0, false
	}
	return int32(b[at]>>1) ^ -int32(b[at]&1), true
}

// varint reads a zig-zag varint of at most five bytes at b[at:]; next is 0 where there is none.
func varint(b []byte, at int) (v int32, next int) {
	var u uint32
	for shift := 0; shift < 35 && at < len(b); shift += 7 {
		c := b[at]
		at++
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), at
		}
	}
	return 0, 0
}

// varlong reads a zig-zag varint of at most ten bytes at b[at:]; next is 0 where there is none.
func varlong(b []byte, at int) (v int64, next int) {
	var u uint64
	for shift := 0; shift < 70 && at < len(b); shift += 7 {
		c := b[at]
		at++
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), at
		}
	}
	return 0, 0
}

// sized reads a size and that many bytes; a negative size is null. next is 0 where they are not there.
func sized(b []byte, at int) (p []byte, size int32, next int) {
	size, at = varint(b, at)
	if at == 0 || int(size) > len(b)-at {
		return nil, 0, 0
	}
	if size < 0 {
		return nil, size, at
	}
	end := at + int(size)
	return b[at:end:end], size, end
}

// NextHeader takes the first header off headers.
func NextHeader(headers []byte) (h Header, rest []byte, err error) {
	key, n, at := sized(headers, 0)
	if at == 0 || n < 0 {
		return h, nil, fmt.Errorf("%w: a header's key is cut or null", ErrInvalidRecord)
	}
	value, _, at := sized(headers, at)
	if at == 0 {
		return h, nil, fmt.Errorf("%w: a header's value is cut", ErrInvalidRecord)
	}
	return Header{key, value}, headers[at:], nil
}

// ReadRecord reads the record at the start of b into r and returns what follows it. The sizes inside the record must add up to its length.
func ReadRecord(b []byte, r *Record) (rest []byte, err error) {
	at, end, err := recordBounds(b)
	if err != nil {
		return nil, err
	}
	if !r.parse(b[at:end:end]) {
		return nil, errSizes(end - at)
	}
	return b[end:], nil
}

// recordBounds reads a record's length: the record lies at b[at:end].
func recordBounds(b []byte) (at, end int, err error) {
	length, ok := varint1(b, 0)
	if at = 1; !ok {
		length, at = varint(b, 0)
	}
	if end = at + int(length); at == 0 || length < 0 || end > len(b) {
		return 0, 0, errLength(b, at, length)
	}
	return at, end, nil
}

func errLength(b []byte, at int, length int32) error {
	switch {
	case at > 0:
		return fmt.Errorf("%w: its length is %d and %d bytes are left", ErrInvalidRecord, length, len(b)-at)
	case len(b) >= binary.MaxVarintLen32:
		return errLengthVarint
	}
	return fmt.Errorf("%w: the batch ends inside a record's length", ErrInvalidRecord)
}

func errSizes(length int) error {
	return fmt.Errorf("%w: the sizes inside it do not add up to its length of %d", ErrInvalidRecord, length)
}

// parse reads what follows a record's length.
func (r *Record) parse(b []byte) bool {
	key, value, headers := r.sizes(b)
	if headers == 0 {
		return false
	}
	r.Key, r.Value, r.Headers = nil, nil, b[headers:]
	if r.KeySize >= 0 {
		end := key + int(r.KeySize)
		r.Key = b[key:end:end]
	}
	if r.ValueSize >= 0 {
		end := value + int(r.ValueSize)
		r.Value = b[value:end:end]
	}
	return true
}

// sizes reads what follows a record's length but key, value and headers, and tells where those begin; headers is 0 where the
// sizes do not add up to b. It is what a Produce spends its time in, so each field has its short way.
func (r *Record) sizes(b []byte) (key, value, headers int) {
	if len(b) == 0 {
		return 0, 0, 0
	}
	r.Attributes = int8(b[0])
	at := 2
	if v, ok := varint1(b, 1); ok {
		r.TimestampDelta = int64(v)
	} else if r.TimestampDelta, at = varlong(b, 1); at == 0 {
		return 0, 0, 0
	}
	var ok bool
	if r.OffsetDelta, ok = varint1(b, at); ok {
		at++
	} else if r.OffsetDelta, at = varint(b, at); at == 0 {
		return 0, 0, 0
	}
	if r.KeySize, ok = varint1(b, at); ok {
		key = at + 1
	} else if r.KeySize, key = varint(b, at); key == 0 {
		return 0, 0, 0
	}
	if at = key + int(max(r.KeySize, 0)); at >= len(b) {
		return 0, 0, 0
	}
	if r.ValueSize, ok = varint1(b, at); ok {
		value = at + 1
	} else if r.ValueSize, value = varint(b, at); value == 0 {
		return 0, 0, 0
	}
	if at = value + int(max(r.ValueSize, 0)); at >= len(b) {
		return 0, 0, 0
	}
	if r.NumHeaders, ok = varint1(b, at); ok {
		headers = at + 1
	} else if r.NumHeaders, headers = varint(b, at); headers == 0 {
		return 0, 0, 0
	}
	if r.NumHeaders < 0 || int(r.NumHeaders) > len(b)-headers {
		return 0, 0, 0
	}
	if headersEnd(b, headers, r.NumHeaders) != len(b) {
		return 0, 0, 0
	}
	return key, value, headers
}

// headersEnd is where n headers that begin at b[at:] end, 0 where they are not there.
func headersEnd(b []byte, at int, n int32) int {
	for ; n > 0; n-- {
		var size int32
		if _, size, at = sized(b, at); at == 0 || size < 0 {
			return 0
		}
		if _, _, at = sized(b, at); at == 0 {
			return 0
		}
	}
	return at
}

// RecordReader reads the records of one batch in order, whatever their codec, without allocating per record.
type RecordReader struct {
	buf     []byte // buf[at:] is read and not handed out
	at      int
	d       *Decompressor // nil where buf is all there is
	left    int32         // records that the header promises beyond those read
	maxBody int           // bytes of one record behind its length
	own     []byte        // the buffer kept between batches, for compressed ones
	ended   error         // what the stream ended with
}

// recordBufferSize is how much of a compressed batch is decompressed at a time.
const recordBufferSize = 16 << 10

var recordReaders = sync.Pool{New: func() any { return new(RecordReader) }}

// OpenRecords begins to read the batch that h heads. maxBody bounds the bytes of one record of a compressed batch
// (max.decompressed.message.bytes); other records are read in place. Close must follow.
func OpenRecords(h *BatchHeader, batch []byte, maxBody int) (*RecordReader, error) {
	if len(batch) < BatchHeaderSize {
		return nil, fmt.Errorf("%w: %d bytes, a header is %d", ErrShortBatch, len(batch), BatchHeaderSize)
	}
	if h.NumRecords < 0 {
		return nil, fmt.Errorf("%w: the batch declares %d records", ErrInvalidRecord, h.NumRecords)
	}
	var d *Decompressor
	if h.Compression() != CompressionNone {
		var err error
		if d, err = NewDecompressor(h.Compression(), batch[BatchHeaderSize:]); err != nil {
			return nil, err
		}
	}
	rr := recordReaders.Get().(*RecordReader)
	rr.at, rr.left, rr.maxBody, rr.d, rr.ended = 0, h.NumRecords, maxBody, d, nil
	if d == nil {
		rr.buf = batch[BatchHeaderSize:]
		return rr, nil
	}
	if rr.own == nil {
		rr.own = make([]byte, recordBufferSize)
	}
	rr.buf = rr.own[:0]
	return rr, nil
}

// Close gives back what OpenRecords took. The reader may not be used afterwards.
func (rr *RecordReader) Close() {
	if rr.d != nil {
		rr.d.Close()
		rr.d = nil
	}
	if cap(rr.own) > maxKeptBuffer {
		rr.own = nil
	}
	rr.buf = nil
	recordReaders.Put(rr)
}

// fill makes at least n bytes available at buf[at:] if the stream has them. The buffer grows only as bytes arrive.
func (rr *RecordReader) fill(n int) {
	if rr.d == nil || rr.ended != nil || len(rr.buf)-rr.at >= n {
		return
	}
	kept := copy(rr.own, rr.buf[rr.at:])
	rr.at = 0
	for kept < n && rr.ended == nil {
		if kept == len(rr.own) {
			rr.own = append(rr.own, make([]byte, len(rr.own))...)
		}
		var k int
		k, rr.ended = rr.d.Read(rr.own[kept:])
		kept += k
	}
	rr.buf = rr.own[:kept]
}

// cut is the error of a batch whose bytes end where a record needs more: the stream's own unless it ended regularly.
func (rr *RecordReader) cut() error {
	if rr.ended != nil && rr.ended != io.EOF {
		return rr.ended
	}
	return fmt.Errorf("%w: the batch ends inside a record", ErrInvalidRecord)
}

// Next reads the next record. It returns io.EOF after as many as the header declares, if the batch ends there too.
// What it wraps otherwise is ErrInvalidRecord or what a Decompressor returns. The record's slices are valid until the next call.
func (rr *RecordReader) Next(r *Record) error {
	if rr.left == 0 {
		return rr.end()
	}
	if rr.d == nil {
		rest, err := ReadRecord(rr.buf[rr.at:], r)
		if err != nil {
			return err
		}
		rr.at = len(rr.buf) - len(rest)
		rr.left--
		return nil
	}
	length, err := rr.length()
	if err != nil {
		return err
	}
	rr.fill(length)
	if len(rr.buf)-rr.at < length {
		return rr.cut()
	}
	end := rr.at + length
	if !r.parse(rr.buf[rr.at:end:end]) {
		return errSizes(length)
	}
	rr.at = end
	rr.left--
	return nil
}

// end checks that nothing follows the last record.
func (rr *RecordReader) end() error {
	rr.fill(1)
	switch {
	case len(rr.buf) > rr.at:
		return fmt.Errorf("%w: bytes remain behind the last record", ErrInvalidRecord)
	case rr.ended != nil && rr.ended != io.EOF:
		return rr.ended
	}
	return io.EOF
}

// length reads a record's length and holds it against the limit.
func (rr *RecordReader) length() (int, error) {
	rr.fill(binary.MaxVarintLen32)
	length, at := varint(rr.buf, rr.at)
	switch {
	case at == 0 && len(rr.buf)-rr.at >= binary.MaxVarintLen32:
		return 0, errLengthVarint
	case at == 0:
		return 0, rr.cut()
	case length < 0:
		return 0, fmt.Errorf("%w: its length is %d", ErrInvalidRecord, length)
	case int(length) > rr.maxBody:
		return 0, fmt.Errorf("%w: its length is %d and the limit %d", ErrInvalidRecord, length, rr.maxBody)
	}
	rr.at = at
	return int(length), nil
}

// NextPartial is Next without key, value and headers: only their sizes are set. A record larger than the buffer is skipped piece
// by piece, so memory stays bounded. Like Kafka's skipKeyValueIterator it does not hold the sizes inside a
// record of a compressed batch against the record's length.
func (rr *RecordReader) NextPartial(r *Record) error {
	if rr.left == 0 {
		return rr.end()
	}
	if rr.d == nil {
		at, end, err := recordBounds(rr.buf[rr.at:])
		if err != nil {
			return err
		}
		if _, _, headers := r.sizes(rr.buf[rr.at+at : rr.at+end]); headers == 0 {
			return errSizes(end - at)
		}
		rr.at += end
		rr.left--
		return nil
	}
	length, err := rr.length()
	if err == errLengthVarint {
		return fmt.Errorf("%w: %w", ErrInvalidRecord, err)
	}
	if err != nil {
		return err
	}
	if end := rr.at + length; end <= len(rr.buf) {
		if _, _, headers := r.sizes(rr.buf[rr.at:end]); headers > 0 {
			rr.at = end
			rr.left--
			return nil
		}
	}
	if err := rr.partial(r); err != nil {
		return err
	}
	rr.left--
	return nil
}

func (rr *RecordReader) partial(r *Record) (err error) {
	rr.fill(1)
	if rr.at == len(rr.buf) {
		return rr.cut()
	}
	r.Attributes = int8(rr.buf[rr.at])
	rr.at++
	rr.fill(binary.MaxVarintLen64)
	delta, at := varlong(rr.buf, rr.at)
	if at == 0 {
		return rr.cut()
	}
	r.TimestampDelta, rr.at = delta, at
	if r.OffsetDelta, err = rr.varint(); err != nil {
		return err
	}
	if r.KeySize, err = rr.skip(); err != nil {
		return err
	}
	if r.ValueSize, err = rr.skip(); err != nil {
		return err
	}
	if r.NumHeaders, err = rr.varint(); err != nil {
		return err
	}
	if r.NumHeaders < 0 {
		return fmt.Errorf("%w: it declares %d headers", ErrInvalidRecord, r.NumHeaders)
	}
	for range r.NumHeaders {
		n, err := rr.skip()
		if err != nil {
			return err
		}
		if n < 0 {
			return fmt.Errorf("%w: a header's key is null", ErrInvalidRecord)
		}
		if _, err := rr.skip(); err != nil {
			return err
		}
	}
	return nil
}

func (rr *RecordReader) varint() (int32, error) {
	rr.fill(binary.MaxVarintLen32)
	v, at := varint(rr.buf, rr.at)
	if at == 0 {
		return 0, rr.cut()
	}
	rr.at = at
	return v, nil
}

// skip reads a size and passes over that many bytes.
func (rr *RecordReader) skip() (int32, error) {
	size, err := rr.varint()
	if err != nil {
		return 0, err
	}
	for n := int(size); n > 0; {
		rr.fill(1)
		k := min(n, len(rr.buf)-rr.at)
		if k == 0 {
			return 0, rr.cut()
		}
		rr.at += k
		n -= k
	}
	return size, nil
}
