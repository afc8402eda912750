package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"kshare/internal/spelling"
)

// keys are the keys of a rule in the order of its fields, and the place of each field.
var keys, fieldOf = func() (keys []string, at map[string]int) {
	at = map[string]int{}
	t := reflect.TypeFor[Rule]()
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		keys = append(keys, key)
		at[key] = i
	}
	return keys, at
}()

func unknownKey(key string) error {
	return fmt.Errorf("a rule has no key %q%s; its keys are %s", key, spelling.DidYouMean(key, keys), strings.Join(keys, ", "))
}

// ParseRule reads the text form of a rule, key=value words, and checks it as Check does.
func ParseRule(words ...string) (Rule, error) {
	var r Rule
	seen := map[string]bool{}
	for _, word := range words {
		key, text, valued := strings.Cut(word, "=")
		i, ok := fieldOf[key]
		if !ok {
			return Rule{}, unknownKey(key)
		}
		if seen[key] {
			return Rule{}, fmt.Errorf("%s is said twice: a rule has each key once", key)
		}
		seen[key] = true
		field := reflect.ValueOf(&r).Elem().Field(i)
		if !valued && field.Kind() != reflect.Bool {
			return Rule{}, fmt.Errorf("%s has no value: say %s=%s", key, key, wanted(field.Type()))
		}
		if !valued {
			text = "true"
		}
		if err := setText(field, text); err != nil {
			return Rule{}, fmt.Errorf("%s=%s: %w", key, text, err)
		}
		if field.IsZero() {
			return Rule{}, fmt.Errorf("%s=%s says nothing: leave it out", key, text)
		}
	}
	return r, r.Check()
}

// wanted says what the value of a field is like.
func wanted(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration like 1.5s"
	case t == reflect.TypeFor[Stage]():
		return "before or after"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "a number like 0.5"
	}
	return "a whole number"
}

// setText sets a field from its text.
func setText(field reflect.Value, text string) error {
	if field.Kind() == reflect.Pointer {
		p := reflect.New(field.Type().Elem())
		if err := setText(p.Elem(), text); err != nil {
			return err
		}
		field.Set(p)
		return nil
	}
	var err error
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
	case reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		field.SetBool(b)
	case reflect.Float64:
		var x float64
		x, err = strconv.ParseFloat(text, 64)
		field.SetFloat(x)
	case reflect.Uint64:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 64)
		field.SetUint(n)
	case reflect.Int64: // the only one is the duration
		var d time.Duration
		d, err = time.ParseDuration(text)
		field.SetInt(int64(d))
	default:
		var n int64
		n, err = strconv.ParseInt(text, 10, field.Type().Bits())
		field.SetInt(n)
	}
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%s is out of range for %d bits", text, field.Type().Bits())
	}
	if err != nil {
		return fmt.Errorf("that is not %s", wanted(field.Type()))
	}
	return nil
}

// String is the text form of the rule. Values with spaces in them are quoted.
func (r Rule) String() string {
	var b strings.Builder
	v := reflect.ValueOf(r)
	for i, key := range keys {
		field := v.Field(i)
		if field.IsZero() {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(key)
		if field.Kind() == reflect.Bool {
			continue
		}
		text := fmt.Sprint(reflect.Indirect(field).Interface())
		if strings.ContainsAny(text, " \t\n\"") {
			text = strconv.Quote(text)
		}
		b.WriteString("=" + text)
	}
	return b.String()
}

// DecodeRule reads the JSON form of a rule and checks it as Check does. Keys that a rule has not, keys said twice and anything behind the object are refused.
func DecodeRule(b []byte) (Rule, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	var r Rule
	if err := d.Decode(&r); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return Rule{}, errors.New("the rule ends before its JSON object does")
		}
		return Rule{}, err
	}
	if rest, err := io.ReadAll(d.Buffered()); err != nil || len(bytes.TrimSpace(rest)) > 0 {
		return Rule{}, errors.New("there is something behind the rule's JSON object")
	}
	return r, r.Check()
}

// plain is a Rule without its methods.
type plain Rule

// MarshalJSON implements json.Marshaler.
func (r Rule) MarshalJSON() ([]byte, error) {
	p := struct {
		plain
		Delay string `json:"delay,omitempty"`
	}{plain: plain(r)}
	if r.Delay != 0 {
		p.Delay = r.Delay.String()
	}
	return json.Marshal(p)
}

// UnmarshalJSON implements json.Unmarshaler. It is as strict as DecodeRule but does not check the rule.
func (r *Rule) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	start, err := d.Token()
	if err != nil {
		return err
	}
	if start != json.Delim('{') {
		return fmt.Errorf("a rule is a JSON object like {\"api\": \"Fetch\", \"close\": true}, not %s", clip(b))
	}
	*r = Rule{}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key := token.(string) // an object's keys are strings, or Token has failed
		i, ok := fieldOf[key]
		if !ok {
			return unknownKey(key)
		}
		if seen[key] {
			return fmt.Errorf("%q is there twice: a rule has each key once", key)
		}
		seen[key] = true
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		if err := setJSON(reflect.ValueOf(r).Elem().Field(i), raw); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	_, err = d.Token()
	return err
}

// setJSON sets a field from its JSON value.
func setJSON(field reflect.Value, raw json.RawMessage) error {
	if field.Type() == reflect.TypeFor[time.Duration]() {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return fmt.Errorf("%s is not %s, as text", clip(raw), wanted(field.Type()))
		}
		return setText(field, text)
	}
	if field.Type() == reflect.TypeFor[NameOrNumber]() {
		var n int16
		if json.Unmarshal(raw, &n) == nil && raw[0] != 'n' {
			field.SetString(strconv.Itoa(int(n)))
			return nil
		}
	}
	if string(raw) == "null" {
		return errors.New("null says nothing: leave it out")
	}
	if json.Unmarshal(raw, field.Addr().Interface()) != nil {
		return fmt.Errorf("%s is not %s", clip(raw), wanted(field.Type()))
	}
	return nil
}

// clip shortens what an error repeats of its input.
func clip(b []byte) string {
	const most = 40
	if len(b) > most {
		return string(b[:most]) + "..."
	}
	return string(b)
}
