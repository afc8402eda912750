package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Codecs of a batch, as its attributes hold them (org.apache.kafka.common.record.CompressionType).
const (
	CompressionNone int8 = iota
	CompressionGzip
	CompressionSnappy
	CompressionLZ4
	CompressionZstd
)

// Compression is a codec with the level that a topic or producer chose for it.
type Compression struct {
	Type int8 // CompressionNone to CompressionZstd
	// Level is gzip's 1 to 9 or -1 for its default, lz4's 1 to 17 and zstd's -131072 to 22. None and snappy have none.
	Level int
}

// Levels that Kafka uses where none is configured (compression.gzip.level, compression.lz4.level, compression.zstd.level).
const (
	DefaultGzipLevel = -1
	DefaultLZ4Level  = 9
	DefaultZstdLevel = 3
)

// DefaultCompression is a codec at Kafka's default level.
func DefaultCompression(codec int8) Compression {
	switch codec {
	case CompressionGzip:
		return Compression{codec, DefaultGzipLevel}
	case CompressionLZ4:
		return Compression{codec, DefaultLZ4Level}
	case CompressionZstd:
		return Compression{codec, DefaultZstdLevel}
	}
	return Compression{Type: codec}
}

// Errors of reading compressed records.
var (
	// ErrUnknownCompression is returned for a codec outside 0 to 4.
	ErrUnknownCompression = errors.New("unknown compression type")
	// ErrCorruptCompression is returned for bytes that are no stream of their codec, or not all of one.
	ErrCorruptCompression = errors.New("compressed records are corrupt")
	// ErrDecompressedTooLarge is returned where more comes out than the caller allows.
	ErrDecompressedTooLarge = errors.New("decompressed records exceed the limit")
)

func corrupt(codec string, err error) error {
	if errors.Is(err, ErrCorruptCompression) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrCorruptCompression, codec, err)
}

// Decompressor reads the records of a compressed batch as they were before compression.
// It never allocates more than what the input can produce block by block, so its memory stays below the codec's
// window (zstd 128 MiB, lz4 4 MiB) whatever the stream declares, with one exception that the format forces: a bare
// snappy block is decoded whole, to at most 22 times its size.
type Decompressor struct {
	codec  int8
	src    []byte       // not read yet; gzip and zstd keep their own position
	block  []byte       // decoded and not handed out yet; snappy and lz4
	buf    []byte       // what block points into, kept
	in     bytes.Reader // gzip's
	gzip   *gzip.Reader
	frames zstdFrames
	zstd   *zstd.Decoder
	lz4    lz4Frame
	raw    bool // snappy: one bare block
	ended  bool
}

// maxKeptBuffer is the largest buffer that a Decompressor keeps for its next stream.
const maxKeptBuffer = 1 << 20

var decompressors [CompressionZstd + 1]sync.Pool

// NewDecompressor begins to read src, which it does not change and which must stay as it is until Close.
// It reads the stream's header, so a wrong one is an error here.
func NewDecompressor(codec int8, src []byte) (*Decompressor, error) {
	if codec < CompressionNone || codec > CompressionZstd {
		return nil, fmt.Errorf("%w: %d", ErrUnknownCompression, codec)
	}
	d, ok := decompressors[codec].Get().(*Decompressor)
	if !ok {
		d = &Decompressor{codec: codec}
	}
	d.src, d.block, d.ended = src, nil, false
	var err error
	switch codec {
	case CompressionGzip:
		err = d.openGzip()
	case CompressionSnappy:
		err = d.openSnappy()
	case CompressionLZ4:
		err = d.openLZ4()
	case CompressionZstd:
		err = d.openZstd()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Close gives the Decompressor back. It may not be used afterwards.
func (d *Decompressor) Close() {
	d.src, d.block = nil, nil
	d.in.Reset(nil)
	if cap(d.buf) > maxKeptBuffer {
		d.buf = nil
	}
	d.closeZstd()
	decompressors[d.codec].Put(d)
}

// Read reads decompressed bytes. After io.EOF nothing of the stream is left; what follows it is ignored where Kafka ignores it.
func (d *Decompressor) Read(p []byte) (int, error) {
	switch d.codec {
	case CompressionGzip:
		return d.readGzip(p)
	case CompressionZstd:
		return d.readZstd(p)
	}
	for len(d.block) == 0 {
		if d.ended {
			return 0, io.EOF
		}
		var err error
		switch d.codec {
		case CompressionNone:
			d.block, d.src, d.ended = d.src, nil, true
		case CompressionSnappy:
			err = d.nextSnappy()
		case CompressionLZ4:
			err = d.nextLZ4()
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, d.block)
	d.block = d.block[n:]
	return n, nil
}

// room makes room for n decoded bytes.
func (d *Decompressor) room(n int) []byte {
	if cap(d.buf) < n {
		d.buf = make([]byte, n)
	}
	return d.buf[:n]
}

func (d *Decompressor) openGzip() error {
	d.in.Reset(d.src)
	var err error
	if d.gzip == nil {
		d.gzip, err = gzip.NewReader(&d.in)
	} else {
		err = d.gzip.Reset(&d.in)
	}
	if err != nil {
		return corrupt("gzip", err)
	}
	d.gzip.Multistream(false)
	return nil
}

// readGzip reads on through the members of a stream. What follows a member and is no member ends it: java.util.zip ignores it.
func (d *Decompressor) readGzip(p []byte) (int, error) {
	for {
		n, err := d.gzip.Read(p)
		if err == io.EOF && n == 0 {
			if d.in.Len() == 0 || d.gzip.Reset(&d.in) != nil {
				return 0, io.EOF
			}
			d.gzip.Multistream(false)
			continue
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			err = corrupt("gzip", err)
		}
		return n, err
	}
}

// Decompress appends the decompressed src to dst, at most limit bytes.
func Decompress(dst []byte, codec int8, src []byte, limit int) ([]byte, error) {
	d, err := NewDecompressor(codec, src)
	if err != nil {
		return dst, err
	}
	defer d.Close()
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := d.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst)-start > limit {
			return dst[:start], fmt.Errorf("%w of %d bytes", ErrDecompressedTooLarge, limit)
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst[:start], err
		}
	}
}
