package conformance

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

// offsetKind is what a client finds at an offset that it has acquired.
type offsetKind uint8

const (
	kindHole        offsetKind = iota // no batch of the answer has it
	kindData                          // a record
	kindControl                       // a control record, such as the marker of a transaction
	kindUndecodable                   // a batch that cannot be decoded
)

func (k offsetKind) String() string {
	return [...]string{"no record", "a record", "a control record", "a batch that cannot be decoded"}[k]
}

// kinds are the kinds of offsets: those of whole batches, and within batches those that have a record.
type kinds struct {
	batches []span
	data    map[int64]bool
}

type span struct {
	first, last int64
	kind        offsetKind // kindData: those of data are
}

func (k *kinds) at(offset int64) offsetKind {
	i, _ := slices.BinarySearchFunc(k.batches, offset, func(s span, o int64) int {
		if s.last < o {
			return -1
		}
		return 1
	})
	if i == len(k.batches) || k.batches[i].first > offset {
		return kindHole
	}
	if k.batches[i].kind == kindData && !k.data[offset] {
		return kindHole
	}
	return k.batches[i].kind
}

// maxRecordBody bounds what one record of a compressed batch is decompressed to.
const maxRecordBody = 64 << 20

// kindsOf finds the kinds of the acquired offsets in the records of an answer.
func kindsOf(records []byte, ranges []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord) *kinds {
	k := &kinds{data: map[int64]bool{}}
	if len(ranges) == 0 {
		return k
	}
	last := ranges[0].LastOffset
	for _, r := range ranges {
		last = max(last, r.LastOffset)
	}
	for len(records) > 0 {
		h, err := protocol.ParseBatchHeader(records)
		if err != nil {
			// What stands behind whole batches is a batch that is cut short: who reads as far as it goes finds nothing.
			break
		}
		s := span{h.BaseOffset, h.LastOffset(), kindData}
		size := h.Size()
		whole := size >= protocol.BatchHeaderSize && size <= len(records)
		switch {
		case !whole || h.Magic != 2 || h.CRC != protocol.BatchCRC(records[:size]) || h.LastOffsetDelta < 0:
			s.kind = kindUndecodable
		case h.IsControl():
			s.kind = kindControl
		case !k.read(&h, records[:size]):
			s.kind = kindUndecodable
		}
		if n := len(k.batches); n > 0 && s.first <= k.batches[n-1].last {
			break // batches ascend
		}
		k.batches = append(k.batches, span{s.first, max(s.first, s.last), s.kind})
		if !whole || s.first > last {
			break
		}
		records = records[size:]
	}
	return k
}

// read notes which offsets a batch has records at. It tells whether all could be read.
func (k *kinds) read(h *protocol.BatchHeader, batch []byte) bool {
	rr, err := protocol.OpenRecords(h, batch, maxRecordBody)
	if err != nil {
		return false
	}
	defer rr.Close()
	var r protocol.Record
	for range h.NumRecords {
		if rr.Next(&r) != nil {
			return false
		}
		k.data[h.BaseOffset+int64(r.OffsetDelta)] = true
	}
	return true
}
