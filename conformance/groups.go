package conformance

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// groupRules are about consumer groups, of KIP-848 and classic ones, and about Fetch.
var groupRules = []Rule{
	{ID: "group.next.join.1", Level: Must, Source: "KIP-848", Says: "A heartbeat with the epoch 0 has a rebalance timeout, a subscription, and no partition that is owned.", checks: onNext(
		func(x *exam, r *request, q *kmsg.ConsumerGroupHeartbeatRequest, m *nextMember) {
			if q.MemberEpoch != 0 {
				return
			}
			x.expect(q.RebalanceTimeoutMillis >= 0 && (q.SubscribedTopicNames != nil || q.SubscribedTopicRegex != nil) && q.Topics != nil && len(q.Topics) == 0, nil,
				"RebalanceTimeoutMs is %d, SubscribedTopicNames %s, TopicPartitions %s", q.RebalanceTimeoutMillis, listText(q.SubscribedTopicNames == nil, len(q.SubscribedTopicNames)), listText(q.Topics == nil, len(q.Topics)))
		})},
	{ID: "group.next.id.1", Level: Must, Source: "KIP-1082", Says: "From version 1 on a consumer makes its own member id, and keeps it when it is fenced.", checks: onNext(
		func(x *exam, r *request, q *kmsg.ConsumerGroupHeartbeatRequest, m *nextMember) {
			if q.Version < 1 || q.MemberEpoch != 0 {
				return
			}
			last := r.conn.nextBeats
			switch {
			case q.MemberID == "":
				x.wrong(nil, "MemberId is empty")
			case last != nil && last != m && last.group == m.group && last.fenced.is() && !m.told.is():
				x.wrong([]int{last.fenced.no}, "the member %q was fenced on this connection and comes back as %q", last.id, m.id)
			default:
				x.right()
			}
		})},
	{ID: "group.next.epoch.1", Level: Must, Source: "KIP-848", Says: "A heartbeat carries the epoch of the last answer, 0 to join, -1 or -2 to leave.", checks: onNext(
		func(x *exam, r *request, q *kmsg.ConsumerGroupHeartbeatRequest, m *nextMember) {
			switch {
			case q.MemberEpoch <= 0:
				x.expect(q.MemberEpoch >= -2, nil, "the epoch is %d", q.MemberEpoch)
			case !m.told.is() || m.fenced.is():
				x.wrong([]int{m.fenced.no}, "the epoch is %d, and the member is to join with 0", q.MemberEpoch)
			default:
				unread := m.over != nil && m.over.gone || !x.old(m.told)
				x.expect(q.MemberEpoch == m.epoch || unread && q.MemberEpoch == m.before, []int{m.told.no}, "the epoch is %d, the last answer had %d", q.MemberEpoch, m.epoch)
			}
		})},
	{ID: "group.next.null.1", Level: Should, Source: "KIP-848", Says: "What has not changed is null in heartbeats that keep the membership.", checks: onNext(
		func(x *exam, r *request, q *kmsg.ConsumerGroupHeartbeatRequest, m *nextMember) {
			if q.MemberEpoch <= 0 || !m.told.is() || m.failed {
				return
			}
			repeated := ""
			switch {
			case q.SubscribedTopicNames != nil && m.names != nil && sameNames(q.SubscribedTopicNames, m.names):
				repeated = "SubscribedTopicNames"
			case q.Topics != nil && m.reports > 0 && !m.unconfirmed && samePartitions(partitionsOf(q.Topics), m.reported):
				repeated = "TopicPartitions"
			}
			x.expect(repeated == "", nil, "%s repeats what the broker knows", repeated)
		})},
	{ID: "group.next.own.1", Level: Must, Source: "KIP-848", Says: "A partition is reported as given up only when it is fetched no more.", checks: onFetchOf(
		func(x *exam, r *request, f *fetchView, m *nextMember) {
			for _, tp := range f.partitions {
				if at, was := m.dropped[tp]; was && x.old(at) {
					x.wrong([]int{at.no}, "%s is fetched, and a heartbeat has said that the member does not own it any more", x.part(tp))
					return
				}
			}
			if len(m.dropped) > 0 {
				x.right()
			}
		})},
	{ID: "group.next.revoke.1", Level: Must, Source: "KIP-848", Says: "A partition that was taken away is fetched no more.", checks: onFetchOf(
		func(x *exam, r *request, f *fetchView, m *nextMember) {
			for _, tp := range f.partitions {
				if at, was := m.gone[tp]; was && x.old(at) {
					x.wrong([]int{at.no}, "%s is fetched, and the assignment has it no more", x.part(tp))
					return
				}
			}
			if len(m.gone) > 0 {
				x.right()
			}
		})},
	{ID: "group.classic.join.1", Level: Must, Source: "KIP-394", Says: "After MEMBER_ID_REQUIRED a consumer joins with the id that it was given.", checks: on(func(x *exam, r *request, q *kmsg.JoinGroupRequest) {
		given, ok := r.conn.given[q.Group]
		if ok {
			x.expect(q.MemberID == given.id, []int{given.no}, "MemberId is %q, the answer gave %q", q.MemberID, given.id)
		}
	})},
	{ID: "group.classic.sync.1", Level: Must, Source: "KIP-62", Says: "The leader's SyncGroup has an assignment for every member, that of a follower is empty.", checks: on(func(x *exam, r *request, q *kmsg.SyncGroupRequest) {
		m, ok := x.groups.classic.get(memberKey{q.Group, q.MemberID})
		if !ok || m.generation != q.Generation {
			return
		}
		if !m.leads {
			x.expect(len(q.GroupAssignment) == 0 || m.skip, []int{m.told.no}, "a follower's SyncGroup has %d assignments", len(q.GroupAssignment))
			return
		}
		for _, id := range m.members {
			if !slices.ContainsFunc(q.GroupAssignment, func(a kmsg.SyncGroupRequestGroupAssignment) bool { return a.MemberID == id }) {
				x.wrong([]int{m.told.no}, "the leader's SyncGroup has no assignment for the member %q", id)
				return
			}
		}
		x.right()
	})},
	{ID: "group.classic.beat.1", Level: Must, Source: "KIP-62", Says: "Heartbeat and OffsetCommit have the generation of the last JoinGroup.", checks: checks{request: func(x *exam, r *request) {
		var group, id string
		var generation int32
		switch q := r.q.(type) {
		case *kmsg.HeartbeatRequest:
			group, id, generation = q.Group, q.MemberID, q.Generation
		case *kmsg.OffsetCommitRequest:
			group, id, generation = q.Group, q.MemberID, q.Generation
		default:
			return
		}
		m, ok := x.groups.classic.get(memberKey{group, id})
		if !ok || m.generation < 0 {
			return
		}
		x.expect(generation == m.generation || generation == m.before && !x.old(m.told), []int{m.told.no}, "%s has the generation %d, the last JoinGroup was answered with %d", r.api.Name, generation, m.generation)
	}}},
	{ID: "group.commit.1", Level: Must, Source: "KIP-98", Needs: NeedsDriver, Says: "No offset is committed beyond what was handed to the application."},
	{ID: "group.commit.2", Level: Should, Source: "observation", Says: "The commits of a partition do not go back within one membership.", checks: on(func(x *exam, r *request, q *kmsg.OffsetCommitRequest) {
		c, _ := x.groups.commits.get(memberKey{q.Group, q.MemberID})
		if c == nil || q.MemberID == "" || c.generation != q.Generation {
			return
		}
		for _, t := range q.Topics {
			for _, p := range t.Partitions {
				if last, ok := c.offsets[namedPartition{t.Topic, t.TopicID, p.Partition}]; ok && p.Offset < last.offset {
					x.wrong([]int{last.no}, "%s-%d is committed at %d, it was at %d", x.named(t.Topic, t.TopicID), p.Partition, p.Offset, last.offset)
					return
				}
			}
		}
		x.right()
	})},
	{ID: "group.commit.3", Level: Must, Source: "KIP-848, KIP-447", Says: "A generation or member epoch that a commit was refused for is not used for commits again.", checks: on(func(x *exam, r *request, q *kmsg.OffsetCommitRequest) {
		c, _ := x.groups.commits.get(memberKey{q.Group, q.MemberID})
		if c == nil || !c.refused.is() {
			return
		}
		x.expect(q.Generation != c.refusedFor || !x.old(c.refused), []int{c.refused.no}, "the commit has the generation or epoch %d, which was answered %s", q.Generation, codeName(c.code))
	})},
	{ID: "group.fetch.sess.1", Level: Must, Source: "KIP-227", Says: "A fetch session begins with 0, 0 and goes on with its id and the next epoch; without one it is 0, -1.", checks: on(func(x *exam, r *request, q *kmsg.FetchRequest) {
		if q.Version < 7 || q.ReplicaID >= 0 || q.SessionEpoch == 0 || q.SessionEpoch == -1 {
			if q.Version >= 7 {
				x.right()
			}
			return
		}
		s, ok := x.groups.sessions.get(fetchSessionKey{r.conn.node, q.SessionID})
		switch {
		case !ok:
			x.wrong(nil, "the session is %d with the epoch %d, and no answer of node %d gave that id", q.SessionID, q.SessionEpoch, r.conn.node)
		case s.refused.is():
		default:
			x.expect(q.SessionEpoch == s.expected(), []int{s.told.no}, "the session's epoch is %d, it is at %d", q.SessionEpoch, s.expected())
		}
	})},
	{ID: "group.fetch.sess.2", Level: Must, Source: "KIP-227", Says: "After FETCH_SESSION_ID_NOT_FOUND and INVALID_FETCH_SESSION_EPOCH the next Fetch is a full one.", checks: on(func(x *exam, r *request, q *kmsg.FetchRequest) {
		if q.Version < 7 {
			return
		}
		if at := r.conn.fetchRefused; at.is() {
			x.expect(q.SessionEpoch <= 0, []int{at.no}, "the session's epoch is %d after the session was refused", q.SessionEpoch)
		}
	})},
	{ID: "group.fetch.offset.1", Level: Should, Source: "observation; an application's seek looks the same", Says: "A Fetch goes on behind the last record of the last answer, unless offsets were asked for in between.", checks: on(func(x *exam, r *request, q *kmsg.FetchRequest) {
		for _, t := range q.Topics {
			for _, p := range t.Partitions {
				at, ok := r.conn.positions[namedPartition{t.Topic, t.TopicID, p.Partition}]
				if !ok || r.conn.client.reset.no > at.no {
					continue
				}
				if p.FetchOffset > at.offset {
					x.wrong([]int{at.no}, "%s-%d is fetched from %d, the last answer ended before %d", x.named(t.Topic, t.TopicID), p.Partition, p.FetchOffset, at.offset)
					return
				}
				x.right()
			}
		}
	})},
	{ID: "group.fetch.id.1", Level: Must, Source: "KIP-516", Says: "A Fetch names topics by the ids of their present incarnations.", checks: on(func(x *exam, r *request, q *kmsg.FetchRequest) {
		if q.Version < 13 {
			return
		}
		for _, t := range q.Topics {
			if now, was := r.conn.client.replaced(t.TopicID); was {
				if x.old(now.told) {
					x.wrong([]int{now.told.no}, "the topic id %s is that of a topic that Metadata has another id for", x.topicName(t.TopicID))
					return
				}
			} else {
				x.right()
			}
		}
	})},
	{ID: "group.leave.1", Level: Should, Source: "KIP-62, KIP-848", Needs: NeedsDriver, Says: "A dynamic member that is closed leaves."},
}

// nextMember is a member of a consumer group of KIP-848.
type nextMember struct {
	memberKey
	client      *client
	over        *conn
	epoch       int32
	before      int32
	told        mark // the last answer without an error since it joined
	failed      bool
	fenced      mark
	names       []string
	asked       []string // by the heartbeat in flight
	reports     int
	unconfirmed bool // an assignment was answered since the last report
	reported    map[topicPartition]bool
	dropped     map[topicPartition]mark // reported once, not any more
	assigned    map[topicPartition]bool
	gone        map[topicPartition]mark
}

// classicMember is a member of a classic group.
type classicMember struct {
	generation, before int32
	told               mark
	leads, skip        bool
	members            []string
}

// committer is who commits offsets.
type committer struct {
	generation int32
	offsets    map[namedPartition]committed
	refused    mark
	refusedFor int32
	code       int16
}

type committed struct {
	offset int64
	no     int
}

// namedPartition is a partition of a topic as a request names it, by name or by id.
type namedPartition struct {
	name  string
	id    [16]byte
	index int32
}

type fetchSessionKey struct {
	node, id int32
}

// fetchSession is a fetch session.
type fetchSession struct {
	next       int32
	flight     int
	told       mark
	refused    mark
	partitions map[topicPartition]bool
}

func (s *fetchSession) expected() int32 {
	n := s.next
	for range s.flight {
		n = following(n)
	}
	return n
}

// fetchView is a Fetch with the partitions of its session.
type fetchView struct {
	session    *fetchSession
	partitions []topicPartition
}

// groupModel is what the judge knows of consumer groups.
type groupModel struct {
	next     bounded[memberKey, *nextMember]
	classic  bounded[memberKey, *classicMember]
	commits  bounded[memberKey, *committer]
	sessions bounded[fetchSessionKey, *fetchSession]
}

func newGroupModel() groupModel {
	return groupModel{
		newBounded[memberKey, *nextMember](maxGroups), newBounded[memberKey, *classicMember](maxGroups), newBounded[memberKey, *committer](maxGroups),
		newBounded[fetchSessionKey, *fetchSession](maxGroups),
	}
}

// onNext makes a check of heartbeats of consumer groups.
func onNext(f func(*exam, *request, *kmsg.ConsumerGroupHeartbeatRequest, *nextMember)) checks {
	return on(func(x *exam, r *request, q *kmsg.ConsumerGroupHeartbeatRequest) { f(x, r, q, r.extra.(*nextMember)) })
}

// onFetchOf makes a check of the fetches of a client that has one member of a consumer group.
func onFetchOf(f func(*exam, *request, *fetchView, *nextMember)) checks {
	return checks{request: func(x *exam, r *request) {
		v, ok := r.extra.(*fetchView)
		if !ok || r.header.Version < 13 || len(r.conn.client.next) != 1 {
			return
		}
		for m := range r.conn.client.next {
			f(x, r, v, m)
		}
	}}
}

func (g *groupModel) prepare(j *Judge, r *request) {
	switch q := r.q.(type) {
	case *kmsg.ConsumerGroupHeartbeatRequest:
		k := memberKey{q.Group, q.MemberID}
		m, ok := g.next.get(k)
		if !ok {
			m = &nextMember{memberKey: k, reported: map[topicPartition]bool{}, dropped: map[topicPartition]mark{}, assigned: map[topicPartition]bool{}, gone: map[topicPartition]mark{}}
			if _, old, evicted := g.next.put(k, m); evicted && old.client != nil {
				delete(old.client.next, old)
			}
		}
		m.client = r.conn.client
		if m.client.next == nil {
			m.client.next = map[*nextMember]bool{}
		}
		m.client.next[m] = true
		r.extra = m
	case *kmsg.FetchRequest:
		v := &fetchView{}
		s, _ := g.sessions.get(fetchSessionKey{r.conn.node, q.SessionID})
		has := map[topicPartition]bool{}
		if s != nil && q.SessionEpoch > 0 {
			v.session = s
			for tp := range s.partitions {
				has[tp] = true
			}
		}
		for _, t := range q.Topics {
			for _, p := range t.Partitions {
				has[topicPartition{t.TopicID, p.Partition}] = true
			}
		}
		for _, t := range q.ForgottenTopics {
			for _, p := range t.Partitions {
				delete(has, topicPartition{t.TopicID, p})
			}
		}
		v.partitions = ordered(has)
		r.extra = v
	}
}

func (g *groupModel) take(j *Judge, r *request) {
	switch q := r.q.(type) {
	case *kmsg.ConsumerGroupHeartbeatRequest:
		m := r.extra.(*nextMember)
		m.over = r.conn
		r.conn.nextBeats = m
		m.asked = q.SubscribedTopicNames
		if q.MemberEpoch == 0 {
			m.fenced = mark{}
		}
		if q.MemberEpoch < 0 {
			delete(m.client.next, m)
			g.next.drop(m.memberKey)
		}
		if q.Topics != nil {
			now := partitionsOf(q.Topics)
			for tp := range m.reported {
				if !now[tp] {
					m.dropped[tp] = r.mark
				}
			}
			for tp := range now {
				delete(m.dropped, tp)
			}
			m.reported, m.unconfirmed = now, false
			m.reports++
		}
	case *kmsg.FetchRequest:
		if v := r.extra.(*fetchView); v.session != nil {
			v.session.flight++
		}
		r.conn.fetchRefused = mark{}
	case *kmsg.ListOffsetsRequest, *kmsg.OffsetFetchRequest, *kmsg.OffsetForLeaderEpochRequest:
		r.conn.client.reset = r.mark
	case *kmsg.JoinGroupRequest:
		delete(r.conn.given, q.Group)
	case *kmsg.OffsetCommitRequest:
		k := memberKey{q.Group, q.MemberID}
		c, ok := g.commits.get(k)
		if !ok {
			c = &committer{offsets: map[namedPartition]committed{}}
			g.commits.put(k, c)
		}
		if c.generation != q.Generation {
			c.generation = q.Generation
			clear(c.offsets)
		}
		for _, t := range q.Topics {
			for _, p := range t.Partitions {
				if len(c.offsets) < maxNames {
					c.offsets[namedPartition{t.Topic, t.TopicID, p.Partition}] = committed{p.Offset, r.no}
				}
			}
		}
	}
}

func (g *groupModel) learn(j *Judge, a *answer) {
	switch p := a.p.(type) {
	case *kmsg.ConsumerGroupHeartbeatResponse:
		m := a.extra.(*nextMember)
		q := a.q.(*kmsg.ConsumerGroupHeartbeatRequest)
		m.failed = p.ErrorCode != errorcode.None
		switch {
		case m.failed:
			if isFenced(p.ErrorCode) && q.MemberEpoch >= 0 {
				m.fenced, m.told = a.mark, mark{}
				clear(m.reported)
				clear(m.dropped)
				m.reports = 0
			}
		case q.MemberEpoch >= 0:
			m.before, m.epoch, m.told = m.epoch, p.MemberEpoch, a.mark
			if q.SubscribedTopicNames != nil {
				m.names = q.SubscribedTopicNames
			}
			if p.Assignment != nil {
				now := map[topicPartition]bool{}
				for _, t := range p.Assignment.Topics {
					for _, i := range t.Partitions {
						tp := topicPartition{t.TopicID, i}
						now[tp] = true
						delete(m.gone, tp)
						delete(m.dropped, tp)
					}
				}
				for tp := range m.assigned {
					if !now[tp] {
						m.gone[tp] = a.mark
					}
				}
				m.assigned, m.unconfirmed = now, true
			}
		}
	case *kmsg.JoinGroupResponse:
		q := a.q.(*kmsg.JoinGroupRequest)
		if p.ErrorCode == errorcode.MemberIDRequired {
			if a.conn.given == nil {
				a.conn.given = map[string]givenID{}
			}
			if len(a.conn.given) < maxNames {
				a.conn.given[q.Group] = givenID{p.MemberID, a.no}
			}
			return
		}
		if p.ErrorCode != errorcode.None {
			return
		}
		k := memberKey{q.Group, p.MemberID}
		m, ok := g.classic.get(k)
		if !ok {
			m = &classicMember{generation: -1}
			g.classic.put(k, m)
		}
		m.before, m.generation, m.told = m.generation, p.Generation, a.mark
		m.leads, m.skip, m.members = p.LeaderID == p.MemberID && !p.SkipAssignment, p.SkipAssignment, nil
		for _, of := range p.Members {
			m.members = append(m.members, of.MemberID)
		}
	case *kmsg.OffsetCommitResponse:
		q := a.q.(*kmsg.OffsetCommitRequest)
		c, _ := g.commits.get(memberKey{q.Group, q.MemberID})
		if c == nil || q.MemberID == "" {
			return
		}
		for _, t := range p.Topics {
			for _, pp := range t.Partitions {
				switch pp.ErrorCode {
				case errorcode.IllegalGeneration, errorcode.UnknownMemberID, errorcode.RebalanceInProgress, errorcode.StaleMemberEpoch:
					c.refused, c.refusedFor, c.code = a.mark, q.Generation, pp.ErrorCode
				}
			}
		}
	case *kmsg.FetchResponse:
		g.learnFetch(j, a, p)
	}
}

func (g *groupModel) learnFetch(j *Judge, a *answer, p *kmsg.FetchResponse) {
	q := a.q.(*kmsg.FetchRequest)
	v := a.extra.(*fetchView)
	if v.session != nil {
		v.session.flight = max(0, v.session.flight-1)
	}
	if p.ErrorCode != errorcode.None {
		if p.ErrorCode == errorcode.FetchSessionIDNotFound || p.ErrorCode == errorcode.InvalidFetchSessionEpoch {
			a.conn.fetchRefused = a.mark
			if v.session != nil {
				v.session.refused = a.mark
			}
		}
		return
	}
	if p.SessionID != 0 {
		s := v.session
		if s == nil {
			s = &fetchSession{next: 0}
			g.sessions.put(fetchSessionKey{a.conn.node, p.SessionID}, s)
		}
		s.next, s.told = following(q.SessionEpoch), a.mark
		s.partitions = map[topicPartition]bool{}
		for _, tp := range v.partitions {
			if len(s.partitions) < maxNames {
				s.partitions[tp] = true
			}
		}
	}
	if a.conn.positions == nil {
		a.conn.positions = map[namedPartition]committed{}
	}
	for i := range p.Topics {
		for k := range p.Topics[i].Partitions {
			pp := &p.Topics[i].Partitions[k]
			if end, ok := endOf(pp.RecordBatches); ok && len(a.conn.positions) < maxNames {
				a.conn.positions[namedPartition{p.Topics[i].Topic, p.Topics[i].TopicID, pp.Partition}] = committed{end, a.no}
			}
		}
	}
}

func (g *groupModel) lose(_ *Judge, c *conn) {
	for _, r := range c.flight {
		if v, ok := r.extra.(*fetchView); ok && v.session != nil {
			v.session.flight = max(0, v.session.flight-1)
		}
	}
}

// givenID is a member id that an answer gave.
type givenID struct {
	id string
	no int
}

// endOf is the offset behind the last whole batch of some records.
func endOf(records []byte) (end int64, ok bool) {
	for {
		h, err := protocol.ParseBatchHeader(records)
		if err != nil || h.Size() < protocol.BatchHeaderSize || h.Size() > len(records) {
			return end, ok
		}
		end, ok = h.LastOffset()+1, true
		records = records[h.Size():]
	}
}

// replaced tells whether a topic has another id by now, and which.
func (c *client) replaced(id [16]byte) (now *topicID, was bool) {
	for _, t := range c.ids.m {
		if t.before == id && t.id != id {
			return t, true
		}
	}
	return nil, false
}

func partitionsOf(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) map[topicPartition]bool {
	all := map[topicPartition]bool{}
	for _, t := range topics {
		for _, p := range t.Partitions {
			all[topicPartition{t.TopicID, p}] = true
		}
	}
	return all
}

func samePartitions(a, b map[topicPartition]bool) bool {
	if len(a) != len(b) {
		return false
	}
	for tp := range a {
		if !b[tp] {
			return false
		}
	}
	return true
}

func listText(null bool, n int) string {
	if null {
		return "null"
	}
	return fmt.Sprintf("of %d", n)
}

// named is a topic by its name, or by that of its id.
func (x *exam) named(name string, id [16]byte) string {
	if name != "" {
		return name
	}
	return x.topicName(id)
}
