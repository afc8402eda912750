package coordinator

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestModernVectors plays what was recorded from Apache Kafka 4.4.0 with consumer and share groups and compares
// every answer. Topics come, grow and go as they did (0 partitions). Share partitions are initialised as soon as a
// heartbeat asks for it.
func TestModernVectors(t *testing.T) {
	for _, name := range []string{"kip848", "membership"} {
		t.Run(name, func(t *testing.T) {
			p := newModernPlayer(t)
			for _, r := range readVectors(t, name) {
				p.play(r, func(r recorded, have, want kmsg.Response) {
					require.Equal(t, want, have, "%s v%d", r.Step, r.Version)
				})
			}
			p.compareReplayed()
		})
	}
}

// TestAssignVectors plays members that come and go and compares where the partitions are once all have settled. The
// heartbeats between are not recorded: every member sends one each 100 ms.
func TestAssignVectors(t *testing.T) {
	p := newModernPlayer(t)
	members := map[string]*consumerClient{}
	now := float64(0)
	for _, r := range readVectors(t, "assign") {
		if r.Key == describeConsumerGroupKey {
			for ; now < r.Start; now += 100 {
				for _, id := range sortedKeys(members) {
					members[id].beat(t, p.g, at(now), &p.log)
				}
			}
		}
		p.play(r, func(r recorded, have, want kmsg.Response) {
			require.Equal(t, want, have, "%s v%d", r.Step, r.Version)
			if resp, ok := have.(*kmsg.ConsumerGroupHeartbeatResponse); ok {
				req, body := decodeRequest(t, r)
				require.NoError(t, req.ReadFrom(body))
				q := req.(*kmsg.ConsumerGroupHeartbeatRequest)
				if q.MemberEpoch == epochLeave {
					delete(members, q.Group+q.MemberID)
				} else {
					c := &consumerClient{group: q.Group, id: q.MemberID, topics: q.SubscribedTopicNames}
					c.heard(resp)
					members[q.Group+q.MemberID] = c
				}
			}
		})
		now = max(now, r.Start)
	}
	p.compareReplayed()
}

const describeConsumerGroupKey = 69

// modernPlayer plays recorded requests one after the other.
type modernPlayer struct {
	*player
	topics testTopics
	config Config
	now    time.Time
}

func newModernPlayer(t *testing.T) *modernPlayer {
	p := &modernPlayer{player: &player{t: t, answers: map[string]answer{}}, topics: testTopics{}, config: testConfig()}
	p.config.NewUUID = func() [16]byte { return p.uuid }
	p.g = New(p.config, p.topics)
	return p
}

func (p *modernPlayer) play(r recorded, check func(r recorded, have, want kmsg.Response)) {
	p.now = at(r.Start)
	p.expireUntil(p.now)
	if r.Topic != "" {
		p.changeTopic(r)
		return
	}
	req, body := decodeRequest(p.t, r)
	require.NoError(p.t, req.ReadFrom(body), r.Step)
	want := decodeResponse(p.t, r, req)
	if join, ok := want.(*kmsg.JoinGroupResponse); ok {
		p.takeUUID(join.MemberID)
		if id, err := base64.RawURLEncoding.DecodeString(join.MemberID); err == nil && len(id) == len(p.uuid) {
			p.uuid = [16]byte(id)
		}
	}
	var e Effects
	caller := Caller{ClientID: "wirecap", ClientHost: "/127.0.0.1", Version: r.Version, Token: r.Step}
	resp := serveModern(p.g, p.now, caller, req, &e)
	p.initialize(&e)
	if resp == nil {
		require.Len(p.t, e.Completed, 1, r.Step)
		resp = e.Completed[0].Response
	}
	p.log.append(e)
	have := req.ResponseKind()
	require.NoError(p.t, have.ReadFrom(resp.AppendTo(nil)), r.Step)
	sortModernAnswer(want)
	sortModernAnswer(have)
	check(r, have, want)
}

func (p *modernPlayer) changeTopic(r recorded) {
	id, err := base64.RawURLEncoding.DecodeString(r.ID)
	require.NoError(p.t, err)
	topic, e := Topic{Name: r.Topic, ID: [16]byte(id), Partitions: r.Partitions}, Effects{}
	if r.Partitions == 0 {
		delete(p.topics, r.Topic)
		p.g.TopicsDeleted(p.now, []Topic{topic}, &e)
	} else {
		p.topics.add(topic)
		p.g.TopicsChanged(p.now, []string{r.Topic}, &e)
	}
	p.log.append(e)
}

func (p *modernPlayer) initialize(e *Effects) {
	for _, change := range e.Share {
		p.g.ShareStateInitialized(p.now, change.Group, stateTopics(change), e)
	}
	e.Share = nil
}

// stateTopics are the partitions of a change.
func stateTopics(change ShareStateChange) []TopicPartitions {
	var out []TopicPartitions
	for _, t := range change.Topics {
		x := TopicPartitions{ID: t.ID, Name: t.Name}
		for _, p := range t.Partitions {
			x.Partitions = append(x.Partitions, p.Partition)
		}
		out = append(out, x)
	}
	return out
}

// compareReplayed checks that a restart brings back all consumer and share groups.
func (p *modernPlayer) compareReplayed() {
	again := p.log.replay(p.t, p.now, p.config, p.topics)
	require.Equal(p.t, describeModern(p.g), describeModern(again))
}

// describeModern describes all consumer and share groups.
func describeModern(g *Groups) map[string]any {
	all := map[string]any{}
	for _, gr := range g.sorted() {
		switch gr := gr.(type) {
		case *consumerGroup:
			all[gr.name] = g.describeConsumer(Caller{Version: 1}, gr.name)
		case *shareGroup:
			all[gr.name] = []any{g.describeShare(Caller{Version: 1}, gr.name), g.SharePartitions(gr.name)}
		}
	}
	return all
}

func serveModern(g *Groups, now time.Time, c Caller, req kmsg.Request, e *Effects) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return g.ConsumerGroupHeartbeat(now, c, req, e)
	case *kmsg.ConsumerGroupDescribeRequest:
		return g.ConsumerGroupDescribe(c, req)
	case *kmsg.ShareGroupHeartbeatRequest:
		return g.ShareGroupHeartbeat(now, c, req, e)
	case *kmsg.ShareGroupDescribeRequest:
		return g.ShareGroupDescribe(c, req)
	}
	return serve(g, now, c, req, e)
}

func sortModernAnswer(resp kmsg.Response) {
	sortAnswer(resp)
	switch resp := resp.(type) {
	case *kmsg.ShareGroupHeartbeatResponse:
		if resp.Assignment != nil {
			sortBy(resp.Assignment.TopicPartitions, func(t kmsg.ShareGroupHeartbeatResponseAssignmentTopicPartition) string {
				return string(t.TopicID[:])
			})
		}
	case *kmsg.ConsumerGroupDescribeResponse:
		sortBy(resp.Groups, func(g kmsg.ConsumerGroupDescribeResponseGroup) string { return g.Group })
		for _, g := range resp.Groups {
			sortBy(g.Members, func(m kmsg.ConsumerGroupDescribeResponseGroupMember) string { return m.MemberID })
		}
	case *kmsg.ShareGroupDescribeResponse:
		sortBy(resp.Groups, func(g kmsg.ShareGroupDescribeResponseGroup) string { return g.GroupID })
		for _, g := range resp.Groups {
			sortBy(g.Members, func(m kmsg.ShareGroupDescribeResponseGroupMember) string { return m.MemberID })
			for _, m := range g.Members {
				sortBy(m.Assignment.TopicPartitions, func(t kmsg.ShareGroupDescribeResponseGroupMemberAssignmentTopicPartition) string {
					return string(t.TopicID[:])
				})
			}
		}
	}
}

// consumerClient is a client of a consumer group: it owns what it is assigned and says so in each heartbeat.
type consumerClient struct {
	group, id string
	topics    []string
	epoch     int32
	owns      map[topicPartition]bool
	full      bool // it missed an answer: it says all of itself, to be told its assignment
}

func (c *consumerClient) request() *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = c.group, c.id, c.epoch, -1
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if c.epoch == epochJoin || c.full {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 5000, c.topics
	}
	byTopic := map[[16]byte][]int32{}
	for p := range c.owns {
		byTopic[p.topic] = append(byTopic[p.topic], p.partition)
	}
	for id, partitions := range byTopic {
		req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: partitions})
	}
	return req
}

// heard takes an answer in; one that tells to start again makes the client own nothing.
func (c *consumerClient) heard(resp *kmsg.ConsumerGroupHeartbeatResponse) {
	c.full = false
	if resp.ErrorCode != 0 {
		c.epoch, c.owns = epochJoin, nil
		return
	}
	c.epoch = resp.MemberEpoch
	if resp.Assignment == nil {
		return
	}
	c.owns = map[topicPartition]bool{}
	for _, t := range resp.Assignment.Topics {
		for _, p := range t.Partitions {
			c.owns[topicPartition{t.TopicID, p}] = true
		}
	}
}

func (c *consumerClient) beat(t require.TestingT, g *Groups, now time.Time, log *recordLog) *kmsg.ConsumerGroupHeartbeatResponse {
	var e Effects
	resp := g.ConsumerGroupHeartbeat(now, Caller{ClientID: "wirecap", ClientHost: "/127.0.0.1", Version: 1}, c.request(), &e)
	require.False(t, resp.ErrorMessage != nil && strings.Contains(*resp.ErrorMessage, "invalid"))
	log.append(e)
	c.heard(resp)
	return resp
}

// TestModernRecords expects records of each type as Apache Kafka 4.4.0 encodes what it reads from them. (The metadata
// hash within is not Kafka's.)
func TestModernRecords(t *testing.T) {
	written := map[string]bool{}
	for _, name := range []string{"kip848", "membership"} {
		p := newModernPlayer(t)
		for _, r := range readVectors(t, name) {
			p.play(r, func(recorded, kmsg.Response, kmsg.Response) {})
		}
		for _, r := range p.log {
			written[fmt.Sprintf("%x %x", r.Key, r.Value)] = true
		}
	}
	golden, err := os.ReadFile("testdata/modern-records.txt")
	require.NoError(t, err)
	for _, line := range strings.Fields(strings.ReplaceAll(string(golden), " ", "_")) {
		require.True(t, written[strings.ReplaceAll(line, "_", " ")], line)
	}
}

// TestModernReplayOfBadRecords cuts records short and spoils their bytes.
func TestModernReplayOfBadRecords(t *testing.T) {
	golden, err := os.ReadFile("testdata/modern-records.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(golden)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		key, err := hex.DecodeString(k)
		require.NoError(t, err)
		value, err := hex.DecodeString(v)
		require.NoError(t, err)
		for n := range value {
			g := New(testConfig(), testTopics{})
			require.Error(t, g.Replay(noProducerID, key, value[:n]), "%s cut to %d bytes", line, n)
			spoilt := slices.Clone(value)
			spoilt[n] = 0xff
			_ = New(testConfig(), testTopics{}).Replay(noProducerID, key, spoilt)
		}
		for n := 2; n < len(key); n++ {
			require.Error(t, New(testConfig(), testTopics{}).Replay(noProducerID, key[:n], value))
		}
	}
}
