package control

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"kshare/fault"
	"kshare/internal/jsonhttp"
)

// documentPath is where the interface describes itself.
const documentPath = "/openapi.json"

// object is a JSON object of the document.
type object = map[string]any

// document describes the interface in OpenAPI 3.1. It is made from the endpoints when it is first asked for: most processes never are.
var document = sync.OnceValue(describeAll)

// describer makes the document.
type describer struct{ schemas object }

func describeAll() object {
	d := describer{schemas: object{}}
	paths := object{}
	for i := range endpoints {
		e := &endpoints[i]
		path, ok := paths[e.path].(object)
		if !ok {
			path = object{}
			paths[e.path] = path
		}
		path[strings.ToLower(e.method)] = d.operation(e)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title":       "kshare control",
			"version":     "1",
			"description": "Moves the time of a kshare, shows the states of records, makes things go wrong, runs scenarios and empties the cluster.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"paths":      paths,
		"components": object{"schemas": d.schemas},
	}
}

func (d *describer) operation(e *endpoint) object {
	o := object{"operationId": e.operation, "summary": e.summary}
	var parameters []any
	for _, f := range jsonhttp.FieldsOf(e.takes, "") {
		if f.Source == "json" {
			continue
		}
		schema := d.schema(f.Type, asRequest)
		if f.Options != nil {
			schema["enum"] = f.Options
		}
		parameters = append(parameters, object{
			"name": f.Name, "in": f.Source, "required": f.Source == "path" || !f.Optional, "description": f.Doc, "schema": schema,
		})
	}
	if parameters != nil {
		o["parameters"] = parameters
	}
	if e.method == http.MethodPost {
		o["requestBody"] = object{"required": true, "content": jsonContent(d.request(e.takes))}
	}
	responses := object{}
	success := object{"description": "done"}
	if e.gives != nil {
		success["content"] = jsonContent(d.schema(e.gives, asAnswer))
	}
	responses[strconv.Itoa(e.status)] = success
	common := []int{http.StatusBadRequest, http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable}
	if e.method == http.MethodPost {
		common = append(common, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	for _, status := range append(common, e.refusals...) {
		responses[strconv.Itoa(status)] = object{
			"description": strings.ToLower(http.StatusText(status)), "content": jsonContent(d.schema(reflect.TypeFor[jsonhttp.Problem](), asAnswer)),
		}
	}
	o["responses"] = responses
	return o
}

func jsonContent(schema object) object { return object{"application/json": object{"schema": schema}} }

// direction is whose value a schema describes: numbers and names stand for each other in requests alone.
type direction int

const (
	asAnswer direction = iota
	asRequest
)

// request is the schema of a request's body.
func (d *describer) request(t reflect.Type) object {
	if t == reflect.TypeFor[newFault]() {
		return object{"oneOf": []any{
			d.structure(reflect.TypeFor[fault.Rule](), asRequest),
			d.structure(reflect.TypeFor[faultText](), asRequest),
		}}
	}
	return d.structure(t, asRequest)
}

// schema describes a type. The structs of answers are among the components, by their names.
func (d *describer) schema(t reflect.Type, as direction) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case jsonhttp.DurationType:
		return object{"type": "string", "pattern": durationPattern, "description": "a duration in Go's form, such as 31s, 500ms or 1m30s"}
	case reflect.TypeFor[fault.NameOrNumber]():
		if as == asRequest {
			return object{"type": []any{"string", "integer"}}
		}
		return object{"type": "string"}
	case reflect.TypeFor[fault.Level]():
		return object{"type": "string", "enum": texts(fault.Levels())}
	case reflect.TypeFor[fault.Stage]():
		return object{"type": "string", "enum": []any{string(fault.Before), string(fault.After)}}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		if as == asRequest {
			return d.schema(t.Elem(), as)
		}
		return object{"anyOf": []any{d.schema(t.Elem(), as), object{"type": "null"}}}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return object{"type": "integer", "format": "int32", "minimum": -int64(1) << (t.Bits() - 1), "maximum": int64(1)<<(t.Bits()-1) - 1}
	case reflect.Uint64:
		return object{"type": "integer", "format": "int64", "minimum": 0}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": d.schema(t.Elem(), as)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": d.schema(t.Elem(), as)}
	case reflect.Struct:
		name := t.Name()
		if d.schemas[name] == nil {
			d.schemas[name] = object{} // for types that hold themselves
			d.schemas[name] = d.structure(t, as)
		}
		return object{"$ref": "#/components/schemas/" + name}
	}
	panic("control: no schema for " + t.String())
}

// structure describes the JSON fields of a struct.
func (d *describer) structure(t reflect.Type, as direction) object {
	properties, required := object{}, []any{}
	for _, f := range jsonhttp.FieldsOf(t, "json") {
		schema := d.schema(f.Type, as)
		if f.Options != nil {
			schema["enum"] = texts(f.Options)
		}
		if f.Doc != "" {
			schema["description"] = f.Doc
		}
		properties[f.Name] = schema
		if !f.Optional {
			required = append(required, f.Name)
		}
	}
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func texts[S ~string](all []S) (out []any) {
	for _, s := range all {
		out = append(out, string(s))
	}
	return out
}

// durationPattern is what time.ParseDuration takes.
const durationPattern = `^[+-]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
