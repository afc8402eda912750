package protocol

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TxnShareAcknowledgeKey is the API key of TxnShareAcknowledge in the latest draft of KIP-1289. Earlier ones have 93 and 94: no number is given to
// it yet.
const TxnShareAcknowledgeKey int16 = 95

// TxnShareAcknowledgeName is its name, as requests are logged and faults are set by.
const TxnShareAcknowledgeName = "TxnShareAcknowledge"

// TxnShareAcknowledgeAPI is what a broker offers of TxnShareAcknowledge under a key.
func TxnShareAcknowledgeAPI(key int16) *API {
	return &API{Key: key, Name: TxnShareAcknowledgeName, MinVersion: 0, MaxVersion: 0, FirstFlexible: 0}
}

// TxnShareAcknowledgeMayHave tells whether TxnShareAcknowledge may have a key: one that no API of Kafka has, or 93 or 94, which Kafka gave away
// after drafts had taken them.
func TxnShareAcknowledgeMayHave(key int16) bool {
	return key >= 0 && (apisByKey[key] == nil || key == 93 || key == 94)
}

// TxnShareAcknowledgeRequest makes the acknowledgements of a share group's member part of a transaction (KIP-1289,
// TxnShareAcknowledgeRequest.json of the draft). Version 0 is flexible.
type TxnShareAcknowledgeRequest struct {
	APIKey          int16   // 0 stands for TxnShareAcknowledgeKey
	TransactionalID *string // null is refused
	GroupID         string
	ProducerID      int64
	ProducerEpoch   int16
	MemberID        string
	MemberEpoch     int32
	Topics          []TxnShareAcknowledgeTopic
	UnknownTags     kmsg.Tags
}

// TxnShareAcknowledgeTopic is a topic of a TxnShareAcknowledgeRequest.
type TxnShareAcknowledgeTopic struct {
	TopicID     [16]byte
	Partitions  []TxnShareAcknowledgePartition
	UnknownTags kmsg.Tags
}

// TxnShareAcknowledgePartition is a partition of a TxnShareAcknowledgeTopic.
type TxnShareAcknowledgePartition struct {
	Partition              int32
	AcknowledgementBatches []TxnShareAcknowledgeBatch
	UnknownTags            kmsg.Tags
}

// TxnShareAcknowledgeBatch is a range of offsets, inclusive, with one acknowledge type for all of them or one for each.
type TxnShareAcknowledgeBatch struct {
	FirstOffset, LastOffset int64
	AcknowledgeTypes        []int8
	UnknownTags             kmsg.Tags
}

// TxnShareAcknowledgeResponse answers a TxnShareAcknowledgeRequest. With a top-level error it has no topics.
type TxnShareAcknowledgeResponse struct {
	APIKey         int16
	ThrottleMillis int32
	ErrorCode      int16
	Topics         []TxnShareAcknowledgeTopicResponse
	UnknownTags    kmsg.Tags
}

// TxnShareAcknowledgeTopicResponse is a topic of a TxnShareAcknowledgeResponse.
type TxnShareAcknowledgeTopicResponse struct {
	TopicID     [16]byte
	Partitions  []TxnShareAcknowledgePartitionResponse
	UnknownTags kmsg.Tags
}

// TxnShareAcknowledgePartitionResponse is a partition of a TxnShareAcknowledgeTopicResponse.
type TxnShareAcknowledgePartitionResponse struct {
	Partition    int32
	ErrorCode    int16
	ErrorMessage *string
	UnknownTags  kmsg.Tags
}

func orDefaultKey(key int16) int16 {
	if key == 0 {
		return TxnShareAcknowledgeKey
	}
	return key
}

// The methods of kmsg.Request.

func (q *TxnShareAcknowledgeRequest) Key() int16        { return orDefaultKey(q.APIKey) }
func (q *TxnShareAcknowledgeRequest) MaxVersion() int16 { return 0 }
func (q *TxnShareAcknowledgeRequest) SetVersion(int16)  {}
func (q *TxnShareAcknowledgeRequest) GetVersion() int16 { return 0 }
func (q *TxnShareAcknowledgeRequest) IsFlexible() bool  { return true }

// ResponseKind makes an empty answer.
func (q *TxnShareAcknowledgeRequest) ResponseKind() kmsg.Response {
	return &TxnShareAcknowledgeResponse{APIKey: q.APIKey}
}

// AppendTo appends the body.
func (q *TxnShareAcknowledgeRequest) AppendTo(b []byte) []byte {
	b = kbin.AppendCompactNullableString(b, q.TransactionalID)
	b = kbin.AppendCompactString(b, q.GroupID)
	b = kbin.AppendInt64(b, q.ProducerID)
	b = kbin.AppendInt16(b, q.ProducerEpoch)
	b = kbin.AppendCompactString(b, q.MemberID)
	b = kbin.AppendInt32(b, q.MemberEpoch)
	b = kbin.AppendCompactArrayLen(b, len(q.Topics))
	for i := range q.Topics {
		t := &q.Topics[i]
		b = append(b, t.TopicID[:]...)
		b = kbin.AppendCompactArrayLen(b, len(t.Partitions))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			b = kbin.AppendInt32(b, p.Partition)
			b = kbin.AppendCompactArrayLen(b, len(p.AcknowledgementBatches))
			for k := range p.AcknowledgementBatches {
				x := &p.AcknowledgementBatches[k]
				b = kbin.AppendInt64(b, x.FirstOffset)
				b = kbin.AppendInt64(b, x.LastOffset)
				b = kbin.AppendCompactArrayLen(b, len(x.AcknowledgeTypes))
				for _, t := range x.AcknowledgeTypes {
					b = kbin.AppendInt8(b, t)
				}
				b = appendTags(b, &x.UnknownTags)
			}
			b = appendTags(b, &p.UnknownTags)
		}
		b = appendTags(b, &t.UnknownTags)
	}
	return appendTags(b, &q.UnknownTags)
}

// ReadFrom reads the body. It allocates nothing for a list before it knows that the bytes for it are there.
func (q *TxnShareAcknowledgeRequest) ReadFrom(b []byte) error {
	r := &kbin.Reader{Src: b}
	*q = TxnShareAcknowledgeRequest{APIKey: q.APIKey}
	q.TransactionalID = r.CompactNullableString()
	q.GroupID = r.CompactString()
	q.ProducerID, q.ProducerEpoch = r.Int64(), r.Int16()
	q.MemberID, q.MemberEpoch = r.CompactString(), r.Int32()
	for range readList(r, 16+2) {
		var t TxnShareAcknowledgeTopic
		t.TopicID = r.Uuid()
		for range readList(r, 4+2) {
			var p TxnShareAcknowledgePartition
			p.Partition = r.Int32()
			for range readList(r, 8+8+2) {
				var x TxnShareAcknowledgeBatch
				x.FirstOffset, x.LastOffset = r.Int64(), r.Int64()
				for range readList(r, 1) {
					x.AcknowledgeTypes = append(x.AcknowledgeTypes, r.Int8())
				}
				x.UnknownTags = readTags(r)
				p.AcknowledgementBatches = append(p.AcknowledgementBatches, x)
			}
			p.UnknownTags = readTags(r)
			t.Partitions = append(t.Partitions, p)
		}
		t.UnknownTags = readTags(r)
		q.Topics = append(q.Topics, t)
	}
	q.UnknownTags = readTags(r)
	return complete(r)
}

// The methods of kmsg.Response.

func (p *TxnShareAcknowledgeResponse) Key() int16        { return orDefaultKey(p.APIKey) }
func (p *TxnShareAcknowledgeResponse) MaxVersion() int16 { return 0 }
func (p *TxnShareAcknowledgeResponse) SetVersion(int16)  {}
func (p *TxnShareAcknowledgeResponse) GetVersion() int16 { return 0 }
func (p *TxnShareAcknowledgeResponse) IsFlexible() bool  { return true }

// RequestKind makes an empty request.
func (p *TxnShareAcknowledgeResponse) RequestKind() kmsg.Request {
	return &TxnShareAcknowledgeRequest{APIKey: p.APIKey}
}

// AppendTo appends the body.
func (p *TxnShareAcknowledgeResponse) AppendTo(b []byte) []byte {
	b = kbin.AppendInt32(b, p.ThrottleMillis)
	b = kbin.AppendInt16(b, p.ErrorCode)
	b = kbin.AppendCompactArrayLen(b, len(p.Topics))
	for i := range p.Topics {
		t := &p.Topics[i]
		b = append(b, t.TopicID[:]...)
		b = kbin.AppendCompactArrayLen(b, len(t.Partitions))
		for j := range t.Partitions {
			x := &t.Partitions[j]
			b = kbin.AppendInt32(b, x.Partition)
			b = kbin.AppendInt16(b, x.ErrorCode)
			b = kbin.AppendCompactNullableString(b, x.ErrorMessage)
			b = appendTags(b, &x.UnknownTags)
		}
		b = appendTags(b, &t.UnknownTags)
	}
	return appendTags(b, &p.UnknownTags)
}

// ReadFrom reads the body.
func (p *TxnShareAcknowledgeResponse) ReadFrom(b []byte) error {
	r := &kbin.Reader{Src: b}
	*p = TxnShareAcknowledgeResponse{APIKey: p.APIKey}
	p.ThrottleMillis, p.ErrorCode = r.Int32(), r.Int16()
	for range readList(r, 16+2) {
		var t TxnShareAcknowledgeTopicResponse
		t.TopicID = r.Uuid()
		for range readList(r, 4+2+2) {
			var x TxnShareAcknowledgePartitionResponse
			x.Partition, x.ErrorCode, x.ErrorMessage = r.Int32(), r.Int16(), r.CompactNullableString()
			x.UnknownTags = readTags(r)
			t.Partitions = append(t.Partitions, x)
		}
		t.UnknownTags = readTags(r)
		p.Topics = append(p.Topics, t)
	}
	p.UnknownTags = readTags(r)
	return complete(r)
}

// readList is the length of a list whose elements take so many bytes at least, 0 where they cannot be there.
func readList(r *kbin.Reader, least int) int {
	n := r.CompactArrayLen()
	if n > 0 && int(n) > len(r.Src)/least {
		r.Src = nil
		r.Int8() // notes that the bytes are too few
		return 0
	}
	return max(0, int(n))
}

func readTags(r *kbin.Reader) (tags kmsg.Tags) {
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		key, size := r.Uvarint(), r.Uvarint()
		tags.Set(key, r.Span(int(size)))
	}
	return tags
}

func appendTags(b []byte, tags *kmsg.Tags) []byte {
	b = kbin.AppendUvarint(b, uint32(tags.Len()))
	return tags.AppendEach(b)
}

// complete is the error of a reader, where there is one or bytes are left.
func complete(r *kbin.Reader) error {
	switch err := r.Complete(); {
	case err != nil:
		return err
	case len(r.Src) > 0:
		return fmt.Errorf("%w: %d bytes are left", ErrMalformed, len(r.Src))
	}
	return nil
}
