package replay

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// value is a decoded answer as a tree. Null and empty are different values throughout.
type value struct {
	kind  kind
	leaf  any      // of a leaf: bool, int64, float64, string, []byte or [16]byte
	names []string // of a struct, as many as items
	items []*value // of a struct or list
}

type kind uint8

const (
	null kind = iota
	leaf
	list
	object
	batch // an object made of a record batch
)

// field returns the item of that name of an object, nil where there is none.
func (v *value) field(name string) *value {
	for i, n := range v.names {
		if n == name {
			return v.items[i]
		}
	}
	return nil
}

func (v *value) add(name string, item *value) {
	v.names = append(v.names, name)
	v.items = append(v.items, item)
}

func leafOf(x any) *value { return &value{kind: leaf, leaf: x} }

// decoded makes a tree of a kmsg struct.
func decoded(v reflect.Value, name string) *value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return &value{}
		}
		return decoded(v.Elem(), name)
	case reflect.Struct:
		return decodedStruct(v)
	case reflect.Slice:
		if v.IsNil() {
			return &value{}
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if isRecords(name) {
				return records(v.Bytes())
			}
			return leafOf(v.Bytes())
		}
		out := &value{kind: list}
		for i := range v.Len() {
			out.items = append(out.items, decoded(v.Index(i), name))
		}
		return out
	case reflect.Array:
		var id [16]byte
		reflect.Copy(reflect.ValueOf(&id).Elem(), v)
		return leafOf(id)
	case reflect.Bool:
		return leafOf(v.Bool())
	case reflect.String:
		return leafOf(v.String())
	case reflect.Float64:
		return leafOf(v.Float())
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return leafOf(v.Int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return leafOf(int64(v.Uint()))
	}
	panic(fmt.Sprintf("replay: kmsg has a field %s of kind %s", name, v.Kind()))
}

func decodedStruct(v reflect.Value) *value {
	out := &value{kind: object}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case !f.IsExported() || f.Name == "Version":
		case f.Name == "UnknownTags":
			tags := v.Field(i).Interface().(kmsg.Tags)
			tags.Each(func(tag uint32, b []byte) { out.add(fmt.Sprintf("tag%d", tag), leafOf(bytes.Clone(b))) })
		default:
			out.add(f.Name, decoded(v.Field(i), f.Name))
		}
	}
	return out
}

// isRecords tells whether a field of bytes holds record batches.
func isRecords(field string) bool { return field == "Records" || field == "RecordBatches" }

// answer is a decoded answer frame.
type answer struct {
	correlation int32
	body        kmsg.Response
	tree        *value
	exact       bool // kmsg encodes what it decoded to the same bytes
}

// decodeAnswer decodes a frame without its length prefix as the answer to a request of a key and version.
func decodeAnswer(key, version int16, frame []byte) (*answer, error) {
	if key == 18 && isUnsupportedVersion(frame) {
		version = 0 // KIP-511: an ApiVersions request of an unknown version is answered as version 0
	}
	body := kmsg.ResponseForKey(key)
	if body == nil {
		return nil, fmt.Errorf("no API has the key %d", key)
	}
	if version < 0 || version > body.MaxVersion() {
		return nil, fmt.Errorf("%s has no version %d", kmsg.NameForKey(key), version)
	}
	body.SetVersion(version)
	r := kbin.Reader{Src: frame}
	correlation := r.Int32()
	if body.IsFlexible() && key != 18 {
		if n := r.Uvarint(); n != 0 {
			return nil, fmt.Errorf("the header has %d tags", n)
		}
	}
	if err := r.Complete(); err != nil && len(r.Src) == 0 {
		return nil, err
	}
	rest := r.Src
	if err := body.ReadFrom(rest); err != nil {
		return nil, err
	}
	return &answer{correlation: correlation, body: body, tree: decoded(reflect.ValueOf(body), ""), exact: bytes.Equal(body.AppendTo(nil), rest)}, nil
}

// isUnsupportedVersion tells whether an ApiVersions answer has the error UNSUPPORTED_VERSION.
func isUnsupportedVersion(frame []byte) bool {
	return len(frame) >= 6 && frame[4] == 0 && frame[5] == 35
}

// print writes the tree as JSON, an item a line.
func (v *value) print(b *strings.Builder, indent string) {
	switch v.kind {
	case null:
		b.WriteString("null")
	case leaf:
		b.WriteString(printLeaf(v.leaf))
	case list:
		v.printItems(b, indent, '[', ']')
	default:
		v.printItems(b, indent, '{', '}')
	}
}

func (v *value) printItems(b *strings.Builder, indent string, open, end byte) {
	b.WriteByte(open)
	for i, item := range v.items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n" + indent + "  ")
		if v.names != nil {
			b.WriteString(strconv.Quote(v.names[i]) + ": ")
		}
		item.print(b, indent+"  ")
	}
	if len(v.items) > 0 {
		b.WriteString("\n" + indent)
	}
	b.WriteByte(end)
}

// String is the tree on one line.
func (v *value) String() string {
	var b strings.Builder
	v.print(&b, "")
	return lineBreak.ReplaceAllString(b.String(), "")
}

var lineBreak = regexp.MustCompile(`\n *`)

func printLeaf(x any) string {
	switch x := x.(type) {
	case string:
		return strconv.Quote(x)
	case []byte:
		return fmt.Sprintf("%q", fmt.Sprintf("%x", x))
	case [16]byte:
		return strconv.Quote(uuidText(x))
	}
	return fmt.Sprint(x)
}

// uuidText is Kafka's text form of a UUID: URL-safe base64 without padding.
func uuidText(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
