package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func cluster(t *testing.T, props ...Property) *State {
	t.Helper()
	static, err := Parse(props)
	require.NoError(t, err)
	s := NewState(topicSet{"t": true}, true, 1)
	s.AddNode(1, static)
	s.AddNode(2, static)
	return s
}

// alter sets (or with value "\x00" deletes) keys through node 1 and gives the code.
func alter(t *testing.T, s *State, validateOnly bool, resource kmsg.ConfigResourceType, name string, kv ...string) (int16, []Change) {
	t.Helper()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = resource, name
	for i := 0; i < len(kv); i += 2 {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = kv[i], &kv[i+1]
		if kv[i+1] == "\x00" {
			c.Op, c.Value = kmsg.IncrementalAlterConfigOpDelete, nil
		}
		r.Configs = append(r.Configs, c)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly, req.Resources = 1, validateOnly, append(req.Resources, r)
	node := int32(1)
	if name == "2" {
		node = 2
	}
	resp, changes := s.IncrementalAlterConfigs(node, req)
	return resp.Resources[0].ErrorCode, changes
}

func TestKeysOfEachScope(t *testing.T) {
	for scope, want := range map[Scope]int{ScopeTopic: 37, ScopeGroup: 21, ScopeClientMetrics: 3, ScopeBroker: 350} {
		described := 0
		for _, k := range Keys(scope) {
			if !k.Internal {
				described++
				assert.NotEmpty(t, k.Doc(), k.Name)
			}
			if k.BrokerSynonym != "" {
				assert.NotNil(t, Lookup(ScopeBroker, k.BrokerSynonym), k.Name)
			}
		}
		assert.Equal(t, want, described, scope)
	}
	for name := range topicSynonyms {
		assert.NotNil(t, Lookup(ScopeTopic, name), name)
	}
	for name := range groupSynonyms {
		assert.NotNil(t, Lookup(ScopeGroup, name), name)
	}
}

func TestTopicFallsBackToItsBroker(t *testing.T) {
	s := cluster(t, Property{"log.retention.hours", "24", ""}, Property{"log.flush.scheduler.interval.ms", "9", ""})
	retention := func(node int32) time.Duration { return s.Topic(node, "t").Duration("retention.ms") }
	assert.Equal(t, 24*time.Hour, retention(1))
	assert.EqualValues(t, 9, s.Topic(1, "t").Long("flush.ms"))
	assert.EqualValues(t, 7*24*3_600_000, s.Topic(1, "t").Long("segment.ms"))

	set := func(resource kmsg.ConfigResourceType, name, key, value string) {
		code, _ := alter(t, s, false, resource, name, key, value)
		require.Zero(t, code, "%s %s=%s", name, key, value)
	}
	set(kmsg.ConfigResourceTypeBroker, "", "log.retention.ms", "5000")
	assert.Equal(t, 5*time.Second, retention(1))
	assert.EqualValues(t, 168, s.Broker(1).Int("log.retention.hours"), "a family is hidden by a key set at run time")
	set(kmsg.ConfigResourceTypeBroker, "2", "log.retention.ms", "7000")
	assert.Equal(t, 5*time.Second, retention(1))
	assert.Equal(t, 7*time.Second, retention(2))
	set(kmsg.ConfigResourceTypeTopic, "t", "retention.ms", "-1")
	assert.Equal(t, -time.Millisecond, retention(2))
	set(kmsg.ConfigResourceTypeTopic, "t", "retention.ms", "\x00")
	set(kmsg.ConfigResourceTypeBroker, "2", "log.retention.ms", "\x00")
	set(kmsg.ConfigResourceTypeBroker, "", "log.retention.ms", "\x00")
	assert.Equal(t, 24*time.Hour, retention(2))
}

func TestValuesAreSharedUntilChanged(t *testing.T) {
	s := cluster(t)
	assert.Same(t, s.Topic(1, "a"), s.Topic(1, "b"))
	before := s.Topic(1, "a")
	s.SetTopic("a", map[string]string{"max.message.bytes": "10"})
	assert.NotSame(t, before, s.Topic(1, "a"))
	assert.Same(t, before, s.Topic(1, "b"))
	assert.EqualValues(t, 10, s.Topic(2, "a").Int("max.message.bytes"))
	generation := s.Generation()
	s.DeleteTopic("a")
	assert.Greater(t, s.Generation(), generation)
	assert.Same(t, before, s.Topic(1, "a"))
	assert.Empty(t, s.DeleteTopic("a"))
}

func TestGroupStaysWithinItsBrokersBounds(t *testing.T) {
	s := cluster(t, Property{"group.share.min.record.lock.duration.ms", "1000", ""})
	code, changes := alter(t, s, false, kmsg.ConfigResourceTypeGroupConfig, "g", "share.record.lock.duration.ms", "2000", "share.delivery.count.limit", "10")
	require.Zero(t, code)
	assert.EqualValues(t, 2000, s.Group(1, "g").Int("share.record.lock.duration.ms"))
	assert.EqualValues(t, 30000, s.Group(1, "other").Int("share.record.lock.duration.ms"))

	// The same stored values under a broker with other bounds.
	moved := cluster(t, Property{"group.share.max.delivery.count.limit", "6", ""})
	moved.Import(changes)
	assert.EqualValues(t, 15000, moved.Group(1, "g").Int("share.record.lock.duration.ms"))
	assert.EqualValues(t, 6, moved.Group(1, "g").Int("share.delivery.count.limit"))
	assert.Equal(t, "sticky", moved.Group(1, "g").String("streams.assignor.name"))
	assert.Equal(t, "latest", moved.Group(1, "g").String("share.auto.offset.reset"))
}

func TestExportImport(t *testing.T) {
	s := cluster(t)
	for _, a := range [][]string{{"t", "retention.ms", "5"}, {"t", "cleanup.policy", "compact"}} {
		code, _ := alter(t, s, false, kmsg.ConfigResourceTypeTopic, a[0], a[1:]...)
		require.Zero(t, code)
	}
	for resource, a := range map[kmsg.ConfigResourceType][]string{
		kmsg.ConfigResourceTypeGroupConfig: {"g", "share.isolation.level", "read_committed"}, kmsg.ConfigResourceTypeClientMetrics: {"m", "interval.ms", "500"},
		kmsg.ConfigResourceTypeBroker: {"2", "log.retention.ms", "5"},
	} {
		code, _ := alter(t, s, false, resource, a[0], a[1:]...)
		require.Zero(t, code)
	}
	exported := s.Export()
	assert.Len(t, exported, 6, "with min.insync.replicas of all brokers")

	again := NewState(topicSet{}, false, 1)
	again.Import(exported) // before the nodes are known
	static, err := Parse(nil)
	require.NoError(t, err)
	again.AddNode(1, static)
	again.AddNode(2, static)
	assert.Equal(t, exported, again.Export())
	assert.EqualValues(t, 5, again.Broker(2).Long("log.retention.ms"))
	assert.Equal(t, []string{"m"}, again.Subscriptions())
	assert.EqualValues(t, 500, again.ClientMetrics("m").Int("interval.ms"))
}

func TestValidateOnlyAndRefusedChangeNothing(t *testing.T) {
	s := cluster(t)
	before := s.Export()
	code, changes := alter(t, s, true, kmsg.ConfigResourceTypeTopic, "t", "retention.ms", "5")
	assert.Zero(t, code)
	assert.Empty(t, changes)
	for _, bad := range [][]string{{"retention.ms", "5", "segment.bytes", "1"}, {"no.such", "1"}} {
		code, changes = alter(t, s, false, kmsg.ConfigResourceTypeTopic, "t", bad...)
		assert.Equal(t, errorcode.InvalidConfig, code)
		assert.Empty(t, changes)
	}
	assert.Equal(t, before, s.Export())
}

func TestWithoutELR(t *testing.T) {
	s := NewState(topicSet{}, false, 3)
	static, err := Parse([]Property{{"min.insync.replicas", "2", ""}})
	require.NoError(t, err)
	s.AddNode(1, static)
	assert.Empty(t, s.Export())
	assert.EqualValues(t, 2, s.Topic(1, "t").Int("min.insync.replicas"))
	code, _ := alter(t, s, false, kmsg.ConfigResourceTypeBroker, "1", "min.insync.replicas", "1")
	assert.Zero(t, code)
	assert.EqualValues(t, 1, s.Topic(1, "t").Int("min.insync.replicas"))
}

func FuzzParseValue(f *testing.F) {
	for i, text := range []string{"1", "-1", "true", "a,b", "1e9", "by_duration:PT1H", "0:1", " 5 ", "é"} {
		f.Add(uint16(i*40), text)
	}
	f.Fuzz(func(t *testing.T, n uint16, text string) {
		scope := Scope(n) % scopes
		k := Keys(scope)[int(n/4)%len(Keys(scope))]
		v, err := k.Parse(text)
		if err != nil || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' }) {
			return // control characters are cut at the ends of a text, but not from an element that came to an end
		}
		again, err := k.Parse(Format(v))
		require.NoError(t, err, "%s=%q", k.Name, text)
		assert.Equal(t, Format(v), Format(again), "%s=%q", k.Name, text)
	})
}
