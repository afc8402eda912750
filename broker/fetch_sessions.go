package broker

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// fetchPartition is a partition as a Fetch or its session asks for it.
type fetchPartition struct {
	topic              string   // below v13
	topicID            [16]byte // from v13 on
	index              int32
	fetchOffset        int64
	maxBytes           int32
	currentLeaderEpoch int32
	lastFetchedEpoch   int32

	partition *partition // where it was found last
	unknown   bool       // it was not found when the request came
	forbidden bool       // the client had no right to it then

	// What the client was told last. An incremental answer leaves the partition out while they stay the same; -1 makes the
	// next one name it.
	toldHighWatermark, toldLogStart int64
}

// fetchEntryKey is what an entry of a request or session is known by.
type fetchEntryKey struct {
	topic   string
	topicID [16]byte
	index   int32
}

func (fp *fetchPartition) key() fetchEntryKey { return fetchEntryKey{fp.topic, fp.topicID, fp.index} }

// fetchList is partitions in order, each once.
type fetchList struct {
	list  []*fetchPartition
	byKey map[fetchEntryKey]*fetchPartition
}

// put adds a partition; an earlier entry for the same one takes over what is asked, and keeps its place and what was told.
func (l *fetchList) put(fp *fetchPartition) {
	old := l.byKey[fp.key()]
	if old == nil {
		if l.byKey == nil {
			l.byKey = map[fetchEntryKey]*fetchPartition{}
		}
		l.byKey[fp.key()] = fp
		l.list = append(l.list, fp)
		return
	}
	old.fetchOffset, old.maxBytes = fp.fetchOffset, fp.maxBytes
	old.currentLeaderEpoch, old.lastFetchedEpoch = fp.currentLeaderEpoch, fp.lastFetchedEpoch
}

// remove takes partitions out.
func (l *fetchList) remove(keys []fetchEntryKey) {
	if len(keys) == 0 {
		return
	}
	for _, k := range keys {
		delete(l.byKey, k)
	}
	l.list = slices.DeleteFunc(l.list, func(fp *fetchPartition) bool { return l.byKey[fp.key()] != fp })
}

// last moves partitions behind all others.
func (l *fetchList) last(moved []*fetchPartition) {
	if len(moved) == 0 {
		return
	}
	going := make(map[*fetchPartition]bool, len(moved))
	for _, fp := range moved {
		going[fp] = true
	}
	l.list = slices.DeleteFunc(l.list, func(fp *fetchPartition) bool { return going[fp] })
	for _, fp := range moved {
		if l.byKey[fp.key()] == fp {
			l.list = append(l.list, fp)
		}
	}
}

// fetchSession is a fetch session (KIP-227): the partitions that a consumer asks for until it says otherwise.
// Invariant: 1 <= epoch, the one that the next request must name.
type fetchSession struct {
	id         int32
	byID       bool // made by v13 or later
	epoch      int32
	partitions fetchList
	lastUsed   time.Time
}

// fetchSessions are the fetch sessions of a node.
type fetchSessions struct {
	random   func([]byte) // fills in what ids are made of
	slots    int          // max.incremental.fetch.session.cache.slots
	sessions map[int32]*fetchSession
	order    []*fetchSession // by last use
}

func (c *Cluster) newFetchSessions() fetchSessions {
	return fetchSessions{slots: int(c.brokerInt("max.incremental.fetch.session.cache.slots")), sessions: map[int32]*fetchSession{}, random: c.fillRandom}
}

// evictionAge is how long a session must have rested before a newcomer may take its place in a full cache
// (min.incremental.fetch.session.eviction.ms).
const evictionAge = 2 * time.Minute

const (
	finalFetchEpoch   = -1
	initialFetchEpoch = 0
)

// fetchView is the partitions of one Fetch and the session that they belong to, if any.
type fetchView struct {
	sessions    *fetchSessions
	session     *fetchSession // nil without a session
	incremental bool          // partitions without news are left out of the answer
	partitions  []*fetchPartition
	omitted     []bool
}

// open finds what a Fetch is about: the partitions in it, or those of its session as it changes them.
func (s *fetchSessions) open(q *kmsg.FetchRequest, now time.Time) (*fetchView, int16) {
	if q.Version < 7 || q.SessionEpoch == finalFetchEpoch || q.SessionEpoch == initialFetchEpoch {
		return s.full(q, now), errorcode.None
	}
	session := s.sessions[q.SessionID]
	switch {
	case session == nil:
		return nil, errorcode.FetchSessionIDNotFound
	case session.byID != (q.Version >= 13):
		return nil, errorcode.FetchSessionTopicIDError
	case session.epoch != q.SessionEpoch:
		return nil, errorcode.InvalidFetchSessionEpoch
	}
	session.update(q)
	if len(session.partitions.list) == 0 {
		s.remove(session)
		return &fetchView{sessions: s}, errorcode.None
	}
	if session.epoch == math.MaxInt32 {
		session.epoch = 0
	}
	session.epoch++
	s.touch(session, now)
	return &fetchView{sessions: s, session: session, incremental: true, partitions: slices.Clone(session.partitions.list)}, errorcode.None
}

// full handles a request that names all its partitions, which may begin or end a session.
func (s *fetchSessions) full(q *kmsg.FetchRequest, now time.Time) *fetchView {
	if old := s.sessions[q.SessionID]; q.Version >= 7 && old != nil {
		s.remove(old)
	}
	var asked fetchList
	for i := range q.Topics {
		for j := range q.Topics[i].Partitions {
			asked.put(requested(q, i, j))
		}
	}
	v := &fetchView{sessions: s, partitions: slices.Clone(asked.list)}
	if q.Version >= 7 && q.SessionEpoch == initialFetchEpoch && s.makeRoom(now) {
		session := &fetchSession{id: s.newID(), byID: q.Version >= 13, epoch: 1, partitions: asked, lastUsed: now}
		s.sessions[session.id] = session
		s.order = append(s.order, session)
		v.session = session
	}
	return v
}

// requested is entry j of topic i of a request.
func requested(q *kmsg.FetchRequest, i, j int) *fetchPartition {
	t, p := &q.Topics[i], &q.Topics[i].Partitions[j]
	return &fetchPartition{
		topic:              t.Topic,
		topicID:            t.TopicID,
		index:              p.Partition,
		fetchOffset:        p.FetchOffset,
		maxBytes:           p.PartitionMaxBytes,
		currentLeaderEpoch: p.CurrentLeaderEpoch,
		lastFetchedEpoch:   p.LastFetchedEpoch,
		toldHighWatermark:  -1,
		toldLogStart:       -1,
	}
}

// update applies what an incremental request adds, changes and forgets.
func (s *fetchSession) update(q *kmsg.FetchRequest) {
	for i := range q.Topics {
		for j := range q.Topics[i].Partitions {
			s.partitions.put(requested(q, i, j))
		}
	}
	var forgotten []fetchEntryKey
	for _, t := range q.ForgottenTopics {
		for _, index := range t.Partitions {
			forgotten = append(forgotten, fetchEntryKey{t.Topic, t.TopicID, index})
		}
	}
	s.partitions.remove(forgotten)
}

// makeRoom reports whether a session may be added, after evicting the one unused longest where the cache is full and it has rested enough.
func (s *fetchSessions) makeRoom(now time.Time) bool {
	if len(s.order) < s.slots {
		return true
	}
	if len(s.order) == 0 || now.Sub(s.order[0].lastUsed) <= evictionAge {
		return false
	}
	s.remove(s.order[0])
	return true
}

func (s *fetchSessions) remove(session *fetchSession) {
	delete(s.sessions, session.id)
	s.order = slices.DeleteFunc(s.order, func(o *fetchSession) bool { return o == session })
}

// touch notes that a session is used.
func (s *fetchSessions) touch(session *fetchSession, now time.Time) {
	session.lastUsed = now
	if s.order[len(s.order)-1] == session {
		return
	}
	s.order = slices.DeleteFunc(s.order, func(o *fetchSession) bool { return o == session })
	s.order = append(s.order, session)
}

// newID makes a session id: a positive number that no session has.
func (s *fetchSessions) newID() int32 {
	for {
		var b [4]byte
		s.random(b[:])
		id := int32(binary.BigEndian.Uint32(b[:]) >> 1)
		if id > 0 && s.sessions[id] == nil {
			return id
		}
	}
}

// omits tells whether the answer leaves partition i out.
func (v *fetchView) omits(i int) bool { return v.omitted != nil && v.omitted[i] }

// finish notes what the answer tells the client and returns the session id to answer with. Called once, as the answer is made.
func (v *fetchView) finish(r *fetchResults) int32 {
	if v.session == nil {
		return 0
	}
	if v.incremental {
		v.omitted = make([]bool, len(v.partitions))
	}
	var last []*fetchPartition
	for i, fp := range v.partitions {
		news := fp.tell(&r.list[i])
		if !v.incremental {
			continue
		}
		v.omitted[i] = !news
		if news {
			last = append(last, fp)
		}
	}
	// Partitions that had news go behind the others, so that each gets its turn.
	v.session.partitions.last(last)
	return v.session.id
}

// tell notes what the client is told of the partition and reports whether it is news.
func (fp *fetchPartition) tell(r *fetchResult) bool {
	news := r.size > 0 || r.errorCode != errorcode.None || r.diverging != nil ||
		fp.toldHighWatermark != r.highWatermark || fp.toldLogStart != r.logStartOffset
	fp.toldHighWatermark, fp.toldLogStart = r.highWatermark, r.logStartOffset
	if r.errorCode != errorcode.None {
		fp.toldHighWatermark = -1
	}
	return news
}
