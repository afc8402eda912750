// Package deadletter makes the records that a share group leaves in its dead-letter queue (KIP-1191,
// server/src/main/java/org/apache/kafka/server/share/dlq/ShareGroupDLQStateManager.java).
//
// A record of the source partition becomes a record of the queue whose headers say where it comes from and why. Its key and
// value come along only where the group wants copies and the source still has them.
package deadletter

import (
	"strconv"

	"kshare/protocol"
)

// The headers of a record in the queue, in the order in which they are written. Their values are text.
const (
	HeaderTopic         = "__dlq.errors.topic"
	HeaderPartition     = "__dlq.errors.partition"
	HeaderOffset        = "__dlq.errors.offset"
	HeaderGroup         = "__dlq.errors.group"
	HeaderDeliveryCount = "__dlq.errors.delivery.count"
	HeaderMessage       = "__dlq.errors.message"
)

// What HeaderMessage says of a record that a consumer rejected, and of one that was delivered too often (ShareGroupDLQManager).
const (
	Rejected = "Offset rejected by client."
	Exceeded = "Offset delivery count exceeded the threshold."
)

// Letters are the records of [FirstOffset, LastOffset] of a source partition, holes included, that go to the queue together.
type Letters struct {
	Group                   string
	Topic                   string
	Partition               int32
	FirstOffset, LastOffset int64
	DeliveryCount           int16
	Message                 string
}

// Batch builds a batch of the letters from an offset on, as many as fit into maxBytes and have been looked up: the first of them whatever its size.
// now is their timestamp in ms. It returns the batch and the last offset that is in it.
func (l *Letters) Batch(b *protocol.BatchBuilder, from, now int64, maxBytes int, copies *Copies) (batch []byte, last int64, err error) {
	if err := b.Reset(nil); err != nil {
		return nil, 0, err
	}
	headers := l.headers()
	end := max(from, min(l.LastOffset, copies.last))
	last = from
	for offset := from; offset <= end; offset++ {
		headers[offsetHeader].Value = strconv.AppendInt(nil, offset, 10)
		r := copies.records[offset]
		if size := protocol.RecordSize(b.NumRecords(), 0, r.key, r.value, headers); b.NumRecords() > 0 && b.Len()+size > maxBytes {
			break
		}
		if err := b.Append(now, r.key, r.value, headers...); err != nil {
			return nil, 0, err
		}
		last = offset
	}
	batch, err = b.Finish()
	return batch, last, err
}

// offsetHeader is the place of HeaderOffset, the one that differs from record to record.
const offsetHeader = 2

func (l *Letters) headers() []protocol.Header {
	text := func(name, value string) protocol.Header {
		return protocol.Header{Key: []byte(name), Value: []byte(value)}
	}
	return []protocol.Header{
		text(HeaderTopic, l.Topic),
		text(HeaderPartition, strconv.Itoa(int(l.Partition))),
		text(HeaderOffset, ""),
		text(HeaderGroup, l.Group),
		text(HeaderDeliveryCount, strconv.Itoa(int(l.DeliveryCount))),
		text(HeaderMessage, l.Message),
	}
}
