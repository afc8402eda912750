// Package describe makes readable trees of messages and says whom and what a request names.
package describe

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Value is a decoded message as a tree. Null and empty are different values throughout.
type Value struct {
	Kind  Kind
	Leaf  any      // of a Leaf: bool, int64, float64, string, []byte or [16]byte
	Names []string // of an Object or Batch, as many as items
	Items []*Value // of an Object, Batch or List
}

// Kind says what a Value is.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Leaf
	List
	Object
	Batch // an object made of a record batch
)

// Message makes the tree of a message, a pointer to a kmsg struct. Record batches are taken apart into their headers and payloads.
// What they decompress to is bounded for all of a message together.
func Message(m any) *Value {
	d := decoder{room: maxContent}
	return d.decoded(reflect.ValueOf(m), "")
}

// decoder makes the tree of one message.
type decoder struct {
	room int // bytes that batches may still be decompressed to
}

// Field returns the item of that name of an object, nil where there is none.
func (v *Value) Field(name string) *Value {
	for i, n := range v.Names {
		if n == name {
			return v.Items[i]
		}
	}
	return nil
}

func (v *Value) add(name string, item *Value) {
	v.Names = append(v.Names, name)
	v.Items = append(v.Items, item)
}

func leafOf(x any) *Value { return &Value{Kind: Leaf, Leaf: x} }

// decoded makes a tree of a kmsg struct.
func (d *decoder) decoded(v reflect.Value, name string) *Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return &Value{}
		}
		return d.decoded(v.Elem(), name)
	case reflect.Struct:
		return d.decodedStruct(v)
	case reflect.Slice:
		if v.IsNil() {
			return &Value{}
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if IsRecords(name) {
				return d.records(v.Bytes())
			}
			return leafOf(v.Bytes())
		}
		out := &Value{Kind: List}
		for i := range v.Len() {
			out.Items = append(out.Items, d.decoded(v.Index(i), name))
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
	panic(fmt.Sprintf("describe: kmsg has a field %s of kind %s", name, v.Kind()))
}

func (d *decoder) decodedStruct(v reflect.Value) *Value {
	out := &Value{Kind: Object}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case !isSent(f):
		case f.Name == "UnknownTags":
			tags := v.Field(i).Interface().(kmsg.Tags)
			tags.Each(func(tag uint32, b []byte) { out.add(fmt.Sprintf("tag%d", tag), leafOf(bytes.Clone(b))) })
		default:
			out.add(f.Name, d.decoded(v.Field(i), f.Name))
		}
	}
	return out
}

// IsRecords tells whether a field of bytes holds record batches.
func IsRecords(field string) bool { return field == "Records" || field == "RecordBatches" }

// Print writes the tree as JSON, an item a line.
func (v *Value) Print(b *strings.Builder, indent string) {
	switch v.Kind {
	case Null:
		b.WriteString("null")
	case Leaf:
		b.WriteString(PrintLeaf(v.Leaf))
	case List:
		v.printItems(b, indent, '[', ']')
	default:
		v.printItems(b, indent, '{', '}')
	}
}

func (v *Value) printItems(b *strings.Builder, indent string, open, end byte) {
	b.WriteByte(open)
	for i, item := range v.Items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n" + indent + "  ")
		if v.Names != nil {
			b.WriteString(strconv.Quote(v.Names[i]) + ": ")
		}
		item.Print(b, indent+"  ")
	}
	if len(v.Items) > 0 {
		b.WriteString("\n" + indent)
	}
	b.WriteByte(end)
}

// MarshalJSON implements json.Marshaler: bytes are hexadecimal text, UUIDs have Kafka's text form, fields keep their order.
func (v *Value) MarshalJSON() ([]byte, error) {
	switch v.Kind {
	case Null:
		return []byte("null"), nil
	case Leaf:
		switch x := v.Leaf.(type) {
		case []byte:
			return json.Marshal(fmt.Sprintf("%x", x))
		case [16]byte:
			return json.Marshal(UUIDText(x))
		}
		return json.Marshal(v.Leaf)
	case List:
		return json.Marshal(v.Items)
	}
	b := []byte{'{'}
	for i, item := range v.Items {
		if i > 0 {
			b = append(b, ',')
		}
		text, err := item.MarshalJSON()
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, strconv.Quote(v.Names[i])...), ':'), text...)
	}
	return append(b, '}'), nil
}

// String is the tree on one line.
func (v *Value) String() string {
	var b strings.Builder
	v.Print(&b, "")
	return lineBreak.ReplaceAllString(b.String(), "")
}

var lineBreak = regexp.MustCompile(`\n *`)

// PrintLeaf prints a leaf as it stands in a tree: bytes in hexadecimal, UUIDs as Kafka prints them.
func PrintLeaf(x any) string {
	switch x := x.(type) {
	case string:
		return strconv.Quote(x)
	case []byte:
		return fmt.Sprintf("%q", fmt.Sprintf("%x", x))
	case [16]byte:
		return strconv.Quote(UUIDText(x))
	}
	return fmt.Sprint(x)
}

// UUIDText is Kafka's text form of a UUID: URL-safe base64 without padding.
func UUIDText(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// isSent tells whether a field of a message is in its bytes: key and version are in the header of the request.
func isSent(f reflect.StructField) bool {
	return f.IsExported() && f.Name != "Version" && f.Name != "APIKey"
}
