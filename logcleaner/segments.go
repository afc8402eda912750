// Package logcleaner decides what becomes of a log's old records: when a segment ends, which segments retention deletes, which compaction
// cleans, and what it leaves of their batches. It reads and writes no log itself.
//
// Sources: LogSegment.shouldRoll, UnifiedLog.deleteOldSegments, LogCleanerManager, Cleaner, MemoryRecords.filterTo.
package logcleaner

import (
	"math"

	"kshare/storage"
)

// Config is what of a topic's configuration segments, retention and compaction go by. Times are in ms, sizes in bytes.
type Config struct {
	SegmentBytes      int64
	SegmentMs         int64
	Delete, Compact   bool    // cleanup.policy
	RetentionMs       int64   // negative for no limit
	RetentionBytes    int64   // negative for no limit
	MinDirtyRatio     float64 // min.cleanable.dirty.ratio
	MinLagMs          int64   // min.compaction.lag.ms
	MaxLagMs          int64   // max.compaction.lag.ms
	DeleteRetentionMs int64
}

// Rolls tells whether a batch begins a segment behind the active one, which was begun at time created (ms). A log without batches has no segment to end.
func (c *Config) Rolls(active *storage.Segment, b *storage.Batch, created, now int64) bool {
	if active.Size == 0 {
		return false
	}
	waited := now - created
	if active.FirstTimestamp >= 0 {
		waited = b.MaxTimestamp - active.FirstTimestamp
	}
	ms := c.SegmentMs
	if c.Compact && c.MaxLagMs > 0 {
		ms = min(ms, c.MaxLagMs)
	}
	return active.Size+int64(b.Size) > c.SegmentBytes || waited > ms || b.LastOffset-active.BaseOffset > math.MaxInt32
}

// Deletable is how many of a log's first segments retention deletes. The active one goes too where all go.
func (c *Config) Deletable(segments []storage.Segment, now int64) int {
	if !c.Delete {
		return 0
	}
	n, over := 0, totalSize(segments)-c.RetentionBytes
	for c.RetentionBytes >= 0 && n < len(segments) && over >= segments[n].Size {
		over -= segments[n].Size
		n++
	}
	for c.RetentionMs >= 0 && n < len(segments) && segments[n].MaxTimestamp >= 0 && now-segments[n].MaxTimestamp > c.RetentionMs {
		n++
	}
	return n
}

// never is a time that does not come.
const never = int64(math.MaxInt64)

// DeletableAt is the first time from when on retention deletes a segment, if nothing is appended; math.MaxInt64 where it does not. growth is how large the
// active segment has to grow for the time to be now, math.MaxInt64 where that alone does not do it.
func (c *Config) DeletableAt(segments []storage.Segment, now int64) (at, growth int64) {
	if !c.Delete || len(segments) == 0 {
		return never, never
	}
	if c.Deletable(segments, now) > 0 {
		return now, never
	}
	at, growth = never, never
	first, active := &segments[0], &segments[len(segments)-1]
	if c.RetentionMs >= 0 && first.MaxTimestamp >= 0 {
		at = sum(first.MaxTimestamp, c.RetentionMs, 1)
	}
	if c.RetentionBytes >= 0 && len(segments) > 1 {
		growth = c.RetentionBytes + first.Size - (totalSize(segments) - active.Size)
	}
	return at, growth
}

// sum adds numbers that are not negative, as far as that goes.
func sum(n ...int64) (s int64) {
	for _, x := range n {
		if s > never-x {
			return never
		}
		s += x
	}
	return s
}

func totalSize(segments []storage.Segment) (n int64) {
	for i := range segments {
		n += segments[i].Size
	}
	return n
}

// Dirt is how much of a log is to be cleaned.
type Dirt struct {
	From, To int64   // offsets of what has not been cleaned yet and can be; both are where segments begin, unless the log's start lies behind that
	Ratio    float64 // of what can be cleaned to that and what is clean, in bytes
	// Due tells whether it is cleaned now.
	Due bool
}

// Log is a log as the cleaner sees it.
type Log struct {
	Segments    []storage.Segment
	StartOffset int64
	EndOffset   int64
	Stable      int64 // the last stable offset
	Cleaned     int64 // below this offset the log was cleaned
}

// firstDirty is the offset from which on the log has not been cleaned.
func (l *Log) firstDirty() int64 {
	if l.Cleaned < l.StartOffset || l.Cleaned > l.EndOffset {
		return l.StartOffset
	}
	return l.Cleaned
}

// holding is the index of the segment that holds an offset, or in front of the first one that lies behind it.
func (l *Log) holding(offset int64) int {
	i := 0
	for i+1 < len(l.Segments) && l.Segments[i+1].BaseOffset <= offset {
		i++
	}
	return i
}

// Dirt finds out what of a log is to be cleaned at a time.
func (c *Config) Dirt(l *Log, now int64) Dirt {
	d := Dirt{From: l.firstDirty()}
	d.To = d.From
	if !c.Compact || len(l.Segments) < 2 {
		return d
	}
	from, to := l.holding(d.From), l.firstUncleanable(c, d.From, now)
	if to <= from {
		return d
	}
	d.To = l.Segments[to].BaseOffset
	clean, dirty := totalSize(l.Segments[:from]), totalSize(l.Segments[from:to])
	if l.Segments[from].BaseOffset < d.From {
		clean += l.Segments[from].Size // it counts as both
	}
	d.Ratio = float64(dirty) / float64(clean+dirty)
	d.Due = d.Ratio > c.MinDirtyRatio || l.firstTimestamp(from) < now-max(c.MaxLagMs, 0)
	return d
}

// firstUncleanable is the index of the first segment that may not be cleaned yet: the active one, one that is not stable as a whole, or a dirty one
// with a record younger than the least lag.
func (l *Log) firstUncleanable(c *Config, from, now int64) int {
	active := len(l.Segments) - 1
	for i := l.holding(from); i < active; i++ {
		if l.Segments[i+1].BaseOffset > l.Stable || c.MinLagMs > 0 && max(l.Segments[i].MaxTimestamp, 0) > now-c.MinLagMs {
			return i
		}
	}
	return active
}

// firstTimestamp is the earliest of the first timestamps of the segments from one on to the active one, which has no say.
func (l *Log) firstTimestamp(from int) int64 {
	earliest := never
	for _, s := range l.Segments[from : len(l.Segments)-1] {
		if s.FirstTimestamp > 0 {
			earliest = min(earliest, s.FirstTimestamp)
		}
	}
	return earliest
}

// DirtyAt is the first time from now on at which a log is cleaned, if nothing is appended; math.MaxInt64 where it is not.
func (c *Config) DirtyAt(l *Log, now int64) int64 {
	if c.Dirt(l, now).Due {
		return now
	}
	if !c.Compact || len(l.Segments) < 2 {
		return never
	}
	// Only time that passes makes a difference: segments become older than the least lag, and one older than the largest.
	from := l.holding(l.firstDirty())
	times := []int64{}
	for _, s := range l.Segments[from : len(l.Segments)-1] {
		times = append(times, sum(max(s.MaxTimestamp, 0), c.MinLagMs))
	}
	if earliest := l.firstTimestamp(from); earliest < never {
		times = append(times, sum(earliest, max(c.MaxLagMs, 0), 1))
	}
	at := never
	for _, t := range times {
		if t > now && t < at && c.Dirt(l, t).Due {
			at = t
		}
	}
	return at
}

// maxGroup bounds the segments that are cleaned into one, in bytes, for what is left of them is made in memory.
const maxGroup = 64 << 20

// Groups are the segments below an offset as they are cleaned, each group into one segment: as many as segment.bytes has room for.
func (c *Config) Groups(segments []storage.Segment, below int64) (groups [][]storage.Segment) {
	size, limit := int64(0), min(c.SegmentBytes, maxGroup)
	for i, s := range segments {
		if s.BaseOffset >= below {
			break
		}
		end := below
		if i+1 < len(segments) {
			end = min(end, segments[i+1].BaseOffset)
		}
		n := len(groups) - 1
		if n >= 0 && size+s.Size <= limit && end-1-groups[n][0].BaseOffset <= math.MaxInt32 {
			groups[n] = append(groups[n], s)
			size += s.Size
			continue
		}
		groups = append(groups, []storage.Segment{s})
		size = s.Size
	}
	return groups
}
