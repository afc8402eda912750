package probe

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kept are fields that are not spoilt: the brokers would wait or not answer, change what other runs use, or begin a
// transaction. From null records and from the smallest batch size Apache Kafka 4.4.0 makes nonsense.
var kept = []string{"Acks", "TransactionalID", "MaxWaitMillis", "TimeoutMillis", "RebalanceTimeoutMillis", "Records", "BatchSize", "ResourceType", "Op", "ReplicaState"}

// spoil changes one field of a request to a value that may be wrong.
func spoil(r *rand.Rand, q kmsg.Request) {
	var fields []reflect.Value
	collect(reflect.ValueOf(q).Elem(), &fields)
	if len(fields) > 0 {
		change(r, one(r, fields...))
	}
}

// collect finds the fields that can be changed: leaves, and lists as a whole.
func collect(v reflect.Value, fields *[]reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && f.Name != "Version" && f.Name != "UnknownTags" && !slices.Contains(kept, f.Name) {
				collect(v.Field(i), fields)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		*fields = append(*fields, v)
		for i := range v.Len() {
			collect(v.Index(i), fields)
		}
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.String {
			*fields = append(*fields, v)
		} else if !v.IsNil() {
			collect(v.Elem(), fields)
		}
	default:
		*fields = append(*fields, v)
	}
}

// change gives a field another value.
func change(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(text(r))
	case reflect.Pointer:
		s := text(r)
		v.Set(reflect.ValueOf(one(r, nil, &s)))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		bits := v.Type().Bits()
		most := int64(math.MaxInt64) >> (64 - bits)
		v.SetInt(one(r, -1, 0, 1, v.Int()+1, v.Int()-1, -2, most, -most-1))
		if v.OverflowInt(v.Int()) {
			v.SetInt(most)
		}
	case reflect.Array:
		v.Set(reflect.Zero(v.Type()))
	case reflect.Slice:
		if v.Len() == 0 || r.IntN(2) == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		} else {
			v.Set(reflect.Append(v, v.Index(r.IntN(v.Len())))) // one item twice
		}
	}
}

// text draws what may be a name of a member or group, but not of a topic, which other runs would find.
func text(r *rand.Rand) string { return one(r, "", ".", "a b", "a/b", "ü") }
