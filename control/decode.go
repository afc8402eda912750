package control

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
	maxBody  = 1 << 20 // bytes
	maxDepth = 16      // of objects and lists in each other
)

// A request's fields come from its path, its query and its body, as the tags path, query and json of a struct's fields name them. A field is optional
// where its tag says omitempty.
var sources = []string{"path", "query", "json"}

// whole is a request whose body is decoded as one.
type whole interface{ decodeBody([]byte) error }

// fieldOf is a field of a request.
type fieldOf struct {
	name     string
	source   string
	optional bool
	index    int
	doc      string
	options  []string // the only values, nil for any
}

// fieldsOf are the fields of a struct, those of one source or of all.
func fieldsOf(t reflect.Type, source string) (all []fieldOf) {
	for i := range t.NumField() {
		f := t.Field(i)
		for _, s := range sources {
			tag, ok := f.Tag.Lookup(s)
			if !ok || source != "" && s != source {
				continue
			}
			name, options, _ := strings.Cut(tag, ",")
			x := fieldOf{name: name, source: s, optional: strings.Contains(options, "omitempty"), index: i, doc: f.Tag.Get("doc")}
			if values := f.Tag.Get("values"); values != "" {
				x.options = strings.Split(values, ",")
			}
			all = append(all, x)
		}
	}
	return all
}

// decode reads a request into a struct.
func decode(w http.ResponseWriter, r *http.Request, q any) error {
	v := reflect.ValueOf(q).Elem()
	for _, f := range fieldsOf(v.Type(), "path") {
		if err := f.setText(v, r.PathValue(f.name)); err != nil {
			return err
		}
	}
	if err := decodeQuery(r, v); err != nil {
		return err
	}
	if r.Method != http.MethodPost {
		return nil
	}
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	if whole, ok := q.(whole); ok {
		return whole.decodeBody(body)
	}
	return decodeObject(body, v)
}

func decodeQuery(r *http.Request, v reflect.Value) error {
	fields := fieldsOf(v.Type(), "query")
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return refuse(http.StatusBadRequest, "the query cannot be read: %v", err)
	}
	for name, values := range given {
		if !slices.ContainsFunc(fields, func(f fieldOf) bool { return f.name == name }) {
			return refuse(http.StatusBadRequest, "there is no query parameter %q here%s", clip(name), known(name, fields))
		}
		if len(values) > 1 {
			return refuse(http.StatusBadRequest, "the query parameter %q is there %d times", name, len(values))
		}
	}
	for _, f := range fields {
		switch {
		case given.Has(f.name):
			if err := f.setText(v, given.Get(f.name)); err != nil {
				return err
			}
		case !f.optional:
			return refuse(http.StatusBadRequest, "the query parameter %q is missing", f.name)
		}
	}
	return nil
}

// known names the fields that there are, and the one that a name was meant to be.
func known(name string, fields []fieldOf) string {
	if len(fields) == 0 {
		return "; there are none"
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return spelling.DidYouMean(clip(name), names) + "; there are " + strings.Join(names, ", ")
}

// readBody reads a body that is said to be JSON and is one value within the bounds, or empty.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "the request changes something: it needs the header Content-Type: application/json, not %q", clip(r.Header.Get("Content-Type")))
	}
	if r.ContentLength > maxBody {
		return nil, tooLong(r.ContentLength)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var long *http.MaxBytesError
		if errors.As(err, &long) {
			return nil, tooLong(maxBody + 1)
		}
		return nil, refuse(http.StatusBadRequest, "the body cannot be read: %v", err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	return body, checkJSON(body)
}

func tooLong(n int64) error {
	return refuse(http.StatusRequestEntityTooLarge, "a body of %d bytes or more: it may have %d", n, maxBody)
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
			return refuse(http.StatusBadRequest, "the body is no JSON: at byte %d: %v", d.InputOffset(), jsonError(err))
		case n > 0 && len(open) == 0:
			return refuse(http.StatusBadRequest, "there is something behind the body's JSON object, at byte %d", d.InputOffset())
		case n == 0 && token != json.Delim('{'):
			return refuse(http.StatusBadRequest, "the body is no JSON object like {}")
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if len(open) == maxDepth {
				return refuse(http.StatusBadRequest, "objects and lists in each other, more than %d deep", maxDepth)
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
				return refuse(http.StatusBadRequest, "the field %q is there twice", clip(key))
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

// decodeObject reads an object into the json fields of a struct.
func decodeObject(body []byte, v reflect.Value) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		return refuse(http.StatusBadRequest, "the body is no JSON object: %v", err)
	}
	fields := fieldsOf(v.Type(), "json")
	for name := range given {
		if !slices.ContainsFunc(fields, func(f fieldOf) bool { return f.name == name }) {
			return refuse(http.StatusBadRequest, "there is no field %q here%s", clip(name), known(name, fields))
		}
	}
	for _, f := range fields {
		raw, ok := given[f.name]
		if !ok {
			if !f.optional {
				return refuse(http.StatusBadRequest, "the field %q is missing", f.name)
			}
			continue
		}
		if err := f.setJSON(v, raw); err != nil {
			return err
		}
	}
	return nil
}

var durationType = reflect.TypeFor[time.Duration]()

// wanted says what the value of a field is like.
func wanted(t reflect.Type) string {
	switch {
	case t == durationType:
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

func (f *fieldOf) setJSON(v reflect.Value, raw json.RawMessage) error {
	at := v.Field(f.index)
	if string(raw) == "null" {
		return refuse(http.StatusBadRequest, "the field %q is null: leave it out", f.name)
	}
	if at.Type() == durationType {
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

func (f *fieldOf) setText(v reflect.Value, text string) error {
	at := v.Field(f.index)
	if at.Kind() == reflect.Pointer {
		at.Set(reflect.New(at.Type().Elem()))
		at = at.Elem()
	}
	var err error
	switch {
	case at.Type() == durationType:
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
func (f *fieldOf) check(at reflect.Value) error {
	if len(f.options) > 0 && !slices.Contains(f.options, at.String()) {
		return refuse(http.StatusBadRequest, "%s: %q is none of %s", f.name, clip(at.String()), strings.Join(f.options, ", "))
	}
	return nil
}

func (f *fieldOf) wrong(at reflect.Value, given string) error {
	return refuse(http.StatusBadRequest, "%s: %s is not %s", f.name, clip(given), wanted(at.Type()))
}
