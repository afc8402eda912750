package broker

import (
	"fmt"
	"slices"
	"time"

	"kshare/clock"
	"kshare/logvalidator"
	"kshare/protocol"
	"kshare/storage"
)

// partition is one partition of a topic: its log, who leads it and who waits for it.
//
// The high watermark is the log's end: the nodes of a cluster share the log, so a record is on every replica as soon as it is appended. Only where fewer
// than min.insync.replicas are in sync it stays behind.
type partition struct {
	cluster     *Cluster
	topic       *topic
	index       int32
	replicas    []int32
	isr         []int32 // those of replicas that are in sync
	elr         []int32 // those that left it last and are eligible to lead (KIP-966)
	leader      int32   // one of isr, or noLeader
	lastLeader  int32   // who led before nobody did
	leaderEpoch int32
	unhinted    bool // who asks the wrong node is not told which one leads
	epochs      leaderEpochs
	log         storage.Log
	producers   *logvalidator.ProducerState
	gone        bool  // the topic was deleted
	held        bool  // too few replicas are in sync to move the high watermark
	heldAt      int64 // where it is then
	cleanup     partitionCleanup

	coordinator coordinatorState // of a partition of __consumer_offsets or __share_group_state
	loading     clock.Timer      // until the coordinator is active, nil where it is not loading
	loadFor     time.Duration    // how long its next leader takes to load it

	fetchWaiters    waiters[*fetchWaiter]
	shareGroups     map[string]*sharePartition // by group id
	openShareWrites []*shareWrite              // of leaders, in the order in which they were begun, also of what they have forgotten since
	shareLoads      waiters[*shareWaiter]      // who waits for the state of a share partition that could not be read yet

	commitWaiters waiters[*commitWaiter]
}

func (p *partition) storageID() storage.PartitionID {
	return storage.PartitionID{Topic: p.topic.id, Partition: p.index}
}

func (p *partition) String() string { return fmt.Sprintf("%s-%d", p.topic.name, p.index) }

// open opens the partition's log.
func (p *partition) open() error {
	log, err := p.cluster.store.OpenLog(p.storageID(), isInternal(p.topic.name))
	if err != nil {
		return fmt.Errorf("partition %s: %w", p, err)
	}
	p.log = log
	p.producers = logvalidator.NewProducerState()
	return nil
}

// replay brings back what the broker knows from the log's batches: the state of its producers.
func (p *partition) replay() error {
	return p.eachBatch(p.log.StartOffset(), func(h *protocol.BatchHeader, batch []byte) error {
		p.note(h, batch)
		return nil
	})
}

// eachBatch calls f for each batch of the log from an offset on.
func (p *partition) eachBatch(offset int64, f func(*protocol.BatchHeader, []byte) error) error {
	const chunk = 1 << 20
	for offset < p.log.EndOffset() {
		read, err := p.log.Read(offset, p.log.EndOffset(), chunk, true)
		if err != nil {
			return fmt.Errorf("partition %s: %w", p, err)
		}
		if len(read) == 0 {
			return nil
		}
		err = eachBatch(read, func(h *protocol.BatchHeader, batch []byte) error {
			offset = h.LastOffset() + 1
			return f(h, batch)
		})
		if err != nil {
			return fmt.Errorf("partition %s before offset %d: %w", p, offset, err)
		}
	}
	return nil
}

// eachBatch calls f for each batch of the slices that a log returned. The header is f's until it returns.
func eachBatch(slices [][]byte, f func(*protocol.BatchHeader, []byte) error) error {
	var h protocol.BatchHeader
	for _, s := range slices {
		for len(s) > 0 {
			var err error
			if h, err = firstBatch(s); err != nil {
				return err
			}
			if err := f(&h, s[:h.Size()]); err != nil {
				return err
			}
			s = s[h.Size():]
		}
	}
	return nil
}

// firstBatch is the header of the first batch of what a log returned, which is there as a whole.
func firstBatch(s []byte) (protocol.BatchHeader, error) {
	h, err := protocol.ParseBatchHeader(s)
	if err == nil && (h.Size() < protocol.BatchHeaderSize || h.Size() > len(s)) {
		err = fmt.Errorf("%w: batch of %d bytes, %d left", protocol.ErrShortBatch, h.Size(), len(s))
	}
	return h, err
}

// highWatermark is the offset below which records are committed.
func (p *partition) highWatermark() int64 {
	if p.held {
		return p.heldAt
	}
	return p.log.EndOffset()
}

// uncommitted tells whether the log has records that are not committed.
func (p *partition) uncommitted() bool { return p.highWatermark() < p.log.EndOffset() }

// lastStableOffset is the offset below which every transaction has ended.
func (p *partition) lastStableOffset() int64 {
	first, ok := p.producers.FirstUnstableOffset()
	if !ok {
		return p.highWatermark()
	}
	if start := p.log.StartOffset(); first < start {
		// Its first records are deleted: Kafka takes the batch that the log starts in (UnifiedLog.maybeIncrementFirstUnstableOffset).
		first = start
		_ = p.log.Batches(start, func(b storage.Batch) bool { first = b.BaseOffset; return false }) // who reads it is told what is wrong
	}
	return min(first, p.highWatermark())
}

// append gives a batch the next offsets, appends it and wakes who waits for it. The batch belongs to the log afterwards.
func (p *partition) append(h *protocol.BatchHeader, batch []byte) (baseOffset int64, err error) {
	h.BaseOffset, h.PartitionLeaderEpoch = p.log.EndOffset(), p.leaderEpoch
	protocol.SetBatchOffset(batch, h.BaseOffset, h.PartitionLeaderEpoch)
	look := p.roll(h)
	if err := p.log.Append(h, batch); err != nil {
		return -1, fmt.Errorf("appending to %s: %w", p, err)
	}
	p.note(h, batch)
	if to := p.cluster.followed.now(); to != nil {
		to.Appended(&Appended{At: p.cluster.clock.Now(), Topic: p.topic.name, Partition: p.index, DeadLetters: p.topic.config.deadLetters, Header: h, Batch: batch})
	}
	if look {
		p.cluster.scheduleCleanup(p)
	}
	if !p.held {
		p.wakeFetches(int64(len(batch)))
		p.wakeShareFetches()
	}
	return h.BaseOffset, nil
}

// note takes in what a batch of the log tells of producers and transactions.
func (p *partition) note(h *protocol.BatchHeader, batch []byte) {
	controlType, coordinatorEpoch := int16(-1), int32(-1)
	if h.IsControl() {
		if t, e, ok := protocol.ParseEndTxnMarker(h, batch); ok {
			controlType, coordinatorEpoch = t, e
		}
	}
	p.producers.Replay(h, controlType, coordinatorEpoch)
}

// indexInterval is the default of index.interval.bytes: Kafka finds the end of what was read in an index with an entry every so many bytes.
const indexInterval = 4096

// abortedTransactions are the aborted transactions that a reader of what was read from offset on must know: those whose marker is not below
// offset and whose first record lies before the end of the read. Like Kafka it names those too that begin up to the next entry of the index.
func (p *partition) abortedTransactions(offset int64, records [][]byte) []abortedTransaction {
	end, bytes := p.log.EndOffset(), int64(0)
	// A log that cannot be read is noticed where its records are.
	_ = p.log.Batches(p.afterBatches(records), func(b storage.Batch) bool {
		if bytes += int64(b.Size); bytes > indexInterval {
			end = b.BaseOffset
		}
		return bytes <= indexInterval
	})
	aborted := []abortedTransaction{}
	for _, t := range p.producers.Aborted(offset, end) {
		aborted = append(aborted, abortedTransaction{t.ProducerID, t.FirstOffset})
	}
	return aborted
}

// afterBatches is the offset after the last of the batches that the log returned.
func (p *partition) afterBatches(read [][]byte) int64 {
	end := int64(-1)
	_ = eachBatch(read, func(h *protocol.BatchHeader, _ []byte) error {
		end = h.LastOffset() + 1
		return nil
	})
	return end
}

// leaderHint is the CurrentLeader of an answer: who leads the partition, as far as is known.
type leaderHint struct{ leader, epoch int32 }

// noHint is a CurrentLeader that says nothing.
var noHint = leaderHint{noLeader, -1}

// hint is what a node that does not lead the partition says of who does, nil where there is no partition.
func (p *partition) hint() *leaderHint {
	if p == nil {
		return nil
	}
	if p.unhinted {
		return &noHint
	}
	return &leaderHint{p.leader, p.leaderEpoch}
}

// addEndpoint adds the node that a hint names to the NodeEndpoints of an answer, once.
func (r *request) addEndpoint(nodes []*endpoint, hint *leaderHint) []*endpoint {
	if n := r.cluster.node(hint.leader); n != nil && n.live() && !slices.Contains(nodes, r.endpoint(n)) {
		return append(nodes, r.endpoint(n))
	}
	return nodes
}

// deleted ends what waits for the partition.
func (p *partition) deleted() {
	p.gone = true
	p.wakeAllFetches()
	p.coordinatorChanged()
}

// leaderEpochs are the leader epochs of a partition in rising order, each with the offset at which it began.
// Invariant: Epoch and Start rise from entry to entry, Start not strictly.
type leaderEpochs []epochStart

type epochStart struct {
	Epoch int32
	Start int64
}

// begin notes that an epoch begins at an offset. Epochs that began there without a record are replaced.
func (e *leaderEpochs) begin(epoch int32, start int64) {
	for len(*e) > 0 && (*e)[len(*e)-1].Start >= start {
		*e = (*e)[:len(*e)-1]
	}
	*e = append(*e, epochStart{epoch, start})
}

// truncateFromStart forgets what was before the log start: the epoch that it lies in begins there (LeaderEpochFileCache.truncateFromStart).
func (e *leaderEpochs) truncateFromStart(logStart int64) {
	begun := 0
	for begun < len(*e) && (*e)[begun].Start <= logStart {
		begun++
	}
	if begun > 0 {
		*e = slices.Delete(*e, 0, begun-1)
		(*e)[0].Start = logStart
	}
}

// endOffset returns the largest epoch that is at most the asked one and the offset at which the next one began, or the
// log's end for the latest (LeaderEpochFileCache.endOffsetFor): -1 and -1 where the asked epoch is higher than the current,
// the asked epoch and the first start, which is not below the log's, where it is below all. Epoch -1 is none.
func (e leaderEpochs) endOffset(asked, current int32, logStart, logEnd int64) (epoch int32, offset int64) {
	switch {
	case asked == -1 || asked > current || len(e) == 0:
		return -1, -1
	case asked == current:
		return current, logEnd
	case asked < e[0].Epoch:
		return asked, max(e[0].Start, logStart)
	}
	next := slices.IndexFunc(e, func(s epochStart) bool { return s.Epoch > asked })
	if next < 0 {
		return e[len(e)-1].Epoch, logEnd
	}
	return e[next-1].Epoch, e[next].Start
}
