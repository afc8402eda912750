package protocol

import (
	"encoding/binary"
	"unicode/utf8"
)

// reader reads the fields of a request in a flexible version. Where bytes are missing or a length makes no sense it
// becomes bad, and everything that it reads from then on is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() {
	r.b, r.bad = nil, true
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail()
		return nil
	}
	t := r.b[:n:n]
	r.b = r.b[n:]
	return t
}

func (r *reader) int8() int8 {
	if t := r.bytes(1); t != nil {
		return int8(t[0])
	}
	return 0
}

func (r *reader) int32() int32 {
	if t := r.bytes(4); t != nil {
		return int32(binary.BigEndian.Uint32(t))
	}
	return 0
}

func (r *reader) int64() int64 {
	if t := r.bytes(8); t != nil {
		return int64(binary.BigEndian.Uint64(t))
	}
	return 0
}

func (r *reader) uuid() (id [16]byte) {
	copy(id[:], r.bytes(len(id)))
	return id
}

// uvarint reads an unsigned varint of at most 32 bits.
func (r *reader) uvarint() uint32 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := uint32(r.b[0])
		r.b = r.b[1:]
		return v
	}
	v, n := binary.Uvarint(r.b[:min(len(r.b), binary.MaxVarintLen32)])
	if n <= 0 || v > 1<<32-1 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return uint32(v)
}

// arrayLen reads the length of an array whose elements take at least size bytes each; null, which fields.Check refuses, counts as 0.
func (r *reader) arrayLen(size int) int {
	n := int(int32(r.uvarint()) - 1)
	if n > len(r.b)/size {
		r.fail()
		return 0
	}
	return max(n, 0)
}

// nullableString reads a string. It returns last where that is the same, so that a client that repeats itself costs no memory.
func (r *reader) nullableString(last *string) *string {
	n := int(r.uvarint()) - 1
	if n < 0 {
		return nil
	}
	t := r.bytes(n)
	if last != nil && string(t) == *last {
		return last
	}
	s := string(t)
	if !utf8.ValidString(s) {
		s = string([]rune(s)) // each byte that is no UTF-8 becomes U+FFFD, as in Java
	}
	return &s
}

// skipTags skips a section of tagged fields.
func (r *reader) skipTags() {
	if len(r.b) > 0 && r.b[0] == 0 {
		r.b = r.b[1:]
		return
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		r.uvarint()
		r.bytes(int(r.uvarint()))
	}
}

// arena hands out slices of one array that is used again from request to request.
type arena[T any] struct{ all []T }

// keptElements bounds what an arena keeps from one request to the next.
const keptElements = 1 << 10

func (a *arena[T]) reset() {
	if cap(a.all) > keptElements {
		a.all = nil
	}
	a.all = a.all[:0]
}

// take returns n zero elements. Those taken before stay as they are.
func (a *arena[T]) take(n int) []T {
	from := len(a.all)
	a.all = append(a.all, make([]T, n)...)
	return a.all[from:len(a.all):len(a.all)]
}
