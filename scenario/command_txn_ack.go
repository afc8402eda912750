package scenario

import (
	"slices"

	"kshare/protocol"
)

func init() {
	register(&command{
		name:  "txn-ack",
		usage: "txn-ack GROUP MEMBER PRODUCER [PARTITION OFFSETS=TYPE,... ...] [member-epoch=N] [id=PRODUCER|N] [epoch=N] [key=95] [node=N]",
		summary: "Makes what a member says about records part of a producer's transaction (TxnShareAcknowledge of KIP-1289). Types are those of ack. " +
			"key is the API key where the cluster has another than 95.",
		example: `
cluster kip1289=on
topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a b c
join workers m1 orders
fetch workers m1
init-producer p1 txn=payments
txn-ack workers m1 p1 orders-0 0-1=accept 2=reject
state workers orders-0
txn-end p1 commit
state workers orders-0
----
orders: 1 partition
workers: ok
orders-0: offsets 0-2
m1: epoch 3, assigned orders-0
orders-0: acquired 0-2 count 1, lock 30s
  0 a | 1 b | 2 c
p1: producer <p1>, epoch 0
orders-0: ok
orders-0: start 0, end 3, 3 in flight
  0-1  TX_PENDING count 1  accept in a transaction of producer <p1>, epoch 0
  2    TX_PENDING count 1  reject in a transaction of producer <p1>, epoch 0
persisted: start 0, state epoch 2; 0-1 TX_PENDING count 1, 2 TX_PENDING count 1
p1: committed, producer <p1>, epoch 1
orders-0: start 3, end 3, 0 in flight
persisted: start 0, state epoch 2; 0-1 ACKNOWLEDGED count 1, 2 ARCHIVED count 1
`,
		optionNames: []string{"member-epoch", "id", "epoch", "key", "node"},
		freeWords:   true, least: 3, most: -1, waits: true,
		check: checkAcknowledgements(3),
		run:   txnAck,
	})
}

func txnAck(s *step, c *call) error {
	acks, err := c.acknowledgements(3)
	if err != nil {
		return err
	}
	by, id, _, err := s.inTransaction(c.words[2])
	if err != nil {
		return err
	}
	m := s.shareMember(c.words[0], c.words[1])
	nodes, of, err := s.acknowledgementsByNode(c, acks)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		nodes = []int32{s.someNode()}
	}
	q := &protocol.TxnShareAcknowledgeRequest{TransactionalID: &id, GroupID: s.wire(m.group), MemberID: m.id}
	if q.ProducerID, q.ProducerEpoch, err = s.asProducer(c, by); err != nil {
		return err
	}
	epoch, err := c.numberOption("member-epoch", int64(m.epoch), -1<<31, 1<<31-1)
	if err != nil {
		return err
	}
	if q.APIKey, err = transactionalAcksKey(c); err != nil {
		return err
	}
	q.MemberEpoch = int32(epoch)
	for _, node := range nodes {
		if err := s.stageAt(m, node, *q, of[node]); err != nil {
			return err
		}
	}
	return nil
}

// stageAt sends what concerns the partitions of one node.
func (s *step) stageAt(m *member, node int32, q protocol.TxnShareAcknowledgeRequest, acks []acknowledgements) error {
	for _, a := range acks {
		id, err := s.topicID(a.partition.topic)
		if err != nil {
			return err
		}
		p := protocol.TxnShareAcknowledgePartition{Partition: a.partition.partition}
		for _, x := range a.batches {
			p.AcknowledgementBatches = append(p.AcknowledgementBatches, protocol.TxnShareAcknowledgeBatch{FirstOffset: x.first, LastOffset: x.last, AcknowledgeTypes: x.types})
		}
		i := slices.IndexFunc(q.Topics, func(t protocol.TxnShareAcknowledgeTopic) bool { return t.TopicID == id })
		if i < 0 {
			q.Topics = append(q.Topics, protocol.TxnShareAcknowledgeTopic{TopicID: id})
			i = len(q.Topics) - 1
		}
		q.Topics[i].Partitions = append(q.Topics[i].Partitions, p)
	}
	p, err := ask[*protocol.TxnShareAcknowledgeResponse](s, m.client(), node, &q)
	if err != nil {
		return err
	}
	if p.ErrorCode != 0 {
		s.printf("%s", failure(p.ErrorCode, nil))
		return nil
	}
	var outcomes []outcome
	for _, t := range p.Topics {
		for _, x := range t.Partitions {
			text := "ok"
			if x.ErrorCode != 0 {
				text = failure(x.ErrorCode, x.ErrorMessage)
			}
			outcomes = append(outcomes, outcome{topicPartition{s.topicName(t.TopicID), x.Partition}, text})
		}
	}
	s.showOutcomes(outcomes, "ok")
	return nil
}
