package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// BatchHeaderSize is the number of bytes before the first record of a batch of magic 2, the length prefix included.
const BatchHeaderSize = 61

// batchLengthStart is the number of bytes that a batch's length field does not count: base offset and the field itself.
const batchLengthStart = 12

// Attribute bits of a batch (KIP-98, org.apache.kafka.common.record.DefaultRecordBatch).
const (
	AttributeCompressionMask = 0x07
	AttributeLogAppendTime   = 0x08
	AttributeTransactional   = 0x10
	AttributeControl         = 0x20
	AttributeDeleteHorizon   = 0x40
)

// BatchHeader is the header of a record batch of magic 2.
type BatchHeader struct {
	BaseOffset           int64
	Length               int32 // bytes after the length field
	PartitionLeaderEpoch int32
	Magic                int8
	CRC                  uint32 // CRC-32C of everything from the attributes on
	Attributes           int16
	LastOffsetDelta      int32
	BaseTimestamp        int64 // ms
	MaxTimestamp         int64 // ms
	ProducerID           int64
	ProducerEpoch        int16
	BaseSequence         int32
	NumRecords           int32
}

// ErrShortBatch is returned where fewer bytes are left than a batch header or the batch's own length needs.
var ErrShortBatch = errors.New("record batch is cut short")

// ParseBatchHeader reads the header at the start of b. It needs BatchHeaderSize bytes and looks at nothing behind them.
func ParseBatchHeader(b []byte) (BatchHeader, error) {
	if len(b) < BatchHeaderSize {
		return BatchHeader{}, fmt.Errorf("%w: %d bytes, a header is %d", ErrShortBatch, len(b), BatchHeaderSize)
	}
	be := binary.BigEndian
	return BatchHeader{
		BaseOffset:           int64(be.Uint64(b)),
		Length:               int32(be.Uint32(b[8:])),
		PartitionLeaderEpoch: int32(be.Uint32(b[12:])),
		Magic:                int8(b[16]),
		CRC:                  be.Uint32(b[17:]),
		Attributes:           int16(be.Uint16(b[21:])),
		LastOffsetDelta:      int32(be.Uint32(b[23:])),
		BaseTimestamp:        int64(be.Uint64(b[27:])),
		MaxTimestamp:         int64(be.Uint64(b[35:])),
		ProducerID:           int64(be.Uint64(b[43:])),
		ProducerEpoch:        int16(be.Uint16(b[51:])),
		BaseSequence:         int32(be.Uint32(b[53:])),
		NumRecords:           int32(be.Uint32(b[57:])),
	}, nil
}

// Size is the number of bytes of the whole batch, or a number below BatchHeaderSize where Length is nonsense.
func (h *BatchHeader) Size() int { return batchLengthStart + int(h.Length) }

// LastOffset is the offset of the batch's last record.
func (h *BatchHeader) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// Compression is the codec of the batch: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
func (h *BatchHeader) Compression() int8 { return int8(h.Attributes & AttributeCompressionMask) }

// IsTransactional tells whether the batch belongs to a transaction.
func (h *BatchHeader) IsTransactional() bool { return h.Attributes&AttributeTransactional != 0 }

// IsControl tells whether the batch holds a control record, such as a transaction marker.
func (h *BatchHeader) IsControl() bool { return h.Attributes&AttributeControl != 0 }

// IsLogAppendTime tells whether every record's timestamp is MaxTimestamp.
func (h *BatchHeader) IsLogAppendTime() bool { return h.Attributes&AttributeLogAppendTime != 0 }

// DeleteHorizon is the time in ms from which compaction drops the batch's tombstones or its marker, -1 where none is set.
func (h *BatchHeader) DeleteHorizon() int64 {
	if h.Attributes&AttributeDeleteHorizon == 0 {
		return -1
	}
	return h.BaseTimestamp
}

// AppendTo appends the header's 61 bytes to b as they stand, the CRC included.
func (h *BatchHeader) AppendTo(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint64(b, uint64(h.BaseOffset))
	b = be.AppendUint32(b, uint32(h.Length))
	b = be.AppendUint32(b, uint32(h.PartitionLeaderEpoch))
	b = append(b, byte(h.Magic))
	b = be.AppendUint32(b, h.CRC)
	b = be.AppendUint16(b, uint16(h.Attributes))
	b = be.AppendUint32(b, uint32(h.LastOffsetDelta))
	b = be.AppendUint64(b, uint64(h.BaseTimestamp))
	b = be.AppendUint64(b, uint64(h.MaxTimestamp))
	b = be.AppendUint64(b, uint64(h.ProducerID))
	b = be.AppendUint16(b, uint16(h.ProducerEpoch))
	b = be.AppendUint32(b, uint32(h.BaseSequence))
	return be.AppendUint32(b, uint32(h.NumRecords))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// BatchCRC is the CRC-32C of a whole batch: of all bytes from the attributes on.
func BatchCRC(batch []byte) uint32 { return crc32.Checksum(batch[21:], castagnoli) }

// SetBatchOffset writes what a broker assigns to a batch as it appends it, in place. Neither field is covered by the CRC.
func SetBatchOffset(batch []byte, baseOffset int64, partitionLeaderEpoch int32) {
	binary.BigEndian.PutUint64(batch, uint64(baseOffset))
	binary.BigEndian.PutUint32(batch[12:], uint32(partitionLeaderEpoch))
}

// SetBatchTimestamps writes attributes and max timestamp in place and renews the CRC that covers them.
func SetBatchTimestamps(batch []byte, attributes int16, maxTimestamp int64) {
	binary.BigEndian.PutUint16(batch[21:], uint16(attributes))
	binary.BigEndian.PutUint64(batch[35:], uint64(maxTimestamp))
	binary.BigEndian.PutUint32(batch[17:], BatchCRC(batch))
}
