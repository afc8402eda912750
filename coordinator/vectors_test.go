package coordinator

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// recorded is a line of testdata: a topic, or a request to an Apache Kafka 4.4.0 and what it answered. The
// frames are without their lengths.
type recorded struct {
	Topic      string
	ID         string
	Partitions int32

	Step, Conn   string
	Key, Version int16
	Start        float64 `json:"start_ms"`
	End          float64 `json:"end_ms"`
	Request      string
	Response     *string
}

// answer is when and how a step was answered here.
type answer struct {
	at       time.Time
	response kmsg.Response
}

// player plays a recorded session on a coordinator at the recorded times.
type player struct {
	t       *testing.T
	g       *Groups
	log     recordLog
	uuid    [16]byte
	answers map[string]answer
}

var epoch = time.UnixMilli(1_800_000_000_000)

func at(ms float64) time.Time { return epoch.Add(time.Duration(ms * float64(time.Millisecond))) }

// TestVectors plays what was recorded from Apache Kafka 4.4.0 and compares every answer, field by field, and
// every wait. The ids of members are given to the coordinator as they were recorded; the order of groups and
// members within an answer, which is that of a hash map there, is not compared.
func TestVectors(t *testing.T) {
	for _, name := range []string{"groups", "classic", "classic-limits", "rebalance"} {
		t.Run(name, func(t *testing.T) {
			config := testConfig()
			if name == "classic-limits" {
				config.GroupMaxSize, config.InitialRebalanceDelay = 2, time.Second
			}
			play(t, config, readVectors(t, name))
		})
	}
}

func readVectors(t *testing.T, name string) []recorded {
	data, err := os.ReadFile("testdata/" + name + ".jsonl")
	require.NoError(t, err)
	var steps []recorded
	for line := range bytes.Lines(data) {
		var r recorded
		require.NoError(t, json.Unmarshal(line, &r))
		steps = append(steps, r)
	}
	slices.SortStableFunc(steps, func(a, b recorded) int { return cmp.Compare(a.Start, b.Start) })
	return steps
}

func play(t *testing.T, config Config, steps []recorded) {
	p := &player{t: t, answers: map[string]answer{}}
	config.NewUUID = func() [16]byte { return p.uuid }
	topics := testTopics{}
	p.g = New(config, topics)
	for _, r := range steps {
		if r.Topic != "" {
			id, err := base64.RawURLEncoding.DecodeString(r.ID)
			require.NoError(t, err)
			topics.add(Topic{Name: r.Topic, ID: [16]byte(id), Partitions: r.Partitions})
			continue
		}
		p.expireUntil(at(r.Start))
		if r.Step == "gone-describe" {
			p.joinGone(r)
		}
		p.send(r)
		p.compareReplayed(at(r.Start), config)
	}
	p.expireUntil(at(steps[len(steps)-1].End))
	compared := 0
	for _, r := range steps {
		if r.Topic == "" {
			p.compare(r)
			compared++
		}
	}
	t.Logf("%d steps agree", compared)
}

// expireUntil lets everything happen that is due until a time.
func (p *player) expireUntil(now time.Time) {
	for {
		due, ok := p.g.NextDeadline()
		if !ok || due.After(now) {
			return
		}
		var e Effects
		p.g.Expire(due, &e)
		p.done(due, e)
	}
}

func (p *player) done(now time.Time, e Effects) {
	p.log.append(e)
	for _, c := range e.Completed {
		step := c.Token.(string)
		require.NotContains(p.t, p.answers, step, "answered twice")
		p.answers[step] = answer{now, c.Response}
	}
}

func (p *player) send(r recorded) {
	req, body := decodeRequest(p.t, r)
	require.NoError(p.t, req.ReadFrom(body), r.Step)
	if want, ok := decodeResponse(p.t, r, req).(*kmsg.JoinGroupResponse); ok {
		p.takeUUID(want.MemberID)
	}
	now, e := at(r.Start), Effects{}
	caller := Caller{ClientID: "wirecap", ClientHost: "/127.0.0.1", Version: r.Version, Token: r.Step}
	if resp := serve(p.g, now, caller, req, &e); resp != nil {
		p.answers[r.Step] = answer{now, resp}
	}
	p.done(now, e)
}

// takeUUID lets the next member id end with the UUID that a recorded one ends with.
func (p *player) takeUUID(memberID string) {
	if len(memberID) < 36 {
		return
	}
	id, err := hex.DecodeString(strings.ReplaceAll(memberID[len(memberID)-36:], "-", ""))
	require.NoError(p.t, err)
	p.uuid = [16]byte(id)
}

// joinGone plays a JoinGroup that was not recorded because its connection was closed: the second member that
// the recorded description shows.
func (p *player) joinGone(r recorded) {
	req, body := decodeRequest(p.t, r)
	require.NoError(p.t, req.ReadFrom(body))
	described := decodeResponse(p.t, r, req).(*kmsg.DescribeGroupsResponse).Groups[0]
	cg := p.g.groups["gone"].(*classicGroup)
	for _, m := range described.Members {
		if cg.members[m.MemberID] == nil {
			p.takeUUID(m.MemberID)
		}
	}
	var e Effects
	first := cg.ordered()[0]
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.Protocols = "gone", "consumer", first.protocols
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 6000, 3000
	caller := Caller{ClientID: "wirecap", ClientHost: "/127.0.0.1", Version: 3, Token: "gone-closed"}
	require.Nil(p.t, p.g.JoinGroup(at(r.Start-200), caller, join, &e))
	p.done(at(r.Start-200), e)
}

func (p *player) compare(r recorded) {
	req, body := decodeRequest(p.t, r)
	require.NoError(p.t, req.ReadFrom(body))
	got, ok := p.answers[r.Step]
	require.True(p.t, ok, "%s: not answered", r.Step)
	if r.Response == nil {
		// Kafka never answers a JoinGroup whose member joined again over another connection.
		join := got.response.(*kmsg.JoinGroupResponse)
		require.Equal(p.t, errorcode.RebalanceInProgress, join.ErrorCode, r.Step)
		return
	}
	want := decodeResponse(p.t, r, req)
	have := req.ResponseKind()
	require.NoError(p.t, have.ReadFrom(got.response.AppendTo(nil)), r.Step)
	require.Equal(p.t, r.Version, got.response.GetVersion(), r.Step)
	sortAnswer(want)
	sortAnswer(have)
	require.Equal(p.t, want, have, "%s v%d", r.Step, r.Version)
	late := at(r.End).Sub(got.at)
	require.True(p.t, late > -2*time.Millisecond && late < 250*time.Millisecond, "%s: answered %s before the recorded answer", r.Step, late)
}

func decodeRequest(t *testing.T, r recorded) (kmsg.Request, []byte) {
	frame, err := hex.DecodeString(r.Request)
	require.NoError(t, err)
	req := protocol.RequestForKey(r.Key)
	req.SetVersion(r.Version)
	h, err := protocol.ParseRequestStart(frame)
	require.NoError(t, err)
	body, err := protocol.ParseRequestRest(&h, frame, req.IsFlexible())
	require.NoError(t, err)
	return req, body
}

func decodeResponse(t *testing.T, r recorded, req kmsg.Request) kmsg.Response {
	if r.Response == nil {
		return nil
	}
	frame, err := hex.DecodeString(*r.Response)
	require.NoError(t, err)
	resp := req.ResponseKind()
	frame = frame[4:]
	if resp.IsFlexible() {
		frame = frame[1:]
	}
	require.NoError(t, resp.ReadFrom(frame))
	return resp
}

// serve hands a request to its method.
func serve(g *Groups, now time.Time, c Caller, req kmsg.Request, e *Effects) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		if resp := g.JoinGroup(now, c, req, e); resp != nil {
			return resp
		}
	case *kmsg.SyncGroupRequest:
		if resp := g.SyncGroup(now, c, req, e); resp != nil {
			return resp
		}
	case *kmsg.HeartbeatRequest:
		return g.Heartbeat(now, c, req, e)
	case *kmsg.LeaveGroupRequest:
		return g.LeaveGroup(now, c, req, e)
	case *kmsg.OffsetCommitRequest:
		return g.OffsetCommit(now, c, req, e)
	case *kmsg.TxnOffsetCommitRequest:
		return g.TxnOffsetCommit(now, c, req, func() int16 { return errorcode.None }, e)
	case *kmsg.OffsetFetchRequest:
		return g.OffsetFetch(c, req)
	case *kmsg.OffsetDeleteRequest:
		return g.OffsetDelete(c, req, e)
	case *kmsg.ListGroupsRequest:
		return g.ListGroups(c, req)
	case *kmsg.DescribeGroupsRequest:
		return g.DescribeGroups(c, req)
	case *kmsg.DeleteGroupsRequest:
		return g.DeleteGroups(c, req, e)
	default:
		panic("no group request")
	}
	return nil
}

// sortAnswer sorts what has no order.
func sortAnswer(resp kmsg.Response) {
	switch resp := resp.(type) {
	case *kmsg.JoinGroupResponse:
		sortBy(resp.Members, func(m kmsg.JoinGroupResponseMember) string { return m.MemberID })
	case *kmsg.ListGroupsResponse:
		sortBy(resp.Groups, func(g kmsg.ListGroupsResponseGroup) string { return g.Group })
	case *kmsg.DeleteGroupsResponse:
		sortBy(resp.Groups, func(g kmsg.DeleteGroupsResponseGroup) string { return g.Group })
	case *kmsg.DescribeGroupsResponse:
		sortBy(resp.Groups, func(g kmsg.DescribeGroupsResponseGroup) string { return g.Group })
		for _, g := range resp.Groups {
			sortBy(g.Members, func(m kmsg.DescribeGroupsResponseGroupMember) string { return m.MemberID })
		}
	}
}

func sortBy[T any](s []T, key func(T) string) {
	slices.SortFunc(s, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}

// compareReplayed checks that a restart brings back what is to last: offsets, and the groups that are stable or
// empty.
func (p *player) compareReplayed(now time.Time, config Config) {
	again := p.log.replay(p.t, now, config, p.g.topics)
	require.Equal(p.t, withoutSeq(p.g.offsets), withoutSeq(again.offsets))
	described := func(g *Groups, id string) []byte {
		resp := kmsg.DescribeGroupsResponse{Version: 6}
		resp.Groups = append(resp.Groups, g.describeClassic(Caller{Version: 6}, id))
		return resp.AppendTo(nil)
	}
	for _, gr := range p.g.sorted() {
		require.Contains(p.t, again.groups, gr.id())
		if gr.state() == string(classicStable) {
			require.Equal(p.t, described(p.g, gr.id()), described(again, gr.id()))
			require.Equal(p.t, gr.(*classicGroup).generation, again.groups[gr.id()].(*classicGroup).generation)
			require.Equal(p.t, gr.(*classicGroup).leader, again.groups[gr.id()].(*classicGroup).leader)
		}
	}
}

func withoutSeq(o *offsets) map[string]map[partitionName]committedOffset {
	all := map[string]map[partitionName]committedOffset{}
	for group, of := range o.groups {
		all[group] = map[partitionName]committedOffset{}
		for p, x := range of.committed {
			x.seq = 0
			all[group][p] = x
		}
	}
	return all
}
