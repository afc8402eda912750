package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kshare/clock"
	"kshare/config"
	"kshare/logvalidator"
	"kshare/protocol"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
	"kshare/storage"
)

// sharePartition is a partition as a share group consumes it: the state of its records in flight, and who waits for more.
// It lives on the partition's leader and is forgotten when something fences it; the next fetch reads its state anew.
type sharePartition struct {
	partition  *partition
	group      string
	state      *sharepartition.Partition
	stateEpoch int32
	counters   *SharePartitionCounters
	waiters    waiters[*shareWaiter]

	statePartition int32 // the partition of __share_group_state that keeps its state

	unused bool // no session is left, and it is forgotten with the answer to its last acknowledgement unless a fetch comes before

	lookedUp int64 // the next fetch offset when a fetch last looked it up in the log, -1 before

	timer    clock.Timer // set to the next lock's end, nil where there is none
	armedFor time.Time
}

func (sp *sharePartition) key() sharecoordinator.Key { return sp.partition.shareKey(sp.group) }

// shareKey names the share partition that a group makes of the partition.
func (p *partition) shareKey(group string) sharecoordinator.Key {
	return sharecoordinator.Key{Group: group, Topic: p.topic.id, Partition: p.index}
}

// groupValues are the effective configurations of a group.
func (c *Cluster) groupValues(group string) *config.Values {
	return c.config.Group(c.nodes[0].id, group)
}

// shareSettings is what of a group's configurations share partitions go by.
type shareSettings struct {
	limits    sharepartition.Limits
	committed bool // it sees only what committed transactions have written
}

// maxShareSettings bounds the groups whose settings are remembered.
const maxShareSettings = 1000

// shareSettings are looked up anew once a configuration has changed: a change counts at once.
func (c *Cluster) shareSettings(group string) *shareSettings {
	if g := c.config.Generation(); g != c.share.generation || len(c.share.settings) > maxShareSettings {
		c.share.generation = g
		clear(c.share.settings)
	}
	s := c.share.settings[group]
	if s == nil {
		v := c.groupValues(group)
		s = &shareSettings{
			limits: sharepartition.Limits{
				DeliveryCount: int(v.Int("share.delivery.count.limit")),
				RecordLocks:   int(v.Int("share.partition.max.record.locks")),
				LockDuration:  v.Duration("share.record.lock.duration.ms"),
				Renew:         v.Bool("share.renew.acknowledge.enable"),
				DeadLetter:    c.features.Levels["share.version"] >= deadLetterShareVersion && v.String(deadLetterTopicKey) != "",
			},
			committed: v.String("share.isolation.level") == "read_committed",
		}
		c.share.settings[group] = s
	}
	return s
}

func (c *Cluster) shareLimits(group string) sharepartition.Limits {
	return c.shareSettings(group).limits
}

// sharePartitionOf returns a group's share partition, reading its state where it is not known.
func (c *Cluster) sharePartitionOf(p *partition, group string) (*sharePartition, int16) {
	if sp := p.shareGroups[group]; sp != nil {
		sp.unused = false
		return sp, errorcode.None
	}
	sp := &sharePartition{partition: p, group: group, lookedUp: -1}
	sp.statePartition = c.keptAt(shareStateTopic, sp.key().String())
	if code := c.node(p.leader).findShareCoordinator(sp.statePartition); code != errorcode.None {
		return nil, fetchErrorOf(code)
	}
	persisted, record, no := c.share.coordinator.Read(c.now(), sp.key(), p.leaderEpoch)
	if no != nil {
		return nil, fetchErrorOf(no.ErrorCode)
	}
	if err := c.applyShareRecords(record); err != nil {
		c.log.Error("the state of a share partition could not be stored", "group", group, "partition", p, "error", err)
		return nil, errorcode.UnknownServerError
	}
	start := persisted.StartOffset
	if start == -1 {
		var err error
		var ok bool
		if start, ok, err = c.shareStart(p, group); err != nil {
			c.log.Error("the start offset of a share partition could not be found", "group", group, "partition", p, "error", err)
			return nil, errorcode.KafkaStorageError
		}
		if !ok {
			return nil, errorcode.OffsetNotAvailable
		}
	}
	state, err := sharepartition.Restore(start, stateBatches(persisted.Batches))
	if err != nil {
		c.log.Error("the stored state of a share partition makes no sense; AlterShareGroupOffsets or DeleteShareGroupOffsets begins it anew", "group", group, "partition", p, "error", err)
		return nil, errorcode.UnknownServerError
	}
	sp.state, sp.stateEpoch, sp.counters = state, persisted.StateEpoch, c.share.counters.of(sp.key())
	state.CountIn(&sp.counters.Counters)
	for _, b := range persisted.Batches {
		sp.counters.Batches.Add(b.LastOffset - b.FirstOffset + 1)
	}
	if p.shareGroups == nil {
		p.shareGroups = map[string]*sharePartition{}
	}
	p.shareGroups[group] = sp
	sp.overtakeAsRead()
	sp.tell(ActionLoad, nil)
	if archiving := state.Archiving(nil, c.shareLimits(group).DeliveryCount); len(archiving) > 0 {
		sp.sendDeadLetters(archiving, c.node(p.leader), p.leaderEpoch)
	}
	return sp, errorcode.None
}

// stateBatches are persisted batches as a share partition takes them.
func stateBatches(persisted []sharecoordinator.Batch) []sharepartition.StateBatch {
	batches := make([]sharepartition.StateBatch, len(persisted))
	for i, b := range persisted {
		batches[i] = sharepartition.StateBatch{FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, State: sharepartition.State(b.State), DeliveryCount: b.DeliveryCount}
		if batches[i].State == sharepartition.TxPending {
			batches[i].Staged = stagedInPartition(b.Staged)
		}
	}
	return batches
}

// shareStart is where a group begins that has no start offset yet (share.auto.offset.reset): false where nothing is as young as
// by_duration asks for.
func (c *Cluster) shareStart(p *partition, group string) (int64, bool, error) {
	strategy := c.groupValues(group).String("share.auto.offset.reset")
	switch strategy {
	case "latest":
		return p.highWatermark(), true, nil
	case "earliest":
		return p.log.StartOffset(), true, nil
	}
	age, err := config.ParseISODuration(strings.TrimPrefix(strategy, "by_duration:"))
	if err != nil {
		return 0, false, fmt.Errorf("share.auto.offset.reset of group %s: %w", group, err)
	}
	found, err := p.atTimestamp(c.clock.Now().Add(-age).UnixMilli(), p.highWatermark())
	return found.offset, err == nil && found.offset >= 0, err
}

// fetchErrorOf is what a ShareFetch says of a partition whose state could not be read (SharePartition.fetchPersisterError).
func fetchErrorOf(code int16) int16 {
	switch code {
	case errorcode.CoordinatorLoadInProgress, errorcode.NotCoordinator:
		return errorcode.CoordinatorNotAvailable
	case errorcode.FencedLeaderEpoch, errorcode.FencedStateEpoch:
		return errorcode.NotLeaderOrFollower
	case errorcode.UnknownTopicOrPartition, errorcode.GroupIDNotFound, errorcode.CoordinatorNotAvailable, errorcode.OffsetNotAvailable,
		errorcode.InvalidProducerEpoch, errorcode.TransactionAbortable: // only what is staged in a transaction is answered with these
		return code
	}
	return errorcode.UnknownServerError
}

// writeShareState writes a share partition's change, made in a leader epoch, through the share coordinator. It returns the code and message that the
// share coordinator answers with.
func (c *Cluster) writeShareState(sp *sharePartition, leaderEpoch int32, w *sharepartition.Write, guard *sharecoordinator.Guard) (int16, string) {
	batches := c.share.batches
	for _, b := range w.Batches {
		x := sharecoordinator.Batch{FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, State: int8(b.State), DeliveryCount: b.DeliveryCount}
		if b.State == sharepartition.TxPending {
			x.Staged = stagedInCoordinator(b.Staged)
		}
		batches = append(batches, x)
	}
	c.share.batches = kept(batches)
	record, no := c.share.coordinator.Write(c.now(), sp.key(), &sharecoordinator.Update{
		StateEpoch:            sp.stateEpoch,
		LeaderEpoch:           leaderEpoch,
		StartOffset:           w.StartOffset,
		DeliveryCompleteCount: w.DeliveryCompleteCount,
		Batches:               batches,
		Guard:                 guard,
	})
	if no != nil {
		return no.ErrorCode, no.Message
	}
	if err := sp.applyRecord(&record); err != nil {
		c.log.Error("the state of a share partition could not be stored", "group", sp.group, "partition", sp.partition, "error", err)
		return notStored, err.Error()
	}
	return errorcode.None, ""
}

// applyRecord stores a record of the share partition's state.
func (sp *sharePartition) applyRecord(r *sharecoordinator.Record) error {
	return sp.partition.cluster.appendShareRecord(sp.stateKeptIn(), r)
}

// stateKeptIn is the partition of __share_group_state that keeps the share partition's state, nil where it is not there.
func (sp *sharePartition) stateKeptIn() *partition {
	if t := sp.partition.cluster.topics[shareStateTopic]; t != nil {
		return t.partition(sp.statePartition)
	}
	return nil
}

// forget drops the share partition from the leader's memory. Who waits for it is answered at once, with timing=kafka, as by Apache Kafka, only when the wait
// ends.
func (sp *sharePartition) forget() {
	delete(sp.partition.shareGroups, sp.group)
	sp.tell(ActionForget, nil)
	if sp.timer != nil {
		sp.timer.Stop()
		sp.timer = nil
	}
	if sp.partition.cluster.timing == TimingFast {
		sp.waiters.each((*shareWaiter).finish)
	}
}

// forgotten tells whether the leader no longer knows the share partition. What happens to it from then on concerns nobody.
func (sp *sharePartition) forgotten() bool { return sp.partition.shareGroups[sp.group] != sp }

// arm sets the timer to the end of the next lock. A timer that fires earlier is left alone, for it arms itself anew: locks that are taken and given
// back all the time would cost a timer each.
func (sp *sharePartition) arm() {
	if sp.forgotten() {
		return
	}
	at, ok := sp.state.NextDeadline()
	if sp.timer != nil {
		if !ok || !at.Before(sp.armedFor) {
			return
		}
		sp.timer.Stop()
		sp.timer = nil
	}
	if !ok {
		return
	}
	c := sp.partition.cluster
	sp.armedFor = at
	sp.timer = c.after(at.Sub(c.clock.Now()), func() {
		sp.timer = nil
		sp.expire()
	})
}

// expire ends the locks whose time has come and gives their records to who waits. Apache Kafka has one timer for a batch, or for a record of
// a batch that was split, and serves the waiting fetches after each; with timing=fast all of them end first.
func (sp *sharePartition) expire() {
	c := sp.partition.cluster
	limits := c.shareLimits(sp.group)
	now := c.clock.Now()
	if c.timing == TimingFast {
		w := sp.state.Expire(now, limits)
		sp.tell(ActionExpire, nil)
		sp.persist(w, nil)
		sp.wake()
	} else {
		for {
			w := sp.state.ExpireNext(now, limits)
			if w.ID == 0 || sp.forgotten() {
				break
			}
			sp.tell(ActionExpire, nil)
			sp.persist(w, nil)
			sp.wake()
		}
	}
	sp.arm()
}

// wake gives the fetches that wait for the share partition their turn, the longest waiting first, until one of them finds nothing.
func (sp *sharePartition) wake() {
	sp.waiters.each(func(w *shareWaiter) {
		if sp.readable() {
			w.try()
		}
	})
}

// readable tells whether a fetch may find something: records to deliver again, or new ones and room for them, or that its offset is beyond the log.
func (sp *sharePartition) readable() bool {
	return sp.mayAcquire() && (sp.state.NextFetchOffset() < sp.end() || sp.beyondLog(false))
}

// beyondLog tells whether the next fetch offset is one that the group may not read yet, as where it was set, or one that the log has no more, which comes
// out only as it is looked up. Apache Kafka answers at once then.
func (sp *sharePartition) beyondLog(lookedUp bool) bool {
	next := sp.state.NextFetchOffset()
	return sp.partition.cluster.timing == TimingKafka && (next > sp.end() && !sp.endsWithin(next) || lookedUp && next < sp.partition.log.StartOffset())
}

// endsWithin tells whether the group may read up to the batch that holds the offset. It does where the log's start lies within the first batch of an open
// transaction: Apache Kafka compares the offsets of batches, and so there is nothing to read rather than something to find out.
func (sp *sharePartition) endsWithin(next int64) bool {
	within := false
	err := sp.partition.log.Batches(next, func(b storage.Batch) bool {
		within = b.BaseOffset == sp.end()
		return false
	})
	return within && err == nil
}

// available is how many bytes there are to read from the next fetch offset on, as far as that concerns who needs so many and may have most. Apache Kafka
// counts what has been deleted since it looked the offset up, and so answers at once where the read is going to find out.
func (sp *sharePartition) available(need, most int) int {
	if sp.partition.cluster.timing == TimingKafka && sp.state.NextFetchOffset() < sp.partition.log.StartOffset() {
		return most
	}
	from, end := max(sp.state.NextFetchOffset(), sp.partition.log.StartOffset()), sp.end()
	switch {
	case from >= end:
		return 0
	case need <= 1:
		return 1
	}
	read, err := sp.partition.log.Read(from, min(end, sp.partition.log.SegmentEnd(from)), most, true)
	if err != nil {
		return most // the acquisition says what is wrong
	}
	bounds, err := batchBounds(read)
	if n := len(bounds); err != nil || n > 0 && bounds[n-1].LastOffset+1 < end {
		return most // there is more than fits
	}
	return min(sizeOf(read), most)
}

// mayAcquire tells whether there is room in flight.
func (sp *sharePartition) mayAcquire() bool {
	return sp.state.CanAcquire(sp.partition.cluster.shareSettings(sp.group).limits.RecordLocks)
}

// lookUp tells whether the next fetch offset was looked up before, and notes it.
func (sp *sharePartition) lookUp() bool {
	next := sp.state.NextFetchOffset()
	known := sp.lookedUp == next
	sp.lookedUp = next
	return known
}

// end is the offset below which the group may read.
func (sp *sharePartition) end() int64 {
	if sp.partition.cluster.readsCommitted(sp.group) {
		return sp.partition.lastStableOffset()
	}
	return sp.partition.highWatermark()
}

// readsCommitted tells whether a group sees only what committed transactions have written.
func (c *Cluster) readsCommitted(group string) bool {
	return c.shareSettings(group).committed
}

// wakeShareLoads tells the fetches that wait for the state of a share partition that it may be read by now.
func (c *Cluster) wakeShareLoads() {
	for _, t := range c.sortedTopics() {
		for _, p := range t.partitions {
			p.shareLoads.each((*shareWaiter).loaded)
		}
	}
}

// wakeShareFetches tells the share groups that records were appended to the partition.
func (p *partition) wakeShareFetches() {
	for _, group := range p.shareGroupsInOrder() {
		if sp := p.shareGroups[group]; sp != nil {
			sp.wake()
		}
	}
}

// noteLogStart moves the group to where the log begins, if that is later than what it would read next, and tells whether it did. Apache Kafka learns of it by
// a read that fails: that fetch gets nothing, the next one what there is.
func (sp *sharePartition) noteLogStart(limits sharepartition.Limits) bool {
	start := sp.partition.log.StartOffset()
	if !sp.state.CanAcquire(limits.RecordLocks) || sp.state.NextFetchOffset() >= start {
		return false
	}
	sp.state.LogStartMoved(start)
	sp.tell(ActionLogStartMove, nil)
	return true
}

// acquire gives records to a member, up to the limits that are left. It returns nothing where nothing can be had.
func (sp *sharePartition) acquire(q *shareAcquisition) (acquired []sharepartition.AcquiredRange, records [][]byte, err error) {
	c := sp.partition.cluster
	p := sp.partition
	limits := c.shareLimits(sp.group)
	if sp.noteLogStart(limits) && c.timing == TimingKafka || !sp.state.CanAcquire(limits.RecordLocks) {
		return nil, nil, nil
	}
	offset := sp.state.NextFetchOffset()
	if offset >= sp.end() {
		return nil, nil, nil
	}
	limit, _ := q.within()
	read, bounds, err := sp.read(offset, q)
	if err != nil {
		return nil, nil, err
	}
	acquired, n := sp.state.Acquire(c.clock.Now(), &sharepartition.AcquireRequest{
		Member:      q.member,
		Mode:        q.mode,
		BatchSize:   q.batchSize,
		MaxRecords:  q.maxRecords,
		FetchOffset: offset,
		Batches:     bounds,
	}, limits, nil)
	if n > 0 {
		sp.tell(ActionAcquire, func(s *ShareChange) { s.Member = q.member })
	}
	if c.readsCommitted(sp.group) {
		if aborted := p.abortedBatches(offset, read); len(aborted) > 0 {
			acquired, n = sp.state.Archive(aborted, acquired)
			sp.tell(ActionSkipAborted, nil)
		}
	}
	sp.arm()
	if n == 0 {
		return nil, nil, nil
	}
	for _, a := range acquired {
		sp.counters.Acquired[a.DeliveryCount] += a.LastOffset - a.FirstOffset + 1
	}
	q.maxRecords -= int32(min(n, int64(q.maxRecords)))
	if c.timing == TimingKafka && len(bounds) == 1 {
		return acquired, p.withFragment(read, min(sp.end(), p.log.SegmentEnd(offset)), limit), nil
	}
	return acquired, covering(read, bounds, acquired, c.timing == TimingKafka), nil
}

// read reads the batches that an acquisition from offset on may look at.
func (sp *sharePartition) read(offset int64, q *shareAcquisition) (read [][]byte, bounds []sharepartition.Bounds, err error) {
	p := sp.partition
	end := min(sp.end(), p.log.SegmentEnd(offset)) // as Apache Kafka, which reads one segment at a time
	stop := end
	if reach := sp.state.AcquireReach(offset, q.maxRecords); reach < end && !p.cluster.readsCommitted(sp.group) {
		stop = reach + 1
	}
	maxBytes, atLeastOne := q.within()
	defer func() { q.took(sizeOf(read)) }()
	if read, err = p.log.Read(offset, stop, maxBytes, atLeastOne); err != nil {
		return nil, nil, err
	}
	if bounds, err = batchBounds(read); err != nil || stop == end {
		return read, bounds, err
	}
	if n := len(bounds); n > 0 && bounds[0].BaseOffset <= offset && bounds[n-1].LastOffset >= stop-1 {
		return read, bounds, nil
	}
	// The log has a hole where the acquisition begins or would end: what lies behind it counts.
	if read, err = p.log.Read(offset, end, maxBytes, atLeastOne); err != nil {
		return nil, nil, err
	}
	bounds, err = batchBounds(read)
	return read, bounds, err
}

// batchBounds is called for each ShareFetch: it allocates nothing but what it returns.
func batchBounds(read [][]byte) (bounds []sharepartition.Bounds, err error) {
	for _, s := range read {
		for len(s) > 0 {
			h, err := firstBatch(s)
			if err != nil {
				return bounds, err
			}
			bounds = append(bounds, sharepartition.Bounds{BaseOffset: h.BaseOffset, LastOffset: h.LastOffset()})
			s = s[h.Size():]
		}
	}
	return bounds, nil
}

// abortedBatches are the bounds of the data batches of aborted transactions among what was read from offset on.
func (p *partition) abortedBatches(offset int64, read [][]byte) []sharepartition.Bounds {
	aborted := p.producers.Aborted(offset, p.log.EndOffset())
	if len(aborted) == 0 {
		return nil
	}
	var bounds []sharepartition.Bounds
	_ = eachBatch(read, func(h *protocol.BatchHeader, _ []byte) error {
		if h.IsTransactional() && !h.IsControl() && slices.ContainsFunc(aborted, func(t logvalidator.AbortedTxn) bool {
			return t.ProducerID == h.ProducerID && t.FirstOffset <= h.BaseOffset && h.BaseOffset <= t.LastOffset
		}) {
			bounds = append(bounds, sharepartition.Bounds{BaseOffset: h.BaseOffset, LastOffset: h.LastOffset()})
		}
		return nil
	})
	return bounds
}

// covering is the part of what was read that an answer carries for the acquired ranges: from the batch of the first to that of the last record, as Kafka,
// or only the batches that hold an acquired record. bounds are those of the batches. Neighbours stay one slice; where all is wanted it is what was read.
func covering(read [][]byte, bounds []sharepartition.Bounds, acquired []sharepartition.AcquiredRange, contiguous bool) [][]byte {
	at := 0 // no range before it reaches the batch
	last := acquired[len(acquired)-1].LastOffset
	wanted := func(b sharepartition.Bounds) bool {
		if contiguous {
			return acquired[0].FirstOffset <= b.LastOffset && b.BaseOffset <= last
		}
		for at < len(acquired)-1 && acquired[at].LastOffset < b.BaseOffset {
			at++
		}
		return acquired[at].FirstOffset <= b.LastOffset && b.BaseOffset <= acquired[at].LastOffset
	}
	if !slices.ContainsFunc(bounds, func(b sharepartition.Bounds) bool { return !wanted(b) }) {
		return read
	}
	at = 0
	var out [][]byte
	for _, s := range read {
		from, to := 0, 0 // s[from:to] is wanted and not yet in out
		for to < len(s) {
			h, err := firstBatch(s[to:])
			if err != nil {
				return read // batchBounds has seen that there is none
			}
			if wanted(sharepartition.Bounds{BaseOffset: h.BaseOffset, LastOffset: h.LastOffset()}) {
				to += h.Size()
				continue
			}
			if to > from {
				out = append(out, s[from:to])
			}
			to += h.Size()
			from = to
		}
		if to > from {
			out = append(out, s[from:to:to])
		}
	}
	return out
}

// shareGroupsInOrder are the groups that consume the partition, sorted, so that nothing depends on the order of a map.
func (p *partition) shareGroupsInOrder() []string {
	if len(p.shareGroups) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(p.shareGroups))
}
