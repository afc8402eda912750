package broker

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"kshare/clock"
	"kshare/logcleaner"
	"kshare/logvalidator"
	"kshare/protocol"
	"kshare/storage"
)

// Retention and compaction of users' logs. What becomes of them is package logcleaner's; here is when.
//
// As in Apache Kafka, logs without compaction are looked at every log.retention.check.interval.ms, the first time log.initial.task.delay.ms after the
// start, compacted ones every log.cleaner.backoff.ms. Cleaning itself takes no time. A timer is set only to a time at which there is something to do: when
// that is is found out as a segment begins and after each cleanup, not for each append.

// cleanup is what a cluster knows of it.
type cleanup struct {
	began     int64 // when the cluster started, ms; 0 before it has
	retention sweep
	cleaner   sweep
}

// sweep is a look at all logs of one kind.
type sweep struct {
	timer   clock.Timer // nil where there is nothing to do
	at      int64       // when it is due, ms
	running bool
}

// partitionCleanup is what is known of one log.
type partitionCleanup struct {
	cleaned     int64 // below this offset the log was cleaned
	segmentFrom int64 // when its active segment began, or the cluster, ms
	growth      int64 // the size of the active segment from which on there is something to do
	failed      bool  // it could not be cleaned and is left alone, until the next start
}

// beginCleanup begins to look at the logs.
func (c *Cluster) beginCleanup() {
	c.cleanup.began = c.now()
	for _, t := range c.sortedTopics() {
		for _, p := range t.partitions {
			p.cleanup.segmentFrom = c.cleanup.began
			c.scheduleCleanup(p)
		}
	}
}

// segmented tells whether a partition's log is cleaned up here. What is redundant of internal topics their coordinators know.
func (p *partition) segmented() bool { return !isInternal(p.topic.name) }

// roll has the log begin a segment where a batch that is about to be appended is not to be in the active one. It tells whether there may be something to
// clean up sooner than was known.
func (p *partition) roll(h *protocol.BatchHeader) (look bool) {
	if !p.segmented() {
		return false
	}
	active, now := p.log.Active(), int64(0)
	if active.FirstTimestamp < 0 || active.Size == 0 {
		now = p.cluster.now()
	}
	b := storage.BatchOf(h)
	switch {
	case active.Size == 0:
		p.cleanup.segmentFrom = now
		return true
	case p.topic.config.cleanup.Rolls(&active, &b, p.cleanup.segmentFrom, now):
		p.log.Roll()
		p.cleanup.segmentFrom = p.cluster.now()
		return true
	}
	// The end of a transaction lets the cleaner go further.
	return active.Size+int64(b.Size) >= p.cleanup.growth || h.IsControl() && p.topic.config.cleanup.Compact
}

// scheduleCleanup sets the timers to when there is something to do for a partition's log.
func (c *Cluster) scheduleCleanup(p *partition) {
	p.cleanup.growth = math.MaxInt64
	if c.cleanup.began == 0 || p.gone || !p.segmented() {
		return
	}
	config, now := &p.topic.config.cleanup, c.now()
	l := p.toClean()
	at, growth := config.DeletableAt(l.Segments, now)
	p.cleanup.growth = growth
	switch {
	case !config.Compact:
		first := c.cleanup.began + c.brokerValues().Long("log.initial.task.delay.ms")
		c.arm(&c.cleanup.retention, at, first, c.brokerValues().Long("log.retention.check.interval.ms"), c.deleteOldSegments)
	case c.brokerBool("log.cleaner.enable") && !p.cleanup.failed:
		at = min(at, config.DirtyAt(l, now))
		c.arm(&c.cleanup.cleaner, at, c.cleanup.began, max(1, c.brokerValues().Long("log.cleaner.backoff.ms")), c.cleanLogs)
	}
}

// arm sets a sweep to its first turn from a time on, unless it is due before. Its turns come at first and each interval after, and later than now.
func (c *Cluster) arm(s *sweep, at, first, interval int64, run func()) {
	if at == math.MaxInt64 || s.running {
		return
	}
	at = max(at, c.now()+1)
	turns := int64(0)
	if at > first {
		turns = (at - first + interval - 1) / interval
	}
	at = first + turns*interval
	if s.timer != nil {
		if at >= s.at {
			return
		}
		s.timer.Stop()
	}
	s.at = at
	s.timer = c.after(time.UnixMilli(at).Sub(c.clock.Now()), func() {
		s.timer, s.running = nil, true
		run()
		s.running = false
		for _, t := range c.sortedTopics() {
			for _, p := range t.partitions {
				c.scheduleCleanup(p)
			}
		}
	})
}

// eachToCleanUp calls f for the partitions of users' topics, compacted or not.
func (c *Cluster) eachToCleanUp(compact bool, f func(*partition)) {
	for _, t := range c.sortedTopics() {
		if isInternal(t.name) || t.config.cleanup.Compact != compact {
			continue
		}
		for _, p := range t.partitions {
			f(p)
		}
	}
}

// deleteOldSegments deletes what retention says of the logs that are not compacted.
func (c *Cluster) deleteOldSegments() { c.eachToCleanUp(false, (*partition).deleteOldSegments) }

func (p *partition) deleteOldSegments() {
	segments := p.log.Segments()
	n := p.topic.config.cleanup.Deletable(segments, p.cluster.now())
	if n == 0 {
		return
	}
	start := p.log.EndOffset()
	if n < len(segments) {
		start = segments[n].BaseOffset
	}
	if err := p.moveStart(max(start, p.log.StartOffset())); err != nil {
		p.cluster.log.Error("old records could not be deleted", "partition", p, "error", err)
	}
}

// moveStart moves the start of the log. Nobody who waits is woken.
func (p *partition) moveStart(offset int64) error {
	if err := p.log.SetStartOffset(offset); err != nil {
		return err
	}
	p.producers.DropAborted(offset)
	p.epochs.truncateFromStart(offset)
	return nil
}

// toClean is the log as the cleaner sees it.
func (p *partition) toClean() *logcleaner.Log {
	return &logcleaner.Log{
		Segments:    p.log.Segments(),
		StartOffset: p.log.StartOffset(),
		EndOffset:   p.log.EndOffset(),
		Stable:      p.lastStableOffset(),
		Cleaned:     p.cleanup.cleaned,
	}
}

// cleanLogs cleans the compacted logs that are dirty enough, the dirtiest first, and deletes what retention says of compacted logs.
func (c *Cluster) cleanLogs() {
	for !c.closed {
		p, dirt := c.dirtiest()
		if p != nil {
			c.clean(p, &dirt)
		}
		c.eachToCleanUp(true, func(p *partition) {
			if !p.cleanup.failed && !c.closed {
				p.deleteOldSegments()
			}
		})
		if p == nil {
			return
		}
	}
}

// dirtiest is the log that is to be cleaned next, nil where none is.
func (c *Cluster) dirtiest() (dirtiest *partition, dirt logcleaner.Dirt) {
	now := c.now()
	c.eachToCleanUp(true, func(p *partition) {
		if p.cleanup.failed {
			return
		}
		if d := p.topic.config.cleanup.Dirt(p.toClean(), now); d.Due && (dirtiest == nil || d.Ratio > dirt.Ratio) {
			dirtiest, dirt = p, d
		}
	})
	return dirtiest, dirt
}

// errChanged ends a round of cleaning whose log was deleted or lost the segments that are cleaned.
var errChanged = errors.New("the log has changed")

// clean cleans a log. The lock is held, except while batches are looked at.
func (c *Cluster) clean(p *partition, dirt *logcleaner.Dirt) {
	err := p.clean(dirt)
	switch {
	case errors.Is(err, errChanged):
		return // what is left of it is looked at anew
	case err == nil:
		p.cleanup.cleaned = dirt.To
		err = c.storeTopic(p.topic)
	default:
		p.cleanup.failed = true
	}
	if err != nil {
		c.log.Error("a log could not be cleaned", "partition", p, "error", err)
	}
}

func (p *partition) clean(dirt *logcleaner.Dirt) error {
	config := p.topic.config.cleanup
	round := &logcleaner.Cleaning{
		From: dirt.From, To: dirt.To, Now: p.cluster.now(),
		DeleteRetentionMs: config.DeleteRetentionMs,
		MaxRecordBody:     int(p.topic.config.params.MaxDecompressedMessageBytes),
		Producers:         p.lastOfProducers(),
		Aborted:           p.abortedBefore(dirt.To),
	}
	if err := p.eachBatchUnlocked(dirt.From, dirt.To, round.Map); err != nil {
		return err
	}
	groups := config.Groups(p.log.Segments(), dirt.To)
	for i, group := range groups {
		end := dirt.To
		if i+1 < len(groups) {
			end = groups[i+1][0].BaseOffset
		}
		if err := p.cleanGroup(round, group, end); err != nil {
			return err
		}
	}
	kept := round.Kept()
	p.producers.RetainAborted(dirt.To, func(t logvalidator.AbortedTxn) bool {
		return slices.Contains(kept, logcleaner.Aborted{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset})
	})
	return nil
}

// cleanGroup cleans segments, which end where offset end is, into one.
func (p *partition) cleanGroup(round *logcleaner.Cleaning, group []storage.Segment, end int64) error {
	var left [][]byte
	changed := len(group) > 1
	err := p.eachBatchUnlocked(group[0].BaseOffset, end, func(h *protocol.BatchHeader, batch []byte) error {
		cleaned, err := round.Clean(h, batch)
		if len(cleaned) > 0 {
			left = append(left, cleaned)
		}
		changed = changed || len(cleaned) == 0 || &cleaned[0] != &batch[0]
		return err
	})
	if err != nil || !changed {
		return err
	}
	if _, _, err := storage.Replaced(p.log.Segments(), group[0].BaseOffset, end); err != nil {
		return errChanged
	}
	return p.log.Replace(group[0].BaseOffset, end, left)
}

// eachBatchUnlocked calls f for the batches of the log that begin in [from, to). The lock, which is held, is given back while f runs.
func (p *partition) eachBatchUnlocked(from, to int64, f func(*protocol.BatchHeader, []byte) error) error {
	const chunk = 1 << 20
	for {
		if from = max(from, p.log.StartOffset()); from >= to {
			return nil
		}
		read, err := p.log.Read(from, to, chunk, true)
		if err != nil || len(read) == 0 {
			return err
		}
		c := p.cluster
		c.mu.Unlock()
		err = eachBatch(read, func(h *protocol.BatchHeader, batch []byte) error {
			from = h.LastOffset() + 1
			return f(h, batch)
		})
		c.mu.Lock()
		if c.closed || p.gone {
			return errChanged
		}
		if err != nil {
			return err
		}
	}
}

// lastOfProducers are the last offsets and the epochs of the producers that the partition remembers.
func (p *partition) lastOfProducers() map[int64]logcleaner.Producer {
	last := make(map[int64]logcleaner.Producer, p.producers.Len())
	p.producers.Producers(func(d logvalidator.Producer) bool {
		last[d.ProducerID] = logcleaner.Producer{LastOffset: d.LastOffset, Epoch: d.Epoch}
		return true
	})
	return last
}

// abortedBefore are the aborted transactions that begin below an offset, by where they begin.
func (p *partition) abortedBefore(offset int64) (aborted []logcleaner.Aborted) {
	for _, t := range p.producers.AbortedBefore(offset) {
		aborted = append(aborted, logcleaner.Aborted{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset})
	}
	slices.SortFunc(aborted, func(a, b logcleaner.Aborted) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return aborted
}
