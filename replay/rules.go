package replay

import (
	"fmt"
	"slices"
)

// treatment is how a field is compared that differs from run to run.
type treatment string

// The treatments.
const (
	// anyValue: present on both sides or absent (negative, null) on both.
	anyValue treatment = "any value"
	// clockTime: within clockTolerance of the recorded time, both clocks being the recording's.
	clockTime treatment = "clock"
	// anyOrder: the items of a list are compared in the order of a key.
	anyOrder treatment = "any order"
	// decompressed: compressed bytes are compared by what they decompress to.
	decompressed treatment = "decompressed"
)

// clockTolerance is how far a time that the broker read from its clock may lie from the recorded one: the
// recording's machine was busy, the replay's clock stands still while a request is handled.
const clockTolerance = 1000 // ms

// Rule says that a field varies, how it is compared all the same, and why.
type Rule struct {
	API   string // "" for every API
	Field string // names joined by dots, without indices
	how   treatment
	key   string // of anyOrder: the fields that order the items, with commas between them
	Why   string
}

func (r *Rule) String() string {
	api := r.API
	if api == "" {
		api = "every API"
	}
	return fmt.Sprintf("%s %s: %s", api, r.Field, r.how)
}

const hashMap = "Kafka answers in the order of a hash map"

// Rules are all masks. Ids have none: they are mapped and must stand for each other throughout.
var Rules = []Rule{
	{"ApiVersions", "FinalizedFeaturesEpoch", anyValue, "", "rises with every record of the metadata log"},
	{"Produce", "Topics.Partitions.LogAppendTime", clockTime, "", "the broker's clock"},
	{"ListOffsets", "Topics.Partitions.Timestamp", clockTime, "", "the broker's clock, where it stamped the record"},
	{"", "Batches.BaseTimestamp", clockTime, "", "the broker's clock, in batches that it wrote or stamped"},
	{"", "Batches.MaxTimestamp", clockTime, "", "the broker's clock, in batches that it wrote or stamped"},
	{"", "ErrorMessage", clockTime, "", "a time inside the text"},
	{"DescribeTransactions", "TransactionStates.StartTimestamp", clockTime, "", "the broker's clock"},
	{"DescribeProducers", "Topics.Partitions.ActiveProducers.LastTimestamp", clockTime, "", "the broker's clock, where it stamped the record"},
	{"", "Batches.Payload", decompressed, "", "compressors differ in their bytes; only where no client sent these bytes"},
	{"", "Batches.Length", decompressed, "", "follows from the compressed bytes; only where no client sent these bytes"},
	{"Metadata", "Topics", anyOrder, "Topic", hashMap + " where all topics are asked for"},
	{"DeleteTopics", "Topics", anyOrder, "Topic,TopicID", "Kafka shuffles them"},
	{"Produce", "Topics", anyOrder, "Topic,TopicID", hashMap},
	{"Produce", "Topics.Partitions", anyOrder, "Partition", hashMap},
	{"ListGroups", "Groups", anyOrder, "Group", hashMap},
	{"JoinGroup", "Members", anyOrder, "MemberID", hashMap},
	{"DescribeGroups", "Groups.Members", anyOrder, "MemberID", hashMap},
	{"ConsumerGroupDescribe", "Groups.Members", anyOrder, "MemberID", hashMap},
	{"ShareGroupDescribe", "Groups.Members", anyOrder, "MemberID", hashMap},
	{"DescribeACLs", "Resources", anyOrder, "ResourceType,ResourceName,ResourcePatternType", hashMap},
	{"DescribeACLs", "Resources.ACLs", anyOrder, "Principal,Host,Operation,PermissionType", hashMap},
	{"DeleteACLs", "Results.MatchingACLs", anyOrder, "ResourceType,ResourceName,Principal,Host,Operation", hashMap},
	{"ListOffsets", "Topics.Partitions", anyOrder, "Partition", hashMap},
	{"ShareGroupHeartbeat", "Assignment.TopicPartitions", anyOrder, "TopicID", hashMap},
	{"ShareGroupDescribe", "Groups.Members.Assignment.TopicPartitions", anyOrder, "TopicID", hashMap + ", in whose buckets the order is that of what was before"},
}

// ruleFor finds the rule of a field with one of the treatments.
func ruleFor(api, field string, how ...treatment) *Rule {
	for i := range Rules {
		r := &Rules[i]
		if (r.API == "" && hasSuffixField(field, r.Field) || r.API == api && r.Field == field) && slices.Contains(how, r.how) {
			return r
		}
	}
	return nil
}

// hasSuffixField tells whether a field ends with the names of another.
func hasSuffixField(field, suffix string) bool {
	n := len(field) - len(suffix)
	return n == 0 && field == suffix || n > 0 && field[n:] == suffix && field[n-1] == '.'
}
