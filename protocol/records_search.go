package protocol

import (
	"io"
	"math"
)

// Found is a record that a search found.
type Found struct {
	Offset    int64
	Timestamp int64 // ms
}

// FindTimestamp finds the first record of a batch, with its offsets assigned, whose timestamp is at or above timestamp (ms) and whose offset is at or above startOffset.
// maxBody is that of OpenRecords. Errors are those of RecordReader.Next. Source: FileRecords.searchForTimestamp.
func FindTimestamp(h *BatchHeader, batch []byte, timestamp, startOffset int64, maxBody int) (f Found, ok bool, err error) {
	if h.MaxTimestamp < timestamp {
		return Found{}, false, nil
	}
	return findRecord(h, batch, maxBody, func(f Found) bool { return f.Timestamp >= timestamp && f.Offset >= startOffset })
}

// FindMaxTimestamp finds the first record of a batch, with its offsets assigned, that has the batch's max timestamp.
// There is none where that is -1. Source: RecordBatch.offsetOfMaxTimestamp.
func FindMaxTimestamp(h *BatchHeader, batch []byte, maxBody int) (f Found, ok bool, err error) {
	if h.MaxTimestamp == -1 {
		return Found{}, false, nil
	}
	return findRecord(h, batch, maxBody, func(f Found) bool { return f.Timestamp == h.MaxTimestamp })
}

func findRecord(h *BatchHeader, batch []byte, maxBody int, match func(Found) bool) (Found, bool, error) {
	rr, err := OpenRecords(h, batch, maxBody)
	if err != nil {
		return Found{}, false, err
	}
	defer rr.Close()
	var r Record
	for {
		if err := rr.Next(&r); err == io.EOF {
			return Found{}, false, nil
		} else if err != nil {
			return Found{}, false, err
		}
		if f := (Found{h.BaseOffset + int64(r.OffsetDelta), h.RecordTimestamp(&r)}); match(f) {
			return f, true, nil
		}
	}
}

// RecordTimestamp is the timestamp of a record of the batch in ms: its own, or the batch's max timestamp where that is the append time.
func (h *BatchHeader) RecordTimestamp(r *Record) int64 {
	if h.IsLogAppendTime() {
		return h.MaxTimestamp
	}
	return h.BaseTimestamp + r.TimestampDelta
}

// NoRecordLimit is the maxBody of a reader that is not to refuse a record for its size.
const NoRecordLimit = math.MaxInt32
