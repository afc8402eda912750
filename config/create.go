package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// NewTopic checks the configuration of a CreateTopics (19) request and gives what to set with SetTopic once the topic
// exists. Of a key that stands twice the last value counts. An error is the message of INVALID_CONFIG (40).
func (s *State) NewTopic(nodeID int32, configs []kmsg.CreateTopicsRequestTopicConfig) (map[string]string, error) {
	overrides := map[string]string{}
	nulls := map[string]bool{}
	for _, c := range configs {
		delete(overrides, c.Name)
		if nulls[c.Name] = c.Value == nil; c.Value != nil {
			overrides[c.Name] = *c.Value
		}
	}
	var missing []string
	for name, isNull := range nulls {
		if isNull {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, errors.New("Null value not supported for topic configs: " + strings.Join(missing, ","))
	}
	if err := s.checkTopic(overrides, s.Broker(nodeID)); err != nil {
		return nil, err
	}
	return overrides, nil
}

// CreatedConfigs gives the effective configuration that CreateTopics v5+ answers: every key sorted by name, with its
// source. Unlike DescribeConfigs it gives values as they were written and finds the source behind log.retention.hours.
// Source: metadata KafkaConfigSchema.java.
func (s *State) CreatedConfigs(nodeID int32, overrides map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	var out []kmsg.CreateTopicsResponseTopicConfig
	for _, k := range Keys(ScopeTopic) {
		if k.Internal || !has(s.line, k) {
			continue
		}
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name = k.Name
		c.Value, c.Source = s.createdValue(nodeID, k, overrides)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b kmsg.CreateTopicsResponseTopicConfig) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (s *State) createdValue(nodeID int32, k *Key, overrides map[string]string) (*string, int8) {
	if text, ok := overrides[k.Name]; ok {
		return &text, int8(kmsg.ConfigSourceDynamicTopicConfig)
	}
	family := unitFamilies[k.BrokerSynonym]
	if family == nil {
		family = []unitKey{{k.BrokerSynonym, 1}}
	}
	n := s.nodes[nodeID]
	for _, layer := range []struct {
		values map[string]string
		source kmsg.ConfigSource
	}{{n.dynamic, kmsg.ConfigSourceDynamicBrokerConfig}, {s.forAll, kmsg.ConfigSourceDynamicDefaultBrokerConfig}, {n.static, kmsg.ConfigSourceStaticBrokerConfig}} {
		for _, u := range family {
			if text, ok := layer.values[u.name]; ok {
				text = inMillis(text, u.ms)
				return &text, int8(layer.source)
			}
		}
	}
	return k.Default, int8(kmsg.ConfigSourceDefaultConfig)
}

// inMillis converts a number of hours or minutes; a negative one is without limit.
func inMillis(text string, ms int64) string {
	n, err := strconv.ParseInt(trim(text), 10, 64)
	if ms == 1 || err != nil {
		return text
	}
	if n < 0 {
		return "-1"
	}
	return strconv.FormatInt(n*ms, 10)
}
