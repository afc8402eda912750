package scenario

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/config"
	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "config",
		usage:   "config group|topic|broker|cluster NAME KEY=VALUE|-KEY ...",
		summary: "Changes configurations (IncrementalAlterConfigs); -KEY takes one back. NAME is the group, topic or node; that of cluster is \"\".",
		example: `
config group workers share.record.lock.duration.ms=15000 share.auto.offset.reset=earliest
config group workers group.type=share
----
workers: ok
workers: INVALID_CONFIG (40): Unknown group config name: group.type
`,
		freeWords: true, least: 3, most: -1,
		check: func(c *call) error {
			if _, ok := resourceTypes[c.words[0]]; !ok {
				return mistakef("%q is no kind of configuration: group, topic, broker or cluster", c.words[0])
			}
			settings, err := settingsOf(c.words[2:])
			if err != nil {
				return err
			}
			return c.slipOfConfig(scopes[c.words[0]], keysOf(settings)...)
		},
		run: alterConfig,
	})
}

var resourceTypes = map[string]kmsg.ConfigResourceType{
	"group": kmsg.ConfigResourceTypeGroupConfig, "topic": kmsg.ConfigResourceTypeTopic,
	"broker": kmsg.ConfigResourceTypeBroker, "cluster": kmsg.ConfigResourceTypeBroker,
}

var scopes = map[string]config.Scope{
	"group": config.ScopeGroup, "topic": config.ScopeTopic, "broker": config.ScopeBroker, "cluster": config.ScopeBroker,
}

// resource is the kind and name on the wire of what a config command is about.
func (s *step) resource(c *call) (kmsg.ConfigResourceType, string) {
	name := c.words[1]
	if kind := c.words[0]; kind == "group" || kind == "topic" {
		name = s.wire(name)
	}
	return resourceTypes[c.words[0]], name
}

func alterConfig(s *step, c *call) error {
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = s.resource(c)
	settings, err := settingsOf(c.words[2:])
	if err != nil {
		return err
	}
	for _, x := range settings {
		if x.key == "errors.deadletterqueue.topic.name" && x.value != nil {
			*x.value = s.wire(*x.value)
		}
		e := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		e.Name, e.Value = x.key, x.value
		if x.value == nil {
			e.Op = kmsg.IncrementalAlterConfigOpDelete
		}
		r.Configs = append(r.Configs, e)
	}
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Resources = append(q.Resources, r)
	p, err := request[*kmsg.IncrementalAlterConfigsResponse](s, s.as(admin), 0, q)
	if err != nil {
		return err
	}
	label := c.words[1]
	if label == "" {
		label = c.words[0]
	}
	for _, x := range p.Resources {
		if x.ErrorCode != errorcode.None {
			s.printf("%s: %s", label, failure(x.ErrorCode, x.ErrorMessage))
			continue
		}
		if err := s.awaitConfig(r.ResourceType, r.ResourceName, settings); err != nil {
			return err
		}
		s.printf("%s: ok", label)
	}
	return nil
}

// awaitConfig waits until the brokers show what was set: the controller answers first.
func (s *step) awaitConfig(kind kmsg.ConfigResourceType, name string, settings []setting) error {
	want := map[string]string{}
	for _, x := range settings {
		if x.value != nil {
			want[x.key] = strings.TrimSpace(*x.value)
		}
	}
	return s.until("the configuration is not shown", func() (bool, error) {
		x, err := s.describeConfig(kind, name, nil)
		if err != nil || x.ErrorCode != errorcode.None {
			return true, err
		}
		shown := 0
		for _, e := range x.Configs {
			if v, ok := want[e.Name]; ok && (e.IsSensitive || e.Value != nil && strings.TrimSpace(*e.Value) == v) {
				shown++
			}
		}
		return shown >= len(want), nil
	})
}

// describeConfig asks for the configurations of one resource, all where no names are given.
func (s *step) describeConfig(kind kmsg.ConfigResourceType, name string, keys []string) (*kmsg.DescribeConfigsResponseResource, error) {
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	q := kmsg.NewPtrDescribeConfigsRequest()
	q.Resources = append(q.Resources, r)
	p, err := request[*kmsg.DescribeConfigsResponse](s, s.as(admin), 0, q)
	if err != nil {
		return nil, err
	}
	if len(p.Resources) != 1 {
		return nil, noAnswer{"an answer without the resource"}
	}
	x := &p.Resources[0]
	slices.SortFunc(x.Configs, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return strings.Compare(a.Name, b.Name) })
	return x, nil
}
