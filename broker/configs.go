package broker

import (
	"fmt"
	"slices"

	"kshare/config"
	"kshare/logcleaner"
	"kshare/logvalidator"
	"kshare/protocol"
)

// brokerValues are the effective broker configurations. All nodes are started with the same ones; what was set for a single node
// at run time is that node's alone, and the cluster as a whole goes by the first.
func (c *Cluster) brokerValues() *config.Values { return c.config.Broker(c.nodes[0].id) }

func (c *Cluster) brokerInt(key string) int32 { return c.brokerValues().Int(key) }
func (c *Cluster) brokerBool(key string) bool { return c.brokerValues().Bool(key) }
func (c *Cluster) brokerText(key string) string {
	text, _ := c.brokerValues().Text(key)
	return text
}

// TopicExists implements config.Topics.
func (c *Cluster) TopicExists(name string) bool { return c.topics[name] != nil }

// TopicNames implements config.Topics and coordinator.Topics: the names of all topics, sorted.
func (c *Cluster) TopicNames() []string {
	names := make([]string, 0, len(c.topics))
	for _, t := range c.sortedTopics() {
		names = append(names, t.name)
	}
	return names
}

// topicConfig is what the broker itself acts on in a topic's configuration.
type topicConfig struct {
	params  logvalidator.Params // without partition, version and time
	deletes bool                // cleanup.policy has delete, or is empty
	minISR  int32               // min.insync.replicas
	// deadLetters is errors.deadletterqueue.group.enable: share groups may write what they give up.
	deadLetters bool
	cleanup     logcleaner.Config
}

// topicConfigChanged derives a topic's configuration anew.
func (c *Cluster) topicConfigChanged(t *topic) {
	v := c.config.Topic(c.nodes[0].id, t.name)
	policies := v.List("cleanup.policy")
	segmentBytes := v.Int("segment.bytes")
	if !v.IsNull("internal.segment.bytes") {
		segmentBytes = v.Int("internal.segment.bytes")
	}
	t.config = topicConfig{
		minISR:      v.Int("min.insync.replicas"),
		deadLetters: v.Bool("errors.deadletterqueue.group.enable"),
		deletes:     len(policies) == 0 || slices.Contains(policies, "delete"),
		params: logvalidator.Params{
			Topic:                       t.name,
			MaxMessageBytes:             v.Int("max.message.bytes"),
			SegmentBytes:                segmentBytes,
			MaxDecompressedMessageBytes: v.Int("max.decompressed.message.bytes"),
			Compacted:                   slices.Contains(policies, "compact"),
			LogAppendTime:               v.String("message.timestamp.type") == "LogAppendTime",
			TimestampBeforeMaxMs:        v.Long("message.timestamp.before.max.ms"),
			TimestampAfterMaxMs:         v.Long("message.timestamp.after.max.ms"),
			Compression:                 topicCompression(v),
		},
		cleanup: logcleaner.Config{
			SegmentBytes:      int64(segmentBytes),
			SegmentMs:         v.Long("segment.ms"),
			Delete:            slices.Contains(policies, "delete"),
			Compact:           slices.Contains(policies, "compact"),
			RetentionMs:       v.Long("retention.ms"),
			RetentionBytes:    v.Long("retention.bytes"),
			MinDirtyRatio:     v.Double("min.cleanable.dirty.ratio"),
			MinLagMs:          v.Long("min.compaction.lag.ms"),
			MaxLagMs:          v.Long("max.compaction.lag.ms"),
			DeleteRetentionMs: v.Long("delete.retention.ms"),
		},
	}
	for _, p := range t.partitions {
		c.scheduleCleanup(p)
	}
	for _, p := range t.partitions {
		p.holdHighWatermark()
	}
}

// topicCompression is the codec that a topic's batches are stored in.
func topicCompression(v *config.Values) protocol.Compression {
	switch v.String("compression.type") {
	case "uncompressed":
		return protocol.DefaultCompression(protocol.CompressionNone)
	case "gzip":
		return protocol.Compression{Type: protocol.CompressionGzip, Level: int(v.Int("compression.gzip.level"))}
	case "snappy":
		return protocol.DefaultCompression(protocol.CompressionSnappy)
	case "lz4":
		return protocol.Compression{Type: protocol.CompressionLZ4, Level: int(v.Int("compression.lz4.level"))}
	case "zstd":
		return protocol.Compression{Type: protocol.CompressionZstd, Level: int(v.Int("compression.zstd.level"))}
	}
	return protocol.Compression{Type: logvalidator.ProducerCompression}
}

// allTopicConfigsChanged derives every topic's configuration anew, since a broker's configuration has changed.
func (c *Cluster) allTopicConfigsChanged() {
	for _, t := range c.sortedTopics() {
		c.topicConfigChanged(t)
	}
}

const configsKeyPrefix = "config/"

// configKey is where a change of a configuration is stored.
func configKey(ch config.Change) string {
	return fmt.Sprintf("%s%d/%s/%s", configsKeyPrefix, ch.Resource, ch.Name, ch.Key)
}

// storeConfigs stores changes of configurations that have been applied.
func (c *Cluster) storeConfigs(changes []config.Change) error {
	for _, ch := range changes {
		if ch.Value == nil {
			if err := c.store.PutMetadata(configKey(ch), nil); err != nil {
				return err
			}
			continue
		}
		if err := c.storeJSON(configKey(ch), ch); err != nil {
			return err
		}
	}
	return nil
}

// loadConfigs makes the configuration state: the nodes' own and what was set at run time.
func (c *Cluster) loadConfigs(static *config.Static) error {
	elr := c.features.Levels[elrFeature] > 0
	c.config = config.NewState(c, elr, static.Values().Int("min.insync.replicas"))
	c.config.UseLine(c.line)
	for _, n := range c.nodes {
		c.config.AddNode(n.id, static)
	}
	var changes []config.Change
	err := eachStored(c, configsKeyPrefix, func(ch config.Change) error {
		changes = append(changes, ch)
		return nil
	})
	if err != nil {
		return err
	}
	c.config.Import(changes)
	return nil
}

// setTopicConfigs sets the configuration of a topic that is about to be created.
func (c *Cluster) setTopicConfigs(name string, overrides map[string]string) error {
	return c.storeConfigs(c.config.SetTopic(name, overrides))
}

// removeTopicConfig removes the configuration of a topic that was deleted.
func (c *Cluster) removeTopicConfig(t *topic) error {
	return c.storeConfigs(c.config.DeleteTopic(t.name))
}
