package protocol

import (
	"encoding/binary"

	"kshare/protocol/errorcode"
)

// API is one request type of the protocol and the versions in which Apache Kafka 4.4 offers it to clients.
type API struct {
	Key  int16
	Name string // as in ApiKeys.java, in the camel case of the message files
	// MinVersion and MaxVersion bound what a 4.4 broker offers, both inclusive.
	MinVersion, MaxVersion int16
	// Unstable is the version above MaxVersion that is offered with unstable.api.versions.enable alone, 0 where there is none.
	Unstable int16
	// FirstFlexible is the first version with compact encodings and tagged fields, -1 where no version has them.
	FirstFlexible int16
	// Telemetry APIs are offered by a real broker only where it has a plugin that takes the metrics.
	NeedsPlugin bool
}

// Offers tells whether a 4.4 broker offers the version, one that is unstable included.
func (a *API) Offers(version int16) bool { return a.MinVersion <= version && version <= a.Highest() }

// Highest is the highest version that Offers takes.
func (a *API) Highest() int16 { return max(a.MaxVersion, a.Unstable) }

// IsFlexible tells whether the version has tagged fields.
func (a *API) IsFlexible(version int16) bool {
	return a.FirstFlexible >= 0 && version >= a.FirstFlexible
}

// APIs lists every API of a 4.4 broker listener in the order of keys
// (clients/src/main/resources/common/message/*.json; ApiVersions of a running 4.4.0).
var APIs = []API{
	{Key: 0, Name: "Produce", MinVersion: 0, MaxVersion: 13, FirstFlexible: 9},
	{Key: 1, Name: "Fetch", MinVersion: 4, MaxVersion: 18, FirstFlexible: 12},
	{Key: 2, Name: "ListOffsets", MinVersion: 1, MaxVersion: 11, FirstFlexible: 6},
	{Key: 3, Name: "Metadata", MinVersion: 0, MaxVersion: 13, FirstFlexible: 9},
	{Key: 8, Name: "OffsetCommit", MinVersion: 2, MaxVersion: 10, FirstFlexible: 8},
	{Key: 9, Name: "OffsetFetch", MinVersion: 1, MaxVersion: 10, FirstFlexible: 6},
	{Key: 10, Name: "FindCoordinator", MinVersion: 0, MaxVersion: 6, FirstFlexible: 3},
	{Key: 11, Name: "JoinGroup", MinVersion: 0, MaxVersion: 9, FirstFlexible: 6},
	{Key: 12, Name: "Heartbeat", MinVersion: 0, MaxVersion: 4, FirstFlexible: 4},
	{Key: 13, Name: "LeaveGroup", MinVersion: 0, MaxVersion: 5, FirstFlexible: 4},
	{Key: 14, Name: "SyncGroup", MinVersion: 0, MaxVersion: 5, FirstFlexible: 4},
	{Key: 15, Name: "DescribeGroups", MinVersion: 0, MaxVersion: 6, FirstFlexible: 5},
	{Key: 16, Name: "ListGroups", MinVersion: 0, MaxVersion: 5, FirstFlexible: 3},
	{Key: 17, Name: "SaslHandshake", MinVersion: 0, MaxVersion: 1, FirstFlexible: -1},
	{Key: 18, Name: "ApiVersions", MinVersion: 0, MaxVersion: 5, FirstFlexible: 3},
	{Key: 19, Name: "CreateTopics", MinVersion: 2, MaxVersion: 7, FirstFlexible: 5},
	{Key: 20, Name: "DeleteTopics", MinVersion: 1, MaxVersion: 6, FirstFlexible: 4},
	{Key: 21, Name: "DeleteRecords", MinVersion: 0, MaxVersion: 2, FirstFlexible: 2},
	{Key: 22, Name: "InitProducerId", MinVersion: 0, MaxVersion: 5, Unstable: InitTwoPhase, FirstFlexible: 2},
	{Key: 23, Name: "OffsetForLeaderEpoch", MinVersion: 2, MaxVersion: 4, FirstFlexible: 4},
	{Key: 24, Name: "AddPartitionsToTxn", MinVersion: 0, MaxVersion: 5, FirstFlexible: 3},
	{Key: 25, Name: "AddOffsetsToTxn", MinVersion: 0, MaxVersion: 4, FirstFlexible: 3},
	{Key: 26, Name: "EndTxn", MinVersion: 0, MaxVersion: 5, FirstFlexible: 3},
	{Key: 27, Name: "WriteTxnMarkers", MinVersion: 1, MaxVersion: 2, FirstFlexible: 1},
	{Key: 28, Name: "TxnOffsetCommit", MinVersion: 0, MaxVersion: 6, FirstFlexible: 3},
	{Key: 29, Name: "DescribeAcls", MinVersion: 1, MaxVersion: 3, FirstFlexible: 2},
	{Key: 30, Name: "CreateAcls", MinVersion: 1, MaxVersion: 3, FirstFlexible: 2},
	{Key: 31, Name: "DeleteAcls", MinVersion: 1, MaxVersion: 3, FirstFlexible: 2},
	{Key: 32, Name: "DescribeConfigs", MinVersion: 1, MaxVersion: 4, FirstFlexible: 4},
	{Key: 33, Name: "AlterConfigs", MinVersion: 0, MaxVersion: 2, FirstFlexible: 2},
	{Key: 34, Name: "AlterReplicaLogDirs", MinVersion: 1, MaxVersion: 2, FirstFlexible: 2},
	{Key: 35, Name: "DescribeLogDirs", MinVersion: 1, MaxVersion: 5, FirstFlexible: 2},
	{Key: 36, Name: "SaslAuthenticate", MinVersion: 0, MaxVersion: 2, FirstFlexible: 2},
	{Key: 37, Name: "CreatePartitions", MinVersion: 0, MaxVersion: 3, FirstFlexible: 2},
	{Key: 38, Name: "CreateDelegationToken", MinVersion: 1, MaxVersion: 3, FirstFlexible: 2},
	{Key: 39, Name: "RenewDelegationToken", MinVersion: 1, MaxVersion: 2, FirstFlexible: 2},
	{Key: 40, Name: "ExpireDelegationToken", MinVersion: 1, MaxVersion: 2, FirstFlexible: 2},
	{Key: 41, Name: "DescribeDelegationToken", MinVersion: 1, MaxVersion: 3, FirstFlexible: 2},
	{Key: 42, Name: "DeleteGroups", MinVersion: 0, MaxVersion: 3, FirstFlexible: 2},
	{Key: 43, Name: "ElectLeaders", MinVersion: 0, MaxVersion: 2, FirstFlexible: 2},
	{Key: 44, Name: "IncrementalAlterConfigs", MinVersion: 0, MaxVersion: 1, FirstFlexible: 1},
	{Key: 45, Name: "AlterPartitionReassignments", MinVersion: 0, MaxVersion: 1, FirstFlexible: 0},
	{Key: 46, Name: "ListPartitionReassignments", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 47, Name: "OffsetDelete", MinVersion: 0, MaxVersion: 0, FirstFlexible: -1},
	{Key: 48, Name: "DescribeClientQuotas", MinVersion: 0, MaxVersion: 1, FirstFlexible: 1},
	{Key: 49, Name: "AlterClientQuotas", MinVersion: 0, MaxVersion: 1, FirstFlexible: 1},
	{Key: 50, Name: "DescribeUserScramCredentials", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 51, Name: "AlterUserScramCredentials", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 55, Name: "DescribeQuorum", MinVersion: 0, MaxVersion: 2, FirstFlexible: 0},
	{Key: 57, Name: "UpdateFeatures", MinVersion: 0, MaxVersion: 2, FirstFlexible: 0},
	{Key: 60, Name: "DescribeCluster", MinVersion: 0, MaxVersion: 2, FirstFlexible: 0},
	{Key: 61, Name: "DescribeProducers", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 64, Name: "UnregisterBroker", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 65, Name: "DescribeTransactions", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 66, Name: "ListTransactions", MinVersion: 0, MaxVersion: 2, FirstFlexible: 0},
	{Key: 68, Name: "ConsumerGroupHeartbeat", MinVersion: 0, MaxVersion: 1, FirstFlexible: 0},
	{Key: 69, Name: "ConsumerGroupDescribe", MinVersion: 0, MaxVersion: 1, FirstFlexible: 0},
	{Key: 71, Name: "GetTelemetrySubscriptions", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0, NeedsPlugin: true},
	{Key: 72, Name: "PushTelemetry", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0, NeedsPlugin: true},
	{Key: 74, Name: "ListConfigResources", MinVersion: 0, MaxVersion: 1, FirstFlexible: 0},
	{Key: 75, Name: "DescribeTopicPartitions", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 76, Name: "ShareGroupHeartbeat", MinVersion: 1, MaxVersion: 1, FirstFlexible: 0},
	{Key: 77, Name: "ShareGroupDescribe", MinVersion: 1, MaxVersion: 1, FirstFlexible: 0},
	{Key: 78, Name: "ShareFetch", MinVersion: 1, MaxVersion: 2, FirstFlexible: 0},
	{Key: 79, Name: "ShareAcknowledge", MinVersion: 1, MaxVersion: 2, FirstFlexible: 0},
	{Key: 80, Name: "AddRaftVoter", MinVersion: 0, MaxVersion: 1, FirstFlexible: 0},
	{Key: 81, Name: "RemoveRaftVoter", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 83, Name: "InitializeShareGroupState", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 84, Name: "ReadShareGroupState", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 85, Name: "WriteShareGroupState", MinVersion: 0, MaxVersion: 1, FirstFlexible: 0},
	{Key: 86, Name: "DeleteShareGroupState", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 87, Name: "ReadShareGroupStateSummary", MinVersion: 0, MaxVersion: 1, FirstFlexible: 0},
	{Key: 88, Name: "StreamsGroupHeartbeat", MinVersion: 0, MaxVersion: 1, FirstFlexible: 0},
	{Key: 89, Name: "StreamsGroupDescribe", MinVersion: 0, MaxVersion: 1, FirstFlexible: 0},
	{Key: 90, Name: "DescribeShareGroupOffsets", MinVersion: 0, MaxVersion: 1, FirstFlexible: 0},
	{Key: 91, Name: "AlterShareGroupOffsets", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 92, Name: "DeleteShareGroupOffsets", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 93, Name: "StreamsGroupTopologyDescriptionUpdate", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
	{Key: 94, Name: "UnregisterController", MinVersion: 0, MaxVersion: 0, FirstFlexible: 0},
}

var apisByKey = func() map[int16]*API {
	m := make(map[int16]*API, len(APIs))
	for i := range APIs {
		m[APIs[i].Key] = &APIs[i]
	}
	return m
}()

// APIByKey returns the API with the key, nil where a 4.4 broker has none.
func APIByKey(key int16) *API { return apisByKey[key] }

// APINames are the names of all APIs in the order of their keys.
func APINames() []string {
	names := make([]string, len(APIs))
	for i := range APIs {
		names[i] = APIs[i].Name
	}
	return names
}

const apiVersionsKey = 18

// AnswerVersion is the version that an answer's body is encoded in: that of the request, but 0 where ApiVersions says UNSUPPORTED_VERSION (KIP-511).
func AnswerVersion(key, version int16, body []byte) int16 {
	if key == apiVersionsKey && len(body) >= 2 && int16(binary.BigEndian.Uint16(body)) == errorcode.UnsupportedVersion {
		return 0
	}
	return version
}
