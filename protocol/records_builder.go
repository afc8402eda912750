package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
)

// BatchBuilder builds a batch of magic 2: of an internal topic, a transaction marker, or a client's batch whose codec is changed.
// Set the fields, call Reset, then Append, then Finish. It can be used again after another Reset.
type BatchBuilder struct {
	Compression   Compression
	BaseOffset    int64
	LeaderEpoch   int32
	ProducerID    int64 // -1 for none, and then ProducerEpoch and BaseSequence are -1 too
	ProducerEpoch int16
	BaseSequence  int32
	Transactional bool
	Control       bool
	// LogAppendTime, if it is 0 or more, is the timestamp in ms of all records; they keep their own deltas behind it.
	LogAppendTime int64
	// DeleteHorizon, if it is 0 or more, is the time in ms from which compaction drops the batch's tombstones. It takes the place of the base
	// timestamp (KIP-534).
	DeleteHorizon int64

	out    []byte // where the batch goes: the header's room, then the records unless they are compressed
	start  int    // of the batch in out
	z      *Compressor
	record []byte
	num    int32
	delta  int32 // of the next record
	base   int64
	max    int64
	maxAt  int64
}

// NewBatchBuilder returns a builder for uncompressed batches without producer. Call Append next.
func NewBatchBuilder() *BatchBuilder {
	b := &BatchBuilder{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LeaderEpoch: -1, LogAppendTime: -1, DeleteHorizon: -1}
	_ = b.Reset(nil)
	return b
}

// Reset begins a batch behind what dst holds, with the fields as they are set now.
// It fails for an unknown codec or a level that the codec does not have.
func (b *BatchBuilder) Reset(dst []byte) (err error) {
	b.start, b.num, b.delta, b.base, b.max, b.maxAt = len(dst), 0, 0, -1, -1, -1
	b.out, b.z = append(dst, make([]byte, BatchHeaderSize)...), nil
	if b.Compression.Type != CompressionNone {
		b.z, err = NewCompressor(b.out, b.Compression)
	}
	return err
}

// Len is the size of the batch so far in bytes. Up to a block of a compressed batch may not be counted yet.
func (b *BatchBuilder) Len() int {
	if b.z != nil {
		return b.z.Len() - b.start
	}
	return len(b.out) - b.start
}

// NumRecords is the number of records appended since Reset.
func (b *BatchBuilder) NumRecords() int32 { return b.num }

// SkipTo leaves a gap: the next record has this offset delta, which is no smaller than it would have been. Behind the last record it says where the
// batch ends.
func (b *BatchBuilder) SkipTo(offsetDelta int32) { b.delta = offsetDelta }

// Append adds a record with the next offset. The timestamp is in ms; a nil key or value is null.
func (b *BatchBuilder) Append(timestamp int64, key, value []byte, headers ...Header) error {
	b.record = b.record[:0]
	for _, h := range headers {
		if h.Key == nil {
			return fmt.Errorf("%w: a header's key is null", ErrInvalidRecord)
		}
		b.appendHeader(h)
	}
	return b.append(timestamp, key, value, int32(len(headers)))
}

// AppendRecord adds a record that was read from another batch, with the next offset and a timestamp in ms of its own.
// All its sizes are written anew: over-long varints and sizes below -1 do not survive, nor do its attributes.
func (b *BatchBuilder) AppendRecord(timestamp int64, r *Record) error {
	b.record = b.record[:0]
	for rest := r.Headers; len(rest) > 0; {
		h, next, err := NextHeader(rest)
		if err != nil {
			return err
		}
		b.appendHeader(h)
		rest = next
	}
	return b.append(timestamp, r.Key, r.Value, r.NumHeaders)
}

func (b *BatchBuilder) appendHeader(h Header) {
	b.record = appendSized(b.record, h.Key)
	b.record = appendSized(b.record, h.Value)
}

// append writes a record whose encoded headers are in b.record.
func (b *BatchBuilder) append(timestamp int64, key, value []byte, numHeaders int32) error {
	headers := len(b.record)
	if b.delta == math.MaxInt32 {
		return fmt.Errorf("%w: a batch holds no more than %d", ErrInvalidRecord, b.delta)
	}
	if b.num == 0 {
		b.base = timestamp
		if b.DeleteHorizon >= 0 {
			b.base = b.DeleteHorizon
		}
	}
	if timestamp > b.max {
		b.max, b.maxAt = timestamp, b.BaseOffset+int64(b.delta)
	}
	body := append(b.record, 0) // attributes: none are defined
	body = binary.AppendVarint(body, timestamp-b.base)
	body = binary.AppendVarint(body, int64(b.delta))
	body = appendSized(body, key)
	body = appendSized(body, value)
	body = binary.AppendVarint(body, int64(numHeaders))
	b.record = body
	length := len(body)
	if length > math.MaxInt32 {
		return fmt.Errorf("%w: it takes %d bytes", ErrInvalidRecord, length)
	}
	b.num++
	b.delta++
	if b.z == nil {
		b.out = binary.AppendVarint(b.out, int64(length))
		b.out = append(b.out, body[headers:]...)
		b.out = append(b.out, body[:headers]...)
		return nil
	}
	var size [binary.MaxVarintLen64]byte
	for _, p := range [3][]byte{size[:binary.PutVarint(size[:], int64(length))], body[headers:], body[:headers]} {
		if _, err := b.z.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// RecordSize is how many bytes a record adds to an uncompressed batch (DefaultRecord.sizeInBytes). A nil key or value is null.
func RecordSize(offsetDelta int32, timestampDelta int64, key, value []byte, headers []Header) int {
	size := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) + sizedSize(key) + sizedSize(value) + varintSize(int64(len(headers)))
	for _, h := range headers {
		size += sizedSize(h.Key) + sizedSize(h.Value)
	}
	return varintSize(int64(size)) + size
}

// sizedSize is how many bytes appendSized appends.
func sizedSize(p []byte) int {
	if p == nil {
		return 1
	}
	return varintSize(int64(len(p))) + len(p)
}

// varintSize is the length of v as a zig-zag varint.
func varintSize(v int64) int {
	var b [binary.MaxVarintLen64]byte
	return binary.PutVarint(b[:], v)
}

func appendSized(b, p []byte) []byte {
	if p == nil {
		return append(b, 1) // the varint -1
	}
	return append(binary.AppendVarint(b, int64(len(p))), p...)
}

// Finish ends the batch, writes its header and CRC, and returns what Reset was given with the batch behind it.
func (b *BatchBuilder) Finish() ([]byte, error) {
	if b.z != nil {
		out, err := b.z.Close()
		if err != nil {
			return nil, err
		}
		b.out = out
	}
	batch := b.out[b.start:]
	if len(batch)-batchLengthStart > math.MaxInt32 {
		return nil, fmt.Errorf("a batch of %d bytes is larger than its length field can say", len(batch))
	}
	h := b.Header(len(batch))
	h.AppendTo(batch[:0])
	binary.BigEndian.PutUint32(batch[17:], BatchCRC(batch))
	out := b.out
	b.out = nil
	return out, nil
}

// Header is the header of the batch as it stands, without its CRC, for a batch of size bytes.
func (b *BatchBuilder) Header(size int) BatchHeader {
	h := BatchHeader{
		BaseOffset: b.BaseOffset, Length: int32(size - batchLengthStart), PartitionLeaderEpoch: b.LeaderEpoch, Magic: 2,
		Attributes: int16(b.Compression.Type), LastOffsetDelta: b.delta - 1, BaseTimestamp: b.base, MaxTimestamp: b.max,
		ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch, BaseSequence: b.BaseSequence, NumRecords: b.num,
	}
	if b.Transactional {
		h.Attributes |= AttributeTransactional
	}
	if b.Control {
		h.Attributes |= AttributeControl
	}
	if b.DeleteHorizon >= 0 {
		h.Attributes |= AttributeDeleteHorizon
	}
	if b.LogAppendTime >= 0 {
		h.Attributes |= AttributeLogAppendTime
		h.MaxTimestamp = b.LogAppendTime
	}
	return h
}

// MaxTimestamp is the largest timestamp of the records so far and the offset of the first that has it; -1 and -1 where none is above -1.
func (b *BatchBuilder) MaxTimestamp() (timestamp, offset int64) { return b.max, b.maxAt }

// Control record types (org.apache.kafka.common.record.ControlRecordType).
const (
	ControlAbort  int16 = 0
	ControlCommit int16 = 1
)

// EndTxnMarker builds the control batch that ends a transaction: one record, no sequence, transactional. timestamp is in ms.
func EndTxnMarker(producerID int64, producerEpoch int16, coordinatorEpoch int32, controlType int16, timestamp int64) []byte {
	b := NewBatchBuilder()
	b.ProducerID, b.ProducerEpoch, b.Transactional, b.Control = producerID, producerEpoch, true, true
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(controlType))
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(coordinatorEpoch))
	// An uncompressed batch of one small record cannot fail.
	_ = b.Append(timestamp, key, value)
	batch, _ := b.Finish()
	return batch
}

// ParseEndTxnMarker reads the control record of a batch that h heads. ok is false where the batch is empty (its transaction
// was cleaned from the log) or holds a control record of another type or an unknown version.
func ParseEndTxnMarker(h *BatchHeader, batch []byte) (controlType int16, coordinatorEpoch int32, ok bool) {
	var r Record
	if !h.IsControl() || h.NumRecords < 1 || len(batch) < BatchHeaderSize || h.Compression() != CompressionNone {
		return 0, 0, false
	}
	if _, err := ReadRecord(batch[BatchHeaderSize:], &r); err != nil || len(r.Key) < 4 || len(r.Value) < 6 {
		return 0, 0, false
	}
	be := binary.BigEndian
	controlType = int16(be.Uint16(r.Key[2:]))
	if int16(be.Uint16(r.Key)) < 0 || int16(be.Uint16(r.Value)) < 0 || controlType < ControlAbort || controlType > ControlCommit {
		return 0, 0, false
	}
	return controlType, int32(be.Uint32(r.Value[2:])), true
}
