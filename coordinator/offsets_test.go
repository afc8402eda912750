package coordinator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

var (
	topicT  = Topic{Name: "t", ID: [16]byte{1}, Partitions: 3}
	topicU  = Topic{Name: "u", ID: [16]byte{2}, Partitions: 3}
	topicT2 = Topic{Name: "t", ID: [16]byte{3}, Partitions: 3}
)

func commitRequest(group, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = group
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return req
}

func (d *desk) commit(req *kmsg.OffsetCommitRequest) int16 {
	return d.send(9, "", req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

func txnCommitRequest(producerID int64, group string, partition int32, offset int64) *kmsg.TxnOffsetCommitRequest {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = "x", group, producerID, 1
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", TopicID: topicT.ID, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}}}
	return req
}

func (d *desk) txnCommit(version int16, req *kmsg.TxnOffsetCommitRequest) int16 {
	return d.send(version, "", req).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// fetch returns offset and code of a partition.
func (d *desk) fetch(group, topic string, partition int32, stable bool) (int64, int16) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = stable
	x := kmsg.NewOffsetFetchRequestGroup()
	x.Group = group
	x.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{partition}}}
	req.Groups = append(req.Groups, x)
	p := d.send(9, "", req).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions[0]
	return p.Offset, p.ErrorCode
}

func (d *desk) wantOffset(group, topic string, partition int32, want int64) {
	d.t.Helper()
	offset, code := d.fetch(group, topic, partition, true)
	assert.Equal(d.t, errorcode.None, code)
	assert.Equal(d.t, want, offset)
}

func (d *desk) endTransaction(group string, producerID int64, commit bool) {
	d.g.EndTransaction(d.g.PartitionFor(group), producerID, commit)
}

func TestTransactionalOffsets(t *testing.T) {
	d := newDesk(t, testConfig(), topicT)
	require.Equal(t, errorcode.None, d.txnCommit(6, txnCommitRequest(7, "g", 0, 11)))
	last := d.log[len(d.log)-1]
	assert.True(t, last.Transactional)
	assert.Equal(t, int64(7), last.ProducerID)
	assert.Equal(t, int16(1), last.ProducerEpoch)
	_, code := d.fetch("g", "t", 0, true)
	assert.Equal(t, errorcode.UnstableOffsetCommit, code)
	offset, code := d.fetch("g", "t", 0, false)
	assert.Equal(t, errorcode.None, code)
	assert.Equal(t, int64(-1), offset)
	d.wantOffset("g", "t", 1, -1)

	t.Run("pending over a restart", func(t *testing.T) {
		d := &desk{t: t, g: d.g, now: d.now, log: d.log, parked: d.parked}
		d.restart()
		_, code := d.fetch("g", "t", 0, true)
		assert.Equal(t, errorcode.UnstableOffsetCommit, code)
		d.endTransaction("g", 7, false)
		d.wantOffset("g", "t", 0, -1)
	})

	d.g.EndTransaction((d.g.PartitionFor("g")+1)%50, 7, true)
	_, code = d.fetch("g", "t", 0, true)
	assert.Equal(t, errorcode.UnstableOffsetCommit, code, "the marker of another partition ends nothing")
	d.endTransaction("g", 7, true)
	d.wantOffset("g", "t", 0, 11)

	// A plain commit that comes later stays, one that came before does not.
	d.txnCommit(6, txnCommitRequest(8, "g", 0, 22))
	d.commit(commitRequest("g", "t", 0, 33))
	d.endTransaction("g", 8, true)
	d.wantOffset("g", "t", 0, 33)
	d.txnCommit(6, txnCommitRequest(8, "g", 0, 44))
	d.endTransaction("g", 8, false)
	d.wantOffset("g", "t", 0, 33)
	assert.Empty(t, d.g.offsets.producers)

	// Deleting the offset drops what is pending.
	d.txnCommit(6, txnCommitRequest(9, "g", 0, 55))
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "g"
	req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
	assert.Equal(t, errorcode.None, d.send(0, "", req).(*kmsg.OffsetDeleteResponse).Topics[0].Partitions[0].ErrorCode)
	d.endTransaction("g", 9, true)
	d.wantOffset("g", "t", 0, -1)
	assert.Empty(t, d.g.offsets.groups)
}

func TestTxnOffsetCommitCodes(t *testing.T) {
	long := string(make([]byte, 4097))
	for _, tt := range []struct {
		name    string
		version int16
		change  func(*kmsg.TxnOffsetCommitRequest)
		code    int16
	}{
		{"no member", 3, func(*kmsg.TxnOffsetCommitRequest) {}, errorcode.None},
		{"unknown topic", 5, func(r *kmsg.TxnOffsetCommitRequest) { r.Topics[0].Topic = "nosuch" }, errorcode.UnknownTopicOrPartition},
		{"unknown partition", 5, func(r *kmsg.TxnOffsetCommitRequest) { r.Topics[0].Partitions[0].Partition = 3 }, errorcode.UnknownTopicOrPartition},
		{"negative partition", 5, func(r *kmsg.TxnOffsetCommitRequest) { r.Topics[0].Partitions[0].Partition = -1 }, errorcode.UnknownTopicOrPartition},
		{"unknown id", 6, func(r *kmsg.TxnOffsetCommitRequest) { r.Topics[0].TopicID = [16]byte{9} }, errorcode.UnknownTopicID},
		{"generation in an empty group", 5, func(r *kmsg.TxnOffsetCommitRequest) { r.Generation, r.MemberID = 3, "x" }, errorcode.UnknownMemberID},
		{"generation in an unknown group", 5, func(r *kmsg.TxnOffsetCommitRequest) { r.Group, r.Generation, r.MemberID = "new", 3, "x" }, errorcode.IllegalGeneration},
		{"generation in an unknown group", 6, func(r *kmsg.TxnOffsetCommitRequest) { r.Group, r.Generation, r.MemberID = "new", 3, "x" }, errorcode.GroupIDNotFound},
		{"member without generation", 6, func(r *kmsg.TxnOffsetCommitRequest) { r.MemberID = "x" }, errorcode.None},
		{"metadata of 4097", 6, func(r *kmsg.TxnOffsetCommitRequest) { r.Topics[0].Partitions[0].Metadata = &long }, errorcode.OffsetMetadataTooLarge},
		{"empty group id", 6, func(r *kmsg.TxnOffsetCommitRequest) { r.Group = "" }, errorcode.InvalidGroupID},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, testConfig(), topicT)
			require.Equal(t, errorcode.None, d.commit(commitRequest("g", "t", 0, 1)))
			req := txnCommitRequest(7, "g", 0, 5)
			tt.change(req)
			assert.Equal(t, tt.code, d.txnCommit(tt.version, req))
		})
	}
}

func TestTxnOffsetCommitWhileRebalancing(t *testing.T) {
	d := newDesk(t, testConfig(), topicT)
	leader, follower := two(d, nil)
	req := commitRequest("g", "t", 0, 5)
	req.MemberID, req.Generation = leader, 2
	assert.Equal(t, errorcode.RebalanceInProgress, d.commit(req))
	txn := txnCommitRequest(7, "g", 0, 5)
	txn.MemberID, txn.Generation = follower, 2
	assert.Equal(t, errorcode.None, d.txnCommit(6, txn))
	txn.Generation = 1
	assert.Equal(t, errorcode.IllegalGeneration, d.txnCommit(6, txn))
	txn.Generation, txn.MemberID = -1, ""
	assert.Equal(t, errorcode.None, d.txnCommit(6, txn), "older producers name no member")
}

func TestCommitKeepsTheSessionAlive(t *testing.T) {
	d := newDesk(t, testConfig(), topicT)
	member := d.stable("g", nil)
	req := commitRequest("g", "t", 0, 5)
	req.MemberID, req.Generation = member, 1
	for range 5 {
		d.advance(8 * time.Second)
		assert.Equal(t, errorcode.None, d.commit(req))
	}
	d.advance(10 * time.Second)
	assert.Equal(t, errorcode.UnknownMemberID, d.commit(req))
}

func TestOffsetsOfADeletedTopic(t *testing.T) {
	d := newDesk(t, testConfig(), topicT, topicU)
	d.commit(commitRequest("g", "t", 0, 5))
	d.commit(commitRequest("g", "u", 0, 6))
	var e Effects
	known := d.g.topics.(testTopics)
	delete(known, "t")
	d.g.TopicsDeleted(d.now, []Topic{topicT}, &e)
	d.done(e)
	d.restart()
	d.wantOffset("g", "t", 0, -1)
	d.wantOffset("g", "u", 0, 6)

	known.add(topicT2)
	d.commit(commitRequest("g", "t", 0, 7))
	e = Effects{}
	d.g.TopicsDeleted(d.now, []Topic{topicT}, &e)
	assert.Empty(t, e.Records, "what was committed to the new topic stays")

	// One committed to the old topic is not shown for the new one if topics are named by id.
	d.g.offsets.make("g").committed[partitionName{"t", 1}] = committedOffset{offset: 1, topicID: topicT.ID}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{
		{TopicID: topicT2.ID, Partitions: []int32{0, 1}},
	}}}
	partitions := d.send(10, "", req).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0].Partitions
	assert.Equal(t, int64(7), partitions[0].Offset)
	assert.Equal(t, int64(-1), partitions[1].Offset)
	d.wantOffset("g", "t", 1, 1)
}

func TestRetention(t *testing.T) {
	config := testConfig()
	config.OffsetsRetention, config.OffsetsRetentionCheckPeriod = time.Hour, time.Minute
	t.Run("simple group: from the commit", func(t *testing.T) {
		d := newDesk(t, config, topicT)
		d.commit(commitRequest("g", "t", 0, 5))
		d.advance(30 * time.Minute)
		d.commit(commitRequest("g", "t", 1, 6))
		d.advance(30 * time.Minute)
		d.wantOffset("g", "t", 0, -1)
		d.wantOffset("g", "t", 1, 6)
		d.advance(30 * time.Minute)
		assert.Empty(t, d.g.groups, "without offsets the group goes too")
		d.restart()
		assert.Empty(t, d.g.groups)
		assert.Empty(t, d.g.offsets.groups)
	})
	t.Run("retention of the request", func(t *testing.T) {
		d := newDesk(t, config, topicT)
		req := commitRequest("g", "t", 0, 5)
		req.RetentionTimeMillis = 120_000
		d.send(2, "", req)
		d.commit(commitRequest("g", "t", 1, 6))
		d.restart()
		d.advance(119 * time.Second)
		d.wantOffset("g", "t", 0, 5)
		d.advance(time.Second)
		d.wantOffset("g", "t", 0, -1)
		d.wantOffset("g", "t", 1, 6)
	})
	t.Run("members: only topics that nobody subscribes", func(t *testing.T) {
		d := newDesk(t, config, topicT, topicU)
		member := d.stable("g", nil)
		for _, topic := range []string{"t", "u"} {
			req := commitRequest("g", topic, 0, 5)
			req.MemberID, req.Generation = member, 1
			require.Equal(t, errorcode.None, d.commit(req))
		}
		for range 720 {
			d.advance(5 * time.Second)
			require.Equal(t, errorcode.None, d.heartbeat("g", member, 1))
		}
		d.wantOffset("g", "t", 0, 5)
		d.wantOffset("g", "u", 0, -1)

		// From now the group is empty and its hour begins.
		d.advance(10 * time.Second)
		assert.Equal(t, "Empty", d.describe("g").State)
		d.advance(59 * time.Minute)
		d.wantOffset("g", "t", 0, 5)
		d.advance(2 * time.Minute)
		assert.Empty(t, d.g.groups)
	})
	t.Run("pending offsets keep", func(t *testing.T) {
		d := newDesk(t, config, topicT)
		d.commit(commitRequest("g", "t", 0, 5))
		d.txnCommit(6, txnCommitRequest(7, "g", 0, 6))
		d.advance(2 * time.Hour)
		offset, _ := d.fetch("g", "t", 0, false)
		assert.Equal(t, int64(5), offset)
		d.endTransaction("g", 7, false)
		d.advance(time.Minute)
		assert.Empty(t, d.g.groups)
	})
}

// denied denies operations named as "operation resource name".
type denied map[string]bool

func (a denied) Allowed(op kmsg.ACLOperation, resource kmsg.ACLResourceType, name string) bool {
	return !a[op.String()+" "+resource.String()+" "+name]
}

func TestAuthorization(t *testing.T) {
	d := newDesk(t, testConfig(), topicT, topicU)
	d.commit(commitRequest("g", "t", 0, 5))
	d.commit(commitRequest("g", "u", 0, 6))
	d.commit(commitRequest("h", "t", 0, 7))
	both := commitRequest("g", "t", 0, 8)
	both.Topics = append(both.Topics, commitRequest("g", "u", 0, 9).Topics...)
	list, describe := kmsg.NewPtrListGroupsRequest(), kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups, describe.IncludeAuthorizedOperations = []string{"g"}, true

	t.Run("group", func(t *testing.T) {
		d.auth = denied{"READ GROUP g": true, "DESCRIBE GROUP g": true, "DELETE GROUP g": true, "DESCRIBE CLUSTER kafka-cluster": true}
		assert.Equal(t, errorcode.GroupAuthorizationFailed, d.commit(commitRequest("g", "t", 0, 8)))
		groups := d.send(5, "", list).(*kmsg.ListGroupsResponse).Groups
		require.Len(t, groups, 1)
		assert.Equal(t, "h", groups[0].Group)
		x := d.send(6, "", describe).(*kmsg.DescribeGroupsResponse).Groups[0]
		assert.Equal(t, errorcode.GroupAuthorizationFailed, x.ErrorCode)
		assert.Equal(t, noOperations, x.AuthorizedOperations)
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Group, fetch.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		assert.Equal(t, errorcode.GroupAuthorizationFailed, d.send(2, "", fetch).(*kmsg.OffsetFetchResponse).ErrorCode)
		v1 := d.send(1, "", fetch).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]
		assert.Equal(t, errorcode.GroupAuthorizationFailed, v1.ErrorCode, "version 1 has no place but the partition")
		drop := kmsg.NewPtrDeleteGroupsRequest()
		drop.Groups = []string{"g"}
		assert.Equal(t, errorcode.GroupAuthorizationFailed, d.send(3, "", drop).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode)
	})
	t.Run("topic", func(t *testing.T) {
		d.auth = denied{"READ TOPIC t": true, "DESCRIBE TOPIC t": true, "ALTER_CONFIGS GROUP g": true}
		topics := d.send(9, "", both).(*kmsg.OffsetCommitResponse).Topics
		require.Len(t, topics, 2)
		assert.Equal(t, "t", topics[0].Topic, "what fails comes first")
		assert.Equal(t, errorcode.TopicAuthorizationFailed, topics[0].Partitions[0].ErrorCode)
		assert.Equal(t, errorcode.None, topics[1].Partitions[0].ErrorCode)
		all := kmsg.NewPtrOffsetFetchRequest()
		all.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", MemberEpoch: -1}}
		fetched := d.send(9, "", all).(*kmsg.OffsetFetchResponse).Groups[0].Topics
		require.Len(t, fetched, 1)
		assert.Equal(t, "u", fetched[0].Topic)
		x := d.send(6, "", describe).(*kmsg.DescribeGroupsResponse).Groups[0]
		assert.Equal(t, int32(3400-1<<kmsg.ACLOperationAlterConfigs), x.AuthorizedOperations)
	})
}
