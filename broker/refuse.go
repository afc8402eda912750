package broker

import (
	"reflect"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// refuse puts an error code, and a message where there is room for one, at the top of an answer. It reports whether the
// answer has a code there.
func refuse(p kmsg.Response, code int16, message string) bool {
	v := reflect.ValueOf(p).Elem()
	field := v.FieldByName("ErrorCode")
	if !field.IsValid() {
		return false
	}
	field.SetInt(int64(code))
	if m := v.FieldByName("ErrorMessage"); m.IsValid() && m.Kind() == reflect.Pointer && message != "" {
		m.Set(reflect.ValueOf(&message))
	}
	return true
}

func itoa(n int) string { return strconv.Itoa(n) }
