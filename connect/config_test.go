package connect

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Defaults of the properties that KIP-1302 adds, and of those beside them.
func TestDefaults(t *testing.T) {
	s, err := resolve(workerProperties(), config())
	require.NoError(t, err)
	assert.Equal(t, shareProtocol, s.protocol)
	assert.Equal(t, "connect-copy", s.group)
	assert.False(t, s.implicit, "share.acknowledgement.mode is explicit")
	assert.Zero(t, s.lock, "the group's lock stays as it is")
	assert.Zero(t, s.commitInterval, "after each put")
	assert.False(t, s.rejectBatch)
	assert.False(t, s.exactlyOnce)
	assert.False(t, s.tolerateAll)
	assert.Zero(t, s.retryTimeout)
	assert.Equal(t, time.Minute, s.retryDelayMax)
	assert.EqualValues(t, 500, s.maxPollRecords)
	assert.Equal(t, 5*time.Minute, s.maxPollInterval)
	assert.Equal(t, "earliest", s.offsetReset)
	assert.Equal(t, 5*time.Second, s.shutdown)
	assert.Equal(t, 1, s.tasksMax)
}

// The protocol and the group are resolved in the KIP's order: the worker's word, the connector's over it.
func TestResolutionOrder(t *testing.T) {
	for _, c := range []struct {
		worker, connector string // consumer.group.protocol and consumer.override.group.protocol
		more              []string
		protocol, group   string
	}{
		{"", "", nil, "classic", "connect-copy"},
		{"share", "", nil, "share", "connect-copy"},
		{"", "share", nil, "share", "connect-copy"},
		{"share", "consumer", nil, "consumer", "connect-copy"},
		{"consumer", "share", nil, "share", "connect-copy"},
		{"SHARE", "", nil, "share", "connect-copy"},
		{"share", "", []string{"share.group.id=mine"}, "share", "mine"},
		{"share", "", []string{"share.group.id=mine", "consumer.override.group.id=theirs"}, "share", "mine"},
		{"share", "", []string{"consumer.override.group.id=theirs"}, "share", "theirs"},
		{"classic", "", []string{"share.group.id=mine"}, "classic", "connect-copy"},
		{"classic", "", []string{"share.group.id=mine", "consumer.override.group.id=theirs"}, "classic", "theirs"},
	} {
		worker, connector := workerProperties(), config(c.more...)
		delete(worker, workerKey)
		if c.worker != "" {
			worker[workerKey] = c.worker
		}
		if c.connector != "" {
			connector[overrideKey] = c.connector
		}
		s, err := resolve(worker, connector)
		require.NoError(t, err, "%+v", c)
		assert.Equal(t, c.protocol, s.protocol, "%+v", c)
		assert.Equal(t, c.group, s.group, "%+v", c)
	}
}

// What the consumers of a connector are told is the worker's word, and the connector's over it.
func TestConsumerOverrides(t *testing.T) {
	worker := workerProperties("consumer.max.poll.records=7", "consumer.share.acquire.mode=record_limit", "consumer.isolation.level=read_committed")
	s, err := resolve(worker, config("consumer.override.isolation.level=read_uncommitted"))
	require.NoError(t, err)
	assert.EqualValues(t, 7, s.maxPollRecords)
	assert.True(t, s.recordLimit)
	assert.Equal(t, "read_uncommitted", s.isolation)
	worker[policyKey] = "Principal"
	_, err = resolve(worker, config("consumer.override.sasl.jaas.config=x"))
	require.NoError(t, err)
	s, err = resolve(workerProperties(), config("value.converter=JsonConverter", "value.converter.schemas.enable=false"))
	require.NoError(t, err)
	assert.Equal(t, jsonOf{false}, s.value)
	assert.Equal(t, stringOf{}, s.key, "the worker's")
}

// Every error names its property first.
func TestWhatIsWrongIsNamed(t *testing.T) {
	worker := map[string]*Worker{}
	for _, c := range []struct{ more, want string }{
		{"name=", "name is missing"},
		{"connector.class=", "connector.class is missing"},
		{"connector.class=FileSnk", `connector.class "FileSnk" is no sink connector here: did you mean FileSink?`},
		{"connector.class=io.confluent.connect.s3.S3SinkConnector", `connector.class "io.confluent.connect.s3.S3SinkConnector" is no sink connector here: [FileSink`},
		{"tasks.max=0", `tasks.max "0" is below 1`},
		{"tasks.max=many", `tasks.max "many" is not a whole number`},
		{"topics=", "topics is missing, and topics.regex too"},
		{"topics.regex=o.*", "topics and topics.regex exclude each other"},
		{"topics=;topics.regex=o(", `topics.regex "o(" is no expression`},
		{"consumer.override.group.protocol=shared", `consumer.override.group.protocol "shared" is none of classic, consumer, share`},
		{"share.group.id=", `share.group.id "" is empty`},
		{"share.gruop.id=x", "share.gruop.id is unknown: did you mean share.group.id?"},
		{"share.acknowledgement.mode=manual", `share.acknowledgement.mode "manual" is none of explicit, implicit`},
		{"share.acquisition.lock.timeout.ms=0", `share.acquisition.lock.timeout.ms "0" is below 1`},
		{"share.commit.interval.ms=-1", `share.commit.interval.ms "-1" is below 0`},
		{"share.reject.scope=all", `share.reject.scope "all" is none of record, batch`},
		{"exactly.once.support=yes", `exactly.once.support "yes" is none of disabled, required`},
		{"exactly.once.support=required;connector.class=FileSink", `exactly.once.support "required" is for sinks that write to the Kafka they read from: FileSink does not`},
		{"exactly.once.support=required;consumer.override.group.protocol=classic", `exactly.once.support "required" needs consumer.override.group.protocol=share`},
		{"exactly.once.support=required;share.acknowledgement.mode=implicit", `share.acknowledgement.mode "implicit" acknowledges outside of transactions`},
		{"exactly.once.support=required;share.commit.interval.ms=5", `share.commit.interval.ms "5" puts off what`},
		{"errors.tolerance=some", `errors.tolerance "some" is none of none, all`},
		{"errors.retry.timeout=-2", `errors.retry.timeout "-2" is below -1`},
		{"errors.retry.delay.max.ms=0", `errors.retry.delay.max.ms "0" is below 1`},
		{"errors.log.enable=perhaps", `errors.log.enable "perhaps" is not true or false`},
		{"errors.deadletterqueue.topic.name=orders", `errors.deadletterqueue.topic.name "orders" is one of the topics that are read`},
		{"topics=;topics.regex=o.*;errors.deadletterqueue.topic.name=old", `errors.deadletterqueue.topic.name "old" is one of the topics that are read`},
		{"consumer.override.max.poll.records=0", `consumer.override.max.poll.records "0" is below 1`},
		{"consumer.override.isolation.level=none", `consumer.override.isolation.level "none" is none of`},
		{"key.converter=AvroConverter", `key.converter "AvroConverter" is no converter here`},
		{"value.converter=JsonConverter;value.converter.schemas.enable=maybe", `value.converter.schemas.enable "maybe" is not true or false`},
		{"transforms=a", "transforms.a.type is missing: transforms names a"},
		{"transforms=a;transforms.a.type=Nothing$Value", `transforms.a.type "Nothing$Value" is no transformation here`},
		{"transforms=a;transforms.a.type=HoistField", `transforms.a.type "HoistField" has to end in $Key or $Value`},
		{"transforms=a;transforms.a.type=HoistField$Value", "transforms.a.field is missing"},
		{"transforms=a;transforms.a.type=RegexRouter;transforms.a.regex=(;transforms.a.replacement=b", `transforms.a.regex "("`},
		{"transforms=a;transforms.a.type=RegexRouter;transforms.a.predicate=p", `transforms.a.predicate "p" predicates are not supported`},
		{"connector.class=HTTPSink", "http.url is missing"},
		{"connector.class=HTTPSink;http.url=here", `http.url "here" is no http or https URL`},
		{"connector.class=HTTPSink;http.url=http://a;http.timeout.ms=0", `http.timeout.ms "0" is below 1`},
		{"connector.class=FileSink;file=", `file "" is empty`},
		{"connector.class=KafkaSink", "kafka.topic is missing"},
		{"connector.class=KafkaSink;kafka.topic=orders", `kafka.topic "orders" is one of the topics that are read`},
		{"worker:connector.client.config.override.policy=None;consumer.override.max.poll.records=1", "consumer.override.max.poll.records is not allowed by the worker's connector.client.config.override.policy=None"},
	} {
		properties, connector := workerProperties(), config()
		for _, one := range strings.Split(c.more, ";") {
			of := connector
			if rest, ok := strings.CutPrefix(one, "worker:"); ok {
				of, one = properties, rest
			}
			key, value, _ := strings.Cut(one, "=")
			of[key] = value
		}
		w, err := NewWorker(WorkerConfig{Properties: properties, Plugins: pluginsOf(&testSink{})})
		require.NoError(t, err)
		worker[c.more] = w
		err = w.Put(connector)
		require.Error(t, err, c.more)
		assert.True(t, strings.HasPrefix(err.Error(), c.want), "%s: %s", c.more, err)
		assert.Empty(t, w.Connectors(), "it runs nothing")
	}
	for _, c := range []struct{ more, want string }{
		{"bootstrap.servers=", "bootstrap.servers is missing"},
		{"consumer.group.protocol=shared", `consumer.group.protocol "shared" is none of classic, consumer, share`},
		{"connector.client.config.override.policy=Some", `connector.client.config.override.policy "Some" is none of`},
		{"task.shutdown.graceful.timeout.ms=x", `task.shutdown.graceful.timeout.ms "x" is not a whole number`},
		{"key.converter=x", `key.converter "x" is no converter here`},
	} {
		_, err := NewWorker(WorkerConfig{Properties: workerProperties(c.more)})
		require.Error(t, err, c.more)
		assert.True(t, strings.HasPrefix(err.Error(), c.want), "%s: %s", c.more, err)
	}
}

func pluginsOf(sink *testSink) map[string]func() SinkConnector {
	plugins := Plugins()
	plugins["TestSink"] = func() SinkConnector { return sink }
	return plugins
}

// What is left of a share group after share was taken out again is no error (KIP-1302, rollback).
func TestRollbackLeavesProperties(t *testing.T) {
	s, err := resolve(workerProperties("consumer.group.protocol=classic"), config("share.group.id=mine", "share.acknowledgement.mode=explicit"))
	require.NoError(t, err)
	assert.Equal(t, []string{groupIDKey, modeKey}, s.unused())
}
