package config

import (
	"bufio"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tsv reads a file of what Kafka's own classes answered, without comments.
func tsv(t *testing.T, name string) [][]string {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	require.NoError(t, err)
	defer f.Close()
	var rows [][]string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		rows = append(rows, strings.Split(lines.Text(), "\t"))
	}
	require.NoError(t, lines.Err())
	return rows
}

// values.tsv: scope, key, value, ok or error, canonical text or message, as Kafka's ConfigDef answers.
func TestParseValueAsKafka(t *testing.T) {
	for _, row := range tsv(t, "values.tsv") {
		scope := Scope(0)
		for i, name := range scopeNames {
			if name == row[0] {
				scope = Scope(i)
			}
		}
		value, err := Lookup(scope, row[1]).Parse(row[2])
		if row[3] == "error" {
			assert.EqualError(t, err, row[4], "%q", row)
		} else if assert.NoError(t, err, "%q", row) {
			assert.Equal(t, row[4], Format(value), "%q", row)
		}
	}
}

// static.tsv: keys of a broker beside its listeners and roles, ok or the message, as KafkaConfig answers. What it says
// about classes, listeners and roles is not checked here: whoever opens listeners checks them.
func TestStaticConfigurationAsKafka(t *testing.T) {
	elsewhere := []string{"inter.broker.listener.name=X", "inter.broker.listener.name=PLAINTEXT", "sasl.mechanism.inter", "cordoned.log.dirs=/x", "process.roles=",
		"controller.listener.names=", "controller.quorum.voters=\t", "listeners=PLAINTEXT://h:1\t", "advertised.listeners=X", "principal.builder", "create.topic.policy",
		"early.start", "no.such.key", "offsets.topic.compression.codec=9", "share.coordinator.state.topic.compression.codec=7", "listener.security.protocol.map=A",
		"max.connections.per.ip.overrides=x", "group.coordinator.rebalance.protocols"}
next:
	for _, row := range tsv(t, "static.tsv") {
		line := strings.Join(row, "\t")
		for _, prefix := range elsewhere {
			if strings.HasPrefix(line, prefix) {
				continue next
			}
		}
		props := []Property{{"node.id", "1", "test"}}
		for kv := range strings.SplitSeq(row[0], ";") {
			p, err := ParseAssignment(kv)
			require.NoError(t, err)
			props = append(props, p)
		}
		_, err := Parse(props)
		if row[1] == "ok" {
			assert.NoError(t, err, line)
		} else if assert.Error(t, err, line) {
			assert.True(t, strings.HasSuffix(err.Error(), row[1]), "%s\ngot %v", line, err)
		}
	}
}

func TestParseISODuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT1H": time.Hour, "P1D": 24 * time.Hour, "PT0.000000001S": 1, "PT1H-30M": 30 * time.Minute, "-PT1S": -time.Second,
		"PT-0.5S": -500 * time.Millisecond, "P106752D": math.MaxInt64, "-P106752D": math.MinInt64, "PT99999999999999999999S": math.MaxInt64,
	} {
		got, err := ParseISODuration(text)
		assert.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "P", "PT", "1h", "P1DT", "PT1.5H", "P1Y"} {
		_, err := ParseISODuration(text)
		assert.Error(t, err, text)
	}
}

// What parseDouble takes is what this says, for all short texts of the characters that matter and some longer ones.
func TestParseDouble(t *testing.T) {
	java := regexp.MustCompile(`^[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)$`)
	parts := []string{"", "+", "-", "0", "12", ".", "e", "E", "f", "D", "NaN", "Infinity", "inf", "nan", "0x1p3", "_", " ", "e400", "p"}
	check := func(s string) {
		f, ok := parseDouble(s)
		require.Equal(t, java.MatchString(s), ok, "%q", s)
		if want, err := strconv.ParseFloat(strings.TrimRight(s, "fFdD"), 64); ok && err == nil && !math.IsNaN(f) {
			require.Equal(t, want, f, "%q", s)
		}
	}
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				for _, d := range parts {
					check(a + b + c + d)
				}
				check("1." + a + "5" + b + c)
			}
		}
	}
	f, ok := parseDouble("-1e400")
	require.True(t, ok)
	require.Equal(t, math.Inf(-1), f)
}
