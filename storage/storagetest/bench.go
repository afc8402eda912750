package storagetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"kshare/protocol"
	"kshare/storage"
)

// Bench measures appends and reads of a kind of store.
func Bench(b *testing.B, open func(b *testing.B) storage.Store) {
	for _, size := range []int{200, 1 << 10, 10 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("Append/%dB", size), func(b *testing.B) {
			l := openLog(b, open(b), false)
			appendN(b, l, size, b.N)
		})
		b.Run(fmt.Sprintf("Read1MiB/%dB", size), func(b *testing.B) {
			l := openLog(b, open(b), false)
			appendN(b, l, size, 16<<20/size)
			b.SetBytes(1 << 20)
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				_, err := l.Read(int64(i*997)%(l.EndOffset()*7/8), l.EndOffset(), 1<<20, true)
				require.NoError(b, err)
			}
		})
	}
	b.Run("AppendInternal/200B", func(b *testing.B) {
		s := open(b)
		l := openLog(b, s, true)
		appendN(b, l, 200, b.N)
	})
	b.Run("AppendInternalCommit/200B", func(b *testing.B) {
		s := open(b)
		l := openLog(b, s, true)
		for b.Loop() {
			h, batch := Batch(l.EndOffset(), l.EndOffset(), 1, 200)
			require.NoError(b, l.Append(h, batch))
			require.NoError(b, Wait(s))
		}
	})
}

func openLog(b *testing.B, s storage.Store, internal bool) storage.Log {
	l, err := s.OpenLog(storage.PartitionID{Topic: [16]byte{1}}, internal)
	require.NoError(b, err)
	return l
}

func appendN(b *testing.B, l storage.Log, size, n int) {
	h, sample := Batch(0, 0, 1, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	for range n {
		h.BaseOffset = l.EndOffset()
		batch := sample
		if size >= 64<<10 {
			batch = append([]byte(nil), sample...) // the log keeps it
		}
		protocol.SetBatchOffset(batch, h.BaseOffset, 0)
		if err := l.Append(h, batch); err != nil {
			b.Fatal(err)
		}
	}
}
