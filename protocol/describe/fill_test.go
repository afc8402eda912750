package describe

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What Message makes of a request, Fill makes the request of.
func TestFillIsTheInverseOfMessage(t *testing.T) {
	group, member := "g", "m"
	q := kmsg.NewPtrShareFetchRequest()
	q.GroupID, q.MemberID, q.MaxBytes = &group, &member, -1
	q.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: [16]byte{1, 2, 250}, Partitions: []kmsg.ShareFetchRequestTopicPartition{{
		Partition:              7,
		AcknowledgementBatches: []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{{FirstOffset: 1, LastOffset: 1 << 40, AcknowledgeTypes: []int8{-128, 3}}},
	}}}}
	text, err := Message(q).MarshalJSON()
	require.NoError(t, err)
	back := kmsg.NewPtrShareFetchRequest()
	require.NoError(t, Fill(back, text))
	require.Equal(t, q.AppendTo(nil), back.AppendTo(nil))

	p := kmsg.NewPtrProduceRequest()
	require.NoError(t, Fill(p, []byte(`{"acks":-1,"topics":[{"topic":"t","partitions":[{"records":"00ff"},{"records":null}]}]}`)))
	require.Equal(t, []byte{0, 255}, p.Topics[0].Partitions[0].Records)
	require.Nil(t, p.Topics[0].Partitions[1].Records)

	f := kmsg.NewPtrFetchRequest()
	require.NoError(t, Fill(f, []byte(`{"topics":[{"partitions":[{}]}]}`)))
	require.EqualValues(t, -1, f.Topics[0].Partitions[0].CurrentLeaderEpoch, "elements begin with their defaults")
}

func TestFillSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		`{"topics":{}}`:                         "topics is to be a list [...] or null, not an object",
		`[]`:                                    "the message is to be an object {...}, not a list",
		`{"group":"g"}`:                         `the message has no field "group": did you mean GroupID?; it has GroupID, MemberID`,
		`{"maxWaitMillis":3000000000}`:          "maxWaitMillis: 3000000000 is out of range for int32, -2147483648 to 2147483647",
		`{"maxWaitMillis":1.5}`:                 "1.5 is no whole number",
		`{"maxWaitMillis":"1"}`:                 "maxWaitMillis is to be a whole number, not text",
		`{"isRenewAck":1}`:                      "isRenewAck is to be true or false, not a number",
		`{"groupId":7}`:                         "groupId is to be text, not a number",
		`{"topics":[{"topicId":"short"}]}`:      "topics[0].topicId: \"short\" is no UUID",
		`{"topics":[{"nonsense":1}]}`:           `topics[0] has no field "nonsense"; it has TopicID, Partitions`,
		`{`:                                     "the JSON cannot be read",
		`{} {}`:                                 "more behind",
		strings.Repeat(`{"topics":[`, 1_000_00): "nested deeper than 32",
	} {
		require.ErrorContains(t, Fill(kmsg.NewPtrShareFetchRequest(), []byte(text)), want, text[:min(40, len(text))])
	}
}
