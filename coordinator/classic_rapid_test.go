package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"kshare/protocol/errorcode"
)

// classicModel drives one classic group with random clients and keeps what they saw.
type classicModel struct {
	t      *rapid.T
	g      *Groups
	now    time.Time
	config Config
	log    recordLog

	tokens  int
	waiting map[int]string // token of a parked request -> "join" or "sync"
	members []string       // ids that were ever given out, oldest first
	slots   map[string]string

	generation  int32
	leaders     map[int32]string // generation -> slot that was told to assign
	assignments map[string][]byte
	assigned    int
}

// slot names a member over changes of its id: static members by their instance.
func (m *classicModel) slot(id string) string {
	if s := m.slots[id]; s != "" {
		return s
	}
	return id
}

func (m *classicModel) caller(version int16) Caller {
	m.tokens++
	return Caller{ClientID: "c", ClientHost: "/127.0.0.1", Version: version, Token: m.tokens}
}

// join sends a JoinGroup. Protocol a is known to all, b and its metadata vary.
func (m *classicModel) join(version int16, id string, instance *string) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = "g", id, instance, "consumer"
	req.SessionTimeoutMillis = int32(rapid.IntRange(6, 9).Draw(m.t, "session")) * 1000
	req.RebalanceTimeoutMillis = int32(rapid.IntRange(0, 5).Draw(m.t, "rebalance")) * 1000
	a := kmsg.JoinGroupRequestProtocol{Name: "a", Metadata: []byte{byte(rapid.IntRange(0, 1).Draw(m.t, "metadata"))}}
	req.Protocols = []kmsg.JoinGroupRequestProtocol{a}
	if rapid.Bool().Draw(m.t, "two protocols") {
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: "b"})
	}
	c, e := m.caller(version), Effects{}
	resp := m.g.JoinGroup(m.now, c, req, &e)
	if resp == nil {
		m.waiting[c.Token.(int)] = "join"
	} else {
		m.saw(resp, instance)
	}
	m.done(e)
}

func (m *classicModel) sync(id string, generation int32) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = "g", id, generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("a")
	if cg, ok := m.g.groups["g"].(*classicGroup); ok {
		req.Protocol = &cg.protocol
		for _, member := range cg.order {
			m.assigned++
			x := kmsg.NewSyncGroupRequestGroupAssignment()
			x.MemberID, x.MemberAssignment = member, fmt.Append(nil, m.assigned)
			req.GroupAssignment = append(req.GroupAssignment, x)
		}
	}
	c, e := m.caller(5), Effects{}
	resp := m.g.SyncGroup(m.now, c, req, &e)
	if resp == nil {
		m.waiting[c.Token.(int)] = "sync"
	} else if resp.ErrorCode == errorcode.None {
		m.sawAssignment(id, generation, resp.MemberAssignment)
	}
	m.done(e)
}

// saw checks an answer to a JoinGroup against all before.
func (m *classicModel) saw(resp *kmsg.JoinGroupResponse, instance *string) {
	if resp.MemberID != "" && !slices.Contains(m.members, resp.MemberID) {
		m.members = append(m.members, resp.MemberID)
		if instance != nil {
			m.slots[resp.MemberID] = *instance
		}
	}
	if resp.ErrorCode != errorcode.None {
		return
	}
	require.GreaterOrEqual(m.t, resp.Generation, m.generation, "generations only grow")
	m.generation = resp.Generation
	if len(resp.Members) == 0 {
		return
	}
	require.Equal(m.t, resp.LeaderID, resp.MemberID, "only the leader sees the members")
	if leader, ok := m.leaders[resp.Generation]; ok {
		require.Equal(m.t, leader, m.slot(resp.MemberID), "generation %d has two leaders", resp.Generation)
	}
	m.leaders[resp.Generation] = m.slot(resp.MemberID)
}

func (m *classicModel) sawAssignment(id string, generation int32, assignment []byte) {
	key := fmt.Sprint(generation, " ", m.slot(id))
	if before, ok := m.assignments[key]; ok {
		require.Equal(m.t, before, assignment, "member %s got two assignments in generation %d", id, generation)
	}
	m.assignments[key] = assignment
}

// done takes the effects of a call: each parked request is answered once.
func (m *classicModel) done(e Effects) {
	m.log.append(e)
	for _, c := range e.Completed {
		token := c.Token.(int)
		require.Contains(m.t, m.waiting, token, "answered without waiting")
		delete(m.waiting, token)
		if join, ok := c.Response.(*kmsg.JoinGroupResponse); ok {
			var instance *string
			if cg, ok := m.g.groups["g"].(*classicGroup); ok && cg.members[join.MemberID] != nil {
				instance = cg.members[join.MemberID].instance
			}
			m.saw(join, instance)
		}
	}
	m.check()
}

// check holds the group to its invariants.
func (m *classicModel) check() {
	cg, ok := m.g.groups["g"].(*classicGroup)
	if !ok {
		return
	}
	awaiting, static := 0, 0
	for id, member := range cg.members {
		require.Equal(m.t, id, member.id)
		require.NotContains(m.t, cg.pendingJoin, id)
		require.True(m.t, member.join == nil || member.sync == nil, "a member waits for two answers")
		if member.join != nil {
			awaiting++
		}
		if member.instance != nil {
			static++
			require.Equal(m.t, id, cg.instances[*member.instance])
		}
		if !member.beatSatisfied() {
			require.True(m.t, m.g.timers.scheduled("g", classicSessionTimer(id)), "%s would stay for ever", id)
		}
	}
	require.Equal(m.t, awaiting, cg.awaitingJoin)
	require.Len(m.t, cg.instances, static)
	require.Len(m.t, cg.order, len(cg.members))
	require.Equal(m.t, len(cg.members) == 0, cg.leader == "")
	if cg.leader != "" {
		require.Contains(m.t, cg.members, cg.leader)
	}
	for id := range cg.pendingSync {
		require.Contains(m.t, cg.members, id)
	}
	if len(cg.members) == 0 && cg.current != classicPreparing {
		require.Equal(m.t, classicEmpty, cg.current)
	}
	for _, member := range cg.members {
		switch cg.current {
		case classicPreparing:
			require.Nil(m.t, member.sync, "a SyncGroup waits while members join")
		case classicCompleting, classicStable:
			require.Nil(m.t, member.join, "a JoinGroup waits though the generation is complete")
		}
		if cg.current == classicStable {
			require.Nil(m.t, member.sync, "a SyncGroup waits though the assignments are known")
		}
	}
}

// advance lets time pass, stopping at every deadline.
func (m *classicModel) advance(d time.Duration) {
	end := m.now.Add(d)
	for range 100_000 {
		due, ok := m.g.NextDeadline()
		if !ok || due.After(end) {
			m.now = end
			return
		}
		if due.After(m.now) {
			m.now = due
		}
		var e Effects
		m.g.Expire(m.now, &e)
		m.done(e)
	}
	m.t.Fatalf("deadlines come for ever")
}

// restart drops the coordinator and replays what it recorded.
func (m *classicModel) restart() {
	var e Effects
	for p := range m.config.Partitions {
		m.g.Unload(p, &e)
	}
	m.done(e)
	require.Empty(m.t, m.waiting)
	m.g = m.log.replay(m.t, m.now, m.config, testTopics{})
	m.generation, m.leaders, m.assignments = 0, map[int32]string{}, map[string][]byte{}
	m.check()
}

func TestClassicGroupRandomly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := testConfig()
		config.GroupMaxSize = rapid.IntRange(2, 6).Draw(t, "group.max.size")
		config.InitialRebalanceDelay = time.Duration(max(0, rapid.IntRange(-3, 2).Draw(t, "delay"))) * time.Second
		m := &classicModel{
			t: t, now: epoch, config: config, g: New(config, testTopics{}), waiting: map[int]string{},
			slots: map[string]string{}, leaders: map[int32]string{}, assignments: map[string][]byte{},
		}
		member := func() (id string, instance *string) {
			if len(m.members) == 0 {
				return "nobody", nil
			}
			ids := m.members[max(0, len(m.members)-6):]
			if cg, ok := m.g.groups["g"].(*classicGroup); ok && len(cg.order) > 0 && rapid.IntRange(0, 3).Draw(t, "present") > 0 {
				ids = cg.order
			}
			id = rapid.SampledFrom(ids).Draw(t, "member")
			if s := m.slots[id]; s != "" && rapid.Bool().Draw(t, "with instance") {
				instance = &s
			}
			return id, instance
		}
		generation := func() int32 { return m.generation - int32(rapid.IntRange(0, 5).Draw(t, "old")/5) }
		t.Repeat(map[string]func(*rapid.T){
			"join v3": func(*rapid.T) { m.join(3, "", nil) },
			"join v9": func(t *rapid.T) {
				m.join(9, "", nil)
				if cg, ok := m.g.groups["g"].(*classicGroup); ok && rapid.IntRange(0, 4).Draw(t, "at once") > 0 {
					for _, id := range slices.Sorted(maps.Keys(cg.pendingJoin)) {
						m.join(9, id, nil)
					}
				}
			},
			"join static": func(t *rapid.T) {
				m.join(9, "", rapid.SampledFrom([]*string{ptr("i1"), ptr("i2")}).Draw(t, "instance"))
			},
			"rejoin": func(*rapid.T) {
				id, instance := member()
				m.join(9, id, instance)
			},
			"sync": func(*rapid.T) {
				id, _ := member()
				m.sync(id, generation())
			},
			"sync leader": func(*rapid.T) {
				if cg, ok := m.g.groups["g"].(*classicGroup); ok && cg.current == classicCompleting {
					m.sync(cg.leader, cg.generation)
				}
			},
			"sync follower": func(*rapid.T) {
				if cg, ok := m.g.groups["g"].(*classicGroup); ok && cg.current == classicCompleting {
					m.sync(rapid.SampledFrom(cg.order).Draw(t, "follower"), cg.generation)
				}
			},
			"rejoin all": func(t *rapid.T) {
				if cg, ok := m.g.groups["g"].(*classicGroup); ok {
					for _, x := range cg.ordered() {
						if x.join == nil && rapid.IntRange(0, 5).Draw(t, "rejoins") > 0 {
							m.join(9, x.id, x.instance)
						}
					}
				}
			},
			"heartbeat": func(*rapid.T) {
				req := kmsg.NewPtrHeartbeatRequest()
				req.Group, req.Generation = "g", generation()
				req.MemberID, req.InstanceID = member()
				var e Effects
				m.g.Heartbeat(m.now, m.caller(4), req, &e)
				m.done(e)
			},
			"leave": func(*rapid.T) {
				req := kmsg.NewPtrLeaveGroupRequest()
				req.Group = "g"
				var x kmsg.LeaveGroupRequestMember
				x.MemberID, x.InstanceID = member()
				req.Members = append(req.Members, x)
				var e Effects
				m.g.LeaveGroup(m.now, m.caller(5), req, &e)
				m.done(e)
			},
			"advance": func(t *rapid.T) {
				m.advance(time.Duration(rapid.SampledFrom([]int{0, 1, 1000, 2000, 7000}).Draw(t, "ms")) * time.Millisecond)
			},
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 4).Draw(t, "really") == 0 {
					m.restart()
				}
			},
		})
		// Whoever waits is answered though nobody does anything any more.
		m.advance(newMemberJoinTimeout + time.Minute)
		require.Empty(t, m.waiting)
		m.restart()
	})
}

func ptr[T any](x T) *T { return &x }
