package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerProtocol is the protocol type of consumers: metadata and assignments of other types are shown as they stand.
const consumerProtocol = "consumer"

// idOption is the member id that a command sends: the member's own, that of another member of the group where the option names one, or the option as it
// stands.
func (s *step) idOption(c *call, m *member) string {
	text, ok := c.options["id"]
	if !ok {
		return m.id
	}
	if other := s.members[memberKey{m.group, text}]; other != nil {
		return other.id
	}
	return text
}

// instanceOption is the instance id that a command sends: the member's own or the option's, "" for none.
func instanceOption(c *call, own *string) *string {
	text, ok := c.options["instance"]
	switch {
	case !ok:
		return own
	case text == "":
		return nil
	default:
		return &text
	}
}

// textOption is an option's text, or what it is without it.
func (c *call) textOption(key, without string) string {
	if text, ok := c.options[key]; ok {
		return text
	}
	return without
}

// uuidSize is the length of the UUID at the end of a member id that a broker has made, after the client or instance id.
const uuidSize = len("01234567-89ab-cdef-0123-456789abcdef")

// recognise names a member id of an answer after the member whose client or instance it was made for.
func (s *step) recognise(group, id string) {
	end := len(id) - uuidSize - 1
	if end < 0 || id[end] != '-' {
		return
	}
	var found []*member
	for _, m := range s.members {
		if m.group == group && (m.client() == id[:end] || m.instance != nil && *m.instance == id[:end]) {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return
	}
	m := slices.MinFunc(found, func(a, b *member) int {
		if (a.id == "") != (b.id == "") { // an instance's new id is that of the member that waits for one
			return len(a.id) - len(b.id)
		}
		return strings.Compare(a.name, b.name)
	})
	s.names.addMember(m.memberKey, id)
}

// memberMetadata is what a member says in a JoinGroup of what it wants: the topics, or the text as it stands where the type is not consumer.
func (s *step) memberMetadata(protocolType, topics string, owned []topicPartition, generation int32) []byte {
	if protocolType != consumerProtocol {
		return []byte(topics)
	}
	d := kmsg.NewConsumerMemberMetadata()
	d.Version, d.Generation = 3, generation
	for _, t := range nonEmpty(topics) {
		d.Topics = append(d.Topics, s.wire(t))
	}
	for _, t := range byTopic(owned) {
		d.OwnedPartitions = append(d.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: s.wire(t.topic), Partitions: t.partitions})
	}
	return d.AppendTo(nil)
}

// nonEmpty takes a list with commas apart; that of nothing is empty.
func nonEmpty(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// showMetadata writes the metadata of a member in the answer to the leader's JoinGroup.
func (s *step) showMetadata(protocolType string, raw []byte) string {
	var d kmsg.ConsumerMemberMetadata
	if protocolType != consumerProtocol || d.ReadFrom(raw) != nil {
		return "metadata " + showBytes(raw, int32(len(raw)))
	}
	topics := make([]string, len(d.Topics))
	for i, t := range d.Topics {
		topics[i] = s.script(t)
	}
	text := "topics " + strings.Join(topics, ", ")
	if len(topics) == 0 {
		text = "no topics"
	}
	var owned []topicPartition
	for _, t := range d.OwnedPartitions {
		for _, p := range t.Partitions {
			owned = append(owned, topicPartition{s.script(t.Topic), p})
		}
	}
	if len(owned) > 0 {
		text += ", owns " + partitionNames(owned)
	}
	if d.Generation >= 0 {
		text += fmt.Sprintf(", generation %d", d.Generation)
	}
	return text
}

// memberAssignment is what a leader hands out to a member in a SyncGroup, as it stands where it is no list of partitions.
func (s *step) memberAssignment(text string) []byte {
	all, err := partitionList(text)
	if err != nil && text != "" {
		return []byte(text)
	}
	var a kmsg.ConsumerMemberAssignment
	a.Version = 3
	for _, t := range byTopic(all) {
		a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: s.wire(t.topic), Partitions: t.partitions})
	}
	return a.AppendTo(nil)
}

// readAssignment reads the assignment of a SyncGroup answer; ok tells whether it is one of a consumer.
func (s *step) readAssignment(raw []byte) (all []topicPartition, ok bool) {
	var a kmsg.ConsumerMemberAssignment
	if a.ReadFrom(raw) != nil {
		return nil, false
	}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			all = append(all, topicPartition{s.script(t.Topic), p})
		}
	}
	return sorted(all), true
}
