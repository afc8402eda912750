package describe_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/describe"
)

func TestSubjects(t *testing.T) {
	id := [16]byte{7}
	commit := &kmsg.OffsetCommitRequest{Group: "g", MemberID: "m", Topics: []kmsg.OffsetCommitRequestTopic{
		{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 3}, {Partition: 5}}}}}
	fetch := &kmsg.ShareFetchRequest{GroupID: kmsg.StringPtr("g"), MemberID: kmsg.StringPtr("m"),
		Topics:              []kmsg.ShareFetchRequestTopic{{TopicID: id, Partitions: []kmsg.ShareFetchRequestTopicPartition{{Partition: 1}}}},
		ForgottenTopicsData: []kmsg.ShareFetchRequestForgottenTopicsData{{TopicID: [16]byte{9}, Partitions: []int32{1}}}}
	offsets := &kmsg.OffsetFetchRequest{Version: 8, Groups: []kmsg.OffsetFetchRequestGroup{
		{Group: "g", MemberID: kmsg.StringPtr("m"), Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{2}}}}, {Group: "h"}}}
	configs := &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{
		{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"}, {ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g"},
		{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"}}}
	whole := func(names ...string) (topics []describe.Topic) {
		for _, name := range names {
			topics = append(topics, describe.Topic{Name: name})
		}
		return topics
	}
	for _, c := range []struct {
		q    kmsg.Request
		want describe.Subject
	}{
		{commit, describe.Subject{Groups: []string{"g"}, Members: []string{"m"}, Topics: []describe.Topic{{Name: "t", Partitions: []int32{3, 5}}}}},
		{fetch, describe.Subject{Groups: []string{"g"}, Members: []string{"m"}, Topics: []describe.Topic{{ID: id, Partitions: []int32{1}}}}},
		{offsets, describe.Subject{Groups: []string{"g", "h"}, Members: []string{"m"}, Topics: []describe.Topic{{Name: "t", Partitions: []int32{2}}}, AllTopics: true}},
		{configs, describe.Subject{Groups: []string{"g"}, Topics: whole("t")}},
		{&kmsg.DescribeGroupsRequest{Groups: []string{"g", "h"}}, describe.Subject{Groups: []string{"g", "h"}}},
		{&kmsg.DeleteTopicsRequest{TopicNames: []string{"t"}}, describe.Subject{Topics: whole("t")}},
		{&kmsg.ShareGroupHeartbeatRequest{GroupID: "g", MemberID: "m", SubscribedTopicNames: []string{"t", "u"}},
			describe.Subject{Groups: []string{"g"}, Members: []string{"m"}, Topics: whole("t", "u")}},
		{&kmsg.LeaveGroupRequest{Group: "g", Members: []kmsg.LeaveGroupRequestMember{{MemberID: "m"}, {MemberID: "n"}}},
			describe.Subject{Groups: []string{"g"}, Members: []string{"m", "n"}}},
		{&kmsg.FindCoordinatorRequest{CoordinatorKey: "g"}, describe.Subject{Groups: []string{"g"}}},
		{&kmsg.FindCoordinatorRequest{CoordinatorType: 1, CoordinatorKeys: []string{"producer"}}, describe.Subject{}},
		{&kmsg.FindCoordinatorRequest{CoordinatorType: 2, CoordinatorKeys: []string{"a:b:topic:1", "none", "a:b"}}, describe.Subject{Groups: []string{"a:b"}}},
		{&kmsg.MetadataRequest{Version: 1}, describe.Subject{AllTopics: true}},
		{&kmsg.MetadataRequest{Version: 1, Topics: []kmsg.MetadataRequestTopic{}}, describe.Subject{}},
		{&kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{}}, describe.Subject{AllTopics: true}},
		{&kmsg.MetadataRequest{Version: 12, Topics: []kmsg.MetadataRequestTopic{{TopicID: id}, {Topic: kmsg.StringPtr("t")}}},
			describe.Subject{Topics: []describe.Topic{{ID: id}, {Name: "t"}}}},
		{&kmsg.DescribeShareGroupOffsetsRequest{Groups: []kmsg.DescribeShareGroupOffsetsRequestGroup{{GroupID: "g"}}}, describe.Subject{Groups: []string{"g"}, AllTopics: true}},
		{&kmsg.DescribeTopicPartitionsRequest{}, describe.Subject{AllTopics: true}},
	} {
		require.Equal(t, c.want, *describe.SubjectOf(c.q), "%T %+v", c.q, c.q)
	}
}

// What an API's requests can name is what a rule or a query may ask for.
func TestNames(t *testing.T) {
	for name, want := range map[string]describe.Names{
		"Produce":                 {Topic: true, Partition: true},
		"Metadata":                {Topic: true},
		"OffsetCommit":            {Group: true, Topic: true, Partition: true},
		"OffsetFetch":             {Group: true, Topic: true, Partition: true},
		"FindCoordinator":         {Group: true},
		"Heartbeat":               {Group: true},
		"DescribeGroups":          {Group: true},
		"ApiVersions":             {},
		"DeleteTopics":            {Topic: true},
		"CreateTopics":            {Topic: true},
		"DescribeConfigs":         {Group: true, Topic: true},
		"ShareGroupHeartbeat":     {Group: true, Topic: true},
		"ShareFetch":              {Group: true, Topic: true, Partition: true},
		"DeleteShareGroupOffsets": {Group: true, Topic: true},
		"TxnShareAcknowledge":     {Group: true, Topic: true, Partition: true},
	} {
		a, err := protocol.WithTxnShareAcknowledge(93).Find(name)
		require.NoError(t, err)
		require.Equal(t, want, describe.NamesOf(a.NewRequest(a.MaxVersion)), name)
	}
	for i := range protocol.APIs {
		if q := protocol.RequestForKey(protocol.APIs[i].Key); q != nil {
			describe.NamesOf(q)
			describe.SubjectOf(q)
			describe.Message(q)
		}
	}
}

func TestJSON(t *testing.T) {
	b := protocol.NewBatchBuilder()
	require.NoError(t, b.Append(0, nil, []byte("v")))
	records, err := b.Finish()
	require.NoError(t, err)
	q := &kmsg.ProduceRequest{Acks: -1, Topics: []kmsg.ProduceRequestTopic{{Topic: "a\xff\x00\"", TopicID: [16]byte{1},
		Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 2, Records: append(records, 9)}}}}}
	text, err := json.Marshal(describe.Message(q))
	require.NoError(t, err)
	var decoded map[string]any
	require.NoError(t, json.Unmarshal(text, &decoded))
	require.Nil(t, decoded["TransactionID"])
	require.Equal(t, float64(-1), decoded["Acks"])
	topic := decoded["Topics"].([]any)[0].(map[string]any)
	require.Equal(t, "a\ufffd\x00\"", topic["Topic"])
	require.Equal(t, "AQAAAAAAAAAAAAAAAAAAAA", topic["TopicID"])
	partition := topic["Partitions"].([]any)[0].(map[string]any)["Records"].(map[string]any)
	require.Equal(t, "09", partition["Rest"])
	require.Equal(t, true, partition["Batches"].([]any)[0].(map[string]any)["CRC"])
}
