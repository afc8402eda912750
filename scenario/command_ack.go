package scenario

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&command{
		name:  "ack",
		usage: "ack GROUP MEMBER [PARTITION OFFSETS=TYPE,... ...] [epoch=N] [renew=yes] [node=N] [version=N]",
		summary: "Acknowledges records (ShareAcknowledge). A type is gap, accept, release, reject, renew or a number: one for all offsets of the range or one for each. epoch=-1 closes the " +
			"share session.",
		example: `
topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a b c d
join workers m1 orders
fetch workers m1
ack workers m1 orders-0 0-2=accept,release,reject
ack workers m1 orders-0 1=accept
ack workers m1 epoch=-1
----
orders: 1 partition
workers: ok
orders-0: offsets 0-3
m1: epoch 3, assigned orders-0
orders-0: acquired 0-3 count 1, lock 30s
  0 a | 1 b | 2 c | 3 d
orders-0: ok
orders-0: INVALID_RECORD_STATE (121): The offset cannot be acknowledged. The offset is not acquired.
ok
`,
		optionNames: []string{"epoch", "renew", "node", "version"},
		freeWords:   true, least: 2, most: -1, waits: true,
		check: func(c *call) error {
			if _, err := epochOption(c); err != nil {
				return err
			}
			return checkAcknowledgements(2)(c)
		},
		run: shareAcknowledge,
	})
}

func shareAcknowledge(s *step, c *call) error {
	acks, err := c.acknowledgements(2)
	if err != nil {
		return err
	}
	m := s.shareMember(c.words[0], c.words[1])
	nodes, of, err := s.acknowledgementsByNode(c, acks)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		n, err := s.emptyAckNode(c, m)
		if err != nil {
			return err
		}
		nodes = n
	}
	for _, node := range nodes {
		if err := s.acknowledgeNode(c, m, node, of[node]); err != nil {
			return err
		}
	}
	return nil
}

// acknowledgementsByNode says which nodes acknowledgements go to, and what goes to each.
func (s *step) acknowledgementsByNode(c *call, acks []acknowledgements) (nodes []int32, of map[int32][]acknowledgements, err error) {
	var all []topicPartition
	for _, a := range acks {
		all = append(all, a.partition)
	}
	nodes, partitions, err := s.byNode(c, all)
	if err != nil {
		return nil, nil, err
	}
	of = map[int32][]acknowledgements{}
	for _, node := range nodes {
		of[node] = slices.DeleteFunc(slices.Clone(acks), func(a acknowledgements) bool { return !slices.Contains(partitions[node], a.partition) })
	}
	return nodes, of, nil
}

// emptyAckNode finds where an acknowledgement without partitions goes: to the nodes that the member has sessions with.
func (s *step) emptyAckNode(c *call, m *member) (nodes []int32, err error) {
	if _, ok := c.options["node"]; ok {
		n, err := s.node(c, topicPartition{})
		return []int32{n}, err
	}
	for n := range m.sessions {
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		nodes = []int32{s.someNode()}
	}
	slices.Sort(nodes)
	return nodes, nil
}

func (s *step) acknowledgeNode(c *call, m *member, node int32, acks []acknowledgements) error {
	q := kmsg.NewPtrShareAcknowledgeRequest()
	if err := s.version(q, c); err != nil {
		return err
	}
	epoch, err := epochOption(c)
	if err != nil {
		return err
	}
	if q.IsRenewAck, err = c.flag("renew"); err != nil {
		return err
	}
	group := s.wire(m.group)
	q.GroupID, q.MemberID, q.ShareSessionEpoch = &group, &m.id, m.session(node).epoch
	if epoch != nil {
		q.ShareSessionEpoch = *epoch
	}
	for _, a := range acks {
		id, err := s.topicID(a.partition.topic)
		if err != nil {
			return err
		}
		p := kmsg.NewShareAcknowledgeRequestTopicPartition()
		p.Partition = a.partition.partition
		for _, x := range a.batches {
			b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
			b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = x.first, x.last, x.types
			p.AcknowledgementBatches = append(p.AcknowledgementBatches, b)
		}
		i := slices.IndexFunc(q.Topics, func(t kmsg.ShareAcknowledgeRequestTopic) bool { return t.TopicID == id })
		if i < 0 {
			q.Topics = append(q.Topics, kmsg.ShareAcknowledgeRequestTopic{TopicID: id})
			i = len(q.Topics) - 1
		}
		q.Topics[i].Partitions = append(q.Topics[i].Partitions, p)
	}
	p, err := ask[*kmsg.ShareAcknowledgeResponse](s, m.client(), node, q)
	if err != nil {
		return err
	}
	m.went(node, q.ShareSessionEpoch, p.ErrorCode)
	if p.ErrorCode != 0 {
		s.printf("%s", failure(p.ErrorCode, p.ErrorMessage))
		return nil
	}
	if q.ShareSessionEpoch == -1 { // what the member held is given back after the answer
		if err := s.settleEverywhere(); err != nil {
			return err
		}
	}
	s.showAcknowledged(p, q.IsRenewAck)
	return nil
}

// showAcknowledged shows an answer partition by partition; a renewal also how long the locks are now.
func (s *step) showAcknowledged(p *kmsg.ShareAcknowledgeResponse, renewed bool) {
	lock := ""
	if renewed {
		lock = ", lock " + show(time.Duration(p.AcquisitionLockTimeoutMillis)*time.Millisecond)
	}
	var outcomes []outcome
	for _, t := range p.Topics {
		for _, x := range t.Partitions {
			text := "ok" + lock
			if x.ErrorCode != 0 {
				text = failure(x.ErrorCode, x.ErrorMessage) + leaderHint(x.ErrorCode, x.CurrentLeader.LeaderID, x.CurrentLeader.LeaderEpoch)
			}
			outcomes = append(outcomes, outcome{topicPartition{s.topicName(t.TopicID), x.Partition}, text})
		}
	}
	s.showOutcomes(outcomes, "ok"+lock)
}
