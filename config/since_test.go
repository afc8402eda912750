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

// A key that a later line has removed is one of the earlier alone: the later one refuses it at its start and takes it unseen at run time, like all that
// it does not know.
func TestKeyOfAnOlderLine(t *testing.T) {
	enable := []Property{{"group.share.enable", "true", "file"}}
	static, err := ParseFor(release.Kafka42, enable)
	require.NoError(t, err)
	require.True(t, static.Values().Bool("group.share.enable"))
	_, err = ParseFor(release.Kafka42, []Property{{"group.share.enable", "maybe", "file"}})
	require.ErrorContains(t, err, "group.share.enable")
	for line := release.Kafka43; line <= release.Latest; line++ {
		_, err := ParseFor(line, enable)
		require.EqualError(t, err, "file: unknown broker configuration group.share.enable: it was removed after Kafka 4.2; share groups are switched by the feature share.version")
	}
	for line := release.Kafka42; line <= release.Latest; line++ {
		static, err := ParseFor(line, nil)
		require.NoError(t, err)
		s := NewState(topicSet{}, true, 1)
		s.UseLine(line)
		s.AddNode(1, static)
		q := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = "group.share.enable", kmsg.StringPtr("true")
		r.Configs = append(r.Configs, c)
		q.Resources = append(q.Resources, r)
		p, _ := s.IncrementalAlterConfigs(1, q)
		if line == release.Kafka42 {
			require.Equal(t, "Cannot update these configs dynamically: [group.share.enable]", *p.Resources[0].ErrorMessage)
		} else {
			require.Zero(t, p.Resources[0].ErrorCode)
		}
	}
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
