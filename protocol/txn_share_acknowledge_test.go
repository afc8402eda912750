package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func exampleTxnShareAcknowledge() *TxnShareAcknowledgeRequest {
	id := "payments"
	q := &TxnShareAcknowledgeRequest{TransactionalID: &id, GroupID: "g", ProducerID: 7, ProducerEpoch: 2, MemberID: "m1", MemberEpoch: 3}
	q.Topics = []TxnShareAcknowledgeTopic{{TopicID: [16]byte{1}, Partitions: []TxnShareAcknowledgePartition{{Partition: 4, AcknowledgementBatches: []TxnShareAcknowledgeBatch{
		{FirstOffset: 0, LastOffset: 4, AcknowledgeTypes: []int8{1}}, {FirstOffset: 5, LastOffset: 6, AcknowledgeTypes: []int8{0, 3}},
	}}}}}
	return q
}

func TestTxnShareAcknowledgeBytes(t *testing.T) {
	want := []byte("\x09payments\x02g" + "\x00\x00\x00\x00\x00\x00\x00\x07" + "\x00\x02" + "\x03m1" + "\x00\x00\x00\x03" +
		"\x02" + "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "\x02" + "\x00\x00\x00\x04" + "\x03" +
		"\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x04" + "\x02\x01" + "\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x05" + "\x00\x00\x00\x00\x00\x00\x00\x06" + "\x03\x00\x03" + "\x00" + "\x00\x00\x00")
	assert.Equal(t, want, exampleTxnShareAcknowledge().AppendTo(nil))
}

func TestTxnShareAcknowledgeRoundTrip(t *testing.T) {
	tagged := exampleTxnShareAcknowledge()
	tagged.UnknownTags.Set(9, []byte{1, 2})
	tagged.Topics[0].Partitions[0].AcknowledgementBatches[0].UnknownTags.Set(3, nil)
	for _, q := range []*TxnShareAcknowledgeRequest{{}, exampleTxnShareAcknowledge(), tagged} {
		var got TxnShareAcknowledgeRequest
		require.NoError(t, got.ReadFrom(q.AppendTo(nil)))
		assert.Equal(t, q.AppendTo(nil), got.AppendTo(nil))
		assert.Equal(t, q.Topics == nil, got.Topics == nil)
	}
	message := "no"
	for _, p := range []*TxnShareAcknowledgeResponse{{ErrorCode: 35}, {Topics: []TxnShareAcknowledgeTopicResponse{{TopicID: [16]byte{2},
		Partitions: []TxnShareAcknowledgePartitionResponse{{Partition: 1, ErrorCode: 121, ErrorMessage: &message}, {Partition: 2}}}}}} {
		var got TxnShareAcknowledgeResponse
		require.NoError(t, got.ReadFrom(p.AppendTo(nil)))
		assert.Equal(t, p, &got)
	}
	var q kmsg.Request = &TxnShareAcknowledgeRequest{APIKey: 94}
	assert.EqualValues(t, 94, q.Key())
	assert.EqualValues(t, 94, q.ResponseKind().Key())
	assert.EqualValues(t, TxnShareAcknowledgeKey, (&TxnShareAcknowledgeResponse{}).RequestKind().Key())
}

func TestTxnShareAcknowledgeRefuses(t *testing.T) {
	whole := exampleTxnShareAcknowledge().AppendTo(nil)
	for n := range whole {
		assert.Error(t, new(TxnShareAcknowledgeRequest).ReadFrom(whole[:n]), "%d bytes", n)
	}
	assert.Error(t, new(TxnShareAcknowledgeRequest).ReadFrom(append(whole, 0)))
	endless := (&TxnShareAcknowledgeRequest{}).AppendTo(nil)
	endless = append(endless[:len(endless)-2], 0xff, 0xff, 0xff, 0xff, 0x0f)
	allocs := testing.AllocsPerRun(1, func() { assert.Error(t, new(TxnShareAcknowledgeRequest).ReadFrom(endless)) })
	assert.Less(t, allocs, 20.0)
}

func FuzzTxnShareAcknowledge(f *testing.F) {
	f.Add(exampleTxnShareAcknowledge().AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q TxnShareAcknowledgeRequest
		if q.ReadFrom(b) != nil {
			return
		}
		var again TxnShareAcknowledgeRequest
		require.NoError(t, again.ReadFrom(q.AppendTo(nil)))
		require.Equal(t, q.AppendTo(nil), again.AppendTo(nil))
	})
}
