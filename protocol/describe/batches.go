package describe

import (
	"bytes"
	"errors"

	"kshare/protocol"
)

// WholeBatches cuts b into its whole batches of magic 2 and what is left.
func WholeBatches(b []byte) (batches [][]byte, rest []byte) {
	for {
		h, err := protocol.ParseBatchHeader(b)
		if err != nil || h.Magic != 2 || h.Size() < protocol.BatchHeaderSize || h.Size() > len(b) {
			return batches, b
		}
		batches = append(batches, b[:h.Size()])
		b = b[h.Size():]
	}
}

// records makes a tree of the record batches in a field of bytes. Rest is what follows the last whole one.
func (d *decoder) records(b []byte) *Value {
	all := &Value{Kind: List}
	batches, rest := WholeBatches(b)
	for _, x := range batches {
		all.Items = append(all.Items, d.batchTree(x))
	}
	out := &Value{Kind: Object}
	out.add("Batches", all)
	out.add("Rest", leafOf(rest))
	return out
}

// batchTree makes a tree of a batch. Payload is what follows the header, as it stands; Content is the same
// decompressed, and Framing what Snappy leaves to choose.
func (d *decoder) batchTree(b []byte) *Value {
	h, _ := protocol.ParseBatchHeader(b)
	payload := b[protocol.BatchHeaderSize:]
	v := &Value{Kind: Batch}
	for _, f := range []struct {
		name string
		x    any
	}{
		{"BaseOffset", h.BaseOffset},
		{"Length", int64(h.Length)},
		{"PartitionLeaderEpoch", int64(h.PartitionLeaderEpoch)},
		{"CRC", h.CRC == protocol.BatchCRC(b)},
		{"Attributes", int64(h.Attributes)},
		{"LastOffsetDelta", int64(h.LastOffsetDelta)},
		{"BaseTimestamp", h.BaseTimestamp},
		{"MaxTimestamp", h.MaxTimestamp},
		{"ProducerID", h.ProducerID},
		{"ProducerEpoch", int64(h.ProducerEpoch)},
		{"BaseSequence", int64(h.BaseSequence)},
		{"NumRecords", int64(h.NumRecords)},
		{"Payload", payload},
	} {
		v.add(f.name, leafOf(f.x))
	}
	if h.Compression() != 0 {
		content, err := protocol.Decompress(nil, h.Compression(), payload, d.room)
		if errors.Is(err, protocol.ErrDecompressedTooLarge) {
			d.room = 0 // or each of the next would be tried in vain
		}
		if err != nil {
			v.add("Content", leafOf([]byte("broken: "+err.Error())))
		} else {
			d.room -= len(content)
			v.add("Content", leafOf(content))
		}
		if h.Compression() == 2 {
			v.add("Framing", leafOf(bytes.HasPrefix(payload, xerial)))
		}
	}
	return v
}

// xerial begins a Snappy payload of the framing that Kafka's Java library writes; blocks with a 4-byte length
// follow 8 bytes of versions. Other clients send a bare block.
var xerial = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// maxContent bounds what the batches of a message are decompressed to, in bytes, all together.
const maxContent = 16 << 20
