package logvalidator

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// validator is one run of Validate behind the checks of the header.
type validator struct {
	p      *Params
	header protocol.BatchHeader
	batch  []byte

	first     int64 // the first record's timestamp in ms
	max       int64 // the largest timestamp in ms, -1 where none is above that
	maxDelta  int32 // offset delta of the first record that has it in the batch to be stored, -1 for none
	outOfStep bool  // an offset delta is not the record's position
	errors    []RecordError
	badTime   bool // one of errors is of a timestamp
}

// maxRecordErrors bounds what an answer can grow to: a batch of the default max.message.bytes has hardly more records, but
// a compressed one can hold millions that are all wrong. No record behind the last of them is read.
const maxRecordErrors = 1 << 17

// walk reads every record once. partial reads a compressed batch's sizes only.
func (v *validator) walk(partial bool) *Refusal {
	reader, err := protocol.OpenRecords(&v.header, v.batch, int(v.p.MaxDecompressedMessageBytes))
	if err != nil {
		return recordRefusal(err)
	}
	defer reader.Close()
	v.max, v.maxDelta = -1, -1
	var r protocol.Record
	for i := int32(0); ; i++ {
		if partial {
			err = reader.NextPartial(&r)
		} else {
			err = reader.Next(&r)
		}
		if err == io.EOF {
			break
		} else if err != nil {
			return recordRefusal(err)
		}
		timestamp := v.header.RecordTimestamp(&r)
		if i == 0 {
			v.first = timestamp
		}
		if timestamp > v.max {
			v.max, v.maxDelta = timestamp, i
			if partial {
				v.maxDelta = r.OffsetDelta
			}
		}
		if r.OffsetDelta != i {
			v.outOfStep = true
		}
		if v.check(&r, i, timestamp, partial); len(v.errors) == maxRecordErrors {
			break
		}
	}
	if v.errors != nil {
		return v.recordErrors()
	}
	if partial && v.outOfStep && v.header.Compression() != protocol.CompressionNone {
		return appendRefusal(errorcode.UnknownServerError, "offset deltas of a compressed batch are not consecutive")
	}
	return nil
}

// check adds what is wrong with a record: no more than one error, a missing key before a timestamp.
func (v *validator) check(r *protocol.Record, index int32, timestamp int64, partial bool) {
	p := v.p
	switch {
	case p.Compacted && r.KeySize < 0:
		v.errors = append(v.errors, RecordError{index, fmt.Sprintf(
			"Compacted topic cannot accept message without key in topic partition %s-%d", p.Topic, p.Partition)})
	case !p.LogAppendTime && timestamp != -1:
		if diff := p.NowMs - timestamp; diff > p.TimestampBeforeMaxMs || -diff > p.TimestampAfterMaxMs {
			v.badTime = true
			v.errors = append(v.errors, RecordError{index, fmt.Sprintf(
				"Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]",
				timestamp, r.OffsetDelta, p.NowMs-p.TimestampBeforeMaxMs, p.NowMs+p.TimestampAfterMaxMs)})
		}
	case v.header.IsLogAppendTime():
		v.badTime = true
		kind := "DefaultRecord"
		if partial && v.header.Compression() != protocol.CompressionNone {
			kind = "PartialDefaultRecord"
		}
		v.errors = append(v.errors, RecordError{index, fmt.Sprintf(
			"Invalid timestamp type in message %s(offset=%d, timestamp=%d, key=%d bytes, value=%d bytes). "+
				"Producer should not set timestamp type to LogAppendTime.",
			kind, r.OffsetDelta, timestamp, max(r.KeySize, 0), max(r.ValueSize, 0))})
	}
}

func (v *validator) recordErrors() *Refusal {
	if v.badTime {
		return &Refusal{
			Code: errorcode.InvalidTimestamp, LogStartOffset: true, RecordErrors: v.errors,
			Message: "One or more records have been rejected due to invalid timestamp",
		}
	}
	var shown []string
	for _, e := range v.errors[:min(3, len(v.errors))] {
		shown = append(shown, fmt.Sprintf("RecordError(batchIndex=%d, message='%s')", e.BatchIndex, e.Message))
	}
	return &Refusal{
		Code: errorcode.InvalidRecord, LogStartOffset: true, RecordErrors: v.errors,
		Message: fmt.Sprintf("One or more records have been rejected due to %d record errors in total, and only showing the first three errors at most: [%s]",
			len(v.errors), strings.Join(shown, ", ")),
	}
}

func recordRefusal(err error) *Refusal { return appendRefusal(RecordErrorCode(err), "%v", err) }

// RecordErrorCode is the answer to a request that meets an error of reading records: 87 for one that breaks the record format, -1 for one that breaks its codec's.
func RecordErrorCode(err error) int16 {
	if errors.Is(err, protocol.ErrInvalidRecord) {
		return errorcode.InvalidRecord
	}
	return errorcode.UnknownServerError
}

// keep accepts the batch as it was sent. Only attributes and max timestamp can change, and with them the CRC.
func (v *validator) keep() (Result, *Refusal) {
	h := v.header
	res := Result{Batch: v.batch, LogAppendTimeMs: -1, BaseTimestampMs: v.first, MaxTimestampMs: v.max, MaxTimestampDelta: v.maxDelta}
	if v.p.LogAppendTime {
		v.appendTime(&res)
	}
	if h.IsLogAppendTime() != v.p.LogAppendTime || h.MaxTimestamp != res.MaxTimestampMs {
		// The bits that Kafka gives no meaning are lost where the header is written anew.
		h.Attributes &= protocol.AttributeCompressionMask | protocol.AttributeTransactional | protocol.AttributeControl | protocol.AttributeDeleteHorizon
		if v.p.LogAppendTime {
			h.Attributes |= protocol.AttributeLogAppendTime
		}
		h.MaxTimestamp = res.MaxTimestampMs
		protocol.SetBatchTimestamps(v.batch, h.Attributes, h.MaxTimestamp)
		h.CRC = protocol.BatchCRC(v.batch)
	}
	res.Header = h
	return res, nil
}

func (v *validator) appendTime(res *Result) {
	now := v.p.NowMs
	res.LogAppendTimeMs, res.BaseTimestampMs, res.MaxTimestampMs, res.MaxTimestampDelta = now, now, now, 0
}

// rebuild writes the records anew in the topic's codec: with minimal varints, consecutive offset deltas, the first
// timestamp as base, and without the attributes of records and the bits 6 and above of the batch's.
func (v *validator) rebuild() (Result, *Refusal) {
	reader, err := protocol.OpenRecords(&v.header, v.batch, int(v.p.MaxDecompressedMessageBytes))
	if err != nil {
		return Result{}, recordRefusal(err)
	}
	defer reader.Close()
	h := &v.header
	b := protocol.NewBatchBuilder()
	b.Compression, b.Transactional = v.p.Compression, h.IsTransactional()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = h.ProducerID, h.ProducerEpoch, h.BaseSequence
	if v.p.LogAppendTime {
		b.LogAppendTime = v.p.NowMs
	}
	if err := b.Reset(nil); err != nil {
		return Result{}, recordRefusal(err)
	}
	var r protocol.Record
	for {
		if err := reader.Next(&r); err == io.EOF {
			break
		} else if err != nil {
			return Result{}, recordRefusal(err)
		}
		timestamp := v.header.RecordTimestamp(&r)
		if timestamp < -1 {
			return Result{}, appendRefusal(errorcode.UnknownServerError, "a timestamp of %d cannot be written anew", timestamp)
		}
		if err := b.AppendRecord(timestamp, &r); err != nil {
			return Result{}, recordRefusal(err)
		}
		// What is written already only grows, so the limit bounds the memory too.
		if b.Len() > int(v.p.MaxMessageBytes) {
			return Result{}, tooLarge(b.Len(), v.p)
		}
	}
	batch, err := b.Finish()
	if err != nil {
		return Result{}, recordRefusal(err)
	}
	if len(batch) > int(v.p.MaxMessageBytes) {
		return Result{}, tooLarge(len(batch), v.p)
	}
	res := Result{Batch: batch, LogAppendTimeMs: -1, BaseTimestampMs: v.first, MaxTimestampMs: v.max, MaxTimestampDelta: v.maxDelta, Recompressed: true}
	if v.p.LogAppendTime {
		v.appendTime(&res)
	}
	if res.Header, err = protocol.ParseBatchHeader(batch); err != nil {
		return Result{}, recordRefusal(err)
	}
	return res, nil
}
