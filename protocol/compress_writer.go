package protocol

import (
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compressor compresses records into a slice, in the framing that Kafka's own clients and brokers write.
type Compressor struct {
	c      Compression
	out    sliceWriter
	w      io.WriteCloser // gzip and zstd
	pool   *sync.Pool     // where w goes back
	blocks *blockBuffers  // snappy and lz4
}

// blockBuffers is what a codec of blocks works in.
type blockBuffers struct {
	pending []byte // less than a block
	scratch []byte // for the block compressed
}

var blockBufferPool = sync.Pool{New: func() any { return new(blockBuffers) }}

type sliceWriter struct{ b []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// Writers are kept for the default levels, which nearly every topic has.
var gzipWriters, zstdWriters sync.Pool

// NewCompressor begins to append to dst. It fails for an unknown codec or a level that the codec does not have.
func NewCompressor(dst []byte, c Compression) (*Compressor, error) {
	z := &Compressor{c: c, out: sliceWriter{dst}}
	switch c.Type {
	case CompressionNone:
	case CompressionSnappy:
		z.blocks = blockBufferPool.Get().(*blockBuffers)
		z.out.b = append(z.out.b, snappyMagic[:]...)
		z.out.b = append(z.out.b, 0, 0, 0, 1, 0, 0, 0, 1)
	case CompressionLZ4:
		z.blocks = blockBufferPool.Get().(*blockBuffers)
		z.out.b = appendLZ4Header(z.out.b)
	case CompressionGzip:
		if c.Level == DefaultGzipLevel {
			z.pool = &gzipWriters
			if w, ok := gzipWriters.Get().(*gzip.Writer); ok {
				w.Reset(&z.out)
				z.w = w
				return z, nil
			}
		}
		w, err := gzip.NewWriterLevel(&z.out, c.Level)
		if err != nil {
			return nil, err
		}
		z.w = w
	case CompressionZstd:
		if c.Level == DefaultZstdLevel {
			z.pool = &zstdWriters
			if w, ok := zstdWriters.Get().(*zstd.Encoder); ok {
				w.Reset(&z.out)
				z.w = w
				return z, nil
			}
		}
		w, err := zstd.NewWriter(&z.out, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
			zstd.WithEncoderCRC(false), zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(c.Level)))
		if err != nil {
			return nil, err
		}
		z.w = w
	default:
		return nil, fmt.Errorf("%w: %d", ErrUnknownCompression, c.Type)
	}
	return z, nil
}

// Write compresses p. Nothing that it writes to can fail, so neither does it but for a fault in a codec.
func (z *Compressor) Write(p []byte) (int, error) {
	switch {
	case z.w != nil:
		return z.w.Write(p)
	case z.blocks == nil:
		return z.out.Write(p)
	}
	n, buf := len(p), z.blocks
	for size := z.blockSize(); len(p) > 0; {
		k := min(size-len(buf.pending), len(p))
		buf.pending = append(buf.pending, p[:k]...)
		p = p[k:]
		if len(buf.pending) == size {
			if err := z.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (z *Compressor) blockSize() int {
	if z.c.Type == CompressionSnappy {
		return snappyBlockSize
	}
	return lz4BlockSize
}

func (z *Compressor) flush() (err error) {
	buf := z.blocks
	if len(buf.pending) == 0 {
		return nil
	}
	if z.c.Type == CompressionSnappy {
		z.out.b, buf.scratch = appendSnappyBlock(z.out.b, buf.pending, buf.scratch)
	} else {
		z.out.b, buf.scratch, err = appendLZ4Block(z.out.b, buf.pending, buf.scratch, z.c.Level)
	}
	buf.pending = buf.pending[:0]
	return err
}

// Len is the number of bytes of the slice so far, what dst held included. Up to a block of what was written may not be in it yet.
func (z *Compressor) Len() int { return len(z.out.b) }

// Close ends the stream and returns the slice with all of it.
func (z *Compressor) Close() ([]byte, error) {
	switch z.c.Type {
	case CompressionSnappy, CompressionLZ4:
		if err := z.flush(); err != nil {
			return nil, err
		}
		if z.c.Type == CompressionLZ4 {
			z.out.b = append(z.out.b, 0, 0, 0, 0)
		}
		blockBufferPool.Put(z.blocks)
		z.blocks = nil
	case CompressionGzip, CompressionZstd:
		if err := z.w.Close(); err != nil {
			return nil, err
		}
		if z.pool != nil {
			z.w.(interface{ Reset(io.Writer) }).Reset(nil)
			z.pool.Put(z.w)
		}
		z.w = nil
	}
	return z.out.b, nil
}

// Compress appends the compressed src to dst.
func Compress(dst []byte, c Compression, src []byte) ([]byte, error) {
	z, err := NewCompressor(dst, c)
	if err != nil {
		return dst, err
	}
	if _, err := z.Write(src); err != nil {
		return dst, err
	}
	return z.Close()
}
