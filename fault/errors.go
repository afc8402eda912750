package fault

import (
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/describe"
)

// Selector picks the entries of messages that a rule means.
type Selector struct {
	Rule *Rule
	// Picks tells in the rule's place which entries are meant: of those that are on the way to a place all must be. nil where there is a rule.
	Picks func(Element) bool
	// Message stands beside the code where there is room for one, nil for none.
	Message *string
	// TopicName is the name of the topic with an id, "" where there is none.
	TopicName func(id [16]byte) string
}

// entry is what one entry of a list is known by, a field's name and value each.
type entry map[string]reflect.Value

// knownBy are the fields that an entry of a request and its entry in the answer have in common.
var knownBy = []string{"Topic", "TopicID", "Partition", "Group", "GroupID", "ResourceType", "ResourceName", "Key", "MemberID", "InstanceID", "TransactionalID"}

// requestNames are other names that lists of an answer have in requests, and what their elements are where those are no structs.
var requestNames = map[string][]string{"Topics": {"TopicNames"}, "Coordinators": {"CoordinatorKeys"}, "Groups": {"GroupIDs"},
	"TransactionStates": {"TransactionalIDs"}}

var plainElements = map[string]string{
	"TopicNames": "Topic", "CoordinatorKeys": "Key", "Groups": "Group", "GroupIDs": "GroupID", "Partitions": "Partition",
	"TransactionalIDs": "TransactionalID",
}

// entryOf is what an element of a list is known by.
func entryOf(v reflect.Value, list string) entry {
	if v.Kind() != reflect.Struct {
		return entry{plainElements[list]: v}
	}
	e := entry{}
	for _, name := range knownBy {
		if f := v.FieldByName(name); f.IsValid() {
			e[name] = f
		}
	}
	if list == "Markers" { // a producer id is elsewhere what is answered, not what is asked for
		e["ProducerID"] = v.FieldByName("ProducerID")
	}
	return e
}

func (e entry) text(name string) (string, bool) {
	v, ok := e[name]
	if !ok {
		return "", false
	}
	if v = reflect.Indirect(v); !v.IsValid() {
		return "", true // null
	}
	return v.String(), true
}

// Element is an entry of a message, as Selector.Picks is to know it.
type Element struct{ entry entry }

// Text is the text of a field that the entry is known by, as in Topic, Group or ResourceName; false where it has no such field. Null is "".
func (e Element) Text(field string) (string, bool) { return e.entry.text(field) }

// TopicID is the id of the topic that the entry is about, zero where it has none.
func (e Element) TopicID() (id [16]byte) {
	if v, ok := e.entry["TopicID"]; ok {
		id = v.Interface().([16]byte)
	}
	return id
}

// Number is the number in a field that the entry is known by, as in Partition or ResourceType; false where it has no such field.
func (e Element) Number(field string) (int64, bool) {
	v, ok := e.entry[field]
	if !ok || !v.CanInt() {
		return 0, false
	}
	return v.Int(), true
}

// picks tells whether the entry is one that the rule means, or has such below it.
func (s *Selector) picks(e entry) bool {
	if s.Picks != nil {
		return s.Picks(Element{e})
	}
	r := s.Rule
	if kind, ok := e["ResourceType"]; ok && (r.Topic != "" || r.Group != "") {
		name, _ := e.text("ResourceName")
		switch kmsg.ConfigResourceType(kind.Int()) {
		case kmsg.ConfigResourceTypeTopic:
			return name == r.Topic
		case kmsg.ConfigResourceTypeGroupConfig:
			return name == r.Group
		}
		return false
	}
	if r.Group != "" {
		for _, field := range []string{"Group", "GroupID"} {
			if group, ok := e.text(field); ok && group != r.Group {
				return false
			}
		}
		if key, ok := e.text("Key"); ok {
			if group, _ := describe.ShareKeyGroup(key); key != r.Group && group != r.Group {
				return false
			}
		}
	}
	if p, ok := e["Partition"]; ok && r.Partition != nil && p.Int() != int64(*r.Partition) {
		return false
	}
	return r.Topic == "" || s.picksTopic(e)
}

func (s *Selector) picksTopic(e entry) bool {
	name, named := e.text("Topic")
	id, byID := e["TopicID"]
	switch {
	case name != "":
		return name == s.Rule.Topic
	case byID:
		return s.TopicName(id.Interface().([16]byte)) == s.Rule.Topic
	}
	return !named
}

// Taken are entries that were taken out of a request: the way from the top to each.
type Taken [][]entry

// Take takes the entries out of a request that are to fail at a place. rest tells whether something is left to be handled. Entries that
// the request does not list are not taken: those of a request for all topics, and partitions where it names topics alone.
func (s *Selector) Take(q kmsg.Request, at Place) (taken Taken, rest bool) {
	t := taker{selector: s}
	rest = t.take(reflect.ValueOf(q).Elem(), at.path, nil)
	return t.taken, rest
}

type taker struct {
	selector *Selector
	taken    Taken
}

func (t *taker) take(v reflect.Value, path []string, way []entry) (rest bool) {
	list, name := requestList(v, path[0])
	if !list.IsValid() || list.IsNil() {
		return true
	}
	kept := reflect.MakeSlice(list.Type(), 0, list.Len())
	for i := range list.Len() {
		x := list.Index(i)
		e := entryOf(x, name)
		if t.selector.picks(e) && !t.takeBelow(x, path[1:], append(slices.Clone(way), e)) {
			continue
		}
		kept = reflect.Append(kept, x)
	}
	list.Set(kept)
	return kept.Len() > 0
}

// takeBelow takes an element, or what is below it. It tells whether the element stays.
func (t *taker) takeBelow(x reflect.Value, path []string, way []entry) (stays bool) {
	if len(path) == 0 {
		t.taken = append(t.taken, way)
		return false
	}
	before := len(t.taken)
	rest := t.take(x, path, way)
	return rest || len(t.taken) == before
}

// requestList is the list of a request that a list of the answer answers, and its name.
func requestList(v reflect.Value, name string) (reflect.Value, string) {
	list := v.FieldByName(name)
	for _, other := range requestNames[name] {
		if f := v.FieldByName(other); f.IsValid() && (!list.IsValid() || list.Len() == 0 && f.Len() > 0) {
			list, name = f, other
		}
	}
	if list.IsValid() && list.Kind() != reflect.Slice {
		return reflect.Value{}, ""
	}
	return list, name
}

// Put adds the entries that were taken out of a request to its answer, with an error code, unless they are there.
func (s *Selector) Put(p kmsg.Response, at Place, taken Taken, code int16) {
	for _, way := range taken {
		v := reflect.ValueOf(p).Elem()
		added := false
		for depth, e := range way {
			v, added = e.findOrAdd(v.FieldByName(at.path[depth]))
		}
		if added {
			fail(v, at, code)
			s.say(v)
		}
	}
}

// say puts the message beside a code.
func (s *Selector) say(v reflect.Value) {
	if m := v.FieldByName("ErrorMessage"); s.Message != nil && m.IsValid() && m.Kind() == reflect.Pointer {
		m.Set(reflect.ValueOf(s.Message))
	}
}

// findOrAdd finds the element of a list that an entry is, or adds it.
func (e entry) findOrAdd(list reflect.Value) (element reflect.Value, added bool) {
	for i := range list.Len() {
		if e.is(list.Index(i)) {
			return list.Index(i), false
		}
	}
	x := newElement(list.Type().Elem())
	for name, value := range e {
		assign(x.FieldByName(name), value)
	}
	list.Set(reflect.Append(list, x))
	return list.Index(list.Len() - 1), true
}

// is tells whether an element of an answer is the entry: equal in what both are known by. A zero value stands for a field that the version has not.
func (e entry) is(x reflect.Value) bool {
	for name, value := range e {
		f := x.FieldByName(name)
		if !f.IsValid() {
			continue
		}
		a, b := reflect.Indirect(value), reflect.Indirect(f)
		if !a.IsValid() || name != "Partition" && a.IsZero() {
			continue
		}
		if !b.IsValid() || a.Interface() != b.Interface() {
			return false
		}
	}
	return true
}

// assign sets a field that may be nullable to a value that may be.
func assign(field, value reflect.Value) {
	value = reflect.Indirect(value)
	switch {
	case !field.IsValid() || !value.IsValid():
	case field.Kind() == reflect.Pointer:
		p := reflect.New(field.Type().Elem())
		p.Elem().Set(value.Convert(field.Type().Elem()))
		field.Set(p)
	default:
		field.Set(value.Convert(field.Type()))
	}
}

// Fail makes errors of the entries of an answer that the rule means, and returns how many.
func (s *Selector) Fail(p kmsg.Response, at Place, code int16) int {
	return s.failIn(reflect.ValueOf(p).Elem(), at, at.path, code)
}

func (s *Selector) failIn(v reflect.Value, at Place, path []string, code int16) (n int) {
	if len(path) == 0 {
		fail(v, at, code)
		return 1
	}
	list := v.FieldByName(path[0])
	for i := range list.Len() {
		if x := list.Index(i); s.picks(entryOf(x, path[0])) {
			n += s.failIn(x, at, path[1:], code)
		}
	}
	return n
}

// FailAll makes the answer to a request that fails as a whole and has no place for that at the top: each entry that it lists fails. It is nil where answers of
// the version have no place for an error.
func FailAll(q kmsg.Request, a *protocol.API, code int16) kmsg.Response {
	all := inVersion(places(a), a, q.GetVersion())
	if len(all) == 0 {
		return nil
	}
	if all[0].Level == Top {
		return FailTop(q, code)
	}
	return FailAt(q, all[0], code, nil)
}

// FailAt makes the answer to a request of which each entry fails that it lists at a place, with a message where there is one and room for it. The request loses
// the entries.
func FailAt(q kmsg.Request, at Place, code int16, message *string) kmsg.Response {
	s := Selector{Message: message, Picks: func(Element) bool { return true }}
	if at.Level == Top {
		p := FailTop(q, code)
		s.say(reflect.ValueOf(p).Elem())
		return p
	}
	p := q.ResponseKind()
	taken, _ := s.Take(q, at)
	s.Put(p, at, taken, code)
	return p
}

// PlaceOf is the place of a level in the answers of a version of an API, false where they have none.
func PlaceOf(a *protocol.API, version int16, level Level) (Place, bool) {
	for _, p := range inVersion(places(a), a, version) {
		if p.Level == level {
			return p, true
		}
	}
	return Place{}, false
}

// FailTop makes the answer to a request that fails as a whole.
func FailTop(q kmsg.Request, code int16) kmsg.Response {
	p := q.ResponseKind()
	fail(reflect.ValueOf(p).Elem(), Place{Level: Top, field: codeField}, code)
	if q, ok := q.(*kmsg.JoinGroupRequest); ok {
		p.(*kmsg.JoinGroupResponse).MemberID = q.MemberID
	}
	return p
}

// kept are fields that an entry with an error has in Kafka as one without.
var kept = append([]string{"User", "Replicas", "ISR", "OfflineReplicas", "EligibleLeaderReplicas", "LastKnownELR"}, knownBy...)

// fail makes an error of an entry: what it is known by stays, the code is set, and the rest is what Kafka has beside an error.
func fail(v reflect.Value, at Place, code int16) {
	if at.field == acknowledgeField {
		v.FieldByName(acknowledgeField).SetInt(int64(code))
		return
	}
	failed := newElement(v.Type())
	if version := v.FieldByName("Version"); version.IsValid() {
		failed.FieldByName("Version").Set(version)
	}
	for f, x := range failed.Fields() {
		switch {
		case f.Name == codeField:
			x.SetInt(int64(code))
		case slices.Contains(kept, f.Name):
			x.Set(v.FieldByName(f.Name))
		case x.CanInt() && unknownIsMinusOne(v.Type(), f.Name):
			x.SetInt(-1)
		}
		if x.Kind() == reflect.Slice && x.IsNil() {
			x.Set(reflect.MakeSlice(x.Type(), 0, 0)) // some clients cannot read null
		}
	}
	v.Set(failed)
}

// unknownIsMinusOne tells whether a number is -1 beside an error, as Kafka's request classes have it in getErrorResponse.
func unknownIsMinusOne(t reflect.Type, field string) bool {
	switch field {
	case "BaseOffset", "LogAppendTime", "LogStartOffset", "HighWatermark", "LastStableOffset", "Offset", "Timestamp", "EndOffset", "LowWatermark",
		"Lag", "NumPartitions", "ReplicationFactor", "Leader", "LeaderID", "NodeID", "Port", "ProducerID", "ProducerEpoch", "Generation":
		return true
	case "LeaderEpoch":
		return !strings.HasPrefix(t.Name(), "ReadShareGroupState")
	case "StartOffset":
		return !strings.HasPrefix(t.Name(), "ReadShareGroupState")
	}
	return false
}
