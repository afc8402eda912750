package scenario

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&command{
		name:    "describe-group",
		usage:   "describe-group GROUP [type=share|consumer|classic]",
		summary: "Shows state, epochs and members of a group (ShareGroupDescribe, ConsumerGroupDescribe or DescribeGroups).",
		example: `
topic orders partitions=2
join workers m1 orders
join workers m2 orders
heartbeat workers m1
describe-group workers
----
orders: 2 partitions
m1: epoch 3, assigned orders-0, orders-1
m2: epoch 4, assigned orders-0
m1: epoch 4, assigned orders-1
workers: Stable, epoch 4, assignment epoch 4, assignor simple
  m1: epoch 4, subscribes orders, assigned orders-1
  m2: epoch 4, subscribes orders, assigned orders-0
`,
		optionNames: []string{"type"},
		least:       1, most: 1,
		check: func(c *call) error {
			if t, ok := c.options["type"]; ok && groupDescribers[t] == nil {
				return mistakef("type=%s: share, consumer or classic", t)
			}
			return nil
		},
		run: func(s *step, c *call) error {
			kind := c.options["type"]
			if kind == "" {
				kind = "share"
			}
			node, err := s.coordinator(c.words[0])
			if err != nil {
				return err
			}
			return groupDescribers[kind](s, c.words[0], node)
		},
	})
}

var groupDescribers = map[string]func(s *step, group string, node int32) error{
	"share": describeShareGroup, "consumer": describeConsumerGroup, "classic": describeClassicGroup,
}

// groupMember is a member of a group as a description shows it, where sorting by name makes the order.
type groupMember struct{ name, text string }

func (s *step) showMembers(all []groupMember) {
	slices.SortFunc(all, func(a, b groupMember) int { return strings.Compare(a.name+a.text, b.name+b.text) })
	for _, m := range all {
		s.printf("  %s: %s", m.name, m.text)
	}
}

func describeShareGroup(s *step, group string, node int32) error {
	q := kmsg.NewPtrShareGroupDescribeRequest()
	q.GroupIDs = []string{s.wire(group)}
	p, err := request[*kmsg.ShareGroupDescribeResponse](s, s.as(admin), node, q)
	if err != nil {
		return err
	}
	for _, g := range p.Groups {
		if g.ErrorCode != 0 {
			s.printf("%s: %s", group, failure(g.ErrorCode, g.ErrorMessage))
			continue
		}
		s.printf("%s: %s, epoch %d, assignment epoch %d, assignor %s", group, g.GroupState, g.GroupEpoch, g.AssignmentEpoch, g.Assignor)
		var members []groupMember
		for _, m := range g.Members {
			var assigned []topicPartition
			for _, t := range m.Assignment.TopicPartitions {
				for _, n := range t.Partitions {
					assigned = append(assigned, topicPartition{s.script(t.Topic), n})
				}
			}
			rack := ""
			if m.RackID != nil {
				rack = ", rack " + *m.RackID
			}
			members = append(members, groupMember{s.names.present(m.MemberID),
				"epoch " + number32(m.MemberEpoch) + rack + ", subscribes " + s.subscribed(m.SubscribedTopicNames) + ", assigned " + partitionNames(sorted(assigned))})
		}
		s.showMembers(members)
	}
	return nil
}

func describeConsumerGroup(s *step, group string, node int32) error {
	q := kmsg.NewPtrConsumerGroupDescribeRequest()
	q.Groups = []string{s.wire(group)}
	p, err := request[*kmsg.ConsumerGroupDescribeResponse](s, s.as(admin), node, q)
	if err != nil {
		return err
	}
	for _, g := range p.Groups {
		if g.ErrorCode != 0 {
			s.printf("%s: %s", group, failure(g.ErrorCode, g.ErrorMessage))
			continue
		}
		s.printf("%s: %s, epoch %d, assignment epoch %d, assignor %s", group, g.State, g.Epoch, g.AssignmentEpoch, g.AssignorName)
		var members []groupMember
		for _, m := range g.Members {
			text := "epoch " + number32(m.MemberEpoch)
			if m.InstanceID != nil {
				text += ", instance " + *m.InstanceID
			}
			text += ", subscribes " + s.subscribed(m.SubscribedTopics)
			if m.SubscribedTopicRegex != nil && *m.SubscribedTopicRegex != "" {
				text += ", regex " + *m.SubscribedTopicRegex
			}
			text += ", assigned " + partitionNames(s.assignmentOf(m.Assignment)) + ", target " + partitionNames(s.assignmentOf(m.TargetAssignment))
			members = append(members, groupMember{s.names.present(m.MemberID), text})
		}
		s.showMembers(members)
	}
	return nil
}

func (s *step) assignmentOf(a kmsg.Assignment) (all []topicPartition) {
	for _, t := range a.TopicPartitions {
		for _, n := range t.Partitions {
			all = append(all, topicPartition{s.script(t.Topic), n})
		}
	}
	return sorted(all)
}

func describeClassicGroup(s *step, group string, node int32) error {
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Groups = []string{s.wire(group)}
	p, err := request[*kmsg.DescribeGroupsResponse](s, s.as(admin), node, q)
	if err != nil {
		return err
	}
	for _, g := range p.Groups {
		if g.ErrorCode != 0 {
			s.printf("%s: %s", group, failure(g.ErrorCode, g.ErrorMessage))
			continue
		}
		s.printf("%s: %s, type %q, protocol %q", group, g.State, g.ProtocolType, g.Protocol)
		var members []groupMember
		for _, m := range g.Members {
			text := "subscription of " + plural(len(m.ProtocolMetadata), "byte") + ", assignment of " + plural(len(m.MemberAssignment), "byte")
			if m.InstanceID != nil {
				text = "instance " + *m.InstanceID + ", " + text
			}
			members = append(members, groupMember{s.names.present(m.MemberID), text})
		}
		s.showMembers(members)
	}
	return nil
}

// subscribed are topics that a member subscribes, sorted.
func (s *step) subscribed(topics []string) string {
	if len(topics) == 0 {
		return "nothing"
	}
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = s.script(t)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
