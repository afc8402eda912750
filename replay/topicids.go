package replay

import (
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicIDs returns a source of topic ids for the broker of a session: for each name the ids that its topics had in
// the recording, in the order in which they were seen, and zero ids when they run out. What Kafka answers in the
// order of a hash map of topic ids, or assigns by it, is then the recorded.
func TopicIDs(s *Session, script *Script) func(topic string) [16]byte {
	ids := map[string][][16]byte{}
	see := func(topic string, id [16]byte) {
		if id != [16]byte{} && !slices.Contains(ids[topic], id) {
			ids[topic] = append(ids[topic], id)
		}
	}
	asked := map[int]string{}
	for _, e := range script.events {
		if l, ok := e.do.(learnTopicID); ok {
			asked[e.before] = l.topic
		}
	}
	for _, st := range s.Steps {
		if topic := asked[st.N]; topic != "" {
			for _, id := range topicIDs(st) {
				see(topic, id)
			}
		}
		if st.Raw || len(st.Answers) != 1 {
			continue
		}
		if a, err := decodeAnswer(st.Key, st.Version, st.Answers[0]); err == nil {
			namedIDs(reflect.ValueOf(a.body).Elem(), see)
		}
	}
	return func(topic string) (id [16]byte) {
		if left := ids[topic]; len(left) > 0 {
			id, ids[topic] = left[0], left[1:]
		}
		return id
	}
}

// namedIDs calls see for each topic that an answer about topics gives both a name and an id.
func namedIDs(v reflect.Value, see func(string, [16]byte)) {
	topics := v.FieldByName("Topics")
	if !topics.IsValid() {
		return
	}
	for i := range topics.Len() {
		switch t := topics.Index(i).Interface().(type) {
		case kmsg.CreateTopicsResponseTopic:
			see(t.Topic, t.TopicID)
		case kmsg.MetadataResponseTopic:
			if t.Topic != nil && t.ErrorCode == 0 {
				see(*t.Topic, t.TopicID)
			}
		}
	}
}
