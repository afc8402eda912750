package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"kshare/protocol/errorcode"
)

// classicClient is an eager consumer of the classic protocol: it gives up everything before it joins again.
type classicClient struct {
	id, memberID string
	generation   int32
	owns         map[topicPartition]bool
	waits        bool // for its JoinGroup or SyncGroup
}

// mixedModel is a group in which clients of both protocols come and go.
type mixedModel struct {
	*consumerModel
	classics map[string]*classicClient
}

func (m *mixedModel) call(c *classicClient, do func(c Caller, e *Effects) kmsg.Response) {
	var e Effects
	resp := do(Caller{ClientID: c.id, Version: 5, Token: c}, &e)
	m.done(e)
	if c.waits = resp == nil; !c.waits {
		m.answered(c, resp)
	}
}

func (m *mixedModel) done(e Effects) {
	m.log.append(e)
	for _, x := range e.Completed {
		c := x.Token.(*classicClient)
		if c.waits {
			c.waits = false
			m.answered(c, x.Response)
		}
	}
}

func (m *mixedModel) join(c *classicClient) {
	c.owns = nil
	subscription := kmsg.ConsumerMemberMetadata{Version: 1, Topics: []string{"t1", "t2"}}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = modelGroup, c.memberID, consumerProtocol
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 6000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription.AppendTo(nil)}}
	m.call(c, func(x Caller, e *Effects) kmsg.Response {
		if resp := m.g.JoinGroup(m.now, x, req, e); resp != nil {
			return resp
		}
		return nil
	})
}

// sync gives a leader's assignment: all partitions to itself.
func (m *mixedModel) sync(c *classicClient, leads bool) {
	protocolType, protocol := consumerProtocol, "range"
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = modelGroup, c.memberID, c.generation
	req.ProtocolType, req.Protocol = &protocolType, &protocol
	if leads {
		a := kmsg.ConsumerMemberAssignment{Version: 1}
		for _, name := range []string{"t1", "t2"} {
			x := kmsg.ConsumerMemberAssignmentTopic{Topic: name}
			for p := range m.topics[name].Partitions {
				x.Partitions = append(x.Partitions, p)
			}
			a.Topics = append(a.Topics, x)
		}
		req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: c.memberID, MemberAssignment: a.AppendTo(nil)}}
	}
	m.call(c, func(x Caller, e *Effects) kmsg.Response {
		if resp := m.g.SyncGroup(m.now, x, req, e); resp != nil {
			return resp
		}
		return nil
	})
}

func (m *mixedModel) answered(c *classicClient, resp kmsg.Response) {
	switch resp := resp.(type) {
	case *kmsg.JoinGroupResponse:
		if resp.ErrorCode == errorcode.MemberIDRequired {
			c.memberID = resp.MemberID
			return
		}
		if c.failed(resp.ErrorCode) {
			return
		}
		c.memberID, c.generation = resp.MemberID, resp.Generation
		m.sync(c, resp.LeaderID == c.memberID)
	case *kmsg.SyncGroupResponse:
		if c.failed(resp.ErrorCode) {
			return
		}
		c.owns = map[topicPartition]bool{}
		var a kmsg.ConsumerMemberAssignment
		if len(resp.MemberAssignment) == 0 {
			return
		}
		require.NoError(m.t, a.ReadFrom(resp.MemberAssignment))
		for _, x := range a.Topics {
			for _, p := range x.Partitions {
				c.owns[topicPartition{m.topics[x.Topic].ID, p}] = true
			}
		}
	}
}

// failed takes in an error: the client gives everything up, and its id too if that is not known any more.
func (c *classicClient) failed(code int16) bool {
	if code == errorcode.None {
		return false
	}
	if code != errorcode.RebalanceInProgress {
		c.memberID = ""
	}
	c.owns, c.generation = nil, -1
	return true
}

// beat sends a heartbeat, or joins where that is due.
func (m *mixedModel) beat(c *classicClient) {
	if c.waits {
		return
	}
	if c.memberID == "" || c.generation < 0 {
		m.join(c)
		return
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = modelGroup, c.memberID, c.generation
	var e Effects
	resp := m.g.Heartbeat(m.now, Caller{Version: 4}, req, &e)
	m.done(e)
	if c.failed(resp.ErrorCode) && resp.ErrorCode == errorcode.RebalanceInProgress {
		m.join(c)
	}
}

func (m *mixedModel) checkMixed() {
	owners := map[topicPartition]string{}
	own := func(id string, owns map[topicPartition]bool) {
		for p := range owns {
			require.Empty(m.t, owners[p], "%v is owned by %s too", p, id)
			owners[p] = id
		}
	}
	cg, _ := m.g.groups[modelGroup].(*consumerGroup)
	for _, id := range sortedKeys(m.clients) {
		c := m.clients[id]
		if cg == nil || cg.members[id] == nil {
			c.owns = nil // its session ended
		}
		own(id, c.owns)
	}
	for _, id := range sortedKeys(m.classics) {
		c := m.classics[id]
		classic, _ := m.g.groups[modelGroup].(*classicGroup)
		if (cg == nil || cg.members[c.memberID] == nil) && (classic == nil || classic.members[c.memberID] == nil) {
			c.owns = nil
		}
		own(id, c.owns)
	}
	if cg != nil {
		m.check()
	}
}

func TestMixedGroupRandomly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &mixedModel{newConsumerModel(t), map[string]*classicClient{}}
		pick := func() *classicClient {
			ids := sortedKeys(m.classics)
			if len(ids) == 0 {
				return nil
			}
			return m.classics[rapid.SampledFrom(ids).Draw(m.t, "classic")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { m.checkMixed() },
			"native joins": func(*rapid.T) {
				m.made++
				c := &consumerClient{group: modelGroup, id: fmt.Sprint("m", m.made), topics: []string{"t1", "t2"}}
				m.clients[c.id] = c
				m.beatNative(c)
			},
			"native": func(*rapid.T) {
				if c := m.pick(); c != nil {
					m.beatNative(c)
				}
			},
			"native leaves": func(*rapid.T) {
				if c := m.pick(); c != nil {
					req := c.request()
					req.MemberEpoch, req.Topics = epochLeave, nil
					delete(m.clients, c.id)
					var e Effects
					m.g.ConsumerGroupHeartbeat(m.now, Caller{Version: 1}, req, &e)
					m.done(e)
				}
			},
			"classic joins": func(*rapid.T) {
				m.made++
				c := &classicClient{id: fmt.Sprint("c", m.made), generation: -1}
				m.classics[c.id] = c
				m.beat(c)
			},
			"classic": func(*rapid.T) {
				if c := pick(); c != nil {
					m.beat(c)
				}
			},
			"classic leaves": func(*rapid.T) {
				if c := pick(); c != nil && !c.waits && c.memberID != "" {
					req := kmsg.NewPtrLeaveGroupRequest()
					req.Group, req.Members = modelGroup, []kmsg.LeaveGroupRequestMember{{MemberID: c.memberID}}
					delete(m.classics, c.id)
					var e Effects
					m.g.LeaveGroup(m.now, Caller{Version: 5}, req, &e)
					m.done(e)
				}
			},
			"advance": func(t *rapid.T) {
				m.now = m.now.Add(rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second, 7 * time.Second}).Draw(t, "time"))
				var e Effects
				m.g.Expire(m.now, &e)
				m.done(e)
			},
		})
	})
}

func (m *mixedModel) beatNative(c *consumerClient) {
	var e Effects
	c.heard(m.g.ConsumerGroupHeartbeat(m.now, Caller{Version: 1}, c.request(), &e))
	m.done(e)
}

// TestStaticMemberChangesProtocol moves an instance from the consumer to the classic protocol and back.
func TestStaticMemberChangesProtocol(t *testing.T) {
	topics := testTopics{}
	topics.add(Topic{Name: "t", ID: [16]byte{1}, Partitions: 2})
	g, instance := New(testConfig(), topics), "i"
	native := func(member string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = modelGroup, member, epoch, &instance
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 5000, []string{"t"}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		return req
	}
	join := func(member string) *kmsg.JoinGroupResponse {
		subscription := kmsg.ConsumerMemberMetadata{Topics: []string{"t"}}
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.InstanceID, req.ProtocolType = modelGroup, member, &instance, consumerProtocol
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 6000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription.AppendTo(nil)}}
		return g.JoinGroup(epoch, Caller{Version: 9, Token: "j"}, req, &Effects{})
	}
	var e Effects
	resp := g.ConsumerGroupHeartbeat(epoch, Caller{Version: 1}, native("a", 0), &e)
	require.Equal(t, errorcode.None, resp.ErrorCode)
	// Another member keeps the group a consumer group.
	other := native("o", 0)
	other.InstanceID = nil
	g.ConsumerGroupHeartbeat(epoch, Caller{Version: 1}, other, &e)

	require.Equal(t, errorcode.UnknownMemberID, func() int16 {
		id := "unknown"
		_, code := g.groups[modelGroup].(*consumerGroup).classicMember("a", &id)
		return code
	}())
	require.Equal(t, errorcode.FencedInstanceID, join("b").ErrorCode)
	joined := join("")
	require.Equal(t, errorcode.None, joined.ErrorCode)
	require.NotEqual(t, "a", joined.MemberID)
	cg := g.groups[modelGroup].(*consumerGroup)
	require.Equal(t, []string{joined.MemberID}, []string{cg.static[instance]})
	require.Equal(t, owned{{1}: {0: 2, 1: 2}}, cg.members[joined.MemberID].assigned, "it takes the partitions over")

	// A member of the classic protocol does not hold its instance against one of the consumer protocol.
	resp = g.ConsumerGroupHeartbeat(epoch, Caller{Version: 1}, native("b", 0), &e)
	require.Equal(t, errorcode.None, resp.ErrorCode)
	require.Len(t, resp.Assignment.Topics, 1)

	// The last member that is not of the classic protocol is replaced: the group is a classic one.
	other.MemberEpoch, other.Topics = epochLeave, nil
	g.ConsumerGroupHeartbeat(epoch, Caller{Version: 1}, other, &e)
	joined = join("")
	require.Equal(t, errorcode.None, joined.ErrorCode)
	classic := g.groups[modelGroup].(*classicGroup)
	require.Equal(t, classicPreparing, classic.current)
	require.Equal(t, joined.MemberID, classic.instances[instance])
	rejoined := join(joined.MemberID)
	require.Equal(t, joined.MemberID, rejoined.LeaderID)
}

func TestMigrationPolicy(t *testing.T) {
	for policy, want := range map[string]struct{ native, classic int16 }{
		"bidirectional": {errorcode.None, errorcode.MemberIDRequired},
		"upgrade":       {errorcode.None, errorcode.MemberIDRequired},
		"downgrade":     {errorcode.GroupIDNotFound, errorcode.MemberIDRequired},
		"disabled":      {errorcode.GroupIDNotFound, errorcode.InconsistentGroupProtocol},
	} {
		config := testConfig()
		config.ConsumerMigrationPolicy = policy
		topics := testTopics{}
		g, e := New(config, topics), Effects{}
		join := func(group string, version int16) *kmsg.JoinGroupResponse {
			subscription := kmsg.ConsumerMemberMetadata{Topics: []string{"t"}}
			req := kmsg.NewPtrJoinGroupRequest()
			req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, consumerProtocol, 10_000, 6000
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription.AppendTo(nil)}}
			return g.JoinGroup(epoch, Caller{Version: version, Token: group}, req, &e)
		}
		native := func(group string) int16 {
			c := &consumerClient{group: group, id: "n", topics: []string{"t"}}
			return g.ConsumerGroupHeartbeat(epoch, Caller{Version: 1}, c.request(), &e).ErrorCode
		}
		require.Equal(t, errorcode.None, join("classic", 3).ErrorCode)
		require.Equal(t, want.native, native("classic"), policy)
		require.Equal(t, errorcode.None, native("consumer"))
		require.Equal(t, want.classic, join("consumer", 9).ErrorCode, policy)
	}
}
