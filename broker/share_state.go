package broker

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/internal/javamap"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
)

// shareStatePartition is the partition of __share_group_state that keeps the state of a share partition, nil where it is not there.
func (c *Cluster) shareStatePartition(k sharecoordinator.Key) *partition {
	return c.keeper(shareStateTopic, k.String())
}

// notKeepingShareState is why a node is not the share coordinator of a share partition, 0 where it is: it leads the partition of __share_group_state
// that keeps its state and has loaded it. Before that topic exists no node is.
func (c *Cluster) notKeepingShareState(n *node, k sharecoordinator.Key) int16 {
	return c.shareStatePartition(k).notCoordinating(n)
}

// unreachable is why a node, as a leader, cannot speak to the share coordinator that leads a partition of __share_group_state, 0 where it can. Before
// that topic is made there is no partition, nil, and it can: who asks for the coordinator has the topic made.
func (n *node) unreachable(kept *partition) int16 {
	if kept == nil {
		if n.cluster.topics[shareStateTopic] == nil {
			return errorcode.None
		}
		return errorcode.CoordinatorNotAvailable
	}
	at := n.cluster.node(kept.leader)
	switch {
	case at == nil:
		return errorcode.CoordinatorNotAvailable
	case at != n && (at.gate.isShut() || n.gate.isShut()):
		return errorcode.NetworkException
	}
	return kept.notCoordinating(at)
}

// findShareCoordinator has the topic of share state made where it is not there, as who looks for a share coordinator does, and returns why a node cannot speak to the one that
// leads a partition of it, 0 where it can.
func (n *node) findShareCoordinator(at int32) int16 {
	t, err := n.cluster.internalTopic(shareStateTopic)
	if err != nil {
		n.cluster.log.Error("the share coordinator's topic could not be made", "error", err)
		return errorcode.CoordinatorNotAvailable
	}
	return n.unreachable(t.partition(at))
}

// toShareState makes the handler of an API that has the group coordinator change the state of a group's share partitions: of topics that the request names, as
// names tells. It waits for share coordinators as a leader does that writes (PersisterStateManager). What it does not find the state of fails: lacking puts that into the answer.
func toShareState[Q kmsg.Request, P any, R interface {
	*P
	kmsg.Response
}](call groupCall[Q, R], names func(Q) (group string, topics []string), lacking func(c *Cluster, group string, p R)) *handler {
	var attempt func(c *Cluster, r *request, q Q, attempts int) kmsg.Response
	attempt = func(c *Cluster, r *request, q Q, attempts int) kmsg.Response {
		group, topics := names(q)
		if p := refuseGroup(c, r, q, coordinatorMessage, group); p != nil {
			return p
		}
		there := !c.groups.coordinator.MayAlterShareState(group) || c.keepsShareState(group, topics)
		if !there && attempts < shareWriteAttempts {
			r.again(shareWriteBackoff<<(attempts-1), func() kmsg.Response { return attempt(c, r, q, attempts+1) })
			return nil
		}
		p := callGroups(c, r, q, call)
		if answer, ok := p.(R); ok && !there {
			lacking(c, group, answer)
		}
		return p
	}
	return writing(locked(func(c *Cluster, r *request, q Q) kmsg.Response { return attempt(c, r, q, 1) }))
}

// again parks the request and handles it again in a while.
func (r *request) again(wait time.Duration, handle func() kmsg.Response) {
	timer := r.node.cluster.after(wait, func() {
		if p := handle(); p != nil {
			r.complete(p)
		}
	})
	r.park(func() { timer.Stop() })
}

// keepsShareState tells whether the share coordinators of a group's share partitions in topics are there.
func (c *Cluster) keepsShareState(group string, topics []string) bool {
	return !slices.ContainsFunc(topics, func(name string) bool {
		t := c.topics[name]
		return t != nil && slices.ContainsFunc(t.partitions, func(p *partition) bool { return !c.hasShareCoordinator(p.shareKey(group)) })
	})
}

// hasShareCoordinator tells whether a share partition has a share coordinator, as it does before the topic of its state is made.
func (c *Cluster) hasShareCoordinator(k sharecoordinator.Key) bool {
	if c.topics[shareStateTopic] == nil {
		return true
	}
	p := c.shareStatePartition(k)
	return p != nil && p.coordinated()
}

// shareState makes a call of the share coordinator for one share partition of a request and stores the record that it returns. It returns
// the code and message for that partition; operation is what Kafka calls the call in them.
func (c *Cluster) shareState(r *request, operation string, k sharecoordinator.Key, call func() (sharecoordinator.Record, *sharecoordinator.Refusal)) (int16, *string) {
	unable := func(code int16, why string) (int16, *string) {
		message := "Unable to " + operation + ": " + why
		return code, &message
	}
	if code := c.notKeepingShareState(r.node, k); code != errorcode.None {
		return unable(code, coordinatorMessage(code))
	}
	record, no := call()
	if no != nil {
		return no.ErrorCode, &no.Message
	}
	if err := c.applyShareRecords(record); err != nil {
		c.log.Error("the state of a share partition could not be stored", "api", r.api.Name, "key", k, "error", err)
		return unable(notStored, err.Error())
	}
	return errorcode.None, nil
}

// changeStored is shareState for calls that change what is kept behind the leader's back.
func (c *Cluster) changeStored(r *request, operation string, k sharecoordinator.Key, call func() (sharecoordinator.Record, *sharecoordinator.Refusal)) (int16, *string) {
	code, message := c.shareState(r, operation, k, call)
	if code == errorcode.None {
		c.forgetStaged(k)
	}
	return code, message
}

// namesNoShareState tells whether a request of the share coordinator's APIs is answered with nothing: one without group or topics, or with a
// topic without partitions (ShareCoordinatorService).
func namesNoShareState[T any](group string, topics []T, partitions func(*T) int) bool {
	if group == "" || len(topics) == 0 {
		return true
	}
	for i := range topics {
		if partitions(&topics[i]) == 0 {
			return true
		}
	}
	return false
}

// shareStateResults are what came of the share partitions of a request. Of one that is named twice the last result counts (ShareCoordinatorService).
type shareStateResults[P any] struct {
	topics  [][16]byte
	byTopic map[[16]byte]*shareStateTopicResults[P]
}

type shareStateTopicResults[P any] struct {
	partitions  []int32
	byPartition map[int32]P
}

func (r *shareStateResults[P]) put(id [16]byte, partition int32, p P) {
	if r.byTopic == nil {
		r.byTopic = map[[16]byte]*shareStateTopicResults[P]{}
	}
	t := r.byTopic[id]
	if t == nil {
		t = &shareStateTopicResults[P]{byPartition: map[int32]P{}}
		r.topics, r.byTopic[id] = append(r.topics, id), t
	}
	t.partitions = append(t.partitions, partition)
	t.byPartition[partition] = p
}

// each calls f for each topic, in the order in which it is answered.
func (r *shareStateResults[P]) each(f func(id [16]byte, partitions []P)) {
	for _, id := range javamap.OrderOfComputeIfAbsent(r.topics, javamap.UUID) {
		t := r.byTopic[id]
		var partitions []P
		for _, index := range javamap.OrderOfPut(t.partitions, javamap.Int) {
			partitions = append(partitions, t.byPartition[index])
		}
		f(id, partitions)
	}
}

// shareWriteMessage is what Apache Kafka says with a code that the share coordinator answers a write with.
func shareWriteMessage(code int16) string {
	return "Unable to write share group state: " + coordinatorMessage(code)
}

// coordinatorMessage is Kafka's message for a code that a coordinator answers with (Errors.java), the code's name for others.
func coordinatorMessage(code int16) string {
	message, ok := map[int16]string{
		errorcode.NetworkException:          "The server disconnected before a response was received.",
		errorcode.CoordinatorLoadInProgress: "The coordinator is loading and hence can't process requests.",
		errorcode.CoordinatorNotAvailable:   "The coordinator is not available.",
		errorcode.NotCoordinator:            "This is not the correct coordinator.",
	}[code]
	if !ok {
		return errorcode.Name(code)
	}
	return message
}
