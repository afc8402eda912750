package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	// zstdMaxWindow is the largest window that libzstd decodes unless told otherwise, and so Kafka.
	zstdMaxWindow = 128 << 20
	// zstdPlainWindow is the largest window that is allocated as declared: what every decoder must support.
	zstdPlainWindow = 8 << 20
	zstdMaxBlock    = 128 << 10
	zstdMagic       = 0xFD2FB528
	zstdSkippable   = 0x184D2A50 // to 0x184D2A5F
)

func (d *Decompressor) openZstd() error {
	src, err := d.limitZstdWindows()
	if err != nil {
		return corrupt("zstd", err)
	}
	if d.zstd == nil {
		d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdMaxWindow), zstd.WithDecodeBuffersBelow(0))
		if err != nil {
			return err
		}
	}
	d.in.Reset(src)
	if err := d.zstd.Reset(&d.in); err != nil {
		return corrupt("zstd", err)
	}
	return nil
}

// readZstd reads on through the frames of a stream. The decoder takes less than a magic behind a frame for its end; libzstd does not.
func (d *Decompressor) readZstd(p []byte) (int, error) {
	n, err := d.zstd.Read(p)
	switch {
	case err == io.EOF && d.cut:
		err = corrupt("zstd", errShort)
	case err != nil && err != io.EOF:
		err = corrupt("zstd", err)
	}
	return n, err
}

// limitZstdWindows lowers each declared window above zstdPlainWindow to what the frame's blocks can fill, because the
// decoder allocates a window before it sees a block. It returns src itself or a changed copy, and notes whether a
// large window remains. A frame it cannot follow to its end is left to the decoder, which finds the error.
func (d *Decompressor) limitZstdWindows() (out []byte, err error) {
	src := d.src
	out = src
	at := 0
	for len(src)-at >= 8 {
		b := src[at:]
		magic := binary.LittleEndian.Uint32(b)
		if magic&^0xf == zstdSkippable {
			at += 8 + int(binary.LittleEndian.Uint32(b[4:]))
			continue
		}
		f, ok := parseZstdFrame(b)
		if magic != zstdMagic || !ok {
			return out, nil
		}
		if f.window > zstdMaxWindow {
			return nil, errors.New("the window is larger than 128 MiB")
		}
		if f.window > zstdPlainWindow {
			if f.single && f.window > f.most {
				return nil, errors.New("the frame declares more content than its blocks can hold")
			}
			if !f.single && f.window > f.most {
				if &out[0] == &src[0] {
					out = bytes.Clone(src)
				}
				out[at+5] = zstdWindowByte(f.most)
			}
			d.large = d.large || min(f.window, f.most) > zstdPlainWindow
		}
		at += f.size
	}
	d.cut = len(src) > at && len(src)-at < 4
	return out, nil
}

// zstdFrame is what bounds the memory that a frame needs.
type zstdFrame struct {
	single bool   // no window of its own: it is the content size
	window uint64 // bytes
	most   uint64 // the most bytes that the blocks can decode to
	size   int    // bytes of the frame in the stream, or to the stream's end where it is cut
}

// parseZstdFrame follows a frame from its magic over its block headers (RFC 8878, 3.1.1).
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
	at += [4]int{0, 1, 2, 4}[flags&3]
	var content [8]byte
	n := [4]int{0, 2, 4, 8}[flags>>6]
	if f.single && n == 0 {
		n = 1
	}
	if len(b) < at+n {
		return f, false
	}
	copy(content[:], b[at:at+n])
	if f.single {
		f.window = binary.LittleEndian.Uint64(content[:])
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
		if at > len(b) {
			at = len(b)
		}
	}
	if flags&4 != 0 {
		at += 4
	}
	f.size = at
	return f, true
}

// zstdWindowByte is the descriptor of the smallest power of two that is a window of at least n bytes.
func zstdWindowByte(n uint64) byte {
	exponent := byte(0)
	for uint64(1)<<(10+exponent) < n {
		exponent++
	}
	return exponent << 3
}
