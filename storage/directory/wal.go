package directory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A write-ahead log of pebble is a sequence of blocks, of chunks that do not cross them (pebble's package record). A chunk of stateFormat has CRC (4 bytes,
// little-endian as all), length of the payload (2), kind (1) and number of the log (4) before its payload.
const (
	walBlock       = 32 << 10
	walHeader      = 11
	walFullKind    = 5 // a record in one chunk
	walLastKind    = 8
	walLongHeader  = 19 // of newer formats: what is left of a block may be zeros up to one byte less than it
	walSuffix      = ".log"
	walCRCAddition = 0xa282ead8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkWALs looks at the write-ahead logs before pebble replays them. Pebble takes the first chunk of the last one that makes no sense for the end of what
// was written, without a word. That is so after an interrupted write, which is warned of; where sound chunks follow it is damage, and an error.
func checkWALs(fsys vfs.FS, dir string, log *slog.Logger) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		digits, ok := strings.CutSuffix(name, walSuffix)
		number, err := strconv.ParseUint(digits, 10, 64)
		if !ok || err != nil {
			continue
		}
		path := fsys.PathJoin(dir, name)
		content, err := readWhole(fsys, path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		w := wal{content: content, number: uint32(number)}
		whole, sound := w.ends()
		if whole == len(content) {
			continue
		}
		if next := w.soundAfter(sound); next >= 0 && !hasHole(content[sound:next], int64(sound)) {
			return fmt.Errorf("%s: the chunk at byte %d is damaged, and sound ones follow from byte %d on; restore the file from a copy, or cut it to %d bytes, which loses what was written behind them of topics, configurations, groups, transactions and share groups",
				path, sound, next, whole)
		}
		log.Warn("the log of the state ends in an incomplete write, which is dropped", "file", path, "position", whole, "bytes_dropped", len(content)-whole)
	}
	return nil
}

func readWhole(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// wal is a write-ahead log in memory.
type wal struct {
	content []byte
	number  uint32
}

// ends are where the last whole record ends and where the last sound chunk does before the first that is not sound, both the length of the content where
// there is no such one.
func (w *wal) ends() (whole, sound int) {
	at := 0
	for at < len(w.content) {
		if left := w.blockLeft(at); left < walLongHeader && isZero(w.content[at:at+left]) { // no chunk fits
			if whole == at {
				whole += left
			}
			at += left
			continue
		}
		if w.trails(at) {
			return len(w.content), len(w.content)
		}
		size, kind := w.chunk(at)
		if size == 0 {
			return whole, at
		}
		at += size
		if kind == walFullKind || kind == walLastKind {
			whole = at
		}
	}
	return whole, at
}

// blockLeft is how many bytes are left of the block at a position, or of the content.
func (w *wal) blockLeft(at int) int { return min(walBlock-at%walBlock, len(w.content)-at) }

// chunk is the size of the chunk at a position with its header, and its kind; 0 where there is no sound one.
func (w *wal) chunk(at int) (size int, kind byte) {
	left := w.blockLeft(at)
	if left < walHeader {
		return 0, 0
	}
	b := w.content[at : at+left]
	kind = b[6]
	size = walHeader + int(binary.LittleEndian.Uint16(b[4:]))
	if kind < walFullKind || kind > walLastKind || binary.LittleEndian.Uint32(b[7:]) != w.number || size > left {
		return 0, 0
	}
	crc := crc32.Checksum(b[6:size], castagnoli)
	if binary.LittleEndian.Uint32(b) != (crc>>15|crc<<17)+walCRCAddition {
		return 0, 0
	}
	return size, kind
}

// trails tells whether the chunk at a position is the one that pebble ends a log with: it has the number of the next one.
func (w *wal) trails(at int) bool {
	return w.blockLeft(at) >= walHeader && binary.LittleEndian.Uint32(w.content[at+7:]) == w.number+1 && isZero(w.content[at:at+6])
}

// soundAfter is where the first sound chunk behind a position begins, -1 where there is none.
func (w *wal) soundAfter(at int) int {
	for at++; at+walHeader <= len(w.content); at++ {
		if size, _ := w.chunk(at); size > 0 {
			return at
		}
	}
	return -1
}
