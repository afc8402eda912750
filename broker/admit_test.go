package broker

import (
	"encoding/hex"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/requestlog"
)

// sent is what becomes of a frame's request on a connection of its own: whether it is answered, or why the connection is closed.
func sent(t *testing.T, c *Cluster, frame []byte) (answered bool, err error) {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	conn := newConnection(c.nodes[0], server, &c.listeners[0])
	defer c.disconnected(conn)
	conn.close() // a request that waits finds its connection gone, and ends
	r, err := conn.parse(frame)
	if err != nil {
		return false, err
	}
	a, err := r.run()
	if r.logged != nil {
		r.depart(a, err)
	}
	return a != nil, err
}

// raw is a frame, without its length, whose body is written in hexadecimal digits, ID standing for a uuid.
func raw(t *testing.T, key, version int16, flexible bool, body string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.ReplaceAll(body, "ID", "0102030405060708090a0b0c0d0e0f10"), " ", ""))
	require.NoError(t, err)
	header := []byte{byte(key >> 8), byte(key), byte(version >> 8), byte(version), 0, 0, 0, 9, 0, 1, 'x'}
	if flexible {
		header = append(header, 0)
	}
	return append(header, b...)
}

// Apache Kafka 4.4.0 closes the connection on each of these, the last one excepted.
func TestNullThatIsNotAllowedClosesTheConnection(t *testing.T) {
	c := fuzzCluster(t, slog.DiscardHandler)
	defer func() { require.NoError(t, c.Close()) }()
	const fetch = "0267 026d 00000000 00000000 00000001 00100000 00000001 00000001 00 00 "
	for _, q := range []struct {
		name         string
		key, version int16
		flexible     bool
		body, want   string
	}{
		{"ShareGroupDescribe GroupIds", 77, 1, true, "00 00 00", "GroupIds at byte 0 of the body's 3: a null array, it may not be null"},
		{"ShareGroupHeartbeat SubscribedTopicNames element", 76, 1, true, "0267 026d 00000000 00 02 00 00", "SubscribedTopicNames[0] at byte 10 of the body's 12: a null string, it may not be null"},
		{"ShareFetch Topics", 78, 2, true, fetch + "00 01 00", "Topics at byte 30 of the body's 33: a null array, it may not be null"},
		{"ShareFetch ForgottenTopicsData", 78, 2, true, fetch + "01 00 00", "ForgottenTopicsData at byte 31 of the body's 33: a null array, it may not be null"},
		{"ShareFetch Partitions", 78, 2, true, fetch + "02 ID 00 00 01 00", "Topics[0].Partitions at byte 47 of the body's 51: a null array, it may not be null"},
		{"ShareFetch AcknowledgementBatches", 78, 2, true, fetch + "02 ID 02 00000000 00 00 00 01 00", "Topics[0].Partitions[0].AcknowledgementBatches at byte 52 of the body's 57: a null array, it may not be null"},
		{"ShareFetch cut short", 78, 2, true, fetch + "02 ID 02 0000", "Topics[0].Partitions[0].PartitionIndex at byte 48 of the body's 50: 4 bytes are expected, 2 are left"},
		{"ShareAcknowledge AcknowledgeTypes", 79, 2, true, "0267 026d 00000000 00 02 ID 02 00000000 02 0000000000000000 0000000000000000 00 00 00 00 00", "Topics[0].Partitions[0].AcknowledgementBatches[0].AcknowledgeTypes at byte 48 of the body's 53: a null array, it may not be null"},
		{"ShareAcknowledge cut short", 79, 2, true, "0267 026d 00000000", "IsRenewAck at byte 8 of the body's 8: 1 bytes are expected, 0 are left"},
		{"WriteShareGroupState StateBatches", 85, 0, true, "0267 02 ID 02 00000000 00000000 00000000 0000000000000000 00 00 00 00", "Topics[0].Partitions[0].StateBatches at byte 40 of the body's 44: a null array, it may not be null"},
		{"DescribeShareGroupOffsets Groups", 90, 0, true, "00 00", "Groups at byte 0 of the body's 2: a null array, it may not be null"},
		{"DeleteGroups GroupsNames", 42, 1, false, "ffffffff", "GroupsNames at byte 0 of the body's 4: a null array, it may not be null"},
		{"Heartbeat GroupId", 12, 0, false, "ffff 00000000 0001 6d", "GroupId at byte 0 of the body's 9: a null string, it may not be null"},
		{"DescribeShareGroupOffsets Topics", 90, 0, true, "02 0267 00 00 00", ""},
	} {
		t.Run(q.name, func(t *testing.T) {
			answered, err := sent(t, c, raw(t, q.key, q.version, q.flexible, q.body))
			if q.want == "" {
				require.NoError(t, err)
				require.True(t, answered)
				return
			}
			require.ErrorContains(t, err, ": malformed request: "+q.want)
		})
	}
}

// shareFetchOf is a ShareFetch that names so many partitions of a topic.
func shareFetchOf(partitions int) *kmsg.ShareFetchRequest {
	q := kmsg.NewPtrShareFetchRequest()
	q.Version = 2
	topic := kmsg.NewShareFetchRequestTopic()
	topic.Partitions = make([]kmsg.ShareFetchRequestTopicPartition, partitions)
	q.Topics = append(q.Topics, topic)
	return q
}

// produceTo is a Produce with so many topics of no partitions.
func produceTo(topics int) *kmsg.ProduceRequest {
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.Acks = 12, 1
	q.Topics = make([]kmsg.ProduceRequestTopic, topics)
	return q
}

func TestListsAreBounded(t *testing.T) {
	c := fuzzCluster(t, slog.DiscardHandler)
	defer func() { require.NoError(t, c.Close()) }()
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Version = 6
	groups.Groups = make([]string, maxElements+1) // of one byte each: a body that is not heavy
	for name, q := range map[string]kmsg.Request{
		"ShareFetch":     shareFetchOf(maxElements),
		"Produce":        produceTo(maxElements + 1),
		"DescribeGroups": groups,
	} {
		_, err := sent(t, c, frame(q)[4:])
		require.ErrorContains(t, err, "a request whose lists have 100001 elements or more, they may have 100000", name)
	}
	for name, q := range map[string]kmsg.Request{"ShareFetch": shareFetchOf(maxElements - 1), "Produce": produceTo(maxElements)} {
		answered, err := sent(t, c, frame(q)[4:])
		require.NoError(t, err, name)
		require.True(t, answered, name)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	c := fuzzCluster(t, slog.DiscardHandler)
	defer func() { require.NoError(t, c.Close()) }()
	q := kmsg.NewPtrSyncGroupRequest()
	q.Version = 5
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberAssignment = make([]byte, maxBody)
	q.GroupAssignment = append(q.GroupAssignment, a)
	_, err := sent(t, c, frame(q)[4:])
	require.ErrorContains(t, err, "only a Produce may have more than 4194304")
	q.GroupAssignment[0].MemberAssignment = a.MemberAssignment[:maxBody-100]
	answered, err := sent(t, c, frame(q)[4:])
	require.NoError(t, err)
	require.True(t, answered)
}

func TestMalformedRequestIsLogged(t *testing.T) {
	c := fuzzCluster(t, slog.DiscardHandler)
	defer func() { require.NoError(t, c.Close()) }()
	c.requestLog = requestlog.New(10, c.apis)
	_, err := sent(t, c, raw(t, 77, 1, true, "00 00 00"))
	require.Error(t, err)
	entries, err := c.Requests(requestlog.Query{})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, requestlog.Closed, entries[0].Outcome)
	require.Equal(t, "ShareGroupDescribe v1: malformed request: GroupIds at byte 0 of the body's 3: a null array, it may not be null", entries[0].Reason)
}
