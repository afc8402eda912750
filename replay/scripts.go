package replay

import (
	"maps"
	"slices"
	"time"
)

// Script is what a session's recorder did beside the recorded lines.
type Script struct {
	// Config and Features are broker settings beyond the common ones.
	Config   map[string]string
	Features map[string]int16
	// Began is when the recorder started: the times in a recording count from it. Where no answer shows it,
	// it is noon of the recording's day.
	Began  time.Time
	events []event
	// Patience, if it is not 0, says that the broker runs in real time, on a machine that is busy with other things:
	// waits are not compared, and polling may take so much longer than the recorder's.
	Patience time.Duration
	// Secured says that the broker has two listeners, Plain, whose clients are ANONYMOUS and may do everything, and SASL, and an authorizer. The recorder was on
	// Plain with the connection root alone.
	Secured bool
	// users are whom the recorder logged in by PLAIN when it dialled a connection anew, by connection: user NUL password.
	users map[string]string
	// passwords are what the recorder proved to know with the last message of SCRAM, by step.
	passwords map[string]string
	// Gate says that every step must agree or have its reason.
	Gate bool
}

// The listeners of a broker.
const (
	Plain = "PLAINTEXT"
	SASL  = "SASL_PLAINTEXT"
)

// listener is the listener that a connection of the recorder's came in on.
func (s *Script) listener(conn string) string {
	if s.Secured && conn != "root" {
		return SASL
	}
	return Plain
}

// event is something that the recorder did and did not write down.
type event struct {
	before int           // the step that it came before; 0: during tells
	during int           // the step whose answer was waited for meanwhile
	after  time.Duration // with during: since that step's start
	do     action
}

type action interface{ isAction() }

type (
	// awaitCoordinator asks for a group's coordinator until there is one, which makes __consumer_offsets, and
	// sends heartbeats of a member that is none until the coordinator has loaded.
	awaitCoordinator struct{ conn, group string }
	// joinShareGroup is awaitCoordinator, a first heartbeat and further ones until partitions are assigned. It
	// precedes each step called acquire-NAME, for the member m1 of the group g-NAME and the topic NAME.
	joinShareGroup struct{ conn, group, member, topic string }
	// awaitPartitions sends heartbeats of a member, the first with epoch 0, until it has so many partitions of its topic.
	awaitPartitions struct {
		joinShareGroup
		partitions int
	}
	// produceSingly writes records of the value "v" to partition 0 of a topic, each in a request of its own.
	produceSingly struct {
		conn, topic string
		records     int
	}
	// initProducer asks for a transactional id's coordinator and initialises it, until both succeed.
	initProducer struct{ conn, transactionalID string }
	// raiseEpoch initialises a transactional id until its producer has an epoch.
	raiseEpoch struct {
		conn, transactionalID string
		epoch                 int16
	}
	// learnTopicID asks Metadata for a topic whose id the step that follows is the first to name.
	learnTopicID struct{ conn, topic string }
	// awaitLeaders polls Metadata and ListOffsets until every partition of a topic has a leader that answers.
	// It follows each step called create-topic-NAME.
	awaitLeaders struct{ conn, topic string }
	// closeConn closes a connection.
	closeConn struct{ conn string }
	// killBroker kills the broker and starts it again on what it had stored. Every connection ends.
	killBroker struct{}
)

func (awaitCoordinator) isAction() {}
func (joinShareGroup) isAction()   {}
func (produceSingly) isAction()    {}
func (initProducer) isAction()     {}
func (raiseEpoch) isAction()       {}
func (learnTopicID) isAction()     {}
func (awaitLeaders) isAction()     {}
func (closeConn) isAction()        {}
func (killBroker) isAction()       {}

// commonConfig is set in every session.
var commonConfig = map[string]string{
	"num.partitions":                                   "1",
	"default.replication.factor":                       "1",
	"offsets.topic.replication.factor":                 "1",
	"offsets.topic.num.partitions":                     "5",
	"transaction.state.log.replication.factor":         "1",
	"transaction.state.log.min.isr":                    "1",
	"transaction.state.log.num.partitions":             "5",
	"share.coordinator.state.topic.replication.factor": "1",
	"share.coordinator.state.topic.min.isr":            "1",
	"share.coordinator.state.topic.num.partitions":     "5",
	"group.initial.rebalance.delay.ms":                 "0",
	"group.share.min.record.lock.duration.ms":          "1000",
	"auto.create.topics.enable":                        "false",
	"log.retention.check.interval.ms":                  "300000",
	"initial.broker.registration.timeout.ms":           "60000",
}

// AllConfig is the broker's whole configuration.
func (s *Script) AllConfig() map[string]string {
	all := maps.Clone(commonConfig)
	if s.Secured {
		maps.Copy(all, securedConfig)
	}
	maps.Copy(all, s.Config)
	return all
}

// securedConfig is set beside commonConfig where a broker is secured.
var securedConfig = map[string]string{
	"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
	"super.users":           "User:ANONYMOUS",
	"listener.name.sasl_plaintext.plain.sasl.jaas.config": `org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-pw" user_bob="bob-pw";`,
}

func before(n int, do action) event { return event{before: n, do: do} }

func during(n int, after time.Duration, do action) event {
	return event{during: n, after: after, do: do}
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// Scripts are the sessions that can be replayed, by name. The one that stops the broker in an orderly way is not among them.
var Scripts = map[string]*Script{
	"versions":   {Gate: true},
	"connection": {Gate: true},
	"topics": {Gate: true, events: []event{
		before(170, awaitLeaders{"c1", "tq"}),
		before(189, awaitCoordinator{"c1", "any"}),
		before(200, learnTopicID{"c1", "cv5"}),
		before(203, learnTopicID{"c1", "cv6"}),
	}},
	"topics-auto": {Gate: true, Config: map[string]string{"auto.create.topics.enable": "true"}},
	"produce": {Gate: true, Began: time.UnixMilli(1796041793286), events: []event{
		before(47, awaitCoordinator{"c1", "any"}),
	}},
	"order": {Gate: true, Began: time.UnixMilli(1796041971324), events: []event{
		before(2, initProducer{"c1", "warm"}),
		before(2, awaitCoordinator{"c1", "g"}),
	}},
	"codecs": {Gate: true, events: []event{before(2, awaitCoordinator{"c1", "g"})}},
	"fetch":  {Gate: true},
	"groups": {Gate: true, events: []event{before(3, awaitCoordinator{"c1", "cg"})}},
	"membership": {Gate: true, events: []event{
		before(4, awaitCoordinator{"c1", "g1"}),
	}},
	"share": {Gate: true, events: []event{
		before(15, joinShareGroup{"c1", "gs", "m1", "s1"}),
		before(48, joinShareGroup{"c1", "go", "m1", "odd"}),
		before(63, joinShareGroup{"c1", "gm0", "m1", "modes"}),
		before(63, joinShareGroup{"c1", "gm1", "m1", "modes"}),
		before(75, joinShareGroup{"c1", "gb", "m1", "bytes"}),
		before(86, joinShareGroup{"c1", "gt", "m1", "two"}),
		during(96, 300*time.Millisecond, closeConn{"a1"}),
		before(103, closeConn{"a1b"}),
		before(103, closeConn{"a2"}),
		before(107, joinShareGroup{"c1", "gw", "m1", "wake"}),
	}},
	"dlq": {Gate: true, Features: map[string]int16{"share.version": 2}},
	"off": {Gate: true, Features: map[string]int16{"share.version": 0}, events: []event{before(3, awaitCoordinator{"c1", "g"})}},

	"acks":           {Gate: true},
	"admin":          {Gate: true},
	"admin-more":     {},
	"classic":        {Gate: true, events: []event{before(3, awaitCoordinator{"c1", "g"})}},
	"classic-limits": {Gate: true, Config: map[string]string{"group.max.size": "2", "group.consumer.max.size": "2", "group.initial.rebalance.delay.ms": "1000"}, events: []event{before(2, awaitCoordinator{"c1", "g"})}},
	"compaction": {Gate: true, Began: time.UnixMilli(1796042498925), Config: map[string]string{
		"log.cleaner.backoff.ms": "500", "log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500", "log.segment.delete.delay.ms": "100",
	}, events: []event{before(4, initProducer{"c1", "warm"})}},
	"configs": {},
	"crash": {Gate: true, Began: time.UnixMilli(1796042681150), events: []event{
		before(2, initProducer{"c1", "warm"}), before(2, awaitCoordinator{"c1", "g"}),
		before(11, killBroker{}),
	}},
	"security": {
		Gate: true, Secured: true, Config: map[string]string{"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"},
		users:     map[string]string{"alice": "alice\x00alice-pw"},
		passwords: map[string]string{"scram256-good-final": "sam-pw", "scram512-good-final": "sam-pw", "scram256-bad-password-final": "wrong"},
		events:    []event{before(3, awaitCoordinator{"root", "g"}), before(3, initProducer{"root", "warm"})},
	},
	"reauth": {Gate: true, Secured: true, Config: map[string]string{"sasl.enabled.mechanisms": "PLAIN", "connections.max.reauth.ms": "3000"}},
	"oauth": {
		Gate: true, Secured: true, Began: time.UnixMilli(1796041885926), Config: map[string]string{"sasl.enabled.mechanisms": "OAUTHBEARER"},
	},
	"delivery":        {Gate: true},
	"fetch-slots":     {Config: map[string]string{"max.incremental.fetch.session.cache.slots": "8"}},
	"group-version-0": {Features: map[string]int16{"group.version": 0, "streams.version": 0}, events: []event{before(2, awaitCoordinator{"c1", "g"})}},
	"kip848":          {events: []event{before(3, awaitCoordinator{"c1", "k"})}},
	"offsets": {Gate: true, Began: time.UnixMilli(1796038965860), events: []event{
		before(2, awaitCoordinator{"c1", "g-o1"}),
		before(61, joinShareGroup{"c1", "g-st-latest", "m1", "st"}),
		before(68, joinShareGroup{"c1", "g-st-earliest", "m1", "st"}),
		before(72, joinShareGroup{"c1", "g-st-dur150m", "m1", "st"}),
		before(76, joinShareGroup{"c1", "g-st-dur1m", "m1", "st"}),
		before(82, joinShareGroup{"c1", "g-default", "m1", "st"}),
		before(102, joinShareGroup{"c1", "g-grow", "m1", "grow"}),
		before(103, awaitPartitions{joinShareGroup{"c1", "g-grow", "m1", "grow"}, 2}),
	}},
	"limits": {Gate: true, Config: map[string]string{
		"group.share.max.size": "2", "group.share.max.share.sessions": "2", "group.share.partition.max.record.locks": "100",
		"group.share.min.session.timeout.ms": "1000", "group.share.session.timeout.ms": "2000",
		"group.share.min.heartbeat.interval.ms": "100", "group.share.heartbeat.interval.ms": "500",
	}, events: []event{
		before(2, produceSingly{"c1", "one", 150}),
		before(3, joinShareGroup{"c1", "g-one", "m1", "one"}),
		before(16, joinShareGroup{"c1", "g-big0", "m1", "big0"}),
		before(23, joinShareGroup{"c1", "g-big1", "m1", "big1"}),
		before(28, awaitCoordinator{"c1", "g-sz"}),
		before(35, joinShareGroup{"c1", "g-se", "m1", "se"}),
		before(38, closeConn{"s2"}),
	}},
	"quotas": {},
	"state":  {Gate: true},
	"switches": {Gate: true, Config: map[string]string{
		"group.consumer.migration.policy": "disabled", "delete.topic.enable": "false",
		"transaction.partition.verification.enable": "false", "unstable.api.versions.enable": "true",
	}, events: []event{before(3, initProducer{"c1", "warm"}), before(3, awaitCoordinator{"c1", "g"})}},
	"txn": {Gate: true, Began: time.UnixMilli(1796038633500), Config: map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}, events: []event{
		before(4, initProducer{"c1", "warm"}),
		before(58, awaitCoordinator{"c1", "gtx"}),
		before(112, joinShareGroup{"c1", "g-read_uncommitted", "m1", "x5"}),
		before(120, joinShareGroup{"c1", "g-read_committed", "m1", "x5"}),
	}},
	"txn-matrix": {Gate: true, Began: time.UnixMilli(1796040864125), events: []event{before(2, initProducer{"c1", "warm"}), before(2, awaitCoordinator{"c1", "g"})}},
	"txn-more": {Gate: true, Began: time.UnixMilli(1796040865000), Config: map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "300"}, events: []event{
		before(4, initProducer{"c1", "warm"}),
		before(4, awaitCoordinator{"c1", "g"}),
	}},
	"txn-epochs": {Gate: true, Began: time.UnixMilli(1796040801000), events: []event{
		before(2, initProducer{"c1", "warm"}), before(2, awaitCoordinator{"c1", "gm"}),
		before(3, raiseEpoch{"c1", "e1", 32763}), before(10, raiseEpoch{"c1", "e2", 32763}),
	}},
	"txn-version-0": {Gate: true, Began: time.UnixMilli(1796040801000), Features: map[string]int16{"transaction.version": 0}, Config: map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "300"}, events: []event{
		before(3, initProducer{"c1", "warm"}), before(3, awaitCoordinator{"c1", "g"}),
	}},
	"txn-version-1": {Gate: true, Began: time.UnixMilli(1796040801000), Features: map[string]int16{"transaction.version": 1}, Config: map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "300"}, events: []event{
		before(3, initProducer{"c1", "warm"}), before(3, awaitCoordinator{"c1", "g"}),
	}},
	"short-times": {Gate: true, Began: time.UnixMilli(1796041793430), Config: map[string]string{
		"transactional.id.expiration.ms": "1500", "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
		"producer.id.expiration.ms": "1500", "producer.id.expiration.check.interval.ms": "500", "offsets.retention.check.interval.ms": "500",
		"connections.max.idle.ms": "7000", "group.consumer.min.session.timeout.ms": "1000", "group.consumer.session.timeout.ms": "2000",
		"group.consumer.min.heartbeat.interval.ms": "100", "group.consumer.heartbeat.interval.ms": "500",
	}, events: []event{before(3, initProducer{"c1", "warm"}), before(3, awaitCoordinator{"c1", "g"})}},
}

// Names are the names of Scripts in order.
func Names() []string { return slices.Sorted(maps.Keys(Scripts)) }
