package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseNamesWhatIsWrong(t *testing.T) {
	for name, want := range map[string]string{
		"group.type":                          "unknown broker configuration group.type: a broker has no such key",
		"share.group.delivery.count.limit":    "its name is group.share.delivery.count.limit",
		"share.group.record.lock.duration.ms": "its name is group.share.record.lock.duration.ms",
		"retention.ms":                        "as broker configuration it is log.retention.ms",
		"share.isolation.level":               "it is a configuration of a group",
		"log.retention.mss":                   "did you mean log.retention.ms?",
		"auto.create.topic.enable":            "did you mean auto.create.topics.enable?",
		"listener.name.x.nosuch":              "after listener.name.<listener>. stands",
		"nothing.like.it.at.all":              "Apache Kafka 4.4.0 has no such key",
	} {
		_, err := Parse([]Property{{name, "1", "here:7"}})
		assert.ErrorContains(t, err, want, name)
		assert.ErrorContains(t, err, "here:7: ", name)
	}
	_, err := Parse([]Property{{"no.such.key.x", "1", "a"}, {"num.partitions", "x", "b"}})
	assert.ErrorContains(t, err, "no.such.key.x")
	assert.ErrorContains(t, err, "b: Invalid value x for configuration num.partitions: Not a number of type INT")
}

func TestStaticValues(t *testing.T) {
	s, err := Parse([]Property{{"num.partitions", " 7 ", ""}, {"num.partitions", "8", ""}, {"listener.name.plain.ssl.keystore.type", "PEM", ""}, {"unstable.api.versions.enable", "TRUE", ""}})
	require.NoError(t, err)
	v := s.Values()
	assert.EqualValues(t, 8, v.Int("num.partitions"))
	assert.True(t, v.Bool("unstable.api.versions.enable"))
	assert.EqualValues(t, 3, v.Int("offsets.topic.replication.factor"))
	assert.Equal(t, []string{"uniform", "range"}, v.List("group.consumer.assignors"))
	assert.Equal(t, "5s", v.Duration("group.share.heartbeat.interval.ms").String())
	assert.Equal(t, 0.5, v.Double("log.cleaner.min.cleanable.ratio"))
	assert.True(t, v.IsNull("log.retention.ms"))
	assert.Panics(t, func() { v.Int("no.such.key") })
	assert.Panics(t, func() { v.Int("log.dirs") })

	other, err := s.With(map[string]string{"node.id": "3", "num.partitions": "2"})
	require.NoError(t, err)
	assert.EqualValues(t, 2, other.Values().Int("num.partitions"))
	assert.EqualValues(t, 3, other.Values().Int("node.id"))
	_, err = s.With(map[string]string{"node.id": "-1"})
	assert.Error(t, err)
}

func TestReadProperties(t *testing.T) {
	const file = "# comment\r\n! another\n\n  a=1\nb : 2\n c\t3 \nd=x\\\n    y\\\n   z\ne\\=f=\\u00e9\\t\\uD83D\\uDE00\\z\nempty=\nalone\nwin=1\r\nback=a\\\\\nslash==\n#end\\\nlast = é"
	props, err := ReadProperties(strings.NewReader(file), "f")
	require.NoError(t, err)
	assert.Equal(t, []Property{
		{"a", "1", "f:4"}, {"b", "2", "f:5"}, {"c", "3 ", "f:6"}, {"d", "xyz", "f:7"}, {"e=f", "é\t😀z", "f:10"}, {"empty", "", "f:11"},
		{"alone", "", "f:12"}, {"win", "1", "f:13"}, {"back", `a\`, "f:14"}, {"slash", "=", "f:15"}, {"last", "é", "f:17"},
	}, props)
	for _, bad := range []string{`a=\u12`, `a=\uxyzw`, "ok=1\na=" + strings.Repeat("x", 2*maxPropertyLine)} {
		_, err := ReadProperties(strings.NewReader(bad), "f")
		assert.ErrorContains(t, err, "f:", bad[:4])
	}
	props, err = ReadProperties(strings.NewReader(""), "f")
	assert.Empty(t, props)
	assert.NoError(t, err)
}

func TestParseAssignment(t *testing.T) {
	p, err := ParseAssignment(" a = b=c ")
	require.NoError(t, err)
	assert.Equal(t, Property{"a", "b=c", "command line"}, p)
	for _, bad := range []string{"", "a", "=b"} {
		_, err := ParseAssignment(bad)
		assert.Error(t, err)
	}
}

func FuzzReadProperties(f *testing.F) {
	f.Add("a=b\\\n c\n#x\nd\\u0041:e")
	f.Fuzz(func(t *testing.T, text string) {
		props, err := ReadProperties(strings.NewReader(text), "f")
		if err == nil {
			_, _ = Parse(props[:min(len(props), 5)])
		}
	})
}
