package jsonhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"kshare/internal/spelling"
)

// Bounds of a request's body.
const (
	MaxBody  = 1 << 20 // bytes
	maxDepth = 16      // of objects and lists in each other
)

// A request's fields come from its path, its query and its body, as the tags path, query and json of a struct's fields name them. A field is optional
// where its tag says omitempty.
var sources = []string{"path", "query", "json"}

// Whole is a request whose body is decoded as one.
type Whole interface{ DecodeBody([]byte) error }

// Field is a field of a request.
type Field struct {
	Name     string
	Source   string // path, query or json
	Optional bool
	Doc      string
	Options  []string // the only values, nil for any
	Type     reflect.Type
	index    int
}

// FieldsOf are the fields of a struct, those of one source or of all.
func FieldsOf(t reflect.Type, source string) (all []Field) {
	for i := range t.NumField() {
		f := t.Field(i)
		for _, s := range sources {
			tag, ok := f.Tag.Lookup(s)
			if !ok || source != "" && s != source {
				continue
			}
			name, options, _ := strings.Cut(tag, ",")
			x := Field{Name: name, Source: s, Optional: strings.Contains(options, "omitempty"), index: i, Type: f.Type, Doc: f.Tag.Get("doc")}
			if values := f.Tag.Get("values"); values != "" {
				x.Options = strings.Split(values, ",")
			}
			all = append(all, x)
		}
	}
	return all
}

// Decode reads a request into a struct.
func Decode(w http.ResponseWriter, r *http.Request, q any) error {
	v := reflect.ValueOf(q).Elem()
	for _, f := range FieldsOf(v.Type(), "path") {
		if err := f.setText(v, r.PathValue(f.Name)); err != nil {
			return err
		}
	}
	if err := decodeQuery(r, v); err != nil {
		return err
	}
	if r.Method != http.MethodPost && r.Method != http.MethodPut {
		return nil
	}
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	if whole, ok := q.(Whole); ok {
		return whole.DecodeBody(body)
	}
	return DecodeObject(body, v)
}

func decodeQuery(r *http.Request, v reflect.Value) error {
	fields := FieldsOf(v.Type(), "query")
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Refuse(http.StatusBadRequest, "the query cannot be read: %v", err)
	}
	for name, values := range given {
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name }) {
			return Refuse(http.StatusBadRequest, "there is no query parameter %q here%s", Clip(name), known(name, fields))
		}
		if len(values) > 1 {
			return Refuse(http.StatusBadRequest, "the query parameter %q is there %d times", name, len(values))
		}
	}
	for _, f := range fields {
		switch {
		case given.Has(f.Name):
			if err := f.setText(v, given.Get(f.Name)); err != nil {
				return err
			}
		case !f.Optional:
			return Refuse(http.StatusBadRequest, "the query parameter %q is missing", f.Name)
		}
	}
	return nil
}

// known names the fields that there are, and the one that a name was meant to be.
func known(name string, fields []Field) string {
	if len(fields) == 0 {
		return "; there are none"
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return spelling.DidYouMean(Clip(name), names) + "; there are " + strings.Join(names, ", ")
}

// readBody reads a body that is said to be JSON and is one value within the bounds, or empty.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, Refuse(http.StatusUnsupportedMediaType, "the request changes something: it needs the header Content-Type: application/json, not %q", Clip(r.Header.Get("Content-Type")))
	}
	if r.ContentLength > MaxBody {
		return nil, tooLong(r.ContentLength)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		var long *http.MaxBytesError
		if errors.As(err, &long) {
			return nil, tooLong(MaxBody + 1)
		}
		return nil, Refuse(http.StatusBadRequest, "the body cannot be read: %v", err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	return body, checkJSON(body)
}

func tooLong(n int64) error {
	return Refuse(http.StatusRequestEntityTooLarge, "a body of %d bytes or more: it may have %d", n, MaxBody)
}

// checkJSON tells what keeps a body from being one object within the bounds, in which no key is there twice.
func checkJSON(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var open []map[string]bool // the keys of each object that is open, nil for a list
	inValue := false           // the next token of an object is a value
	for n := 0; ; n++ {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF) && len(open) == 0:
			return nil
		case err != nil:
			return Refuse(http.StatusBadRequest, "the body is no JSON: at byte %d: %v", d.InputOffset(), jsonError(err))
		case n > 0 && len(open) == 0:
			return Refuse(http.StatusBadRequest, "there is something behind the body's JSON object, at byte %d", d.InputOffset())
		case n == 0 && token != json.Delim('{'):
			return Refuse(http.StatusBadRequest, "the body is no JSON object like {}")
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if len(open) == maxDepth {
				return Refuse(http.StatusBadRequest, "objects and lists in each other, more than %d deep", maxDepth)
			}
			var keys map[string]bool
			if token == json.Delim('{') {
				keys = map[string]bool{}
			}
			open, inValue = append(open, keys), false
			continue
		case json.Delim('}'), json.Delim(']'):
			open, inValue = open[:len(open)-1], false
			continue
		}
		if keys := open[len(open)-1]; keys != nil && !inValue {
			key := token.(string) // an object's keys are strings, or Token has failed
			if keys[key] {
				return Refuse(http.StatusBadRequest, "the field %q is there twice", Clip(key))
			}
			keys[key], inValue = true, true
			continue
		}
		inValue = false
	}
}

func jsonError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early")
	}
	return err
}

// DecodeObject reads an object into the json fields of a struct.
func DecodeObject(body []byte, v reflect.Value) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		return Refuse(http.StatusBadRequest, "the body is no JSON object: %v", err)
	}
	fields := FieldsOf(v.Type(), "json")
	for name := range given {
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name }) {
			return Refuse(http.StatusBadRequest, "there is no field %q here%s", Clip(name), known(name, fields))
		}
	}
	for _, f := range fields {
		raw, ok := given[f.Name]
		if !ok {
			if !f.Optional {
				return Refuse(http.StatusBadRequest, "the field %q is missing", f.Name)
			}
			continue
		}
		if err := f.setJSON(v, raw); err != nil {
			return err
		}
	}
	return nil
}

var DurationType = reflect.TypeFor[time.Duration]()

// wanted says what the value of a field is like.
func wanted(t reflect.Type) string {
	switch {
	case t == DurationType:
		return "a duration as text, like 31s or 1.5s"
	case t.Kind() == reflect.Pointer:
		return wanted(t.Elem())
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Uint64:
		return "a whole number, 0 or more"
	default:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	}
}

func (f *Field) setJSON(v reflect.Value, raw json.RawMessage) error {
	at := v.Field(f.index)
	if string(raw) == "null" {
		return Refuse(http.StatusBadRequest, "the field %q is null: leave it out", f.Name)
	}
	if at.Type() == DurationType || at.Type() == reflect.PointerTo(DurationType) {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return f.wrong(at, string(raw))
		}
		return f.setText(v, text)
	}
	if err := json.Unmarshal(raw, at.Addr().Interface()); err != nil {
		return f.wrong(at, string(raw))
	}
	return f.check(at)
}

func (f *Field) setText(v reflect.Value, text string) error {
	at := v.Field(f.index)
	if at.Kind() == reflect.Pointer {
		at.Set(reflect.New(at.Type().Elem()))
		at = at.Elem()
	}
	var err error
	switch {
	case at.Type() == DurationType:
		var d time.Duration
		d, err = time.ParseDuration(text)
		at.SetInt(int64(d))
	case at.Kind() == reflect.String:
		at.SetString(text)
	case at.Kind() == reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		at.SetBool(b)
	case at.Kind() == reflect.Uint64:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 64)
		at.SetUint(n)
	default:
		var n int64
		n, err = strconv.ParseInt(text, 10, at.Type().Bits())
		at.SetInt(n)
	}
	if err != nil {
		return f.wrong(at, text)
	}
	return f.check(at)
}

// check looks at a value that is of the right type.
func (f *Field) check(at reflect.Value) error {
	if len(f.Options) > 0 && !slices.Contains(f.Options, at.String()) {
		return Refuse(http.StatusBadRequest, "%s: %q is none of %s", f.Name, Clip(at.String()), strings.Join(f.Options, ", "))
	}
	return nil
}

func (f *Field) wrong(at reflect.Value, given string) error {
	return Refuse(http.StatusBadRequest, "%s: %s is not %s", f.Name, Clip(given), wanted(at.Type()))
}
