package shareclient

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/protocol"
)

// batchOf is a batch of records at offsets from base on.
func batchOf(t *testing.T, base int64, n int) []byte {
	b := protocol.NewBatchBuilder()
	b.BaseOffset = base
	require.NoError(t, b.Reset(nil))
	for range n {
		require.NoError(t, b.Append(1, nil, []byte("v")))
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	return batch
}

// What can be read is read, whatever lies beside it, and only what is known not to be there is a gap.
func TestContentOfDamagedAnswers(t *testing.T) {
	damaged, unheard, later := batchOf(t, 10, 10), batchOf(t, 10, 10), batchOf(t, 20, 10)
	damaged[len(damaged)-1]++
	unheard[16] = 3
	for name, x := range map[string]struct {
		bytes []byte
		want  map[int64]AcknowledgeType // of offsets without a record
	}{
		"a wrong checksum":      {slices.Concat(batchOf(t, 0, 10), damaged, later), map[int64]AcknowledgeType{10: Reject, 19: Reject, 30: gap}},
		"another magic":         {slices.Concat(batchOf(t, 0, 10), unheard, later), map[int64]AcknowledgeType{10: undecided, 19: undecided, 30: gap}},
		"a batch that is short": {slices.Concat(batchOf(t, 0, 10), later[:30]), map[int64]AcknowledgeType{10: undecided, 29: undecided}},
		"a hole":                {slices.Concat(batchOf(t, 0, 10), later), map[int64]AcknowledgeType{10: gap, 19: gap}},
		"nothing":               {nil, map[int64]AcknowledgeType{0: gap}},
	} {
		c := contentOf(x.bytes, Partition{Topic: "t"})
		for offset, want := range x.want {
			assert.Nil(t, c.records[offset], name)
			assert.Equal(t, want, c.without(offset), "%s: offset %d", name, offset)
		}
		if x.bytes != nil {
			assert.NotNil(t, c.records[9], name)
		}
	}
	lying := batchOf(t, 0, 5)
	binary.BigEndian.PutUint32(lying[57:], 10) // it says that it has ten records
	binary.BigEndian.PutUint32(lying[17:], protocol.BatchCRC(lying))
	assert.Empty(t, contentOf(lying, Partition{Topic: "t"}).records)
}
