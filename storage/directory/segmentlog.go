package directory

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"kshare/protocol"
	"kshare/storage"
	"kshare/storage/internal/runs"
)

// segmentLog is a user's log: segment files in a directory of its own, which is made with the first batch. The
// newest batches are in memory too, as far as the store's budget goes.
type segmentLog struct {
	store      *store
	id         storage.PartitionID
	dir        string
	made       bool       // dir is there
	segments   []*segment // in offset order; the last is appended to
	start, end int64
	first      int64     // position of the first live batch in segments[0]; 0 where there is none
	recent     runs.List // all batches from recent.First() on
	rolled     bool      // the next batch begins a segment
	// unfinished is what kept a Replace from removing the segments that it had replaced. The next start removes them.
	unfinished error
}

func openSegmentLog(s *store, id storage.PartitionID) (*segmentLog, error) {
	l := &segmentLog{store: s, id: id, dir: s.fs.PathJoin(s.logsDir(), logName(id))}
	l.made = s.logDirs[logName(id)]
	var err error
	if l.start, err = s.state.startOffset(id); err != nil {
		return nil, l.errorf("open", err)
	}
	if l.made {
		err = l.openSegments()
	}
	if err == nil {
		err = l.dropSegments(l.start)
	}
	if err == nil {
		l.findEnd()
		err = l.findFirst()
	}
	if err != nil {
		_ = l.close()
		return nil, l.errorf("open", err)
	}
	return l, nil
}

func (l *segmentLog) errorf(doing string, err error) error {
	return l.store.errorf(doing+" log", l.dir, err)
}

// openSegments reads what is there, and removes what an interrupted operation left.
func (l *segmentLog) openSegments() error {
	fs := l.store.fs
	names, err := fs.List(l.dir)
	if err != nil {
		return err
	}
	if names, err = finishSwaps(fs, l.dir, names); err != nil {
		return err
	}
	slices.Sort(names)
	var bases []int64
	for _, name := range names {
		if strings.HasSuffix(name, segmentSuffix+temporary) {
			if err := fs.Remove(fs.PathJoin(l.dir, name)); err != nil {
				return err
			}
			continue
		}
		base, err := strconv.ParseInt(strings.TrimSuffix(name, segmentSuffix), 10, 64)
		if err != nil || base < 0 || name != segmentName(base) {
			return unknownFile(fs.PathJoin(l.dir, name))
		}
		bases = append(bases, base)
	}
	for i, base := range bases {
		seg, err := openSegment(fs, fs.PathJoin(l.dir, segmentName(base)), base)
		if err != nil {
			return err
		}
		l.segments = append(l.segments, seg)
		isLast := i == len(bases)-1
		dropped, err := seg.scan(isLast)
		if err != nil {
			return err
		}
		if dropped > 0 {
			l.store.log.Warn("log ends in an incomplete write, which is dropped",
				"file", seg.path, "offset", seg.last+1, "position", seg.size, "bytes_dropped", dropped)
		}
		if !isLast && seg.last >= bases[i+1] {
			return fmt.Errorf("%s ends at offset %d and %s begins at %d: move one of them away",
				seg.path, seg.last, segmentName(bases[i+1]), bases[i+1])
		}
	}
	return nil
}

// findEnd sets end to the offset behind the last batch, or the start where there is none.
func (l *segmentLog) findEnd() {
	l.end = l.start
	for _, seg := range l.segments {
		l.end = max(l.end, seg.last+1)
	}
}

// findFirst sets first.
func (l *segmentLog) findFirst() (err error) {
	l.first = 0
	if len(l.segments) > 0 {
		l.first, err = l.segments[0].find(l.start)
	}
	return err
}

// dropSegments removes the segments that lie wholly below an offset.
func (l *segmentLog) dropSegments(offset int64) error {
	n := 0
	for n < len(l.segments) && l.segments[n].last < offset && l.segments[n].base < offset {
		n++
	}
	return l.removeSegments(0, n)
}

// remove removes a segment's file, on the disk too before another one goes: a power loss brings back none that lies beyond one that is gone. The flushing
// lock keeps a flush from using it meanwhile.
func (l *segmentLog) remove(seg *segment) error {
	l.store.flushing.Lock()
	defer l.store.flushing.Unlock()
	if err := seg.remove(); err != nil {
		return err
	}
	return syncDir(l.store.fs, l.dir)
}

func (l *segmentLog) Append(header *protocol.BatchHeader, batch []byte) error {
	if err := storage.CheckAppend(l.end, header, batch); err != nil {
		return err
	}
	if err := l.store.usable(); err != nil {
		return l.errorf("append to", err)
	}
	seg, err := l.active(header.BaseOffset, len(batch))
	if err != nil {
		return l.errorf("append to", err)
	}
	if seg.torn {
		l.store.flushing.Lock()
		err = seg.cut(seg.size)
		l.store.flushing.Unlock()
	}
	if err == nil {
		err = seg.append(header, batch)
	}
	if err != nil {
		return l.errorf("append to", err)
	}
	l.store.wrote(seg)
	l.end = header.LastOffset() + 1
	l.store.remember(l, batch)
	return nil
}

// active returns the segment that takes the next batch.
func (l *segmentLog) active(base int64, n int) (*segment, error) {
	limit := min(l.store.options.SegmentBytes, math.MaxUint32)
	if k := len(l.segments); k > 0 {
		seg := l.segments[k-1]
		if seg.fits(base, n, limit) && !(l.rolled && seg.size > 0) {
			return seg, nil
		}
		// A log's last segment alone may be lost or end in an incomplete write, so the one before is made safe first.
		if err := l.flush(seg); err != nil {
			return nil, err
		}
	}
	fs := l.store.fs
	var dirs []string
	if !l.made {
		if err := fs.MkdirAll(l.dir, 0o755); err != nil {
			return nil, err
		}
		l.made = true
		l.store.logDirs[logName(l.id)] = true
		dirs = append(dirs, l.store.logsDir())
	}
	seg, err := openSegment(fs, fs.PathJoin(l.dir, segmentName(base)), base)
	if err != nil {
		return nil, err
	}
	l.segments = append(l.segments, seg)
	l.rolled = false
	l.store.wrote(seg, append(dirs, l.dir)...)
	return seg, nil
}

// flush writes a segment and its name to the disk, whatever the policy is: a power loss costs the end of a log, never what lies before it.
func (l *segmentLog) flush(seg *segment) error {
	l.store.flushing.Lock()
	defer l.store.flushing.Unlock()
	err := seg.sync()
	for _, dir := range []string{l.dir, l.store.logsDir()} {
		if err == nil {
			err = syncDir(l.store.fs, dir)
		}
	}
	if err != nil {
		return l.store.fail(err)
	}
	return nil
}

func (l *segmentLog) Roll() { l.rolled = true }

func (l *segmentLog) Active() storage.Segment {
	if len(l.segments) == 0 {
		return storage.Segment{}
	}
	return l.segments[len(l.segments)-1].described()
}

func (l *segmentLog) SegmentEnd(offset int64) int64 {
	if next := l.segmentOf(offset) + 1; next < len(l.segments) {
		return l.segments[next].base
	}
	return math.MaxInt64
}

func (l *segmentLog) Segments() []storage.Segment {
	all := make([]storage.Segment, len(l.segments))
	for i, seg := range l.segments {
		all[i] = seg.described()
	}
	return all
}

func (l *segmentLog) StartOffset() int64 { return l.start }
func (l *segmentLog) EndOffset() int64   { return l.end }

func (l *segmentLog) Size() int64 {
	size := -l.first
	for _, seg := range l.segments {
		size += seg.size
	}
	return size
}

func (l *segmentLog) SetStartOffset(offset int64) error {
	if err := storage.CheckStartOffset(l.start, l.end, offset); err != nil {
		return err
	}
	if offset == l.start {
		return nil
	}
	err := l.store.writeState(func() error { return l.store.state.setStartOffset(l.id, offset) })
	if err != nil {
		return l.errorf("move the start of", err)
	}
	l.start = offset
	l.store.forget(l, func() { l.recent.DropBelow(offset) })
	if len(l.segments) > 0 && l.segments[0].last < offset {
		// Where all files go, the start offset is what tells the end, so it has to be safe before.
		if err = l.store.push(l.store.options.Flush == FlushAlways); err == nil {
			err = l.dropSegments(offset)
		}
	}
	if err = errors.Join(err, l.findFirst()); err != nil {
		return l.errorf("move the start of", err)
	}
	return nil
}

func (l *segmentLog) Truncate(offset int64) error {
	if offset >= l.end {
		return nil
	}
	l.store.forget(l, func() { l.recent.Truncate(offset) })
	err := l.truncate(offset)
	l.findEnd()
	if err = errors.Join(err, l.findFirst()); err != nil {
		return l.errorf("truncate", err)
	}
	return nil
}

// truncate removes from the end on, so that a crash leaves a log without a gap.
func (l *segmentLog) truncate(offset int64) error {
	for k := len(l.segments) - 1; k >= 0 && l.segments[k].last >= offset; k-- {
		seg := l.segments[k]
		at, err := seg.find(offset)
		if err != nil {
			return err
		}
		if at > 0 {
			l.store.flushing.Lock()
			defer l.store.flushing.Unlock()
			return seg.truncate(at)
		}
		if err := l.remove(seg); err != nil {
			return err
		}
		l.segments = l.segments[:k]
	}
	return nil
}

func (l *segmentLog) Read(offset, end int64, maxBytes int, atLeastOne bool) ([][]byte, error) {
	if err := storage.CheckRead(l.start, l.end, offset); err != nil {
		return nil, err
	}
	var out [][]byte
	if l.recent.Empty() || offset < l.recent.First() {
		cold := end // what lies below it is read from files
		if !l.recent.Empty() {
			cold = min(end, l.recent.First())
		}
		for _, seg := range l.segments[l.segmentOf(offset):] {
			if seg.base >= cold {
				break
			}
			b, full, err := seg.read(offset, cold, maxBytes, atLeastOne && out == nil)
			if err != nil {
				return nil, l.errorf("read", err)
			}
			if len(b) > 0 {
				out = append(out, b)
				maxBytes -= len(b)
			}
			if full {
				return out, nil
			}
		}
	}
	return append(out, l.recent.Read(offset, end, maxBytes, atLeastOne && out == nil)...), nil
}

func (l *segmentLog) Batches(offset int64, f func(storage.Batch) bool) error {
	offset = max(offset, l.start)
	for _, seg := range l.segments[l.segmentOf(offset):] {
		more, err := seg.batches(offset, f)
		if err != nil {
			return l.errorf("read", err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

func (l *segmentLog) close() (err error) {
	for _, seg := range l.segments {
		err = errors.Join(err, seg.close())
	}
	return err
}

// segmentOf is the index of the first segment whose last offset is at or above offset.
func (l *segmentLog) segmentOf(offset int64) int {
	k, _ := slices.BinarySearchFunc(l.segments, offset, func(s *segment, o int64) int {
		if s.last < o {
			return -1
		}
		return 1
	})
	return k
}
