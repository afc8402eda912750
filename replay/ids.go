package replay

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strings"

	"kshare/protocol"
	"kshare/protocol/describe"
)

// idKind is a kind of name that a broker makes up, so that two runs differ in it.
type idKind string

// The kinds of ids. Within a kind the ids of the recording and ours stand for each other one to one.
const (
	noID       idKind = ""
	uuidID     idKind = "uuid"
	clusterID  idKind = "cluster id"
	memberID   idKind = "member id"
	producerID idKind = "producer id"
	portID     idKind = "port"
	sessionID  idKind = "fetch session id"
)

// idKindOf tells which kind of id a field is.
func idKindOf(field string, x any) idKind {
	switch x.(type) {
	case [16]byte:
		return uuidID
	case string:
		switch field {
		case "ClusterID":
			return clusterID
		case "MemberID", "LeaderID":
			return memberID
		}
	case int64:
		switch field {
		case "ProducerID":
			return producerID
		case "Port":
			return portID
		case "SessionID":
			return sessionID
		}
	}
	return noID
}

// isAbsent tells whether a value means that there is no id; it stands for itself alone.
func isAbsent(k idKind, x any) bool {
	switch x := x.(type) {
	case [16]byte:
		return x == [16]byte{}
	case string:
		return x == ""
	case int64:
		return x < 0 || x == 0 && k != producerID
	}
	return true
}

// ids is what is known of which recorded id stands for which of ours.
//
// A recorded id that a request names before any answer did was chosen by the recorder and stands for itself.
type ids struct {
	ours     map[idKind]map[any]any
	recorded map[idKind]map[any]any
	literal  map[idKind]map[any]bool
	texts    *strings.Replacer // recorded ids within longer texts; nil after a change
}

func newIDs() *ids {
	return &ids{ours: map[idKind]map[any]any{}, recorded: map[idKind]map[any]any{}, literal: map[idKind]map[any]bool{}}
}

// pair makes two ids stand for each other.
func (m *ids) pair(k idKind, recorded, our any) {
	if m.ours[k] == nil {
		m.ours[k], m.recorded[k] = map[any]any{}, map[any]any{}
	}
	m.ours[k][recorded], m.recorded[k][our] = our, recorded
	m.texts = nil
}

// clone copies what is known.
func (m *ids) clone() *ids {
	c := newIDs()
	for k := range m.ours {
		c.ours[k], c.recorded[k] = maps.Clone(m.ours[k]), maps.Clone(m.recorded[k])
	}
	for k := range m.literal {
		c.literal[k] = maps.Clone(m.literal[k])
	}
	return c
}

// match tells whether our id is the one that stands for the recorded one, and remembers a pair seen for the
// first time.
func (m *ids) match(k idKind, recorded, our any) bool {
	if isAbsent(k, recorded) || isAbsent(k, our) || m.literal[k][recorded] {
		return recorded == our
	}
	if known, ok := m.ours[k][recorded]; ok {
		return known == our
	}
	if _, taken := m.recorded[k][our]; taken || k == memberID && shape(recorded.(string)) != shape(our.(string)) {
		return false
	}
	m.pair(k, recorded, our)
	return true
}

var (
	uuidForm    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	kafkaIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)
)

// shape is a generated member id with its random part taken out.
func shape(id string) string {
	if kafkaIDForm.MatchString(id) {
		return "a uuid in Kafka's text form"
	}
	return uuidForm.ReplaceAllString(id, "a uuid")
}

// request returns our id for one that a recorded request names.
func (m *ids) request(k idKind, recorded any) any {
	if isAbsent(k, recorded) {
		return recorded
	}
	if our, ok := m.ours[k][recorded]; ok {
		return our
	}
	if m.literal[k] == nil {
		m.literal[k] = map[any]bool{}
	}
	m.literal[k][recorded] = true
	return recorded
}

// longText is the length from which on an id is replaced inside other texts too.
const longText = 16

// text puts our ids in place of the recorded ones inside a text.
func (m *ids) text(s string) string {
	if len(s) < longText {
		return s
	}
	if m.texts == nil {
		var pairs []string
		for k, ours := range m.ours {
			for recorded, our := range ours {
				a, b := idText(k, recorded), idText(k, our)
				if len(a) >= longText {
					pairs = append(pairs, a, b)
				}
			}
		}
		m.texts = strings.NewReplacer(pairs...)
	}
	return m.texts.Replace(s)
}

func idText(k idKind, id any) string {
	switch id := id.(type) {
	case [16]byte:
		return describe.UUIDText(id)
	case string:
		return id
	}
	return fmt.Sprint(id)
}

// bytes puts our uuids, and texts as long as ours, in place of the recorded ones in bytes as they stand.
func (m *ids) bytes(b []byte) []byte {
	for recorded, our := range m.ours[uuidID] {
		r, o := recorded.([16]byte), our.([16]byte)
		b = bytes.ReplaceAll(b, r[:], o[:])
	}
	for _, k := range []idKind{clusterID, memberID} {
		for recorded, our := range m.ours[k] {
			if r, o := recorded.(string), our.(string); len(r) == len(o) && len(r) >= longText {
				b = bytes.ReplaceAll(b, []byte(r), []byte(o))
			}
		}
	}
	return b
}

// rewrite returns the step's request with our ids in place of the recorded ones.
func (m *ids) rewrite(s *Step) ([]byte, error) {
	if s.Raw {
		return m.bytes(s.Request), nil
	}
	req, head, err := decodeRequest(s)
	if err != nil {
		return nil, err
	}
	substitute(reflect.ValueOf(req).Elem(), "", m.request, m.text)
	return req.AppendTo(bytes.Clone(s.Request[:head])), nil
}

// substitute replaces in a kmsg struct each id by what id makes of it and each other text by what text does.
func substitute(v reflect.Value, field string, id func(idKind, any) any, text func(string) string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			substitute(v.Elem(), field, id, text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "UnknownTags" && f.Name != "Version" {
				substitute(v.Field(i), f.Name, id, text)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				substitute(v.Index(i), field, id, text)
			}
		} else if describe.IsRecords(field) && v.Len() > 0 {
			v.SetBytes(substituteRecords(v.Bytes(), id))
		}
	case reflect.Array:
		var x [16]byte
		reflect.Copy(reflect.ValueOf(&x).Elem(), v)
		v.Set(reflect.ValueOf(id(uuidID, x)))
	case reflect.String:
		if k := idKindOf(field, v.String()); k != noID {
			v.SetString(id(k, v.String()).(string))
		} else {
			v.SetString(text(v.String()))
		}
	case reflect.Int32, reflect.Int64:
		if k := idKindOf(field, v.Int()); k != noID {
			v.SetInt(id(k, v.Int()).(int64))
		}
	}
}

func substituteRecords(b []byte, id func(idKind, any) any) []byte {
	batches, rest := describe.WholeBatches(b)
	var out []byte
	for _, x := range batches {
		h, _ := protocol.ParseBatchHeader(x)
		if our := id(producerID, h.ProducerID).(int64); our != h.ProducerID {
			x = withProducerID(x, our)
		}
		out = append(out, x...)
	}
	return append(out, rest...)
}
