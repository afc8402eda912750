package connect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/shareclient"
)

func TestConverters(t *testing.T) {
	schema := func(payload string) string {
		return `{"schema":{"type":"struct","fields":[{"field":"id","type":"int8"},{"field":"raw","type":"bytes","optional":true},{"field":"list","type":"array","items":{"type":"double"}},{"field":"map","type":"map","keys":{"type":"string"},"values":{"type":"boolean"}}]},"payload":` + payload + `}`
	}
	for _, c := range []struct {
		of         converter
		in         string
		want       any
		wrong      string
		hasASchema bool
	}{
		{stringOf{}, "a", "a", "", false},
		{stringOf{}, "\xff", nil, "it is not UTF-8", false},
		{bytesOf{}, "\xff", []byte{0xff}, "", false},
		{jsonOf{false}, `{"a":[1,2.5,"x",null,true]}`, map[string]any{"a": []any{int64(1), 2.5, "x", nil, true}}, "", false},
		{jsonOf{false}, `{"a":1} x`, nil, "it is not JSON: something follows the first value", false},
		{jsonOf{false}, ``, nil, "it is not JSON: EOF", false},
		{jsonOf{false}, `9007199254740993`, int64(9007199254740993), "", false},
		{jsonOf{true}, `{"a":1}`, nil, "with schemas.enable it is an object of schema and payload and nothing else; schemas.enable=false takes any JSON", false},
		{jsonOf{true}, `{"schema":null,"payload":{"a":1}}`, map[string]any{"a": int64(1)}, "", false},
		{jsonOf{true}, schema(`{"id":5,"raw":"AQI=","list":[1,2.5],"map":{"a":true}}`), map[string]any{"id": int64(5), "raw": []byte{1, 2}, "list": []any{1.0, 2.5}, "map": map[string]any{"a": true}}, "", true},
		{jsonOf{true}, schema(`{"id":500,"list":[],"map":{}}`), nil, "payload.id is 500, which is no int8", false},
		{jsonOf{true}, schema(`{"list":[],"map":{}}`), nil, "payload.id is null, and its schema has it as int8 that is not optional", false},
		{jsonOf{true}, schema(`{"id":1,"raw":"!","list":[],"map":{}}`), nil, "payload.raw is bytes, and no base64: illegal base64 data at input byte 0", false},
		{jsonOf{true}, schema(`{"id":1,"list":["x"],"map":{}}`), nil, "payload.list[0] is string, and its schema has it as double", false},
		{jsonOf{true}, `{"schema":{"type":"word"},"payload":1}`, nil, `payload has the unknown schema type "word"`, false},
	} {
		v, s, err := c.of.convert([]byte(c.in))
		if c.wrong != "" {
			require.EqualError(t, err, c.wrong, c.in)
			continue
		}
		require.NoError(t, err, c.in)
		assert.Equal(t, c.want, v, c.in)
		assert.Equal(t, c.hasASchema, s != nil, c.in)
		null, _, err := c.of.convert(nil)
		require.NoError(t, err)
		assert.Nil(t, null, "a tombstone stays one")
	}
}

func TestTransforms(t *testing.T) {
	for _, c := range []struct {
		transforms []string
		value      string
		topic      string
		want       any
		wrong      string
	}{
		{[]string{"transforms=a", "transforms.a.type=org.apache.kafka.connect.transforms.RegexRouter", "transforms.a.regex=(o)rders", "transforms.a.replacement=$1ld"}, `1`, "old", int64(1), ""},
		{[]string{"transforms=a", "transforms.a.type=RegexRouter", "transforms.a.regex=rders", "transforms.a.replacement=x"}, `1`, "orders", int64(1), ""},
		{[]string{"transforms=a,b", "transforms.a.type=HoistField$Value", "transforms.a.field=n", "transforms.b.type=InsertField$Value", "transforms.b.static.field=by", "transforms.b.static.value=us"}, `1`, "orders", map[string]any{"n": int64(1), "by": "us"}, ""},
		{[]string{"transforms=a", "transforms.a.type=ExtractField$Value", "transforms.a.field=n"}, `{"n":1,"m":2}`, "orders", int64(1), ""},
		{[]string{"transforms=a", "transforms.a.type=ExtractField$Value", "transforms.a.field=n"}, `5`, "", nil, "transforms: orders-0 offset 3: ExtractField: int64 has no fields"},
		{[]string{"transforms=a", "transforms.a.type=ReplaceField$Value", "transforms.a.exclude=n"}, `{"n":1,"m":2}`, "orders", map[string]any{"m": int64(2)}, ""},
		{[]string{"transforms=a", "transforms.a.type=ReplaceField$Value", "transforms.a.include=n"}, `{"n":1,"m":2}`, "orders", map[string]any{"n": int64(1)}, ""},
	} {
		s, err := resolve(workerProperties(), config(append(c.transforms, "value.converter=JsonConverter", "value.converter.schemas.enable=false")...))
		require.NoError(t, err)
		r, err := s.convert(&shareclient.Record{Topic: "orders", Offset: 3, Value: []byte(c.value)})
		if c.wrong != "" {
			require.EqualError(t, err, c.wrong)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.topic, r.Topic)
		assert.Equal(t, c.want, r.Value)
		assert.Equal(t, "orders", r.from.Topic, "what is acknowledged stays what was polled")
	}
}

// Schemas follow their values.
func TestTransformsOfSchemas(t *testing.T) {
	s, err := resolve(workerProperties(), config("value.converter=JsonConverter", "transforms=a,b,c", "transforms.a.type=InsertField$Value", "transforms.a.static.field=by", "transforms.a.static.value=us",
		"transforms.b.type=ReplaceField$Value", "transforms.b.exclude=n", "transforms.c.type=HoistField$Value", "transforms.c.field=all"))
	require.NoError(t, err)
	r, err := s.convert(&shareclient.Record{Topic: "orders", Value: []byte(`{"schema":{"type":"struct","fields":[{"field":"n","type":"int32"}]},"payload":{"n":1}}`)})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"all": map[string]any{"by": "us"}}, r.Value)
	assert.Equal(t, &Schema{Type: "struct", Fields: []*Schema{{Type: "struct", Field: "all", Fields: []*Schema{{Type: "string", Field: "by"}}}}}, r.ValueSchema)
}
