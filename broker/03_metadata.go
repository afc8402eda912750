package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/coordinator/assignor"
	"kshare/protocol/errorcode"
)

// Metadata (3), v0 to v13.
//
// Behaviour:
//   - No topics: all of them in v0, none in later versions; null: all of them. All never creates.
//   - v10 and v11 take names only: an id or a null name makes every entry INVALID_REQUEST, without brokers. From v12 on an entry
//     without name and id makes them UNKNOWN_SERVER_ERROR. If any entry has an id, names are ignored.
//   - Known topics come before unknown ones; a topic named twice is answered once.
//   - An unknown topic may be created (auto.create.topics.enable): with timing=kafka the answer still says
//     UNKNOWN_TOPIC_OR_PARTITION and the next one has it, with timing=fast it is in the answer.
//   - The controller is a broker of the list, as in KRaft. Nodes that are stopped, or have been cut off for broker.session.timeout.ms, are not in it.
//   - A partition without a leader is LEADER_NOT_AVAILABLE, with leader -1. v0 names live nodes only and is REPLICA_NOT_AVAILABLE where that leaves any out.

const metadataKey = 3

func init() {
	handlers[metadataKey] = needing(locked((*Cluster).metadata),
		looksItself(acl.Describe, acl.Topic, "each topic that is named, whether it exists or not; of all topics, those without are left out"),
		looksItself(acl.Create, acl.Topic, "or CREATE CLUSTER, each topic that the request would create"),
		looksItself(acl.Describe, acl.Cluster, "for ClusterAuthorizedOperations, which are 0 without").silently(),
	)
}

// noOperations is what answers have in place of operations that were not asked for.
const noOperations int32 = -1 << 31

// clusterOperations are what the client may do to the cluster, none where it may not even look.
func (r *request) clusterOperations() int32 {
	if !r.mayOnCluster(acl.Describe) {
		return 0
	}
	return r.operations(acl.Cluster, acl.ClusterName)
}

func (c *Cluster) metadata(r *request, q *kmsg.MetadataRequest) kmsg.Response {
	p := response[*kmsg.MetadataResponse](q)
	if code := checkMetadata(q); code != errorcode.None {
		for _, t := range q.Topics {
			entry := kmsg.NewMetadataResponseTopic()
			entry.Topic, entry.TopicID, entry.ErrorCode = t.Topic, t.TopicID, code
			if entry.Topic == nil {
				entry.Topic = kmsg.StringPtr("")
			}
			p.Topics = append(p.Topics, entry)
		}
		p.ControllerID = -1
		return p
	}
	for _, n := range c.liveNodes() {
		b := kmsg.NewMetadataResponseBroker()
		at := r.endpoint(n)
		b.NodeID, b.Host, b.Port = n.id, at.host, at.port
		p.Brokers = append(p.Brokers, b)
	}
	p.ClusterID = kmsg.StringPtr(c.id)
	p.ControllerID = c.controllerID()
	topics := len(c.topics)
	p.Topics = c.metadataTopics(r, q)
	r.wrote = len(c.topics) > topics
	if q.IncludeClusterAuthorizedOperations && q.Version >= 8 && q.Version <= 10 {
		p.AuthorizedOperations = r.clusterOperations()
	}
	return p
}

// checkMetadata is the error of a request that names topics in a way its version has not.
func checkMetadata(q *kmsg.MetadataRequest) int16 {
	if q.Version < 10 {
		return errorcode.None
	}
	ids := slices.ContainsFunc(q.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID != [16]byte{} })
	for _, t := range q.Topics {
		switch {
		case q.Version < 12 && (t.Topic == nil || t.TopicID != [16]byte{}):
			return errorcode.InvalidRequest
		case q.Version >= 12 && !ids && t.Topic == nil:
			return errorcode.UnknownServerError
		}
	}
	return errorcode.None
}

// metadataTopics are the entries for the topics that a request names.
func (c *Cluster) metadataTopics(r *request, q *kmsg.MetadataRequest) []kmsg.MetadataResponseTopic {
	if q.Topics == nil || q.Version == 0 && len(q.Topics) == 0 {
		var all []kmsg.MetadataResponseTopic
		for _, t := range c.sortedTopics() {
			if r.may(acl.Describe, acl.Topic, t.name) {
				all = append(all, c.metadataTopic(r, q, t))
			}
		}
		return all
	}
	if slices.ContainsFunc(q.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID != [16]byte{} }) {
		return c.metadataByID(r, q)
	}
	var known []kmsg.MetadataResponseTopic
	var names []string
	unknown := map[string]kmsg.MetadataResponseTopic{}
	var forbidden []kmsg.MetadataResponseTopic
	seen := map[string]bool{}
	for _, asked := range q.Topics {
		name := *asked.Topic
		if seen[name] {
			continue
		}
		seen[name] = true
		if !r.may(acl.Describe, acl.Topic, name) {
			forbidden = append(forbidden, forbiddenTopic(name))
			continue
		}
		t := c.topics[name]
		if t == nil {
			var code int16
			if t, code = c.autoCreate(r, name, q); t == nil {
				if code == errorcode.TopicAuthorizationFailed {
					forbidden = append(forbidden, forbiddenTopic(name))
					continue
				}
				entry := kmsg.NewMetadataResponseTopic()
				entry.Topic, entry.ErrorCode, entry.IsInternal = kmsg.StringPtr(name), code, isInternal(name)
				if q.IncludeTopicAuthorizedOperations {
					entry.AuthorizedOperations = r.operations(acl.Topic, name)
				}
				names, unknown[name] = append(names, name), entry
				continue
			}
		}
		known = append(known, c.metadataTopic(r, q, t))
	}
	for _, name := range assignor.StringOrder(names) { // out of a java.util.HashSet
		known = append(known, unknown[name])
	}
	return append(known, forbidden...)
}

// forbiddenTopic is the entry for a topic that the client may not know of, whether it exists or not.
func forbiddenTopic(name string) kmsg.MetadataResponseTopic {
	entry := kmsg.NewMetadataResponseTopic()
	entry.Topic, entry.ErrorCode, entry.IsInternal = &name, errorcode.TopicAuthorizationFailed, isInternal(name)
	return entry
}

// metadataByID are the entries for topics that are asked for by id.
func (c *Cluster) metadataByID(r *request, q *kmsg.MetadataRequest) []kmsg.MetadataResponseTopic {
	var known, unknown []kmsg.MetadataResponseTopic
	seen := map[[16]byte]bool{}
	for _, asked := range q.Topics {
		if asked.TopicID == [16]byte{} || seen[asked.TopicID] {
			continue
		}
		seen[asked.TopicID] = true
		t := c.topicsByID[asked.TopicID]
		if t != nil && r.may(acl.Describe, acl.Topic, t.name) {
			known = append(known, c.metadataTopic(r, q, t))
			continue
		}
		entry := kmsg.NewMetadataResponseTopic()
		if t != nil {
			entry.TopicID, entry.ErrorCode = asked.TopicID, errorcode.TopicAuthorizationFailed
			unknown = append(unknown, entry)
			continue
		}
		entry.TopicID, entry.ErrorCode = asked.TopicID, errorcode.UnknownTopicID
		unknown = append(unknown, entry)
	}
	return append(known, unknown...)
}

// metadataTopic is the entry for a topic that exists.
func (c *Cluster) metadataTopic(r *request, q *kmsg.MetadataRequest, t *topic) kmsg.MetadataResponseTopic {
	entry := kmsg.NewMetadataResponseTopic()
	entry.Topic, entry.TopicID, entry.IsInternal = kmsg.StringPtr(t.name), t.id, isInternal(t.name)
	if q.IncludeTopicAuthorizedOperations {
		entry.AuthorizedOperations = r.operations(acl.Topic, t.name)
	}
	entry.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, len(t.partitions))
	for _, p := range t.partitions {
		entry.Partitions = append(entry.Partitions, p.metadata(q.Version))
	}
	return entry
}

// metadata is the entry for a partition. v0 leaves out the nodes that are not live.
func (p *partition) metadata(version int16) kmsg.MetadataResponseTopicPartition {
	e := kmsg.NewMetadataResponseTopicPartition()
	e.Partition, e.Leader, e.LeaderEpoch, e.Replicas, e.ISR, e.OfflineReplicas = p.index, p.leader, p.leaderEpoch, p.replicas, p.isr, p.offline()
	if version == 0 {
		e.Replicas, e.ISR = p.cluster.live(p.replicas), p.cluster.live(p.isr)
	}
	switch {
	case p.leader == noLeader:
		e.ErrorCode = errorcode.LeaderNotAvailable
	case len(e.Replicas) < len(p.replicas) || len(e.ISR) < len(p.isr):
		e.ErrorCode = errorcode.ReplicaNotAvailable
	}
	return e
}

// offline are the replicas that are not live.
func (p *partition) offline() []int32 {
	var offline []int32
	for _, id := range p.replicas {
		if !p.cluster.node(id).live() {
			offline = append(offline, id)
		}
	}
	return offline
}

// autoCreate creates a topic that a request asks for and that does not exist, where that is allowed. It returns the topic if the answer
// may name it already, else the code that stands in its place.
func (c *Cluster) autoCreate(r *request, name string, q *kmsg.MetadataRequest) (*topic, int16) {
	if invalidTopicName(name) != "" {
		return nil, errorcode.InvalidTopicException
	}
	allowed := q.AllowAutoTopicCreation || q.Version < 4
	if !allowed || !c.brokerBool("auto.create.topics.enable") || c.collidingTopic(name) != "" {
		return nil, errorcode.UnknownTopicOrPartition
	}
	if !r.mayOnCluster(acl.Create) && !r.may(acl.Create, acl.Topic, name) {
		return nil, errorcode.TopicAuthorizationFailed
	}
	var t *topic
	var err error
	if isInternal(name) {
		t, err = c.internalTopic(name)
	} else {
		assignment := c.place(int(c.brokerInt("num.partitions")), c.defaultReplicationFactor())
		t, err = c.addTopic(name, c.topicID(name), assignment)
	}
	if err != nil {
		c.log.Error("a topic could not be created", "topic", name, "error", err)
		return nil, errorcode.UnknownServerError
	}
	if c.timing == TimingKafka {
		return nil, errorcode.UnknownTopicOrPartition
	}
	return t, errorcode.None
}
