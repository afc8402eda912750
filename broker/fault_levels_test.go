package broker_test

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
	"kshare/fault"
	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// unknownCode is an error that nothing but a fault answers.
const unknownCode = 1234

// levels are the levels of the APIs' answers in their highest version.
var levels = map[string]string{
	"Produce":                    "partition",
	"Fetch":                      "top partition",
	"ListOffsets":                "partition",
	"Metadata":                   "top topic partition",
	"OffsetCommit":               "partition",
	"OffsetFetch":                "group partition",
	"FindCoordinator":            "coordinator",
	"JoinGroup":                  "top",
	"Heartbeat":                  "top",
	"LeaveGroup":                 "top member",
	"SyncGroup":                  "top",
	"DescribeGroups":             "group",
	"ListGroups":                 "top",
	"SaslHandshake":              "top",
	"ApiVersions":                "top",
	"CreateTopics":               "topic",
	"DeleteTopics":               "topic",
	"DeleteRecords":              "partition",
	"InitProducerId":             "top",
	"OffsetForLeaderEpoch":       "partition",
	"DescribeConfigs":            "resource",
	"AlterConfigs":               "resource",
	"SaslAuthenticate":           "top",
	"CreatePartitions":           "topic",
	"DeleteGroups":               "group",
	"IncrementalAlterConfigs":    "resource",
	"OffsetDelete":               "top partition",
	"UpdateFeatures":             "top",
	"AddPartitionsToTxn":         "top partition",
	"AddOffsetsToTxn":            "top",
	"EndTxn":                     "top",
	"WriteTxnMarkers":            "partition",
	"TxnOffsetCommit":            "partition",
	"DescribeTransactions":       "entry",
	"ListTransactions":           "top",
	"DescribeCluster":            "top",
	"DescribeProducers":          "partition",
	"ConsumerGroupHeartbeat":     "top",
	"ConsumerGroupDescribe":      "group",
	"ListConfigResources":        "top",
	"DescribeTopicPartitions":    "topic partition",
	"ShareGroupHeartbeat":        "top",
	"ShareGroupDescribe":         "group",
	"ShareFetch":                 "top partition acknowledge",
	"ShareAcknowledge":           "top partition",
	"InitializeShareGroupState":  "partition",
	"ReadShareGroupState":        "partition",
	"WriteShareGroupState":       "partition",
	"DeleteShareGroupState":      "partition",
	"ReadShareGroupStateSummary": "partition",
	"DescribeShareGroupOffsets":  "group partition",
	"AlterShareGroupOffsets":     "top partition",
	"DeleteShareGroupOffsets":    "top topic",
	"TxnShareAcknowledge":        "top partition",

	"DescribeAcls":                 "top",
	"CreateAcls":                   "entry",
	"DeleteAcls":                   "entry",
	"DescribeUserScramCredentials": "top entry",
	"AlterUserScramCredentials":    "entry",
}

// offered are the APIs that the broker offers, of which TxnShareAcknowledge has the key 93.
func offered(t *testing.T) (apis []*protocol.API) {
	t.Helper()
	f := newFaulty(t, withTransactionalAcks)
	q := kmsg.NewPtrApiVersionsRequest()
	for _, k := range ask1[*kmsg.ApiVersionsResponse](f, q).ApiKeys {
		apis = append(apis, protocol.WithTxnShareAcknowledge(93).ByKey(k.ApiKey))
	}
	return apis
}

// withTransactionalAcks has TxnShareAcknowledge stand for an API of Kafka's. No member need have joined.
var withTransactionalAcks = kshare.WithKIP1289("txn.share.ack.api.key=93", "member.validation=off")

// faulty is a cluster with a direct connection for tests of faults. It has the topics t and u of two partitions each, of known ids.
type faulty struct {
	t     *testing.T
	c     *kshare.Cluster
	clock *clock.Virtual
	d     *kshare.Direct
}

func topicID(name string) [16]byte { return [16]byte{1, name[0]} }

func newFaulty(t *testing.T, opts ...kshare.Option) *faulty {
	t.Helper()
	f := &faulty{t: t, clock: clock.NewVirtual(time.Unix(1_800_000_000, 0))}
	var err error
	f.c, err = kshare.Start(append([]kshare.Option{
		kshare.WithInMemoryNetwork(), kshare.WithClock(f.clock), kshare.WithTopicIDs(topicID), kshare.WithTopic("t", 2), kshare.WithTopic("u", 2),
		kshare.WithLogger(slog.New(slog.NewTextHandler(t.Output(), nil))),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.c.Close()) })
	f.d = f.connect()
	return f
}

func (f *faulty) connect() *kshare.Direct {
	f.t.Helper()
	d, err := f.c.OpenDirect(1)
	require.NoError(f.t, err)
	return d
}

// fault adds a rule in its text form.
func (f *faulty) fault(text string) int {
	f.t.Helper()
	r, err := fault.ParseRule(strings.Fields(text)...)
	require.NoError(f.t, err, text)
	id, err := f.c.AddFault(r)
	require.NoError(f.t, err, text)
	return id
}

// ask1 asks over the cluster's direct connection.
func ask1[R kmsg.Response](f *faulty, q kmsg.Request) R {
	f.t.Helper()
	sendDirect(f.d, q, 1)
	return receiveDirect[R](f.t, f.d, q)
}

// fill gives every field of a request that names something a value: topics t and u, partitions 0 and 1, group g, member m.
func fill(v reflect.Value, at int) {
	for f, x := range v.Fields() {
		name := [...]string{"t", "u"}[at]
		switch f.Name {
		case "Topic", "TopicNames", "SubscribedTopicNames":
			setStrings(x, name, "t", "u")
		case "TopicID":
			x.Set(reflect.ValueOf(topicID(name)))
		case "ResourceName":
			setStrings(x, name)
		case "ResourceType":
			x.SetInt(int64(kmsg.ConfigResourceTypeTopic))
		case "Group", "GroupID", "CoordinatorKey":
			setStrings(x, [...]string{"g", "h"}[at])
		case "MemberID":
			setStrings(x, [...]string{"m", "n"}[at])
		case "TransactionalID", "TransactionalIDs":
			setStrings(x, transactions[at], transactions...)
		case "GroupIDs", "CoordinatorKeys":
			setStrings(x, "", "g", "h")
		case "Partition":
			x.SetInt(int64(at))
		case "ForgottenTopicsData", "ForgottenTopics", "Cursor", "Assignment", "ReplicaAssignment", "Configs", "StateBatches":
		case "Records":
			x.SetBytes([]byte("none"))
		case "TimeoutMillis", "MaxBytes", "PartitionMaxBytes", "Count", "MaxRecords", "ResponsePartitionLimit", "RebalanceTimeoutMillis":
			x.SetInt(1000)
		case "SessionTimeoutMillis":
			x.SetInt(10000)
		case "AcknowledgementBatches":
			x.Set(reflect.MakeSlice(x.Type(), 1, 1))
			x.Index(0).FieldByName("AcknowledgeTypes").Set(reflect.ValueOf([]int8{1}))
		default:
			fillList(f.Name, x)
		}
	}
}

// transactions are the transactional ids in requests that name several.
var transactions = []string{"x", "y"}

func fillList(name string, x reflect.Value) {
	if x.Kind() != reflect.Slice {
		return
	}
	switch x.Type().Elem().Kind() {
	case reflect.Struct:
		x.Set(reflect.MakeSlice(x.Type(), 2, 2))
		for i := range 2 {
			if d, ok := x.Index(i).Addr().Interface().(interface{ Default() }); ok {
				d.Default()
			}
			fill(x.Index(i), i)
		}
	case reflect.Int32:
		x.Set(reflect.ValueOf([]int32{0, 1}))
	case reflect.String:
		if name == "Groups" {
			setStrings(x, "", "g", "h")
		}
	}
}

func setStrings(x reflect.Value, one string, list ...string) {
	switch x.Kind() {
	case reflect.Pointer:
		x.Set(reflect.ValueOf(&one))
	case reflect.String:
		x.SetString(one)
	case reflect.Slice:
		x.Set(reflect.ValueOf(list))
	}
}

// request is one of an API and version that names everything it can.
func request(a *protocol.API, version int16) kmsg.Request {
	q := a.NewRequest(version)
	fill(reflect.ValueOf(q).Elem(), 0)
	switch q := q.(type) {
	case *kmsg.ApiVersionsRequest:
		q.ClientSoftwareName, q.ClientSoftwareVersion, q.NodeID = "test", "1", -1
	case *kmsg.DescribeClusterRequest:
		q.EndpointType = 1
	case *kmsg.ProduceRequest:
		q.Acks = 1
	case *kmsg.FetchRequest:
		q.ReplicaID, q.ReplicaState.ID = -1, -1
	case *kmsg.MetadataRequest:
		for i := range q.Topics {
			if version >= 12 {
				q.Topics[i].Topic = nil
			} else {
				q.Topics[i].TopicID = [16]byte{}
			}
		}
	case *kmsg.CreateTopicsRequest:
		for i := range q.Topics {
			q.Topics[i].NumPartitions, q.Topics[i].ReplicationFactor = 1, 1
		}
	case *kmsg.ShareFetchRequest:
		q.ShareSessionEpoch = 1
		q.MaxWaitMillis = 0
	case *kmsg.ShareAcknowledgeRequest:
		q.ShareSessionEpoch = 1
	case *kmsg.DescribeACLsRequest:
		q.ResourceType, q.ResourcePatternType, q.Operation, q.PermissionType = 1, 1, 1, 1
	case *kmsg.CreateACLsRequest:
		for i := range q.Creations {
			q.Creations[i].ResourcePatternType, q.Creations[i].Operation, q.Creations[i].PermissionType = 3, 3, 3
		}
	case *kmsg.DeleteACLsRequest:
		for i := range q.Filters {
			q.Filters[i].ResourcePatternType, q.Filters[i].Operation, q.Filters[i].PermissionType = 3, 1, 1
		}
	case *kmsg.DescribeUserSCRAMCredentialsRequest:
		for i := range q.Users {
			q.Users[i].Name = transactions[i]
		}
	case *kmsg.AlterUserSCRAMCredentialsRequest:
		q.Deletions = nil
		for i := range q.Upsertions {
			q.Upsertions[i].Name = transactions[i]
		}
	case *kmsg.WriteTxnMarkersRequest:
		for i := range q.Markers {
			q.Markers[i].ProducerID = int64(i) + 1
		}
	}
	return q
}

// hits are the places of an answer that have the injected error, as "level name...".
func hits(v reflect.Value, level string, way ...string) (found []string) {
	for f, x := range v.Fields() {
		switch {
		case f.Name == "ErrorCode" && x.Int() == unknownCode:
			found = append(found, strings.Join(append([]string{level}, way...), " "))
		case f.Name == "AcknowledgeErrorCode" && x.Int() == unknownCode:
			found = append(found, strings.Join(append([]string{"acknowledge"}, way...), " "))
		case x.Kind() == reflect.Slice && x.Type().Elem().Kind() == reflect.Struct:
			for i := range x.Len() {
				below, name := named(x.Index(i))
				found = append(found, hits(x.Index(i), below, append(slices.Clone(way), name)...)...)
			}
		}
	}
	return found
}

// named is the level and the name of an element of an answer.
func named(v reflect.Value) (level, name string) {
	get := func(field string) string {
		x := reflect.Indirect(v.FieldByName(field))
		if !x.IsValid() {
			return ""
		}
		return fmt.Sprint(x.Interface())
	}
	has := func(field string) bool { return v.FieldByName(field).IsValid() }
	switch {
	case has("Partition"):
		return "partition", get("Partition")
	case has("ResourceName"):
		return "resource", get("ResourceName")
	case has("Key"):
		return "coordinator", get("Key")
	case get("Topic") != "":
		return "topic", get("Topic")
	case has("TopicID"):
		return "topic", string(rune(v.FieldByName("TopicID").Interface().([16]byte)[1]))
	case has("Group"):
		return "group", get("Group")
	case has("GroupID"):
		return "group", get("GroupID")
	case has("MemberID"):
		return "member", get("MemberID")
	case has("TransactionalID"):
		return "entry", get("TransactionalID")
	case has("ProducerID"):
		return "entry", get("ProducerID")
	case has("User"):
		return "entry", get("User")
	case has("MatchingACLs"), v.Type() == reflect.TypeFor[kmsg.CreateACLsResponseResult]():
		return "entry", "of a rule"
	}
	return "", ""
}

// prepare makes what requests of an API need to be answered entry by entry: a session, or a group.
func (f *faulty) prepare(a *protocol.API) {
	if a.Name != "FindCoordinator" {
		f.findCoordinator("g")
	}
	switch a.Name {
	case "ShareFetch", "ShareAcknowledge":
		q := kmsg.NewPtrShareFetchRequest()
		q.Version, q.GroupID, q.MemberID = 1, kmsg.StringPtr("g"), kmsg.StringPtr("m")
		require.Zero(f.t, ask1[*kmsg.ShareFetchResponse](f, q).ErrorCode)
	case "TxnShareAcknowledge":
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorType, find.CoordinatorKeys = 4, 1, transactions[:1]
		require.Zero(f.t, ask1[*kmsg.FindCoordinatorResponse](f, find).Coordinators[0].ErrorCode)
		q := kmsg.NewPtrInitProducerIDRequest()
		q.Version, q.TransactionalID, q.TransactionTimeoutMillis, q.ProducerID, q.ProducerEpoch = 5, &transactions[0], 60_000, -1, -1
		p := ask1[*kmsg.InitProducerIDResponse](f, q)
		require.Zero(f.t, p.ErrorCode)
		require.Zero(f.t, p.ProducerID, "as in the request")
	case "OffsetDelete":
		q := kmsg.NewPtrOffsetCommitRequest()
		q.Version, q.Group, q.Generation = 8, "g", -1
		q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0}}}}
		require.Zero(f.t, ask1[*kmsg.OffsetCommitResponse](f, q).Topics[0].Partitions[0].ErrorCode)
	case "AlterShareGroupOffsets", "DeleteShareGroupOffsets":
		q := kmsg.NewPtrShareGroupHeartbeatRequest()
		q.Version, q.GroupID, q.MemberID, q.SubscribedTopicNames = 1, "g", "m", []string{"t"}
		require.Zero(f.t, ask1[*kmsg.ShareGroupHeartbeatResponse](f, q).ErrorCode)
		q.MemberEpoch = -1
		require.Zero(f.t, ask1[*kmsg.ShareGroupHeartbeatResponse](f, q).ErrorCode)
	}
}

// findCoordinator makes the topic of the group coordinator.
func (f *faulty) findCoordinator(group string) {
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.Version, q.CoordinatorKeys = 4, []string{group}
	require.Zero(f.t, ask1[*kmsg.FindCoordinatorResponse](f, q).Coordinators[0].ErrorCode)
}

// injectedHits asks with a rule and returns where its error is.
func injectedHits(t *testing.T, a *protocol.API, version int16, rule string) []string {
	t.Helper()
	f := newFaulty(t, withTransactionalAcks)
	f.prepare(a)
	f.fault(rule)
	q := request(a, version)
	sendDirect(f.d, q, 1)
	for range 10 { // a member waits for others before it has joined
		if !f.d.Waits() {
			break
		}
		f.clock.Advance(time.Minute)
	}
	return hits(reflect.ValueOf(receiveDirect[kmsg.Response](t, f.d, q)).Elem(), "top")
}

// wantHits are the places where an error of level is in answers to the requests of this test: of all entries, or of those that a rule means with group g,
// topic t and, where the level is below a topic, partition 1.
func wantHits(a *protocol.API, level fault.Level, addressed bool) []string {
	groups, topics, partitions, members := []string{"g ", "h "}, []string{"t", "u"}, []string{" 0", " 1"}, []string{" m", " n"}
	if addressed {
		groups, topics, partitions = groups[:1], topics[:1], partitions[1:]
	}
	prefix := []string{""}
	switch a.Name {
	case "OffsetFetch", "DescribeShareGroupOffsets":
		prefix = groups
	case "AddPartitionsToTxn":
		prefix = []string{"x ", "y "}
	case "WriteTxnMarkers":
		prefix = []string{"1 ", "2 "}
	}
	var want []string
	for _, g := range prefix {
		for _, topic := range topics {
			for _, p := range partitions {
				want = append(want, fmt.Sprintf("%s %s%s%s", level, g, topic, p))
			}
		}
	}
	switch level {
	case fault.Top:
		return []string{"top"}
	case fault.Topic, fault.Resource:
		want = nil
		for _, topic := range topics {
			want = append(want, string(level)+" "+topic)
		}
	case fault.Group, fault.Coordinator:
		want = nil
		for _, g := range groups {
			want = append(want, string(level)+" "+strings.TrimSpace(g))
		}
	case fault.Entry:
		if strings.HasSuffix(a.Name, "Acls") {
			return []string{"entry of a rule", "entry of a rule"}
		}
		return []string{"entry x", "entry y"}
	case fault.Member:
		return []string{"member" + members[0], "member" + members[1]}
	}
	return want
}

// An error lands in the field that is meant, and nowhere else, in every API, at every level, before and after the request is applied, of all entries and of
// those that a rule names.
func TestErrorsLandInTheirFields(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range offered(t) {
		seen[a.Name] = true
		require.NotEmpty(t, levels[a.Name], "%s is not in the table", a.Name)
		for level := range strings.FieldsSeq(levels[a.Name]) {
			for _, stage := range []fault.Stage{fault.Before, fault.After} {
				want := func(addressed bool) []string {
					hits := wantHits(a, fault.Level(level), addressed)
					if a.Name == "ShareFetch" && level == "partition" && stage == fault.Before { // the acknowledgements fail as the partition does
						hits = append(hits, wantHits(a, fault.Acknowledge, addressed)...)
					}
					return hits
				}
				rule := fmt.Sprintf("api=%s error=%d level=%s stage=%s", a.Name, unknownCode, level, stage)
				require.ElementsMatch(t, want(false), injectedHits(t, a, a.MaxVersion, rule), rule)
				if address := addressOf(a, fault.Level(level)); address != "" {
					rule += address
					require.ElementsMatch(t, want(true), injectedHits(t, a, a.MaxVersion, rule), rule)
				}
			}
		}
	}
	for name := range levels {
		require.True(t, seen[name], "%s is not offered", name)
	}
}

// addressOf names an entry of a level, as far as requests of the API can.
func addressOf(a *protocol.API, level fault.Level) string {
	switch level {
	case fault.Group, fault.Coordinator:
		return " group=g"
	case fault.Topic, fault.Resource:
		return " topic=t"
	case fault.Partition, fault.Acknowledge:
		if a.Name == "OffsetFetch" || a.Name == "DescribeShareGroupOffsets" {
			return " group=g topic=t partition=1"
		}
		return " topic=t partition=1"
	}
	return ""
}

// In every version of every API an error lands somewhere, at one level, which is the highest where the rule does not say.
func TestErrorsLandInEveryVersion(t *testing.T) {
	order := []string{"top", "group", "coordinator", "resource", "member", "entry", "topic", "partition"}
	for _, a := range offered(t) {
		for version := a.MinVersion; version <= a.MaxVersion; version++ {
			if a.Name == "Produce" && version < 3 {
				continue // ends the connection
			}
			for _, stage := range []fault.Stage{fault.Before, fault.After} {
				rule := fmt.Sprintf("api=%s version=%d error=%d stage=%s", a.Name, version, unknownCode, stage)
				got := injectedHits(t, a, version, rule)
				require.NotEmpty(t, got, rule)
				level := strings.Fields(got[0])[0]
				for _, hit := range got {
					require.Equal(t, level, strings.Fields(hit)[0], "%s: %v", rule, got)
				}
				if version == a.MaxVersion {
					highest := strings.Fields(levels[a.Name])[0]
					require.Equal(t, slices.Index(order, highest), slices.Index(order, level), rule)
				}
			}
		}
	}
}

// Under a key that Kafka gave away in 4.4 alone, TxnShareAcknowledge is there on the older lines too.
func TestTxnShareAcknowledgeOnOlderLines(t *testing.T) {
	for _, line := range []string{"4.2", "4.3", "4.4"} {
		f := newFaulty(t, kshare.WithKafkaVersion(line), withTransactionalAcks)
		offered := ask1[*kmsg.ApiVersionsResponse](f, kmsg.NewPtrApiVersionsRequest()).ApiKeys
		require.Contains(t, offered, kmsg.ApiVersionsResponseApiKey{ApiKey: 93}, line)
		p := ask1[*protocol.TxnShareAcknowledgeResponse](f, &protocol.TxnShareAcknowledgeRequest{APIKey: 93})
		require.Equal(t, errorcode.InvalidRequest, p.ErrorCode, line)
	}
}

// An ApiVersions that fails is answered in a version that the client can read.
func TestFailedApiVersions(t *testing.T) {
	f := newFaulty(t)
	q := request(protocol.APIByKey(18), 5).(*kmsg.ApiVersionsRequest)
	right := ask1[*kmsg.ApiVersionsResponse](f, q)
	f.fault("api=ApiVersions error=UNSUPPORTED_VERSION nth=1 times=1")
	f.fault("api=ApiVersions error=UNSUPPORTED_VERSION nth=2 times=1 stage=after")
	f.fault("api=ApiVersions error=INVALID_REQUEST nth=3 times=1")
	for range 2 {
		sendDirect(f.d, q, 1)
		frame, err := f.d.Receive()
		require.NoError(t, err)
		var p kmsg.ApiVersionsResponse
		require.NoError(t, p.ReadFrom(frame[4:]))
		require.Equal(t, errorcode.UnsupportedVersion, p.ErrorCode)
		require.Equal(t, []kmsg.ApiVersionsResponseApiKey{{ApiKey: 18, MaxVersion: 5}}, p.ApiKeys)
	}
	require.Equal(t, errorcode.InvalidRequest, ask1[*kmsg.ApiVersionsResponse](f, q).ErrorCode)
	require.Equal(t, right, ask1[*kmsg.ApiVersionsResponse](f, q), "answers are copies: what a fault changed stays with its own")

	f.fault("api=ApiVersions error=INVALID_REQUEST times=1")
	unknown := kmsg.NewPtrApiVersionsRequest()
	unknown.Version = 3
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, unknown, 1)[4:]
	frame[3] = 77 // a version that nobody knows
	f.d.Send(frame)
	answer, err := f.d.Receive()
	require.NoError(t, err)
	var p kmsg.ApiVersionsResponse
	require.NoError(t, p.ReadFrom(answer[4:]))
	require.Equal(t, errorcode.InvalidRequest, p.ErrorCode)
}
