package broker

import (
	"bytes"
	"reflect"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// refuse puts an error code, and a message where there is room for one, at the top of an answer. It reports whether the
// answer, in its version, has a code there.
func refuse(p kmsg.Response, code int16, message string) bool {
	v := reflect.ValueOf(p).Elem()
	field := v.FieldByName("ErrorCode")
	if !field.IsValid() {
		return false
	}
	unrefused := p.AppendTo(nil)
	field.SetInt(int64(code))
	if bytes.Equal(p.AppendTo(nil), unrefused) {
		return false
	}
	if m := v.FieldByName("ErrorMessage"); m.IsValid() && m.Kind() == reflect.Pointer && message != "" {
		m.Set(reflect.ValueOf(&message))
	}
	return true
}

// unstored makes an answer say that what it answers did not become durable, with KAFKA_STORAGE_ERROR for code 0. It reports whether the
// answer could; otherwise the connection has to tell.
func unstored(a answer, code int16) bool {
	if code == errorcode.None {
		code = errorcode.KafkaStorageError
	}
	switch p := a.(type) {
	case *shareAcknowledgeAnswer:
		*p = shareAcknowledgeAnswer{version: p.version, errorCode: code}
		return true
	case *shareFetchAnswer: // what it has acquired is kept in memory alone
		for i := range p.topics {
			for j := range p.topics[i].partitions {
				if r := &p.topics[i].partitions[j]; r.acknowledged && r.ackCode == errorcode.None {
					r.ackCode = code
				}
			}
		}
		return true
	case *protocol.TxnShareAcknowledgeResponse:
		*p = protocol.TxnShareAcknowledgeResponse{APIKey: p.APIKey, ErrorCode: code}
		return true
	case *kmsg.ProduceResponse:
		for i := range p.Topics {
			for j := range p.Topics[i].Partitions {
				if e := &p.Topics[i].Partitions[j]; e.ErrorCode == errorcode.None {
					e.ErrorCode, e.BaseOffset, e.LogAppendTime, e.LogStartOffset = code, -1, -1, -1
				}
			}
		}
		return true
	case kmsg.Response:
		return refuseAll(reflect.ValueOf(p).Elem(), code)
	}
	return false
}

// refuseAll sets the error codes of an answer that are 0, at the highest level that has any, and reports whether there is one.
func refuseAll(v reflect.Value, code int16) (refused bool) {
	if field := v.FieldByName("ErrorCode"); field.IsValid() {
		if field.Int() == 0 {
			field.SetInt(int64(code))
		}
		return true
	}
	for _, field := range v.Fields() {
		if field.Kind() != reflect.Slice || field.Type().Elem().Kind() != reflect.Struct {
			continue
		}
		for i := range field.Len() {
			refused = refuseAll(field.Index(i), code) || refused
		}
	}
	return refused
}

func itoa(n int) string { return strconv.Itoa(n) }
