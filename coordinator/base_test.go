package coordinator

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testTopics is a Topics by name.
type testTopics map[string]Topic

func (t testTopics) add(topic Topic) { t[topic.Name] = topic }

func (t testTopics) TopicByName(name string) (Topic, bool) {
	topic, ok := t[name]
	return topic, ok
}

func (t testTopics) TopicByID(id [16]byte) (Topic, bool) {
	for _, topic := range t {
		if topic.ID == id {
			return topic, true
		}
	}
	return Topic{}, false
}

func (t testTopics) TopicNames() []string { return slices.Sorted(maps.Keys(t)) }

// testConfig is Kafka's default configuration, but for the initial rebalance delay, which is 0. Member ids are
// numbered.
func testConfig() Config {
	var made uint64
	return Config{
		Partitions:   50,
		GroupMaxSize: 1<<31 - 1, GroupMinSession: 6 * time.Second, GroupMaxSession: 30 * time.Minute,
		OffsetMetadataMaxBytes: 4096, OffsetsRetention: 7 * 24 * time.Hour, OffsetsRetentionCheckPeriod: 10 * time.Minute,
		ConsumerProtocolEnabled: true, ConsumerMaxSize: 1<<31 - 1, ConsumerSession: 45 * time.Second,
		ConsumerHeartbeat: 5 * time.Second, ConsumerAssignmentInterval: time.Second,
		ConsumerAssignors: []string{"uniform", "range"}, ConsumerMigrationPolicy: "bidirectional",
		ConsumerRegexRefreshInterval: 10 * time.Minute,
		ShareEnabled:                 true, ShareMaxSize: 200, ShareSession: 45 * time.Second, ShareHeartbeat: 5 * time.Second,
		ShareAssignmentInterval: time.Second, ShareAssignors: []string{"simple"},
		NewUUID: func() (id [16]byte) {
			made++
			binary.BigEndian.PutUint64(id[8:], made)
			return id
		},
	}
}

// recordLog keeps records as __consumer_offsets would.
type recordLog []Record

func (l *recordLog) append(e Effects) { *l = append(*l, e.Records...) }

// replay makes a coordinator from the records.
func (l recordLog) replay(t require.TestingT, now time.Time, config Config, topics Topics) *Groups {
	g := New(config, topics)
	var e Effects
	for _, r := range l {
		id := noProducerID
		if r.Transactional {
			id = r.ProducerID
		}
		require.NoError(t, g.Replay(id, r.Key, r.Value))
	}
	for p := range config.Partitions {
		g.Loaded(now, p, &e)
	}
	require.Empty(t, e.Completed)
	return g
}

func TestPartitionFor(t *testing.T) {
	// From Java: Math.abs(key.hashCode()) % 50, with abs(MIN_VALUE) as 0.
	for key, want := range map[string]int32{
		"":                        0,
		"g":                       3,
		"group":                   47,
		"polygenelubricants":      0, // the hash is MIN_VALUE
		"\u00e9t\u00e9":           42,
		"\U0001F600":              49, // two UTF-16 units
		"console-consumer-123456": 44,
	} {
		assert.Equal(t, want, PartitionFor(key, 50), key)
	}
}

func TestTimers(t *testing.T) {
	g := New(testConfig(), testTopics{})
	var ran []string
	note := func(name string) func(time.Time, *Effects) {
		return func(time.Time, *Effects) { ran = append(ran, name) }
	}
	g.timers.schedule("g", "b", at(20), note("b"))
	g.timers.schedule("g", "a", at(10), note("a"))
	g.timers.schedule("h", "a", at(10), note("h"))
	g.timers.schedule("g", "a", at(10), note("a again"))
	g.timers.schedule("h", "c", at(5), note("cancelled"))
	g.timers.cancel("h", "c")
	g.timers.schedule("i", "d", at(5), note("cancelled"))
	g.timers.cancelAll("i")
	due, ok := g.NextDeadline()
	require.True(t, ok)
	assert.Equal(t, at(10), due)
	var e Effects
	g.Expire(at(9), &e)
	assert.Empty(t, ran)
	g.Expire(at(20), &e)
	assert.Equal(t, []string{"h", "a again", "b"}, ran)
	_, ok = g.NextDeadline()
	assert.False(t, ok)
}
