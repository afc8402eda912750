package directory

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"kshare/protocol"
	"kshare/storage"
)

// stateLog is an internal log: each batch is a value of the state database under its base offset.
type stateLog struct {
	store      *store
	id         storage.PartitionID
	start, end int64
	size       int64 // -1 until someone asks
}

func openStateLog(s *store, id storage.PartitionID) (*stateLog, error) {
	l := &stateLog{store: s, id: id, size: -1}
	var err error
	if l.start, err = s.state.startOffset(id); err != nil {
		return nil, l.errorf("open", err)
	}
	if err := l.findEnd(); err != nil {
		return nil, l.errorf("open", err)
	}
	return l, nil
}

func (l *stateLog) errorf(doing string, err error) error {
	return l.store.errorf(fmt.Sprintf("%s internal log %s", doing, logName(l.id)), l.store.stateDir(), err)
}

func (l *stateLog) iter() (*pebble.Iterator, error) {
	lower := logKey(batchPrefix, l.id)
	return l.store.state.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: after(lower)})
}

// batchAt is the batch the iterator stands on. The bytes are valid until it moves.
func batchAt(it *pebble.Iterator) (protocol.BatchHeader, []byte, error) {
	value, err := it.ValueAndErr()
	if err != nil {
		return protocol.BatchHeader{}, nil, err
	}
	h, err := protocol.ParseBatchHeader(value)
	if err == nil {
		err = storage.CheckAppend(0, &h, value)
	}
	if base := int64(binary.BigEndian.Uint64(it.Key()[logKeySize:])); err == nil && h.BaseOffset != base {
		err = fmt.Errorf("the batch under offset %d says it begins at %d", base, h.BaseOffset)
	}
	return h, value, err
}

// each calls f for the batches from the one that holds offset on, or the first behind it, until f returns false.
func (l *stateLog) each(offset int64, f func(h *protocol.BatchHeader, batch []byte) bool) error {
	it, err := l.iter()
	if err != nil {
		return err
	}
	defer it.Close()
	ok := it.SeekLT(batchKey(l.id, offset))
	if ok {
		h, batch, err := batchAt(it)
		if err != nil {
			return err
		}
		if h.LastOffset() >= offset && !f(&h, batch) {
			return nil
		}
		ok = it.Next()
	} else if it.Error() == nil {
		ok = it.First()
	}
	for ; ok; ok = it.Next() {
		h, batch, err := batchAt(it)
		if err != nil {
			return err
		}
		if !f(&h, batch) {
			return nil
		}
	}
	return it.Error()
}

// findEnd sets end to the offset behind the last batch, or the start where there is none.
func (l *stateLog) findEnd() error {
	it, err := l.iter()
	if err != nil {
		return err
	}
	defer it.Close()
	l.end = l.start
	if it.Last() {
		h, _, err := batchAt(it)
		if err != nil {
			return err
		}
		l.end = max(l.start, h.LastOffset()+1)
	}
	return it.Error()
}

func (l *stateLog) Append(header *protocol.BatchHeader, batch []byte) error {
	if err := storage.CheckAppend(l.end, header, batch); err != nil {
		return err
	}
	if err := l.store.writeState(func() error {
		return l.store.state.db.Set(batchKey(l.id, header.BaseOffset), batch, pebble.NoSync)
	}); err != nil {
		return l.errorf("append to", err)
	}
	l.end = header.LastOffset() + 1
	if l.size >= 0 {
		l.size += int64(len(batch))
	}
	return nil
}

func (l *stateLog) StartOffset() int64 { return l.start }
func (l *stateLog) EndOffset() int64   { return l.end }

func (l *stateLog) SetStartOffset(offset int64) error {
	if err := storage.CheckStartOffset(l.start, l.end, offset); err != nil {
		return err
	}
	if offset == l.start {
		return nil
	}
	keep := offset // the base offset of the first batch that stays
	dropped := int64(0)
	err := l.each(l.start, func(h *protocol.BatchHeader, batch []byte) bool {
		if h.LastOffset() >= offset {
			keep = min(keep, h.BaseOffset)
			return false
		}
		dropped += int64(len(batch))
		return true
	})
	if err != nil {
		return l.errorf("move the start of", err)
	}
	if err := l.store.writeState(func() error {
		b := l.store.state.db.NewBatch()
		defer b.Close()
		if err := b.Set(logKey(startPrefix, l.id), startValue(offset), nil); err != nil {
			return err
		}
		if dropped > 0 {
			if err := b.DeleteRange(batchKey(l.id, 0), batchKey(l.id, keep), nil); err != nil {
				return err
			}
		}
		return b.Commit(pebble.NoSync)
	}); err != nil {
		return l.errorf("move the start of", err)
	}
	l.start = offset
	if l.size >= 0 {
		l.size -= dropped
	}
	return nil
}

func (l *stateLog) Truncate(offset int64) error {
	if offset >= l.end {
		return nil
	}
	from := int64(-1)
	err := l.each(max(offset, 0), func(h *protocol.BatchHeader, _ []byte) bool {
		from = h.BaseOffset
		return false
	})
	if err == nil && from >= 0 {
		err = l.store.writeState(func() error {
			return l.store.state.db.DeleteRange(batchKey(l.id, from), after(logKey(batchPrefix, l.id)), pebble.NoSync)
		})
	}
	if err == nil {
		l.size = -1
		err = l.findEnd()
	}
	if err != nil {
		return l.errorf("truncate", err)
	}
	return nil
}

func (l *stateLog) Read(offset, end int64, maxBytes int, atLeastOne bool) ([][]byte, error) {
	if err := storage.CheckRead(l.start, l.end, offset); err != nil {
		return nil, err
	}
	var out []byte
	err := l.each(offset, func(h *protocol.BatchHeader, batch []byte) bool {
		fits := len(out)+len(batch) <= maxBytes || atLeastOne && out == nil
		if h.BaseOffset >= end || !fits {
			return false
		}
		out = append(out, batch...)
		return true
	})
	if err != nil {
		return nil, l.errorf("read", err)
	}
	if out == nil {
		return nil, nil
	}
	return [][]byte{out}, nil
}

func (l *stateLog) Batches(offset int64, f func(storage.Batch) bool) error {
	err := l.each(max(offset, l.start), func(h *protocol.BatchHeader, _ []byte) bool {
		return f(storage.BatchOf(h))
	})
	if err != nil {
		return l.errorf("read", err)
	}
	return nil
}

// Size counts once and keeps count from then on: replay reads the whole log anyway, and few ask.
func (l *stateLog) Size() int64 {
	if l.size < 0 {
		size := int64(0)
		if err := l.each(l.start, func(_ *protocol.BatchHeader, batch []byte) bool {
			size += int64(len(batch))
			return true
		}); err != nil {
			return 0
		}
		l.size = size
	}
	return l.size
}

// An internal log has no segments.

func (l *stateLog) Roll()                       {}
func (l *stateLog) Active() storage.Segment     { return storage.Segment{} }
func (l *stateLog) SegmentEnd(int64) int64      { return math.MaxInt64 }
func (l *stateLog) Segments() []storage.Segment { return nil }

func (l *stateLog) Replace(base, end int64, _ [][]byte) error {
	_, _, err := storage.Replaced(nil, base, end)
	return err
}
