package coordinator

import (
	"encoding/binary"
	"errors"
	"fmt"

	"kshare/coordinator/assignor"
)

// The records of consumer and share groups. A key is its type as int16 and then strings with int16 lengths; a
// value is version 0 as int16 and then a flexible struct.
// Source: the coordinator-key and coordinator-value messages of Kafka's group-coordinator module.

var errRecord = errors.New("the record is cut short or malformed")

// recordKey encodes a key.
func recordKey(version int16, parts ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(version))
	for _, s := range parts {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	return b
}

// readKey decodes a key of n strings.
func readKey(key []byte, n int) ([]string, error) {
	r := recordReader{rest: key}
	r.int16()
	parts := make([]string, n)
	for i := range parts {
		parts[i] = string(r.take(int(r.int16())))
	}
	return parts, r.err
}

// recordWriter encodes a value.
type recordWriter struct{ b []byte }

// newValue begins a value of version 0.
func newValue() *recordWriter { return &recordWriter{b: []byte{0, 0}} }

func (w *recordWriter) int8(v int8)   { w.b = append(w.b, byte(v)) }
func (w *recordWriter) int32(v int32) { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)) }
func (w *recordWriter) int64(v int64) { w.b = binary.BigEndian.AppendUint64(w.b, uint64(v)) }

func (w *recordWriter) topicID(id assignor.TopicID) { w.b = append(w.b, id[:]...) }

// length encodes the length of an array, string or bytes.
func (w *recordWriter) length(n int) { w.b = binary.AppendUvarint(w.b, uint64(n)+1) }

func (w *recordWriter) bytes(b []byte) {
	w.length(len(b))
	w.b = append(w.b, b...)
}

func (w *recordWriter) string(s string) { w.bytes([]byte(s)) }

func (w *recordWriter) nullable(s *string) {
	if s == nil {
		w.b = append(w.b, 0)
		return
	}
	w.string(*s)
}

func (w *recordWriter) strings(list []string) {
	w.length(len(list))
	for _, s := range list {
		w.string(s)
	}
}

func (w *recordWriter) int32s(list []int32) {
	w.length(len(list))
	for _, v := range list {
		w.int32(v)
	}
}

// tag is a tagged field.
type tag struct {
	number uint64
	value  []byte
}

// tags ends a struct. Tags are in the order of their numbers.
func (w *recordWriter) tags(tags ...tag) {
	w.b = binary.AppendUvarint(w.b, uint64(len(tags)))
	for _, t := range tags {
		w.b = binary.AppendUvarint(w.b, t.number)
		w.b = binary.AppendUvarint(w.b, uint64(len(t.value)))
		w.b = append(w.b, t.value...)
	}
}

// recordReader decodes a key or value. After the first error it yields zero values.
type recordReader struct {
	rest []byte
	err  error
}

// openValue checks the version and begins to read.
func openValue(value []byte) *recordReader {
	r := &recordReader{rest: value}
	if v := r.int16(); r.err == nil && v != 0 {
		r.err = fmt.Errorf("the value's version %d is not known, only 0 is", v)
	}
	return r
}

func (r *recordReader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.rest) {
		r.err = errRecord
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *recordReader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *recordReader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *recordReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *recordReader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *recordReader) topicID() (id assignor.TopicID) {
	copy(id[:], r.take(len(id)))
	return id
}

func (r *recordReader) uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.err = errRecord
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// length is -1 for null. No array or string is longer than what is left of the record.
func (r *recordReader) length() int {
	n := r.uvarint()
	if n > uint64(len(r.rest))+1 {
		r.err = errRecord
		return -1
	}
	return int(n) - 1
}

func (r *recordReader) bytes() []byte {
	n := r.length()
	if n < 0 {
		return nil
	}
	return append([]byte{}, r.take(n)...)
}

func (r *recordReader) string() string { return string(r.bytes()) }

func (r *recordReader) nullable() *string {
	b := r.bytes()
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

// each calls f for each element of an array.
func (r *recordReader) each(f func()) {
	for n := r.length(); n > 0 && r.err == nil; n-- {
		f()
	}
}

func (r *recordReader) strings() (list []string) {
	r.each(func() { list = append(list, r.string()) })
	return list
}

func (r *recordReader) int32s() (list []int32) {
	r.each(func() { list = append(list, r.int32()) })
	return list
}

// tags reads the tagged fields of a struct: known ones are given to their function, others passed over.
func (r *recordReader) tags(known map[uint64]func(*recordReader)) {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		number, size := r.uvarint(), r.uvarint()
		if size > uint64(len(r.rest)) {
			r.err = errRecord
			return
		}
		field := &recordReader{rest: r.take(int(size))}
		if f := known[number]; f != nil && r.err == nil {
			f(field)
			r.err = field.err
		}
	}
}

// int64Tag is a tagged int64 that is left out when it is 0.
func int64Tag(number uint64, v int64) []tag {
	if v == 0 {
		return nil
	}
	return []tag{{number, binary.BigEndian.AppendUint64(nil, uint64(v))}}
}

// appendTarget encodes the value of a member's target, alike for consumer and share groups.
func appendTarget(a assignor.Assignment) []byte {
	w := newValue()
	w.length(len(a))
	for _, id := range listed(a) {
		w.topicID(id)
		w.int32s(a[id])
		w.tags()
	}
	w.tags()
	return w.b
}

func readTarget(value []byte) (assignor.Assignment, error) {
	r := openValue(value)
	a := assignor.Assignment{}
	r.each(func() {
		id := r.topicID()
		if list := sortedInts(r.int32s()); len(list) > 0 {
			a[id] = list
		}
		r.tags(nil)
	})
	r.tags(nil)
	return a, r.err
}

// appendTargetMetadata encodes the epoch of a group's target and the time (ms) it was computed at.
func appendTargetMetadata(epoch int32, ms int64) []byte {
	w := newValue()
	w.int32(epoch)
	w.tags(int64Tag(0, ms)...)
	return w.b
}

func readTargetMetadata(value []byte) (epoch int32, ms int64, err error) {
	r := openValue(value)
	epoch = r.int32()
	r.tags(map[uint64]func(*recordReader){0: func(r *recordReader) { ms = r.int64() }})
	return epoch, ms, r.err
}
