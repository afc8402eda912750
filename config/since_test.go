package config

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/release"
)

// Keys counts what brokers of 4.2.0, 4.3.0 and 4.4.0 describe: their topics have 33, 33 and 37 keys, their groups 11, 17 and 21.
func TestKeysOfLines(t *testing.T) {
	for _, x := range []struct {
		line          release.Line
		topic, groups int
	}{{release.Kafka42, 33, 11}, {release.Kafka43, 33, 17}, {release.Kafka44, 37, 21}} {
		count := func(s Scope) (n int) {
			for _, k := range Keys(s) {
				if has(x.line, k) && !k.Internal {
					n++
				}
			}
			return n
		}
		require.Equal(t, x.topic, count(ScopeTopic), "topic keys of %s", x.line)
		require.Equal(t, x.groups, count(ScopeGroup), "group keys of %s", x.line)
	}
}

// A key that a later line has brought is refused by name, and says which.
func TestStaticOfAnOlderLine(t *testing.T) {
	later := []Property{{"errors.deadletterqueue.topic.name.prefix", "dead.", "file"}}
	_, err := ParseFor(release.Kafka44, later)
	require.NoError(t, err)
	_, err = ParseFor(release.Kafka43, later)
	require.EqualError(t, err, "file: unknown broker configuration errors.deadletterqueue.topic.name.prefix: Apache Kafka 4.3 has no such key, 4.4 has")
}

// A line does not describe what it does not have, nor does it answer it with a new topic.
func TestDescribeOfAnOlderLine(t *testing.T) {
	static, err := ParseFor(release.Kafka43, nil)
	require.NoError(t, err)
	s := NewState(topicSet{"t": true}, true, 1)
	s.UseLine(release.Kafka43)
	s.AddNode(1, static)
	q := kmsg.NewPtrDescribeConfigsRequest()
	for kind, name := range map[kmsg.ConfigResourceType]string{kmsg.ConfigResourceTypeTopic: "t", kmsg.ConfigResourceTypeBroker: "1", kmsg.ConfigResourceTypeGroupConfig: "g"} {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kind, name
		q.Resources = append(q.Resources, r)
	}
	for _, r := range s.DescribeConfigs(1, q).Resources {
		require.NotEmpty(t, r.Configs)
		for _, c := range r.Configs {
			require.NotContains(t, c.Name, "deadletterqueue")
			require.NotEqual(t, "max.decompressed.message.bytes", c.Name)
		}
	}
	for _, c := range s.CreatedConfigs(1, nil) {
		require.NotContains(t, c.Name, "deadletterqueue")
	}
}
