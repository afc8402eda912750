package connect

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// transform changes a record, or drops it: nil.
type transform func(r *SinkRecord) (*SinkRecord, error)

// packageOfTransforms is where Kafka has its transformations.
const packageOfTransforms = "org.apache.kafka.connect.transforms."

// newTransforms makes the chain that the property transforms names.
func newTransforms(of map[string]string) (chain []transform, err error) {
	seen := map[string]bool{}
	for _, alias := range list(of["transforms"]) {
		if seen[alias] {
			return nil, wrong("transforms", of["transforms"], "names "+alias+" twice")
		}
		seen[alias] = true
		prefix := "transforms." + alias + "."
		class, ok := of[prefix+"type"]
		if !ok {
			return nil, &ConfigError{prefix + "type", "is missing: transforms names " + alias}
		}
		for _, key := range []string{"predicate", "negate"} {
			if text, ok := of[prefix+key]; ok {
				return nil, wrong(prefix+key, text, "predicates are not supported")
			}
		}
		name, part, _ := strings.Cut(strings.TrimPrefix(class, packageOfTransforms), "$")
		make, known := transforms[name]
		if !known {
			return nil, wrong(prefix+"type", class, "is no transformation here: "+strings.Join(slices.Sorted(maps.Keys(transforms)), ", ")+" are")
		}
		if name != "RegexRouter" && part != "Key" && part != "Value" {
			return nil, wrong(prefix+"type", class, "has to end in $Key or $Value")
		}
		t, err := make(properties{of, prefix}, part == "Key")
		if err != nil {
			return nil, err
		}
		chain = append(chain, t)
	}
	return chain, nil
}

// properties are those of one transformation.
type properties struct {
	all    map[string]string
	prefix string
}

// needed is a property that has to be there.
func (p properties) needed(key string) (string, error) {
	v, ok := p.all[p.prefix+key]
	if !ok || v == "" {
		return "", &ConfigError{p.prefix + key, "is missing"}
	}
	return v, nil
}

// transforms are Kafka's transformations that are here. What makes one is told whether it is for keys.
var transforms = map[string]func(p properties, key bool) (transform, error){
	"RegexRouter":  regexRouter,
	"HoistField":   hoistField,
	"ExtractField": extractField,
	"ReplaceField": replaceField,
	"InsertField":  insertField,
}

// part is what a transformation works on: the key or the value.
func part(r *SinkRecord, key bool) (*any, **Schema) {
	if key {
		return &r.Key, &r.KeySchema
	}
	return &r.Value, &r.ValueSchema
}

func regexRouter(p properties, _ bool) (transform, error) {
	text, err := p.needed("regex")
	if err != nil {
		return nil, err
	}
	pattern, err := fullMatch(text)
	if err != nil {
		return nil, wrong(p.prefix+"regex", text, err.Error())
	}
	to, err := p.needed("replacement")
	if err != nil {
		return nil, err
	}
	to = regexp.MustCompile(`\$(\d+)`).ReplaceAllString(to, `$${$1}`) // Go would read $1x as the group named 1x
	return func(r *SinkRecord) (*SinkRecord, error) {
		routed := *r
		if pattern.MatchString(r.Topic) {
			routed.Topic = pattern.ReplaceAllString(r.Topic, to)
		}
		return &routed, nil
	}, nil
}

func hoistField(p properties, key bool) (transform, error) {
	field, err := p.needed("field")
	return func(r *SinkRecord) (*SinkRecord, error) {
		hoisted := *r
		v, s := part(&hoisted, key)
		*v = map[string]any{field: *v}
		if *s != nil {
			inner := **s
			inner.Field = field
			*s = &Schema{Type: "struct", Fields: []*Schema{&inner}}
		}
		return &hoisted, nil
	}, err
}

func extractField(p properties, key bool) (transform, error) {
	field, err := p.needed("field")
	return func(r *SinkRecord) (*SinkRecord, error) {
		extracted := *r
		v, s := part(&extracted, key)
		m, err := fields(*v, "ExtractField")
		if err != nil {
			return nil, err
		}
		*v = m[field]
		if *s != nil {
			i := slices.IndexFunc((*s).Fields, func(f *Schema) bool { return f.Field == field })
			if i < 0 {
				return nil, fmt.Errorf("ExtractField: there is no field %s", field)
			}
			*s = (*s).Fields[i]
		}
		return &extracted, nil
	}, err
}

func replaceField(p properties, key bool) (transform, error) {
	exclude, include := list(p.all[p.prefix+"exclude"]), list(p.all[p.prefix+"include"])
	if text, ok := p.all[p.prefix+"renames"]; ok {
		return nil, wrong(p.prefix+"renames", text, "renaming is not supported")
	}
	drop := func(field string) bool {
		return slices.Contains(exclude, field) || len(include) > 0 && !slices.Contains(include, field)
	}
	return func(r *SinkRecord) (*SinkRecord, error) {
		replaced := *r
		v, s := part(&replaced, key)
		m, err := fields(*v, "ReplaceField")
		if err != nil || m == nil {
			return &replaced, err
		}
		kept := maps.Clone(m)
		maps.DeleteFunc(kept, func(field string, _ any) bool { return drop(field) })
		*v, *s = kept, (*s).without(drop)
		return &replaced, nil
	}, nil
}

func insertField(p properties, key bool) (transform, error) {
	field, err := p.needed("static.field")
	if err != nil {
		return nil, err
	}
	value, err := p.needed("static.value")
	return func(r *SinkRecord) (*SinkRecord, error) {
		inserted := *r
		v, s := part(&inserted, key)
		m, err := fields(*v, "InsertField")
		if err != nil || m == nil {
			return &inserted, err
		}
		more := maps.Clone(m)
		more[field] = value
		*v = more
		if *s != nil {
			wider := **s
			wider.Fields = append(slices.Clone(wider.Fields), &Schema{Type: "string", Field: field})
			*s = &wider
		}
		return &inserted, nil
	}, err
}

// fields are those of a value that has any; null has none.
func fields(v any, who string) (map[string]any, error) {
	if v == nil {
		return nil, nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: %T has no fields", who, v)
	}
	return m, nil
}
