package scenario

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name:    "commit",
		usage:   "commit GROUP PARTITION=OFFSET ... [member=MEMBER] [member-epoch=N] [instance=ID] [metadata=TEXT] [leader-epoch=N] [retention=DURATION] [node=N] [version=N]",
		summary: "Commits offsets of a group (OffsetCommit), as a member with its epoch or generation, or as nobody. retention is in versions 2 to 4.",
		example: `
topic orders partitions=2
commit readers orders-0=5 orders-1=7 metadata=half
commit readers orders-0=6 leader-epoch=3
committed readers
consumer-join readers m1 orders
commit readers orders-0=8 member=m1
commit readers orders-0=9
----
orders: 2 partitions
orders-0: ok
orders-1: ok
orders-0: ok
orders-0: 6, leader epoch 3
orders-1: 7, metadata half
m1: epoch 2, assigned orders-0, orders-1
orders-0: ok
orders-0: UNKNOWN_MEMBER_ID (25)
`,
		optionNames: []string{"member", "member-epoch", "instance", "metadata", "leader-epoch", "retention", "node", "version"},
		freeWords:   true, least: 2, most: -1,
		check: func(c *call) error { _, err := offsetWords(c.words[1:]); return err },
		run:   commit,
	})
}

// committedOffset is an offset that a script commits.
type committedOffset struct {
	at     topicPartition
	offset int64
}

// offsetWords reads words like orders-0=5.
func offsetWords(words []string) (all []committedOffset, err error) {
	for _, w := range words {
		partition, text, ok := strings.Cut(w, "=")
		if !ok {
			return nil, mistakef("%q is no offset of a partition; write PARTITION=OFFSET, like orders-0=5", w)
		}
		o := committedOffset{}
		if o.at, err = parsePartition(partition); err != nil {
			return nil, err
		}
		if o.offset, err = number(text, -1<<63, 1<<63-1); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// committer is who commits offsets: a member of the group, or nobody.
type committer struct {
	client   string
	id       string
	epoch    int32 // or generation, -1 for nobody
	instance *string
}

// committerOf is who the options of a command name.
func (s *step) committerOf(c *call, group string) (by committer, err error) {
	by = committer{client: s.as(admin), epoch: -1}
	if name, ok := c.options["member"]; ok {
		m := s.members[memberKey{group, name}]
		if m == nil {
			m = &member{memberKey: memberKey{group, name}, id: name, epoch: -1} // an id as it stands
		}
		by = committer{m.client(), m.id, m.epoch, m.instance}
	}
	by.instance = instanceOption(c, by.instance)
	epoch, err := c.numberOption("member-epoch", int64(by.epoch), -1<<31, 1<<31-1)
	by.epoch = int32(epoch)
	return by, err
}

// offsetDetails are what is committed beside the offsets.
func offsetDetails(c *call) (metadata string, leaderEpoch int32, err error) {
	n, err := c.numberOption("leader-epoch", -1, -1<<31, 1<<31-1)
	return c.options["metadata"], int32(n), err
}

// groupNode is the node that a request about a group goes to: the option's, or the coordinator.
func (s *step) groupNode(c *call, group string) (int32, error) {
	if _, ok := c.options["node"]; ok {
		return s.node(c, topicPartition{})
	}
	return s.coordinator(group)
}

func commit(s *step, c *call) error {
	group := c.words[0]
	all, err := offsetWords(c.words[1:])
	if err != nil {
		return err
	}
	by, err := s.committerOf(c, group)
	if err != nil {
		return err
	}
	q := kmsg.NewPtrOffsetCommitRequest()
	if err := s.version(q, c); err != nil {
		return err
	}
	q.Group, q.MemberID, q.Generation, q.InstanceID, q.RetentionTimeMillis = s.wire(group), by.id, by.epoch, by.instance, -1
	if _, ok := c.options["retention"]; ok {
		d, err := c.durationOption("retention", 0)
		if err != nil {
			return err
		}
		q.RetentionTimeMillis = d.Milliseconds()
	}
	metadata, leaderEpoch, err := offsetDetails(c)
	if err != nil {
		return err
	}
	for _, o := range all {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = o.at.partition, o.offset, leaderEpoch, &metadata
		t := kmsg.NewOffsetCommitRequestTopic()
		if t.Topic = s.wire(o.at.topic); q.Version >= 10 {
			if t.TopicID, err = s.topicID(o.at.topic); err != nil {
				return err
			}
		}
		if last := len(q.Topics) - 1; last >= 0 && q.Topics[last].Topic == t.Topic {
			q.Topics[last].Partitions = append(q.Topics[last].Partitions, p)
			continue
		}
		t.Partitions = append(t.Partitions, p)
		q.Topics = append(q.Topics, t)
	}
	node, err := s.groupNode(c, group)
	if err != nil {
		return err
	}
	p, err := ask[*kmsg.OffsetCommitResponse](s, by.client, node, q)
	if err != nil {
		return err
	}
	var outcomes []outcome
	for _, t := range p.Topics {
		for _, x := range t.Partitions {
			outcomes = append(outcomes, outcome{topicPartition{s.answeredTopic(t.Topic, t.TopicID), x.Partition}, result(x.ErrorCode)})
		}
	}
	s.showOutcomes(outcomes, groupLabel(group)+": "+result(errorcode.None))
	return nil
}

// answeredTopic is the script's name of a topic that an answer names by name or by id.
func (w *world) answeredTopic(name string, id [16]byte) string {
	if id != [16]byte{} {
		return w.topicName(id)
	}
	return w.script(name)
}
