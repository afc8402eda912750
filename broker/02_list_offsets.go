package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/internal/javamap"
	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/storage"
)

// ListOffsets (2), v1 to v11.
//
// Behaviour:
//   - Timestamp -1 is the end that the reader may see (last stable offset with read_committed), -2 and, from v8 on, -4 the log start, -3 (v7) the
//     first record with the largest timestamp if the reader may see it, -5 (v9) and -6 (v11) nothing, since there is no tiered storage. Other negative ones, and those of a
//     later version, are UNSUPPORTED_VERSION.
//   - A timestamp from 0 on: the first record, not batch, at or after it. Not found is offset -1 and timestamp -1 without error.
//   - The leader epoch is that of the record found; for -1 the current one, for -2 that of the log start.
//   - A topic named twice has one entry. A partition named twice is INVALID_REQUEST, in one entry. An isolation level other than 0 and 1 is UNKNOWN_SERVER_ERROR for each partition.

const listOffsetsKey = 2

func init() {
	handlers[listOffsetsKey] = needing(locked((*Cluster).listOffsets),
		onEach(acl.Describe, acl.Topic, fault.Partition),
	)
}

// Timestamps with a meaning of their own (ListOffsetsRequest).
const (
	latestTimestamp                = -1
	earliestTimestamp              = -2
	maxTimestamp                   = -3
	earliestLocalTimestamp         = -4
	latestTieredTimestamp          = -5
	earliestPendingUploadTimestamp = -6
)

// timestampSince is the version of ListOffsets from which on a special timestamp may be asked for.
var timestampSince = map[int64]int16{
	latestTimestamp: 1, earliestTimestamp: 1, maxTimestamp: 7, earliestLocalTimestamp: 8, latestTieredTimestamp: 9, earliestPendingUploadTimestamp: 11,
}

func (c *Cluster) listOffsets(r *request, q *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := response[*kmsg.ListOffsetsResponse](q)
	type key struct {
		topic string
		index int32
	}
	count := map[key]int{}
	refused := map[key]bool{}
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			count[key{t.Topic, p.Partition}]++
		}
	}
	entries := map[string]int{}
	for _, t := range q.Topics {
		if len(t.Partitions) == 0 {
			continue
		}
		i, ok := entries[t.Topic]
		if !ok {
			i = len(resp.Topics)
			entries[t.Topic] = i
			entry := kmsg.NewListOffsetsResponseTopic()
			entry.Topic = t.Topic
			resp.Topics = append(resp.Topics, entry)
		}
		entry := &resp.Topics[i]
		for i := range t.Partitions {
			asked := &t.Partitions[i]
			if k := (key{t.Topic, asked.Partition}); count[k] > 1 {
				if refused[k] {
					continue
				}
				refused[k] = true
			}
			e := kmsg.NewListOffsetsResponseTopicPartition()
			e.Partition = asked.Partition
			var found offsetAt
			if count[key{t.Topic, asked.Partition}] > 1 {
				e.ErrorCode = errorcode.InvalidRequest
				found = noOffset
			} else {
				found, e.ErrorCode = c.listOffset(r.node, q, t.Topic, asked)
			}
			e.Offset, e.Timestamp, e.LeaderEpoch = found.offset, found.timestamp, found.epoch
			entry.Partitions = append(entry.Partitions, e)
		}
	}
	orderListOffsets(resp)
	return resp
}

// orderListOffsets puts an answer into Kafka's order: topics are grouped in one of Scala's maps, their partitions in another.
func orderListOffsets(resp *kmsg.ListOffsetsResponse) {
	topics := make([]hashed, len(resp.Topics))
	for i, t := range resp.Topics {
		topics[i] = hashed{javamap.String(t.Topic), i}
		order := make([]hashed, len(t.Partitions))
		for j, p := range t.Partitions {
			order[j] = hashed{topicPartitionHash(t.Topic, p.Partition), j}
		}
		scalaMapOrder(order)
		resp.Topics[i].Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(order))
		for j, o := range order {
			resp.Topics[i].Partitions[j] = t.Partitions[o.at]
		}
	}
	scalaTrieOrder(topics)
	ordered := make([]kmsg.ListOffsetsResponseTopic, len(topics))
	for i, o := range topics {
		ordered[i] = resp.Topics[o.at]
	}
	resp.Topics = ordered
}

// offsetAt is an offset that was looked for, with the timestamp and leader epoch of the record there.
type offsetAt struct {
	offset, timestamp int64
	epoch             int32
}

var noOffset = offsetAt{-1, -1, -1}

// listOffset looks one partition's offset up.
func (c *Cluster) listOffset(n *node, q *kmsg.ListOffsetsRequest, topic string, asked *kmsg.ListOffsetsRequestTopicPartition) (offsetAt, int16) {
	if q.IsolationLevel != readUncommitted && q.IsolationLevel != readCommitted {
		return noOffset, errorcode.UnknownServerError
	}
	if asked.Timestamp < 0 {
		if since, ok := timestampSince[asked.Timestamp]; !ok || q.Version < since {
			return noOffset, errorcode.UnsupportedVersion
		}
	}
	p, code := c.led(n, topic, asked.Partition, asked.CurrentLeaderEpoch)
	if code != errorcode.None {
		return noOffset, code
	}
	end := p.highWatermark()
	if q.IsolationLevel == readCommitted {
		end = p.lastStableOffset()
	}
	switch asked.Timestamp {
	case latestTimestamp:
		return offsetAt{end, -1, p.leaderEpoch}, errorcode.None
	case earliestTimestamp, earliestLocalTimestamp:
		start := p.log.StartOffset()
		return offsetAt{start, -1, p.epochs.at(start)}, errorcode.None
	case latestTieredTimestamp, earliestPendingUploadTimestamp:
		return noOffset, errorcode.None
	}
	var found offsetAt
	var err error
	if asked.Timestamp == maxTimestamp {
		found, err = p.largestTimestamp(end)
	} else {
		found, err = p.atTimestamp(asked.Timestamp, end)
	}
	if err != nil {
		c.log.Error("a timestamp could not be looked up", "partition", p, "timestamp", asked.Timestamp, "error", err)
		return noOffset, errorcode.KafkaStorageError
	}
	return found, errorcode.None
}

// at is the epoch in which an offset was or will be written.
func (e leaderEpochs) at(offset int64) int32 {
	epoch := int32(-1)
	for _, s := range e {
		if s.Start <= offset || epoch < 0 {
			epoch = s.Epoch
		}
	}
	return epoch
}

// atTimestamp finds the first record below end whose timestamp is at or after the given one (ms). As in Apache Kafka it is looked for in the first segment
// alone that ever had such a record.
func (p *partition) atTimestamp(timestamp, end int64) (offsetAt, error) {
	found, failed := noOffset, error(nil)
	from, stop := p.log.StartOffset(), end
	if segments := p.log.Segments(); len(segments) > 1 {
		at := slices.IndexFunc(segments, func(s storage.Segment) bool { return s.MaxTimestamp >= timestamp })
		if at < 0 {
			return noOffset, nil
		}
		from = max(from, segments[at].BaseOffset)
		if at+1 < len(segments) {
			stop = min(end, segments[at+1].BaseOffset)
		}
	}
	err := p.log.Batches(from, func(b storage.Batch) bool {
		if b.BaseOffset >= stop {
			return false
		}
		if b.MaxTimestamp < timestamp {
			return true
		}
		found, failed = p.searchBatch(b, func(h *protocol.BatchHeader, batch []byte) (protocol.Found, bool, error) {
			return protocol.FindTimestamp(h, batch, timestamp, p.log.StartOffset(), protocol.NoRecordLimit)
		})
		return failed == nil && found.offset < 0
	})
	if err == nil {
		err = failed
	}
	if found.offset >= end {
		return noOffset, err
	}
	return found, err
}

// largestTimestamp finds the first record with the largest timestamp of the whole log, if it lies below end.
func (p *partition) largestTimestamp(end int64) (offsetAt, error) {
	var best storage.Batch
	best.MaxTimestamp = -1
	err := p.log.Batches(p.log.StartOffset(), func(b storage.Batch) bool {
		if b.MaxTimestamp > best.MaxTimestamp {
			best = b
		}
		return true
	})
	if err != nil || best.MaxTimestamp < 0 {
		return noOffset, err
	}
	found, err := p.searchBatch(best, func(h *protocol.BatchHeader, batch []byte) (protocol.Found, bool, error) {
		return protocol.FindMaxTimestamp(h, batch, protocol.NoRecordLimit)
	})
	if found.offset >= end {
		return noOffset, err
	}
	return found, err
}

// searchBatch reads a batch and looks for a record in it.
func (p *partition) searchBatch(b storage.Batch, search func(*protocol.BatchHeader, []byte) (protocol.Found, bool, error)) (offsetAt, error) {
	read, err := p.log.Read(max(b.BaseOffset, p.log.StartOffset()), b.BaseOffset+1, 0, true)
	if err != nil {
		return noOffset, err
	}
	found := noOffset
	err = eachBatch(read, func(h *protocol.BatchHeader, batch []byte) error {
		f, ok, err := search(h, batch)
		if ok {
			found = offsetAt{f.Offset, f.Timestamp, h.PartitionLeaderEpoch}
		}
		return err
	})
	return found, err
}
