// Package sharesession keeps the share sessions of one node (KIP-932,
// server/src/main/java/org/apache/kafka/server/share/session/ShareSession.java): which partitions a member fetches
// from it, and which epoch its next request must have.
//
// It has no clock, lock or socket; one caller at a time. Sessions do not expire: they end by epoch -1, by being
// made again with epoch 0, or with the connection that made them last.
package sharesession

import (
	"cmp"
	"math"
	"slices"

	"kshare/protocol/errorcode"
)

// Epochs of a request that do not continue a session.
const (
	InitialEpoch int32 = 0
	FinalEpoch   int32 = -1
)

// Key names a session: one member of one group on this node.
type Key struct{ Group, Member string }

// Connection names a client connection; the caller numbers them.
type Connection uint64

// Partition is a partition in a session. Its topic need not exist.
type Partition struct {
	TopicID   [16]byte
	Partition int32
}

// Sessions are the share sessions of one node.
type Sessions struct {
	byKey   map[Key]*session
	made    map[Connection]*made
	members map[string]int // sessions, by group
}

// made is the session that was made last over a connection, which alone ends with it, and the group that it may leave without sessions. stale means that
// one of the sessions made over the connection, not necessarily this one, has ended before: then none ends with it.
type made struct {
	key   Key
	stale bool
}

type session struct {
	key        Key
	connection Connection
	epoch      int32 // that the next request must have
	order      []Partition
	members    map[Partition]*entry
}

// entry is a partition of a session. It owes the client an entry in the next answer when it was added to the session, and when the last answer had an error
// for it, so that the client sees the error go. The answer to epoch 0, which lists all there is to tell, leaves nothing owed, not even after an error.
type entry struct {
	owed  bool
	topic string // its name when the partition was added, "" where there was none
}

// New makes the sessions of a node that has none.
func New() *Sessions {
	return &Sessions{
		byKey: map[Key]*session{}, made: map[Connection]*made{}, members: map[string]int{},
	}
}

// Len is the number of sessions.
func (s *Sessions) Len() int { return len(s.byKey) }

// PartitionCount is the number of partitions of all sessions together.
func (s *Sessions) PartitionCount() (n int) {
	for _, one := range s.byKey {
		n += len(one.order)
	}
	return n
}

// Partitions are those of a session, in the order in which they were added; none where there is no session. The caller only reads them.
func (s *Sessions) Partitions(key Key) []Partition {
	if found := s.byKey[key]; found != nil {
		return found.order
	}
	return nil
}

// Session is a session from outside.
type Session struct {
	Key        Key
	Epoch      int32 // that the next request must have
	Partitions []Partition
}

// All are the sessions in the order of group and member. The caller only reads their partitions.
func (s *Sessions) All() []Session {
	all := make([]Session, 0, len(s.byKey))
	for _, one := range s.byKey {
		all = append(all, Session{one.key, one.epoch, one.order})
	}
	slices.SortFunc(all, func(a, b Session) int {
		return cmp.Or(cmp.Compare(a.Key.Group, b.Key.Group), cmp.Compare(a.Key.Member, b.Key.Member))
	})
	return all
}

// FetchRequest is what of a ShareFetch concerns the session.
type FetchRequest struct {
	Key        Key
	Connection Connection
	Epoch      int32
	Partitions []Partition                   // of Topics: added to the session
	Forgotten  []Partition                   // of ForgottenTopicsData: removed after the adding
	Acks       bool                          // any partition carries acknowledgements
	TopicName  func(topicID [16]byte) string // "" where there is no such topic
}

// Fetch is a ShareFetch that passed its session's checks.
type Fetch struct {
	// Partitions are those to fetch, in the order of the session until Rotate. Nothing is fetched with the final epoch.
	Partitions []Partition
	// Final means that the session ends once the acknowledgements are applied: call Close.
	Final   bool
	session *session
	full    bool
	epoch   int32 // of the request
	next    int32
}

// Rotate puts the partitions into the order in which they are to be served: those that exist, moved left by the request's epoch so that none starves, then
// the others.
func (f *Fetch) Rotate(exists func(Partition) bool) {
	var rest []Partition
	n := 0
	for _, p := range f.Partitions {
		if !exists(p) {
			rest = append(rest, p)
			continue
		}
		f.Partitions[n] = p
		n++
	}
	copy(f.Partitions[n:], rest)
	if n > 0 {
		by := int(f.epoch) % n
		slices.Reverse(f.Partitions[:by])
		slices.Reverse(f.Partitions[by:n])
		slices.Reverse(f.Partitions[:n])
	}
}

// Fetch checks a ShareFetch and moves its session on: one epoch a request. capacity is
// group.share.max.share.sessions. Errors change nothing, but for one:
//
//	INVALID_REQUEST                 acknowledgements with epoch 0
//	UNKNOWN_SERVER_ERROR            epoch 0 and a partition named twice; the member's session is gone all the same
//	SHARE_SESSION_LIMIT_REACHED     no room for another session; Kafka answers it after MaxWaitMs
//	SHARE_SESSION_NOT_FOUND         any epoch but 0 without a session
//	INVALID_SHARE_SESSION_EPOCH     not the epoch that is next
//
// Epoch 0 replaces the member's session; records that were acquired in the one before stay acquired. Its
// connection is the one with which it ends.
func (s *Sessions) Fetch(r *FetchRequest, capacity int) (*Fetch, int16) {
	if r.Epoch == InitialEpoch {
		return s.create(r, capacity)
	}
	old, code := s.find(r.Key, r.Epoch)
	if code != errorcode.None {
		return nil, code
	}
	if r.Epoch == FinalEpoch {
		return &Fetch{Final: true, session: old, next: old.epoch}, errorcode.None
	}
	old.add(r, true)
	old.forget(r.Forgotten)
	old.epoch = nextEpoch(old.epoch)
	return &Fetch{Partitions: slices.Clone(old.order), session: old, epoch: r.Epoch, next: old.epoch}, errorcode.None
}

func (s *Sessions) create(r *FetchRequest, capacity int) (*Fetch, int16) {
	if r.Acks {
		return nil, errorcode.InvalidRequest
	}
	old := s.byKey[r.Key]
	if twice(r.Partitions) {
		if old != nil {
			s.remove(old)
		}
		return nil, errorcode.UnknownServerError
	}
	if old == nil && len(s.byKey) >= capacity {
		return nil, errorcode.ShareSessionLimitReached
	}
	if old != nil {
		s.remove(old)
	}
	created := &session{key: r.Key, connection: r.Connection, epoch: 1, members: make(map[Partition]*entry, len(r.Partitions))}
	created.add(r, false)
	s.byKey[r.Key] = created
	s.made[r.Connection] = &made{key: r.Key}
	s.members[r.Key.Group]++
	return &Fetch{Partitions: slices.Clone(created.order), session: created, full: true, next: created.epoch}, errorcode.None
}

// twice tells whether a partition is named more than once.
func twice(partitions []Partition) bool {
	if len(partitions) < 2 {
		return false
	}
	seen := make(map[Partition]bool, len(partitions))
	for _, p := range partitions {
		if seen[p] {
			return true
		}
		seen[p] = true
	}
	return false
}

// Acknowledge checks a ShareAcknowledge and moves its session on. final means that the session ends once the
// acknowledgements are applied: call Close. Epoch 0 is INVALID_SHARE_SESSION_EPOCH, the rest as Fetch.
func (s *Sessions) Acknowledge(key Key, epoch int32) (final bool, code int16) {
	if epoch == InitialEpoch {
		return false, errorcode.InvalidShareSessionEpoch
	}
	found, code := s.find(key, epoch)
	if code != errorcode.None {
		return false, code
	}
	if epoch == FinalEpoch {
		return true, errorcode.None
	}
	found.epoch = nextEpoch(found.epoch)
	return false, errorcode.None
}

// find is the session that a request with this epoch, not 0, may continue or end.
func (s *Sessions) find(key Key, epoch int32) (*session, int16) {
	found := s.byKey[key]
	if found == nil {
		return nil, errorcode.ShareSessionNotFound
	}
	if epoch != FinalEpoch && epoch != found.epoch {
		return nil, errorcode.InvalidShareSessionEpoch
	}
	return found, errorcode.None
}

// Current tells whether no later request has moved the session on while this one waited. Where it is not, the
// answer is INVALID_SHARE_SESSION_EPOCH without partitions.
func (f *Fetch) Current() bool { return f.full || f.session.epoch == f.next }

// TopicName is the name that the topic of a partition had when the partition was added to the session, "" where there was no such topic. Kafka knows it from
// then on, also when the topic is deleted.
func (f *Fetch) TopicName(p Partition) string {
	if e := f.session.members[p]; e != nil {
		return e.topic
	}
	return ""
}

// Listed tells whether the answer has an entry for a partition of which the fetch has something to tell, and notes what the client has seen; it is asked
// once for each. After epoch 0 every such partition is listed. Later one with records or an error is, one that was added to the session and has not been
// listed since, and one whose last entry had an error. One with records goes behind the others of the session. Results of acknowledgements are listed
// whatever Listed says.
func (f *Fetch) Listed(p Partition, records bool, errorCode int16) bool {
	if f.full {
		return true
	}
	listed := records || errorCode != errorcode.None
	if e := f.session.members[p]; e != nil {
		listed = listed || e.owed
		e.owed = errorCode != errorcode.None
		if records {
			f.session.moveBehind(p)
		}
	}
	return listed
}

// Ended is a session that is no more. What its member still holds of Partitions is to be released.
type Ended struct {
	Key        Key
	Partitions []Partition
}

// Close ends a session, false where there is none.
func (s *Sessions) Close(key Key) (Ended, bool) {
	found := s.byKey[key]
	if found == nil {
		return Ended{}, false
	}
	return s.remove(found), true
}

// Disconnect ends the session that was made last over a connection, unless one that was made over it has ended before: others stay. emptied is the
// session's group where no session is left of it: Kafka drops the in-flight state of its share partitions. A session that ends by itself empties no group
// while its connection lasts.
func (s *Sessions) Disconnect(c Connection) (ended []Ended, emptied []string) {
	last := s.made[c]
	if last == nil {
		return nil, nil
	}
	delete(s.made, c)
	if found := s.byKey[last.key]; found != nil && !last.stale {
		ended = append(ended, s.remove(found))
	}
	if s.members[last.key.Group] == 0 {
		emptied = append(emptied, last.key.Group)
	}
	return ended, emptied
}

// Clear ends all sessions, in the order of their keys, as a node does when share groups are turned off or it
// stops.
func (s *Sessions) Clear() []Ended {
	keys := make([]Key, 0, len(s.byKey))
	for key := range s.byKey {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return slices.Compare([]string{a.Group, a.Member}, []string{b.Group, b.Member})
	})
	ended := make([]Ended, 0, len(keys))
	for _, key := range keys {
		ended = append(ended, s.remove(s.byKey[key]))
	}
	return ended
}

func (s *Sessions) remove(old *session) Ended {
	delete(s.byKey, old.key)
	if s.members[old.key.Group]--; s.members[old.key.Group] == 0 {
		delete(s.members, old.key.Group)
	}
	if last := s.made[old.connection]; last != nil {
		last.stale = true
	}
	return Ended{Key: old.key, Partitions: old.order}
}

func (s *session) add(r *FetchRequest, owed bool) {
	for _, p := range r.Partitions {
		if s.members[p] == nil {
			s.members[p] = &entry{owed: owed, topic: r.TopicName(p.TopicID)}
			s.order = append(s.order, p)
		}
	}
}

func (s *session) forget(partitions []Partition) {
	before := len(s.members)
	for _, p := range partitions {
		delete(s.members, p)
	}
	if len(s.members) < before {
		s.order = slices.DeleteFunc(s.order, func(p Partition) bool { return s.members[p] == nil })
	}
}

// moveBehind makes a partition the last.
func (s *session) moveBehind(p Partition) {
	i, last := slices.Index(s.order, p), len(s.order)-1
	copy(s.order[i:], s.order[i+1:])
	s.order[last] = p
}

// nextEpoch is the epoch after one, which skips 0 and what is below it.
func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}
