package broker_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/protocol"
)

// benchMember is a member of a share group that works over a direct connection: what its requests cost is the broker's part alone.
type benchMember struct {
	b      *testing.B
	direct *kshare.Direct
	format *kmsg.RequestFormatter
	topic  [16]byte
	fetch  *kmsg.ShareFetchRequest
	ack    *kmsg.ShareAcknowledgeRequest
	batch  []byte // that produce appends
	size   int    // records of batch
	left   int    // records that were produced and not yet settled
}

func newBenchMember(b *testing.B, batch int) *benchMember {
	c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithTopic("t", 1), kshare.WithConfig("group.share.session.timeout.ms", "60000"))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Close()) })
	direct, err := c.OpenDirect(1)
	require.NoError(b, err)
	m := &benchMember{b: b, direct: direct, format: kmsg.NewRequestFormatter(), topic: c.InspectTopics()[0].ID, size: batch}
	group, id := "g", "m"
	m.ask(&kmsg.FindCoordinatorRequest{Version: 4, CoordinatorKeys: []string{group}}, &kmsg.FindCoordinatorResponse{})
	join := kmsg.NewPtrShareGroupHeartbeatRequest()
	join.Version, join.GroupID, join.MemberID, join.SubscribedTopicNames = 1, group, id, []string{"t"}
	var joined kmsg.ShareGroupHeartbeatResponse
	m.ask(join, &joined)
	require.Zero(b, joined.ErrorCode)

	builder := protocol.NewBatchBuilder()
	require.NoError(b, builder.Reset(nil))
	for range batch {
		require.NoError(b, builder.Append(time.Now().UnixMilli(), nil, make([]byte, 100)))
	}
	m.batch, err = builder.Finish()
	require.NoError(b, err)

	m.fetch = kmsg.NewPtrShareFetchRequest()
	m.fetch.Version, m.fetch.GroupID, m.fetch.MemberID = 2, &group, &id
	m.fetch.MinBytes, m.fetch.MaxBytes, m.fetch.ShareAcquireMode = 1, 50<<20, 1
	from := kmsg.NewShareFetchRequestTopic()
	from.TopicID = m.topic
	from.Partitions = append(from.Partitions, kmsg.NewShareFetchRequestTopicPartition())
	m.fetch.Topics = append(m.fetch.Topics, from)
	m.ack = kmsg.NewPtrShareAcknowledgeRequest()
	m.ack.Version, m.ack.GroupID, m.ack.MemberID = 2, &group, &id
	acked := kmsg.NewShareAcknowledgeRequestTopic()
	acked.TopicID = m.topic
	acked.Partitions = append(acked.Partitions, kmsg.NewShareAcknowledgeRequestTopicPartition())
	m.ack.Topics = append(m.ack.Topics, acked)
	m.acquire(1, nil) // the group begins here
	return m
}

// ask sends a request and decodes its answer.
func (m *benchMember) ask(q kmsg.Request, p kmsg.Response) {
	frame := m.answer(m.format.AppendRequest(nil, q, 1)[4:])
	p.SetVersion(q.GetVersion())
	body := frame[4:]
	if q.IsFlexible() {
		body = body[1:]
	}
	require.NoError(m.b, p.ReadFrom(body))
}

func (m *benchMember) answer(frame []byte) []byte {
	m.direct.Send(frame)
	answer, err := m.direct.Receive()
	require.NoError(m.b, err)
	require.NotNil(m.b, answer, "no answer")
	return answer
}

// supply produces until there are some records for the group.
func (m *benchMember) supply(records int) {
	if m.left >= records {
		return
	}
	m.b.StopTimer()
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.Acks, q.TimeoutMillis = 11, -1, 1000
	to := kmsg.NewProduceRequestTopic()
	to.Topic = "t"
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = m.batch
	to.Partitions = append(to.Partitions, p)
	q.Topics = append(q.Topics, to)
	for range max(1, 500_000/m.size/100) {
		var r kmsg.ProduceResponse
		m.ask(q, &r)
		require.Zero(m.b, r.Topics[0].Partitions[0].ErrorCode)
		m.left += m.size
	}
	m.b.StartTimer()
}

// acquire fetches up to so many records, with acknowledgements of those before. The generator's own work counts little: it has no records to decode.
func (m *benchMember) acquire(records int32, acks []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch) []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord {
	q := *m.fetch
	q.MaxRecords, q.BatchSize = records, records
	m.fetch.Topics[0].Partitions[0].AcknowledgementBatches = acks
	if q.ShareSessionEpoch > 0 && len(acks) == 0 {
		q.Topics = nil
	}
	m.fetch.ShareSessionEpoch++
	var p kmsg.ShareFetchResponse
	m.ask(&q, &p)
	require.Zero(m.b, p.ErrorCode)
	if len(p.Topics) == 0 {
		return nil
	}
	return p.Topics[0].Partitions[0].AcquiredRecords
}

// BenchmarkShareOneByOne fetches and acknowledges one record.
func BenchmarkShareOneByOne(b *testing.B) {
	for name, size := range map[string]int{"batch=1": 1, "batch=1000": 1000} {
		b.Run(name, func(b *testing.B) {
			m := newBenchMember(b, size)
			m.ack.ShareSessionEpoch = 1
			fetch := *m.fetch
			fetch.MaxRecords, fetch.BatchSize, fetch.ShareSessionEpoch, fetch.Topics = 1, 1, 2, nil
			ack := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
			ack.AcknowledgeTypes = []int8{1}
			m.ack.Topics[0].Partitions[0].AcknowledgementBatches = append(m.ack.Topics[0].Partitions[0].AcknowledgementBatches, ack)
			var frame []byte
			b.ReportAllocs()
			epoch, offset := int32(1), int64(0)
			for b.Loop() {
				m.supply(1)
				fetch.ShareSessionEpoch = epoch
				frame = m.format.AppendRequest(frame[:0], &fetch, 1)
				require.Greater(b, len(m.answer(frame[4:])), 100)
				m.ack.ShareSessionEpoch = epoch + 1
				a := &m.ack.Topics[0].Partitions[0].AcknowledgementBatches[0]
				a.FirstOffset, a.LastOffset = offset, offset
				frame = m.format.AppendRequest(frame[:0], m.ack, 1)
				answer := m.answer(frame[4:])
				if code := binary.BigEndian.Uint16(answer[9:]); code != 0 {
					b.Fatal("ShareAcknowledge: ", code)
				}
				epoch, offset, m.left = epoch+2, offset+1, m.left-1
			}
		})
	}
}

// BenchmarkShareDrain fetches 500 records with the acknowledgements of those before.
func BenchmarkShareDrain(b *testing.B) {
	const records = 500
	for _, kind := range []string{"accept", "mixed"} {
		b.Run(kind, func(b *testing.B) {
			m := newBenchMember(b, 1000)
			random := rand.New(rand.NewPCG(1, 2))
			var acks []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch
			b.ReportAllocs()
			for b.Loop() {
				m.supply(2 * records)
				got := m.acquire(records, acks)
				acks = acks[:0]
				for _, r := range got {
					a := kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{FirstOffset: r.FirstOffset, LastOffset: r.LastOffset, AcknowledgeTypes: []int8{1}}
					n := int(r.LastOffset - r.FirstOffset + 1)
					m.left -= n
					if kind == "mixed" {
						a.AcknowledgeTypes = make([]int8, n)
						for i := range a.AcknowledgeTypes {
							switch a.AcknowledgeTypes[i] = 1; random.IntN(10) {
							case 0:
								if r.DeliveryCount < 5 {
									a.AcknowledgeTypes[i] = 2
									m.left++
								}
							case 1:
								a.AcknowledgeTypes[i] = 3
							}
						}
					}
					acks = append(acks, a)
				}
			}
		})
	}
}
