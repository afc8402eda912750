package describe

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"kshare/internal/spelling"
)

// maxDepth bounds how deep JSON may be nested that Fill reads; no message of Kafka's is deeper.
const maxDepth = 32

// Fill sets the fields of a kmsg message, given by pointer, that JSON names. Names are kmsg's, in any case. Bytes are hexadecimal text, a UUID has
// Kafka's text form. Fields that are not named keep their values; elements of lists begin with kmsg's defaults.
// An error names the field and what would be right.
func Fill(m any, text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var tree any
	if err := depth(text); err != nil {
		return err
	}
	if err := d.Decode(&tree); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends too early")
		}
		return fmt.Errorf("the JSON cannot be read: at byte %d: %w", d.InputOffset(), err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the JSON")
	}
	return fill(reflect.ValueOf(m).Elem(), tree, "")
}

// depth refuses JSON that is nested too deep, before it is decoded.
func depth(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	for n := 0; ; {
		t, err := d.Token()
		if err != nil {
			return nil //nolint:nilerr // the decoder that follows says what is wrong
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			if n++; n > maxDepth {
				return fmt.Errorf("the JSON is nested deeper than %d", maxDepth)
			}
		case json.Delim('}'), json.Delim(']'):
			n--
		}
	}
}

func fill(v reflect.Value, x any, at string) error {
	if v.Kind() == reflect.Pointer {
		if x == nil {
			v.SetZero()
			return nil
		}
		v.Set(newValue(v.Type().Elem()))
		return fill(v.Elem(), x, at)
	}
	switch v.Kind() {
	case reflect.Struct:
		return fillStruct(v, x, at)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return fillBytes(v, x, at)
		}
		return fillList(v, x, at)
	case reflect.Array:
		return fillUUID(v, x, at)
	case reflect.String:
		s, ok := x.(string)
		if !ok {
			return wrongType(at, "text", x)
		}
		v.SetString(s)
	case reflect.Bool:
		b, ok := x.(bool)
		if !ok {
			return wrongType(at, "true or false", x)
		}
		v.SetBool(b)
	case reflect.Float64:
		n, ok := x.(json.Number)
		if !ok {
			return wrongType(at, "a number", x)
		}
		f, err := n.Float64()
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		v.SetFloat(f)
	default:
		return fillInteger(v, x, at)
	}
	return nil
}

// newValue returns an addressable value with kmsg's defaults, where the type has some, as a pointer to it.
func newValue(t reflect.Type) reflect.Value {
	p := reflect.New(t)
	if d, ok := p.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	return p
}

func fillStruct(v reflect.Value, x any, at string) error {
	object, ok := x.(map[string]any)
	if !ok {
		return wrongType(at, "an object {...}", x)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		field, known := fieldOf(v, name)
		if !field.IsValid() {
			return fmt.Errorf("%s has no field %q%s; it has %s", orMessage(at), clip(name), spelling.DidYouMean(clip(name), known), strings.Join(known, ", "))
		}
		if err := fill(field, object[name], strings.TrimPrefix(at+"."+name, ".")); err != nil {
			return err
		}
	}
	return nil
}

func orMessage(at string) string {
	if at == "" {
		return "the message"
	}
	return at
}

// fieldOf finds a field by name, and the names that there are.
func fieldOf(v reflect.Value, name string) (field reflect.Value, known []string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !isSent(f) || f.Name == "UnknownTags" {
			continue
		}
		known = append(known, f.Name)
		if strings.EqualFold(f.Name, name) {
			return v.Field(i), nil
		}
	}
	return field, known
}

func fillList(v reflect.Value, x any, at string) error {
	if x == nil {
		v.SetZero()
		return nil
	}
	list, ok := x.([]any)
	if !ok {
		return wrongType(at, "a list [...] or null", x)
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, len(list)))
	for i, item := range list {
		e := newValue(v.Type().Elem()).Elem()
		if err := fill(e, item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
		v.Set(reflect.Append(v, e))
	}
	return nil
}

func fillBytes(v reflect.Value, x any, at string) error {
	if x == nil {
		v.SetZero()
		return nil
	}
	s, ok := x.(string)
	if !ok {
		return wrongType(at, "hexadecimal text or null", x)
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	v.SetBytes(b)
	return nil
}

func fillUUID(v reflect.Value, x any, at string) error {
	s, ok := x.(string)
	if !ok {
		return wrongType(at, "a UUID in Kafka's text form", x)
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != v.Len() {
		return fmt.Errorf("%s: %q is no UUID in Kafka's text form, 22 characters of base64", at, clip(s))
	}
	reflect.Copy(v, reflect.ValueOf(b))
	return nil
}

// clip shortens what an error repeats of the JSON.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

func fillInteger(v reflect.Value, x any, at string) error {
	n, ok := x.(json.Number)
	if !ok {
		return wrongType(at, "a whole number", x)
	}
	i, err := n.Int64()
	if err != nil {
		return fmt.Errorf("%s: %s is no whole number of 64 bits", at, clip(n.String()))
	}
	if v.CanUint() {
		if i < 0 || v.OverflowUint(uint64(i)) {
			return fmt.Errorf("%s: %d is out of range for %s", at, i, v.Type())
		}
		v.SetUint(uint64(i))
		return nil
	}
	if !v.CanInt() {
		return fmt.Errorf("%s: a field of type %s cannot be set", at, v.Type())
	}
	if v.OverflowInt(i) {
		return fmt.Errorf("%s: %d is out of range for %s, %d to %d", at, i, v.Type(), minInt(v), maxInt(v))
	}
	v.SetInt(i)
	return nil
}

func maxInt(v reflect.Value) int64 { return math.MaxInt64 >> (64 - v.Type().Bits()) }
func minInt(v reflect.Value) int64 { return math.MinInt64 >> (64 - v.Type().Bits()) }

func wrongType(at, want string, x any) error {
	got := "null"
	switch x.(type) {
	case string:
		got = "text"
	case bool:
		got = "true or false"
	case json.Number:
		got = "a number"
	case []any:
		got = "a list"
	case map[string]any:
		got = "an object"
	}
	return fmt.Errorf("%s is to be %s, not %s", orMessage(at), want, got)
}
