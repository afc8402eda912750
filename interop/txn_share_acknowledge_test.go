//go:build unix

package interop

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// compareTxnShareAcknowledge holds that the Java client's TxnShareAcknowledge is the one of package protocol byte for byte, header and all, and that it
// understands the answers that this package writes.
func compareTxnShareAcknowledge(t *testing.T, java []string) {
	t.Helper()
	transactionalID, message := "worker-1", "gone"
	request := &protocol.TxnShareAcknowledgeRequest{
		TransactionalID: &transactionalID, GroupID: "workers", ProducerID: 4711, ProducerEpoch: 12,
		MemberID: "b1946ac9-2492-4d37-9d7c-5f9e3a7f5f0e", MemberEpoch: 3,
		Topics: []protocol.TxnShareAcknowledgeTopic{{
			TopicID: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
			Partitions: []protocol.TxnShareAcknowledgePartition{{Partition: 5, AcknowledgementBatches: []protocol.TxnShareAcknowledgeBatch{
				{FirstOffset: 0, LastOffset: 4, AcknowledgeTypes: []int8{1}},
				{FirstOffset: 7, LastOffset: 9, AcknowledgeTypes: []int8{1, 0, 3}},
				{FirstOffset: 1 << 40, LastOffset: 1 << 40, AcknowledgeTypes: []int8{3}},
			}}},
		}},
	}
	const correlationID = 7
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("a client")).AppendRequest(nil, request, correlationID)
	of := func(code int16, message *string) []protocol.TxnShareAcknowledgeTopicResponse {
		return []protocol.TxnShareAcknowledgeTopicResponse{{Partitions: []protocol.TxnShareAcknowledgePartitionResponse{{Partition: 5, ErrorCode: code, ErrorMessage: message}}}}
	}
	args := append(java[:len(java):len(java)], "kshare.interop.TxnShareAcknowledgeProgram")
	want := "REQUEST " + hex.EncodeToString(frame[4:]) + "\n" // behind the length
	for _, answer := range []struct {
		protocol.TxnShareAcknowledgeResponse
		want string
	}{
		{protocol.TxnShareAcknowledgeResponse{Topics: of(errorcode.None, nil)}, "0 null"},
		{protocol.TxnShareAcknowledgeResponse{ThrottleMillis: 3, Topics: of(errorcode.InvalidRecordState, &message)}, "121 gone"},
		{protocol.TxnShareAcknowledgeResponse{ErrorCode: errorcode.StaleMemberEpoch}, "113 null"},
		{protocol.TxnShareAcknowledgeResponse{}, "-1 the answer is not about the partition"},
	} {
		header := []byte{0, 0, 0, correlationID, 0}
		args = append(args, hex.EncodeToString(answer.AppendTo(header)))
		want += fmt.Sprintf("ANSWER %s\n", answer.want)
	}
	assert.Equal(t, want+"PASS java TxnShareAcknowledge\n", run(t, programLimit, "java", nil, args...))
}
