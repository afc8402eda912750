package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"kshare/protocol"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"io"
)

// crcHolds tells whether a whole batch's CRC is right.
func crcHolds(b []byte) bool {
	return len(b) >= protocol.BatchHeaderSize && protocol.BatchCRC(b) == binary.BigEndian.Uint32(b[17:])
}

// wholeBatches cuts b into its whole batches of magic 2 and what is left.
func wholeBatches(b []byte) (batches [][]byte, rest []byte) {
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
func records(b []byte) *value {
	all := &value{kind: list}
	batches, rest := wholeBatches(b)
	for _, x := range batches {
		all.items = append(all.items, batchTree(x))
	}
	out := &value{kind: object}
	out.add("Batches", all)
	out.add("Rest", leafOf(rest))
	return out
}

// batchTree makes a tree of a batch. Payload is what follows the header, as it stands; Content is the same
// decompressed, and Framing what Snappy leaves to choose.
func batchTree(b []byte) *value {
	h, _ := protocol.ParseBatchHeader(b)
	payload := b[protocol.BatchHeaderSize:]
	v := &value{kind: batch}
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
		content, err := decompress(h.Compression(), payload)
		if err != nil {
			v.add("Content", leafOf([]byte("broken: "+err.Error())))
		} else {
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

const maxContent = 16 << 20

func decompress(codec int8, b []byte) ([]byte, error) {
	var r io.Reader
	var err error
	switch codec {
	case 1:
		r, err = gzip.NewReader(bytes.NewReader(b))
	case 2:
		return unsnappy(b)
	case 3:
		r = lz4.NewReader(bytes.NewReader(b))
	case 4:
		var z *zstd.Decoder
		if z, err = zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1)); err == nil {
			defer z.Close()
			r = z
		}
	default:
		err = fmt.Errorf("there is no codec %d", codec)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxContent))
}

func unsnappy(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, xerial) {
		return s2.Decode(nil, b)
	}
	var out []byte
	for b = b[min(len(b), 16):]; len(b) >= 4; {
		n := int(binary.BigEndian.Uint32(b))
		if n < 0 || n > len(b)-4 {
			return nil, fmt.Errorf("a Snappy block of %d bytes where %d are left", n, len(b)-4)
		}
		block, err := s2.Decode(nil, b[4:4+n])
		if err != nil {
			return nil, err
		}
		out, b = append(out, block...), b[4+n:]
	}
	return out, nil
}

// withProducerID returns the batch with another producer id. A CRC that was right is right again.
func withProducerID(b []byte, id int64) []byte {
	right := crcHolds(b)
	b = bytes.Clone(b)
	binary.BigEndian.PutUint64(b[43:], uint64(id))
	if right {
		binary.BigEndian.PutUint32(b[17:], protocol.BatchCRC(b))
	}
	return b
}

// payloadSum names a payload in the set of those that clients sent.
func payloadSum(payload []byte) uint64 {
	return uint64(crc32.ChecksumIEEE(payload))<<32 | uint64(len(payload))
}
