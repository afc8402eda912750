package deadletter

import (
	"errors"
	"fmt"
	"math"

	"kshare/protocol"
)

// Copies are keys and values of source records that go along, by offset. Offsets up to last that have none go without: their record is gone, cannot be
// read, or is too large. Those behind last are for the next Copies.
type Copies struct {
	records map[int64]content
	last    int64
}

// content is what is copied of a record; nil is null.
type content struct{ key, value []byte }

// NoCopies are those of a group that wants none.
func NoCopies() *Copies { return &Copies{last: math.MaxInt64} }

// Copy looks the records of [first, last] up, of which it takes at most maxBytes together: what does not fit any more is left to the next call, and a
// record, or a compressed batch, that would not fit at all goes without. read returns batches from that of an offset on. What cannot be read goes
// without, and the error tells why; the copies hold all the same (ShareGroupDLQRecordFetcher).
func Copy(first, last int64, maxBytes int, read func(offset int64) ([][]byte, error)) (*Copies, error) {
	c := &copying{Copies: Copies{records: map[int64]content{}, last: first - 1}, end: last, left: maxBytes, most: maxBytes}
	err := c.run(first, read)
	if !c.full {
		c.last = last
	}
	return &c.Copies, err
}

// copying is one Copy under way.
type copying struct {
	Copies
	end  int64
	left int  // bytes
	most int  // bytes that a record alone may take
	full bool // a record did not fit any more
}

// run reads from an offset on until nothing is left, or fits, or comes.
func (c *copying) run(offset int64, read func(offset int64) ([][]byte, error)) error {
	for offset <= c.end && !c.stopped() {
		batches, err := read(offset)
		if err != nil {
			return err
		}
		before := offset
		for _, b := range batches {
			for len(b) > 0 && !c.stopped() {
				h, err := protocol.ParseBatchHeader(b)
				if err != nil {
					return err
				}
				if h.Size() < protocol.BatchHeaderSize || h.Size() > len(b) {
					return fmt.Errorf("%w: batch of %d bytes, %d left", protocol.ErrShortBatch, h.Size(), len(b))
				}
				if offset, err = c.batch(&h, b[:h.Size()], offset); err != nil {
					return err
				}
				b = b[h.Size():]
			}
		}
		if offset <= before {
			return nil // what is left lies in a hole
		}
	}
	return nil
}

// stopped tells whether nothing more is taken. Room that is filled exactly leaves the rest to the next call too.
func (c *copying) stopped() bool {
	c.full = c.full || c.left <= 0 && c.last < c.end
	return c.full
}

// batch takes the records of a batch from an offset on, and returns the offset to go on from.
func (c *copying) batch(h *protocol.BatchHeader, batch []byte, from int64) (next int64, err error) {
	records := batch[protocol.BatchHeaderSize:]
	if h.Compression() != protocol.CompressionNone {
		whole, err := protocol.Decompress(nil, h.Compression(), records, c.most)
		if errors.Is(err, protocol.ErrDecompressedTooLarge) { // its records go without
			end := min(h.LastOffset(), c.end)
			c.last = max(c.last, end)
			return max(from, end+1), nil
		}
		if err != nil {
			return from, err
		}
		records = whole
	}
	next = from
	var r protocol.Record
	for range h.NumRecords {
		rest, err := protocol.ReadRecord(records, &r)
		if err != nil {
			return next, err
		}
		size := len(records) - len(rest)
		records = rest
		offset := h.BaseOffset + int64(r.OffsetDelta)
		switch {
		case offset < from:
			continue
		case offset > c.end:
			return next, nil
		case size > c.most: // an uncompressed one
		case size > c.left:
			c.full = true
			return next, nil
		default:
			c.left -= size
			c.records[offset] = content{r.Key, r.Value}
		}
		next, c.last = max(next, offset+1), max(c.last, offset)
	}
	return next, nil
}
