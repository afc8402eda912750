package connect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// converter makes a value of a record's bytes. Null stays null.
type converter interface {
	convert(data []byte) (any, *Schema, error)
}

// Names of converters.
const (
	stringConverter    = "org.apache.kafka.connect.storage.StringConverter"
	byteArrayConverter = "org.apache.kafka.connect.converters.ByteArrayConverter"
	jsonConverter      = "org.apache.kafka.connect.json.JsonConverter"
)

// newConverter makes the converter that a property names, whose own properties begin with the property's name.
func newConverter(property, class string, of map[string]string) (converter, error) {
	switch class {
	case stringConverter, "StringConverter":
		return stringOf{}, nil
	case byteArrayConverter, "ByteArrayConverter":
		return bytesOf{}, nil
	case jsonConverter, "JsonConverter":
		key := property + ".schemas.enable"
		schemas := true
		if text, ok := of[key]; ok {
			var err error
			if schemas, err = strconv.ParseBool(text); err != nil {
				return nil, wrong(key, text, "is not true or false")
			}
		}
		return jsonOf{schemas}, nil
	}
	return nil, wrong(property, class, "is no converter here: "+stringConverter+", "+byteArrayConverter+" and "+jsonConverter+" are")
}

type bytesOf struct{}

func (bytesOf) convert(data []byte) (any, *Schema, error) {
	if data == nil {
		return nil, nil, nil
	}
	return data, nil, nil
}

type stringOf struct{}

func (stringOf) convert(data []byte) (any, *Schema, error) {
	switch {
	case data == nil:
		return nil, nil, nil
	case !utf8.Valid(data):
		return nil, nil, errors.New("it is not UTF-8")
	}
	return string(data), nil, nil
}

// jsonOf converts JSON; with schemas it is an envelope of schema and payload.
type jsonOf struct{ schemas bool }

func (c jsonOf) convert(data []byte) (any, *Schema, error) {
	if data == nil {
		return nil, nil, nil
	}
	if !c.schemas {
		v, err := decodeJSON(data)
		return v, nil, err
	}
	v, err := decodeJSON(data)
	if err != nil {
		return nil, nil, err
	}
	envelope, ok := v.(map[string]any)
	if _, has := envelope["schema"]; !ok || len(envelope) != 2 || !has {
		return nil, nil, errors.New("with schemas.enable it is an object of schema and payload and nothing else; schemas.enable=false takes any JSON")
	}
	payload, has := envelope["payload"]
	if !has {
		return nil, nil, errors.New("it has no payload beside its schema")
	}
	if envelope["schema"] == nil {
		return payload, nil, nil
	}
	text, err := json.Marshal(envelope["schema"])
	if err != nil {
		return nil, nil, err
	}
	var s Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, nil, fmt.Errorf("its schema: %w", err)
	}
	payload, err = s.conform(payload, "payload")
	return payload, &s, err
}

// decodeJSON is a JSON text as nil, bool, int64, float64, string, []any and map[string]any.
func decodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("it is not JSON: something follows the first value")
	}
	return numbers(v)
}

func numbers(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n, nil
		}
		return v.Float64()
	case []any:
		for i := range v {
			if v[i], err = numbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = numbers(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// intBits are how many bits the integers of a schema have.
var intBits = map[string]int{"int8": 8, "int16": 16, "int32": 32, "int64": 64}

// conform is a JSON value as a schema has it: bytes are base64, numbers have their type. where is for messages.
func (s *Schema) conform(v any, where string) (any, error) {
	if v == nil {
		if s.Optional {
			return nil, nil
		}
		return nil, fmt.Errorf("%s is null, and its schema has it as %s that is not optional", where, s.Type)
	}
	no := fmt.Errorf("%s is %T, and its schema has it as %s", where, v, s.Type)
	switch s.Type {
	case "boolean":
		if _, ok := v.(bool); ok {
			return v, nil
		}
	case "int8", "int16", "int32", "int64":
		if n, ok := v.(int64); ok {
			if bits := intBits[s.Type]; bits < 64 && (n < -1<<(bits-1) || n >= 1<<(bits-1)) {
				return nil, fmt.Errorf("%s is %d, which is no %s", where, n, s.Type)
			}
			return n, nil
		}
	case "float", "double":
		switch n := v.(type) {
		case int64:
			return float64(n), nil
		case float64:
			if s.Type == "float" && math.Abs(n) > math.MaxFloat32 {
				return nil, fmt.Errorf("%s is %g, which is no float", where, n)
			}
			return n, nil
		}
	case "string":
		if _, ok := v.(string); ok {
			return v, nil
		}
	case "bytes":
		if text, ok := v.(string); ok {
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, fmt.Errorf("%s is bytes, and no base64: %w", where, err)
			}
			return data, nil
		}
	case "array":
		list, ok := v.([]any)
		if !ok || s.Items == nil {
			return nil, no
		}
		for i := range list {
			var err error
			if list[i], err = s.Items.conform(list[i], fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return nil, err
			}
		}
		return list, nil
	case "map":
		m, ok := v.(map[string]any) // a map whose keys are no strings is a list of pairs, which no sink here takes
		if !ok || s.Values == nil {
			return nil, no
		}
		for k := range m {
			var err error
			if m[k], err = s.Values.conform(m[k], where+"."+k); err != nil {
				return nil, err
			}
		}
		return m, nil
	case "struct":
		m, ok := v.(map[string]any)
		if !ok {
			return nil, no
		}
		fields := map[string]any{}
		for _, f := range s.Fields {
			var err error
			if fields[f.Field], err = f.conform(m[f.Field], where+"."+f.Field); err != nil {
				return nil, err
			}
		}
		return fields, nil
	default:
		return nil, fmt.Errorf("%s has the unknown schema type %q", where, s.Type)
	}
	return nil, no
}

// without is the schema of a struct without some fields.
func (s *Schema) without(drop func(field string) bool) *Schema {
	if s == nil {
		return nil
	}
	fewer := *s
	fewer.Fields = slices.DeleteFunc(slices.Clone(s.Fields), func(f *Schema) bool { return drop(f.Field) })
	return &fewer
}

// bytesOfValue are the bytes that a sink writes for a value: those of strings and bytes as they are, of anything else JSON. nil stays nil.
func bytesOfValue(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return json.Marshal(v)
}
