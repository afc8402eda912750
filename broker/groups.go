package broker

import (
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/coordinator"
	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// groups is the group coordinator of all nodes, with the timer that drives it.
type groups struct {
	coordinator *coordinator.Groups
	deadline    deadline
}

func newGroups(c *Cluster) *groups {
	v := c.brokerValues()
	config := coordinator.Config{
		Partitions:                   c.spread[consumerOffsetsTopic],
		GroupMaxSize:                 int(v.Int("group.max.size")),
		GroupMinSession:              v.Duration("group.min.session.timeout.ms"),
		GroupMaxSession:              v.Duration("group.max.session.timeout.ms"),
		InitialRebalanceDelay:        v.Duration("group.initial.rebalance.delay.ms"),
		OffsetMetadataMaxBytes:       int(v.Int("offset.metadata.max.bytes")),
		OffsetsRetention:             time.Duration(v.Int("offsets.retention.minutes")) * time.Minute,
		OffsetsRetentionCheckPeriod:  v.Duration("offsets.retention.check.interval.ms"),
		ConsumerProtocolEnabled:      c.consumerProtocolEnabled(),
		ConsumerMaxSize:              int(v.Int("group.consumer.max.size")),
		ConsumerSession:              v.Duration("group.consumer.session.timeout.ms"),
		ConsumerHeartbeat:            v.Duration("group.consumer.heartbeat.interval.ms"),
		ConsumerAssignmentInterval:   v.Duration("group.consumer.assignment.interval.ms"),
		ConsumerAssignors:            v.List("group.consumer.assignors"),
		ConsumerMigrationPolicy:      v.String("group.consumer.migration.policy"),
		ConsumerRegexRefreshInterval: v.Duration("group.consumer.regex.refresh.interval.ms"),
		ShareEnabled:                 c.shareEnabled(),
		ShareMaxSize:                 int(v.Int("group.share.max.size")),
		ShareSession:                 v.Duration("group.share.session.timeout.ms"),
		ShareHeartbeat:               v.Duration("group.share.heartbeat.interval.ms"),
		ShareAssignmentInterval:      v.Duration("group.share.assignment.interval.ms"),
		ShareAssignors:               v.List("group.share.assignors"),
		Release:                      c.traits,
		NewUUID: func() (id [16]byte) {
			c.fillRandom(id[:])
			id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
			return id
		},
		GroupConfig: c.groupConfig,
	}
	if c.timing == TimingFast {
		config.ConsumerAssignmentInterval, config.ShareAssignmentInterval = 0, 0
		if _, set := c.static.Get("group.initial.rebalance.delay.ms"); !set {
			config.InitialRebalanceDelay = 0
		}
	}
	return &groups{coordinator: coordinator.New(config, c)}
}

// groupConfig is the value that a group goes by. With timing=fast an assignment interval is 0 whatever the group is configured with.
func (c *Cluster) groupConfig(group, key string) (string, bool) {
	if c.timing == TimingFast && (key == "consumer.assignment.interval.ms" || key == "share.assignment.interval.ms") {
		return "", false
	}
	return c.config.Group(c.nodes[0].id, group).Text(key)
}

// TopicByName implements coordinator.Topics.
func (c *Cluster) TopicByName(name string) (coordinator.Topic, bool) {
	if t := c.topics[name]; t != nil {
		return t.described(), true
	}
	return coordinator.Topic{}, false
}

// TopicByID implements coordinator.Topics.
func (c *Cluster) TopicByID(id [16]byte) (coordinator.Topic, bool) {
	if t := c.topicsByID[id]; t != nil {
		return t.described(), true
	}
	return coordinator.Topic{}, false
}

// notCoordinating is why a node does not coordinate a group, 0 where it does: it leads the group's partition of __consumer_offsets and has loaded it.
func (c *Cluster) notCoordinating(n *node, group string) int16 {
	return c.keeper(consumerOffsetsTopic, group).notCoordinating(n)
}

// groupCall is a request to the group coordinator. It returns nil where the request is parked.
type groupCall[Q kmsg.Request, R kmsg.Response] func(g *coordinator.Groups, now time.Time, caller coordinator.Caller, q Q, e *coordinator.Effects) R

// toGroup makes the handler of an API whose requests concern one group.
func toGroup[Q kmsg.Request, P any, R interface {
	*P
	kmsg.Response
}](group func(Q) string, call groupCall[Q, R]) *handler {
	return toGroupSaying(func(int16) string { return "" }, group, call)
}

// toGroupSaying is toGroup for an API whose answer says in words too why the node does not coordinate the group.
func toGroupSaying[Q kmsg.Request, P any, R interface {
	*P
	kmsg.Response
}](why func(code int16) string, group func(Q) string, call groupCall[Q, R]) *handler {
	return writing(locked(func(c *Cluster, r *request, q Q) kmsg.Response {
		if p := refuseGroup(c, r, q, why, group(q)); p != nil {
			return p
		}
		return callGroups(c, r, q, call)
	}))
}

// refuseGroup is the answer of a node that does not coordinate a group, nil of one that does.
func refuseGroup(c *Cluster, r *request, q kmsg.Request, why func(code int16) string, group string) kmsg.Response {
	code := c.notCoordinating(r.node, group)
	if code == errorcode.None {
		return nil
	}
	p := q.ResponseKind()
	if !refuse(p, code, why(code)) {
		r.closing = fmt.Errorf("node %d does not coordinate group %q", r.node.id, group)
	}
	return p
}

// notStored is what a coordinator answers whose state could not be stored. Apache Kafka makes it of KAFKA_STORAGE_ERROR
// (CoordinatorOperationExceptionHelper), since it has members, and leaders of share partitions, look for the coordinator and try again.
const notStored = errorcode.NotCoordinator

// callGroups makes a call of the group coordinator and does what it wants done.
func callGroups[Q kmsg.Request, P any, R interface {
	*P
	kmsg.Response
}](c *Cluster, r *request, q Q, call groupCall[Q, R]) kmsg.Response {
	r.unstored = notStored
	var e coordinator.Effects
	p := call(c.groups.coordinator, c.clock.Now(), c.caller(r), q, &e)
	if p == nil {
		r.park(nil)
	}
	if err := c.groupEffects(&e); err != nil {
		c.log.Error("a group's state could not be stored", "api", r.api.Name, "error", err)
		if p == nil {
			return nil
		}
		if !unstored(p, notStored) {
			r.closing = fmt.Errorf("the group's state could not be stored: %w", err)
		}
	}
	if p == nil {
		return nil
	}
	return p
}

// groupEffects appends the records that the coordinator wants stored, sends the answers of parked requests and sets the timer.
func (c *Cluster) groupEffects(e *coordinator.Effects) error {
	err := c.appendGroupRecords(e.Records)
	if err == nil && len(e.Share) > 0 {
		var more coordinator.Effects
		if failed := c.shareStateChanges(e.Share, &more); failed != nil {
			c.log.Warn("the share coordinator refused what a share group wants", "error", failed)
		}
		err = c.appendGroupRecords(more.Records)
	}
	if err != nil {
		c.reloadGroups()
	}
	for _, done := range e.Completed {
		r := done.Token.(*request)
		if err != nil {
			r.closing = err
		}
		r.complete(done.Response)
	}
	c.armGroups()
	return err
}

// armGroups sets the timer to the coordinator's next deadline.
func (c *Cluster) armGroups() {
	at, ok := c.groups.coordinator.NextDeadline()
	c.groups.deadline.follow(c, at, ok, func() {
		var e coordinator.Effects
		c.groups.coordinator.Expire(c.clock.Now(), &e)
		if err := c.groupEffects(&e); err != nil {
			c.log.Error("what a group's timer changed could not be stored", "error", err)
		}
	})
}

// appendGroupRecords appends records to their groups' partitions of __consumer_offsets, those of one partition in one batch.
func (c *Cluster) appendGroupRecords(records []coordinator.Record) error {
	if len(records) == 0 {
		return nil
	}
	for len(records) > 0 {
		n := sameBatch(c.groups.coordinator, records)
		p := c.keeper(consumerOffsetsTopic, records[0].Group)
		if p == nil {
			return fmt.Errorf("nobody keeps group %q", records[0].Group)
		}
		if err := c.appendRecords(p, records[:n]); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

// sameBatch is how many of the records, from the first on, go into one batch.
func sameBatch(g *coordinator.Groups, records []coordinator.Record) int {
	first := &records[0]
	n := 1
	for n < len(records) && g.PartitionFor(records[n].Group) == g.PartitionFor(first.Group) &&
		records[n].Transactional == first.Transactional && records[n].ProducerID == first.ProducerID && records[n].ProducerEpoch == first.ProducerEpoch {
		n++
	}
	return n
}

// appendRecords appends a batch of a coordinator's records to a partition.
func (c *Cluster) appendRecords(p *partition, records []coordinator.Record) error {
	b := protocol.NewBatchBuilder()
	if records[0].Transactional {
		b.ProducerID, b.ProducerEpoch = records[0].ProducerID, records[0].ProducerEpoch
		b.Transactional = true
	}
	for _, record := range records {
		if err := b.Append(c.now(), record.Key, record.Value); err != nil {
			return err
		}
	}
	return p.appendBuilt(b)
}

// appendBuilt appends a batch that the broker itself has built.
func (p *partition) appendBuilt(b *protocol.BatchBuilder) error {
	batch, err := b.Finish()
	if err != nil {
		return fmt.Errorf("building a batch for %s: %w", p, err)
	}
	h, err := protocol.ParseBatchHeader(batch)
	if err != nil {
		return fmt.Errorf("building a batch for %s: %w", p, err)
	}
	_, err = p.append(&h, batch)
	return err
}

// loadCoordinators rebuilds the coordinators from their topics.
func (c *Cluster) loadCoordinators() error {
	if err := c.replayGroups(); err != nil {
		return err
	}
	if err := c.loadShare(); err != nil {
		return err
	}
	return c.loadTransactions()
}

// replayGroups rebuilds the groups from __consumer_offsets.
func (c *Cluster) replayGroups() error {
	var e coordinator.Effects
	t := c.topics[consumerOffsetsTopic]
	if t == nil {
		c.groups.coordinator.Loaded(c.clock.Now(), 0, &e) // nothing to load: retention checks begin
		return c.groupEffects(&e)
	}
	for _, p := range t.partitions {
		if err := c.replayGroupsOf(p, &e); err != nil {
			return err
		}
	}
	return c.groupEffects(&e)
}

// replayGroupsOf rebuilds the groups that a partition of __consumer_offsets keeps, none where it cannot be read.
func (c *Cluster) replayGroupsOf(p *partition, e *coordinator.Effects) error {
	ended := func(producerID int64, commit bool) { c.groups.coordinator.EndTransaction(p.index, producerID, commit) }
	keeper := recordKeeper{p: p}
	defer keeper.report()
	err := p.eachRecordOrMarker(ended, func(h *protocol.BatchHeader, r *protocol.Record) error {
		if !keeper.keepsRecord(r) {
			return nil
		}
		producerID := int64(-1)
		if h.IsTransactional() {
			producerID = h.ProducerID
		}
		if p.coordinator != coordinatorFailed {
			if err := c.groups.coordinator.Replay(producerID, r.Key, r.Value); err != nil {
				c.failCoordinator(p, h, r, err)
			}
		}
		return nil
	})
	switch {
	case err != nil:
	case p.coordinator == coordinatorFailed:
		c.unloadGroups(p)
	default:
		c.groups.coordinator.Loaded(c.clock.Now(), p.index, e)
	}
	return err
}

// leaveOut says that a record of an internal topic makes no sense. Only a client can have put it there: it does not keep the cluster from starting.
func (c *Cluster) leaveOut(p *partition, h *protocol.BatchHeader, r *protocol.Record, err error) {
	c.log.Error("a record of an internal topic cannot be read and is left out", "partition", p, "offset", h.BaseOffset+int64(r.OffsetDelta), "error", err)
}

// failCoordinator has nothing served of what a partition of an internal topic keeps, for a record in it makes no sense. Only a client can have put it there:
// it does not keep the cluster from starting.
func (c *Cluster) failCoordinator(p *partition, h *protocol.BatchHeader, r *protocol.Record, err error) {
	c.log.Error("a record of an internal topic cannot be read: the groups whose state the partition keeps are not served; deleting the topic begins it anew",
		"partition", p, "offset", h.BaseOffset+int64(r.OffsetDelta), "error", err)
	p.coordinator = coordinatorFailed
}

// reloadGroups forgets all groups and rebuilds them from what is stored, after something could not be stored.
func (c *Cluster) reloadGroups() {
	t := c.topics[consumerOffsetsTopic]
	if t == nil {
		return
	}
	for _, p := range t.partitions {
		if p.coordinated() {
			c.unloadGroups(p)
			c.loadGroups(p)
		}
	}
}

// eachRecord calls f for each data record of the partition's log.
func (p *partition) eachRecord(f func(*protocol.BatchHeader, *protocol.Record) error) error {
	return p.eachRecordOrMarker(func(int64, bool) {}, f)
}

// eachRecordOrMarker calls f for each data record of the partition's log, and ended for the end of each producer's transaction.
func (p *partition) eachRecordOrMarker(ended func(producerID int64, commit bool), f func(*protocol.BatchHeader, *protocol.Record) error) error {
	return p.eachBatch(p.log.StartOffset(), func(h *protocol.BatchHeader, batch []byte) error {
		if h.IsControl() {
			if control, _, ok := protocol.ParseEndTxnMarker(h, batch); ok {
				ended(h.ProducerID, control == protocol.ControlCommit)
			}
			return nil
		}
		reader, err := protocol.OpenRecords(h, batch, protocol.NoRecordLimit)
		if err != nil {
			return err
		}
		defer reader.Close()
		var record protocol.Record
		for {
			if err := reader.Next(&record); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := f(h, &record); err != nil {
				return err
			}
		}
	})
}

// groupsTopicsChanged tells the coordinator that topics were made or have grown.
func (c *Cluster) groupsTopicsChanged(names ...string) {
	if c.groups == nil {
		return // still loading: groups do not exist yet
	}
	var e coordinator.Effects
	c.groups.coordinator.TopicsChanged(c.clock.Now(), names, &e)
	if err := c.groupEffects(&e); err != nil {
		c.log.Error("groups could not store what a changed topic means to them", "error", err)
	}
}

// groupsTopicDeleted tells the coordinator that a topic is gone.
func (c *Cluster) groupsTopicDeleted(t *topic) {
	var e coordinator.Effects
	c.groups.coordinator.TopicsDeleted(c.clock.Now(), []coordinator.Topic{t.described()}, &e)
	if err := c.groupEffects(&e); err != nil {
		c.log.Error("groups could not store that a topic is gone", "topic", t.name, "error", err)
	}
}
