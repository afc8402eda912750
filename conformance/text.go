package conformance

import (
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/describe"
	"kshare/protocol/errorcode"
)

// describeRequest is a request as JSON, nil for one that is not decoded. Of a long one there is its beginning, as text.
func describeRequest(q kmsg.Request) json.RawMessage {
	if q == nil {
		return nil
	}
	b, err := json.Marshal(describe.Message(q))
	if err != nil {
		return nil
	}
	if len(b) > maxRequestMax {
		b, _ = json.Marshal(string(b[:maxRequestMax]) + "...")
	}
	return b
}

// malformedText says which string of a message is not UTF-8, "" where all are.
func malformedText(q kmsg.Request) string { return malformed(reflect.ValueOf(q).Elem(), "") }

func malformed(v reflect.Value, name string) string {
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return fmt.Sprintf("%s is not UTF-8", name)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return malformed(v.Elem(), name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				if s := malformed(v.Field(i), f.Name); s != "" {
					return s
				}
			}
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k == reflect.String || k == reflect.Struct || k == reflect.Pointer {
			for i := range v.Len() {
				if s := malformed(v.Index(i), name); s != "" {
					return s
				}
			}
		}
	}
	return ""
}

// topicName is a topic as a client knows it: by its name if it was told of it.
func (x *exam) topicName(id [16]byte) string {
	name := describe.UUIDText(id)
	if x.current != nil && x.current.client != nil {
		for n, t := range x.current.client.ids.m {
			if t.id == id {
				return n
			}
		}
	}
	return name
}

// part is a partition in words.
func (x *exam) part(tp topicPartition) string {
	return fmt.Sprintf("%s-%d", x.topicName(tp.topic), tp.index)
}

// at is an offset of a partition in words.
func (x *exam) at(tp topicPartition, offset int64) string {
	return fmt.Sprintf("offset %d of %s", offset, x.part(tp))
}

// codeName is a code and its number.
func codeName(code int16) string { return fmt.Sprintf("%s (%d)", errorcode.Name(code), code) }

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *s)
}
