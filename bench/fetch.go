package main

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Limits of clients that are set up with their defaults, in bytes.
const (
	fetchMaxBytes          = 50 << 20
	fetchPartitionMaxBytes = 1 << 20
)

// fetchRequest is a Fetch of all partitions of a topic from their starts.
func fetchRequest(topic [16]byte, partitions int) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.SetVersion(17)
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes = 500, 1, fetchMaxBytes
	q.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.TopicID = topic
	for i := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = int32(i), fetchPartitionMaxBytes
		t.Partitions = append(t.Partitions, p)
	}
	q.Topics = append(q.Topics, t)
	return q
}

// fetchAll reads a topic from the start until it has had a number of records.
func (c *conn) fetchAll(topic [16]byte, partitions, records int) error {
	q := fetchRequest(topic, partitions)
	t := &q.Topics[0]
	for records > 0 {
		var p kmsg.FetchResponse
		if err := c.request(q, &p); err != nil {
			return err
		}
		if err := failure("Fetch", p.ErrorCode); err != nil {
			return err
		}
		before := records
		for i := range p.Topics {
			for j := range p.Topics[i].Partitions {
				got := &p.Topics[i].Partitions[j]
				if err := failure("Fetch", got.ErrorCode); err != nil {
					return err
				}
				first := t.Partitions[got.Partition].FetchOffset
				next, err := nextOffset(got.RecordBatches, first)
				if err != nil {
					return err
				}
				t.Partitions[got.Partition].FetchOffset = next
				records -= int(next - first)
			}
		}
		if records == before {
			return fmt.Errorf("Fetch: an empty answer, %d records missing", records)
		}
	}
	return nil
}

// nextOffset is the offset behind the last whole batch, or the one given where there is none.
func nextOffset(batches []byte, offset int64) (int64, error) {
	for len(batches) >= batchHeader {
		size := int(binary.BigEndian.Uint32(batches[atLength:])) + atLength + 4
		if size < batchHeader {
			return offset, fmt.Errorf("Fetch: a batch of %d bytes", size)
		}
		if size > len(batches) {
			break // cut short, as a broker may
		}
		offset = int64(binary.BigEndian.Uint64(batches)) + int64(binary.BigEndian.Uint32(batches[atLastOffsetDelta:])) + 1
		batches = batches[size:]
	}
	return offset, nil
}
