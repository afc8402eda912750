package storage

import (
	"fmt"

	"kshare/protocol"
)

// BatchOf is what a batch's header tells of where the batch lies.
func BatchOf(h *protocol.BatchHeader) Batch {
	return Batch{
		BaseOffset:   h.BaseOffset,
		LastOffset:   h.LastOffset(),
		MaxTimestamp: h.MaxTimestamp,
		LeaderEpoch:  h.PartitionLeaderEpoch,
		Size:         int32(h.Size()),
	}
}

// CheckAppend tells what keeps a batch from being appended to a log that ends at end: a size other than its
// header says, offsets below the end, or offsets that run backwards or past the largest one.
func CheckAppend(end int64, h *protocol.BatchHeader, batch []byte) error {
	switch {
	case len(batch) < protocol.BatchHeaderSize || len(batch) != h.Size():
		return fmt.Errorf("append: the batch has %d bytes, its header says %d", len(batch), h.Size())
	case h.BaseOffset < end:
		return fmt.Errorf("append: base offset %d lies below the end of the log, %d", h.BaseOffset, end)
	case h.LastOffsetDelta < 0 || h.LastOffset() < h.BaseOffset || h.LastOffset()+1 < 0:
		return fmt.Errorf("append: base offset %d and last offset delta %d give no last offset", h.BaseOffset, h.LastOffsetDelta)
	}
	return nil
}

// CheckRead tells whether a log of [start, end] cannot be read from offset on.
func CheckRead(start, end, offset int64) error {
	if offset < start || offset > end {
		return fmt.Errorf("read: %w: %d is not in [%d, %d]", ErrOutOfRange, offset, start, end)
	}
	return nil
}

// CheckStartOffset tells whether a log of [start, end] may not start at offset.
func CheckStartOffset(start, end, offset int64) error {
	if offset < start || offset > end {
		return fmt.Errorf("start offset: %w: %d is not in [%d, %d]", ErrOutOfRange, offset, start, end)
	}
	return nil
}
