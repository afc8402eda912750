package logvalidator

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// ProducerCompression as Params.Compression.Type keeps the codec that the producer chose (compression.type=producer).
const ProducerCompression int8 = -1

// Params is what a partition's records are held against.
type Params struct {
	Topic     string // named in messages only
	Partition int32
	Version   int16 // of the Produce request

	MaxMessageBytes             int32 // max.message.bytes: the largest batch, header included
	SegmentBytes                int32 // segment.bytes: the largest batch after re-encoding
	MaxDecompressedMessageBytes int32 // max.decompressed.message.bytes: the largest record of a compressed batch, behind its length
	Compacted                   bool  // cleanup.policy has compact
	LogAppendTime               bool  // message.timestamp.type=LogAppendTime
	TimestampBeforeMaxMs        int64 // message.timestamp.before.max.ms
	TimestampAfterMaxMs         int64 // message.timestamp.after.max.ms
	Compression                 protocol.Compression
	NowMs                       int64
}

// Result is a batch that may be appended.
type Result struct {
	// Batch has everything but its base offset and leader epoch, which protocol.SetBatchOffset writes. It is the
	// part of the request's bytes that holds the batch, changed in place where only the header differs, or a new slice.
	Batch  []byte
	Header protocol.BatchHeader // of Batch
	// LogAppendTimeMs is the answer's LogAppendTime: NowMs on a LogAppendTime topic, otherwise -1.
	LogAppendTimeMs int64
	// BaseTimestampMs and MaxTimestampMs are the first record's timestamp and the largest, as a consumer sees them.
	BaseTimestampMs int64
	MaxTimestampMs  int64
	// MaxTimestampDelta is the offset delta of the first record that has MaxTimestampMs, -1 where that is -1.
	MaxTimestampDelta int32
	// Recompressed tells that Batch is no part of the request.
	Recompressed bool
}

// RecordError is one refused record. Answers of version 8 and above carry them.
type RecordError struct {
	BatchIndex int32 // position in the batch from 0
	Message    string
}

// Refusal is why records are not appended.
type Refusal struct {
	Code         int16
	Message      string // the answer's ErrorMessage, "" for null
	RecordErrors []RecordError
	// LogStartOffset tells that the answer carries the partition's log start offset; otherwise it is -1.
	LogStartOffset bool
	// WholeRequest tells that Kafka fails on it before it looks at any partition: every partition of the request
	// gets Code and Message.
	WholeRequest bool
	// Reason says in words for a log what Message does not.
	Reason string
}

// Error makes a Refusal an error for logs and tests.
func (r *Refusal) Error() string {
	text := "error " + strconv.Itoa(int(r.Code))
	for _, s := range [2]string{r.Message, r.Reason} {
		if s != "" {
			text += ": " + s
		}
	}
	return text
}

// Where a batch's fields lie (org.apache.kafka.common.record.DefaultRecordBatch).
const (
	offsetAttributes      = 21
	logOverhead           = 12 // base offset and length
	headerUpToMagic       = 17
	minRecordOverhead     = 14 // of magic 0, the least that a length may be
	magicV2               = 2
	headerUpToProducerID  = 51
	headerUpToCompression = 23
)

// FirstBatch finds the first whole batch at the start of raw. A batch that is not all there is none: nil and nil.
// A refusal is what Kafka finds before it looks at topics, while it asks whether a request is transactional.
func FirstBatch(raw []byte) ([]byte, *Refusal) {
	if len(raw) < logOverhead {
		return nil, nil
	}
	size := int32(binary.BigEndian.Uint32(raw[8:]))
	if size < minRecordOverhead {
		return nil, &Refusal{
			Code: errorcode.CorruptMessage, WholeRequest: true,
			Message: fmt.Sprintf("Record size %d is less than the minimum record overhead (%d)", size, minRecordOverhead),
		}
	}
	if len(raw) < headerUpToMagic {
		return nil, nil
	}
	if magic := int8(raw[16]); magic < 0 || magic > magicV2 {
		return nil, &Refusal{
			Code: errorcode.CorruptMessage, WholeRequest: true,
			Message: fmt.Sprintf("Invalid magic found in record: %d", magic),
		}
	}
	if int64(size)+logOverhead > int64(len(raw)) {
		return nil, nil
	}
	return raw[: logOverhead+int(size) : logOverhead+int(size)], nil
}

// IsTransactional tells whether the first batch of raw, if there is one, belongs to a transaction.
func IsTransactional(raw []byte) (bool, *Refusal) {
	batch, refusal := FirstBatch(raw)
	if refusal != nil || len(batch) < headerUpToCompression || int8(batch[16]) < magicV2 {
		return false, refusal
	}
	return binary.BigEndian.Uint16(batch[offsetAttributes:])&protocol.AttributeTransactional != 0, nil
}

// CheckFormat makes the checks that come before those of acks, internal topics and transactions: one batch of magic 2, and
// zstd only in version 7 and above. Validate repeats them.
func CheckFormat(raw []byte, version int16) *Refusal {
	_, refusal := checkFormat(raw, version)
	return refusal
}

func checkFormat(raw []byte, version int16) ([]byte, *Refusal) {
	batch, refusal := FirstBatch(raw)
	if refusal != nil {
		return nil, refusal
	}
	if batch == nil {
		return nil, &Refusal{Code: errorcode.InvalidRecord, Reason: "there must be a record batch"}
	}
	if int8(batch[16]) != magicV2 {
		return nil, &Refusal{Code: errorcode.InvalidRecord, Reason: "the record batch must be of magic 2"}
	}
	if version < 7 {
		switch codec := binary.BigEndian.Uint16(batch[offsetAttributes:]) & protocol.AttributeCompressionMask; {
		case codec == uint16(protocol.CompressionZstd):
			return nil, &Refusal{Code: errorcode.UnsupportedCompressionType, Reason: "zstd needs Produce of version 7 or above"}
		case codec > uint16(protocol.CompressionZstd):
			return nil, &Refusal{Code: errorcode.UnknownServerError, WholeRequest: true, Reason: "unknown compression type"}
		}
	}
	second, refusal := FirstBatch(raw[len(batch):])
	if refusal != nil {
		return nil, &Refusal{Code: refusal.Code, Reason: refusal.Message}
	}
	if second != nil {
		return nil, &Refusal{Code: errorcode.InvalidRecord, Reason: "there must be no more than one record batch"}
	}
	if len(batch) < headerUpToProducerID {
		return nil, &Refusal{Code: errorcode.UnknownServerError, WholeRequest: true, Reason: "the record batch ends before its producer id"}
	}
	return batch, nil
}

// appendRefusal is a refusal found in the append itself, where the answer knows the log start offset.
func appendRefusal(code int16, reason string, args ...any) *Refusal {
	return &Refusal{Code: code, LogStartOffset: true, Reason: fmt.Sprintf(reason, args...)}
}

// Validate makes every check on one partition's records of a Produce request that needs nothing but them, in Kafka's order,
// and all changes that the broker makes but those of SetBatchOffset. raw may be changed in place.
func Validate(raw []byte, p *Params) (Result, *Refusal) {
	batch, refusal := checkFormat(raw, p.Version)
	if refusal != nil {
		return Result{}, refusal
	}
	header, refusal := checkBatch(batch, p)
	if refusal != nil {
		return Result{}, refusal
	}
	v := validator{p: p, header: header, batch: batch}
	target := p.Compression.Type
	if target == ProducerCompression {
		target = header.Compression()
	}
	inPlace := target == header.Compression()
	if refusal := v.walk(inPlace); refusal != nil {
		return Result{}, refusal
	}
	res := v.keep
	if !inPlace {
		res = v.rebuild
	}
	result, refusal := res()
	if refusal == nil && len(result.Batch) > int(p.SegmentBytes) {
		return Result{}, &Refusal{
			Code:   errorcode.RecordListTooLarge,
			Reason: fmt.Sprintf("a batch of %d bytes exceeds segment.bytes of %d", len(result.Batch), p.SegmentBytes),
		}
	}
	return result, refusal
}

// checkBatch checks what the header says (UnifiedLog.analyzeAndValidateRecords, then LogValidator.validateBatch).
func checkBatch(batch []byte, p *Params) (h protocol.BatchHeader, refusal *Refusal) {
	if base := int64(binary.BigEndian.Uint64(batch)); base != 0 {
		return h, appendRefusal(errorcode.InvalidRecord, "the base offset of the record batch should be 0, but it is %d", base)
	}
	if len(batch) > int(p.MaxMessageBytes) {
		return h, tooLarge(len(batch), p)
	}
	h, err := protocol.ParseBatchHeader(batch)
	if err != nil || h.CRC != protocol.BatchCRC(batch) {
		return h, &Refusal{Code: errorcode.CorruptMessage, Reason: "the record batch is shorter than a header or its CRC is wrong"}
	}
	if h.Compression() > protocol.CompressionZstd {
		return h, appendRefusal(errorcode.UnknownServerError, "unknown compression type %d", h.Compression())
	}
	switch count := int64(h.LastOffsetDelta) + 1; {
	case count <= 0:
		return h, appendRefusal(errorcode.InvalidRecord, "batch has an invalid offset range: [0, %d]", h.LastOffsetDelta)
	case h.NumRecords <= 0:
		return h, appendRefusal(errorcode.InvalidRecord, "invalid reported count for record batch: %d", h.NumRecords)
	case count != int64(h.NumRecords):
		return h, appendRefusal(errorcode.InvalidRecord, "inconsistent batch offset range [0, %d] and count of records %d", h.LastOffsetDelta, h.NumRecords)
	case h.IsControl():
		return h, appendRefusal(errorcode.InvalidRecord, "clients are not allowed to write control records")
	case h.ProducerID >= 0 && h.BaseSequence < 0:
		return h, appendRefusal(errorcode.InvalidRecord, "invalid sequence number %d in record batch with producer id %d", h.BaseSequence, h.ProducerID)
	}
	return h, nil
}

func tooLarge(size int, p *Params) *Refusal {
	return &Refusal{
		Code:   errorcode.MessageTooLarge,
		Reason: fmt.Sprintf("a record batch of at least %d bytes exceeds max.message.bytes of %d", size, p.MaxMessageBytes),
	}
}
