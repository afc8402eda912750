// Package fields knows the fields of the requests of Apache Kafka 4.4 and walks through the bytes of one without decoding them.
package fields

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	"kshare/protocol"
)

//go:generate go run generate.go kafka-clients-4.4.0.jar

// span is versions from the first, inclusive, to the last, exclusive.
type span struct{ first, end int16 }

// open is the end of a span that has none.
const open = math.MaxInt16

func (s span) has(version int16) bool { return s.first <= version && version < s.end }

// kind is what a field or the elements of an array are. A kind of fixed size is the number of its bytes.
type kind uint8

const (
	kindInt8   kind = 1 // also bool
	kindInt16  kind = 2
	kindInt32  kind = 4
	kindInt64  kind = 8 // also float64
	kindUUID   kind = 16
	kindString kind = 32
	kindBytes  kind = 33 // also records
	kindStruct kind = 34
)

// field is a field as its message file has it.
type field struct {
	name     string
	kind     kind
	array    bool
	versions span
	nullable span
	tagged   span // in these versions it stands among the tagged fields
	tag      uint32
	fields   []field // of a struct
}

// request is a request as its message file has it.
type request struct {
	key      int16
	flexible span
	fields   []field
}

// layout is the fields that a struct has in one version.
type layout struct {
	steps    []step
	flexible bool
	tagged   []step
	foreign  []*field // that have a tag in other versions
}

// step is a field of a struct, or several of a fixed size in a row.
type step struct {
	size     int      // of all of fixed, 0 for a field without a fixed size
	fixed    []*field // that follow each other
	field    *field
	nullable bool
	of       *layout // of a struct or the elements of an array of structs
}

func layOut(fs []field, version int16, flexible bool) *layout {
	l := &layout{flexible: flexible}
	for i := range fs {
		f := &fs[i]
		if !f.versions.has(version) {
			if f.tagged != (span{}) {
				l.foreign = append(l.foreign, f)
			}
			continue
		}
		s := step{field: f, nullable: f.nullable.has(version)}
		if f.kind == kindStruct {
			s.of = layOut(f.fields, version, flexible)
		} else if !f.array && f.kind <= kindUUID {
			s.size, s.fixed = int(f.kind), []*field{f}
		}
		last := len(l.steps) - 1
		switch {
		case f.tagged.has(version):
			l.tagged = append(l.tagged, s)
		case s.size > 0 && last >= 0 && l.steps[last].size > 0:
			l.steps[last].size += s.size
			l.steps[last].fixed = append(l.steps[last].fixed, f)
		default:
			l.steps = append(l.steps, s)
		}
	}
	return l
}

// layouts has the layouts of requests that there were, by place and version.
var layouts [len(requests) + 1][32]atomic.Pointer[layout]

// layoutOf is the layout of a request, nil for one that Kafka 4.4 does not have.
func layoutOf(api *protocol.API, version int16) *layout {
	place := -1
	if api.Key >= 0 && int(api.Key) < len(byKey) {
		place = int(byKey[api.Key])
	}
	q := &txnShareAcknowledge
	switch {
	case api.Name == protocol.TxnShareAcknowledgeName:
		place = len(requests)
	case place < 0:
		return nil
	default:
		q = &requests[place]
	}
	if version < 0 || int(version) >= len(layouts[place]) {
		return nil
	}
	l := layouts[place][version].Load()
	if l == nil {
		l = layOut(q.fields, version, q.flexible.has(version))
		layouts[place][version].Store(l)
	}
	return l
}

// byKey has the place in requests of the request with a key, -1 for none.
var byKey = func() (places [128]int8) {
	for key := range places {
		places[key] = -1
	}
	for i := range requests {
		places[requests[i].key] = int8(i)
	}
	return places
}()

// txnShareAcknowledge is TxnShareAcknowledgeRequest.json of the draft of KIP-1289.
var txnShareAcknowledge = request{flexible: span{0, open}, fields: []field{
	{name: "TransactionalId", kind: kindString, versions: span{0, open}, nullable: span{0, open}},
	{name: "GroupId", kind: kindString, versions: span{0, open}},
	{name: "ProducerId", kind: kindInt64, versions: span{0, open}},
	{name: "ProducerEpoch", kind: kindInt16, versions: span{0, open}},
	{name: "MemberId", kind: kindString, versions: span{0, open}},
	{name: "MemberEpoch", kind: kindInt32, versions: span{0, open}},
	{name: "Topics", kind: kindStruct, array: true, versions: span{0, open}, fields: []field{
		{name: "TopicId", kind: kindUUID, versions: span{0, open}},
		{name: "Partitions", kind: kindStruct, array: true, versions: span{0, open}, fields: []field{
			{name: "PartitionIndex", kind: kindInt32, versions: span{0, open}},
			{name: "AcknowledgementBatches", kind: kindStruct, array: true, versions: span{0, open}, fields: []field{
				{name: "FirstOffset", kind: kindInt64, versions: span{0, open}},
				{name: "LastOffset", kind: kindInt64, versions: span{0, open}},
				{name: "AcknowledgeTypes", kind: kindInt8, array: true, versions: span{0, open}},
			}},
		}},
	}},
}}

// Check walks through the body of a request as far as its fields go. The error wraps protocol.ErrMalformed and says which field of which
// byte is wrong: one that is cut short, or null where Kafka's message file has no nullableVersions for it, or a string of more than 32767
// bytes. Bytes after the last field are of no concern. An API that Kafka 4.4 does not have is not checked.
//
// It returns how many elements all lists have together; of a list of bytes only the bytes count, so it has none. Where they are more than
// most the walk ends there, without an error.
func Check(api *protocol.API, version int16, body []byte, most int) (elements int, err error) {
	l := layoutOf(api, version)
	if l == nil {
		return 0, nil
	}
	w := walk{body: body, flexible: l.flexible, most: most}
	if p := w.layout(l); p != nil && w.elements <= most {
		return w.elements, p.error(len(body))
	}
	return w.elements, nil
}

// Trailing walks through the body of a request as Check does and returns how many bytes stand behind its last field, 0 for an API that is not checked.
func Trailing(api *protocol.API, version int16, body []byte) (bytes int, err error) {
	l := layoutOf(api, version)
	if l == nil {
		return 0, nil
	}
	w := walk{body: body, flexible: l.flexible, most: math.MaxInt}
	if p := w.layout(l); p != nil {
		return 0, p.error(len(body))
	}
	return len(body) - w.at, nil
}

// walk is a walk through the fields of a request.
type walk struct {
	body           []byte
	at             int // how far it is
	flexible       bool
	elements, most int
}

// problem is why a walk ends before its end.
type problem struct {
	path string // of the field
	at   int
	what string
}

// error says what the problem is with a body of so many bytes.
func (p *problem) error(size int) error {
	return fmt.Errorf("%w: %s at byte %d of the body's %d: %s", protocol.ErrMalformed, p.path, p.at, size, p.what)
}

// within makes a problem in an element of an array, or of a struct where index is -1, one of the field.
func (p *problem) within(f *field, index int) *problem {
	at := f.name
	if index >= 0 {
		at += "[" + strconv.Itoa(index) + "]"
	}
	if p.path != "" {
		at += "." + p.path
	}
	return &problem{path: at, at: p.at, what: p.what}
}

// layout walks through the fields of a request or a struct.
func (w *walk) layout(l *layout) *problem {
	for i := range l.steps {
		s := &l.steps[i]
		if s.size == 0 {
			if p := w.step(s); p != nil {
				return p
			}
			continue
		}
		if s.size > len(w.body)-w.at {
			return w.fixed(s)
		}
		w.at += s.size
	}
	switch {
	case !l.flexible:
		return nil
	case w.at < len(w.body) && w.body[w.at] == 0:
		w.at++
		return nil
	default:
		return w.tags(l)
	}
}

// fixed finds out which of some fields of a fixed size is cut short.
func (w *walk) fixed(s *step) *problem {
	for _, f := range s.fixed {
		if p := w.skip(int(f.kind)); p != nil {
			return p.within(f, -1)
		}
	}
	return nil
}

// step walks through one field.
func (w *walk) step(s *step) *problem {
	switch {
	case s.field.array:
		return w.array(s)
	case s.of == nil:
		return w.element(s, s.nullable, -1)
	case s.nullable:
		from := w.at
		if p := w.skip(1); p != nil {
			return p.within(s.field, -1)
		}
		switch present := int8(w.body[from]); {
		case present == -1:
			return nil
		case present < -1: // null to Kafka, not to the decoders
			return (&problem{at: from, what: fmt.Sprintf("%d in place of -1 or 1", present)}).within(s.field, -1)
		}
	}
	return w.element(s, false, -1)
}

// array walks through an array.
func (w *walk) array(s *step) *problem {
	f, from := s.field, w.at
	n, p := w.length(4)
	switch {
	case p != nil:
		return p.within(f, -1)
	case n < 0 && s.nullable:
		return nil
	case n < 0:
		return (&problem{at: from, what: "a null array, it may not be null"}).within(f, -1)
	case n > len(w.body)-w.at:
		return (&problem{at: from, what: fmt.Sprintf("an array of %d elements, %d bytes are left", n, len(w.body)-w.at)}).within(f, -1)
	}
	if f.kind != kindInt8 {
		w.elements += n
	}
	if w.elements > w.most {
		return &problem{}
	}
	if f.kind <= kindUUID {
		if p := w.skip(n * int(f.kind)); p != nil {
			return p.within(f, -1)
		}
		return nil
	}
	for i := range n {
		if p := w.element(s, false, i); p != nil {
			return p
		}
	}
	return nil
}

// element walks through a value: an element of an array, or a field that is none and has index -1.
func (w *walk) element(s *step, nullable bool, index int) (p *problem) {
	f := s.field
	switch f.kind {
	case kindStruct:
		p = w.layout(s.of)
	case kindString:
		p = w.variable(nullable, 2, "string", math.MaxInt16)
	case kindBytes:
		p = w.variable(nullable, 4, "bytes field", math.MaxInt32)
	default:
		p = w.skip(int(f.kind))
	}
	if p != nil {
		return p.within(f, index)
	}
	return nil
}

// variable walks through a value that begins with its length, which has so many bytes where it is not compact.
func (w *walk) variable(nullable bool, size int, what string, longest int) *problem {
	from := w.at
	n, p := w.length(size)
	switch {
	case p != nil:
		return p
	case n < 0 && !nullable:
		return &problem{at: from, what: "a null " + what + ", it may not be null"}
	case n > longest:
		return &problem{at: from, what: fmt.Sprintf("a %s of %d bytes, it may have %d", what, n, longest)}
	case n > len(w.body)-w.at:
		return &problem{at: from, what: fmt.Sprintf("a %s of %d bytes, %d are left", what, n, len(w.body)-w.at)}
	}
	w.at += max(n, 0)
	return nil
}

// tags walks through the tagged fields of a struct.
func (w *walk) tags(l *layout) *problem {
	count, p := w.uvarint()
	if p != nil {
		return p.within(&tagSection, -1)
	}
	for range count {
		if p := w.tag(l); p != nil {
			return p
		}
	}
	return nil
}

// tagSection stands for the tagged fields of a struct in the path of a problem.
var tagSection = field{name: "tagged fields"}

// tag walks through a tagged field.
func (w *walk) tag(l *layout) *problem {
	from := w.at
	tag, p := w.uvarint()
	if p != nil {
		return p.within(&tagSection, -1)
	}
	size, p := w.uvarint()
	if p != nil {
		return p.within(&tagSection, -1)
	}
	if int64(size) > int64(len(w.body)-w.at) {
		return (&problem{at: from, what: fmt.Sprintf("tag %d of %d bytes, %d are left", tag, size, len(w.body)-w.at)}).within(&tagSection, -1)
	}
	end := w.at + int(size)
	for i := range l.tagged {
		if s := &l.tagged[i]; s.field.tag == tag {
			whole := w.body
			w.body = whole[:end]
			if p := w.step(s); p != nil {
				return p
			}
			w.body = whole
		}
	}
	for _, f := range l.foreign {
		if f.tag == tag {
			return (&problem{at: from, what: fmt.Sprintf("tag %d, which the version does not have", tag)}).within(f, -1)
		}
	}
	w.at = end
	return nil
}

// length reads the length of an array, a string or bytes, which has so many bytes where it is not compact. Null is negative.
func (w *walk) length(size int) (int, *problem) {
	if w.flexible {
		if w.at < len(w.body) && w.body[w.at] < 0x80 {
			w.at++
			return int(w.body[w.at-1]) - 1, nil
		}
		n, p := w.uvarint()
		return int(int32(n - 1)), p
	}
	b := w.body[w.at:]
	if p := w.skip(size); p != nil {
		return 0, p
	}
	if size == 2 {
		return int(int16(binary.BigEndian.Uint16(b))), nil
	}
	return int(int32(binary.BigEndian.Uint32(b))), nil
}

// uvarint reads an unsigned varint of at most 32 bits. Kafka's ByteUtils drops the bits of a fifth byte that are beyond them, where the decoders refuse
// the varint.
func (w *walk) uvarint() (v uint32, p *problem) {
	for i := range binary.MaxVarintLen32 {
		if w.at+i >= len(w.body) {
			return 0, &problem{at: w.at, what: "the bytes end inside of a varint"}
		}
		b := w.body[w.at+i]
		if i == binary.MaxVarintLen32-1 && b > 0x0f {
			break
		}
		v |= uint32(b&0x7f) << (7 * i)
		if b < 0x80 {
			w.at += i + 1
			return v, nil
		}
	}
	return 0, &problem{at: w.at, what: "a varint of more than 32 bits"}
}

// skip skips bytes.
func (w *walk) skip(n int) *problem {
	if left := len(w.body) - w.at; n > left {
		return &problem{at: w.at, what: fmt.Sprintf("%d bytes are expected, %d are left", n, left)}
	}
	w.at += n
	return nil
}
