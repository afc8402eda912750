package config

// topicSynonyms are the broker keys that topic keys fall back to.
// Source: server-common ServerTopicConfigSynonyms.java.
var topicSynonyms = map[string]string{
	"cleanup.policy":                  "log.cleanup.policy",
	"compression.gzip.level":          "compression.gzip.level",
	"compression.lz4.level":           "compression.lz4.level",
	"compression.type":                "compression.type",
	"compression.zstd.level":          "compression.zstd.level",
	"delete.retention.ms":             "log.cleaner.delete.retention.ms",
	"file.delete.delay.ms":            "log.segment.delete.delay.ms",
	"flush.messages":                  "log.flush.interval.messages",
	"flush.ms":                        "log.flush.interval.ms",
	"index.interval.bytes":            "log.index.interval.bytes",
	"local.retention.bytes":           "log.local.retention.bytes",
	"local.retention.ms":              "log.local.retention.ms",
	"max.compaction.lag.ms":           "log.cleaner.max.compaction.lag.ms",
	"max.decompressed.message.bytes":  "max.decompressed.message.bytes",
	"max.message.bytes":               "message.max.bytes",
	"message.timestamp.after.max.ms":  "log.message.timestamp.after.max.ms",
	"message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
	"message.timestamp.type":          "log.message.timestamp.type",
	"min.cleanable.dirty.ratio":       "log.cleaner.min.cleanable.ratio",
	"min.compaction.lag.ms":           "log.cleaner.min.compaction.lag.ms",
	"min.insync.replicas":             "min.insync.replicas",
	"preallocate":                     "log.preallocate",
	"remote.copy.lag.bytes":           "log.remote.copy.lag.bytes",
	"remote.copy.lag.ms":              "log.remote.copy.lag.ms",
	"retention.bytes":                 "log.retention.bytes",
	"retention.ms":                    "log.retention.ms",
	"segment.bytes":                   "log.segment.bytes",
	"segment.index.bytes":             "log.index.size.max.bytes",
	"segment.jitter.ms":               "log.roll.jitter.ms",
	"segment.ms":                      "log.roll.ms",
	"unclean.leader.election.enable":  "unclean.leader.election.enable",
}

// groupSynonyms are the broker keys that group keys fall back to.
// Source: group-coordinator GroupConfig.java.
var groupSynonyms = map[string]string{
	"consumer.assignment.interval.ms":    "group.consumer.assignment.interval.ms",
	"consumer.assignor.offload.enable":   "group.consumer.assignor.offload.enable",
	"consumer.heartbeat.interval.ms":     "group.consumer.heartbeat.interval.ms",
	"consumer.session.timeout.ms":        "group.consumer.session.timeout.ms",
	"share.assignment.interval.ms":       "group.share.assignment.interval.ms",
	"share.assignor.offload.enable":      "group.share.assignor.offload.enable",
	"share.delivery.count.limit":         "group.share.delivery.count.limit",
	"share.heartbeat.interval.ms":        "group.share.heartbeat.interval.ms",
	"share.partition.max.record.locks":   "group.share.partition.max.record.locks",
	"share.record.lock.duration.ms":      "group.share.record.lock.duration.ms",
	"share.session.timeout.ms":           "group.share.session.timeout.ms",
	"streams.acceptable.recovery.lag":    "group.streams.acceptable.recovery.lag",
	"streams.assignment.interval.ms":     "group.streams.assignment.interval.ms",
	"streams.assignor.name":              "group.streams.assignors",
	"streams.assignor.offload.enable":    "group.streams.assignor.offload.enable",
	"streams.heartbeat.interval.ms":      "group.streams.heartbeat.interval.ms",
	"streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
	"streams.num.standby.replicas":       "group.streams.num.standby.replicas",
	"streams.num.warmup.replicas":        "group.streams.num.warmup.replicas",
	"streams.rack.aware.assignment.tags": "group.streams.rack.aware.assignment.tags",
	"streams.session.timeout.ms":         "group.streams.session.timeout.ms",
	"streams.task.offset.interval.ms":    "group.streams.task.offset.interval.ms",
}

// unitFamilies are broker keys that say the same in different units, the finest first: the first that is set counts.
// Source: server DynamicBrokerConfig.brokerConfigSynonyms.
var unitFamilies = map[string][]unitKey{
	"log.retention.ms":      retentionFamily,
	"log.retention.minutes": retentionFamily,
	"log.retention.hours":   retentionFamily,
	"log.roll.ms":           rollFamily,
	"log.roll.hours":        rollFamily,
	"log.roll.jitter.ms":    jitterFamily,
	"log.roll.jitter.hours": jitterFamily,
	"log.flush.interval.ms": {{"log.flush.interval.ms", 1}, {"log.flush.scheduler.interval.ms", 1}},
}

// unitKey is a member of a family: its value times ms is in milliseconds.
type unitKey struct {
	name string
	ms   int64
}

var (
	retentionFamily = []unitKey{{"log.retention.ms", 1}, {"log.retention.minutes", 60_000}, {"log.retention.hours", 3_600_000}}
	rollFamily      = []unitKey{{"log.roll.ms", 1}, {"log.roll.hours", 3_600_000}}
	jitterFamily    = []unitKey{{"log.roll.jitter.ms", 1}, {"log.roll.jitter.hours", 3_600_000}}
)

// brokerSynonyms gives the names under which a broker key's value may stand, in the order of precedence.
func brokerSynonyms(name string) []string {
	if family, ok := unitFamilies[name]; ok {
		names := make([]string, len(family))
		for i, u := range family {
			names[i] = u.name
		}
		return names
	}
	if base, ok := listenerBase(name); ok {
		return []string{name, base}
	}
	return []string{name}
}
