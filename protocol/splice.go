package protocol

import (
	"encoding/binary"
)

// SpliceFrom is the number of record bytes in an answer from which on they are sent from where they lie in the
// log; fewer are copied, which is then cheaper than a vectored write.
const SpliceFrom = 16 << 10

// Splice is bytes that belong before position At of an encoded answer and are sent from where they lie.
type Splice struct {
	At    int
	Bytes []byte
}

// Encoder encodes an answer whose record bytes may stay where they lie. The zero value copies everything into Out.
type Encoder struct {
	Out      []byte
	Splices  []Splice
	Flexible bool // compact lengths and tagged fields
	Splicing bool // record bytes are spliced instead of copied
}

// Int8 appends a number, as the following do.
func (e *Encoder) Int8(v int8)   { e.Out = append(e.Out, byte(v)) }
func (e *Encoder) Int16(v int16) { e.Out = binary.BigEndian.AppendUint16(e.Out, uint16(v)) }
func (e *Encoder) Int32(v int32) { e.Out = binary.BigEndian.AppendUint32(e.Out, uint32(v)) }
func (e *Encoder) Int64(v int64) { e.Out = binary.BigEndian.AppendUint64(e.Out, uint64(v)) }

// UUID appends a uuid's 16 bytes.
func (e *Encoder) UUID(v [16]byte) { e.Out = append(e.Out, v[:]...) }

// Uvarint appends an unsigned varint.
func (e *Encoder) Uvarint(v uint32) { e.Out = binary.AppendUvarint(e.Out, uint64(v)) }

// ArrayLen appends the length of an array, -1 for null.
func (e *Encoder) ArrayLen(n int) {
	if e.Flexible {
		e.Uvarint(uint32(n + 1))
	} else {
		e.Int32(int32(n))
	}
}

// String appends a string.
func (e *Encoder) String(s string) {
	if e.Flexible {
		e.Uvarint(uint32(len(s) + 1))
	} else {
		e.Int16(int16(len(s)))
	}
	e.Out = append(e.Out, s...)
}

// NullableString appends a string or null.
func (e *Encoder) NullableString(s *string) {
	switch {
	case s != nil:
		e.String(*s)
	case e.Flexible:
		e.Uvarint(0)
	default:
		e.Int16(-1)
	}
}

// Records appends a bytes field that consists of the parts in order, never null.
func (e *Encoder) Records(parts [][]byte, size int) {
	if e.Flexible {
		e.Uvarint(uint32(size + 1))
	} else {
		e.Int32(int32(size))
	}
	for _, p := range parts {
		if e.Splicing {
			e.Splices = append(e.Splices, Splice{len(e.Out), p})
		} else {
			e.Out = append(e.Out, p...)
		}
	}
}

// EndTags appends an empty section of tagged fields where the version has one.
func (e *Encoder) EndTags() {
	if e.Flexible {
		e.Out = append(e.Out, 0)
	}
}

// Tag appends a tagged field whose value is appended by f. The section's count is the caller's to write.
func (e *Encoder) Tag(tag uint32, f func()) {
	e.Uvarint(tag)
	at := len(e.Out)
	f()
	value := append([]byte(nil), e.Out[at:]...)
	e.Out = e.Out[:at]
	e.Uvarint(uint32(len(value)))
	e.Out = append(e.Out, value...)
}
