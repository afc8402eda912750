package probe

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

func (w *world) produce() request {
	q := kmsg.NewPtrProduceRequest()
	q.Acks, q.TimeoutMillis = one[int16](w.rand, -1, -1, 1), 5000
	for range few(w.rand) {
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.TopicID = w.topic(), w.topicID()
		if id, ok := w.ids[t.Topic]; ok {
			t.TopicID = id
		}
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition = w.partition()
		p.Records = w.batch(fmt.Sprint(t.Topic, p.Partition))
		t.Partitions = append(t.Partitions, p)
		q.Topics = append(q.Topics, t)
	}
	if len(q.Topics) == 2 && q.Topics[0].Topic == q.Topics[1].Topic {
		q.Topics = q.Topics[:1]
	}
	return request{Request: q, least: 3, most: anyVersion}
}

// firstTimestamp is that of all records, in ms since 1970: what depends on the time when a record was made is not drawn.
const firstTimestamp = 1_700_000_000_000

// batch makes a record batch, seldom a wrong one.
func (w *world) batch(at string) []byte {
	b := protocol.NewBatchBuilder()
	if w.pid >= 0 && w.odds(3) {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = w.pid, w.epoch, w.seq[at]
		if w.odds(6) {
			b.BaseSequence = max(0, b.BaseSequence+int32(w.rand.IntN(4))-2)
		}
	}
	b.Compression = protocol.DefaultCompression(one[int8](w.rand, 0, 0, 0, 1, 3))
	if err := b.Reset(nil); err != nil {
		panic(err) // the codecs are those that there are
	}
	n := 1 + w.rand.IntN(4)
	for i := range n {
		if err := b.Append(firstTimestamp+int64(w.rand.IntN(100)), []byte{byte(i)}, []byte("value")); err != nil {
			panic(err) // there are no headers that could be wrong
		}
	}
	out, err := b.Finish()
	if err != nil {
		panic(err) // bytes in memory
	}
	if b.ProducerID >= 0 && b.BaseSequence == w.seq[at] {
		w.seq[at] += int32(n)
	}
	return w.spoilBatch(out)
}

// spoilBatch changes a field of one batch in eight. The CRC is renewed where it is not the field.
func (w *world) spoilBatch(b []byte) []byte {
	if !w.odds(8) {
		return b
	}
	be := binary.BigEndian
	switch w.rand.IntN(9) {
	case 0:
		b[17] ^= 1 // CRC
		return b
	case 1:
		b[16] = one[byte](w.rand, 0, 1, 3) // magic
	case 2:
		be.PutUint32(b[57:], be.Uint32(b[57:])+1) // number of records
	case 3:
		be.PutUint32(b[23:], be.Uint32(b[23:])+1) // last offset delta
	case 4:
		be.PutUint64(b[35:], be.Uint64(b[35:])+5) // max timestamp
	case 5:
		be.PutUint16(b[21:], be.Uint16(b[21:])^one[uint16](w.rand, 8, 0x10, 0x20, 0x40)) // attributes
	case 6:
		be.PutUint64(b, uint64(w.offset())) // base offset
	case 7:
		be.PutUint32(b[12:], uint32(w.rand.IntN(3))) // leader epoch
	case 8:
		return b[:len(b)-1-w.rand.IntN(3)]
	}
	be.PutUint32(b[17:], protocol.BatchCRC(b))
	return b
}

func (w *world) fetch() request {
	q := kmsg.NewPtrFetchRequest()
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes = one[int32](w.rand, 0, 0, 50), one[int32](w.rand, 0, 1, 100), 1<<20
	q.IsolationLevel = int8(w.rand.IntN(2))
	q.SessionID, q.SessionEpoch = 0, -1
	for range few(w.rand) {
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = w.topic(), w.topicID()
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset = w.partition(), w.offset()
		p.PartitionMaxBytes = one[int32](w.rand, 1<<20, 0, 100)
		p.CurrentLeaderEpoch = one[int32](w.rand, -1, 0, 0, 1)
		t.Partitions = append(t.Partitions, p)
		q.Topics = append(q.Topics, t)
	}
	return of(q)
}

func (w *world) listOffsets() request {
	q := kmsg.NewPtrListOffsetsRequest()
	q.ReplicaID, q.IsolationLevel = -1, int8(w.rand.IntN(2))
	for range few(w.rand) {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = w.topic()
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch = w.partition(), one[int32](w.rand, -1, 0, 1)
		p.Timestamp = one[int64](w.rand, -1, -2, -3, -4, -5, 0, firstTimestamp+int64(w.rand.IntN(120)))
		t.Partitions = append(t.Partitions, p)
		q.Topics = append(q.Topics, t)
	}
	return of(q)
}

func (w *world) offsetForLeaderEpoch() request {
	q := kmsg.NewPtrOffsetForLeaderEpochRequest()
	q.ReplicaID = -1
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = w.topic()
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = w.partition(), one[int32](w.rand, -1, 0, 1), one[int32](w.rand, -1, 0, 1, 5)
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return of(q)
}

func (w *world) initProducerID() request {
	q := protocol.NewInitProducerIDRequest()
	q.TransactionTimeoutMillis = 60000
	q.ProducerID, q.ProducerEpoch = -1, -1
	return of(q)
}

func (w *world) deleteRecords() request {
	q := kmsg.NewPtrDeleteRecordsRequest()
	q.TimeoutMillis = 5000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = w.topic()
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = w.partition(), w.offset()-4
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return of(q)
}
