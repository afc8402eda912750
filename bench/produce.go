package main

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// makeBatch builds an uncompressed batch of equally large records without keys.
func makeBatch(records, valueSize int) []byte {
	value := make([]byte, valueSize)
	random := rand.New(rand.NewPCG(1, uint64(valueSize)))
	for i := range value {
		value[i] = byte(random.Uint32())
	}
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2,
		LastOffsetDelta: int32(records - 1), NumRecords: int32(records),
		FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
	}
	for i := range records {
		r := kmsg.Record{OffsetDelta: int32(i), Value: value}
		encoded := r.AppendTo(nil) // its length field is one byte, 0
		r.Length = int32(len(encoded) - 1)
		batch.Records = r.AppendTo(batch.Records)
	}
	out := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(out[atLength:], uint32(len(out)-atLength-4))
	binary.BigEndian.PutUint32(out[atCRC:], crc32.Checksum(out[atCRC+4:], castagnoli))
	return out
}

// Where fields of a batch begin.
const (
	atLength          = 8
	atCRC             = 17
	atLastOffsetDelta = 23
	batchHeader       = 61
)

// load is what a producer sends: the same request again and again.
type load struct {
	partitions int // each request has one batch for each
	records    int // of a batch
	valueSize  int // bytes
	requests   int
}

func (l *load) total() int { return l.requests * l.partitions * l.records }

// inFlight is how many requests a producer has without an answer, at most.
const inFlight = 3

// produce sends a load and returns the number of bytes of its batches.
func (c *conn) produce(l *load) (bytes int, err error) {
	batch := makeBatch(l.records, l.valueSize)
	q := kmsg.NewPtrProduceRequest()
	q.SetVersion(11) // the last version that names topics
	q.Acks, q.TimeoutMillis = -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topicName
	for i := range l.partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), batch
		t.Partitions = append(t.Partitions, p)
	}
	q.Topics = append(q.Topics, t)
	frame := c.formatter.AppendRequest(nil, q, 0)
	waiting := 0
	receive := func() error {
		waiting--
		p := kmsg.NewPtrProduceResponse()
		p.SetVersion(q.Version)
		if err := c.receive(p); err != nil {
			return err
		}
		for _, t := range p.Topics {
			for _, one := range t.Partitions {
				if err := failure("Produce", one.ErrorCode); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for range l.requests {
		if waiting == inFlight {
			if err := receive(); err != nil {
				return 0, err
			}
		}
		if err := c.sendFrame(frame); err != nil {
			return 0, err
		}
		waiting++
	}
	for waiting > 0 {
		if err := receive(); err != nil {
			return 0, err
		}
	}
	return l.requests * l.partitions * len(batch), nil
}
