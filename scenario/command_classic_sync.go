package scenario

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:  "classic-sync",
		usage: "classic-sync GROUP MEMBER [MEMBER:PARTITION,... ...] [generation=N] [protocol=NAME] [type=TYPE] [instance=ID] [id=MEMBER] [version=N]",
		summary: "Asks for the member's assignment (SyncGroup). The leader hands out those of all members, m1:orders-0,orders-1 m2: for example; a text that is no list of partitions is handed " +
			"out as it stands.",
		example: `
topic orders partitions=2
classic-join readers m1 orders
classic-sync readers m1 m1:orders-0,orders-1
classic-sync readers m1 generation=7
classic-sync readers m1 protocol=sticky type=consumer
----
orders: 2 partitions
m1: generation 1, protocol range, leader m1
  m1: topics orders
m1: assigned orders-0, orders-1
m1: ILLEGAL_GENERATION (22)
m1: INCONSISTENT_GROUP_PROTOCOL (23)
`,
		optionNames: []string{"generation", "protocol", "type", "instance", "id", "version"},
		least:       2, most: -1, waits: true,
		check: func(c *call) error {
			for _, w := range c.words[2:] {
				if !strings.Contains(w, ":") {
					return mistakef("%q is no assignment; write MEMBER:PARTITION,..., like m1:orders-0,orders-1", w)
				}
			}
			return nil
		},
		run: classicSync,
	})
}

// generationOption is the generation that a command of a classic member sends.
func generationOption(c *call, m *member) (int32, error) {
	n, err := c.numberOption("generation", int64(m.epoch), -1<<31, 1<<31-1)
	return int32(n), err
}

func classicSync(s *step, c *call) error {
	m := s.member(c.words[0], c.words[1])
	q := kmsg.NewPtrSyncGroupRequest()
	if err := s.version(q, c); err != nil {
		return err
	}
	generation, err := generationOption(c, m)
	if err != nil {
		return err
	}
	q.Group, q.MemberID, q.Generation, q.InstanceID = s.wire(m.group), s.idOption(c, m), generation, instanceOption(c, m.instance)
	q.ProtocolType, q.Protocol = m.protocolType, m.protocol
	if t, ok := c.options["type"]; ok {
		q.ProtocolType = &t
	}
	if name, ok := c.options["protocol"]; ok {
		q.Protocol = &name
	}
	for _, w := range c.words[2:] {
		name, text, _ := strings.Cut(w, ":")
		id := name
		if other := s.members[memberKey{m.group, name}]; other != nil {
			id = other.id
		}
		q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: s.memberAssignment(text)})
	}
	node, err := s.coordinator(m.group)
	if err != nil {
		return err
	}
	p, err := ask[*kmsg.SyncGroupResponse](s, m.client(), node, q)
	if err != nil {
		return err
	}
	if p.ErrorCode != errorcode.None {
		s.printf("%s: %s", m.name, failure(p.ErrorCode, nil))
		return nil
	}
	switch all, ok := s.readAssignment(p.MemberAssignment); {
	case len(p.MemberAssignment) == 0:
		m.assigned = nil
		s.printf("%s: assigned nothing, in no bytes", m.name)
	case !ok:
		s.printf("%s: assigned %s", m.name, showBytes(p.MemberAssignment, int32(len(p.MemberAssignment))))
	default:
		m.assigned = all
		s.printf("%s: assigned %s", m.name, partitionNames(all))
	}
	return nil
}
