package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// RecordSize is what Append adds to a batch.
func TestRecordSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBatchBuilder()
		part := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 200))
		for range rapid.IntRange(1, 70).Draw(t, "records") {
			key, value := part.Draw(t, "key"), part.Draw(t, "value")
			var headers []Header
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				headers = append(headers, Header{[]byte("name"), part.Draw(t, "header")})
			}
			timestamp, base := rapid.Int64Range(0, 1<<40).Draw(t, "timestamp"), b.base
			if b.NumRecords() == 0 {
				base = timestamp
			}
			before, size := b.Len(), RecordSize(b.NumRecords(), timestamp-base, key, value, headers)
			require.NoError(t, b.Append(timestamp, key, value, headers...))
			require.Equal(t, before+size, b.Len())
		}
	})
}
