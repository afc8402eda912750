package scenario

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/describe"
	"kshare/protocol/errorcode"
)

// memberKey is how a script names a member.
type memberKey struct{ group, name string }

// member is a member of a group as its client knows it.
type member struct {
	memberKey
	id         string // on the wire
	epoch      int32  // in a classic group the generation
	subscribed []string
	assigned   []topicPartition
	sessions   map[int32]*session // by node
	instance   *string            // of a static member

	protocolType, protocol *string // of a classic group, from the join
}

// session is a share session as the client knows it.
type session struct {
	epoch      int32 // of the next request
	partitions map[topicPartition][16]byte
}

// client is the client id of the member, which also names its connections.
func (m *member) client() string { return m.group + "/" + m.name }

// member returns the member that a script names. A new one has no id.
func (s *step) member(group, name string) *member {
	k := memberKey{group, name}
	m := s.members[k]
	if m == nil {
		m = &member{memberKey: k, sessions: map[int32]*session{}}
		s.members[k] = m
	}
	return m
}

// shareMember returns the member that a script names, whose client makes its own id: it follows from the name. The order of ids decides who is assigned
// what, so that the prefix has no part in it.
func (s *step) shareMember(group, name string) *member {
	m := s.member(group, name)
	if m.id == "" {
		h := fingerprint("member " + group + " " + name)
		s.known(m, describe.UUIDText([16]byte(h[:16])))
	}
	return m
}

// known gives a member the id that it has from now on.
func (s *step) known(m *member, id string) {
	m.id = id
	s.names.addMember(m.memberKey, id)
}

// session returns the member's session with a node, which may not have begun.
func (m *member) session(node int32) *session {
	if m.sessions[node] == nil {
		m.sessions[node] = &session{partitions: map[topicPartition][16]byte{}}
	}
	return m.sessions[node]
}

// went notes that a request of an epoch was answered, or refused for its session.
func (m *member) went(node int32, epoch int32, code int16) {
	switch {
	case code == errorcode.ShareSessionNotFound || code == errorcode.InvalidShareSessionEpoch || code == errorcode.ShareSessionLimitReached || code == 0 && epoch < 0:
		delete(m.sessions, node)
	case code == 0 && epoch == 1<<31-1:
		m.session(node).epoch = 1
	case code == 0:
		m.session(node).epoch = epoch + 1
	}
}

// assignment takes in what a heartbeat assigned.
func (s *step) assign(topics []kmsg.ShareGroupHeartbeatResponseAssignmentTopicPartition) (all []topicPartition) {
	for _, t := range topics {
		for _, p := range t.Partitions {
			all = append(all, topicPartition{s.topicName(t.TopicID), p})
		}
	}
	return sorted(all)
}

// partitionNames writes partitions as runs of a topic: orders-0, orders-1.
func partitionNames(all []topicPartition) string {
	if len(all) == 0 {
		return "nothing"
	}
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.String()
	}
	return strings.Join(names, ", ")
}

// byNode groups partitions by the node that leads them, in the order of node ids.
func (s *step) byNode(c *call, all []topicPartition) (nodes []int32, of map[int32][]topicPartition, err error) {
	of = map[int32][]topicPartition{}
	for _, p := range all {
		n, err := s.node(c, p)
		if err != nil {
			return nil, nil, err
		}
		of[n] = append(of[n], p)
	}
	return slices.Sorted(maps.Keys(of)), of, nil
}
