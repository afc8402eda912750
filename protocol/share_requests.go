package protocol

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ShareRequests decodes the requests of share consumers, which come in numbers and may carry a type for each record. A request that it
// returned is valid until it decodes the next one of the same API: their memory is the same. Unknown tagged fields are left out.
// What is null that may not be, and how many elements there are, fields.Check says before.
type ShareRequests struct {
	fetch           kmsg.ShareFetchRequest
	fetchTopics     arena[kmsg.ShareFetchRequestTopic]
	fetchPartitions arena[kmsg.ShareFetchRequestTopicPartition]
	fetchBatches    arena[kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch]
	forgottenTopics arena[kmsg.ShareFetchRequestForgottenTopicsData]
	forgotten       arena[int32]
	fetchTypes      arena[int8]

	ack           kmsg.ShareAcknowledgeRequest
	ackTopics     arena[kmsg.ShareAcknowledgeRequestTopic]
	ackPartitions arena[kmsg.ShareAcknowledgeRequestTopicPartition]
	ackBatches    arena[kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch]
	ackTypes      arena[int8]

	// The strings of the last request.
	group, member *string
}

// The least that an element takes: a topic is its id, the length of its partitions and a tag section; a partition its index, the length
// of its batches and a tag section; a batch its offsets, the length of its types and a tag section.
const (
	minTopic     = 16 + 1 + 1
	minPartition = 4 + 1 + 1
	minBatch     = 8 + 8 + 1 + 1
)

// Fetch decodes the body of a ShareFetch of version 1 or 2.
func (d *ShareRequests) Fetch(version int16, body []byte) (*kmsg.ShareFetchRequest, error) {
	d.fetchTopics.reset()
	d.fetchPartitions.reset()
	d.fetchBatches.reset()
	d.forgottenTopics.reset()
	d.forgotten.reset()
	d.fetchTypes.reset()
	r := reader{b: body}
	d.caller(&r)
	q := &d.fetch
	*q = kmsg.ShareFetchRequest{Version: version, GroupID: d.group, MemberID: d.member}
	q.ShareSessionEpoch = r.int32()
	q.MaxWaitMillis = r.int32()
	q.MinBytes = r.int32()
	q.MaxBytes = r.int32()
	q.MaxRecords = r.int32()
	q.BatchSize = r.int32()
	if version >= 2 {
		q.ShareAcquireMode = r.int8()
		q.IsRenewAck = r.int8() != 0
	}
	q.Topics = d.fetchTopics.take(r.arrayLen(minTopic))
	for i := range q.Topics {
		t := &q.Topics[i]
		t.TopicID = r.uuid()
		t.Partitions = d.fetchPartitions.take(r.arrayLen(minPartition))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			p.Partition = r.int32()
			p.AcknowledgementBatches = d.fetchBatches.take(r.arrayLen(minBatch))
			for k := range p.AcknowledgementBatches {
				b := &p.AcknowledgementBatches[k]
				b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = r.acknowledgement(&d.fetchTypes)
			}
			r.skipTags()
		}
		r.skipTags()
	}
	q.ForgottenTopicsData = d.forgottenTopics.take(r.arrayLen(minTopic))
	for i := range q.ForgottenTopicsData {
		t := &q.ForgottenTopicsData[i]
		t.TopicID = r.uuid()
		t.Partitions = d.forgotten.take(r.arrayLen(4))
		for j := range t.Partitions {
			t.Partitions[j] = r.int32()
		}
		r.skipTags()
	}
	r.skipTags()
	if r.bad {
		return nil, ErrMalformed
	}
	return q, nil
}

// Acknowledge decodes the body of a ShareAcknowledge of version 1 or 2.
func (d *ShareRequests) Acknowledge(version int16, body []byte) (*kmsg.ShareAcknowledgeRequest, error) {
	d.ackTopics.reset()
	d.ackPartitions.reset()
	d.ackBatches.reset()
	d.ackTypes.reset()
	r := reader{b: body}
	d.caller(&r)
	q := &d.ack
	*q = kmsg.ShareAcknowledgeRequest{Version: version, GroupID: d.group, MemberID: d.member}
	q.ShareSessionEpoch = r.int32()
	if version >= 2 {
		q.IsRenewAck = r.int8() != 0
	}
	q.Topics = d.ackTopics.take(r.arrayLen(minTopic))
	for i := range q.Topics {
		t := &q.Topics[i]
		t.TopicID = r.uuid()
		t.Partitions = d.ackPartitions.take(r.arrayLen(minPartition))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			p.Partition = r.int32()
			p.AcknowledgementBatches = d.ackBatches.take(r.arrayLen(minBatch))
			for k := range p.AcknowledgementBatches {
				b := &p.AcknowledgementBatches[k]
				b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = r.acknowledgement(&d.ackTypes)
			}
			r.skipTags()
		}
		r.skipTags()
	}
	r.skipTags()
	if r.bad {
		return nil, ErrMalformed
	}
	return q, nil
}

func (d *ShareRequests) caller(r *reader) {
	d.group = r.nullableString(d.group)
	d.member = r.nullableString(d.member)
}

// acknowledgement reads an acknowledgement batch.
func (r *reader) acknowledgement(types *arena[int8]) (first, last int64, t []int8) {
	first, last = r.int64(), r.int64()
	encoded := r.bytes(r.arrayLen(1))
	t = types.take(len(encoded))
	for i, b := range encoded {
		t[i] = int8(b)
	}
	r.skipTags()
	return first, last, t
}
