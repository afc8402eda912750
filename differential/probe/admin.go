package probe

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (w *world) metadata() request {
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = []kmsg.MetadataRequestTopic{}
	for range few(w.rand) {
		t := kmsg.NewMetadataRequestTopic()
		name := w.topic()
		t.Topic = &name
		q.Topics = append(q.Topics, t)
	}
	q.AllowAutoTopicCreation = w.odds(2)
	q.IncludeTopicAuthorizedOperations = w.odds(3)
	return request{Request: q, least: 1, most: anyVersion}
}

func (w *world) describeTopicPartitions() request {
	q := kmsg.NewPtrDescribeTopicPartitionsRequest()
	q.ResponsePartitionLimit = one[int32](w.rand, 2000, 1, 0)
	for range few(w.rand) {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = w.topic()
		q.Topics = append(q.Topics, t)
	}
	return of(q)
}

func (w *world) createTopics() request {
	q := kmsg.NewPtrCreateTopicsRequest()
	q.TimeoutMillis, q.ValidateOnly = 10000, w.odds(5)
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic = one(w.rand, w.topics[2:]...)
	if w.odds(8) {
		t.Topic = w.topic()
	}
	t.NumPartitions, t.ReplicationFactor = one[int32](w.rand, 1, 2, -1), one[int16](w.rand, 1, 1, -1)
	if w.odds(2) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = w.config(topicConfigs)
		t.Configs = append(t.Configs, c)
	}
	q.Topics = append(q.Topics, t)
	return of(q)
}

func (w *world) deleteTopics() request {
	q := kmsg.NewPtrDeleteTopicsRequest()
	q.TimeoutMillis = 10000
	name := one(w.rand, w.topics[2:]...)
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &name
	q.Topics = append(q.Topics, t)
	q.TopicNames = []string{name}
	return of(q)
}

func (w *world) createPartitions() request {
	q := kmsg.NewPtrCreatePartitionsRequest()
	q.TimeoutMillis, q.ValidateOnly = 10000, w.odds(4)
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = one(w.rand, w.topics[2:]...), one[int32](w.rand, 1, 2, 3)
	q.Topics = append(q.Topics, t)
	return of(q)
}

// topicConfigs and groupConfigs are configurations with values, some of which are wrong.
var (
	topicConfigs = [][2]string{
		{"retention.ms", "-1"}, {"retention.ms", "x"}, {"retention.ms", "-2"}, {"cleanup.policy", "compact"}, {"cleanup.policy", "delete"},
		{"cleanup.policy", "both"}, {"max.message.bytes", "100"}, {"max.message.bytes", "1000000"}, {"compression.type", "gzip"},
		{"compression.type", "producer"}, {"message.timestamp.type", "CreateTime"}, {"min.insync.replicas", "0"}, {"segment.bytes", "1048576"},
		{"segment.bytes", "1"}, {"no.such.key", "1"}, {"delete.retention.ms", ""}, {"unclean.leader.election.enable", "true"},
		{"unclean.leader.election.enable", "yes"}, {"retention.bytes", "9223372036854775808"},
	}
	groupConfigs = [][2]string{
		{"share.auto.offset.reset", "earliest"}, {"share.auto.offset.reset", "latest"}, {"share.auto.offset.reset", "by_duration:P1D"},
		{"share.auto.offset.reset", "none"}, {"share.isolation.level", "read_committed"}, {"share.isolation.level", "read_uncommitted"},
		{"share.record.lock.duration.ms", "30000"}, {"share.record.lock.duration.ms", "500"}, {"share.delivery.count.limit", "3"},
		{"share.delivery.count.limit", "1"}, {"share.partition.max.record.locks", "200"}, {"share.heartbeat.interval.ms", "5000"},
		{"share.renew.acknowledge.enable", "false"}, {"share.renew.acknowledge.enable", "true"}, {"consumer.session.timeout.ms", "45000"},
		{"consumer.session.timeout.ms", "1"}, {"no.such.key", "1"},
	}
)

func (w *world) config(of [][2]string) (string, *string) {
	c := one(w.rand, of...)
	return c[0], &c[1]
}

func (w *world) describeConfigs() request {
	q := kmsg.NewPtrDescribeConfigsRequest()
	q.IncludeSynonyms, q.IncludeDocumentation = w.odds(2), w.odds(4)
	r := kmsg.NewDescribeConfigsRequestResource()
	configs := topicConfigs
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, w.topic()
	if w.odds(2) {
		r.ResourceType, r.ResourceName, configs = kmsg.ConfigResourceTypeGroupConfig, w.group(shareGroup), groupConfigs
	}
	if w.odds(3) {
		name, _ := w.config(configs)
		r.ConfigNames = []string{name}
	}
	q.Resources = append(q.Resources, r)
	return of(q)
}

func (w *world) alterConfigs() request {
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.ValidateOnly = w.odds(6)
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, w.topic()
	configs := topicConfigs
	if w.odds(2) {
		r.ResourceType, r.ResourceName, configs = kmsg.ConfigResourceTypeGroupConfig, w.group(shareGroup), groupConfigs
	}
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = w.config(configs)
	c.Op = one(w.rand, kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete,
		kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract)
	r.Configs = append(r.Configs, c)
	q.Resources = append(q.Resources, r)
	return of(q)
}

func (w *world) findCoordinator() request {
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.CoordinatorType = 0
	q.CoordinatorKey = w.group(simpleGroup)
	q.CoordinatorKeys = slices.Compact([]string{q.CoordinatorKey, w.group(shareGroup)})
	return of(q)
}
