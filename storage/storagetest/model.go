package storagetest

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"kshare/storage"
)

// modelBatch and modelLog are the plainest thing that does what a Log does.
type modelBatch struct {
	where storage.Batch
	bytes []byte
}

type modelLog struct {
	start, end int64
	batches    []modelBatch
}

func (m *modelLog) append(b modelBatch) {
	m.batches = append(m.batches, b)
	m.end = b.where.LastOffset + 1
}

func (m *modelLog) setStart(offset int64) {
	m.start = offset
	m.batches = slices.DeleteFunc(m.batches, func(b modelBatch) bool { return b.where.LastOffset < offset })
}

func (m *modelLog) truncate(offset int64) {
	if offset >= m.end {
		return
	}
	m.batches = slices.DeleteFunc(m.batches, func(b modelBatch) bool { return b.where.LastOffset >= offset })
	m.end = m.start
	if n := len(m.batches); n > 0 {
		m.end = m.batches[n-1].where.LastOffset + 1
	}
}

func (m *modelLog) read(offset, end int64, maxBytes int, atLeastOne bool) []byte {
	var out []byte
	for _, b := range m.batches {
		if b.where.LastOffset < offset {
			continue
		}
		fits := len(out)+len(b.bytes) <= maxBytes || atLeastOne && out == nil
		if b.where.BaseOffset >= end || !fits {
			break
		}
		out = append(out, b.bytes...)
	}
	return out
}

func (m *modelLog) size() (n int64) {
	for _, b := range m.batches {
		n += int64(len(b.bytes))
	}
	return n
}

// Model is a naive copy of a store that is compared with a real one.
type Model struct {
	logs     map[storage.PartitionID]*modelLog
	metadata map[string][]byte
}

// NewModel is the model of an empty store.
func NewModel() *Model {
	return &Model{logs: map[storage.PartitionID]*modelLog{}, metadata: map[string][]byte{}}
}

// Clone copies a model.
func (m *Model) Clone() *Model {
	c := NewModel()
	for id, l := range m.logs {
		c.logs[id] = &modelLog{start: l.start, end: l.end, batches: slices.Clone(l.batches)}
	}
	maps.Copy(c.metadata, m.metadata)
	return c
}

func (m *Model) log(id storage.PartitionID) *modelLog {
	if m.logs[id] == nil {
		m.logs[id] = &modelLog{}
	}
	return m.logs[id]
}

// partitions are the logs that random operations use: users' and internal ones.
var partitions = []storage.PartitionID{
	{Topic: [16]byte{1}},
	{Topic: [16]byte{1}, Partition: 1},
	{Topic: [16]byte{0xff, 0xff, 0xff}, Partition: 1<<31 - 1},
	{Topic: [16]byte{2, 15: 0xff}, Partition: 255},
}

func isInternal(id storage.PartitionID) bool { return id.Topic[0] == 2 || id.Topic[0] == 0xff }

// Machine runs random operations on a store and its model at once.
type Machine struct {
	Store storage.Store
	Model *Model
	// MaxBatch is the size of the largest batch.
	MaxBatch int
	held     [][2][]byte // slices that were read, and what was in them
}

func (m *Machine) open(t *rapid.T) (storage.PartitionID, storage.Log, *modelLog) {
	id := rapid.SampledFrom(partitions).Draw(t, "partition")
	l, err := m.Store.OpenLog(id, isInternal(id))
	require.NoError(t, err)
	return id, l, m.Model.log(id)
}

// Append adds a batch to a random log.
func (m *Machine) Append(t *rapid.T) {
	_, l, model := m.open(t)
	base := model.end
	if rapid.IntRange(0, 9).Draw(t, "hole") == 0 {
		base += rapid.Int64Range(1, 20).Draw(t, "width")
	}
	last := base + rapid.Int64Range(0, 5).Draw(t, "records")
	size := rapid.OneOf(rapid.IntRange(61, 400), rapid.IntRange(61, m.MaxBatch)).Draw(t, "size")
	h, b := Batch(base, last, rapid.Int64Range(0, 1<<40).Draw(t, "timestamp"), size)
	model.append(modelBatch{where: storage.BatchOf(h), bytes: bytes.Clone(b)})
	require.NoError(t, l.Append(h, b))
}

// AppendWrong tries to append what may not be.
func (m *Machine) AppendWrong(t *rapid.T) {
	_, l, model := m.open(t)
	h, b := Batch(model.end, model.end+1, 1, 100)
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		if model.end == 0 {
			return
		}
		h, b = Batch(model.end-1, model.end, 1, 100)
	case 1:
		b = b[:99]
	case 2:
		h.LastOffsetDelta = -1
	case 3:
		b = nil
	}
	require.Error(t, l.Append(h, b))
}

// SetStartOffset moves the start of a random log.
func (m *Machine) SetStartOffset(t *rapid.T) {
	_, l, model := m.open(t)
	offset := rapid.Int64Range(model.start, model.end).Draw(t, "offset")
	require.NoError(t, l.SetStartOffset(offset))
	model.setStart(offset)
	require.ErrorIs(t, l.SetStartOffset(model.start-1), storage.ErrOutOfRange)
	require.ErrorIs(t, l.SetStartOffset(model.end+1), storage.ErrOutOfRange)
}

// Truncate cuts the end of a random log.
func (m *Machine) Truncate(t *rapid.T) {
	_, l, model := m.open(t)
	offset := rapid.Int64Range(max(model.start-1, 0), model.end+1).Draw(t, "offset")
	require.NoError(t, l.Truncate(offset))
	model.truncate(offset)
}

// Roll has the next batch of a random log begin a segment.
func (m *Machine) Roll(t *rapid.T) {
	_, l, _ := m.open(t)
	l.Roll()
}

// Replace leaves some of the batches of some segments of a random log, or none.
func (m *Machine) Replace(t *rapid.T) {
	_, l, model := m.open(t)
	segments := l.Segments()
	if len(segments) < 2 {
		require.Error(t, l.Replace(model.start, model.end, nil))
		return
	}
	from := rapid.IntRange(0, len(segments)-2).Draw(t, "from")
	to := rapid.IntRange(from+1, len(segments)-1).Draw(t, "to")
	base, end := segments[from].BaseOffset, segments[to].BaseOffset
	require.Error(t, l.Replace(base, model.end, nil), "the active segment stays")
	require.Error(t, l.Replace(end, base, nil))
	var left [][]byte
	model.batches = slices.DeleteFunc(model.batches, func(b modelBatch) bool {
		if b.where.BaseOffset < base || b.where.BaseOffset >= end {
			return false
		}
		if rapid.Bool().Draw(t, "goes") {
			return true
		}
		left = append(left, bytes.Clone(b.bytes))
		return false
	})
	require.NoError(t, l.Replace(base, end, left))
	want := len(segments) - (to - from)
	if len(left) > 0 {
		want++
	}
	require.Len(t, l.Segments(), want)
}

// Read reads a part of a random log.
func (m *Machine) Read(t *rapid.T) {
	_, l, model := m.open(t)
	offset := rapid.Int64Range(model.start, model.end).Draw(t, "offset")
	end := rapid.Int64Range(offset, model.end+1).Draw(t, "end")
	maxBytes := rapid.IntRange(0, 3000).Draw(t, "maxBytes")
	atLeastOne := rapid.Bool().Draw(t, "atLeastOne")
	got, err := l.Read(offset, end, maxBytes, atLeastOne)
	require.NoError(t, err)
	require.Equal(t, model.read(offset, end, maxBytes, atLeastOne), flat(got))
	for _, b := range got {
		m.held = append(m.held, [2][]byte{b, bytes.Clone(b)})
	}
	segmentEnd := int64(math.MaxInt64)
	if i := slices.IndexFunc(model.batches, func(b modelBatch) bool { return b.where.LastOffset >= offset }); i >= 0 {
		for _, s := range slices.Backward(l.Segments()) {
			if s.BaseOffset <= model.batches[i].where.BaseOffset {
				break
			}
			segmentEnd = s.BaseOffset
		}
	}
	require.Equal(t, segmentEnd, l.SegmentEnd(offset))
	for _, wrong := range []int64{model.start - 1, model.end + 1} {
		_, err := l.Read(wrong, model.end, 1<<20, true)
		require.ErrorIs(t, err, storage.ErrOutOfRange)
	}
}

// DeleteLog removes a random log.
func (m *Machine) DeleteLog(t *rapid.T) {
	id := rapid.SampledFrom(partitions).Draw(t, "partition")
	require.NoError(t, m.Store.DeleteLog(id))
	delete(m.Model.logs, id)
}

// PutMetadata sets or removes a random key.
func (m *Machine) PutMetadata(t *rapid.T) {
	key := rapid.StringMatching(`[ab\xff/]{0,3}`).Draw(t, "key")
	value := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "value")
	require.NoError(t, m.Store.PutMetadata(key, value))
	if len(value) == 0 {
		delete(m.Model.metadata, key)
	} else {
		m.Model.metadata[key] = value
	}
}

// Commit waits for what was written.
func (m *Machine) Commit(t *rapid.T) { require.NoError(t, Wait(m.Store)) }

// Push hands over what was written.
func (m *Machine) Push(t *rapid.T) { require.NoError(t, m.Store.Push()) }

// Check compares the store with the model.
func (m *Machine) Check(t *rapid.T) {
	require.NoError(t, m.Model.Compare(m.Store))
	for _, h := range m.held {
		require.Equal(t, h[1], h[0], "bytes that were read have changed")
	}
}

// Wait waits for everything that was written to the store.
func Wait(s storage.Store) error {
	if c := s.Commit(); c != nil {
		return c.Wait()
	}
	return nil
}

// Compare tells where a store differs from the model.
func (m *Model) Compare(s storage.Store) error {
	for _, id := range partitions {
		l, err := s.OpenLog(id, isInternal(id))
		if err != nil {
			return err
		}
		model := m.logs[id]
		if model == nil {
			model = &modelLog{}
		}
		if err := model.compare(l, isInternal(id)); err != nil {
			return fmt.Errorf("log %x-%d: %w", id.Topic, id.Partition, err)
		}
	}
	for _, prefix := range []string{"", "a", "\xff", "zz"} {
		want := m.describe(prefix)
		var got []string
		if err := s.Metadata(prefix, func(key string, value []byte) error {
			got = append(got, fmt.Sprintf("%q=%x", key, value))
			return nil
		}); err != nil {
			return err
		}
		if !slices.Equal(want, got) {
			return fmt.Errorf("metadata under %q is %q, want %q", prefix, got, want)
		}
	}
	return nil
}

func (m *Model) describe(prefix string) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(m.metadata)) {
		if strings.HasPrefix(key, prefix) {
			out = append(out, fmt.Sprintf("%q=%x", key, m.metadata[key]))
		}
	}
	return out
}

func (m *modelLog) compare(l storage.Log, internal bool) error {
	if l.StartOffset() != m.start || l.EndOffset() != m.end || l.Size() != m.size() {
		return fmt.Errorf("is [%d, %d) of %d bytes, want [%d, %d) of %d", l.StartOffset(), l.EndOffset(), l.Size(), m.start, m.end, m.size())
	}
	got, err := l.Read(m.start, m.end, 1<<30, false)
	if err != nil {
		return err
	}
	if !bytes.Equal(flat(got), m.read(m.start, m.end, 1<<30, false)) {
		return fmt.Errorf("its bytes differ")
	}
	var batches []storage.Batch
	if err := l.Batches(0, func(b storage.Batch) bool {
		batches = append(batches, b)
		return true
	}); err != nil {
		return err
	}
	var want []storage.Batch
	for _, b := range m.batches {
		want = append(want, b.where)
	}
	if !slices.Equal(batches, want) {
		return fmt.Errorf("its batches are %v, want %v", batches, want)
	}
	return compareSegments(l, want, internal)
}

// compareSegments tells how a log's segments do not fit its batches. Of a segment whose first batches the start has passed they tell less than it does.
func compareSegments(l storage.Log, batches []storage.Batch, internal bool) error {
	segments := l.Segments()
	for i, s := range segments {
		if i == len(segments)-1 && s != l.Active() {
			return fmt.Errorf("the active segment is %+v, the last one %+v", l.Active(), s)
		}
		var own storage.Segment
		for ; len(batches) > 0 && (i == len(segments)-1 || batches[0].BaseOffset < segments[i+1].BaseOffset); batches = batches[1:] {
			if batches[0].BaseOffset < s.BaseOffset {
				return fmt.Errorf("the batch at %d lies before its segment %+v", batches[0].BaseOffset, s)
			}
			own.Note(&batches[0])
		}
		complete := own.Size == s.Size
		own.BaseOffset = s.BaseOffset
		if complete && s != own || s.Size < own.Size || s.MaxTimestamp < own.MaxTimestamp || !complete && i > 0 {
			return fmt.Errorf("segment %d is %+v, its batches give %+v", i, s, own)
		}
	}
	if (len(segments) > 0 || !internal) && len(batches) > 0 {
		return fmt.Errorf("no segment holds the batches from %d on", batches[0].BaseOffset)
	}
	return nil
}

func flat(slices [][]byte) (out []byte) {
	for _, s := range slices {
		out = append(out, s...)
	}
	return out
}
