package protocol

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// initProducerIDKey is the API key of InitProducerId.
const initProducerIDKey int16 = 22

// Versions of InitProducerId that add something (InitProducerIdRequest.json of 4.4.0).
const (
	initThrottledFirst = 1 // answers go out before throttling; the bytes are those of version 0
	initFlexible       = 2
	initExpects        = 3
	// InitTwoPhase is the version that brings two-phase commit (KIP-939). 4.4 calls it unstable.
	InitTwoPhase = 6
)

// InitProducerIDRequest is kmsg's with the fields of version 6, which kmsg does not know.
type InitProducerIDRequest struct {
	Version                  int16
	TransactionalID          *string // null for an idempotent producer
	TransactionTimeoutMillis int32
	ProducerID               int64 // v3+; -1 for none
	ProducerEpoch            int16 // v3+; -1 for none
	// Enable2PC asks for transactions that do not time out.
	Enable2PC bool // v6+
	// KeepPreparedTxn asks for the transaction under way to be kept rather than aborted.
	KeepPreparedTxn bool      // v6+
	UnknownTags     kmsg.Tags // v2+
}

// InitProducerIDResponse is kmsg's with the fields of version 6, which kmsg does not know.
type InitProducerIDResponse struct {
	Version        int16
	ThrottleMillis int32
	ErrorCode      int16
	ProducerID     int64
	ProducerEpoch  int16
	// OngoingTxnProducerID and OngoingTxnProducerEpoch are those of the transaction that was kept, -1 where there is none.
	OngoingTxnProducerID    int64     // v6+
	OngoingTxnProducerEpoch int16     // v6+
	UnknownTags             kmsg.Tags // v2+
}

// NewInitProducerIDRequest makes a request whose fields have their defaults.
func NewInitProducerIDRequest() *InitProducerIDRequest {
	q := &InitProducerIDRequest{}
	q.Default()
	return q
}

// Default gives the fields their defaults.
func (q *InitProducerIDRequest) Default() { q.ProducerID, q.ProducerEpoch = -1, -1 }

// The methods of kmsg.Request.

func (q *InitProducerIDRequest) Key() int16         { return initProducerIDKey }
func (q *InitProducerIDRequest) MaxVersion() int16  { return InitTwoPhase }
func (q *InitProducerIDRequest) SetVersion(v int16) { q.Version = v }
func (q *InitProducerIDRequest) GetVersion() int16  { return q.Version }
func (q *InitProducerIDRequest) IsFlexible() bool   { return q.Version >= initFlexible }

// ResponseKind makes an empty answer.
func (q *InitProducerIDRequest) ResponseKind() kmsg.Response {
	p := &InitProducerIDResponse{Version: q.Version}
	p.Default()
	return p
}

// AppendTo appends the body.
func (q *InitProducerIDRequest) AppendTo(b []byte) []byte {
	if q.IsFlexible() {
		b = kbin.AppendCompactNullableString(b, q.TransactionalID)
	} else {
		b = kbin.AppendNullableString(b, q.TransactionalID)
	}
	b = kbin.AppendInt32(b, q.TransactionTimeoutMillis)
	if q.Version >= initExpects {
		b = kbin.AppendInt64(b, q.ProducerID)
		b = kbin.AppendInt16(b, q.ProducerEpoch)
	}
	if q.Version >= InitTwoPhase {
		b = kbin.AppendBool(b, q.Enable2PC)
		b = kbin.AppendBool(b, q.KeepPreparedTxn)
	}
	if q.IsFlexible() {
		b = appendTags(b, &q.UnknownTags)
	}
	return b
}

// ReadFrom reads the body. Bytes behind it are passed over, as kmsg and Kafka do.
func (q *InitProducerIDRequest) ReadFrom(b []byte) error {
	r := &kbin.Reader{Src: b}
	*q = InitProducerIDRequest{Version: q.Version}
	q.Default()
	if q.IsFlexible() {
		q.TransactionalID = r.CompactNullableString()
	} else {
		q.TransactionalID = r.NullableString()
	}
	q.TransactionTimeoutMillis = r.Int32()
	if q.Version >= initExpects {
		q.ProducerID, q.ProducerEpoch = r.Int64(), r.Int16()
	}
	if q.Version >= InitTwoPhase {
		q.Enable2PC, q.KeepPreparedTxn = r.Bool(), r.Bool()
	}
	if q.IsFlexible() {
		q.UnknownTags = readTags(r)
	}
	return r.Complete()
}

// Default gives the fields their defaults.
func (p *InitProducerIDResponse) Default() {
	p.ProducerID, p.OngoingTxnProducerID, p.OngoingTxnProducerEpoch = -1, -1, -1
}

// The methods of kmsg.Response.

func (p *InitProducerIDResponse) Key() int16         { return initProducerIDKey }
func (p *InitProducerIDResponse) MaxVersion() int16  { return InitTwoPhase }
func (p *InitProducerIDResponse) SetVersion(v int16) { p.Version = v }
func (p *InitProducerIDResponse) GetVersion() int16  { return p.Version }
func (p *InitProducerIDResponse) IsFlexible() bool   { return p.Version >= initFlexible }
func (p *InitProducerIDResponse) Throttle() (int32, bool) {
	return p.ThrottleMillis, p.Version >= initThrottledFirst
}
func (p *InitProducerIDResponse) SetThrottle(millis int32) { p.ThrottleMillis = millis }
func (p *InitProducerIDResponse) RequestKind() kmsg.Request {
	q := NewInitProducerIDRequest()
	q.Version = p.Version
	return q
}

// AppendTo appends the body.
func (p *InitProducerIDResponse) AppendTo(b []byte) []byte {
	b = kbin.AppendInt32(b, p.ThrottleMillis)
	b = kbin.AppendInt16(b, p.ErrorCode)
	b = kbin.AppendInt64(b, p.ProducerID)
	b = kbin.AppendInt16(b, p.ProducerEpoch)
	if p.Version >= InitTwoPhase {
		b = kbin.AppendInt64(b, p.OngoingTxnProducerID)
		b = kbin.AppendInt16(b, p.OngoingTxnProducerEpoch)
	}
	if p.IsFlexible() {
		b = appendTags(b, &p.UnknownTags)
	}
	return b
}

// ReadFrom reads the body.
func (p *InitProducerIDResponse) ReadFrom(b []byte) error {
	r := &kbin.Reader{Src: b}
	*p = InitProducerIDResponse{Version: p.Version}
	p.Default()
	p.ThrottleMillis, p.ErrorCode = r.Int32(), r.Int16()
	p.ProducerID, p.ProducerEpoch = r.Int64(), r.Int16()
	if p.Version >= InitTwoPhase {
		p.OngoingTxnProducerID, p.OngoingTxnProducerEpoch = r.Int64(), r.Int16()
	}
	if p.IsFlexible() {
		p.UnknownTags = readTags(r)
	}
	return r.Complete()
}
