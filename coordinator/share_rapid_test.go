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

// shareModel is a share group with clients, and a share coordinator that answers late and fails.
type shareModel struct {
	t       *rapid.T
	g       *Groups
	topics  testTopics
	config  Config
	log     recordLog
	now     time.Time
	clients map[string]*shareClient
	made    int
	pending []ShareStateChange
}

type shareClient struct {
	id     string
	topics []string
	epoch  int32
	has    map[topicPartition]bool
}

func (m *shareModel) beat(c *shareClient) {
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch = modelGroup, c.id, c.epoch
	if c.epoch == epochJoin {
		req.SubscribedTopicNames = c.topics
	}
	m.send(c, req)
}

func (m *shareModel) send(c *shareClient, req *kmsg.ShareGroupHeartbeatRequest) {
	var e Effects
	resp := m.g.ShareGroupHeartbeat(m.now, Caller{Version: 1}, req, &e)
	m.done(e)
	if resp.ErrorCode != errorcode.None {
		c.epoch, c.has = epochJoin, nil
		return
	}
	c.epoch = resp.MemberEpoch
	if resp.Assignment == nil {
		return
	}
	c.has = map[topicPartition]bool{}
	for _, t := range resp.Assignment.TopicPartitions {
		for _, p := range t.Partitions {
			c.has[topicPartition{t.TopicID, p}] = true
		}
	}
}

func (m *shareModel) done(e Effects) {
	m.log.append(e)
	m.pending = append(m.pending, e.Share...)
}

func (m *shareModel) pick() *shareClient {
	ids := sortedKeys(m.clients)
	if len(ids) == 0 {
		return nil
	}
	return m.clients[rapid.SampledFrom(ids).Draw(m.t, "client")]
}

// answer is the share coordinator's answer to all that it was asked for.
func (m *shareModel) answer(ok bool) {
	var e Effects
	for _, change := range m.pending {
		switch {
		case change.Delete:
		case ok:
			m.g.ShareStateInitialized(m.now, change.Group, stateTopics(change), &e)
		default:
			m.g.ShareStateFailed(m.now, change.Group, stateTopics(change), &e)
		}
	}
	m.pending = nil
	m.done(e)
}

func (m *shareModel) advance(d time.Duration) {
	var e Effects
	m.now = m.now.Add(d)
	m.g.Expire(m.now, &e)
	m.done(e)
}

func (m *shareModel) check() {
	sg, _ := m.g.groups[modelGroup].(*shareGroup)
	if sg == nil {
		return
	}
	require.LessOrEqual(m.t, sg.assignmentEpoch, sg.epoch)
	if len(sg.members) == 0 {
		require.Equal(m.t, sg.assignmentEpoch, sg.epoch, "a group without members has equal epochs")
	}
	for _, x := range sg.members {
		require.LessOrEqual(m.t, x.epoch, sg.assignmentEpoch)
	}
	for id, target := range sg.targets {
		require.NotNil(m.t, sg.members[id])
		for topic, ps := range target {
			if _, exists := m.topics.TopicByID(topic); !exists {
				continue
			}
			for _, p := range ps {
				require.True(m.t, sg.initialized[topic].partitions[p], "%v-%d is assigned without state", topic, p)
			}
		}
	}
}

func (m *shareModel) restart() {
	again := m.log.replay(m.t, m.now, m.config, m.topics)
	require.Equal(m.t, describeModern(m.g), describeModern(again))
	m.g, m.pending = again, nil
}

// settle lets all clients send heartbeats until nothing changes: every partition subscribed to has a member.
func (m *shareModel) settle() {
	for range 8 {
		for _, id := range sortedKeys(m.clients) {
			m.beat(m.clients[id])
		}
		m.answer(true)
		m.advance(time.Second)
	}
	m.check()
	m.restart()
	if len(m.clients) == 0 {
		return
	}
	sg := m.g.groups[modelGroup].(*shareGroup)
	want, got := map[topicPartition]bool{}, map[topicPartition]bool{}
	for name := range sg.names() {
		x := m.topics[name]
		for p := range x.Partitions {
			want[topicPartition{x.ID, p}] = true
		}
	}
	for id, c := range m.clients {
		require.Equal(m.t, sg.assignmentEpoch, c.epoch)
		for p := range c.has {
			require.True(m.t, slices.Contains(sg.members[id].assigned[p.topic], p.partition))
			got[p] = true
		}
	}
	require.Equal(m.t, want, got)
}

func TestShareGroupRandomly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &shareModel{t: t, topics: testTopics{}, config: testConfig(), now: epoch, clients: map[string]*shareClient{}}
		m.config.Partitions = 1
		names := []string{"t0", "t1", "t2"}
		for i, name := range names {
			m.topics.add(Topic{Name: name, ID: [16]byte{15: byte(i + 1)}, Partitions: int32(i + 1)})
		}
		m.g = New(m.config, m.topics)
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { m.check() },
			"join": func(t *rapid.T) {
				if len(m.clients) == 5 {
					return
				}
				m.made++
				c := &shareClient{id: fmt.Sprint("m", m.made)}
				c.topics = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(t, "topics")
				m.clients[c.id] = c
				m.beat(c)
			},
			"beat": func(*rapid.T) {
				if c := m.pick(); c != nil {
					m.beat(c)
				}
			},
			"resubscribe": func(t *rapid.T) {
				if c := m.pick(); c != nil && c.epoch > 0 {
					c.topics = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(t, "topics")
					req := kmsg.NewPtrShareGroupHeartbeatRequest()
					req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = modelGroup, c.id, c.epoch, c.topics
					m.send(c, req)
				}
			},
			"leave": func(*rapid.T) {
				if c := m.pick(); c != nil {
					req := kmsg.NewPtrShareGroupHeartbeatRequest()
					req.GroupID, req.MemberID, req.MemberEpoch = modelGroup, c.id, epochLeave
					m.send(c, req)
					delete(m.clients, c.id)
				}
			},
			"answer": func(t *rapid.T) { m.answer(rapid.IntRange(0, 3).Draw(t, "ok") > 0) },
			"advance": func(t *rapid.T) {
				m.advance(rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second, 50 * time.Second}).Draw(t, "time"))
			},
			"grow": func(t *rapid.T) {
				x := m.topics[rapid.SampledFrom(names).Draw(t, "topic")]
				if x.Partitions < 6 {
					x.Partitions++
					m.topics.add(x)
					var e Effects
					m.g.TopicsChanged(m.now, []string{x.Name}, &e)
					m.done(e)
				}
			},
			"recreate": func(t *rapid.T) {
				x := m.topics[rapid.SampledFrom(names).Draw(t, "topic")]
				var e Effects
				delete(m.topics, x.Name)
				m.g.TopicsDeleted(m.now, []Topic{x}, &e)
				x.ID[0]++
				m.topics.add(x)
				m.g.TopicsChanged(m.now, []string{x.Name}, &e)
				m.done(e)
			},
			"restart": func(*rapid.T) { m.restart() },
		})
		m.settle()
	})
}

// shareFixture is a share group over one topic of two partitions.
func shareFixture(config Config) (*Groups, Topic, testTopics) {
	topics := testTopics{}
	topic := Topic{Name: "t", ID: [16]byte{1}, Partitions: 2}
	topics.add(topic)
	return New(config, topics), topic, topics
}

func shareJoin(g *Groups, now time.Time, member string, epoch int32, e *Effects) *kmsg.ShareGroupHeartbeatResponse {
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = modelGroup, member, epoch, []string{"t"}
	return g.ShareGroupHeartbeat(now, Caller{Version: 1}, req, e)
}

// TestShareAssignedAtOnce is the way of a caller that answers partitions with the first heartbeat.
func TestShareAssignedAtOnce(t *testing.T) {
	config := testConfig()
	config.ShareAssignmentInterval = 0
	g, topic, _ := shareFixture(config)
	var e Effects
	resp := shareJoin(g, epoch, "m", 0, &e)
	require.Empty(t, resp.Assignment.TopicPartitions)
	require.Len(t, e.Share, 1)
	g.ShareStateInitialized(epoch, modelGroup, stateTopics(e.Share[0]), &e)
	resp = shareJoin(g, epoch, "m", resp.MemberEpoch, &e)
	require.Equal(t, []int32{0, 1}, resp.Assignment.TopicPartitions[0].Partitions)
	require.Equal(t, topic.ID, resp.Assignment.TopicPartitions[0].TopicID)
}

func TestShareInitialization(t *testing.T) {
	g, topic, topics := shareFixture(testConfig())
	var e Effects
	shareJoin(g, epoch, "m", 0, &e)
	require.Equal(t, []ShareStateChange{{Group: modelGroup, StateEpoch: 2, Topics: []ShareStateTopic{{
		ID: topic.ID, Name: "t", Partitions: []ShareStatePartition{{0, -1}, {1, -1}},
	}}}}, e.Share)

	// It is asked for once, until that fails or nothing was heard of it for long.
	asked := func(now time.Time) []ShareStateChange {
		var e Effects
		shareJoin(g, now, "m", 0, &e)
		return e.Share
	}
	require.Empty(t, asked(epoch.Add(29*time.Second)))
	require.Len(t, asked(epoch.Add(30*time.Second)), 1)
	g.ShareStateFailed(epoch, modelGroup, stateTopics(e.Share[0]), &e)
	require.Len(t, asked(epoch.Add(31*time.Second)), 1)
	g.ShareStateInitialized(epoch, modelGroup, stateTopics(e.Share[0]), &e)
	require.Empty(t, asked(epoch.Add(32*time.Second)))
	require.Equal(t, []TopicPartitions{{topic.ID, "t", []int32{0, 1}}}, g.SharePartitions(modelGroup))

	// A partition that is added starts at 0.
	topic.Partitions = 3
	topics.add(topic)
	g.TopicsChanged(epoch, []string{"t"}, &e)
	grown := asked(epoch.Add(33 * time.Second))
	require.Equal(t, []ShareStatePartition{{2, 0}}, grown[0].Topics[0].Partitions)

	// State goes with its topic.
	delete(topics, "t")
	g.TopicsDeleted(epoch, []Topic{topic}, &e)
	require.Empty(t, g.SharePartitions(modelGroup))
}

func TestShareOffsets(t *testing.T) {
	g, topic, _ := shareFixture(testConfig())
	c := Caller{}
	alter := func(group, topic string, partition int32) (*kmsg.AlterShareGroupOffsetsResponse, Effects) {
		var e Effects
		req := kmsg.NewPtrAlterShareGroupOffsetsRequest()
		req.GroupID = group
		req.Topics = []kmsg.AlterShareGroupOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.AlterShareGroupOffsetsRequestTopicPartition{{Partition: partition, StartOffset: 7}}}}
		return g.AlterShareGroupOffsets(epoch, c, req, &e), e
	}
	remove := func(group, topic string) (*kmsg.DeleteShareGroupOffsetsResponse, Effects) {
		var e Effects
		req := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
		req.GroupID, req.Topics = group, []kmsg.DeleteShareGroupOffsetsRequestTopic{{Topic: topic}}
		return g.DeleteShareGroupOffsets(c, req, &e), e
	}

	resp, _ := alter("", "t", 0)
	require.Equal(t, errorcode.InvalidGroupID, resp.ErrorCode)
	require.Equal(t, "The group id is invalid.", *resp.ErrorMessage)
	gone, _ := remove(modelGroup, "t")
	require.Equal(t, errorcode.GroupIDNotFound, gone.ErrorCode)
	require.Equal(t, "Group g not found.", *gone.ErrorMessage)

	resp, e := alter(modelGroup, "t", 0)
	require.Equal(t, errorcode.None, resp.Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, []ShareStateChange{{Group: modelGroup, StateEpoch: 1, Topics: []ShareStateTopic{{
		ID: topic.ID, Name: "t", Partitions: []ShareStatePartition{{0, 7}},
	}}}}, e.Share)
	g.ShareStateInitialized(epoch, modelGroup, stateTopics(e.Share[0]), &e)
	described := g.describeShare(c, modelGroup)
	require.EqualValues(t, 1, described.GroupEpoch)
	require.EqualValues(t, 1, described.AssignmentEpoch)
	for _, bad := range []struct {
		topic     string
		partition int32
	}{{"nosuch", 0}, {"nosuch", -1}, {"t", 2}} {
		resp, e := alter(modelGroup, bad.topic, bad.partition)
		require.Equal(t, errorcode.UnknownTopicOrPartition, resp.Topics[0].Partitions[0].ErrorCode)
		require.Empty(t, e.Share)
	}
	resp, e = alter(modelGroup, "t", -1)
	require.Equal(t, errorcode.UnknownServerError, resp.ErrorCode)
	require.Empty(t, resp.Topics)
	require.Empty(t, e.Share)

	// With a member neither is possible.
	shareJoin(g, epoch, "m", 0, &e)
	resp, _ = alter(modelGroup, "t", 0)
	require.Equal(t, errorcode.NonEmptyGroup, resp.ErrorCode)
	gone, _ = remove(modelGroup, "t")
	require.Equal(t, errorcode.NonEmptyGroup, gone.ErrorCode)
	g.Expire(epoch.Add(time.Minute), &e)

	gone, e = remove(modelGroup, "t")
	require.Equal(t, errorcode.None, gone.Topics[0].ErrorCode)
	require.True(t, e.Share[0].Delete)
	require.Equal(t, []ShareStatePartition{{Partition: 0}}, e.Share[0].Topics[0].Partitions)
	g.ShareStateDeleted(modelGroup, [][16]byte{topic.ID}, &e)
	gone, _ = remove(modelGroup, "t")
	require.Equal(t, "There is no offset information to delete.", *gone.Topics[0].ErrorMessage)
}

func TestShareGroupDeletion(t *testing.T) {
	g, _, _ := shareFixture(testConfig())
	var e Effects
	shareJoin(g, epoch, "m", 0, &e)
	g.ShareStateInitialized(epoch, modelGroup, stateTopics(e.Share[0]), &e)
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{modelGroup}
	require.Equal(t, errorcode.NonEmptyGroup, g.DeleteGroups(Caller{Version: 3}, req, &e).Groups[0].ErrorCode)
	g.Expire(epoch.Add(time.Minute), &e)
	e = Effects{}
	require.Equal(t, errorcode.None, g.DeleteGroups(Caller{Version: 3}, req, &e).Groups[0].ErrorCode)
	require.True(t, e.Share[0].Delete)
	require.Len(t, e.Share[0].Topics[0].Partitions, 2)
	for _, r := range e.Records {
		require.Nil(t, r.Value)
	}
	require.Nil(t, g.groups[modelGroup])
}
