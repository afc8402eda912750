package explore

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"kshare/protocol"
)

// Record is a record of a partition, or the marker of a transaction's end. What is no UTF-8 is in hexadecimal after 0x, and what is longer than MaxText is cut.
type Record struct {
	Offset        int64     `json:"offset"`
	Time          time.Time `json:"time"`
	Key           *string   `json:"key"`
	Value         *string   `json:"value"`
	Headers       []Header  `json:"headers"`
	ProducerID    int64     `json:"producerId"`
	ProducerEpoch int16     `json:"producerEpoch"`
	Transactional bool      `json:"transactional"`
	Marker        string    `json:"marker"` // COMMIT or ABORT, "" for a record
}

// Header is a header of a record.
type Header struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
}

// Bounds of a record's text.
const (
	MaxText    = 1000 // bytes of a key, a value, or a header's
	maxHeaders = 50
)

// Records are those of a partition from an offset on, at most so many, with the log's start offset and high watermark. It fails for a partition that does not exist.
func (s *Session) Records(topic string, partition int32, offset int64, limit int) (records []Record, start, end int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.play.Cluster()
	if c == nil {
		return nil, 0, 0, fmt.Errorf("there is no partition %s", partitionText(clip(topic), partition))
	}
	s.refresh()
	for _, t := range s.view.Topics {
		for _, p := range t.Partitions {
			if t.Name == topic && p.Partition == partition {
				start, end = p.StartOffset, p.HighWatermark
			}
		}
	}
	records = []Record{}
	for len(records) < limit {
		b, err := c.InspectRecords(topic, partition, offset, 1<<20)
		if err != nil {
			return nil, 0, 0, err
		}
		if len(b) == 0 {
			break
		}
		before := offset
		for len(b) > 0 {
			h, err := protocol.ParseBatchHeader(b)
			if err != nil || h.Size() < protocol.BatchHeaderSize || h.Size() > len(b) {
				return nil, 0, 0, fmt.Errorf("%s holds something that is no batch", partitionText(topic, partition))
			}
			for _, r := range recordsOf(&h, b[:h.Size()]) {
				if r.Offset >= offset && len(records) < limit {
					records = append(records, r)
				}
			}
			b, offset = b[h.Size():], max(offset, h.LastOffset()+1)
		}
		if offset <= before {
			break
		}
	}
	return records, start, end, nil
}

// recordsOf are the records of a batch, as far as they can be read.
func recordsOf(h *protocol.BatchHeader, batch []byte) (all []Record) {
	add := func(offset, delta int64) *Record {
		all = append(all, Record{Offset: offset, Time: time.UnixMilli(h.BaseTimestamp + delta).UTC(), Headers: []Header{}, ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch, Transactional: h.IsTransactional()})
		return &all[len(all)-1]
	}
	if h.IsControl() {
		r := add(h.BaseOffset, 0)
		if kind, _, ok := protocol.ParseEndTxnMarker(h, batch); ok {
			if r.Marker = "ABORT"; kind == protocol.ControlCommit {
				r.Marker = "COMMIT"
			}
		}
		return all
	}
	eachRecord(h, batch, func(offset int64, r *protocol.Record) {
		x := add(offset, r.TimestampDelta)
		x.Key, x.Value = text(r.Key), text(r.Value)
		for headers, n := r.Headers, r.NumHeaders; n > 0 && len(x.Headers) < maxHeaders; n-- {
			var one protocol.Header
			var err error
			if one, headers, err = protocol.NextHeader(headers); err == io.EOF || err != nil {
				break
			}
			x.Headers = append(x.Headers, Header{*text(append([]byte{}, one.Key...)), text(one.Value)})
		}
	})
	return all
}

// text is bytes as text, nil for null.
func text(b []byte) *string {
	if b == nil {
		return nil
	}
	s := ""
	switch cut := len(b) > MaxText; {
	case utf8.Valid(b) && !cut:
		s = string(b)
	case utf8.Valid(b):
		s = strings.ToValidUTF8(string(b[:MaxText]), "") + "..."
	case !cut:
		s = "0x" + hex.EncodeToString(b)
	default:
		s = "0x" + hex.EncodeToString(b[:MaxText]) + "..."
	}
	return &s
}
