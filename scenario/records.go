package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"kshare/protocol"
)

// offered is a record as a script writes it: value, key:value, key:null. A nil is null.
type recordText struct{ key, value []byte }

// parseRecord reads a record. A colon in a key or value is written \: in quotes or not.
func parseRecord(s string) (r recordText) {
	key, value, keyed := cutUnescaped(s)
	if keyed {
		r.key = []byte(key)
	} else {
		value = key
	}
	if value != "null" || !keyed {
		r.value = []byte(value)
	}
	return r
}

// cutUnescaped cuts at the first colon that has no backslash before it and takes the backslashes out.
func cutUnescaped(s string) (before, after string, found bool) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == ':':
			i++
		case s[i] == ':':
			return strings.ReplaceAll(s[:i], `\:`, ":"), strings.ReplaceAll(s[i+1:], `\:`, ":"), true
		}
	}
	return strings.ReplaceAll(s, `\:`, ":"), "", false
}

// shownRecord is a record of an answer.
type shownRecord struct {
	offset    int64
	text      string // with its headers
	timestamp int64
	content   string // without them
	headers   []protocol.Header
}

// maxBody bounds the bytes that the records of a batch may decompress to.
const maxBody = 256 << 20

// decodeRecords reads the batches of an answer; a batch that is cut off at the end is left out, as clients do.
func decodeRecords(b []byte) (all []shownRecord, err error) {
	for len(b) >= protocol.BatchHeaderSize {
		h, err := protocol.ParseBatchHeader(b)
		if err != nil {
			return all, err
		}
		if h.Size() < protocol.BatchHeaderSize {
			return all, fmt.Errorf("a batch of %d bytes", h.Size())
		}
		if h.Size() > len(b) {
			break
		}
		if all, err = decodeBatch(all, &h, b[:h.Size()]); err != nil {
			return all, err
		}
		b = b[h.Size():]
	}
	return all, nil
}

func decodeBatch(all []shownRecord, h *protocol.BatchHeader, batch []byte) ([]shownRecord, error) {
	rr, err := protocol.OpenRecords(h, batch, maxBody)
	if err != nil {
		return all, err
	}
	defer rr.Close()
	for range h.NumRecords {
		var r protocol.Record
		if err := rr.Next(&r); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return all, err
		}
		timestamp := h.BaseTimestamp + r.TimestampDelta
		if h.IsLogAppendTime() {
			timestamp = h.MaxTimestamp
		}
		shown := shownRecord{offset: h.BaseOffset + int64(r.OffsetDelta), timestamp: timestamp, content: showContent(h, &r)}
		shown.headers, shown.text = showHeaders(&r, shown.content)
		all = append(all, shown)
	}
	return all, nil
}

// showContent writes a record without its headers: value, key:value, (commit) or (abort).
func showContent(h *protocol.BatchHeader, r *protocol.Record) string {
	if h.IsControl() {
		if len(r.Key) == 4 && r.Key[3] == 1 {
			return "(commit)"
		}
		return "(abort)"
	}
	text := showBytes(r.Value, r.ValueSize)
	if r.KeySize >= 0 {
		text = showBytes(r.Key, r.KeySize) + ":" + text
	}
	return text
}

// showHeaders takes the headers of a record out and writes them behind its content. They are the reader's no longer.
func showHeaders(r *protocol.Record, text string) (headers []protocol.Header, shown string) {
	for rest := r.Headers; len(rest) > 0; {
		var x protocol.Header
		var err error
		if x, rest, err = protocol.NextHeader(rest); err != nil {
			return nil, text + " (bad headers)"
		}
		headers = append(headers, protocol.Header{Key: bytes.Clone(x.Key), Value: bytes.Clone(x.Value)})
		value := "null"
		if x.Value != nil {
			value = showBytes(x.Value, int32(len(x.Value)))
		}
		text += fmt.Sprintf(" [%s=%s]", showBytes(x.Key, int32(len(x.Key))), value)
	}
	return headers, text
}

// longestShown is how many bytes of a key or value are shown.
const longestShown = 40

func showBytes(b []byte, size int32) string {
	if size < 0 {
		return "null"
	}
	s := string(b)
	end := ""
	if len(s) > longestShown {
		s, end = s[:longestShown], fmt.Sprintf("...(%d bytes)", len(b))
	}
	plain := utf8.ValidString(s) && s != "" && s != "null" && !strings.ContainsAny(s, " |:\"\\\n\r\t")
	for _, c := range s {
		plain = plain && c >= ' ' && c != 0x7f
	}
	if !plain {
		s = strconv.Quote(s)
	}
	return s + end
}

// mostShown is how many records of an answer are shown.
const mostShown = 20

// showRecords writes records in a row: 0 a | 1 b.
func showRecords(all []shownRecord) string {
	texts := []string{}
	for i, r := range all {
		if i == mostShown {
			texts = append(texts, fmt.Sprintf("and %d more to %d", len(all)-i, all[len(all)-1].offset))
			break
		}
		texts = append(texts, fmt.Sprintf("%d %s", r.offset, r.text))
	}
	return strings.Join(texts, " | ")
}
