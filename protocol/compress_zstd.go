package protocol

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
)

const (
	// zstdMaxWindow is the largest window that libzstd decodes unless told otherwise, and so Kafka.
	zstdMaxWindow = 128 << 20
	// zstdKeptWindow is the largest window that a decoder may have had to be kept for another stream.
	zstdKeptWindow = 8 << 20
	zstdMaxBlock   = 128 << 10
	zstdMagic      = 0xFD2FB528
	zstdSkippable  = 0x184D2A50 // to 0x184D2A5F
)

func (d *Decompressor) openZstd() error {
	d.frames = zstdFrames{src: d.src, windows: d.frames.windows[:0]}
	if err := d.frames.limitWindows(); err != nil {
		return corrupt("zstd", err)
	}
	if d.zstd == nil {
		var err error
		d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdMaxWindow), zstd.WithDecodeBuffersBelow(0))
		if err != nil {
			return err
		}
	}
	if err := d.zstd.Reset(&d.frames); err != nil {
		return corrupt("zstd", err)
	}
	return nil
}

// readZstd reads on through the frames of a stream. The decoder takes less than a magic behind a frame for its end; libzstd does not.
func (d *Decompressor) readZstd(p []byte) (int, error) {
	n, err := d.zstd.Read(p)
	switch {
	case err == io.EOF && d.frames.cut:
		err = corrupt("zstd", errShort)
	case err != nil && err != io.EOF:
		err = corrupt("zstd", err)
	}
	return n, err
}

func (d *Decompressor) closeZstd() {
	if d.zstd != nil && (d.frames.large || inBubble()) {
		d.zstd.Close()
		d.zstd = nil
	}
	d.frames.src = nil
}

// inBubble tells whether the caller runs in a testing/synctest bubble, whose times have no monotonic reading. A decoder holds a channel, and what is made in a
// bubble may not be used outside it, so that none made there may be kept.
func inBubble() bool {
	now := time.Now()
	return now == now.Round(0)
}

// zstdFrames gives a stream to the decoder with each window lowered to what its frame's blocks can fill, because the
// decoder allocates a window before it sees a block.
type zstdFrames struct {
	src     []byte
	at      int
	windows []zstdWindow // ascending
	large   bool         // a window above zstdKeptWindow remains
	cut     bool         // the stream ends in less than a frame's magic
}

// zstdWindow is a window descriptor that stands in for the stream's own at a position.
type zstdWindow struct {
	at         int
	descriptor byte
}

func (f *zstdFrames) Read(p []byte) (int, error) {
	if f.at == len(f.src) {
		return 0, io.EOF
	}
	n := copy(p, f.src[f.at:])
	for _, w := range f.windows {
		if k := w.at - f.at; k >= 0 && k < n {
			p[k] = w.descriptor
		}
	}
	f.at += n
	return n, nil
}

// limitWindows follows the frames of the stream. One it cannot follow to its end is left to the decoder, which finds the error.
func (f *zstdFrames) limitWindows() error {
	at := 0
	for len(f.src)-at >= 8 {
		b := f.src[at:]
		magic := binary.LittleEndian.Uint32(b)
		if magic&^0xf == zstdSkippable {
			skip := uint64(8) + uint64(binary.LittleEndian.Uint32(b[4:]))
			at += int(min(skip, uint64(len(b))))
			continue
		}
		frame, ok := parseZstdFrame(b)
		if magic != zstdMagic || !ok {
			return nil
		}
		switch {
		case frame.window > zstdMaxWindow:
			return errors.New("the window is larger than 128 MiB")
		case frame.window <= frame.most:
		case frame.single:
			return errors.New("a frame declares more content than its blocks can hold")
		default:
			f.windows = append(f.windows, zstdWindow{at + 5, zstdDescriptor(frame.most)})
		}
		f.large = f.large || min(frame.window, frame.most) > zstdKeptWindow
		at += frame.size
	}
	f.cut = len(f.src) > at && len(f.src)-at < 4
	return nil
}

// zstdFrame is what bounds the memory that a frame needs.
type zstdFrame struct {
	single bool   // no window of its own: it is the content size
	window uint64 // bytes
	most   uint64 // the most bytes that the blocks can decode to
	size   int    // bytes of the frame in the stream, or to the stream's end where it is cut
}

// parseZstdFrame follows a frame from its magic over its block headers (RFC 8878, 3.1.1). b holds at least 8 bytes.
func parseZstdFrame(b []byte) (f zstdFrame, ok bool) {
	flags := b[4]
	f.single = flags&0x20 != 0
	at := 5
	if !f.single {
		exponent, mantissa := b[5]>>3, uint64(b[5]&7)
		base := uint64(1) << (10 + exponent)
		f.window = base + base/8*mantissa
		at++
	}
	at += [4]int{0, 1, 2, 4}[flags&3] // dictionary id
	n := [4]int{0, 2, 4, 8}[flags>>6]
	if f.single && n == 0 {
		n = 1
	}
	if len(b) < at+n {
		return f, false
	}
	if f.single {
		var content [8]byte
		copy(content[:], b[at:at+n])
		f.window = binary.LittleEndian.Uint64(content[:])
		if n == 2 {
			f.window += 256
		}
	}
	at += n
	for last := false; !last; {
		if len(b)-at < 3 {
			f.size = len(b)
			return f, true
		}
		head := uint32(b[at]) | uint32(b[at+1])<<8 | uint32(b[at+2])<<16
		size := int(head >> 3)
		last = head&1 != 0
		at += 3
		switch head >> 1 & 3 {
		case 0: // raw
			f.most += uint64(size)
			at += size
		case 1: // one byte repeated
			f.most += uint64(size)
			at++
		default:
			f.most += zstdMaxBlock
			at += size
		}
		at = min(at, len(b))
	}
	if flags&4 != 0 {
		at += 4
	}
	f.size = min(at, len(b))
	return f, true
}

// zstdDescriptor is the descriptor of the smallest power of two that is a window of at least n bytes.
func zstdDescriptor(n uint64) byte {
	exponent := byte(0)
	for uint64(1)<<(10+exponent) < n {
		exponent++
	}
	return exponent << 3
}
