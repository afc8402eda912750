package describe

import (
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Subject is whom and what a request names. What a share or fetch session adds is not in the request.
type Subject struct {
	Groups  []string
	Members []string
	Topics  []Topic
	// AllTopics means that a request which could list topics asks for all of them.
	AllTopics bool
}

// Topic is a topic that a request names, by name or by id.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions []int32 // nil for the topic as a whole
}

// Topics of these lists are on their way out of a session.
const forgotten = "Forgotten"

// coordinatorKeyTypes of FindCoordinator (FindCoordinatorRequest.CoordinatorType).
const (
	groupCoordinator int64 = 0
	shareCoordinator int64 = 2
)

// SubjectOf finds whom and what a request names, in any list or field that its API has for it: groups, members and topics to which a
// heartbeat subscribes, resources of a configuration request and keys of coordinators included.
func SubjectOf(q kmsg.Request) *Subject {
	s := &Subject{}
	s.walk(reflect.ValueOf(q).Elem())
	switch q := q.(type) {
	case *kmsg.MetadataRequest:
		s.AllTopics = q.Topics == nil || q.Version == 0 && len(q.Topics) == 0
	case *kmsg.DescribeTopicPartitionsRequest:
		s.AllTopics = len(q.Topics) == 0
	case *kmsg.OffsetFetchRequest:
		s.AllTopics = q.Version < 8 && q.Topics == nil || slices.ContainsFunc(q.Groups, func(g kmsg.OffsetFetchRequestGroup) bool { return g.Topics == nil })
	case *kmsg.DescribeShareGroupOffsetsRequest:
		s.AllTopics = slices.ContainsFunc(q.Groups, func(g kmsg.DescribeShareGroupOffsetsRequestGroup) bool { return g.Topics == nil })
	}
	return s
}

func (s *Subject) walk(v reflect.Value) {
	for f, x := range v.Fields() {
		switch {
		case strings.HasPrefix(f.Name, forgotten):
		case f.Name == "Group" || f.Name == "GroupID" || f.Name == "Groups" && isStrings(x) || f.Name == "GroupIDs":
			s.Groups = append(s.Groups, texts(x)...)
		case f.Name == "MemberID":
			s.Members = append(s.Members, texts(x)...)
		case f.Name == "TopicNames" || f.Name == "SubscribedTopicNames":
			for _, name := range texts(x) {
				s.Topics = append(s.Topics, Topic{Name: name})
			}
		case f.Name == "CoordinatorKey" || f.Name == "CoordinatorKeys":
			s.coordinators(v.FieldByName("CoordinatorType").Int(), texts(x))
		case f.Name == "ResourceName":
			s.resource(v.FieldByName("ResourceType").Int(), x.String())
		case isStructs(x):
			s.elements(x)
		}
	}
}

func (s *Subject) elements(list reflect.Value) {
	named := hasTopic(list.Type().Elem())
	for i := range list.Len() {
		if named {
			s.Topics = append(s.Topics, topicOf(list.Index(i)))
		} else {
			s.walk(list.Index(i))
		}
	}
}

func (s *Subject) coordinators(kind int64, keys []string) {
	for _, key := range keys {
		switch kind {
		case groupCoordinator:
			s.Groups = append(s.Groups, key)
		case shareCoordinator:
			if group, ok := ShareKeyGroup(key); ok {
				s.Groups = append(s.Groups, group)
			}
		}
	}
}

// ShareKeyGroup is the group of a key of the share coordinator, which is group:topicId:partition.
func ShareKeyGroup(key string) (string, bool) {
	partition := strings.LastIndexByte(key, ':')
	if partition < 0 {
		return "", false
	}
	topic := strings.LastIndexByte(key[:partition], ':')
	if topic < 0 {
		return "", false
	}
	return key[:topic], true
}

func (s *Subject) resource(kind int64, name string) {
	switch kmsg.ConfigResourceType(kind) {
	case kmsg.ConfigResourceTypeTopic:
		s.Topics = append(s.Topics, Topic{Name: name})
	case kmsg.ConfigResourceTypeGroupConfig:
		s.Groups = append(s.Groups, name)
	}
}

func topicOf(v reflect.Value) Topic {
	var t Topic
	if name := v.FieldByName("Topic"); name.IsValid() {
		t.Name = strings.Join(texts(name), "")
	}
	if id := v.FieldByName("TopicID"); id.IsValid() {
		t.ID = id.Interface().([16]byte)
	}
	partitions := v.FieldByName("Partitions")
	if !partitions.IsValid() || partitions.Kind() != reflect.Slice {
		return t
	}
	t.Partitions = make([]int32, partitions.Len())
	for i := range partitions.Len() {
		p := partitions.Index(i)
		if p.Kind() == reflect.Struct {
			p = p.FieldByName("Partition")
		}
		t.Partitions[i] = int32(p.Int())
	}
	return t
}

// texts are the texts of a field that may be a string, a nullable one or a list; empty ones are left out, which stand for a field that the
// request's version has not.
func texts(v reflect.Value) []string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return texts(v.Elem())
	case reflect.Slice:
		var out []string
		for i := range v.Len() {
			out = append(out, texts(v.Index(i))...)
		}
		return out
	}
	if v.String() == "" {
		return nil
	}
	return []string{v.String()}
}

func isStrings(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String
}

func isStructs(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct
}

// hasTopic tells whether elements of a list stand for a topic.
func hasTopic(t reflect.Type) bool {
	_, name := t.FieldByName("Topic")
	_, id := t.FieldByName("TopicID")
	return name || id
}

// Names tells what a request of an API can name.
type Names struct{ Group, Topic, Partition bool }

// NamesOf tells what a request can name, whatever this one does. A session's partitions count as named.
func NamesOf(q kmsg.Request) Names {
	if _, ok := q.(*kmsg.FindCoordinatorRequest); ok {
		return Names{Group: true}
	}
	n := Names{}
	n.find(reflect.TypeOf(q).Elem())
	return n
}

func (n *Names) find(t reflect.Type) {
	for f := range t.Fields() {
		switch f.Name {
		case "Group", "GroupID", "GroupIDs":
			n.Group = true
		case "TopicNames", "SubscribedTopicNames":
			n.Topic = true
		case "ResourceName":
			n.Group, n.Topic = true, true
		case "Groups":
			n.Group = true
		}
		if f.Type.Kind() != reflect.Slice || f.Type.Elem().Kind() != reflect.Struct || strings.HasPrefix(f.Name, forgotten) {
			continue
		}
		e := f.Type.Elem()
		if !hasTopic(e) {
			n.find(e)
			continue
		}
		n.Topic = true
		if p, ok := e.FieldByName("Partitions"); ok && p.Type.Kind() == reflect.Slice {
			n.Partition = true
		}
	}
}
