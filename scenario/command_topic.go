package scenario

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/config"
	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "topic",
		usage:   "topic NAME [partitions=N] [replicas=N] [assignment=1:2,2:1] [KEY=VALUE ...]",
		summary: "Creates a topic and waits until it has leaders. KEY=VALUE are topic configurations. assignment= names the replicas of each partition, the first of which leads.",
		example: `
topic orders partitions=3 retention.ms=60000
topic orders
----
orders: 3 partitions
orders: TOPIC_ALREADY_EXISTS (36): Topic 'orders' already exists.
`,
		optionNames: []string{"partitions", "replicas", "assignment"},
		freeWords:   true, least: 1, most: -1,
		check: func(c *call) error {
			if _, err := assignmentOption(c); err != nil {
				return err
			}
			settings, err := settingsOf(c.words[1:])
			if err != nil {
				return err
			}
			return c.slipOfConfig(config.ScopeTopic, keysOf(settings)...)
		},
		run: createTopic,
	})
}

func createTopic(s *step, c *call) error {
	name := c.words[0]
	partitions, err := c.numberOption("partitions", 1, -1<<31, 1<<31-1)
	if err != nil {
		return err
	}
	replicas, err := c.numberOption("replicas", 1, -1<<15, 1<<15-1)
	if err != nil {
		return err
	}
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = s.wire(name), int32(partitions), int16(replicas)
	if t.ReplicaAssignment, err = assignmentOption(c); err != nil {
		return err
	}
	if t.ReplicaAssignment != nil {
		t.NumPartitions, t.ReplicationFactor = -1, -1
	}
	configs, err := settingsOf(c.words[1:])
	if err != nil {
		return err
	}
	for _, x := range configs {
		t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: x.key, Value: x.value})
	}
	q := kmsg.NewPtrCreateTopicsRequest()
	q.Topics = append(q.Topics, t)
	p, err := request[*kmsg.CreateTopicsResponse](s, s.as(admin), 0, q)
	if err != nil {
		return err
	}
	for _, t := range p.Topics {
		if t.ErrorCode != 0 {
			s.printf("%s: %s", name, failure(t.ErrorCode, t.ErrorMessage))
			continue
		}
		s.knowTopic(name, t.TopicID)
		if err := s.awaitTopic(name, int(t.NumPartitions)); err != nil {
			return err
		}
		s.printf("%s: %s", name, plural(int(t.NumPartitions), "partition"))
	}
	return nil
}

// assignmentOption is the replicas of each partition that a topic is to have, nil where the broker places them.
func assignmentOption(c *call) (all []kmsg.CreateTopicsRequestTopicReplicaAssignment, err error) {
	text, ok := c.options["assignment"]
	if !ok {
		return nil, nil
	}
	if c.options["partitions"] != "" || c.options["replicas"] != "" {
		return nil, mistakef("assignment says how many partitions and replicas there are: leave out partitions and replicas")
	}
	for i, replicas := range strings.Split(text, ",") {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition = int32(i)
		for id := range strings.SplitSeq(replicas, ":") {
			n, err := number(id, 0, 1<<31-1)
			if err != nil {
				return nil, err
			}
			a.Replicas = append(a.Replicas, int32(n))
		}
		all = append(all, a)
	}
	return all, nil
}

// awaitTopic waits until a topic has so many partitions with leaders, and then for the coordinators to have heard of it.
func (s *step) awaitTopic(name string, partitions int) error {
	err := s.until("topic "+name+" has no leaders", func() (bool, error) {
		t, err := s.metadata(name)
		if err != nil || t.ErrorCode != 0 || len(t.Partitions) != partitions {
			return false, err
		}
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	return s.settle()
}

// awaitNoTopic waits until a topic is gone, and then for the coordinators to have heard of it.
func (s *step) awaitNoTopic(name string) error {
	err := s.until("topic "+name+" is still there", func() (bool, error) {
		t, err := s.metadata(name)
		return err == nil && t.ErrorCode == errorcode.UnknownTopicOrPartition, err
	})
	if err != nil {
		return err
	}
	return s.settle()
}

// setting is a configuration of a script: key=value, or key alone to take it back.
type setting struct {
	key   string
	value *string
}

// keysOf are the keys of settings.
func keysOf(all []setting) []string {
	keys := make([]string, len(all))
	for i, x := range all {
		keys[i] = x.key
	}
	return keys
}

// settingsOf reads words like retention.ms=1000; a word -retention.ms takes the configuration back.
func settingsOf(words []string) (all []setting, err error) {
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		switch {
		case ok && key != "":
			all = append(all, setting{key, &value})
		case strings.HasPrefix(w, "-") && len(w) > 1:
			all = append(all, setting{w[1:], nil})
		default:
			return nil, mistakef("%q is no configuration; write KEY=VALUE, or -KEY to take one back", w)
		}
	}
	return all, nil
}
