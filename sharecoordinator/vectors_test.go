package sharecoordinator

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

// recorded is a step that was recorded from Apache Kafka 4.4.0.
type recorded struct {
	Step     string `json:"step"`
	Key      int16  `json:"key"`
	Version  int16  `json:"version"`
	Request  string `json:"request_hex"`
	Response string `json:"response_hex"`
}

// readRecorded returns the steps of a session whose keys are the share coordinator's.
func readRecorded(t *testing.T, name string) []recorded {
	f, err := os.Open("../testdata/vectors/" + name + ".jsonl.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	var steps []recorded
	for lines.Scan() {
		var r recorded
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		if r.Key >= 83 && r.Key <= 87 {
			steps = append(steps, r)
		}
	}
	require.NoError(t, lines.Err())
	return steps
}

// decoded returns a step's request and the body of its answer.
func (r *recorded) decoded(t *testing.T) (kmsg.Request, []byte) {
	frame, err := hex.DecodeString(r.Request)
	require.NoError(t, err)
	h, err := protocol.ParseRequestStart(frame)
	require.NoError(t, err)
	body, err := protocol.ParseRequestRest(&h, frame, true)
	require.NoError(t, err)
	q := protocol.RequestForKey(r.Key)
	q.SetVersion(r.Version)
	require.NoError(t, q.ReadFrom(body))
	answer, err := hex.DecodeString(r.Response)
	require.NoError(t, err)
	return q, answer[5:] // after the correlation id and an empty tag section
}

// leaderDoes is what the leader of the group g-own's partition does before a step: it is not recorded, the steps show its outcome.
var leaderDoes = map[string]func(r *replayed, k Key){
	"own-read-after-acquire": func(r *replayed, k Key) {
		r.initialize(k, 2, -1)
		r.read(k, 0)
	},
	"own-read-after-ack-3-4": func(r *replayed, k Key) { r.write(k, 0, 2, Batch{3, 4, 2, 1, Staged{}}) },
	"own-read-after-release-reject-gap": func(r *replayed, k Key) {
		r.write(k, 0, 2, Batch{6, 6, 0, 1, Staged{}})
		r.write(k, 0, 3, Batch{7, 7, 4, 1, Staged{}})
		r.write(k, 0, 4, Batch{8, 8, 4, 1, Staged{}})
	},
	"own-read-after-0-2": func(r *replayed, k Key) { r.write(k, 0, 7, Batch{0, 2, 2, 1, Staged{}}) },
	"own-read-at-end": func(r *replayed, k Key) {
		r.write(k, 5, 4, Batch{5, 5, 2, 1, Staged{}}, Batch{9, 9, 2, 1, Staged{}})
		r.write(k, 6, 4, Batch{6, 6, 2, 2, Staged{}})
	},
}

// TestVectors plays what was recorded from Apache Kafka 4.4.0 and compares every field of every answer. After each step a
// coordinator that reads the records back knows the same.
func TestVectors(t *testing.T) {
	topics := map[[16]byte]int32{}
	steps := readRecorded(t, "state")
	for _, s := range steps {
		q, _ := s.decoded(t)
		if topic, ok := firstTopic(q); ok && topic[1] != 0 { // the id that no topic has is 09 and zeros
			topics[topic] = 1
		}
	}
	for _, updates := range []int{500, 3, 1, 0} {
		r := newReplayed(t, Config{UpdatesPerSnapshot: updates, Exists: func(topic [16]byte, p int32) bool { return p < topics[topic] }})
		for _, s := range steps {
			q, want := s.decoded(t)
			if prepare := leaderDoes[s.Step]; prepare != nil {
				topic, _ := firstTopic(q)
				prepare(r, Key{"g-own", topic, 0})
			}
			assert.Equal(t, hex.EncodeToString(want), hex.EncodeToString(r.serve(q).AppendTo(nil)), s.Step)
			r.compareReplay()
		}
	}
	assert.Len(t, steps, 62)
}

func firstTopic(q kmsg.Request) ([16]byte, bool) {
	switch q := q.(type) {
	case *kmsg.InitializeShareGroupStateRequest:
		return q.Topics[0].TopicID, true
	case *kmsg.ReadShareGroupStateRequest:
		if len(q.Topics) > 0 {
			return q.Topics[0].TopicID, true
		}
	case *kmsg.WriteShareGroupStateRequest:
		return q.Topics[0].TopicID, true
	}
	return [16]byte{}, false
}

// serve answers a recorded request, which names at most one share partition.
func (r *replayed) serve(q kmsg.Request) kmsg.Response {
	p := q.ResponseKind()
	switch q := q.(type) {
	case *kmsg.InitializeShareGroupStateRequest:
		a := q.Topics[0].Partitions[0]
		t, e := kmsg.NewInitializeShareGroupStateResponseTopic(), kmsg.NewInitializeShareGroupStateResponseTopicPartition()
		t.TopicID, e.Partition = q.Topics[0].TopicID, a.Partition
		e.ErrorCode, e.ErrorMessage = code(r.initialize(Key{q.GroupID, t.TopicID, a.Partition}, a.StateEpoch, a.StartOffset))
		t.Partitions = append(t.Partitions, e)
		p := p.(*kmsg.InitializeShareGroupStateResponse)
		p.Topics = append(p.Topics, t)
	case *kmsg.ReadShareGroupStateRequest:
		p := p.(*kmsg.ReadShareGroupStateResponse)
		if q.GroupID == "" || len(q.Topics) == 0 {
			return p
		}
		a := q.Topics[0].Partitions[0]
		t, e := kmsg.NewReadShareGroupStateResponseTopic(), kmsg.NewReadShareGroupStateResponseTopicPartition()
		t.TopicID, e.Partition = q.Topics[0].TopicID, a.Partition
		s, no := r.read(Key{q.GroupID, t.TopicID, a.Partition}, a.LeaderEpoch)
		e.ErrorCode, e.ErrorMessage = code(no)
		e.StateEpoch, e.StartOffset = s.StateEpoch, s.StartOffset
		for _, b := range s.Batches {
			e.StateBatches = append(e.StateBatches, kmsg.ReadShareGroupStateResponseTopicPartitionStateBatch{
				FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, DeliveryState: b.State, DeliveryCount: b.DeliveryCount,
			})
		}
		t.Partitions = append(t.Partitions, e)
		p.Topics = append(p.Topics, t)
	case *kmsg.WriteShareGroupStateRequest:
		a := q.Topics[0].Partitions[0]
		t, e := kmsg.NewWriteShareGroupStateResponseTopic(), kmsg.NewWriteShareGroupStateResponseTopicPartition()
		t.TopicID, e.Partition = q.Topics[0].TopicID, a.Partition
		u := &Update{StateEpoch: a.StateEpoch, LeaderEpoch: a.LeaderEpoch, StartOffset: a.StartOffset, DeliveryCompleteCount: a.DeliveryCompleteCount}
		for _, b := range a.StateBatches {
			u.Batches = append(u.Batches, Batch{b.FirstOffset, b.LastOffset, b.DeliveryState, b.DeliveryCount, Staged{}})
		}
		e.ErrorCode, e.ErrorMessage = code(r.update(Key{q.GroupID, t.TopicID, a.Partition}, u))
		t.Partitions = append(t.Partitions, e)
		p := p.(*kmsg.WriteShareGroupStateResponse)
		p.Topics = append(p.Topics, t)
	case *kmsg.DeleteShareGroupStateRequest:
		a := q.Topics[0].Partitions[0]
		t, e := kmsg.NewDeleteShareGroupStateResponseTopic(), kmsg.NewDeleteShareGroupStateResponseTopicPartition()
		t.TopicID, e.Partition = q.Topics[0].TopicID, a.Partition
		record, no := r.c.Delete(Key{q.GroupID, t.TopicID, a.Partition})
		r.apply(record)
		e.ErrorCode, e.ErrorMessage = code(no)
		t.Partitions = append(t.Partitions, e)
		p := p.(*kmsg.DeleteShareGroupStateResponse)
		p.Topics = append(p.Topics, t)
	case *kmsg.ReadShareGroupStateSummaryRequest:
		a := q.Topics[0].Partitions[0]
		t, e := kmsg.NewReadShareGroupStateSummaryResponseTopic(), kmsg.NewReadShareGroupStateSummaryResponseTopicPartition()
		t.TopicID, e.Partition = q.Topics[0].TopicID, a.Partition
		s, no := r.c.Summary(Key{q.GroupID, t.TopicID, a.Partition})
		e.ErrorCode, e.ErrorMessage = code(no)
		e.StateEpoch, e.LeaderEpoch, e.StartOffset = s.StateEpoch, s.LeaderEpoch, s.StartOffset
		if q.Version >= 1 {
			e.DeliveryCompleteCount = s.DeliveryCompleteCount
		}
		t.Partitions = append(t.Partitions, e)
		p := p.(*kmsg.ReadShareGroupStateSummaryResponse)
		p.Topics = append(p.Topics, t)
	}
	return p
}

func code(no *Refusal) (int16, *string) {
	if no == nil {
		return 0, nil
	}
	return no.ErrorCode, &no.Message
}

// replayed is a coordinator whose records are kept as the log has them.
type replayed struct {
	t      require.TestingT
	c      *Coordinator
	config Config
	now    int64
	log    [][2][]byte // nil where redundant records were deleted
	pruned bool
}

func newReplayed(t require.TestingT, config Config) *replayed {
	return &replayed{t: t, c: New(config), config: config, now: 1_000}
}

// apply appends a record and takes back what the log has of it.
func (r *replayed) apply(record Record) {
	r.now++
	if record.IsEmpty() {
		return
	}
	key, value := record.Encode()
	r.log = append(r.log, [2][]byte{key, value})
	r.c.Apply(&record, int64(len(r.log)-1))
}

func (r *replayed) initialize(k Key, stateEpoch int32, start int64) *Refusal {
	record, no := r.c.Initialize(r.now, k, stateEpoch, start)
	r.apply(record)
	return no
}

func (r *replayed) read(k Key, leaderEpoch int32) (State, *Refusal) {
	s, record, no := r.c.Read(r.now, k, leaderEpoch)
	s.Batches = slices.Clone(s.Batches)
	r.apply(record)
	return s, no
}

func (r *replayed) update(k Key, u *Update) *Refusal {
	record, no := r.c.Write(r.now, k, u)
	r.apply(record)
	return no
}

// write writes with the epochs that g-own's leader has.
func (r *replayed) write(k Key, start int64, complete int32, batches ...Batch) {
	require.Nil(r.t, r.update(k, &Update{StateEpoch: 2, StartOffset: start, DeliveryCompleteCount: complete, Batches: batches}))
}

// compareReplay reads the log back into another coordinator, which must know what this one knows.
func (r *replayed) compareReplay() {
	again := New(r.config)
	for offset, kv := range r.log {
		if kv[0] == nil {
			continue // it was redundant
		}
		record, err := Decode(kv[0], kv[1])
		require.NoError(r.t, err)
		again.Apply(&record, int64(offset))
	}
	want, have := known(r.c), known(again)
	if r.pruned { // as with Kafka, a fence that an Initialize has outlived goes with the records before it
		for _, states := range []map[Key]state{want, have} {
			for k, s := range states {
				s.fence = s.LeaderEpoch
				states[k] = s
			}
		}
	}
	require.Equal(r.t, want, have)
}

// known is what a coordinator knows, without the difference between no batches and none.
func known(c *Coordinator) map[Key]state {
	out := map[Key]state{}
	for k, s := range c.states {
		one := *s
		if len(one.Batches) == 0 {
			one.Batches = nil
		}
		out[k] = one
	}
	return out
}
