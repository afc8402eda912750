package shareclient

import (
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

// maxGaps bounds the offsets of an acquired range that are looked at one by one where there may be no record. What lies beyond is left to its lock.
const maxGaps = 1 << 20

const controlBatch = 1 << 5 // of the attributes of a batch

// content is what an answer has of a partition.
type content struct {
	records map[int64]*kgo.Record
	unread  []span // of batches that cannot be read
	unknown []span // where there may be what a batch holds that says nothing of its offsets
	cut     bool   // there may be more behind the last batch that says so
	end     int64  // the offset behind that, 0 without one
}

// span is offsets from the first to the last, inclusive.
type span struct{ first, last int64 }

func (s span) has(offset int64) bool { return s.first <= offset && offset <= s.last }

// contentOf reads the batches of an answer, each by itself: one that cannot be read says nothing of the others.
func contentOf(b []byte, of Partition) *content {
	c := &content{records: map[int64]*kgo.Record{}}
	for len(b) > 0 {
		h, err := protocol.ParseBatchHeader(b)
		if err != nil || h.Size() < protocol.BatchHeaderSize || h.Size() > len(b) {
			c.cut = true
			break
		}
		batch := b[:h.Size()]
		b = b[h.Size():]
		last := h.LastOffset()
		if h.Magic != 2 || last < h.BaseOffset || last == math.MaxInt64 { // what its header says of offsets counts for nothing
			c.cut = true
			continue
		}
		if c.cut {
			c.unknown = append(c.unknown, span{c.end, h.BaseOffset - 1})
			c.cut = false
		}
		c.end = max(c.end, last+1)
		if h.CRC != protocol.BatchCRC(batch) {
			c.unread = append(c.unread, span{h.BaseOffset, last})
			continue
		}
		if h.Attributes&controlBatch != 0 {
			continue
		}
		read, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: h.BaseOffset, Topic: of.Topic, Partition: of.Partition},
			&kmsg.FetchResponseTopicPartition{Partition: of.Partition, RecordBatches: batch}, kgo.DefaultDecompressor(), nil)
		if read.Err != nil || len(read.Records) != int(h.NumRecords) {
			c.unread = append(c.unread, span{h.BaseOffset, last})
			continue
		}
		for _, r := range read.Records {
			c.records[r.Offset] = r
		}
	}
	return c
}

// without is what the consumer says by itself of an acquired offset that has no record in the answer: there is none (gap), or none that can be read (Reject). It
// says nothing where it cannot know.
func (c *content) without(offset int64) AcknowledgeType {
	has := func(s span) bool { return s.has(offset) }
	switch {
	case slices.ContainsFunc(c.unread, has):
		return Reject
	case slices.ContainsFunc(c.unknown, has) || c.cut && offset >= c.end:
		return undecided
	}
	return gap
}
