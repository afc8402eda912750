package scenario

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "classic-leave",
		usage:   "classic-leave GROUP [MEMBER ...] [instances=ID,...] [reason=TEXT] [version=N]",
		summary: "Takes members out of a classic group (LeaveGroup): those named, and static ones by their instance ids, as admins do. A member that has left joins without an id.",
		example: `
topic orders
classic-join readers m1 orders
classic-join readers m2 orders instance=two &joining
classic-join readers m1 orders
wait joining
classic-leave readers m1 instances=two,three
classic-leave readers m1
----
orders: 1 partition
m1: generation 1, protocol range, leader m1
  m1: topics orders
m1: generation 2, protocol range, leader m1
  m1: topics orders
  m2 (instance two): topics orders
m2: generation 2, protocol range, leader m1
m1: left
instance two: left
instance three: UNKNOWN_MEMBER_ID (25)
m1: UNKNOWN_MEMBER_ID (25)
`,
		optionNames: []string{"instances", "reason", "version"},
		least:       1, most: -1,
		check: func(c *call) error {
			if len(c.words) == 1 && c.options["instances"] == "" {
				return mistakef("nobody is to leave")
			}
			return nil
		},
		run: classicLeave,
	})
}

func classicLeave(s *step, c *call) error {
	group := c.words[0]
	q := kmsg.NewPtrLeaveGroupRequest()
	if err := s.version(q, c); err != nil {
		return err
	}
	q.Group = s.wire(group)
	add := func(id string, instance *string) {
		x := kmsg.NewLeaveGroupRequestMember()
		if x.MemberID, x.InstanceID = id, instance; q.Version >= 5 {
			if reason, ok := c.options["reason"]; ok {
				x.Reason = &reason
			}
		}
		q.Members = append(q.Members, x)
	}
	labels := c.words[1:]
	client := s.as(admin)
	var leaving []*member
	for _, name := range labels {
		m := s.member(group, name)
		client, q.MemberID = m.client(), m.id
		leaving = append(leaving, m)
		add(m.id, m.instance)
	}
	for _, i := range nonEmpty(c.options["instances"]) {
		labels = append(labels, "instance "+i)
		add("", &i)
	}
	node, err := s.coordinator(group)
	if err != nil {
		return err
	}
	p, err := ask[*kmsg.LeaveGroupResponse](s, client, node, q)
	if err != nil {
		return err
	}
	if p.ErrorCode != errorcode.None {
		s.printf("%s: %s", groupLabel(group), failure(p.ErrorCode, nil))
		return nil
	}
	if q.Version < 3 { // one member, answered at the top
		labels, p.Members = labels[len(labels)-1:], make([]kmsg.LeaveGroupResponseMember, 1)
	}
	if len(p.Members) != len(labels) {
		return noAnswer{fmt.Sprintf("an answer about %s, %d were asked about", plural(len(p.Members), "member"), len(labels))}
	}
	for i, x := range p.Members {
		if x.ErrorCode != errorcode.None {
			s.printf("%s: %s", labels[i], failure(x.ErrorCode, nil))
			continue
		}
		s.printf("%s: left", labels[i])
		if i < len(leaving) {
			leaving[i].id, leaving[i].assigned = "", nil
		}
	}
	return nil
}
