package connect

import (
	"fmt"

	"kshare/shareclient"
)

// conversionError is why a record cannot be converted or transformed.
type conversionError struct {
	property  string // of what failed
	topic     string
	partition int32
	offset    int64
	err       error
}

func (e *conversionError) Error() string {
	return fmt.Sprintf("%s: %s-%d offset %d: %v", e.property, e.topic, e.partition, e.offset, e.err)
}

func (e *conversionError) Unwrap() error { return e.err }

// convert makes a SinkRecord of a record; nil where a transformation drops it.
func (s *settings) convert(r *shareclient.Record) (_ *SinkRecord, err error) {
	failed := "key.converter"
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil {
			err = &conversionError{failed, r.Topic, r.Partition, r.Offset, err}
		}
	}()
	out := &SinkRecord{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Headers: r.Headers, Timestamp: r.Timestamp, DeliveryCount: r.DeliveryCount, from: r}
	if out.Key, out.KeySchema, err = s.key.convert(r.Key); err != nil {
		return nil, err
	}
	failed = "value.converter"
	if out.Value, out.ValueSchema, err = s.value.convert(r.Value); err != nil {
		return nil, err
	}
	failed = "transforms"
	for _, t := range s.transforms {
		if out, err = t(out); err != nil || out == nil {
			return nil, err
		}
	}
	return out, nil
}
