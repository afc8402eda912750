package coordinator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"kshare/protocol/errorcode"
)

// consumerModel is a consumer group with clients that follow the protocol, lose answers and fall silent.
type consumerModel struct {
	t       *rapid.T
	g       *Groups
	topics  testTopics
	config  Config
	log     recordLog
	now     time.Time
	clients map[string]*consumerClient
	made    int
}

const modelGroup = "g"

func newConsumerModel(t *rapid.T) *consumerModel {
	m := &consumerModel{t: t, topics: testTopics{}, config: testConfig(), now: epoch, clients: map[string]*consumerClient{}}
	if rapid.Bool().Draw(t, "range") {
		m.config.ConsumerAssignors = []string{"range", "uniform"}
	}
	if rapid.Bool().Draw(t, "no interval") {
		m.config.ConsumerAssignmentInterval = 0
	}
	for i := range 3 {
		m.topics.add(Topic{Name: fmt.Sprint("t", i), ID: [16]byte{15: byte(i + 1)}, Partitions: int32(i + 1)})
	}
	m.config.Partitions = 1
	m.g = New(m.config, m.topics)
	return m
}

func (m *consumerModel) pick() *consumerClient {
	ids := sortedKeys(m.clients)
	if len(ids) == 0 {
		return nil
	}
	return m.clients[rapid.SampledFrom(ids).Draw(m.t, "client")]
}

// check is what must hold at all times. A client whose member is gone is told so with its next heartbeat, or its
// own session has ended: it owns nothing any more.
func (m *consumerModel) check() {
	cg, _ := m.g.groups[modelGroup].(*consumerGroup)
	owners := map[topicPartition]string{}
	for _, id := range sortedKeys(m.clients) {
		c := m.clients[id]
		if cg == nil || cg.members[id] == nil {
			c.owns = nil
		}
		for p := range c.owns {
			require.Empty(m.t, owners[p], "%v is owned by %s too", p, id)
			owners[p] = id
		}
	}
	if cg == nil {
		return
	}
	require.LessOrEqual(m.t, cg.assignmentEpoch, cg.epoch)
	owned := map[topicPartition]string{}
	for id, x := range cg.members {
		require.LessOrEqual(m.t, x.epoch, cg.assignmentEpoch)
		x.owns(func(p topicPartition) {
			require.NotContains(m.t, owned, p, "of %s too", id)
			owned[p] = id
		})
	}
	require.Equal(m.t, owned, cg.owners)
}

// restart goes on from the records, from which all comes back.
func (m *consumerModel) restart() {
	again := m.log.replay(m.t, m.now, m.config, m.topics)
	require.Equal(m.t, describeModern(m.g), describeModern(again))
	m.g = again
}

func (m *consumerModel) advance(d time.Duration) {
	end := m.now.Add(d)
	for {
		due, ok := m.g.NextDeadline()
		if !ok || due.After(end) {
			break
		}
		var e Effects
		m.now = due
		m.g.Expire(due, &e)
		m.log.append(e)
	}
	m.now = end
}

func (m *consumerModel) topicsChanged(name string) {
	var e Effects
	m.g.TopicsChanged(m.now, []string{name}, &e)
	m.log.append(e)
}

// settle lets all clients send heartbeats until the group is stable.
func (m *consumerModel) settle() {
	for range 20 {
		for _, id := range sortedKeys(m.clients) {
			m.clients[id].beat(m.t, m.g, m.now, &m.log)
		}
		m.advance(time.Second)
	}
	m.check()
	m.restart()
	if len(m.clients) == 0 {
		return
	}
	cg := m.g.groups[modelGroup].(*consumerGroup)
	require.Equal(m.t, consumerStable, cg.state())
	wanted, owned := 0, 0
	for name := range cg.names() {
		if x, ok := m.topics[name]; ok {
			wanted += int(x.Partitions)
		}
	}
	for _, c := range m.clients {
		owned += len(c.owns)
	}
	require.Equal(m.t, wanted, owned, "every partition has an owner")
}

func TestConsumerGroupRandomly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newConsumerModel(t)
		names := []string{"t0", "t1", "t2"}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { m.check() },
			"join": func(t *rapid.T) {
				if len(m.clients) == 5 {
					return
				}
				m.made++
				c := &consumerClient{group: modelGroup, id: fmt.Sprint("m", m.made)}
				c.topics = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(t, "topics")
				m.clients[c.id] = c
				c.beat(t, m.g, m.now, &m.log)
			},
			"beat": func(*rapid.T) {
				if c := m.pick(); c != nil {
					c.beat(m.t, m.g, m.now, &m.log)
				}
			},
			"lose the answer": func(*rapid.T) {
				if c := m.pick(); c != nil {
					unaware := consumerClient{group: c.group, id: c.id, topics: c.topics, epoch: c.epoch, owns: c.owns}
					unaware.beat(m.t, m.g, m.now, &m.log)
					c.full = true
				}
			},
			"resubscribe": func(t *rapid.T) {
				if c := m.pick(); c != nil && c.epoch > 0 {
					c.topics = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(t, "topics")
					req := c.request()
					req.SubscribedTopicNames = c.topics
					var e Effects
					c.heard(m.g.ConsumerGroupHeartbeat(m.now, Caller{Version: 1}, req, &e))
					m.log.append(e)
				}
			},
			"leave": func(*rapid.T) {
				if c := m.pick(); c != nil {
					req := c.request()
					req.MemberEpoch, req.Topics = epochLeave, nil
					var e Effects
					m.g.ConsumerGroupHeartbeat(m.now, Caller{Version: 1}, req, &e)
					m.log.append(e)
					delete(m.clients, c.id)
				}
			},
			"advance": func(t *rapid.T) {
				m.advance(rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second, 6 * time.Second, 50 * time.Second}).Draw(t, "time"))
			},
			"grow": func(t *rapid.T) {
				name := rapid.SampledFrom(names).Draw(t, "topic")
				if x, ok := m.topics[name]; ok && x.Partitions < 6 {
					x.Partitions++
					m.topics.add(x)
					m.topicsChanged(name)
				}
			},
			"recreate": func(t *rapid.T) {
				name := rapid.SampledFrom(names).Draw(t, "topic")
				x := m.topics[name]
				var e Effects
				delete(m.topics, name)
				m.g.TopicsDeleted(m.now, []Topic{x}, &e)
				m.log.append(e)
				x.ID[0]++
				m.topics.add(x)
				m.topicsChanged(name)
			},
			"restart": func(*rapid.T) { m.restart() },
		})
		m.settle()
	})
}

func TestConsumerGroupFastRegex(t *testing.T) {
	config := testConfig()
	config.ConsumerAssignmentInterval = 0
	topics := testTopics{}
	topics.add(Topic{Name: "orders", ID: [16]byte{1}, Partitions: 2})
	g := New(config, topics)
	c := &consumerClient{group: modelGroup, id: "m"}
	req := c.request()
	pattern := "o.*"
	req.SubscribedTopicNames, req.SubscribedTopicRegex = nil, &pattern
	var e Effects
	c.heard(g.ConsumerGroupHeartbeat(epoch, Caller{Version: 1}, req, &e))
	require.Len(t, c.owns, 2, "where nothing waits the first answer has the partitions")

	topics.add(Topic{Name: "others", ID: [16]byte{2}, Partitions: 1})
	g.TopicsChanged(epoch, []string{"others"}, &e)
	c.heard(g.ConsumerGroupHeartbeat(epoch, Caller{Version: 1}, c.request(), &e))
	require.Len(t, c.owns, 3)
}

func TestMixedMembersFallBehind(t *testing.T) {
	topics := testTopics{}
	topics.add(Topic{Name: "t", ID: [16]byte{1}, Partitions: 2})
	g := New(testConfig(), topics)
	join := func(memberID string) *kmsg.JoinGroupResponse {
		subscription := kmsg.ConsumerMemberMetadata{Topics: []string{"t"}}
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.ProtocolType = modelGroup, memberID, consumerProtocol
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 6000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription.AppendTo(nil)}}
		var e Effects
		return g.JoinGroup(epoch, Caller{Version: 9}, req, &e)
	}
	native := &consumerClient{group: modelGroup, id: "n", topics: []string{"t"}}
	var log recordLog
	native.beat(t, g, epoch, &log)
	require.Len(t, native.owns, 2)

	first := join("")
	require.Equal(t, errorcode.MemberIDRequired, first.ErrorCode)
	id := first.MemberID
	joined := join(id)
	require.Equal(t, errorcode.None, joined.ErrorCode)
	require.Empty(t, joined.Members)
	cg := g.groups[modelGroup].(*consumerGroup)
	require.NotNil(t, cg.members[id].classic)

	// It never sends SyncGroup: after its rebalance timeout it is gone.
	var e Effects
	g.Expire(epoch.Add(6*time.Second), &e)
	require.Equal(t, []string{"n"}, sortedKeys(cg.members))
	require.False(t, slices.Contains(sortedKeys(cg.targets), id))
}
