package scenario

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "describe-config",
		usage:   "describe-config group|topic|broker|cluster NAME [KEY ...]",
		summary: "Shows configurations and where they come from: the named ones, or those that were changed.",
		example: `
config group workers share.record.lock.duration.ms=15000
describe-config group workers
describe-config group workers share.delivery.count.limit
----
workers: ok
share.record.lock.duration.ms = 15000 (group)
share.delivery.count.limit = 5 (default)
`,
		least: 2, most: -1,
		check: func(c *call) error {
			if _, ok := resourceTypes[c.words[0]]; !ok {
				return mistakef("%q is no kind of configuration: group, topic, broker or cluster", c.words[0])
			}
			return c.slipOfConfig(scopes[c.words[0]], c.words[2:]...)
		},
		run: func(s *step, c *call) error {
			kind, name := s.resource(c)
			keys := c.words[2:]
			if len(keys) == 0 {
				keys = nil
			}
			x, err := s.describeConfig(kind, name, keys)
			if err != nil {
				return err
			}
			if x.ErrorCode != errorcode.None {
				s.printf("%s: %s", c.words[1], failure(x.ErrorCode, x.ErrorMessage))
				return nil
			}
			shown := 0
			for _, e := range x.Configs {
				source := configSource(kind, e.Source)
				if keys == nil && (source == "default" || source == "static") {
					continue
				}
				value := "null"
				if e.Value != nil {
					value = *e.Value
				}
				if e.IsSensitive {
					value = "(sensitive)"
				}
				s.printf("%s = %s (%s)", e.Name, value, source)
				shown++
			}
			if shown == 0 {
				s.printf("nothing")
			}
			return nil
		},
	})
}

// configSource is where a configuration comes from, in a word.
func configSource(kind kmsg.ConfigResourceType, s kmsg.ConfigSource) string {
	switch s {
	case kmsg.ConfigSourceDynamicTopicConfig:
		return "topic"
	case kmsg.ConfigSourceDynamicBrokerConfig:
		return "broker"
	case kmsg.ConfigSourceDynamicDefaultBrokerConfig:
		return "cluster"
	case kmsg.ConfigSourceStaticBrokerConfig:
		return "static"
	case kmsg.ConfigSourceDefaultConfig:
		return "default"
	}
	if kind == kmsg.ConfigResourceTypeGroupConfig {
		return "group"
	}
	return s.String()
}
