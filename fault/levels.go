package fault

import (
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

var allLevels = []Level{Top, Group, Coordinator, Resource, Member, Entry, Topic, Partition, Acknowledge}

// Levels are all levels, from the highest to the lowest.
func Levels() []Level { return slices.Clone(allLevels) }

func joinLevels(levels []Level) string {
	text := make([]string, len(levels))
	for i, l := range levels {
		text[i] = string(l)
	}
	return strings.Join(text, ", ")
}

// Place is where answers of an API have an error code.
type Place struct {
	Level Level
	path  []string // the lists on the way down from the answer, none for the top
	field string   // of the code
}

const (
	codeField        = "ErrorCode"
	acknowledgeField = "AcknowledgeErrorCode"
)

// places are the places of the answers of an API in any version, the highest first.
func places(a *protocol.API) []Place {
	p := a.NewResponse(a.Highest())
	if p == nil {
		return nil
	}
	var found []Place
	findPlaces(reflect.TypeOf(p).Elem(), Top, nil, &found)
	slices.SortStableFunc(found, func(a, b Place) int { return len(a.path) - len(b.path) })
	return found
}

func findPlaces(t reflect.Type, level Level, path []string, found *[]Place) {
	if _, ok := t.FieldByName(codeField); ok {
		*found = append(*found, Place{level, slices.Clone(path), codeField})
	}
	if _, ok := t.FieldByName(acknowledgeField); ok {
		*found = append(*found, Place{Acknowledge, slices.Clone(path), acknowledgeField})
	}
	for f := range t.Fields() {
		if f.Type.Kind() != reflect.Slice || f.Type.Elem().Kind() != reflect.Struct {
			continue
		}
		findPlaces(f.Type.Elem(), elementLevel(f.Type.Elem()), append(slices.Clone(path), f.Name), found)
	}
}

// elementLevel is the level of the elements of a list, by what they are known by.
func elementLevel(t reflect.Type) Level {
	for _, l := range []struct {
		field string
		level Level
	}{
		{"Partition", Partition}, {"Topic", Topic}, {"TopicID", Topic}, {"Group", Group}, {"GroupID", Group},
		{"ResourceName", Resource}, {"Key", Coordinator}, {"MemberID", Member},
	} {
		if _, ok := t.FieldByName(l.field); ok {
			return l.level
		}
	}
	return Entry
}

// inVersion keeps the places that answers of a version have.
func inVersion(all []Place, a *protocol.API, version int16) []Place {
	if len(all) == 0 {
		return nil
	}
	p := a.NewResponse(version)
	for i := range all {
		all[i].first(p).SetInt(int64(i + 1))
	}
	decoded := a.NewResponse(version)
	if decoded.ReadFrom(p.AppendTo(nil)) != nil {
		return nil
	}
	marks := make([]int64, len(all))
	for i := range all {
		marks[i] = all[i].first(decoded).Int()
	}
	var kept []Place
	for i, place := range all {
		if marks[i] == int64(i+1) {
			kept = append(kept, place)
		}
	}
	return kept
}

// first is the code of the first element, which is made where there is none.
func (p *Place) first(answer kmsg.Response) reflect.Value {
	v := reflect.ValueOf(answer).Elem()
	for _, name := range p.path {
		list := v.FieldByName(name)
		if list.Len() == 0 {
			list.Set(reflect.Append(list, newElement(list.Type().Elem())))
		}
		v = list.Index(0)
	}
	return v.FieldByName(p.field)
}

// newElement makes an element of a list with its defaults.
func newElement(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if d, ok := v.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	return v.Elem()
}

// levelsOf are the levels that an API has in some version that is offered.
func levelsOf(a *protocol.API) (levels []Level) {
	for v := a.MinVersion; v <= a.MaxVersion; v++ {
		for _, p := range inVersion(places(a), a, v) {
			if !slices.Contains(levels, p.Level) {
				levels = append(levels, p.Level)
			}
		}
	}
	slices.SortFunc(levels, func(a, b Level) int { return slices.Index(allLevels, a) - slices.Index(allLevels, b) })
	return levels
}

func hasLevel(a *protocol.API, l Level) bool { return slices.Contains(levelsOf(a), l) }

// Place is where the rule's error goes in an answer, false where answers of the version have no place for one.
func (r *Rule) Place(a *protocol.API, version int16) (Place, bool) {
	all := inVersion(places(a), a, version)
	if len(all) == 0 {
		return Place{}, false
	}
	for _, level := range r.wantedLevels() {
		for _, p := range all {
			if p.Level == level {
				return p, true
			}
		}
	}
	return all[0], true
}

// wantedLevels are the levels for the rule's error, of which the first that there is is taken, else the highest.
func (r *Rule) wantedLevels() (levels []Level) {
	if r.Level != "" {
		levels = append(levels, r.Level)
	}
	switch {
	case r.Partition != nil:
		return append(levels, Partition, Topic, Resource)
	case r.Topic != "":
		return append(levels, Topic, Resource, Partition)
	case r.Group != "":
		return append(levels, Group, Coordinator, Resource)
	}
	return levels
}
