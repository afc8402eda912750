package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name: "classic-join",
		usage: "classic-join GROUP MEMBER TOPIC,... [protocols=range,...] [session=45s] [rebalance=5m] [instance=ID] [owned=P,...] [type=consumer] [reason=TEXT] [id=MEMBER] [once=yes] " +
			"[version=N]",
		summary: "Joins a classic group (JoinGroup), and asks again with the member id that the broker makes; once=yes sends one request. The leader is shown the members. id= is the id of another " +
			"member, \"\" for none. With another type than consumer the topics are the member's metadata as they stand.",
		example: `
topic orders
classic-join readers m1 orders protocols=range,roundrobin
classic-sync readers m1 m1:orders-0
classic-join readers m2 orders once=yes
classic-join readers m2 orders &joining
classic-heartbeat readers m1
classic-join readers m1 orders protocols=range,roundrobin
wait joining
----
orders: 1 partition
m1: generation 1, protocol range, leader m1
  m1: topics orders
m1: assigned orders-0
m2: MEMBER_ID_REQUIRED (79), member id m2
m1: REBALANCE_IN_PROGRESS (27)
m1: generation 2, protocol range, leader m1
  m1: topics orders
  m2: topics orders
m2: generation 2, protocol range, leader m1
`,
		optionNames: []string{"protocols", "session", "rebalance", "instance", "owned", "type", "reason", "id", "once", "version"},
		least:       3, most: 3, waits: true,
		check: func(c *call) error {
			if err := c.slipOfOption("protocols", "range", "roundrobin", "sticky", "cooperative-sticky"); err != nil {
				return err
			}
			_, err := ownedOption(c, nil)
			return err
		},
		run: classicJoin,
	})
}

// Timeouts of members where the script names none, as those of Java's consumer.
const (
	sessionTimeout   = 45 * time.Second
	rebalanceTimeout = 5 * time.Minute
)

// ownedOption is the partitions that a member says it owns.
func ownedOption(c *call, without []topicPartition) ([]topicPartition, error) {
	switch text, ok := c.options["owned"]; {
	case !ok:
		return without, nil
	case text == "":
		return []topicPartition{}, nil
	default:
		return partitionList(text)
	}
}

func classicJoin(s *step, c *call) error {
	m := s.member(c.words[0], c.words[1])
	q, err := s.joinRequest(c, m)
	if err != nil {
		return err
	}
	once, err := c.flag("once")
	if err != nil {
		return err
	}
	node, err := s.coordinator(m.group)
	if err != nil {
		return err
	}
	p, err := ask[*kmsg.JoinGroupResponse](s, m.client(), node, q)
	if err == nil && p.ErrorCode == errorcode.MemberIDRequired {
		s.known(m, p.MemberID)
		if !once {
			q.MemberID = m.id
			p, err = ask[*kmsg.JoinGroupResponse](s, m.client(), node, q)
		}
	}
	if err != nil {
		return err
	}
	switch p.ErrorCode {
	case errorcode.MemberIDRequired:
		s.printf("%s: %s, member id %s", m.name, failure(p.ErrorCode, nil), p.MemberID)
	case errorcode.None:
		s.known(m, p.MemberID)
		m.epoch, m.protocolType, m.protocol = p.Generation, p.ProtocolType, p.Protocol
		if m.protocolType == nil { // before version 7
			m.protocolType = &q.ProtocolType
		}
		s.showJoined(m, p)
	default:
		s.printf("%s: %s", m.name, failure(p.ErrorCode, nil))
	}
	return nil
}

// joinRequest is the JoinGroup that a command asks for.
func (s *step) joinRequest(c *call, m *member) (*kmsg.JoinGroupRequest, error) {
	q := kmsg.NewPtrJoinGroupRequest()
	if err := s.version(q, c); err != nil {
		return nil, err
	}
	session, err := c.durationOption("session", sessionTimeout)
	if err != nil {
		return nil, err
	}
	rebalance, err := c.durationOption("rebalance", rebalanceTimeout)
	if err != nil {
		return nil, err
	}
	owned, err := ownedOption(c, nil)
	if err != nil {
		return nil, err
	}
	generation := int32(-1)
	if owned != nil {
		generation = m.epoch
	}
	m.instance = instanceOption(c, m.instance)
	q.Group, q.MemberID, q.InstanceID, q.ProtocolType = s.wire(m.group), s.idOption(c, m), m.instance, c.textOption("type", consumerProtocol)
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = int32(session.Milliseconds()), int32(rebalance.Milliseconds())
	if reason, ok := c.options["reason"]; ok {
		q.Reason = &reason
	}
	metadata := s.memberMetadata(q.ProtocolType, c.words[2], owned, generation)
	for _, name := range nonEmpty(c.textOption("protocols", "range")) {
		q.Protocols = append(q.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: metadata})
	}
	return q, nil
}

// showJoined shows the answer to a JoinGroup: the generation, and to the leader the members.
func (s *step) showJoined(m *member, p *kmsg.JoinGroupResponse) {
	protocolType := *m.protocolType
	text := fmt.Sprintf("%s: generation %d, protocol %s", m.name, p.Generation, orNone(p.Protocol))
	if protocolType != consumerProtocol {
		text += ", type " + protocolType
	}
	leader := p.LeaderID
	s.recognise(m.group, leader)
	text += ", leader " + orNone(&leader)
	if p.SkipAssignment {
		text += ", skips the assignment"
	}
	s.printf("%s", text)
	lines := make([]string, len(p.Members))
	for i, x := range p.Members {
		s.recognise(m.group, x.MemberID)
		lines[i] = "  " + s.names.present(x.MemberID)
		if x.InstanceID != nil {
			lines[i] += " (instance " + *x.InstanceID + ")"
		}
		lines[i] += ": " + s.showMetadata(protocolType, x.ProtocolMetadata)
	}
	slices.Sort(lines) // in Kafka's answer the order is that of a hash map
	if len(lines) > 0 {
		s.printf("%s", strings.Join(lines, "\n"))
	}
}

// orNone writes a text that may be missing.
func orNone(text *string) string {
	if text == nil || *text == "" {
		return "none"
	}
	return *text
}
