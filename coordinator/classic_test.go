package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// desk sends requests to a coordinator and keeps the answers of parked ones.
type desk struct {
	t      *testing.T
	g      *Groups
	now    time.Time
	log    recordLog
	parked map[string]kmsg.Response // by token, once answered
	auth   Authorizer
}

func newDesk(t *testing.T, config Config, topics ...Topic) *desk {
	known := testTopics{}
	for _, topic := range topics {
		known.add(topic)
	}
	d := &desk{t: t, g: New(config, known), now: epoch, parked: map[string]kmsg.Response{}}
	var e Effects
	for p := range config.Partitions {
		d.g.Loaded(d.now, p, &e)
	}
	return d
}

// send returns nil if the request is parked under the token.
func (d *desk) send(version int16, token string, req kmsg.Request) kmsg.Response {
	var e Effects
	c := Caller{ClientID: "c", ClientHost: "/127.0.0.1", Version: version, Token: token, Auth: d.auth}
	resp := serve(d.g, d.now, c, req, &e)
	d.done(e)
	return resp
}

func (d *desk) done(e Effects) {
	d.log.append(e)
	for _, c := range e.Completed {
		d.parked[c.Token.(string)] = c.Response
	}
}

// advance lets time pass, stopping at every deadline.
func (d *desk) advance(by time.Duration) {
	end := d.now.Add(by)
	for {
		due, ok := d.g.NextDeadline()
		if !ok || due.After(end) {
			d.now = end
			return
		}
		d.now = due
		var e Effects
		d.g.Expire(due, &e)
		d.done(e)
	}
}

// restart replays what was recorded into a new coordinator.
func (d *desk) restart() {
	d.g = d.log.replay(d.t, d.now, d.g.config, d.g.topics)
}

func joinRequest(group, member string, instance *string, protocols ...string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = group, member, instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 3_000
	for _, p := range protocols {
		metadata := kmsg.NewConsumerMemberMetadata()
		metadata.Topics = []string{"t"}
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: metadata.AppendTo(nil)})
	}
	return req
}

func syncRequest(group, member string, generation int32, assignments ...string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	for _, id := range assignments {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{
			MemberID: id, MemberAssignment: []byte("for " + id),
		})
	}
	return req
}

// stable makes a group of one member, as of version 3, and returns the member's id.
func (d *desk) stable(group string, instance *string) string {
	version := int16(3)
	if instance != nil {
		version = 5
	}
	join := d.send(version, "join "+group, joinRequest(group, "", instance, "range")).(*kmsg.JoinGroupResponse)
	require.Equal(d.t, errorcode.None, join.ErrorCode)
	sync := d.send(3, "sync "+group, syncRequest(group, join.MemberID, join.Generation, join.MemberID)).(*kmsg.SyncGroupResponse)
	require.Equal(d.t, errorcode.None, sync.ErrorCode)
	return join.MemberID
}

func (d *desk) describe(group string) kmsg.DescribeGroupsResponseGroup {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	return d.send(6, "", req).(*kmsg.DescribeGroupsResponse).Groups[0]
}

func (d *desk) heartbeat(group, member string, generation int32) int16 {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	return d.send(4, "", req).(*kmsg.HeartbeatResponse).ErrorCode
}

// two makes a group of a leader and a follower whose SyncGroup waits under the token "sync b".
func two(d *desk, instance *string) (leader, follower string) {
	leader = d.stable("g", nil)
	version := int16(3)
	if instance != nil {
		version = 5
	}
	require.Nil(d.t, d.send(version, "join b", joinRequest("g", "", instance, "range")))
	again := d.send(3, "join a", joinRequest("g", leader, nil, "range")).(*kmsg.JoinGroupResponse)
	require.Equal(d.t, int32(2), again.Generation)
	follower = d.parked["join b"].(*kmsg.JoinGroupResponse).MemberID
	require.Nil(d.t, d.send(3, "sync b", syncRequest("g", follower, 2)))
	return leader, follower
}

func TestSupersededRequestsAreAnswered(t *testing.T) {
	t.Run("join", func(t *testing.T) {
		d := newDesk(t, testConfig())
		d.stable("g", nil)
		require.Nil(t, d.send(3, "first", joinRequest("g", "", nil, "range")))
		id := d.g.groups["g"].(*classicGroup).order[1]
		require.Nil(t, d.send(3, "second", joinRequest("g", id, nil, "range")))
		first := d.parked["first"].(*kmsg.JoinGroupResponse)
		assert.Equal(t, errorcode.RebalanceInProgress, first.ErrorCode)
		assert.NotContains(t, d.parked, "second")
		d.advance(3 * time.Second)
		assert.Equal(t, errorcode.None, d.parked["second"].(*kmsg.JoinGroupResponse).ErrorCode)
	})
	t.Run("sync", func(t *testing.T) {
		d := newDesk(t, testConfig())
		leader, follower := two(d, nil)
		require.Nil(t, d.send(3, "sync b again", syncRequest("g", follower, 2)))
		assert.Equal(t, errorcode.RebalanceInProgress, d.parked["sync b"].(*kmsg.SyncGroupResponse).ErrorCode)
		d.send(3, "", syncRequest("g", leader, 2, leader, follower))
		assert.Equal(t, []byte("for "+follower), d.parked["sync b again"].(*kmsg.SyncGroupResponse).MemberAssignment)
	})
}

func TestWhatEndsAWaitingSyncGroup(t *testing.T) {
	for _, tt := range []struct {
		name     string
		instance *string
		do       func(d *desk, leader, follower string)
		code     int16
	}{
		{"its member leaves", nil, func(d *desk, _, follower string) {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.MemberID = "g", follower
			d.send(0, "", req)
		}, errorcode.UnknownMemberID},
		{"the leader leaves", nil, func(d *desk, leader, _ string) {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.MemberID = "g", leader
			d.send(0, "", req)
		}, errorcode.RebalanceInProgress},
		{"its static member is started again", ptr("i"), func(d *desk, _, _ string) {
			require.Nil(d.t, d.send(5, "join i", joinRequest("g", "", ptr("i"), "range")))
		}, errorcode.FencedInstanceID},
		{"the leader never syncs", nil, func(d *desk, _, _ string) { d.advance(3 * time.Second) }, errorcode.RebalanceInProgress},
		{"its coordinator moves", nil, func(d *desk, _, _ string) {
			var e Effects
			d.g.Unload(d.g.PartitionFor("g"), &e)
			d.done(e)
		}, errorcode.NotCoordinator},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, testConfig())
			leader, follower := two(d, tt.instance)
			tt.do(d, leader, follower)
			require.Contains(t, d.parked, "sync b")
			assert.Equal(t, tt.code, d.parked["sync b"].(*kmsg.SyncGroupResponse).ErrorCode)
		})
	}
}

func TestMembersWaitWithoutHeartbeats(t *testing.T) {
	d := newDesk(t, testConfig())
	leader := d.stable("g", nil)
	slow := joinRequest("g", leader, nil, "range")
	slow.RebalanceTimeoutMillis = 60_000
	require.Equal(t, int32(2), d.send(3, "", slow).(*kmsg.JoinGroupResponse).Generation)
	d.send(3, "", syncRequest("g", leader, 2, leader))

	// A joiner that waits for 60 s outlives its session of 10 s; one that left without a word does not.
	require.Nil(t, d.send(3, "joiner", joinRequest("g", "", nil, "range")))
	d.advance(9 * time.Second)
	assert.Equal(t, errorcode.RebalanceInProgress, d.heartbeat("g", leader, 2))
	d.advance(10*time.Second - time.Millisecond)
	assert.NotContains(t, d.parked, "joiner")
	d.advance(time.Millisecond)
	joined := d.parked["joiner"].(*kmsg.JoinGroupResponse)
	assert.Equal(t, int32(3), joined.Generation)
	assert.Equal(t, joined.MemberID, joined.LeaderID)
	assert.Equal(t, errorcode.UnknownMemberID, d.heartbeat("g", leader, 2))
}

func TestNewMemberIsNotWaitedForLongerThanFiveMinutes(t *testing.T) {
	d := newDesk(t, testConfig())
	leader := d.stable("g", nil)
	slow := joinRequest("g", leader, nil, "range")
	slow.RebalanceTimeoutMillis = 3_600_000
	d.send(3, "", slow)
	d.send(3, "", syncRequest("g", leader, 2, leader))
	require.Nil(t, d.send(3, "joiner", joinRequest("g", "", nil, "range")))
	for range 60 {
		d.advance(5 * time.Second)
		d.heartbeat("g", leader, 2)
	}
	joined := d.parked["joiner"].(*kmsg.JoinGroupResponse)
	assert.Equal(t, errorcode.UnknownMemberID, joined.ErrorCode)
	assert.Empty(t, joined.MemberID)
}

func TestRestart(t *testing.T) {
	d := newDesk(t, testConfig())
	member := d.stable("stable", nil)
	static := d.stable("static", ptr("i"))
	unsynced := d.send(3, "", joinRequest("unsynced", "", nil, "range")).(*kmsg.JoinGroupResponse).MemberID
	pending := d.send(9, "", joinRequest("pending", "", nil, "range")).(*kmsg.JoinGroupResponse).MemberID
	before := d.describe("stable")

	d.advance(2 * time.Second)
	d.restart()

	assert.Equal(t, before, d.describe("stable"))
	for _, group := range []string{"unsynced", "pending"} {
		x := d.describe(group)
		assert.Equal(t, "Empty", x.State, group)
		assert.Empty(t, x.ProtocolType, group)
	}
	assert.Equal(t, errorcode.UnknownMemberID, d.heartbeat("unsynced", unsynced, 1))
	join := d.send(9, "", joinRequest("pending", pending, nil, "range")).(*kmsg.JoinGroupResponse)
	assert.Equal(t, errorcode.UnknownMemberID, join.ErrorCode)

	// The sessions of 10 s began anew.
	d.advance(9 * time.Second)
	assert.Equal(t, errorcode.None, d.heartbeat("stable", member, 1))
	d.advance(2 * time.Second)
	assert.Equal(t, "Stable", d.describe("stable").State)
	assert.Equal(t, "Empty", d.describe("static").State)
	assert.Equal(t, errorcode.UnknownMemberID, d.heartbeat("static", static, 1))

	// A follower that lost the answer is told the same assignment.
	sync := d.send(5, "", func() kmsg.Request {
		req := syncRequest("stable", member, 1)
		req.ProtocolType, req.Protocol = ptr("consumer"), ptr("range")
		return req
	}()).(*kmsg.SyncGroupResponse)
	assert.Equal(t, []byte("for "+member), sync.MemberAssignment)
}

func TestRestartWithASmallerLimit(t *testing.T) {
	d := newDesk(t, testConfig())
	leader, follower := two(d, nil)
	d.send(3, "", syncRequest("g", leader, 2, leader, follower))
	d.g.config.GroupMaxSize = 1
	d.restart()
	assert.Equal(t, "PreparingRebalance", d.describe("g").State)
	require.Nil(t, d.send(3, "b", joinRequest("g", follower, nil, "range")))
	full := d.send(3, "", joinRequest("g", leader, nil, "range")).(*kmsg.JoinGroupResponse)
	assert.Equal(t, errorcode.GroupMaxSizeReached, full.ErrorCode)
}

func TestTombstoneRemovesAGroup(t *testing.T) {
	d := newDesk(t, testConfig())
	member := d.stable("g", nil)
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = "g", member
	d.send(0, "", req)
	drop := kmsg.NewPtrDeleteGroupsRequest()
	drop.Groups = []string{"g"}
	assert.Equal(t, errorcode.None, d.send(3, "", drop).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)
	d.restart()
	assert.Empty(t, d.g.groups)
}

func TestReplayRefusesWhatItCannotRead(t *testing.T) {
	group := appendGroupMetadataKey("g")
	offset := appendOffsetKey("g", partitionName{"t", 0})
	for _, tt := range []struct {
		name       string
		key, value []byte
		fails      bool
	}{
		{"empty key", nil, nil, true},
		{"short key", []byte{0, 2, 0}, nil, true},
		{"group value of version 9", group, []byte{0, 9}, true},
		{"group value cut short", group, []byte{0, 3, 0}, true},
		{"empty group value", group, []byte{}, true},
		{"offset value of version -1", offset, []byte{0xff, 0xff}, true},
		{"offset value cut short", offset, []byte{0, 4, 0, 0}, true},
		{"streams group", []byte{0, 17, 0}, nil, false},
		{"unknown type", []byte{0x7f, 0xff}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := New(testConfig(), testTopics{}).Replay(noProducerID, tt.key, tt.value)
			assert.Equal(t, tt.fails, err != nil, "%v", err)
		})
	}
}

func TestSubscribedTopics(t *testing.T) {
	whole := kmsg.NewConsumerMemberMetadata()
	whole.Version, whole.Topics, whole.UserData = 3, []string{"a", "b"}, []byte("data")
	for _, tt := range []struct {
		name     string
		metadata []byte
		topics   []string
		ok       bool
	}{
		{"version 3", whole.AppendTo(nil), []string{"a", "b"}, true},
		{"version 9, nothing behind version 0", []byte{0, 9, 0, 0, 0, 1, 0, 1, 'a', 0xff, 0xff, 0xff, 0xff}, []string{"a"}, true},
		{"no topics", []byte{0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, nil, true},
		{"nothing", nil, nil, false},
		{"negative version", []byte{0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, nil, false},
		{"more topics than bytes", []byte{0, 0, 0x7f, 0xff, 0xff, 0xff}, nil, false},
		{"no user data", []byte{0, 0, 0, 0, 0, 0}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			topics, ok := subscribedTopics(tt.metadata)
			assert.Equal(t, tt.ok, ok)
			if ok {
				assert.Equal(t, tt.topics, topics)
			}
		})
	}
}
