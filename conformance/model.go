package conformance

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// topicPartition is a partition of a topic by its id.
type topicPartition struct {
	topic [16]byte
	index int32
}

// shareRequest is what ShareFetch and ShareAcknowledge have in common.
type shareRequest struct {
	group, member *string
	epoch         int32
	renew         bool
	fetch         *kmsg.ShareFetchRequest // nil for ShareAcknowledge
	partitions    []sharePartition
	forgotten     []topicPartition
}

// sharePartition is a partition that a request lists.
type sharePartition struct {
	topicPartition
	batches []ackBatch
}

type ackBatch struct {
	first, last int64
	types       []int8
}

// offsets calls f for each offset that a partition's batches acknowledge, until it returns false. What has no type, or too many offsets, is left out.
func (p *sharePartition) offsets(f func(offset int64, kind int8) bool) {
	for i := range p.batches {
		b := &p.batches[i]
		n := b.last - b.first + 1
		if len(b.types) == 0 || n < 1 || n > maxRange || len(b.types) != 1 && int64(len(b.types)) != n {
			continue
		}
		for o := b.first; o <= b.last; o++ {
			kind := b.types[0]
			if len(b.types) > 1 {
				kind = b.types[o-b.first]
			}
			if !f(o, kind) {
				return
			}
		}
	}
}

// has tells whether any batch has a type.
func (s *shareRequest) has(kind int8) bool {
	for i := range s.partitions {
		for _, b := range s.partitions[i].batches {
			for _, t := range b.types {
				if t == kind {
					return true
				}
			}
		}
	}
	return false
}

func (s *shareRequest) acknowledges() bool {
	for i := range s.partitions {
		if len(s.partitions[i].batches) > 0 {
			return true
		}
	}
	return false
}

// acquires tells whether the request is a ShareFetch that records may come of.
func (s *shareRequest) acquires() bool {
	return s.fetch != nil && s.epoch >= 0 && s.fetch.MaxBytes > 0 && (s.fetch.Version < 1 || s.fetch.MaxRecords > 0)
}

// keepsSession tells whether the request leaves the partitions of its session as they are.
func (s *shareRequest) keepsSession() bool {
	return s.epoch > 0 && len(s.partitions) == 0 && len(s.forgotten) == 0
}

// The types of acknowledgements.
const (
	ackGap    = 0
	ackAccept = 1
	ackReject = 3
	ackRenew  = 4
)

func shareRequestOf(q kmsg.Request) *shareRequest {
	switch q := q.(type) {
	case *kmsg.ShareFetchRequest:
		s := &shareRequest{group: q.GroupID, member: q.MemberID, epoch: q.ShareSessionEpoch, renew: q.IsRenewAck, fetch: q}
		for _, t := range q.Topics {
			for _, p := range t.Partitions {
				sp := sharePartition{topicPartition: topicPartition{t.TopicID, p.Partition}}
				for _, b := range p.AcknowledgementBatches {
					sp.batches = append(sp.batches, ackBatch{b.FirstOffset, b.LastOffset, b.AcknowledgeTypes})
				}
				s.partitions = append(s.partitions, sp)
			}
		}
		for _, t := range q.ForgottenTopicsData {
			for _, p := range t.Partitions {
				s.forgotten = append(s.forgotten, topicPartition{t.TopicID, p})
			}
		}
		return s
	case *kmsg.ShareAcknowledgeRequest:
		s := &shareRequest{group: q.GroupID, member: q.MemberID, epoch: q.ShareSessionEpoch, renew: q.IsRenewAck}
		for _, t := range q.Topics {
			for _, p := range t.Partitions {
				sp := sharePartition{topicPartition: topicPartition{t.TopicID, p.Partition}}
				for _, b := range p.AcknowledgementBatches {
					sp.batches = append(sp.batches, ackBatch{b.FirstOffset, b.LastOffset, b.AcknowledgeTypes})
				}
				s.partitions = append(s.partitions, sp)
			}
		}
		return s
	}
	return nil
}

type memberKey struct{ group, id string }

// member is a member of a share group.
type member struct {
	memberKey
	client   *client
	beat     mark // the last heartbeat, zero before the first
	beats    int
	epoch    int32 // of the last answer
	told     mark  // that answer
	before   int32 // the epoch of the answer before
	over     *conn // the connection of the last heartbeat
	flight   []*request
	joined   bool
	left     mark       // HB(-1) since it joined last
	fenced   mark       // 25 or 110 since it joined last
	fencedAt mark       // the last of them
	asking   []*request // ShareFetches in flight that records may come of
	fails    map[int32]*ring
	code     int16         // which of them
	interval time.Duration // that it was told

	names    []string // of the last heartbeat that was answered well and had them
	namesAt  mark
	failed   bool // the last heartbeat's answer was an error
	assigned mark // the last answer with an assignment
	nulls    int  // answers without one since

	assignment map[topicPartition]mark
	gone       map[topicPartition]mark // was assigned, and taken away then

	sessions map[int32]*session // by node, those that have ended too
	holdings map[topicPartition]*holding

	joins      ring // HB(0)
	uncaused   ring
	maxRecords int32 // the most that a ShareFetch asked for
}

// session is a share session.
type session struct {
	node   int32
	conn   *conn
	opened mark
	next   int32
	parts  map[topicPartition]*part
	mode   int8
	flight []*request
	count  int  // ShareFetches after the one that opened it
	unsure mark // an answer with an error other than those that end the session
	code   int16
	ended  ending
	since  mark // the last end, or how it began
	empty  mark // since when it has no partition

	answers int  // with records, since the last acknowledgement
	open    int  // acquired offsets that are neither acknowledged nor released
	polls   ring // empty answers that waited
	gaps    []gap
	strayed mark // a request on another connection while one was in flight on the session's
	missed  mark // another connection used the epoch of this session after it had ended
}

// ending is how a session ended.
type ending uint8

const (
	lives     ending = iota
	byEpoch          // the client closed it
	byError          // 122, 123 or 133
	byNetwork        // its connection ended
)

// live tells whether there is a session that goes on.
func (s *session) live() bool { return s != nil && s.ended == lives }

// part is a partition of a session.
type part struct {
	added   mark
	fetches int  // ShareFetches since
	carrier bool // it was listed for its acknowledgements alone
	failed  bool // its last answer was an error
}

// gap is offsets without data that are to be acknowledged.
type gap struct {
	topicPartition
	offset int64
	entry  *entry
	due    time.Time
}

// holding is what a member has acquired of a partition.
type holding struct {
	entries   map[int64]*entry
	forgotten bool // some were dropped to bound memory
}

func (m *member) held(p topicPartition) *holding {
	if m == nil {
		return nil
	}
	return m.holdings[p]
}

func (h *holding) at(offset int64) *entry {
	if h == nil {
		return nil
	}
	return h.entries[offset]
}

// entry is an acquired offset.
type entry struct {
	session  *session
	acquired mark
	count    int16
	deadline time.Time
	kind     offsetKind
	state    entryState
	ack      int8 // the type that it was acknowledged with
	acked    mark // the last request that had one
	attempts int  // requests with a terminal type
	flight   int
	error    int16 // of the last answer to one
	errorAt  mark
}

type entryState uint8

const (
	entryOpen     entryState = iota
	entryAcked               // answered without an error
	entryReleased            // by the end of its session
	entryExpired
)

// acquired is an entry and where it is.
type acquired struct {
	*holding
	offset int64
	entry  *entry
}

// prepare finds out whose a request is.
func (j *Judge) prepare(r *request) {
	switch q := r.q.(type) {
	case *kmsg.ShareGroupHeartbeatRequest:
		r.member = j.member(r.conn, q.GroupID, q.MemberID)
	case *kmsg.ShareFetchRequest, *kmsg.ShareAcknowledgeRequest:
		r.share = shareRequestOf(q)
		if r.share.group != nil && r.share.member != nil {
			r.member = j.member(r.conn, *r.share.group, *r.share.member)
			r.session = r.member.sessions[r.conn.node]
		}
		if r.session != nil {
			r.next = r.session.next
			for range r.session.flight {
				r.next = following(r.next)
			}
		}
	}
	j.groups.prepare(j, r)
	j.producers.prepare(j, r)
}

// following is the epoch after one.
func following(epoch int32) int32 {
	if epoch == 1<<31-1 {
		return 1
	}
	return epoch + 1
}

// member is a member by its group and id.
func (j *Judge) member(c *conn, group, id string) *member {
	k := memberKey{group, id}
	m, ok := j.members.get(k)
	if !ok {
		m = &member{memberKey: k, assignment: map[topicPartition]mark{}, gone: map[topicPartition]mark{}, sessions: map[int32]*session{}, holdings: map[topicPartition]*holding{}}
		if _, old, evicted := j.members.put(k, m); evicted && old.client != nil {
			delete(old.client.members, old)
		}
	}
	m.client = c.client
	c.client.members[m] = true
	return m
}

// take takes a request into the model.
func (j *Judge) take(r *request) {
	switch q := r.q.(type) {
	case *kmsg.ShareGroupHeartbeatRequest:
		j.takeHeartbeat(r, q)
	case *kmsg.ShareFetchRequest, *kmsg.ShareAcknowledgeRequest:
		j.takeShare(r)
	case *kmsg.MetadataRequest:
		r.conn.client.asked = r.mark
	}
	j.groups.take(j, r)
	j.producers.take(j, r)
	j.ktx.take(j, r)
}

func (j *Judge) takeHeartbeat(r *request, q *kmsg.ShareGroupHeartbeatRequest) {
	m := r.member
	m.beat = r.mark
	m.beats++
	m.over = r.conn
	r.conn.beats = m
	r.conn.hears(m)
	j.byID.put(m.id, m)
	m.flight = append(m.flight, r)
	switch {
	case q.MemberEpoch == 0:
		m.left, m.fenced = mark{}, mark{}
	case q.MemberEpoch == -1:
		m.left = r.mark
		m.joined = false
		delete(m.client.members, m)
	}
}

func (j *Judge) takeShare(r *request) {
	m, s := r.member, r.session
	if m == nil {
		return
	}
	r.conn.hears(m)
	if r.share.acquires() {
		m.asking = append(m.asking, r)
	}
	if q := r.share.fetch; q != nil {
		m.maxRecords = max(m.maxRecords, q.MaxRecords)
	}
	if s != nil {
		if r.share.fetch != nil {
			s.count++
		}
		if s.live() && r.share.epoch != 0 {
			s.flight = append(s.flight, r)
		}
		if r.share.fetch != nil {
			for _, p := range s.parts {
				p.fetches++
			}
		}
		if r.share.acknowledges() {
			s.answers = 0
		}
		if r.share.epoch == -1 {
			s.ended, s.since = byEpoch, r.mark
		}
	}
	for i := range r.share.partitions {
		p := &r.share.partitions[i]
		h := m.held(p.topicPartition)
		p.offsets(func(offset int64, kind int8) bool {
			if e := h.at(offset); e != nil {
				e.acked = r.mark
				e.flight++
				if kind != ackRenew {
					e.attempts++
				}
			}
			return true
		})
	}
}

// learn takes an answer into the model.
func (j *Judge) learn(a *answer) {
	r := a.request
	if r.member != nil {
		r.member.asking = without(r.member.asking, r)
	}
	if t, ok := a.p.(kmsg.ThrottleResponse); ok {
		if ms, _ := t.Throttle(); ms > 0 {
			r.conn.throttled = a.mark
			r.conn.silentUntil = a.at.Add(time.Duration(ms) * time.Millisecond * 8 / 10)
		}
	}
	switch p := a.p.(type) {
	case *kmsg.ApiVersionsResponse:
		j.learnVersions(a, p)
	case *kmsg.MetadataResponse:
		j.learnMetadata(a, p)
	case *kmsg.FindCoordinatorResponse:
		j.learnCoordinator(a, p)
	case *kmsg.ShareGroupHeartbeatResponse:
		j.learnHeartbeat(a, p)
	case *kmsg.ShareFetchResponse:
		j.learnShareFetch(a, p)
	case *kmsg.ShareAcknowledgeResponse:
		j.learnShareAcknowledge(a, p)
	case nil:
		if r.member != nil {
			r.member.flight = without(r.member.flight, r)
		}
		if r.session != nil {
			r.session.flight = without(r.session.flight, r)
		}
	}
	j.groups.learn(j, a)
	j.producers.learn(j, a)
	j.ktx.learn(j, a)
}

func without(all []*request, r *request) []*request {
	for i, x := range all {
		if x == r {
			return append(all[:i:i], all[i+1:]...)
		}
	}
	return all
}

func (j *Judge) learnVersions(a *answer, p *kmsg.ApiVersionsResponse) {
	if p.ErrorCode != errorcode.None {
		return
	}
	c := a.conn
	c.versions, c.versionsAt = map[int16][2]int16{}, a.mark
	for _, k := range p.ApiKeys {
		c.versions[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	for _, f := range p.FinalizedFeatures {
		if f.Name == "transaction.version" {
			j.producers.level = f.MaxVersionLevel
		}
	}
}

func (j *Judge) learnHeartbeat(a *answer, p *kmsg.ShareGroupHeartbeatResponse) {
	m := a.member
	q := a.q.(*kmsg.ShareGroupHeartbeatRequest)
	m.flight = without(m.flight, a.request)
	m.failed = p.ErrorCode != errorcode.None
	if m.failed {
		if isFenced(p.ErrorCode) && q.MemberEpoch >= 0 {
			m.fenced, m.fencedAt, m.code = a.mark, a.mark, p.ErrorCode
			m.joined = false
		}
		return
	}
	if q.MemberEpoch < 0 {
		return
	}
	m.joined = true
	m.before, m.epoch, m.told = m.epoch, p.MemberEpoch, a.mark
	if p.HeartbeatIntervalMillis > 0 {
		m.interval = time.Duration(p.HeartbeatIntervalMillis) * time.Millisecond
	}
	if q.SubscribedTopicNames != nil {
		m.names, m.namesAt = q.SubscribedTopicNames, a.request.mark
	}
	if p.Assignment == nil {
		m.nulls++
		return
	}
	m.nulls, m.assigned = 0, a.mark
	now := map[topicPartition]mark{}
	for _, t := range p.Assignment.TopicPartitions {
		for _, i := range t.Partitions {
			tp := topicPartition{t.TopicID, i}
			if was, ok := m.assignment[tp]; ok {
				now[tp] = was
			} else {
				now[tp] = a.mark
			}
			delete(m.gone, tp)
		}
	}
	for tp := range m.assignment {
		if _, still := now[tp]; !still {
			m.gone[tp] = a.mark
		}
	}
	m.assignment = now
	for tp, at := range m.gone {
		if j.now.Sub(at.at) > time.Minute && m.partOf(tp) == nil {
			delete(m.gone, tp)
		}
	}
}

// partOf finds a partition in the sessions of a member.
func (m *member) partOf(tp topicPartition) *session {
	for _, s := range m.sessions {
		if s.live() && s.parts[tp] != nil {
			return s
		}
	}
	return nil
}

// isFenced tells whether a code makes a member join anew with the epoch 0.
func isFenced(code int16) bool {
	return code == errorcode.UnknownMemberID || code == errorcode.FencedMemberEpoch
}

// endsSession tells whether a code ends a share session.
func endsSession(code int16) bool {
	return code == errorcode.ShareSessionNotFound || code == errorcode.InvalidShareSessionEpoch || code == errorcode.ShareSessionLimitReached
}

// conclude moves a session on with the answer to a request.
func (j *Judge) conclude(a *answer, code int16) {
	r, m, s := a.request, a.member, a.session
	if m == nil {
		return
	}
	if s != nil {
		s.flight = without(s.flight, r)
	}
	epoch := r.share.epoch
	switch {
	case endsSession(code):
		if epoch == 0 || s == nil { // there is none
			s = &session{node: r.conn.node, conn: r.conn, opened: a.mark}
			m.sessions[r.conn.node] = s
		}
		if s.ended != byEpoch || epoch >= 0 && a.session == s {
			s.ended = byError
		}
		s.since, s.code = a.mark, code
	case code != errorcode.None:
		if s.live() {
			s.unsure, s.code = a.mark, code
		}
	case epoch == 0 && r.share.fetch != nil:
		s = &session{node: r.conn.node, conn: r.conn, opened: r.mark, next: 1, parts: map[topicPartition]*part{}, mode: r.share.fetch.ShareAcquireMode, since: a.mark}
		if r.conn.gone {
			s.ended = byNetwork
		}
		m.sessions[r.conn.node] = s
		j.relist(s, r, m)
	case s.live() && epoch > 0:
		if s.unsure.is() {
			s.next = following(epoch) // which the broker has taken
		} else {
			s.next = following(s.next)
		}
		s.unsure = mark{}
		j.relist(s, r, m)
	}
	if epoch == -1 && code == errorcode.None && s != nil {
		j.releaseAll(m, s)
	}
}

// relist moves the partitions of a session on.
func (j *Judge) relist(s *session, r *request, m *member) {
	if r.share.fetch == nil {
		return
	}
	for i := range r.share.partitions {
		p := &r.share.partitions[i]
		if have := s.parts[p.topicPartition]; have != nil {
			if len(p.batches) == 0 {
				have.carrier = false
			}
		} else if len(s.parts) < maxLeaders {
			_, wanted := m.assignment[p.topicPartition]
			s.parts[p.topicPartition] = &part{added: r.mark, carrier: len(p.batches) > 0 && !wanted}
		}
	}
	for _, tp := range r.share.forgotten {
		delete(s.parts, tp)
	}
	switch {
	case len(s.parts) > 0:
		s.empty = mark{}
	case !s.empty.is():
		s.empty = r.mark // its last partition is gone
	}
}

// releaseAll ends the acquisitions of a session.
func (j *Judge) releaseAll(m *member, s *session) {
	for _, h := range m.holdings {
		for _, e := range h.entries {
			if e.session == s && e.state == entryOpen {
				e.state = entryReleased
			}
		}
	}
	s.open = 0
}

func (j *Judge) learnShareFetch(a *answer, p *kmsg.ShareFetchResponse) {
	j.conclude(a, p.ErrorCode)
	m := a.member
	if m == nil {
		return
	}
	s := m.sessions[a.conn.node]
	codes := map[topicPartition]int16{}
	lock := time.Duration(p.AcquisitionLockTimeoutMillis) * time.Millisecond
	for i := range p.Topics {
		for k := range p.Topics[i].Partitions {
			pp := &p.Topics[i].Partitions[k]
			tp := topicPartition{p.Topics[i].TopicID, pp.Partition}
			codes[tp] = pp.AcknowledgeErrorCode
			if pp.ErrorCode != errorcode.None && pp.AcknowledgeErrorCode == errorcode.None {
				codes[tp] = pp.ErrorCode
			}
			j.hint(a, tp, pp.ErrorCode, pp.CurrentLeader.LeaderID, pp.CurrentLeader.LeaderEpoch)
			if s.live() && s.parts[tp] != nil {
				s.parts[tp].failed = pp.ErrorCode != errorcode.None
			}
		}
	}
	j.settle(a, p.ErrorCode, codes, lock)
	if p.ErrorCode != errorcode.None || s == nil {
		return
	}
	some := false
	for i := range p.Topics {
		for k := range p.Topics[i].Partitions {
			pp := &p.Topics[i].Partitions[k]
			if len(pp.AcquiredRecords) > 0 {
				some = true
				j.acquire(a, m, s, topicPartition{p.Topics[i].TopicID, pp.Partition}, pp, lock)
			}
		}
	}
	if some {
		s.answers++
	}
}

func (j *Judge) learnShareAcknowledge(a *answer, p *kmsg.ShareAcknowledgeResponse) {
	j.conclude(a, p.ErrorCode)
	codes := map[topicPartition]int16{}
	for i := range p.Topics {
		for k := range p.Topics[i].Partitions {
			pp := &p.Topics[i].Partitions[k]
			tp := topicPartition{p.Topics[i].TopicID, pp.Partition}
			codes[tp] = pp.ErrorCode
			j.hint(a, tp, pp.ErrorCode, pp.CurrentLeader.LeaderID, pp.CurrentLeader.LeaderEpoch)
		}
	}
	j.settle(a, p.ErrorCode, codes, time.Duration(p.AcquisitionLockTimeoutMillis)*time.Millisecond)
}

// settle notes what became of the acknowledgements of a request.
func (j *Judge) settle(a *answer, top int16, codes map[topicPartition]int16, lock time.Duration) {
	if a.member == nil {
		return
	}
	for i := range a.share.partitions {
		p := &a.share.partitions[i]
		if len(p.batches) == 0 {
			continue
		}
		code := top
		if code == errorcode.None {
			code = codes[p.topicPartition]
		}
		h := a.member.held(p.topicPartition)
		p.offsets(func(offset int64, kind int8) bool {
			e := h.at(offset)
			switch {
			case e == nil:
			case code != errorcode.None:
				e.flight = max(0, e.flight-1)
				e.error, e.errorAt = code, a.mark
			case kind == ackRenew:
				e.flight = max(0, e.flight-1)
				if lock > 0 {
					e.deadline = a.at.Add(lock)
				}
			default:
				e.flight = max(0, e.flight-1)
				if e.state == entryOpen {
					e.session.open--
				}
				e.state, e.ack = entryAcked, kind
			}
			return true
		})
	}
}

// acquire notes what a member has acquired.
func (j *Judge) acquire(a *answer, m *member, s *session, tp topicPartition, p *kmsg.ShareFetchResponseTopicPartition, lock time.Duration) {
	h := m.holdings[tp]
	if h == nil {
		h = &holding{entries: map[int64]*entry{}}
		m.holdings[tp] = h
	}
	kinds := kindsOf(p.Records, p.AcquiredRecords)
	dueGap := j.now.Add(min(5*time.Second, lock/2))
	for _, r := range p.AcquiredRecords {
		if r.LastOffset-r.FirstOffset >= maxRange {
			h.forgotten = true
			continue
		}
		for o := r.FirstOffset; o <= r.LastOffset; o++ {
			if old := h.entries[o]; old != nil && old.state == entryOpen {
				old.session.open--
			}
			e := &entry{session: s, acquired: a.mark, count: r.DeliveryCount, deadline: a.at.Add(lock), kind: kinds.at(o)}
			h.entries[o] = e
			s.open++
			j.acquired = append(j.acquired, acquired{h, o, e})
			if (e.kind == kindHole || e.kind == kindControl) && len(s.gaps) < maxRange {
				s.gaps = append(s.gaps, gap{tp, o, e, dueGap})
			}
		}
	}
	for len(j.acquired) > maxEntries {
		x := j.acquired[0]
		j.acquired[0] = acquired{}
		j.acquired = j.acquired[1:]
		if x.entries[x.offset] == x.entry {
			delete(x.entries, x.offset)
			x.forgotten = true
		}
	}
}

// lose takes in the end of a connection.
func (j *Judge) lose(c *conn) {
	for _, m := range c.speakers {
		m.flight = slices.DeleteFunc(m.flight, func(r *request) bool { return r.conn == c })
		m.asking = slices.DeleteFunc(m.asking, func(r *request) bool { return r.conn == c })
		for _, s := range m.sessions {
			s.flight = slices.DeleteFunc(s.flight, func(r *request) bool { return r.conn == c })
			if s.conn == c && s.ended == lives {
				s.ended, s.since = byNetwork, j.mark()
				j.releaseAll(m, s)
			}
		}
		if len(m.holdings) > 0 && !m.client.connected() {
			for tp, h := range m.holdings {
				if len(h.entries) == 0 {
					delete(m.holdings, tp)
				}
			}
		}
	}
	j.groups.lose(j, c)
	j.producers.lose(j, c)
}

// hears notes that a member speaks over the connection.
func (c *conn) hears(m *member) {
	if !c.speaks[m] && len(c.speakers) < maxNames {
		if c.speaks == nil {
			c.speaks = map[*member]bool{}
		}
		c.speaks[m] = true
		c.speakers = append(c.speakers, m)
	}
}

// failures counts the requests to a node that failed.
func (m *member) failures(node int32) *ring {
	if m.fails == nil {
		m.fails = map[int32]*ring{}
	}
	if m.fails[node] == nil {
		m.fails[node] = &ring{}
	}
	return m.fails[node]
}

func (c *client) connected() bool { return c.conns > 0 }
