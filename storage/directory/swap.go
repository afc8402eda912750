package directory

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kshare/storage"
)

// What replaces segments is written to a temporary file, synced and renamed to BASE-END.swap, from when on it stands for the segments that begin in
// [BASE, END). These are removed, then it is renamed to BASE.log. An interrupted replacement is therefore either not begun or finished as the log is
// opened again.

// swapName is the file name of what replaces the segments that begin in [base, end).
func swapName(base, end int64) string { return fmt.Sprintf("%020d-%020d%s", base, end, swapSuffix) }

func parseSwapName(name string) (base, end int64, ok bool) {
	from, to, _ := strings.Cut(strings.TrimSuffix(name, swapSuffix), "-")
	base, err1 := strconv.ParseInt(from, 10, 64)
	end, err2 := strconv.ParseInt(to, 10, 64)
	return base, end, err1 == nil && err2 == nil && base >= 0 && name == swapName(base, end)
}

// finishSwaps finishes the replacements of segments that were interrupted, and returns the names that are left of those in a log's directory.
func finishSwaps(fs vfs.FS, dir string, names []string) ([]string, error) {
	for _, swap := range names {
		base, end, ok := parseSwapName(swap)
		if !ok {
			continue
		}
		left := names[:0:0]
		for _, name := range names {
			at, err := strconv.ParseInt(strings.TrimSuffix(name, segmentSuffix), 10, 64)
			switch {
			case name == swap:
			case err == nil && name == segmentName(at) && at >= base && at < end:
				if err := fs.Remove(fs.PathJoin(dir, name)); err != nil {
					return nil, err
				}
			default:
				left = append(left, name)
			}
		}
		if err := syncDir(fs, dir); err != nil {
			return nil, err
		}
		if err := fs.Rename(fs.PathJoin(dir, swap), fs.PathJoin(dir, segmentName(base))); err != nil {
			return nil, err
		}
		if err := syncDir(fs, dir); err != nil {
			return nil, err
		}
		names = append(left, segmentName(base))
	}
	return names, nil
}

func (l *segmentLog) Replace(base, end int64, batches [][]byte) error {
	from, to, err := storage.Replaced(l.Segments(), base, end)
	if err != nil {
		return err
	}
	if err := errors.Join(l.store.usable(), l.unfinished); err != nil {
		return l.errorf("replace segments of", err)
	}
	if len(batches) > 0 {
		err = l.swap(from, to, end, batches)
	} else {
		err = l.removeSegments(from, to)
	}
	if l.recentFrom() < end {
		l.store.forget(l, func() { l.recent.DropBelow(end) })
	}
	if err = errors.Join(err, l.findFirst()); err != nil {
		return l.errorf("replace segments of", err)
	}
	return nil
}

// recentFrom is the offset from which on batches are in memory too.
func (l *segmentLog) recentFrom() int64 {
	if l.recent.Empty() {
		return l.end
	}
	return l.recent.First()
}

// removeSegments removes the segments from one to another, the oldest first: what supersedes a record goes no earlier than the record, on the disk too.
func (l *segmentLog) removeSegments(from, to int) error {
	for ; from < to; to-- {
		if err := l.remove(l.segments[from]); err != nil {
			return err
		}
		l.segments = slices.Delete(l.segments, from, from+1)
	}
	return nil
}

// swap replaces the segments from one to another, which end where offset end is.
func (l *segmentLog) swap(from, to int, end int64, batches [][]byte) error {
	fs, replaced := l.store.fs, slices.Clone(l.segments[from:to])
	base := replaced[0].base
	path := fs.PathJoin(l.dir, swapName(base, end))
	if err := l.writeSwap(path, fs.PathJoin(l.dir, segmentName(base)+temporary), batches); err != nil {
		return err
	}
	if l.unfinished = l.finishSwap(from, to, path, replaced); l.unfinished != nil {
		return l.unfinished
	}
	return nil
}

// writeSwap writes batches to a file that appears under its name once it is safe.
func (l *segmentLog) writeSwap(path, tmp string, batches [][]byte) error {
	fs := l.store.fs
	file, err := fs.Create(tmp, "kshare-segment")
	if err != nil {
		return err
	}
	offset := int64(0)
	for _, b := range batches {
		if _, err = file.WriteAt(b, offset); err != nil { // Write may change b (pebble's file systems with its invariants), which others read
			break
		}
		offset += int64(len(b))
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = fs.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, fs.Remove(tmp))
	}
	return nil
}

// finishSwap takes the file of a swap for the segments that it replaces and removes those. Where it fails it does what it can.
func (l *segmentLog) finishSwap(from, to int, path string, replaced []*segment) error {
	fs := l.store.fs
	if err := syncDir(fs, l.dir); err != nil {
		return err
	}
	seg, err := openSegment(fs, path, replaced[0].base)
	if err != nil {
		return err
	}
	if _, err := seg.scan(false); err != nil {
		return errors.Join(err, seg.close())
	}
	l.segments = slices.Replace(l.segments, from, to, seg)
	for _, old := range replaced {
		err = errors.Join(err, l.remove(old))
	}
	if err != nil {
		return err
	}
	name := fs.PathJoin(l.dir, segmentName(seg.base))
	if err := fs.Rename(path, name); err != nil {
		return err
	}
	seg.path = name
	return syncDir(fs, l.dir)
}
