package coordinator

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/coordinator/assignor"
	"kshare/protocol/errorcode"
)

// What consumer and share groups have in common: the groups whose coordinator assigns. Kafka calls them modern.

// Member epochs in heartbeats that are no epochs.
const (
	epochJoin        int32 = 0
	epochLeave       int32 = -1
	epochLeaveStatic int32 = -2
)

// Member states as current assignments are stored with them. Source: MemberState.
const (
	memberStable     int8 = 0
	memberUnrevoked  int8 = 1 // the client is to give partitions up
	memberUnreleased int8 = 2 // it waits for partitions that others have
)

// topicsNotDescribable is said of a group with topics that the caller may not describe.
const topicsNotDescribable = "The group has described topic(s) that the client is not authorized to describe."

// failure is an error answer of a heartbeat: a code and what is said with it, which may be nothing.
type failure struct {
	code    int16
	message string
}

// text is the message as it stands in an answer.
func (f *failure) text() *string {
	if f.message == "" {
		return nil
	}
	return &f.message
}

// mayDescribe is the failure of a request to describe a group as one of a type; enabled tells whether there are groups of that type.
func (g *Groups) mayDescribe(c Caller, enabled bool, id string, kind groupType) *failure {
	switch gr := g.groups[id]; {
	case !enabled:
		return &failure{code: errorcode.UnsupportedVersion}
	case !c.allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeGroup, id):
		return &failure{code: errorcode.GroupAuthorizationFailed}
	case id == "":
		return &failure{code: errorcode.InvalidGroupID}
	case gr == nil || gr.kind() != kind:
		return &failure{errorcode.GroupIDNotFound, g.notFound(id, kind)}
	}
	return nil
}

// mayDescribeTopics is the failure where a group's members subscribe to a topic that the caller may not describe.
func (c Caller) mayDescribeTopics(names map[string]bool) *failure {
	for name := range names {
		if !c.allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTopic, name) {
			return &failure{errorcode.TopicAuthorizationFailed, topicsNotDescribable}
		}
	}
	return nil
}

// topicPartition is one partition of a topic.
type topicPartition struct {
	topic     assignor.TopicID
	partition int32
}

// topicHash stands for all that an assignment depends on in the topics of these names: that they exist, their
// ids and partition counts. It is 0 if none exists.
func topicHash(topics Topics, names map[string]bool) int64 {
	var sum uint64
	for name := range names {
		t, ok := topics.TopicByName(name)
		if !ok {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write(t.ID[:])
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(t.Partitions)))
		_, _ = h.Write([]byte(t.Name))
		sum += h.Sum64()
	}
	return int64(sum)
}

// describeTopics looks up the topics of these names that exist.
func describeTopics(topics Topics, names map[string]bool) map[string]assignor.Topic {
	out := make(map[string]assignor.Topic, len(names))
	for name := range names {
		if t, ok := topics.TopicByName(name); ok {
			out[name] = assignor.Topic{ID: t.ID, Partitions: t.Partitions}
		}
	}
	return out
}

// mayAssign reports whether a new target may be computed: at most one in an interval, but the first at once.
func mayAssign(now time.Time, lastMs int64, interval time.Duration) bool {
	return lastMs == 0 || interval == 0 || now.UnixMilli()-lastMs >= interval.Milliseconds()
}

// sameNames compares two sets of names.
func sameNames(a, b []string) bool {
	return slices.Equal(distinct(a), distinct(b))
}

// distinct is a set of names in their order.
func distinct(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}

// listed turns an assignment into the order in which Kafka answers it: that of a map that was filled in the order of the ids.
func listed(a assignor.Assignment) []assignor.TopicID {
	return assignor.TopicOrder(slices.SortedFunc(maps.Keys(a), assignor.CompareTopics))
}

// sortedKeys are the keys of a map of members in their order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func equalPtr[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// utf16Len is the length of a string as Java counts it.
func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
