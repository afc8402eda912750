package broker

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"kshare/protocol"
)

// A decoded request takes many times its bytes where those are elements of a list: two bytes can be a topic of 60. So that a stranger
// cannot take gigabytes with one frame of socket.request.max.bytes, only a Produce may be that long, most of which is records, and the
// number of its partitions is looked at before they are decoded. Nor may lists be so long that answering them keeps everybody else
// waiting. Apache Kafka has no such limits and runs out of memory.
const (
	// maxBody is the largest body in bytes of a request that is no Produce, inclusive.
	maxBody = 4 << 20
	// maxProducePartitions is how many topics and partitions a Produce of more than maxBody may name.
	maxProducePartitions = 100_000
	// heavyBody is the size in bytes above which requests are handled one after the other, Produce excepted.
	heavyBody = 256 << 10
	// maxElements is how many elements all lists of a heavy request may have together.
	maxElements = 100_000
)

// admit tells whether the body of a request is one to be decoded.
func (r *request) admit() error {
	switch {
	case len(r.body) <= maxBody:
		return nil
	case r.header.Key != produceKey:
		return fmt.Errorf("a request of %d bytes: only a Produce may have more than %d", len(r.body), maxBody)
	}
	n, ok := producePartitions(r.body, r.header.Version)
	if !ok {
		return fmt.Errorf("%w: its lists do not fit into it", protocol.ErrMalformed)
	}
	if n > maxProducePartitions {
		return fmt.Errorf("a request of %d bytes names %d topics and partitions or more, it may name %d", len(r.body), n, maxProducePartitions)
	}
	return nil
}

// heavy tells whether the request is one of those that are handled one after the other.
func (r *request) heavy() bool { return len(r.body) > heavyBody && r.header.Key != produceKey }

// elements counts the elements of all lists in a decoded request. Bytes are no list.
func elements(v reflect.Value) (n int) {
	for _, field := range v.Fields() {
		switch {
		case field.Kind() == reflect.Struct:
			n += elements(field)
		case field.Kind() != reflect.Slice || field.Type().Elem().Kind() == reflect.Uint8:
		case field.Type().Elem().Kind() == reflect.Struct:
			n += field.Len()
			for i := 0; i < field.Len() && n <= maxElements; i++ {
				n += elements(field.Index(i))
			}
		default:
			n += field.Len()
		}
	}
	return n
}

// producePartitions counts the topics and partitions that a Produce announces, up to the first list that is too long. It is false for a
// body that cannot be one.
func producePartitions(body []byte, version int16) (n int, ok bool) {
	w := walk{b: body, flexible: version >= 9}
	w.skipString() // transactional id
	w.skip(2 + 4)  // acks, timeout
	topics := w.arrayLen()
	for n = topics; topics > 0 && n <= maxProducePartitions && !w.bad; topics-- {
		if version >= 13 {
			w.skip(16)
		} else {
			w.skipString()
		}
		partitions := w.arrayLen()
		n += partitions
		for ; partitions > 0 && n <= maxProducePartitions && !w.bad; partitions-- {
			w.skip(4) // index
			w.skipBytes()
			w.skipTags()
		}
		w.skipTags()
	}
	return n, !w.bad
}

// walk skips through the fields of a request without decoding them.
type walk struct {
	b        []byte
	flexible bool
	bad      bool
}

func (w *walk) skip(n int) {
	if n < 0 || n > len(w.b) {
		w.b, w.bad = nil, true
		return
	}
	w.b = w.b[n:]
}

func (w *walk) uvarint() int {
	v, n := binary.Uvarint(w.b[:min(len(w.b), binary.MaxVarintLen32)])
	if n <= 0 {
		w.skip(-1)
		return 0
	}
	w.skip(n)
	return int(v)
}

// length reads a length of the given number of bytes, or of a compact field. Null is -1.
func (w *walk) length(size int) int {
	if w.flexible {
		return w.uvarint() - 1
	}
	if len(w.b) < size {
		w.skip(-1)
		return -1
	}
	b := w.b
	w.skip(size)
	if size == 2 {
		return int(int16(binary.BigEndian.Uint16(b)))
	}
	return int(int32(binary.BigEndian.Uint32(b)))
}

func (w *walk) arrayLen() int { return max(0, w.length(4)) }
func (w *walk) skipBytes()    { w.skip(max(0, w.length(4))) }
func (w *walk) skipString()   { w.skip(max(0, w.length(2))) }

func (w *walk) skipTags() {
	if !w.flexible {
		return
	}
	for n := w.uvarint(); n > 0 && !w.bad; n-- {
		w.uvarint()
		w.skip(w.uvarint())
	}
}
