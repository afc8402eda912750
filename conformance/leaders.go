package conformance

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// leader is what a client was told of the leader of a partition.
type leader struct {
	node, epoch int32
	told        mark
	hinted      bool           // by an answer of the partition rather than by Metadata
	before      map[int32]mark // nodes that were told before, and until when
	wrong       map[int32]mark // nodes that an answer named which says nothing of leaders: CurrentLeader without 6 or 74
	stale       map[int32]mark // nodes that an answer named with an epoch that is not above the known one
}

// believes tells whether a client may believe that a node leads the partition.
func (l *leader) believes(j *Judge, node int32) bool {
	if l == nil || l.node == node {
		return true
	}
	until, was := l.before[node]
	return was && !j.old(until)
}

// tell takes in what a client is told of a leader.
func (j *Judge) tell(c *client, tp topicPartition, node, epoch int32, hinted bool) {
	l := c.leaders[tp]
	if l == nil {
		if j.leaders >= maxLeaders {
			return
		}
		j.leaders++
		c.leaders[tp] = &leader{node: node, epoch: epoch, told: j.mark(), hinted: hinted}
		return
	}
	if l.node == node {
		l.epoch = max(l.epoch, epoch)
		return
	}
	if l.before == nil {
		l.before = map[int32]mark{}
	}
	l.before[l.node] = j.mark()
	delete(l.before, node)
	l.node, l.epoch, l.told, l.hinted = node, epoch, j.mark(), hinted
}

// hint takes in the CurrentLeader of a partition of an answer.
func (j *Judge) hint(a *answer, tp topicPartition, code int16, node, epoch int32) {
	c := a.conn.client
	l := c.leaders[tp]
	switch {
	case node < 0 || epoch < 0:
	case code != errorcode.NotLeaderOrFollower && code != errorcode.FencedLeaderEpoch:
		if l != nil && l.node != node {
			if l.wrong == nil {
				l.wrong = map[int32]mark{}
			}
			l.wrong[node] = a.mark
		}
	case l != nil && epoch <= l.epoch:
		if l.node != node {
			if l.stale == nil {
				l.stale = map[int32]mark{}
			}
			l.stale[node] = a.mark
		}
	default:
		j.tell(c, tp, node, epoch, true)
	}
}

func (j *Judge) learnMetadata(a *answer, p *kmsg.MetadataResponse) {
	c := a.conn.client
	for _, b := range p.Brokers {
		if len(j.nodes) < maxNames {
			j.nodes[b.NodeID] = true
		}
	}
	for _, t := range p.Topics {
		if t.ErrorCode != errorcode.None || t.TopicID == ([16]byte{}) {
			continue
		}
		if t.Topic != nil {
			j.learnID(c, *t.Topic, t.TopicID)
		}
		for _, pp := range t.Partitions {
			if pp.Leader >= 0 {
				tp := topicPartition{t.TopicID, pp.Partition}
				if l := c.leaders[tp]; l == nil || pp.LeaderEpoch >= l.epoch {
					j.tell(c, tp, pp.Leader, pp.LeaderEpoch, false)
				}
			}
		}
	}
}

func (j *Judge) learnID(c *client, name string, id [16]byte) {
	t, ok := c.ids.get(name)
	switch {
	case !ok:
		c.ids.put(name, &topicID{id: id, told: j.mark()})
	case t.id != id:
		t.before, t.id, t.told = t.id, id, j.mark()
	}
}

func (j *Judge) learnCoordinator(a *answer, p *kmsg.FindCoordinatorResponse) {
	q := a.q.(*kmsg.FindCoordinatorRequest)
	found := func(key string, node int32, code int16) {
		if code != errorcode.None || node < 0 {
			return
		}
		k := strconv.Itoa(int(q.CoordinatorType)) + "|" + key
		c, ok := a.conn.client.coords.get(k)
		switch {
		case !ok:
			a.conn.client.coords.put(k, &coordinator{node: node, before: -1, told: a.mark})
		case c.node != node:
			c.before, c.node, c.told = c.node, node, a.mark
		}
	}
	if q.Version < 4 {
		found(q.CoordinatorKey, p.NodeID, p.ErrorCode)
	}
	for _, c := range p.Coordinators {
		found(c.Key, c.NodeID, c.ErrorCode)
	}
}

// coordinates tells whether a client may take a node for the coordinator of a key, and whether it was told of any.
func (j *Judge) coordinates(c *client, kind int, key string, node int32) (may bool, of *coordinator) {
	of, ok := c.coords.get(strconv.Itoa(kind) + "|" + key)
	if !ok {
		return true, nil
	}
	return of.node == node || of.before == node && !j.old(of.told), of
}
