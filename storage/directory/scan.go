package directory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"kshare/protocol"
)

const (
	// scanWindow is how much of a segment is read at once as it is opened.
	scanWindow = 1 << 20
	// pageSize is what the operating system writes at once: a power loss takes whole pages.
	pageSize = 4096
	// searchBytes is how far behind damage a valid batch is looked for.
	searchBytes = 256 << 20
)

// scan reads a segment as a store is opened and makes its index. In a log's last segment it checks every CRC and
// takes what a kill or a power loss leaves for the end: the result is how many bytes were dropped, from s.size on.
// Any other damage is an error.
func (s *segment) scan(isLast bool) (dropped int64, err error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	file := fileWindow{s: s, size: info.Size()}
	least := s.base
	for s.size < file.size {
		h, why, err := file.check(s.size, least, isLast)
		if err != nil {
			return 0, err
		}
		if why != nil {
			torn := false
			if isLast {
				if torn, err = file.torn(s.size, least); err != nil {
					return 0, err
				}
			}
			if !torn {
				return 0, s.damaged(s.size, why)
			}
			s.torn = true
			return file.size - s.size, nil
		}
		if s.size > math.MaxUint32 || h.BaseOffset-s.base > math.MaxUint32 {
			return 0, s.damaged(s.size, errors.New("it lies further from the file's start than any segment reaches"))
		}
		s.note(&h)
		least = h.LastOffset() + 1
	}
	return 0, nil
}

// fileWindow reads a segment's file front to back.
type fileWindow struct {
	s    *segment
	size int64
	at   int64 // where buf begins
	buf  []byte
}

// bytes returns n bytes at a position. at+n <= size. They are valid until the next call.
func (w *fileWindow) bytes(at int64, n int) ([]byte, error) {
	if at < w.at || at+int64(n) > w.at+int64(len(w.buf)) {
		want := int(min(int64(max(n, scanWindow)), w.size-at))
		if cap(w.buf) < want {
			w.buf = make([]byte, want)
		}
		w.buf, w.at = w.buf[:want], at
		if k, err := w.s.file.ReadAt(w.buf, at); k < want {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			w.buf = w.buf[:0]
			return nil, fmt.Errorf("%s: %w", w.s.path, err)
		}
	}
	return w.buf[at-w.at:][:n], nil
}

// check returns the header at a position, or why there is no valid batch.
func (w *fileWindow) check(at, least int64, crc bool) (h protocol.BatchHeader, why, err error) {
	if w.size-at < protocol.BatchHeaderSize {
		return h, fmt.Errorf("%w: %d bytes are left", protocol.ErrShortBatch, w.size-at), nil
	}
	b, err := w.bytes(at, protocol.BatchHeaderSize)
	if err != nil {
		return h, nil, err
	}
	if h, err = protocol.ParseBatchHeader(b); err != nil {
		return h, nil, err
	}
	if why := checkHeader(&h, least, w.size-at); why != nil {
		return h, why, nil
	}
	if crc {
		if b, err = w.bytes(at, h.Size()); err != nil {
			return h, nil, err
		}
		if got := protocol.BatchCRC(b); got != h.CRC {
			return h, fmt.Errorf("its CRC is %08x, its bytes give %08x", h.CRC, got), nil
		}
	}
	return h, nil, nil
}

// torn tells whether the invalid bytes at a position are what an interrupted write leaves. They are where no valid
// batch lies behind them; and where one does, if a page of the bytes before it was never written, since pages
// that nobody waited for may reach the disk in any order.
func (w *fileWindow) torn(at, least int64) (bool, error) {
	rest, err := w.bytes(at, int(min(w.size-at, searchBytes)))
	if err != nil {
		return false, err
	}
	for i := 1; i+protocol.BatchHeaderSize <= len(rest); i++ {
		if rest[i+16] != 2 {
			continue
		}
		h, err := protocol.ParseBatchHeader(rest[i:])
		if err != nil || checkHeader(&h, least, int64(len(rest)-i)) != nil || protocol.BatchCRC(rest[i:i+h.Size()]) != h.CRC {
			continue
		}
		return hasHole(rest[:i], at), nil
	}
	return true, nil
}

// hasHole tells whether a page of b, which begins at a position where a batch was to begin, was never written: the rest of the first page is zeros,
// for what of it had been written before ended there, or a whole later one is.
func hasHole(b []byte, at int64) bool {
	from := 0
	if into := int(at % pageSize); into > 0 {
		if from = pageSize - into; from <= len(b) && isZero(b[:from]) {
			return true
		}
	}
	for ; from+pageSize <= len(b); from += pageSize {
		if isZero(b[from : from+pageSize]) {
			return true
		}
	}
	return false
}

func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
