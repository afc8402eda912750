// Package coordinator is the group coordinator: classic groups, consumer groups (KIP-848), share groups and
// the offsets that groups commit.
//
// It is pure: it holds no goroutine, clock, socket or lock. A caller that serialises all calls passes the time
// in, appends the records that come back in an [Effects] to __consumer_offsets in their order, and only then
// sends the answers. Requests that have to wait are parked under the caller's token and come back answered
// from a later call. What the package knows of the records is rebuilt by [Groups.Replay].
//
// Source: Apache Kafka's group-coordinator module (GroupMetadataManager, OffsetMetadataManager,
// GroupCoordinatorService).
package coordinator

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/internal/javamap"
	"kshare/release"
)

// Config is what a coordinator takes from its broker's configuration. Field comments name Kafka's keys.
type Config struct {
	Partitions int32 // of __consumer_offsets, or offsets.topic.num.partitions before it is made; at least 1

	GroupMaxSize          int           // group.max.size
	GroupMinSession       time.Duration // group.min.session.timeout.ms, inclusive
	GroupMaxSession       time.Duration // group.max.session.timeout.ms, inclusive
	InitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms

	OffsetMetadataMaxBytes       int           // offset.metadata.max.bytes, counted in UTF-16 units
	OffsetsRetention             time.Duration // offsets.retention.minutes
	OffsetsRetentionCheckPeriod  time.Duration // offsets.retention.check.interval.ms
	ConsumerProtocolEnabled      bool          // group.version 1 and group.coordinator.rebalance.protocols names consumer
	ConsumerMaxSize              int           // group.consumer.max.size
	ConsumerSession              time.Duration // group.consumer.session.timeout.ms
	ConsumerHeartbeat            time.Duration // group.consumer.heartbeat.interval.ms
	ConsumerAssignmentInterval   time.Duration // group.consumer.assignment.interval.ms
	ConsumerAssignors            []string      // group.consumer.assignors, the first is the default
	ConsumerMigrationPolicy      string        // group.consumer.migration.policy: bidirectional, upgrade, downgrade or disabled
	ConsumerRegexRefreshInterval time.Duration // group.consumer.regex.refresh.interval.ms

	ShareEnabled            bool          // share.version is at least 1
	ShareMaxSize            int           // group.share.max.size
	ShareSession            time.Duration // group.share.session.timeout.ms
	ShareHeartbeat          time.Duration // group.share.heartbeat.interval.ms
	ShareAssignmentInterval time.Duration // group.share.assignment.interval.ms
	ShareAssignors          []string      // group.share.assignors

	// Release is what the line of Apache Kafka does in its own way, nil for the latest.
	Release *release.Traits

	// NewUUID makes the ids of members and must not repeat itself.
	NewUUID func() [16]byte
	// GroupConfig is the value that a group's own dynamic configuration gives a key, such as
	// consumer.session.timeout.ms; ok is false where the broker's value holds. It may be nil.
	GroupConfig func(group, key string) (value string, ok bool)
}

// Topic is what the coordinator knows of a topic.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions int32 // partitions are 0 to Partitions-1
}

// Topics looks topics up in the cluster's metadata.
type Topics interface {
	TopicByName(name string) (Topic, bool)
	TopicByID(id [16]byte) (Topic, bool)
	// TopicNames lists all topics, internal ones too, in the order of their names.
	TopicNames() []string
}

// Authorizer says what the principal of a request may do.
type Authorizer interface {
	Allowed(op kmsg.ACLOperation, resource kmsg.ACLResourceType, name string) bool
}

// Caller is who sent a request and how.
type Caller struct {
	ClientID   string
	ClientHost string // as groups are described with it: "/127.0.0.1"
	Version    int16  // the version of the request, which is also that of the answer
	Token      any    // names the request if it is parked; comparable, and unique among parked requests
	Auth       Authorizer
}

// allowed reports whether the caller may do op; without an authorizer everything is allowed.
func (c Caller) allowed(op kmsg.ACLOperation, resource kmsg.ACLResourceType, name string) bool {
	return c.Auth == nil || c.Auth.Allowed(op, resource, name)
}

// groupOperations are the operations that exist on a group, which together are 3400 as a bit field.
var groupOperations = []kmsg.ACLOperation{
	kmsg.ACLOperationRead, kmsg.ACLOperationDelete, kmsg.ACLOperationDescribe,
	kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs,
}

// noOperations is the AuthorizedOperations of an answer that was not asked for them.
const noOperations int32 = -1 << 31

// authorizedOperations is the bit field of the operations that the caller may do on a group.
func (c Caller) authorizedOperations(group string) int32 {
	var bits int32
	for _, op := range groupOperations {
		if c.allowed(op, kmsg.ACLResourceTypeGroup, group) {
			bits |= 1 << op
		}
	}
	return bits
}

// Record is a record to append to the partition PartitionFor(Group) of __consumer_offsets.
type Record struct {
	Group string
	Key   []byte
	Value []byte // nil is a tombstone
	// Transactional records are appended in a batch of their own with this producer id and epoch.
	Transactional bool
	ProducerID    int64
	ProducerEpoch int16
}

// Completion is the answer to a request that was parked.
type Completion struct {
	Token    any
	Response kmsg.Response
}

// Effects is what a call wants done: append Records in order, then send Completed (and the call's own answer).
// One value may collect the effects of several calls.
type Effects struct {
	Records   []Record
	Completed []Completion
	// Share is the share coordinator's work, to be done after Records are appended.
	Share []ShareStateChange
}

func (e *Effects) record(group string, key, value []byte) {
	e.Records = append(e.Records, Record{Group: group, Key: key, Value: value})
}

func (e *Effects) complete(token any, response kmsg.Response) {
	e.Completed = append(e.Completed, Completion{Token: token, Response: response})
}

// Groups is the state of all groups of a cluster and of the offsets they committed.
type Groups struct {
	config  Config
	topics  Topics
	groups  map[string]group
	offsets *offsets
	timers  timers
	// retentionAt is when offsets are next looked through for expired ones, zero before anything is loaded.
	retentionAt     time.Time
	shareRebalances int64
}

// New makes a coordinator without groups.
func New(config Config, topics Topics) *Groups {
	if config.Release == nil {
		config.Release = release.Latest.Traits()
	}
	return &Groups{config: config, topics: topics, groups: map[string]group{}, offsets: newOffsets()}
}

// SetProtocols switches consumer groups (ConsumerProtocolEnabled) and share groups (ShareEnabled) on or off. Groups that exist stay, for when they are
// switched on again.
func (g *Groups) SetProtocols(consumer, share bool) {
	g.config.ConsumerProtocolEnabled, g.config.ShareEnabled = consumer, share
}

// PartitionFor is the partition of an internal topic that keeps what belongs to a key, a group id here:
// abs(hash) mod partitions, where hash is Java's String.hashCode and abs(MIN_VALUE) is 0.
func PartitionFor(key string, partitions int32) int32 {
	hash := javamap.String(key)
	if hash == -1<<31 {
		return 0
	}
	return max(hash, -hash) % partitions
}

// PartitionFor is the partition of __consumer_offsets that keeps a group.
func (g *Groups) PartitionFor(group string) int32 { return PartitionFor(group, g.config.Partitions) }

// SetPartitions tells how many partitions __consumer_offsets was made with, at least 1, where that is not what is configured.
func (g *Groups) SetPartitions(n int32) { g.config.Partitions = n }

// groupType is the kind of a group, named as ListGroups names it.
type groupType string

const (
	classicType  groupType = "classic"
	consumerType groupType = "consumer"
	shareType    groupType = "share"
)

// group is a group of any type, as far as the operations see it that all types share.
type group interface {
	id() string
	kind() groupType
	// state is the name that answers show, such as Stable or Empty.
	state() string
	// protocolType is what ListGroups shows: the classic protocol type, "consumer" or "share".
	protocolType() string

	// checkOffsetCommit checks the committer of an OffsetCommit (or, with txn, a TxnOffsetCommit) and refreshes
	// its session where a commit does that. code stands for all partitions; check, if not nil, is asked for each
	// partition in turn, and its first error stands for all of them (KIP-1251).
	checkOffsetCommit(now time.Time, member offsetMember, version int16, txn bool) (check partitionCheck, code int16)
	// checkOffsetFetch checks the member fields of an OffsetFetch of version 9 or later.
	checkOffsetFetch(memberID *string, epoch int32) int16
	// checkOffsetDelete is the code for a whole OffsetDelete.
	checkOffsetDelete() int16
	// checkDelete is the code for a DeleteGroups.
	checkDelete() int16
	// subscribedTo reports whether a member's subscription to the topic keeps its offsets from being deleted
	// or expired.
	subscribedTo(topic string) bool
	// offsetsExpireFrom is the time (ms) from which the retention of an offset counts that was committed at
	// the given one; ok is false while the group's offsets do not expire.
	offsetsExpireFrom(committedMs int64) (ms int64, ok bool)
	// expires reports whether the group is removed once it is empty and has no offsets.
	expires() bool
	// tombstones records the removal of all that is stored for the group, offsets aside.
	tombstones(e *Effects)

	// topicsChanged tells that topics were created, deleted or got partitions.
	topicsChanged(now time.Time, names []string, e *Effects)
	// loaded tells that all records were replayed: sessions begin anew at now.
	loaded(now time.Time, e *Effects)
	// unload answers what is parked with a code, as the group is about to be forgotten.
	unload(code int16, e *Effects)
}

// offsetMember is the committer of offsets as the request names it.
type offsetMember struct {
	id         string
	instance   *string
	generation int32 // or member epoch
}

// partitionCheck is the code for a commit to one partition.
type partitionCheck func(topic string, topicID [16]byte, partition int32) int16

// classicServer is a group that serves the classic protocol's requests. The checks that need no group (an
// empty group id, the bounds of the session timeout) are done.
type classicServer interface {
	group
	// joinGroup returns nil if the request is parked.
	joinGroup(now time.Time, c Caller, req *kmsg.JoinGroupRequest, e *Effects) *kmsg.JoinGroupResponse
	// syncGroup returns nil if the request is parked.
	syncGroup(now time.Time, c Caller, req *kmsg.SyncGroupRequest, e *Effects) *kmsg.SyncGroupResponse
	heartbeat(now time.Time, req *kmsg.HeartbeatRequest, e *Effects) int16
	// leaveGroup returns a code for each member.
	leaveGroup(now time.Time, members []kmsg.LeaveGroupRequestMember, e *Effects) []int16
}

// sorted returns all groups in the order of their ids, so that nothing depends on the order of a map.
func (g *Groups) sorted() []group { return g.sortedIf(func(string) bool { return true }) }

// inPartition returns the groups that a partition of __consumer_offsets keeps, in the order of their ids.
func (g *Groups) inPartition(partition int32) []group {
	return g.sortedIf(func(id string) bool { return g.PartitionFor(id) == partition })
}

func (g *Groups) sortedIf(in func(id string) bool) []group {
	var groups []group
	for id, gr := range g.groups {
		if in(id) {
			groups = append(groups, gr)
		}
	}
	slices.SortFunc(groups, func(a, b group) int { return cmp.Compare(a.id(), b.id()) })
	return groups
}

// put makes a group known, in place of one of the same id.
func (g *Groups) put(gr group) { g.groups[gr.id()] = gr }

// forget removes a group and its timers, but neither its offsets nor its records.
func (g *Groups) forget(id string) {
	delete(g.groups, id)
	g.timers.cancelAll(id)
}

// TopicsChanged tells that topics were created or got partitions.
func (g *Groups) TopicsChanged(now time.Time, names []string, e *Effects) {
	for _, gr := range g.sorted() {
		gr.topicsChanged(now, names, e)
	}
}

// TopicsDeleted tells that topics are gone: their offsets are removed.
func (g *Groups) TopicsDeleted(now time.Time, topics []Topic, e *Effects) {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
		g.deleteTopicOffsets(t, e)
	}
	g.TopicsChanged(now, names, e)
}

// groupMillis is a group's own value of a configuration key in milliseconds, or the broker's.
func (g *Groups) groupMillis(group, key string, broker time.Duration) time.Duration {
	if g.config.GroupConfig == nil {
		return broker
	}
	value, ok := g.config.GroupConfig(group, key)
	if !ok {
		return broker
	}
	ms, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return broker
	}
	return time.Duration(ms) * time.Millisecond
}

// newUUID makes an id in the form that classic member ids end with: 8-4-4-4-12 hexadecimal digits.
func (g *Groups) newUUID() string {
	u := g.config.NewUUID()
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// newKafkaUUID makes an id in Kafka's own form: base64 for URLs, without padding, never starting with a dash.
func (g *Groups) newKafkaUUID() string {
	for {
		u := g.config.NewUUID()
		if s := base64.RawURLEncoding.EncodeToString(u[:]); s[0] != '-' {
			return s
		}
	}
}
