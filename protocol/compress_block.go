package protocol

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/golang/snappy"
	"github.com/pierrec/lz4/v4"
)

// The header of snappy-java's stream: magic, version and lowest compatible version, then blocks with their length before them.
const (
	snappyHeaderSize = 16
	snappyBlockSize  = 32 << 10 // bytes before compression in what snappy-java writes
	// snappyMaxRatio bounds what a block can produce: the densest element is a copy of 64 bytes in 3.
	snappyMaxRatio = 22
)

var snappyMagic = [8]byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

var errShort = errors.New("the stream is cut short")

// openSnappy tells the two framings apart: snappy-java's header or, without it, one bare block.
func (d *Decompressor) openSnappy() error {
	if len(d.src) == 0 {
		return corrupt("snappy", errShort)
	}
	d.raw = len(d.src) < snappyHeaderSize || [8]byte(d.src) != snappyMagic
	if d.raw {
		return d.decodeSnappy(d.src)
	}
	d.src = d.src[snappyHeaderSize:] // snappy-java writes two version numbers and looks at neither
	return nil
}

func (d *Decompressor) decodeSnappy(b []byte) error {
	n, err := snappy.DecodedLen(b)
	if err == nil && n > len(b)*snappyMaxRatio {
		err = snappy.ErrCorrupt
	}
	if err != nil {
		return corrupt("snappy", err)
	}
	if d.block, err = snappy.Decode(d.room(n), b); err != nil {
		return corrupt("snappy", err)
	}
	d.ended = d.raw
	return nil
}

// nextSnappy decodes the next block. Fewer bytes than a length or a repeated header needs end the stream, as in snappy-java.
func (d *Decompressor) nextSnappy() error {
	for {
		if len(d.src) < 4 {
			d.ended = true
			return nil
		}
		if [4]byte(d.src) != [4]byte(snappyMagic[:4]) {
			break
		}
		if len(d.src) < snappyHeaderSize || [8]byte(d.src) != snappyMagic {
			d.ended = true
			return nil
		}
		d.src = d.src[snappyHeaderSize:]
	}
	n := binary.BigEndian.Uint32(d.src)
	if uint64(n) > uint64(len(d.src)-4) {
		return corrupt("snappy", errShort)
	}
	b := d.src[4 : 4+n]
	d.src = d.src[4+n:]
	return d.decodeSnappy(b)
}

// appendSnappyBlock appends a block of at most snappyBlockSize bytes with its length before it.
func appendSnappyBlock(dst, block, scratch []byte) ([]byte, []byte) {
	scratch = snappy.Encode(scratch[:cap(scratch)], block)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(scratch)))
	return append(dst, scratch...), scratch
}

// The LZ4 frame format as Kafka's Lz4BlockInputStream and Lz4BlockOutputStream know it: version 1, independent blocks.
const (
	lz4Magic         = 0x184D2204
	lz4BlockSize     = 64 << 10 // bytes before compression in what Kafka writes
	lz4Uncompressed  = 1 << 31
	lz4BlockIndep    = 0x20
	lz4BlockChecksum = 0x10
	lz4ContentSize   = 0x08
	lz4ContentHash   = 0x04
	lz4Reserved      = 0x03
)

// lz4Frame is what a frame's header says of its blocks.
type lz4Frame struct {
	maxBlock int
	checksum bool // each block is followed by its xxHash
	content  bool // the end is followed by the content's xxHash
}

func (d *Decompressor) openLZ4() error {
	b := d.src
	if len(b) < 7 {
		return corrupt("lz4", errShort)
	}
	if binary.LittleEndian.Uint32(b) != lz4Magic {
		return corrupt("lz4", errors.New("no frame begins here"))
	}
	flags, size := b[4], b[5]
	switch {
	case flags>>6 != 1, flags&lz4Reserved != 0, flags&lz4BlockIndep == 0:
		return corrupt("lz4", errors.New("the frame's flags are none that Kafka reads"))
	case size&0x8f != 0, size>>4 < 4:
		return corrupt("lz4", errors.New("the frame's block size is none of the format"))
	}
	end := 6
	if flags&lz4ContentSize != 0 {
		end += 8
	}
	if len(b) < end+1 {
		return corrupt("lz4", errShort)
	}
	if b[end] != byte(xxHash32(b[4:end])>>8) {
		return corrupt("lz4", errors.New("the frame header's checksum is wrong"))
	}
	d.lz4 = lz4Frame{maxBlock: 1 << (2*(size>>4) + 8), checksum: flags&lz4BlockChecksum != 0, content: flags&lz4ContentHash != 0}
	d.src = b[end+1:]
	return nil
}

// nextLZ4 decodes the next block. Kafka does not look at the content's checksum, which must be there, nor at what follows the frame.
func (d *Decompressor) nextLZ4() error {
	if len(d.src) < 4 {
		return corrupt("lz4", errShort)
	}
	head := binary.LittleEndian.Uint32(d.src)
	n := int(head &^ lz4Uncompressed)
	if n == 0 {
		if d.lz4.content && len(d.src) < 8 {
			return corrupt("lz4", errShort)
		}
		d.ended = true
		return nil
	}
	end := 4 + n
	if d.lz4.checksum {
		end += 4
	}
	if n > d.lz4.maxBlock || end > len(d.src) {
		return corrupt("lz4", errShort)
	}
	block := d.src[4 : 4+n]
	if d.lz4.checksum && binary.LittleEndian.Uint32(d.src[4+n:]) != xxHash32(block) {
		return corrupt("lz4", errors.New("a block's checksum is wrong"))
	}
	d.src = d.src[end:]
	if head&lz4Uncompressed != 0 {
		d.block = block
		return nil
	}
	buf := d.room(d.lz4.maxBlock)
	n, err := lz4.UncompressBlock(block, buf)
	if err != nil {
		return corrupt("lz4", err)
	}
	d.block = buf[:n]
	return nil
}

// appendLZ4Header appends the frame header that Kafka's clients and brokers write.
func appendLZ4Header(dst []byte) []byte {
	const flags, size = 1<<6 | lz4BlockIndep, 4 << 4
	dst = binary.LittleEndian.AppendUint32(dst, lz4Magic)
	return append(dst, flags, size, byte(xxHash32([]byte{flags, size})>>8))
}

// appendLZ4Block appends a block of at most lz4BlockSize bytes; one that does not shrink is stored as it is.
func appendLZ4Block(dst, block, scratch []byte, level int) ([]byte, []byte, error) {
	if bound := lz4.CompressBlockBound(len(block)); cap(scratch) < bound {
		scratch = make([]byte, bound)
	}
	scratch = scratch[:cap(scratch)]
	var n int
	var err error
	if level == DefaultLZ4Level {
		n, err = lz4.CompressBlock(block, scratch, nil)
	} else {
		n, err = lz4.CompressBlockHC(block, scratch, lz4HCLevel(level), nil, nil)
	}
	if err != nil {
		return dst, scratch, err
	}
	if n == 0 || n >= len(block) {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(block))|lz4Uncompressed)
		return append(dst, block...), scratch, nil
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	return append(dst, scratch[:n]...), scratch, nil
}

// lz4HCLevel maps Kafka's 1 to 17 on the nine depths of the Go encoder.
func lz4HCLevel(level int) lz4.CompressionLevel {
	return lz4.CompressionLevel(1 << (8 + max(1, min(level, 9))))
}

// xxHash32 is the hash of seed 0 that the LZ4 frame format uses.
func xxHash32(b []byte) uint32 {
	const p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	le, n := binary.LittleEndian, uint32(len(b))
	h := uint32(p5)
	if len(b) >= 16 {
		var seed uint32
		v := [4]uint32{seed + p1 + p2, seed + p2, seed, seed - p1}
		for ; len(b) >= 16; b = b[16:] {
			for i := range v {
				v[i] = bits.RotateLeft32(v[i]+le.Uint32(b[4*i:])*p2, 13) * p1
			}
		}
		h = bits.RotateLeft32(v[0], 1) + bits.RotateLeft32(v[1], 7) + bits.RotateLeft32(v[2], 12) + bits.RotateLeft32(v[3], 18)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+le.Uint32(b)*p3, 17) * p4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}
