package broker

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/protocol/errorcode"
)

// FindCoordinator (10), v0 to v6.
//
// Behaviour:
//   - The coordinator of a key is the leader of partition abs(hash(key)) mod partitions of an internal topic, which is made at its first
//     use; with timing=kafka the request that makes it is answered with COORDINATOR_NOT_AVAILABLE.
//   - Key types: 0 group, 1 transaction, 2 share (v6), whose key is group:topic id:partition. Others are INVALID_REQUEST.
//   - v4+ takes several keys and answers each in order.
//   - Success has the message "NONE" in v1 to v3 and "" from v4 on.

const findCoordinatorKey = 10

func init() {
	handlers[findCoordinatorKey] = needing(locked((*Cluster).findCoordinator),
		onKeys(acl.Describe, acl.Group, groupCoordinator),
		onKey(acl.Describe, acl.Group, groupCoordinator, saysGroup),
		onKeys(acl.Describe, acl.TransactionalID, transactionCoordinator),
		onKey(acl.Describe, acl.TransactionalID, transactionCoordinator, saysTransaction),
		onKeys(acl.ClusterAction, acl.Cluster, shareCoordinator),
	)
}

// onKeys is a right to each key of a type, from v4 on.
func onKeys(op acl.Operation, kind acl.ResourceType, keyType int8) demand {
	return onEach(op, kind, fault.Coordinator).saying(saysNothing).when(func(q kmsg.Request) bool {
		return q.GetVersion() >= 4 && q.(*kmsg.FindCoordinatorRequest).CoordinatorType == keyType
	})
}

// onKey is a right to the one key, up to v3.
func onKey(op acl.Operation, kind acl.ResourceType, keyType int8, says *string) demand {
	return onOne(op, kind, func(q *kmsg.FindCoordinatorRequest) string { return q.CoordinatorKey }).saying(says).when(func(q kmsg.Request) bool {
		return q.GetVersion() < 4 && q.(*kmsg.FindCoordinatorRequest).CoordinatorType == keyType
	})
}

const (
	groupCoordinator       = 0
	transactionCoordinator = 1
	shareCoordinator       = 2
)

func (c *Cluster) findCoordinator(r *request, q *kmsg.FindCoordinatorRequest) kmsg.Response {
	topics := len(c.topics)
	defer func() { r.wrote = len(c.topics) > topics }()
	p := response[*kmsg.FindCoordinatorResponse](q)
	if q.Version >= 4 {
		for _, key := range q.CoordinatorKeys {
			n, no := c.coordinator(q, key)
			entry := kmsg.NewFindCoordinatorResponseCoordinator()
			entry.Key, entry.NodeID, entry.Port, entry.ErrorMessage = key, -1, -1, kmsg.StringPtr("")
			if no != nil {
				entry.ErrorCode, entry.ErrorMessage = no.code, &no.message
			} else {
				at := r.endpoint(n)
				entry.NodeID, entry.Host, entry.Port = n.id, at.host, at.port
			}
			p.Coordinators = append(p.Coordinators, entry)
		}
		return p
	}
	n, no := c.coordinator(q, q.CoordinatorKey)
	p.NodeID, p.Port = -1, -1
	if no != nil {
		p.ErrorCode, p.ErrorMessage = no.code, &no.message
		return p
	}
	at := r.endpoint(n)
	p.NodeID, p.Host, p.Port, p.ErrorMessage = n.id, at.host, at.port, kmsg.StringPtr("NONE")
	return p
}

// malformedMessage is Kafka's message for INVALID_REQUEST where nothing more is known (Errors.java).
const malformedMessage = "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details."

// coordinator is the node that coordinates a key.
func (c *Cluster) coordinator(q *kmsg.FindCoordinatorRequest, key string) (*node, *refusal) {
	var name string
	switch {
	case q.CoordinatorType == groupCoordinator:
		name = consumerOffsetsTopic
	case q.CoordinatorType == transactionCoordinator:
		name = transactionStateTopic
	case q.CoordinatorType == shareCoordinator && q.Version >= 6 && validShareKey(key):
		name = shareStateTopic
	case q.CoordinatorType == shareCoordinator && q.Version >= 4:
		return nil, refused(errorcode.InvalidRequest, "")
	default:
		return nil, &refusal{errorcode.InvalidRequest, malformedMessage}
	}
	existed := c.topics[name] != nil
	if _, err := c.internalTopic(name); err != nil {
		return nil, c.storageRefusal(err)
	}
	if !existed && c.timing == TimingKafka {
		return nil, coordinatorNotAvailable(q)
	}
	if p := c.keeper(name, key); p != nil && c.node(p.leader) != nil {
		return c.node(p.leader), nil
	}
	return nil, coordinatorNotAvailable(q)
}

// coordinatorNotAvailable is the answer while there is no coordinator, as long as its topic is new or the partition has no leader.
func coordinatorNotAvailable(q *kmsg.FindCoordinatorRequest) *refusal {
	no := &refusal{code: errorcode.CoordinatorNotAvailable}
	if q.Version < 4 {
		no.message = "The coordinator is not available."
	}
	return no
}

// validShareKey tells whether a key is group:topic id:partition. The group may contain colons.
func validShareKey(key string) bool {
	rest, partition, ok := cutLast(key, ":")
	if !ok {
		return false
	}
	group, id, ok := cutLast(rest, ":")
	if !ok || group == "" {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(raw) != 16 {
		return false
	}
	n, err := strconv.ParseInt(partition, 10, 32)
	return err == nil && n >= 0
}

// cutLast cuts a string at the last separator.
func cutLast(s, separator string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):], true
	}
	return s, "", false
}
