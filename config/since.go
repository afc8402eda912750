package config

import (
	"strings"

	"kshare/release"
)

// brought are the keys that a line of Apache Kafka has and the one before it has not, as brokers of 4.2.0, 4.3.0 and 4.4.0 describe them.
var brought = map[release.Line][scopes]string{
	release.Kafka43: {
		ScopeBroker: `controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes cordoned.log.dirs follower.fetch.last.tiered.offset.enable
			group.consumer.assignment.interval.ms group.consumer.min.assignment.interval.ms group.consumer.max.assignment.interval.ms
			group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes
			group.share.assignment.interval.ms group.share.min.assignment.interval.ms group.share.max.assignment.interval.ms
			group.share.min.delivery.count.limit group.share.max.delivery.count.limit group.share.min.partition.max.record.locks group.share.max.partition.max.record.locks
			group.streams.assignment.interval.ms group.streams.min.assignment.interval.ms group.streams.max.assignment.interval.ms
			share.coordinator.cached.buffer.max.bytes`,
		ScopeGroup: `consumer.assignment.interval.ms share.assignment.interval.ms share.delivery.count.limit share.partition.max.record.locks
			share.renew.acknowledge.enable streams.assignment.interval.ms`,
	},
	release.Kafka44: {
		ScopeBroker: `errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix
			group.streams.assignors group.streams.rack.aware.assignment.tags group.streams.topology.description.plugin.class
			log.remote.copy.lag.bytes log.remote.copy.lag.ms max.decompressed.message.bytes
			sasl.oauthbearer.allow.unverified.audience sasl.oauthbearer.allow.unverified.issuer`,
		ScopeTopic: `errors.deadletterqueue.group.enable max.decompressed.message.bytes remote.copy.lag.bytes remote.copy.lag.ms`,
		ScopeGroup: `errors.deadletterqueue.copy.record.enable errors.deadletterqueue.topic.name streams.assignor.name streams.rack.aware.assignment.tags`,
	},
}

// noteBrought notes in the keys which line has brought them. The others are as old as the first line.
func noteBrought(ts *[scopes]table) {
	for line, keys := range brought {
		for scope := range keys {
			for name := range strings.FieldsSeq(keys[scope]) {
				ts[scope].byName[name].Since = line
			}
		}
	}
}

// has tells whether a line has a key, which is nil where none has it.
func has(line release.Line, k *Key) bool {
	return k != nil && k.Since <= line && (k.Until == 0 || line <= k.Until)
}

// removed are the keys that an earlier line has and the definitions, which are the latest line's, have not.
var removed = []*Key{
	{ // Source: 4.2 group-coordinator ShareGroupConfig.
		Name: "group.share.enable", Scope: ScopeBroker, Type: Boolean, Default: &off, Internal: true, Until: release.Kafka42,
		doc: "Enable share groups on the broker.",
	},
}

var off = "false"
