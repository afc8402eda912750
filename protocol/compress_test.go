package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// text is n bytes that compress to about half.
func text(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + r.IntN(16))
		if i > 40 && r.IntN(4) == 0 {
			b[i] = b[i-37]
		}
	}
	return b
}

func codecs() []Compression {
	var all []Compression
	for codec := CompressionNone; codec <= CompressionZstd; codec++ {
		all = append(all, DefaultCompression(codec))
	}
	return append(all, Compression{CompressionGzip, 1}, Compression{CompressionGzip, 9}, Compression{CompressionLZ4, 1},
		Compression{CompressionLZ4, 17}, Compression{CompressionZstd, -5}, Compression{CompressionZstd, 1})
}

func TestCompressRoundTrip(t *testing.T) {
	for _, c := range codecs() {
		for _, n := range []int{0, 1, 15, 16, 17, 1000, snappyBlockSize - 1, snappyBlockSize, lz4BlockSize, lz4BlockSize + 1, 300_000} {
			src := text(n)
			z, err := Compress([]byte("head"), c, src)
			require.NoError(t, err)
			require.Equal(t, "head", string(z[:4]))
			got, err := Decompress([]byte("tail"), c.Type, z[4:], n)
			require.NoError(t, err, "%v %d", c, n)
			require.True(t, bytes.Equal(append([]byte("tail"), src...), got), "%v %d", c, n)
			if n > 0 {
				got, err = Decompress(got[:0], c.Type, z[4:], n-1)
				require.ErrorIs(t, err, ErrDecompressedTooLarge, "%v %d", c, n)
				require.Empty(t, got)
			}
		}
	}
}

func TestCompressInPieces(t *testing.T) {
	src := text(200_000)
	for _, c := range codecs() {
		z, err := NewCompressor(nil, c)
		require.NoError(t, err)
		for rest := src; len(rest) > 0; {
			n := min(len(rest), 777)
			_, err := z.Write(rest[:n])
			require.NoError(t, err)
			rest = rest[n:]
		}
		out, err := z.Close()
		require.NoError(t, err)
		assert.Equal(t, len(out), z.Len())
		got, err := Decompress(nil, c.Type, out, len(src))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(src, got), "%v", c)
	}
}

// The highest level has a window that is larger than the decoder's plain one.
func TestZstdLargeWindow(t *testing.T) {
	src := text(300_000)
	z, err := Compress(nil, Compression{CompressionZstd, 22}, src)
	require.NoError(t, err)
	require.Zero(t, z[4]&0x20, "the frame has a window")
	z[5] = 17 << 3 // 128 MiB, as libzstd writes
	var got []byte
	n := allocated(func() { got, err = Decompress(nil, CompressionZstd, z, len(src)) })
	require.NoError(t, err)
	assert.True(t, bytes.Equal(src, got))
	assert.Less(t, n, uint64(4<<20))
}

func TestUnknownCompression(t *testing.T) {
	for _, codec := range []int8{-1, 5, 7} {
		_, err := NewDecompressor(codec, []byte{1})
		assert.ErrorIs(t, err, ErrUnknownCompression)
		_, err = NewCompressor(nil, Compression{Type: codec})
		assert.ErrorIs(t, err, ErrUnknownCompression)
	}
	_, err := NewCompressor(nil, Compression{CompressionGzip, 99})
	assert.Error(t, err)
}

// other encoders than ours write more of each format.
func TestForeignStreams(t *testing.T) {
	src := text(100_000)
	framed := func(o ...lz4.Option) []byte {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		require.NoError(t, w.Apply(o...))
		_, err := w.Write(src)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	var blocks []byte
	blocks = append(blocks, snappyMagic[:]...)
	blocks = append(blocks, make([]byte, 8)...)
	for rest := src; len(rest) > 0; {
		n := min(len(rest), 5000)
		z := snappy.Encode(nil, rest[:n])
		blocks = append(binary.BigEndian.AppendUint32(blocks, uint32(len(z))), z...)
		rest = rest[n:]
	}
	half, err := Compress(nil, DefaultCompression(CompressionSnappy), src[:5000])
	require.NoError(t, err)
	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	for name, s := range map[string]struct {
		codec int8
		b     []byte
		want  []byte
	}{
		"snappy bare":            {CompressionSnappy, snappy.Encode(nil, src), src},
		"snappy blocks":          {CompressionSnappy, blocks, src},
		"snappy twice":           {CompressionSnappy, append(bytes.Clone(half), half...), append(bytes.Clone(src[:5000]), src[:5000]...)},
		"lz4 default":            {CompressionLZ4, framed(), src},
		"lz4 checksums and size": {CompressionLZ4, framed(lz4.BlockChecksumOption(true), lz4.SizeOption(uint64(len(src)))), src},
		"lz4 256 KiB":            {CompressionLZ4, framed(lz4.BlockSizeOption(lz4.Block256Kb), lz4.CompressionLevelOption(lz4.Level9)), src},
		"zstd two frames":        {CompressionZstd, enc.EncodeAll(src[50_000:], enc.EncodeAll(src[:50_000], nil)), src},
		"zstd skippable frame":   {CompressionZstd, append([]byte{0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9}, enc.EncodeAll(src, nil)...), src},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decompress(nil, s.codec, s.b, 1<<20)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(s.want, got))
		})
	}
}

// allocated is what f allocates, in bytes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestDeclaredSizes feeds small streams that declare large contents: no memory may be taken on their word.
func TestDeclaredSizes(t *testing.T) {
	window := func(descriptor byte) []byte { // a frame with one raw block of one byte
		return []byte{0x28, 0xb5, 0x2f, 0xfd, 0, descriptor, 9, 0, 0, 'x'}
	}
	lz4Frame := []byte{4, 0x22, 0x4d, 0x18, 0x60, 0x70, byte(xxHash32([]byte{0x60, 0x70}) >> 8), 0xff, 0xff, 0x3f, 0x80}
	for name, s := range map[string]struct {
		codec int8
		b     []byte
		err   error
	}{
		"snappy bare 4 GiB":        {CompressionSnappy, []byte{0xff, 0xff, 0xff, 0xff, 15, 0, 1}, ErrCorruptCompression},
		"snappy block 2 GiB":       {CompressionSnappy, append(append(snappyMagic[:8:8], make([]byte, 8)...), 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff, 7, 0, 1), ErrCorruptCompression},
		"snappy block length":      {CompressionSnappy, append(append(snappyMagic[:8:8], make([]byte, 8)...), 0x7f, 0xff, 0xff, 0xff, 1), ErrCorruptCompression},
		"lz4 block beyond the end": {CompressionLZ4, lz4Frame, ErrCorruptCompression},
		"zstd window 128 MiB":      {CompressionZstd, window(17 << 3), nil},
		"zstd window 2 TiB":        {CompressionZstd, window(31 << 3), ErrCorruptCompression},
		"zstd content 100 MiB":     {CompressionZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x40, 6, 9, 0, 0, 'x'}, ErrCorruptCompression},
		"zstd content 2^63":        {CompressionZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 9, 0, 0, 'x'}, ErrCorruptCompression},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			n := allocated(func() { _, err = Decompress(nil, s.codec, s.b, 1<<20) })
			if s.err == nil {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, s.err)
			}
			assert.Less(t, n, uint64(8<<20))
		})
	}
}

// TestBombs reads streams that grow a thousandfold: the limit must end it and the memory follow what is read.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 8<<20)
	for _, codec := range []int8{CompressionGzip, CompressionSnappy, CompressionLZ4, CompressionZstd} {
		z, err := Compress(nil, DefaultCompression(codec), zeros)
		require.NoError(t, err)
		n := allocated(func() { _, err = Decompress(nil, codec, z, 100_000) })
		assert.ErrorIs(t, err, ErrDecompressedTooLarge)
		assert.Less(t, n, uint64(10<<20), "codec %d", codec)
	}
}

// TestCutStreams ends every stream at every place: an error or, where the format cannot tell, fewer bytes; never more, never a panic.
func TestCutStreams(t *testing.T) {
	src := text(3000)
	for _, c := range codecs()[1:] {
		z, err := Compress(nil, c, src)
		require.NoError(t, err)
		for n := range z {
			got, err := Decompress(nil, c.Type, z[:n], 1<<20)
			if err == nil {
				assert.True(t, bytes.HasPrefix(src, got), "%v cut at %d", c, n)
			} else {
				assert.ErrorIs(t, err, ErrCorruptCompression)
			}
		}
	}
}

func TestXXHash32(t *testing.T) {
	for in, want := range map[string]uint32{"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff, "Nobody inspects the spammish repetition": 0xe2293b2f} {
		assert.Equal(t, want, xxHash32([]byte(in)), in)
	}
}

// A pooled Decompressor begins anew after a stream that was left in the middle or broken.
func TestDecompressorReuse(t *testing.T) {
	src := text(50_000)
	for _, c := range codecs() {
		z, err := Compress(nil, c, src)
		require.NoError(t, err)
		for range 3 {
			d, err := NewDecompressor(c.Type, z)
			require.NoError(t, err)
			_, err = io.ReadFull(d, make([]byte, 100))
			require.NoError(t, err)
			d.Close()
			_, _ = Decompress(nil, c.Type, z[:len(z)/2], 1<<20)
			got, err := Decompress(nil, c.Type, z, len(src))
			require.NoError(t, err)
			require.True(t, bytes.Equal(src, got))
		}
	}
}

func FuzzDecompress(f *testing.F) {
	for _, c := range codecs() {
		z, err := Compress(nil, c, text(200))
		require.NoError(f, err)
		f.Add(c.Type, z)
	}
	f.Fuzz(func(t *testing.T, codec int8, b []byte) {
		before := bytes.Clone(b)
		out, err := Decompress(nil, codec, b, 1<<20)
		assert.Equal(t, before, b)
		if err != nil {
			assert.Empty(t, out)
			return
		}
		z, err := Compress(nil, DefaultCompression(codec), out)
		require.NoError(t, err)
		again, err := Decompress(nil, codec, z, len(out))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(out, again))
	})
}

func BenchmarkDecompress(b *testing.B) {
	src := text(100_000)
	buf := make([]byte, 0, 128<<10)
	for codec := CompressionNone; codec <= CompressionZstd; codec++ {
		z, err := Compress(nil, DefaultCompression(codec), src)
		require.NoError(b, err)
		b.Run(fmt.Sprintf("codec=%d", codec), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decompress(buf[:0], codec, z, len(src)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompress(b *testing.B) {
	src := text(100_000)
	buf := make([]byte, 0, 128<<10)
	for codec := CompressionNone; codec <= CompressionZstd; codec++ {
		b.Run(fmt.Sprintf("codec=%d", codec), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Compress(buf[:0], DefaultCompression(codec), src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What decompresses in a synctest bubble can do so in another and outside: no decoder leaves its bubble.
func TestDecompressInBubbles(t *testing.T) {
	require.False(t, inBubble())
	for codec := CompressionNone; codec <= CompressionZstd; codec++ {
		z, err := NewCompressor(nil, DefaultCompression(codec))
		require.NoError(t, err)
		_, err = z.Write([]byte("a record"))
		require.NoError(t, err)
		packed, err := z.Close()
		require.NoError(t, err)
		decompress := func(t *testing.T) {
			got, err := Decompress(nil, codec, packed, 100)
			require.NoError(t, err)
			require.Equal(t, "a record", string(got))
			z, err := NewCompressor(nil, DefaultCompression(codec))
			require.NoError(t, err)
			_, err = z.Write([]byte("a record"))
			require.NoError(t, err)
			_, err = z.Close()
			require.NoError(t, err)
		}
		for range 20 {
			synctest.Test(t, func(t *testing.T) {
				require.True(t, inBubble())
				decompress(t)
			})
			decompress(t)
		}
	}
}
