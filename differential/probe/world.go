package probe

import (
	"math"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

// world is what is known of the brokers, by the answers of the first.
type world struct {
	rand    *rand.Rand
	topics  []string            // names in use, the first two of which are never deleted
	ids     map[string][16]byte // of the topics that exist
	gone    [][16]byte          // of topics that were deleted
	groups  map[kind][]string
	members map[member]*state
	pid     int64 // of the idempotent producer; -1 before there is one
	epoch   int16
	seq     map[string]int32 // next sequence by topic and partition
}

// kind is a kind of group.
type kind uint8

const (
	shareGroup kind = iota
	consumerGroup
	simpleGroup // has offsets and no members
)

// member is a member of a group, whom a connection belongs to.
type member struct {
	group string
	id    string
	conn  int
}

// state is what a member has been told.
type state struct {
	epoch    int32
	session  int32      // the next share session epoch
	acquired []acquired // and not acknowledged
}

type acquired struct {
	topic       [16]byte
	partition   int32
	first, last int64
}

func newWorld(r *rand.Rand, prefix string) *world {
	w := &world{
		rand: r, ids: map[string][16]byte{}, groups: map[kind][]string{}, members: map[member]*state{},
		pid: -1, seq: map[string]int32{},
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		w.topics = append(w.topics, prefix+name)
	}
	w.groups[shareGroup] = []string{prefix + "share1", prefix + "share2"}
	w.groups[consumerGroup] = []string{prefix + "consumer"}
	w.groups[simpleGroup] = []string{prefix + "simple"}
	return w
}

// stable are the topics that are never deleted.
func (w *world) stable() []string { return w.topics[:2] }

// one draws one of several.
func one[T any](r *rand.Rand, xs ...T) T { return xs[r.IntN(len(xs))] }

// odds tells whether one of n cases comes about.
func (w *world) odds(n int) bool { return w.rand.IntN(n) == 0 }

// topic draws a topic's name, mostly of one that exists.
func (w *world) topic() string {
	if w.odds(15) {
		return one(w.rand, "", "no.such", "illegal/name")
	}
	if w.odds(4) {
		return one(w.rand, w.topics...)
	}
	return one(w.rand, w.stable()...)
}

// topicID draws a topic's id, mostly of one that exists.
func (w *world) topicID() [16]byte {
	if w.odds(15) {
		return one(w.rand, append(w.gone, [16]byte{}, [16]byte{15: 1}, [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})...)
	}
	if id, ok := w.ids[one(w.rand, w.topics...)]; ok {
		return id
	}
	return w.ids[one(w.rand, w.stable()...)]
}

func (w *world) partition() int32 {
	if w.odds(12) {
		return one[int32](w.rand, -1, 2, 7, math.MaxInt32)
	}
	return one[int32](w.rand, 0, 0, 1)
}

func (w *world) offset() int64 {
	if w.odds(8) {
		return one[int64](w.rand, -1, -2, 1000, math.MaxInt64)
	}
	return int64(w.rand.IntN(12))
}

// group draws a group, mostly of a kind.
func (w *world) group(k kind) string {
	if w.odds(12) {
		return one(w.rand, "", "no-such-group", w.groups[shareGroup][0], w.groups[consumerGroup][0], w.groups[simpleGroup][0])
	}
	return one(w.rand, w.groups[k]...)
}

// member draws a member of a group of a kind.
func (w *world) member(k kind) (member, *state) {
	m := member{group: w.group(k), conn: w.rand.IntN(2)}
	m.id = one(w.rand, "member-1", "member-2")
	if k == shareGroup { // a share session belongs to a connection
		m.id = []string{"member-1", "member-2"}[m.conn]
	}
	s := w.members[m]
	if s == nil {
		s = &state{}
		w.members[m] = s
	}
	return m, s
}

// near draws an epoch, mostly the right one.
func (w *world) near(epoch int32) int32 {
	if w.odds(10) {
		return one(w.rand, epoch-1, epoch+1, 0, -1, -2, math.MaxInt32)
	}
	return epoch
}

// learn remembers what an answer of the first broker tells.
func (w *world) learn(x request, answer kmsg.Response) {
	switch r := answer.(type) {
	case *protocol.InitProducerIDResponse:
		if r.ErrorCode == 0 {
			w.pid, w.epoch, w.seq = r.ProducerID, r.ProducerEpoch, map[string]int32{}
		}
	case *kmsg.ShareGroupHeartbeatResponse:
		if r.ErrorCode == 0 && x.state != nil {
			x.state.epoch = max(0, r.MemberEpoch)
		}
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if r.ErrorCode == 0 && x.state != nil {
			x.state.epoch = max(0, r.MemberEpoch)
		}
	case *kmsg.ShareFetchResponse:
		w.learnShareFetch(x, r)
	case *kmsg.ShareAcknowledgeResponse:
		if r.ErrorCode == 0 && x.state != nil {
			x.state.session = next(x.Request.(*kmsg.ShareAcknowledgeRequest).ShareSessionEpoch)
		}
	}
}

func (w *world) learnShareFetch(x request, r *kmsg.ShareFetchResponse) {
	if r.ErrorCode != 0 || x.state == nil {
		return
	}
	x.state.session = next(x.Request.(*kmsg.ShareFetchRequest).ShareSessionEpoch)
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			for _, a := range p.AcquiredRecords {
				x.state.acquired = append(x.state.acquired, acquired{t.TopicID, p.Partition, a.FirstOffset, a.LastOffset})
			}
		}
	}
}

// next is the share session epoch after one that was accepted.
func next(epoch int32) int32 {
	switch epoch {
	case -1:
		return 0
	case math.MaxInt32:
		return 1
	}
	return epoch + 1
}
