package scenario

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// memberKey is how a script names a member.
type memberKey struct{ group, name string }

// member is a member of a group as its client knows it.
type member struct {
	memberKey
	id         string // on the wire
	epoch      int32
	subscribed []string
	assigned   []topicPartition
	sessions   map[int32]*session // by node
	generation int32              // of a classic group
	assignment []byte             // what a classic leader is to hand out
	instance   *string            // of a static member
}

// session is a share session as the client knows it.
type session struct {
	epoch      int32 // of the next request
	partitions map[topicPartition][16]byte
}

// client is the client id of the member, which also names its connections.
func (m *member) client() string { return m.group + "/" + m.name }

// shareMember returns the member of a share group that a script names. Its id follows from the name.
func (s *step) shareMember(group, name string) *member {
	k := memberKey{group, name}
	m := s.members[k]
	if m == nil {
		h := fingerprint("member " + group + " " + name)
		m = &member{memberKey: k, id: uuidText([16]byte(h[:16])), sessions: map[int32]*session{}}
		s.members[k] = m
		s.names.add(m.id, name)
	}
	return m
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
	const (
		notFound = 122
		badEpoch = 123
		limit    = 133
	)
	switch {
	case code == notFound || code == badEpoch || code == limit || code == 0 && epoch < 0:
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
	slices.SortFunc(all, comparePartitions)
	return all
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
