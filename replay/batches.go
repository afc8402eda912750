package replay

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"kshare/protocol"
)

// crcHolds tells whether a whole batch's CRC is right.
func crcHolds(b []byte) bool {
	return len(b) >= protocol.BatchHeaderSize && protocol.BatchCRC(b) == binary.BigEndian.Uint32(b[17:])
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
