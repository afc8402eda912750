package logvalidator

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// step is a request that a running Kafka 4.4.0 was sent, and what it answered, without their length prefixes.
type step struct {
	Session           string
	N                 int
	Step              string
	Key, Version      int16
	Request, Response string // hex
}

// message decodes the body behind the header of a frame.
func message[M interface {
	SetVersion(int16)
	IsFlexible() bool
	ReadFrom([]byte) error
}](t *testing.T, s step, text string, request bool, m M) M {
	t.Helper()
	b, err := hex.DecodeString(text)
	require.NoError(t, err, s.Step)
	m.SetVersion(s.Version)
	r := kbin.Reader{Src: b}
	if request {
		r.Span(8)
		r.NullableString()
	} else {
		r.Span(4)
	}
	if m.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	require.NoError(t, m.ReadFrom(r.Src), s.Step)
	return m
}

// log is one partition of the replay.
type log struct {
	end     int64
	state   *ProducerState
	batches []byte
}

// replay does what a broker does around the package.
type replay struct {
	t      *testing.T
	params map[string]Params // by topic
	names  map[[16]byte]string
	logs   map[string]*log
	now    int64
	same   int // stored batches equal to Kafka's byte by byte
	stored int
}

var codecNames = map[string]int8{"producer": ProducerCompression, "uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

func (r *replay) createTopics(q *kmsg.CreateTopicsRequest, a *kmsg.CreateTopicsResponse) {
	for i, topic := range q.Topics {
		p := Params{
			Topic: topic.Topic, MaxMessageBytes: 1048588, SegmentBytes: 1 << 30, MaxDecompressedMessageBytes: 2147483639,
			TimestampBeforeMaxMs: 9223372036854775807, TimestampAfterMaxMs: 3600000,
			Compression: protocol.Compression{Type: ProducerCompression},
		}
		for _, c := range topic.Configs {
			number := func() int64 {
				n, err := strconv.ParseInt(*c.Value, 10, 64)
				require.NoError(r.t, err)
				return n
			}
			switch c.Name {
			case "max.message.bytes":
				p.MaxMessageBytes = int32(number())
			case "segment.bytes":
				p.SegmentBytes = int32(number())
			case "max.decompressed.message.bytes":
				p.MaxDecompressedMessageBytes = int32(number())
			case "message.timestamp.before.max.ms":
				p.TimestampBeforeMaxMs = number()
			case "message.timestamp.after.max.ms":
				p.TimestampAfterMaxMs = number()
			case "cleanup.policy":
				p.Compacted = true
			case "message.timestamp.type":
				p.LogAppendTime = true
			case "compression.type":
				p.Compression = protocol.DefaultCompression(codecNames[*c.Value])
			case "compression.lz4.level":
				p.Compression.Level = int(number())
			}
		}
		r.params[topic.Topic] = p
		r.names[a.Topics[i].TopicID] = topic.Topic
	}
}

func (r *replay) log(topic string, partition int32) *log {
	key := topic + "/" + strconv.Itoa(int(partition))
	if r.logs[key] == nil {
		r.logs[key] = &log{state: NewProducerState()}
	}
	return r.logs[key]
}

var within = regexp.MustCompile(`within \[-?\d+, (\d+)\]`)

// clock finds the time at which Kafka looked at the records, where the answer tells it.
func (r *replay) clock(p *Params, a *kmsg.ProduceResponseTopicPartition) {
	if p.LogAppendTime && a.LogAppendTime > 0 {
		r.now = a.LogAppendTime
	}
	for _, e := range a.ErrorRecords {
		if e.ErrorMessage == nil {
			continue
		}
		if m := within.FindStringSubmatch(*e.ErrorMessage); m != nil {
			to, err := strconv.ParseInt(m[1], 10, 64)
			require.NoError(r.t, err)
			r.now = to - p.TimestampAfterMaxMs
		}
	}
	p.NowMs = r.now
}

func (r *replay) produce(s step, q *kmsg.ProduceRequest, a *kmsg.ProduceResponse) {
	answers := map[string]*kmsg.ProduceResponseTopicPartition{}
	name := func(topic string, id [16]byte) string {
		if s.Version >= 13 {
			return r.names[id]
		}
		return topic
	}
	for _, topic := range a.Topics {
		for i := range topic.Partitions {
			p := &topic.Partitions[i]
			answers[name(topic.Topic, topic.TopicID)+"/"+strconv.Itoa(int(p.Partition))] = p
		}
	}
	type part struct {
		topic string
		*kmsg.ProduceRequestTopicPartition
	}
	var parts []part // the last of several for one partition counts
	for _, topic := range q.Topics {
		for i := range topic.Partitions {
			p := part{name(topic.Topic, topic.TopicID), &topic.Partitions[i]}
			for k := range parts {
				if parts[k].topic == p.topic && parts[k].Partition == p.Partition {
					parts[k] = p
					p.ProduceRequestTopicPartition = nil
					break
				}
			}
			if p.ProduceRequestTopicPartition != nil {
				parts = append(parts, p)
			}
		}
	}
	var whole *Refusal
	for _, p := range parts {
		if _, refusal := IsTransactional(p.Records); refusal != nil {
			require.True(r.t, refusal.WholeRequest, s.Step)
			whole = refusal
			break
		}
		if refusal := CheckFormat(p.Records, s.Version); refusal != nil && refusal.WholeRequest {
			whole = refusal
		}
	}
	for _, p := range parts {
		want := answers[p.topic+"/"+strconv.Itoa(int(p.Partition))]
		require.NotNil(r.t, want, "%s %s", s.Session, s.Step)
		r.partition(s, p.topic, p.ProduceRequestTopicPartition, want, whole)
	}
}

func (r *replay) partition(s step, topic string, q *kmsg.ProduceRequestTopicPartition, want *kmsg.ProduceResponseTopicPartition, whole *Refusal) {
	t := r.t
	text := s.Session + " " + s.Step
	switch want.ErrorCode {
	case errorcode.UnknownTopicOrPartition, errorcode.UnknownTopicID, errorcode.TransactionalIDAuthorizationFailed,
		errorcode.InvalidProducerIDMapping, errorcode.InvalidTopicException:
		return
	case errorcode.InvalidRequiredAcks:
		assert.Nil(t, CheckFormat(q.Records, s.Version), text)
		return
	}
	params, known := r.params[topic]
	if !known { // an internal topic: only the checks that come before its own
		require.NotNil(t, CheckFormat(q.Records, s.Version), text)
		assert.Equal(t, want.ErrorCode, CheckFormat(q.Records, s.Version).Code, text)
		return
	}
	params.Partition, params.Version = q.Partition, s.Version
	r.clock(&params, want)
	got := kmsg.NewProduceResponseTopicPartition()
	got.Partition, got.BaseOffset, got.LogAppendTime = q.Partition, -1, -1
	refusal := whole
	if refusal == nil {
		refusal = r.append(topic, q, &params, &got)
	}
	wantStart := want.LogStartOffset != -1 || s.Version < 5
	if refusal != nil {
		got.ErrorCode = refusal.Code
		if refusal.Message != "" && s.Version >= 8 {
			got.ErrorMessage = &refusal.Message
		}
		for _, e := range refusal.RecordErrors {
			if s.Version >= 8 {
				er := kmsg.NewProduceResponseTopicPartitionErrorRecord()
				er.RelativeOffset, er.ErrorMessage = e.BatchIndex, kmsg.StringPtr(e.Message)
				got.ErrorRecords = append(got.ErrorRecords, er)
			}
		}
		assert.Equal(t, wantStart, refusal.LogStartOffset || s.Version < 5, "%s: log start offset, %v", text, refusal)
	} else {
		assert.True(t, wantStart, text)
	}
	got.LogStartOffset = want.LogStartOffset
	got.CurrentLeader = want.CurrentLeader
	assert.Equal(t, *want, got, "%s: %v", text, refusal)
}

// append validates and appends as a broker would.
func (r *replay) append(topic string, q *kmsg.ProduceRequestTopicPartition, p *Params, got *kmsg.ProduceResponseTopicPartition) *Refusal {
	res, refusal := Validate(bytes.Clone(q.Records), p)
	if refusal != nil {
		return refusal
	}
	l := r.log(topic, q.Partition)
	dup, refusal := l.state.Check(&res.Header, Client, true)
	if refusal != nil {
		return refusal
	}
	if dup != nil {
		got.BaseOffset, got.LogAppendTime = dup.BaseOffset, dup.TimestampMs
		return nil
	}
	h, err := protocol.ParseBatchHeader(res.Batch)
	require.NoError(r.t, err)
	require.Equal(r.t, h, res.Header)
	require.Equal(r.t, protocol.BatchCRC(res.Batch), h.CRC)
	protocol.SetBatchOffset(res.Batch, l.end, 0)
	h.BaseOffset = l.end
	l.batches = append(l.batches, res.Batch...)
	l.state.Apply(&h)
	got.BaseOffset, got.LogAppendTime = l.end, res.LogAppendTimeMs
	l.end += int64(h.LastOffsetDelta) + 1
	return nil
}

// fetched holds what a Fetch from offset 0 returned against what the replay stored.
func (r *replay) fetched(s step, q *kmsg.FetchRequest, a *kmsg.FetchResponse) {
	for i, topic := range a.Topics {
		name := topic.Topic
		if s.Version >= 13 {
			name = r.names[topic.TopicID]
		}
		for k, p := range topic.Partitions {
			if q.Topics[i].Partitions[k].FetchOffset != 0 || r.logs[name+"/"+strconv.Itoa(int(p.Partition))] == nil {
				continue
			}
			ours, theirs := r.log(name, p.Partition).batches, p.RecordBatches
			for n := 0; len(theirs) >= protocol.BatchHeaderSize; n++ {
				var a, b []byte
				if a, theirs = firstBatch(theirs); a == nil {
					break
				}
				b, ours = firstBatch(ours)
				require.NotNil(r.t, b, "%s %s: batch %d is missing", s.Session, s.Step, n)
				r.compare(s, n, a, b)
			}
		}
	}
}

func firstBatch(b []byte) (batch, rest []byte) {
	n := 12 + int(binary.BigEndian.Uint32(b[8:]))
	if n > len(b) {
		return nil, nil
	}
	return b[:n], b[n:]
}

func (r *replay) compare(s step, n int, theirs, ours []byte) {
	t := r.t
	r.stored++
	if bytes.Equal(theirs, ours) {
		r.same++
		return
	}
	a, err := protocol.ParseBatchHeader(theirs)
	require.NoError(t, err)
	b, err := protocol.ParseBatchHeader(ours)
	require.NoError(t, err)
	assert.NotEqual(t, protocol.CompressionNone, a.Compression(), "%s %s: batch %d differs", s.Session, s.Step, n)
	c := b
	c.Length, c.CRC = a.Length, a.CRC
	assert.Equal(t, a, c, "%s %s: batch %d", s.Session, s.Step, n)
	x, err := protocol.Decompress(nil, a.Compression(), theirs[protocol.BatchHeaderSize:], 1<<24)
	require.NoError(t, err)
	y, err := protocol.Decompress(nil, b.Compression(), ours[protocol.BatchHeaderSize:], 1<<24)
	require.NoError(t, err)
	assert.Equal(t, x, y, "%s %s: records of batch %d", s.Session, s.Step, n)
	t.Logf("%s %s: batch %d has the same records in other compressed bytes (codec %d)", s.Session, s.Step, n, a.Compression())
}

// TestRecorded runs what a Kafka 4.4.0 was sent through Validate and ProducerState and compares the answers.
func TestRecorded(t *testing.T) {
	f, err := os.Open("testdata/recorded.jsonl.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	var r *replay
	session, steps := "", 0
	for lines.Scan() {
		var s step
		require.NoError(t, json.Unmarshal(lines.Bytes(), &s))
		if s.Session != session {
			session = s.Session
			// A time within the recorded session, until an answer tells one.
			r = &replay{t: t, params: map[string]Params{}, names: map[[16]byte]string{}, logs: map[string]*log{}, now: 1796041800000}
		}
		switch s.Key {
		case 0:
			steps++
			r.produce(s, message(t, s, s.Request, true, kmsg.NewPtrProduceRequest()), message(t, s, s.Response, false, kmsg.NewPtrProduceResponse()))
		case 1:
			r.fetched(s, message(t, s, s.Request, true, kmsg.NewPtrFetchRequest()), message(t, s, s.Response, false, kmsg.NewPtrFetchResponse()))
			t.Logf("%s %s: %d of %d stored batches are the same byte by byte", s.Session, s.Step, r.same, r.stored)
		case 19:
			r.createTopics(message(t, s, s.Request, true, kmsg.NewPtrCreateTopicsRequest()), message(t, s, s.Response, false, kmsg.NewPtrCreateTopicsResponse()))
		}
	}
	require.NoError(t, lines.Err())
	assert.Equal(t, 366, steps)
}
