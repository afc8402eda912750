package broker

import (
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

// What clients have not taken yet bounds what a Fetch may read, though never below one batch.
func TestFetchReadsLessWhileAnswersAreHeld(t *testing.T) {
	c := fuzzCluster(t, slog.DiscardHandler)
	defer func() { require.NoError(t, c.Close()) }()
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.topics["t"].partition(0)
	for range 9 {
		b := protocol.NewBatchBuilder()
		require.NoError(t, b.Append(0, nil, make([]byte, 100)))
		require.NoError(t, p.appendBuilt(b))
	}
	batches := func() int {
		q := kmsg.NewPtrFetchRequest()
		q.SetVersion(12)
		topic := kmsg.NewFetchRequestTopic()
		partition := kmsg.NewFetchRequestTopicPartition()
		partition.PartitionMaxBytes = math.MaxInt32
		topic.Topic, topic.Partitions = "t", []kmsg.FetchRequestTopicPartition{partition}
		q.Topics = append(q.Topics, topic)
		view, code := c.nodes[0].fetchSessions.open(q, c.clock.Now())
		require.Zero(t, code)
		f := &fetch{request: &request{cluster: c, node: c.nodes[0]}, view: view, replica: -1, maxBytes: math.MaxInt32}
		n := 0
		require.NoError(t, eachBatch(f.read().list[0].records, func(*protocol.BatchHeader, []byte) error { n++; return nil }))
		return n
	}
	assert.Equal(t, 10, batches())
	c.answerBytes = 1000
	assert.Less(t, batches(), 10)
	assert.Greater(t, batches(), 1)
	c.held.Store(5000)
	assert.Equal(t, 1, batches())
}
