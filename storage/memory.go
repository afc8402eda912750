package storage

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"kshare/protocol"
	"kshare/storage/internal/runs"
)

// NewMemory makes a store that keeps everything in memory for as long as the process lives. It has no goroutine
// and its Commit is always nil. A log without batches takes about 100 bytes.
func NewMemory() Store {
	return &memory{logs: map[PartitionID]*memoryLog{}, metadata: map[string][]byte{}}
}

type memory struct {
	logs     map[PartitionID]*memoryLog
	metadata map[string][]byte
}

func (m *memory) OpenLog(id PartitionID, _ bool) (Log, error) {
	l := m.logs[id]
	if l == nil {
		l = &memoryLog{}
		m.logs[id] = l
	}
	return l, nil
}

func (m *memory) Logs() []PartitionID {
	return slices.Collect(maps.Keys(m.logs))
}

func (m *memory) DeleteLog(id PartitionID) error {
	delete(m.logs, id)
	return nil
}

func (m *memory) PutMetadata(key string, value []byte) error {
	if len(value) == 0 {
		delete(m.metadata, key)
	} else {
		m.metadata[key] = slices.Clone(value)
	}
	return nil
}

func (m *memory) Metadata(prefix string, f func(key string, value []byte) error) error {
	for _, key := range slices.Sorted(maps.Keys(m.metadata)) {
		if value, ok := m.metadata[key]; ok && strings.HasPrefix(key, prefix) {
			if err := f(key, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *memory) Commit() Commit { return nil }

func (m *memory) Push() error { return nil }

func (m *memory) Close() error {
	clear(m.logs)
	clear(m.metadata)
	return nil
}

type memoryLog struct {
	batches    runs.List
	segments   []Segment // none is empty
	rolled     bool
	start, end int64
}

func (l *memoryLog) Append(header *protocol.BatchHeader, batch []byte) error {
	if err := CheckAppend(l.end, header, batch); err != nil {
		return err
	}
	l.batches.Append(batch)
	if len(l.segments) == 0 || l.rolled {
		l.segments = append(l.segments, Segment{BaseOffset: header.BaseOffset})
		l.rolled = false
	}
	where := BatchOf(header)
	l.segments[len(l.segments)-1].Note(&where)
	l.end = header.LastOffset() + 1
	return nil
}

func (l *memoryLog) StartOffset() int64 { return l.start }
func (l *memoryLog) EndOffset() int64   { return l.end }
func (l *memoryLog) Size() int64        { return l.batches.Size() }

func (l *memoryLog) SetStartOffset(offset int64) error {
	if err := CheckStartOffset(l.start, l.end, offset); err != nil {
		return err
	}
	l.batches.DropBelow(offset)
	l.start = offset
	passed := len(l.segments)
	if !l.batches.Empty() {
		passed = l.segmentsFrom(l.batches.First()+1) - 1
	}
	l.segments = slices.Delete(l.segments, 0, passed)
	return nil
}

// segmentsFrom is how many segments begin below an offset.
func (l *memoryLog) segmentsFrom(offset int64) int {
	n, _ := slices.BinarySearchFunc(l.segments, offset, func(s Segment, o int64) int { return cmp.Compare(s.BaseOffset, o) })
	return n
}

func (l *memoryLog) Truncate(offset int64) error {
	if offset >= l.end {
		return nil
	}
	l.batches.Truncate(offset)
	if l.end = l.start; l.batches.Empty() {
		l.segments = nil
		return nil
	}
	l.end = l.batches.Last() + 1
	l.segments = l.segments[:l.segmentsFrom(l.end)]
	last := &l.segments[len(l.segments)-1]
	last.Size = 0
	return l.Batches(last.BaseOffset, func(b Batch) bool {
		last.Note(&b)
		return true
	})
}

func (l *memoryLog) Roll() { l.rolled = true }

func (l *memoryLog) Active() Segment {
	if len(l.segments) == 0 {
		return Segment{}
	}
	return l.segments[len(l.segments)-1]
}

func (l *memoryLog) SegmentEnd(offset int64) int64 {
	if len(l.segments) > 1 {
		if first, ok := l.batches.FirstFrom(offset); ok {
			if next := l.segmentsFrom(first + 1); next < len(l.segments) {
				return l.segments[next].BaseOffset
			}
		}
	}
	return math.MaxInt64
}

func (l *memoryLog) Segments() []Segment { return slices.Clone(l.segments) }

func (l *memoryLog) Replace(base, end int64, batches [][]byte) error {
	from, to, err := Replaced(l.segments, base, end)
	if err != nil {
		return err
	}
	var cleaned runs.List
	seg := Segment{BaseOffset: base}
	for _, b := range batches {
		header, err := protocol.ParseBatchHeader(b)
		if err != nil {
			return fmt.Errorf("replace: %w", err)
		}
		where := BatchOf(&header)
		seg.Note(&where)
		cleaned.Append(b)
	}
	l.batches.Replace(base, end, &cleaned)
	with := []Segment{seg}
	if seg.Size == 0 {
		with = nil
	}
	l.segments = slices.Replace(l.segments, from, to, with...)
	return nil
}

func (l *memoryLog) Read(offset, end int64, maxBytes int, atLeastOne bool) ([][]byte, error) {
	if err := CheckRead(l.start, l.end, offset); err != nil {
		return nil, err
	}
	return l.batches.Read(offset, end, maxBytes, atLeastOne), nil
}

func (l *memoryLog) Batches(offset int64, f func(Batch) bool) error {
	l.batches.Batches(max(offset, l.start), func(batch []byte) bool {
		header, err := protocol.ParseBatchHeader(batch)
		return err == nil && f(BatchOf(&header))
	})
	return nil
}
