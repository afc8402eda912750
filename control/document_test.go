package control_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"kshare/sharepartition"
)

// document is the description of the interface.
func document(t *testing.T) map[string]any {
	t.Helper()
	w := newAPI(t).do(request(t, http.MethodGet, "/openapi.json", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var d map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d))
	return d
}

// seen is the statuses that tests have seen of each operation.
var seen = struct {
	sync.Mutex
	statuses map[string]map[int]bool
}{statuses: map[string]map[int]bool{}}

// unseen are the operations of which no success was seen.
func unseen() (names []string) {
	for path, operations := range described["paths"].(map[string]any) {
		for method := range operations.(map[string]any) {
			name := strings.ToUpper(method) + " " + path
			statuses := seen.statuses[name]
			if !statuses[http.StatusOK] && !statuses[http.StatusCreated] && !statuses[http.StatusNoContent] {
				names = append(names, name)
			}
		}
	}
	return names
}

// described is the document, which is the same for all clusters.
var described map[string]any

// checkAnswer holds an answer against the document.
func checkAnswer(t *testing.T, method, target string, w *httptest.ResponseRecorder) {
	t.Helper()
	if described == nil {
		described = document(t)
	}
	u, err := url.Parse(target)
	require.NoError(t, err)
	for path, operations := range described["paths"].(map[string]any) {
		if !regexp.MustCompile("^" + regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, "[^/]+") + "$").MatchString(u.Path) {
			continue
		}
		operation, ok := operations.(map[string]any)[strings.ToLower(method)].(map[string]any)
		if !ok {
			continue
		}
		response, ok := operation["responses"].(map[string]any)[strconv.Itoa(w.Code)].(map[string]any)
		require.True(t, ok, "%s %s answers %d, which the document does not know", method, path, w.Code)
		seen.Lock()
		if seen.statuses[method+" "+path] == nil {
			seen.statuses[method+" "+path] = map[int]bool{}
		}
		seen.statuses[method+" "+path][w.Code] = true
		seen.Unlock()
		content, ok := response["content"].(map[string]any)
		if !ok {
			require.Empty(t, w.Body.String())
			return
		}
		var answer any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		require.NoError(t, validate(content["application/json"].(map[string]any)["schema"].(map[string]any), answer, "answer"), "%s %s: %s", method, path, w.Body)
		return
	}
	require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, w.Code, "%s %s is not in the document", method, target)
}

// validate holds a value against a schema of JSON Schema 2020-12, of which it knows what the document uses, and nothing else.
func validate(schema map[string]any, v any, at string) error {
	for key, want := range schema {
		if err := validateKey(schema, key, want, v, at); err != nil {
			return err
		}
	}
	return nil
}

func validateKey(schema map[string]any, key string, want, v any, at string) error {
	wrong := func() error { return fmt.Errorf("%s: %v is not %s %v", at, v, key, want) }
	number, isNumber := v.(float64)
	text, isText := v.(string)
	fields, isObject := v.(map[string]any)
	switch key {
	case "$ref":
		name := strings.TrimPrefix(want.(string), "#/components/schemas/")
		target, ok := described["components"].(map[string]any)["schemas"].(map[string]any)[name].(map[string]any)
		if !ok {
			return fmt.Errorf("%s: no schema %s", at, want)
		}
		return validate(target, v, at)
	case "description":
	case "type":
		types, ok := want.([]any)
		if !ok {
			types = []any{want}
		}
		if !slices.ContainsFunc(types, func(t any) bool { return isOf(v, t.(string)) }) {
			return wrong()
		}
	case "format":
		if want == "date-time" && isText {
			_, err := time.Parse(time.RFC3339Nano, text)
			return err
		}
	case "enum":
		if !slices.Contains(want.([]any), v) {
			return wrong()
		}
	case "pattern":
		if isText && !regexp.MustCompile(want.(string)).MatchString(text) {
			return wrong()
		}
	case "minimum":
		if isNumber && number < want.(float64) {
			return wrong()
		}
	case "maximum":
		if isNumber && number > want.(float64) {
			return wrong()
		}
	case "items":
		for i, item := range anySlice(v) {
			if err := validate(want.(map[string]any), item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case "anyOf", "oneOf":
		n := 0
		for _, s := range want.([]any) {
			if validate(s.(map[string]any), v, at) == nil {
				n++
			}
		}
		if n == 0 || key == "oneOf" && n > 1 {
			return wrong()
		}
	case "properties":
		for name, value := range fields {
			if s, ok := want.(map[string]any)[name].(map[string]any); ok {
				if err := validate(s, value, at+"."+name); err != nil {
					return err
				}
			}
		}
	case "required":
		for _, name := range want.([]any) {
			if _, ok := fields[name.(string)]; isObject && !ok {
				return fmt.Errorf("%s.%s is missing", at, name)
			}
		}
	case "additionalProperties":
		properties, _ := schema["properties"].(map[string]any)
		for name, value := range fields {
			if _, ok := properties[name]; ok {
				continue
			}
			if want == false {
				return fmt.Errorf("%s.%s is unknown", at, name)
			}
			if of, ok := want.(map[string]any); ok {
				if err := validate(of, value, at+"."+name); err != nil {
					return err
				}
			}
		}
	default:
		return fmt.Errorf("%s: the validator does not know %s", at, key)
	}
	return nil
}

func isOf(v any, kind string) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	case float64:
		return kind == "number" || kind == "integer" && v == float64(int64(v))
	}
	return false
}

// The validator finds what is wrong, or the tests that use it could not fail.
func TestValidator(t *testing.T) {
	described = document(t)
	schema := map[string]any{"$ref": "#/components/schemas/Node"}
	good := map[string]any{"id": 1.0, "address": "a:1", "runs": true, "cutOff": false, "fenced": false}
	require.NoError(t, validate(schema, good, "node"))
	for name, bad := range map[string]any{"id": "1", "address": nil, "runs": 1.0, "more": 1.0} {
		broken := map[string]any{}
		for k, v := range good {
			broken[k] = v
		}
		broken[name] = bad
		require.ErrorContains(t, validate(schema, broken, "node"), "node."+name)
	}
	delete(good, "fenced")
	require.ErrorContains(t, validate(schema, good, "node"), "node.fenced is missing")
}

// The pattern of durations is one that can be compiled, and takes what time.ParseDuration does.
func TestDurationPattern(t *testing.T) {
	pattern := regexp.MustCompile(findPattern(t, document(t)))
	for _, text := range []string{"0", "31s", "500ms", "1m30s", "-1.5h", ".5s", "2.us", "3", "s", "1 s", ""} {
		_, err := time.ParseDuration(text)
		require.Equal(t, err == nil, pattern.MatchString(text), "%q", text)
	}
}

// findPattern is the only pattern of a document.
func findPattern(t *testing.T, d map[string]any) string {
	found := map[string]bool{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if p, ok := v["pattern"].(string); ok {
				found[p] = true
			}
			for _, one := range v {
				walk(one)
			}
		case []any:
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(d)
	require.Len(t, found, 1)
	for p := range found {
		return p
	}
	return ""
}

// The document is whole: every reference leads somewhere, operations have different names, and every field says what it is in a request.
func TestDocument(t *testing.T) {
	d := document(t)
	require.Equal(t, "3.1.0", d["openapi"])
	names := map[string]bool{}
	for path, operations := range d["paths"].(map[string]any) {
		require.True(t, strings.HasPrefix(path, "/v1/"), path)
		for method, o := range operations.(map[string]any) {
			o := o.(map[string]any)
			name := o["operationId"].(string)
			require.False(t, names[name], name)
			names[name] = true
			require.NotEmpty(t, o["summary"], name)
			require.Equal(t, method == "post", o["requestBody"] != nil, name)
			var parameters []string
			for _, p := range anySlice(o["parameters"]) {
				parameters = append(parameters, p.(map[string]any)["name"].(string))
			}
			for _, m := range regexp.MustCompile(`\{([a-z]+)\}`).FindAllStringSubmatch(path, -1) {
				require.Contains(t, parameters, m[1], name)
			}
		}
	}
	require.Len(t, names, operationCount(t))
	text, err := json.Marshal(d)
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`"\$ref":"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, d["components"].(map[string]any)["schemas"], m[1])
	}
}

func anySlice(v any) []any {
	s, _ := v.([]any)
	return s
}

// operationCount counts what answers something else than 404 and 405 of all methods on the document's paths.
func operationCount(t *testing.T) (n int) {
	a := newAPI(t)
	for path := range document(t)["paths"].(map[string]any) {
		target := strings.ReplaceAll(path, "{id}", "x")
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
			r := request(t, method, target, "{}")
			r.Header.Set("Content-Type", "text/plain") // nothing is changed
			if w := a.do(r); w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed {
				n++
			}
		}
	}
	return n
}

// Every state that a record may have is among those that the description lists.
func TestStatesOfRecords(t *testing.T) {
	schemas := document(t)["components"].(map[string]any)["schemas"].(map[string]any)
	properties := schemas["Run"].(map[string]any)["properties"].(map[string]any)
	var states []any
	for s := sharepartition.State(0); !strings.HasPrefix(s.String(), "State("); s++ {
		states = append(states, s.String())
	}
	require.ElementsMatch(t, states, properties["state"].(map[string]any)["enum"])
}
