package directory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sort"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kshare/protocol"
	"kshare/storage"
)

const (
	// indexBytes is how far apart the marks of a segment's index are at least: 8 bytes of memory for each 4 KiB of
	// records, as in Kafka (index.interval.bytes).
	indexBytes = 4096
	// headerWindow is how much is read at once where only headers are wanted.
	headerWindow = 8 << 10

	segmentSuffix = ".log"
	swapSuffix    = ".swap"
	temporary     = ".tmp"
)

// segmentName is the file name of a segment whose first batch begins at base or behind it. It is Kafka's.
func segmentName(base int64) string { return fmt.Sprintf("%020d%s", base, segmentSuffix) }

// segment is one file of a log: whole batches back to back, each with its Kafka header, as a Fetch returns them.
type segment struct {
	fs   vfs.FS
	path string
	file vfs.File // nil where removed, or where it could not be opened again
	base int64    // its batches have this base offset or a larger one
	last int64    // last offset; base-1 where it is empty
	size int64    // bytes of whole batches
	torn bool     // the file may not be appended to before it is cut to size
	gone bool     // it is removed
	// first and latest are the max timestamps, ms, of the first batch and of all; -1 for none.
	first, latest int64
	// index has a mark for the first batch and for each that begins indexBytes or more behind the mark before.
	index []mark
}

type mark struct {
	offset uint32 // base offset of a batch, less the segment's base
	at     uint32 // where it begins
}

// openSegment opens the file and makes it where there is none. Its content is not looked at yet.
func openSegment(fs vfs.FS, path string, base int64) (*segment, error) {
	file, err := fs.OpenReadWrite(path, "kshare-segment")
	if err != nil {
		return nil, err
	}
	return &segment{fs: fs, path: path, file: file, base: base, last: base - 1}, nil
}

// fits tells whether a batch of n bytes that begins at offset base can be found again in this segment.
func (s *segment) fits(base int64, n int, limit int64) bool {
	return s.size == 0 && base-s.base <= math.MaxUint32 ||
		s.size+int64(n) <= limit && s.size <= math.MaxUint32 && base-s.base <= math.MaxUint32
}

// note takes a batch in the index that lies at the end.
func (s *segment) note(h *protocol.BatchHeader) {
	if s.size == 0 {
		s.first, s.latest = h.MaxTimestamp, -1
	}
	s.latest = max(s.latest, h.MaxTimestamp)
	if n := len(s.index); n == 0 || s.size-int64(s.index[n-1].at) >= indexBytes {
		s.index = append(s.index, mark{offset: uint32(h.BaseOffset - s.base), at: uint32(s.size)})
	}
	s.size += int64(h.Size())
	s.last = h.LastOffset()
}

// append writes a batch behind the last. Where it fails the segment is as before, but torn; it must not be torn yet.
func (s *segment) append(h *protocol.BatchHeader, batch []byte) error {
	if s.file == nil {
		return fmt.Errorf("%s: %w", s.path, errNotOpen)
	}
	if _, err := s.file.WriteAt(batch, s.size); err != nil {
		s.torn = true
		return err
	}
	s.note(h)
	return nil
}

// cut makes the file end at size, which is the end of a batch. It writes a new file in place of the old one, so
// that a crash leaves one of them whole, and so that a reader of the old one is not disturbed.
func (s *segment) cut(size int64) (err error) {
	if s.file == nil {
		return fmt.Errorf("%s: %w", s.path, errNotOpen)
	}
	path := s.path + temporary
	file, err := s.fs.Create(path, "kshare-segment")
	if err != nil {
		return err
	}
	_, err = io.Copy(file, io.NewSectionReader(s.file, 0, size))
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = s.fs.Rename(path, s.path)
	}
	if err != nil {
		return errors.Join(err, s.fs.Remove(path))
	}
	s.torn = true // s.file has no name any more
	if err := syncDir(s.fs, s.fs.PathDir(s.path)); err != nil {
		return err
	}
	file, err = s.fs.OpenReadWrite(s.path, "kshare-segment")
	if err != nil {
		return err
	}
	old := s.file
	s.file, s.torn = file, false
	return old.Close()
}

// truncate keeps the batches that begin before the position at, which is where a batch begins, and forgets the rest.
func (s *segment) truncate(at int64) error {
	last, latest := s.base-1, int64(-1)
	if err := s.headers(0, func(h *protocol.BatchHeader, p int64) bool {
		if p < at {
			last, latest = h.LastOffset(), max(latest, h.MaxTimestamp)
		}
		return p < at
	}); err != nil {
		return err
	}
	if err := s.cut(at); err != nil {
		return err
	}
	s.index = s.index[:sort.Search(len(s.index), func(i int) bool { return int64(s.index[i].at) >= at })]
	s.size, s.last, s.latest = at, last, latest
	return nil
}

var errNotOpen = errors.New("the file could not be opened again: restart with the cause removed")

func (s *segment) sync() error {
	if s.gone {
		return nil
	}
	if s.file == nil {
		return fmt.Errorf("%s: %w", s.path, errNotOpen)
	}
	return s.file.Sync()
}

func (s *segment) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// remove closes the file first, as some file systems want it. Where it fails the segment can be used as before.
func (s *segment) remove() error {
	_ = s.close()
	err := s.fs.Remove(s.path)
	if s.gone = err == nil || errors.Is(err, fs.ErrNotExist); s.gone {
		return nil
	}
	file, again := s.fs.OpenReadWrite(s.path, "kshare-segment")
	if again == nil {
		s.file = file
	}
	return errors.Join(err, again)
}

// described is the segment as others see it.
func (s *segment) described() storage.Segment {
	return storage.Segment{BaseOffset: s.base, Size: s.size, FirstTimestamp: s.first, MaxTimestamp: s.latest}
}

// floor is a position at or before the batch that holds offset, or the first behind it.
func (s *segment) floor(offset int64) int64 {
	i := sort.Search(len(s.index), func(i int) bool { return s.base+int64(s.index[i].offset) > offset })
	if i == 0 {
		return 0
	}
	return int64(s.index[i-1].at)
}

// headers calls f for the batches from the one at position at on until f returns false.
func (s *segment) headers(at int64, f func(h *protocol.BatchHeader, at int64) bool) error {
	var window []byte
	buf := make([]byte, min(headerWindow, max(s.size-at, 0)))
	for windowAt := at; at < s.size; {
		if from := at - windowAt; from+protocol.BatchHeaderSize <= int64(len(window)) {
			h, err := s.header(window[from:], at)
			if err != nil {
				return err
			}
			if !f(&h, at) {
				return nil
			}
			at += int64(h.Size())
			continue
		}
		window = buf[:min(int64(len(buf)), s.size-at)]
		windowAt = at
		if err := s.readAt(window, at); err != nil {
			return err
		}
		if len(window) < protocol.BatchHeaderSize {
			return s.damaged(at, protocol.ErrShortBatch)
		}
	}
	return nil
}

func (s *segment) readAt(b []byte, at int64) error {
	if s.file == nil {
		return fmt.Errorf("%s: %w", s.path, errNotOpen)
	}
	n, err := s.file.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		return s.damaged(at, fmt.Errorf("the file ends before byte %d, it was longer as it was opened", at+int64(len(b))))
	}
	return fmt.Errorf("%s: %w", s.path, err)
}

// header reads and checks the header at the start of b, which lies at position at.
func (s *segment) header(b []byte, at int64) (protocol.BatchHeader, error) {
	h, err := protocol.ParseBatchHeader(b)
	if err == nil {
		err = checkHeader(&h, s.base, s.size-at)
	}
	if err != nil {
		return h, s.damaged(at, err)
	}
	return h, nil
}

func (s *segment) damaged(at int64, why error) error {
	return fmt.Errorf("%s: the batch at byte %d is damaged: %w; restore the file from a copy, or cut it to %d bytes and move away those of larger names, which loses their records",
		s.path, at, why, at)
}

// checkHeader tells why a header cannot be that of a batch that begins at offset least or behind it and takes at
// most room bytes.
func checkHeader(h *protocol.BatchHeader, least, room int64) error {
	switch {
	case h.Magic != 2:
		return fmt.Errorf("its magic is %d, not 2", h.Magic)
	case h.Size() < protocol.BatchHeaderSize || int64(h.Size()) > room:
		return fmt.Errorf("%w: its size is %d and %d bytes are left", protocol.ErrShortBatch, h.Size(), room)
	case h.BaseOffset < least:
		return fmt.Errorf("its base offset %d is below %d", h.BaseOffset, least)
	case h.LastOffsetDelta < 0 || h.BaseOffset > math.MaxInt64-1-int64(h.LastOffsetDelta):
		return fmt.Errorf("base offset %d and last offset delta %d give no last offset", h.BaseOffset, h.LastOffsetDelta)
	}
	return nil
}

// find returns the position of the batch that holds offset, or of the first behind it; size where there is none.
func (s *segment) find(offset int64) (int64, error) {
	found := s.size
	err := s.headers(s.floor(offset), func(h *protocol.BatchHeader, at int64) bool {
		if h.LastOffset() >= offset {
			found = at
			return false
		}
		return true
	})
	return found, err
}

// read returns whole batches in one fresh slice, as storage.Log.Read does, nil where none fits. The second result
// tells whether maxBytes kept a batch out, so that no later one may be read either.
func (s *segment) read(offset, end int64, maxBytes int, atLeastOne bool) ([]byte, bool, error) {
	at, err := s.find(offset)
	if err != nil || at == s.size {
		return nil, false, err
	}
	n := min(s.size-at, int64(max(maxBytes, protocol.BatchHeaderSize)))
	buf := make([]byte, n)
	if err := s.readAt(buf, at); err != nil {
		return nil, false, err
	}
	keep := int64(0)
	for keep+protocol.BatchHeaderSize <= n {
		h, err := s.header(buf[keep:], at+keep)
		if err != nil {
			return nil, false, err
		}
		if h.BaseOffset >= end {
			return buf[:keep:keep], false, nil
		}
		size := int64(h.Size())
		if keep == 0 && size > int64(maxBytes) {
			if !atLeastOne {
				return nil, true, nil
			}
			buf = make([]byte, size)
			return buf, true, s.readAt(buf, at)
		}
		if keep+size > n {
			break
		}
		keep += size
	}
	return buf[:keep:keep], at+keep < s.size, nil
}

func (s *segment) batches(offset int64, f func(storage.Batch) bool) (more bool, err error) {
	more = true
	err = s.headers(s.floor(offset), func(h *protocol.BatchHeader, _ int64) bool {
		if h.LastOffset() >= offset {
			more = f(storage.BatchOf(h))
		}
		return more
	})
	return more, err
}
