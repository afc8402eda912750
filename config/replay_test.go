package config

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// step is a request and what a real Apache Kafka 4.4.0 answered: bodies without headers, in hex. A session is one run
// of a broker.
type step struct {
	Session  string `json:"session"`
	Step     string `json:"step"`
	Key      int16  `json:"key"`
	Version  int16  `json:"version"`
	Request  string `json:"request"`
	Response string `json:"response"`
}

func steps(t *testing.T) []step {
	t.Helper()
	f, err := os.Open("testdata/steps.jsonl.gz")
	require.NoError(t, err)
	defer f.Close()
	zr, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines := bufio.NewScanner(zr)
	lines.Buffer(nil, 8<<20)
	var all []step
	for lines.Scan() {
		var s step
		require.NoError(t, json.Unmarshal(lines.Bytes(), &s))
		all = append(all, s)
	}
	require.NoError(t, lines.Err())
	return all
}

func (s *step) decode(t *testing.T) (kmsg.Request, kmsg.Response) {
	t.Helper()
	req, resp := protocol.RequestForKey(s.Key), protocol.ResponseForKey(s.Key)
	req.SetVersion(s.Version)
	resp.SetVersion(s.Version)
	for _, m := range []struct {
		hex  string
		read func([]byte) error
	}{{s.Request, req.ReadFrom}, {s.Response, resp.ReadFrom}} {
		raw, err := hex.DecodeString(m.hex)
		require.NoError(t, err)
		require.NoError(t, m.read(raw), "%s %s", s.Session, s.Step)
	}
	return req, resp
}

// commonSettings are those of every recorded broker; settings are the further ones of a session.
const commonSettings = `process.roles=broker,controller
controller.quorum.voters=1@127.0.0.1:24318
listeners=PLAINTEXT://127.0.0.1:21761,CONTROLLER://127.0.0.1:24318
advertised.listeners=PLAINTEXT://127.0.0.1:21761
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=/var/lib/kafka/logs/data-1
num.partitions=1
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=5
group.initial.rebalance.delay.ms=0
group.share.min.record.lock.duration.ms=1000
auto.create.topics.enable=false
log.retention.check.interval.ms=300000
initial.broker.registration.timeout.ms=60000
`

var settings = map[string]string{
	"topics-auto": "auto.create.topics.enable=true",
	"limits":      "group.share.max.size=2\ngroup.share.max.share.sessions=2\ngroup.share.partition.max.record.locks=100\ngroup.share.session.timeout.ms=2000\ngroup.share.min.session.timeout.ms=1000\ngroup.share.heartbeat.interval.ms=1000\ngroup.share.min.heartbeat.interval.ms=500",
	"compaction":  "log.cleaner.backoff.ms=500\nlog.retention.check.interval.ms=500\nlog.segment.delete.delay.ms=100",
	"asked":       "log.retention.hours=24\nmessage.max.bytes=2000000\nmin.insync.replicas=2\nunstable.api.versions.enable=true\nlog.flush.scheduler.interval.ms=86400000",
}

type topicSet map[string]bool

func (t topicSet) TopicExists(name string) bool { return t[name] }

func (t topicSet) TopicNames() []string {
	var names []string
	for name := range t {
		names = append(names, name)
	}
	return names
}

// madeElsewhere are topics that other requests than those of the recording created.
var madeElsewhere = map[string][]string{
	"topics-auto": {"auto12"},
	"security":    {"__consumer_offsets", "__transaction_state", "__share_group_state", "t1", "made", "made2", "newtopic"},
}

func session(t *testing.T, name string) (*State, topicSet) {
	t.Helper()
	props, err := ReadProperties(strings.NewReader(commonSettings+settings[name]), name)
	require.NoError(t, err)
	static, err := Parse(props)
	require.NoError(t, err)
	topics := topicSet{}
	for _, made := range madeElsewhere[name] {
		topics[made] = true
	}
	s := NewState(topics, true, static.Values().Int("min.insync.replicas"))
	s.AddNode(1, static)
	s.nodes[1].loggers[rootLogger] = "WARN"
	return s, topics
}

// differs are the steps that do not agree, with the reason.
var differs = map[string]string{
	"asked describe-loggers": "a node of kshare has one logger, root",
}

func TestReplay(t *testing.T) {
	state, topics, now := (*State)(nil), topicSet(nil), ""
	agree, all := 0, 0
	for _, s := range steps(t) {
		if s.Session != now {
			state, topics = session(t, s.Session)
			now = s.Session
		}
		name := s.Session + " " + s.Step
		req, want := s.decode(t)
		var got kmsg.Response
		switch req := req.(type) {
		case *kmsg.CreateTopicsRequest:
			got = replayCreate(state, topics, req, want.(*kmsg.CreateTopicsResponse))
			want = onlyConfigs(want.(*kmsg.CreateTopicsResponse))
		case *kmsg.DeleteTopicsRequest:
			for _, d := range want.(*kmsg.DeleteTopicsResponse).Topics {
				if d.ErrorCode == 0 && d.Topic != nil {
					delete(topics, *d.Topic)
					state.DeleteTopic(*d.Topic)
				}
			}
			continue
		case *kmsg.DescribeConfigsRequest:
			got = state.DescribeConfigs(1, req)
		case *kmsg.IncrementalAlterConfigsRequest:
			got, _ = state.IncrementalAlterConfigs(1, req)
		case *kmsg.AlterConfigsRequest:
			got, _ = state.AlterConfigs(1, req)
		case *kmsg.ListConfigResourcesRequest:
			got = state.ListConfigResources(req)
		}
		all++
		reason, known := differs[name]
		if known {
			assert.NotEqual(t, toJSON(want), toJSON(got), "%s agrees, though it shall not: %s", name, reason)
			continue
		}
		if assert.Equal(t, toJSON(want), wire(t, got), name) {
			agree++
		}
	}
	t.Logf("steps that agree / all: %d / %d", agree, all)
}

func toJSON(m any) string {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// wire gives an answer as a client reads it.
func wire(t *testing.T, resp kmsg.Response) string {
	t.Helper()
	read := protocol.ResponseForKey(resp.Key())
	read.SetVersion(resp.GetVersion())
	require.NoError(t, read.ReadFrom(resp.AppendTo(nil)))
	return toJSON(read)
}

// replayCreate answers the configuration part of CreateTopics; whether a topic is created is taken from the recording.
func replayCreate(s *State, topics topicSet, req *kmsg.CreateTopicsRequest, want *kmsg.CreateTopicsResponse) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	for _, w := range want.Topics {
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic = w.Topic
		for _, r := range req.Topics {
			if r.Topic != w.Topic || w.ErrorCode != 0 && w.ErrorCode != errorcode.InvalidConfig {
				continue
			}
			overrides, err := s.NewTopic(1, r.Configs)
			if err != nil {
				out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
				out.ErrorCode, out.ErrorMessage = errorcode.InvalidConfig, kmsg.StringPtr(err.Error())
				continue
			}
			out.Configs = s.CreatedConfigs(1, overrides)
			if w.ErrorCode == 0 && !req.ValidateOnly {
				topics[r.Topic] = true
				s.SetTopic(r.Topic, overrides)
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// onlyConfigs cuts what other packages answer.
func onlyConfigs(resp *kmsg.CreateTopicsResponse) kmsg.Response {
	resp.ThrottleMillis = 0
	for i := range resp.Topics {
		w := &resp.Topics[i]
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic = w.Topic
		if w.ErrorCode == 0 || w.ErrorCode == errorcode.InvalidConfig {
			out.Configs = w.Configs
		}
		if w.ErrorCode == errorcode.InvalidConfig {
			out.ErrorCode, out.ErrorMessage = w.ErrorCode, w.ErrorMessage
		}
		*w = out
	}
	return resp
}
