package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const groupName = "bench-group"

// member is a member of a share group that consumes partition 0 over a connection of its own.
type member struct {
	*conn
	id          string
	memberEpoch int32
	epoch       int32  // of its share session
	records     []byte // of the last partition of the last ShareFetch, valid until the next request
	q           *kmsg.ShareFetchRequest
	ack         *kmsg.ShareAcknowledgeRequest
}

// Values of ShareAcquireMode.
const (
	batchOptimized = 0
	recordLimit    = 1
)

// join makes a member that has been assigned the topic.
func join(ctx context.Context, addr string, number int, topic [16]byte) (*member, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	m := &member{conn: c, id: fmt.Sprintf("00000000-0000-4000-8000-%012d", number)}
	m.q = kmsg.NewPtrShareFetchRequest()
	m.q.SetVersion(2)
	m.q.GroupID, m.q.MemberID = kmsg.StringPtr(groupName), &m.id
	m.q.MinBytes, m.q.MaxBytes = 1, fetchMaxBytes
	t := kmsg.NewShareFetchRequestTopic()
	t.TopicID = topic
	t.Partitions = append(t.Partitions, kmsg.NewShareFetchRequestTopicPartition())
	m.q.Topics = append(m.q.Topics, t)
	m.ack = kmsg.NewPtrShareAcknowledgeRequest()
	m.ack.SetVersion(2)
	m.ack.GroupID, m.ack.MemberID = m.q.GroupID, m.q.MemberID
	at := kmsg.NewShareAcknowledgeRequestTopic()
	at.TopicID = topic
	at.Partitions = append(at.Partitions, kmsg.NewShareAcknowledgeRequestTopicPartition())
	m.ack.Topics = append(m.ack.Topics, at)
	err = again(ctx, "FindCoordinator", func() (int16, error) {
		q := kmsg.NewPtrFindCoordinatorRequest()
		q.SetVersion(4)
		q.CoordinatorKeys = []string{groupName}
		var p kmsg.FindCoordinatorResponse
		if err := m.request(q, &p); err != nil {
			return 0, err
		}
		return p.Coordinators[0].ErrorCode, nil
	})
	if err == nil {
		err = m.heartbeat(ctx)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return m, nil
}

// heartbeat joins the group and waits for an assignment.
func (m *member) heartbeat(ctx context.Context) error {
	q := kmsg.NewPtrShareGroupHeartbeatRequest()
	q.SetVersion(1)
	q.GroupID, q.MemberID = groupName, m.id
	q.SubscribedTopicNames = []string{topicName}
	for {
		p := kmsg.NewPtrShareGroupHeartbeatResponse()
		if err := m.request(q, p); err != nil {
			return err
		}
		if err := failure("ShareGroupHeartbeat", p.ErrorCode); err != nil {
			return err
		}
		m.memberEpoch = p.MemberEpoch
		if p.Assignment != nil && len(p.Assignment.TopicPartitions) > 0 {
			return nil
		}
		q.MemberEpoch, q.SubscribedTopicNames = p.MemberEpoch, nil
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type (
	acquired        = kmsg.ShareFetchResponseTopicPartitionAcquiredRecord
	acknowledgement = kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch
)

// fetch sends a ShareFetch that carries acknowledgements and returns what was acquired.
func (m *member) fetch(maxRecords int32, maxWait time.Duration, acks []acknowledgement) ([]acquired, error) {
	q := *m.q
	q.ShareSessionEpoch, q.MaxWaitMillis = m.epoch, int32(maxWait.Milliseconds())
	q.MaxRecords, q.BatchSize, q.ShareAcquireMode = maxRecords, maxRecords, recordLimit
	m.q.Topics[0].Partitions[0].AcknowledgementBatches = acks
	if m.epoch > 0 && len(acks) == 0 {
		q.Topics = nil
	}
	return m.fetched(&q)
}

// take fetches up to so many records that are there, of a partition that it adds to the session or of another one of it.
func (m *member) take(partition, maxRecords int32, mode int8) ([]acquired, error) {
	q := *m.q
	q.ShareSessionEpoch = m.epoch
	q.MaxRecords, q.BatchSize, q.ShareAcquireMode = maxRecords, maxRecords, mode
	q.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: m.q.Topics[0].TopicID, Partitions: []kmsg.ShareFetchRequestTopicPartition{{Partition: partition}}}}
	return m.fetched(&q)
}

// fetched sends a ShareFetch and returns what was acquired.
func (m *member) fetched(q *kmsg.ShareFetchRequest) ([]acquired, error) {
	m.epoch++
	var p kmsg.ShareFetchResponse
	if err := m.request(q, &p); err != nil {
		return nil, err
	}
	if err := failure("ShareFetch", p.ErrorCode); err != nil {
		return nil, err
	}
	var all []acquired
	for i := range p.Topics {
		for j := range p.Topics[i].Partitions {
			got := &p.Topics[i].Partitions[j]
			if err := failure("ShareFetch", got.ErrorCode); err != nil {
				return nil, err
			}
			if err := failure("acknowledgements of ShareFetch", got.AcknowledgeErrorCode); err != nil {
				return nil, err
			}
			all, m.records = append(all, got.AcquiredRecords...), got.Records
		}
	}
	return all, nil
}

// acknowledge sends a ShareAcknowledge that accepts one range.
func (m *member) acknowledge(r acquired) error {
	return m.settle(0, accept, r.FirstOffset, r.LastOffset)
}

// leave ends the share session, which releases all that the member holds.
func (m *member) leave() error {
	q := *m.ack
	q.ShareSessionEpoch, q.Topics = -1, nil
	var p kmsg.ShareAcknowledgeResponse
	if err := m.request(&q, &p); err != nil {
		return err
	}
	return failure("ShareAcknowledge", p.ErrorCode)
}

// named is the partition of the member's ShareAcknowledge.
func (m *member) named() *kmsg.ShareAcknowledgeRequestTopicPartition {
	return &m.ack.Topics[0].Partitions[0]
}

// settle sends a ShareAcknowledge of one type for ranges of a partition, of which the first and last offsets are given in turn.
func (m *member) settle(partition int32, kind int8, offsets ...int64) error {
	named := m.named()
	named.Partition, named.AcknowledgementBatches = partition, named.AcknowledgementBatches[:0]
	types := []int8{kind}
	for i := 0; i < len(offsets); i += 2 {
		named.AcknowledgementBatches = append(named.AcknowledgementBatches, kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{
			FirstOffset: offsets[i], LastOffset: offsets[i+1], AcknowledgeTypes: types,
		})
	}
	m.ack.ShareSessionEpoch, m.ack.IsRenewAck = m.epoch, kind == renew
	m.epoch++
	var p kmsg.ShareAcknowledgeResponse
	if err := m.request(m.ack, &p); err != nil {
		return err
	}
	if err := failure("ShareAcknowledge", p.ErrorCode); err != nil {
		return err
	}
	if len(p.Topics) != 1 || len(p.Topics[0].Partitions) != 1 {
		return fmt.Errorf("ShareAcknowledge: %d topics in the answer", len(p.Topics))
	}
	return failure("ShareAcknowledge", p.Topics[0].Partitions[0].ErrorCode)
}

// Acknowledgement types.
const (
	accept  = 1
	release = 2
	reject  = 3
	renew   = 4
)

// deliveryLimit is group.share.delivery.count.limit as both brokers have it: a record that is released after so many deliveries is archived.
const deliveryLimit = 5

var acceptAll = []int8{accept}

// settle makes the acknowledgements for what was acquired and counts the records that they settle for good.
type settle func(got []acquired) (acks []acknowledgement, settled int)

// accepting accepts everything.
func accepting() settle {
	var acks []acknowledgement
	return func(got []acquired) ([]acknowledgement, int) {
		acks = acks[:0]
		settled := 0
		for _, r := range got {
			acks = append(acks, acknowledgement{FirstOffset: r.FirstOffset, LastOffset: r.LastOffset, AcknowledgeTypes: acceptAll})
			settled += int(r.LastOffset - r.FirstOffset + 1)
		}
		return acks, settled
	}
}

// mixing accepts 80 records of 100, releases 10 and rejects 10, at random.
func mixing(seed uint64) settle {
	random := rand.New(rand.NewPCG(seed, 0))
	var acks []acknowledgement
	var types []int8
	return func(got []acquired) ([]acknowledgement, int) {
		acks, types = acks[:0], types[:0]
		settled := 0
		for _, r := range got {
			from := len(types)
			for range r.LastOffset - r.FirstOffset + 1 {
				kind := int8(accept)
				switch n := random.IntN(10); {
				case n == 0 && r.DeliveryCount < deliveryLimit:
					kind = release
				case n <= 1:
					kind = reject
				}
				if kind != release {
					settled++
				}
				types = append(types, kind)
			}
			acks = append(acks, acknowledgement{FirstOffset: r.FirstOffset, LastOffset: r.LastOffset, AcknowledgeTypes: types[from:]})
		}
		return acks, settled
	}
}
