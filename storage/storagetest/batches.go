// Package storagetest holds what every store must do, to be run on each, and helpers that make batches.
package storagetest

import (
	"encoding/binary"

	"kshare/protocol"
)

// Batch makes a valid batch of at least size bytes whose records have the offsets base to last. Its content is
// filler, not records, and depends on the arguments only.
func Batch(base, last, maxTimestamp int64, size int) (*protocol.BatchHeader, []byte) {
	size = max(size, protocol.BatchHeaderSize)
	h := &protocol.BatchHeader{
		BaseOffset:           base,
		Length:               int32(size - 12),
		PartitionLeaderEpoch: int32(base % 7),
		Magic:                2,
		LastOffsetDelta:      int32(last - base),
		BaseTimestamp:        maxTimestamp,
		MaxTimestamp:         maxTimestamp,
		ProducerID:           -1,
		ProducerEpoch:        -1,
		BaseSequence:         -1,
		NumRecords:           int32(last - base + 1),
	}
	b := h.AppendTo(make([]byte, 0, size))
	for i := len(b); i < size; i++ {
		b = append(b, byte(base)+byte(i*7))
	}
	h.CRC = protocol.BatchCRC(b)
	binary.BigEndian.PutUint32(b[17:], h.CRC)
	return h, b
}
