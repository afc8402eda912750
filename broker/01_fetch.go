package broker

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/clock"
	"kshare/fault"
	"kshare/protocol/errorcode"
)

// Fetch (1), v4 to v18.
//
// Behaviour:
//   - Partitions are read in the order of the request or session; MaxBytes is what is left for the next one.
//   - The first partition that has data gives at least one whole batch, whatever its size. Batches are not cut.
//   - What is read of a partition ends with its segment. One that is not the active one ends the wait, whatever MinBytes says.
//   - Answered at once with MinBytes of records, on an error that ends the wait, with nothing to read or no time to wait; else
//     when enough has been appended, a partition's topic is deleted, or MaxWaitMs has passed.
//   - An unknown topic or partition does not end the wait while other partitions can be read.
//   - Sessions: KIP-227, see fetch_sessions.go. From v13 on topics are named by id.
//   - From v11 on a consumer may read from any replica, which has what the leader has; none is named as the preferred one.
//   - No broker fetches here: a request with a replica id gets NOT_LEADER_OR_FOLLOWER.

const fetchKey = 1

func init() {
	handlers[fetchKey] = needing(&handler{handle: handleFetch},
		looksItself(acl.Read, acl.Topic, "each partition; nothing of its log"),
		looksItself(acl.ClusterAction, acl.Cluster, "each partition, instead, of a request that names itself a replica").with(errorcode.TopicAuthorizationFailed),
	)
}

func handleFetch(r *request) (answer, error) {
	q, err := decode[*kmsg.FetchRequest](r)
	if err != nil {
		return nil, err
	}
	c := r.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.IsolationLevel != readUncommitted && q.IsolationLevel != readCommitted {
		return &fetchAnswer{version: q.Version, errorCode: errorcode.UnknownServerError}, nil
	}
	view, code := r.node.fetchSessions.open(q, c.clock.Now())
	if code != errorcode.None {
		return &fetchAnswer{version: q.Version, errorCode: code}, nil
	}
	f := &fetch{
		request:   r,
		view:      view,
		replica:   fetchReplica(q),
		committed: q.IsolationLevel == readCommitted,
		maxBytes:  min(q.MaxBytes, c.brokerInt("fetch.max.bytes")),
		byID:      q.Version >= 13,
		follower:  q.Version >= 11,
	}
	f.minBytes = min(q.MinBytes, f.maxBytes)
	results := f.read()
	if f.complete(results, q.MaxWaitMillis) {
		return f.answer(results), nil
	}
	f.park(time.Duration(q.MaxWaitMillis)*time.Millisecond, results)
	return nil, nil
}

const (
	readUncommitted = 0
	readCommitted   = 1
)

func fetchReplica(q *kmsg.FetchRequest) int32 {
	if q.Version >= 15 {
		return q.ReplicaState.ID
	}
	return q.ReplicaID
}

// fetch is a Fetch request on its way: what it asks for and how it is read.
type fetch struct {
	request            *request
	view               *fetchView
	replica            int32
	committed          bool
	byID               bool
	follower           bool // those that follow a partition may answer too
	minBytes, maxBytes int32
}

// results are what the partitions of a fetch gave, in their order.
type fetchResults struct {
	list  []fetchResult
	bytes int
	// ends is set where something was found that ends the wait: an error of a kind that waiting cannot mend, or a diverging epoch.
	ends bool
	// readable counts the partitions that could be read.
	readable int
}

// read reads the partitions once.
func (f *fetch) read() *fetchResults {
	r := &fetchResults{list: make([]fetchResult, 0, len(f.view.partitions))}
	left := min(f.maxBytes, f.request.cluster.answerRoom())
	for _, fp := range f.view.partitions {
		result := f.readPartition(fp, left, r.bytes == 0)
		left = max(0, left-int32(result.size))
		r.bytes += result.size
		switch {
		case result.diverging != nil:
			r.ends = true
		case result.older:
			r.ends = true
			r.readable++
		case result.errorCode == errorcode.None:
			r.readable++
		case result.errorCode != errorcode.UnknownTopicOrPartition && result.errorCode != errorcode.UnknownTopicID:
			r.ends = true
		}
		r.list = append(r.list, result)
	}
	return r
}

// complete tells whether the results are to be answered at once.
func (f *fetch) complete(r *fetchResults, maxWaitMs int32) bool {
	return maxWaitMs <= 0 || r.ends || r.readable == 0 || r.bytes >= int(f.minBytes)
}

// readPartition reads one partition: at most min(PartitionMaxBytes, left) bytes, but a whole batch where first is set.
func (f *fetch) readPartition(fp *fetchPartition, left int32, first bool) fetchResult {
	p, code := f.find(fp)
	if !f.request.parked {
		fp.forbidden = code != errorcode.UnknownTopicID && !f.allowed(fp)
	}
	if fp.forbidden {
		fp.partition = nil
		result := failedFetch(fp.index, errorcode.TopicAuthorizationFailed)
		result.aborted = []abortedTransaction{}
		return result
	}
	if !f.request.parked {
		fp.unknown = code != errorcode.None
	}
	if injected := f.injected(fp); injected != errorcode.None {
		result := failedFetch(fp.index, injected)
		if injected == errorcode.FencedLeaderEpoch || injected == errorcode.NotLeaderOrFollower {
			result.leader = p.hint()
		}
		return result
	}
	if code != errorcode.None {
		result := failedFetch(fp.index, code)
		if fp.unknown {
			result.aborted = []abortedTransaction{} // Kafka puts such partitions aside before it looks at the isolation level
		}
		return result
	}
	if code = f.checkEpoch(p, fp.currentLeaderEpoch); code != errorcode.None {
		result := failedFetch(fp.index, code)
		if code == errorcode.FencedLeaderEpoch || code == errorcode.NotLeaderOrFollower {
			result.leader = p.hint()
		}
		return result
	}
	result := fetchResult{
		index:            fp.index,
		highWatermark:    p.highWatermark(),
		lastStableOffset: p.lastStableOffset(),
		logStartOffset:   p.log.StartOffset(),
	}
	if fp.lastFetchedEpoch >= 0 {
		epoch, end := p.epochs.endOffset(fp.lastFetchedEpoch, p.leaderEpoch, p.log.StartOffset(), p.log.EndOffset())
		if epoch < 0 {
			return failedFetch(fp.index, errorcode.OffsetOutOfRange)
		}
		if epoch < fp.lastFetchedEpoch || end < fp.fetchOffset {
			result.diverging = &epochEnd{epoch, end}
			return result
		}
	}
	if fp.fetchOffset < p.log.StartOffset() || fp.fetchOffset > p.log.EndOffset() {
		return failedFetch(fp.index, errorcode.OffsetOutOfRange)
	}
	if fp.maxBytes < 0 || f.maxBytes < 0 {
		return failedFetch(fp.index, errorcode.UnknownServerError)
	}
	end := result.highWatermark
	if f.committed {
		end = result.lastStableOffset
		result.aborted = []abortedTransaction{}
	}
	if fp.fetchOffset < end {
		var err error
		limit := int(min(fp.maxBytes, left))
		segmentEnd := p.log.SegmentEnd(fp.fetchOffset)
		result.older = segmentEnd < end
		end = min(end, segmentEnd)
		if result.records, err = p.log.Read(fp.fetchOffset, end, limit, first); err != nil {
			f.request.cluster.log.Error("a partition could not be read", "partition", p, "offset", fp.fetchOffset, "error", err)
			return failedFetch(fp.index, errorcode.KafkaStorageError)
		}
		result.size = sizeOf(result.records)
		if f.request.cluster.timing == TimingKafka {
			result.records = p.withFragment(result.records, end, limit)
			result.size = sizeOf(result.records)
		}
		if f.committed && result.size > 0 {
			result.aborted = p.abortedTransactions(fp.fetchOffset, result.records)
		}
	}
	return result
}

// sizeOf is the number of bytes of slices that a log returned.
func sizeOf(read [][]byte) int {
	n := 0
	for _, s := range read {
		n += len(s)
	}
	return n
}

// withFragment is what was read with what is left of a limit filled with the beginning of the next batch, if that does not fit as a whole, as Apache Kafka
// fills it, which cuts its answers by bytes. Clients drop it.
func (p *partition) withFragment(read [][]byte, end int64, limit int) [][]byte {
	left := limit - sizeOf(read)
	if len(read) == 0 || left <= 0 {
		return read
	}
	next := p.afterBatches(read)
	if next >= end {
		return read
	}
	behind, err := p.log.Read(next, end, 0, true)
	if err != nil || len(behind) == 0 || len(behind[0]) <= left {
		return read
	}
	return append(slices.Clip(read), behind[0][:left:left])
}

// allowed tells whether the client may read the partition of an entry. A replica may read all, if the client is one.
func (f *fetch) allowed(fp *fetchPartition) bool {
	switch {
	case f.replica >= 0:
		return f.request.mayOnCluster(acl.ClusterAction)
	case f.byID:
		return f.request.mayOnTopicID(acl.Read, fp.topicID)
	}
	return f.request.may(acl.Read, acl.Topic, fp.topic)
}

// injected is the error that faults give the partition of an entry.
func (f *fetch) injected(fp *fetchPartition) int16 {
	if f.byID {
		return f.request.injectedByID(fault.Partition, fp.topicID, fp.index)
	}
	return f.request.injected(fault.Partition, fp.topic, fp.index)
}

// find returns the partition that an entry of the request means.
func (f *fetch) find(fp *fetchPartition) (*partition, int16) {
	c := f.request.cluster
	var t *topic
	unknown := errorcode.UnknownTopicOrPartition
	if f.byID {
		if t = c.topicsByID[fp.topicID]; t == nil {
			unknown = errorcode.UnknownTopicID
			if fp.partition != nil && fp.partition.gone && f.request.parked {
				unknown = errorcode.UnknownTopicOrPartition // a wait that the deletion ends says so in every version
			}
		}
	} else {
		t = c.topics[fp.topic]
	}
	if t == nil {
		return nil, unknown
	}
	p := t.partition(fp.index)
	if p == nil {
		return nil, errorcode.UnknownTopicOrPartition
	}
	fp.partition = p
	return p, errorcode.None
}

// checkEpoch checks that the node leads the partition in the epoch that the client knows.
func (f *fetch) checkEpoch(p *partition, epoch int32) int16 {
	if f.replica >= 0 {
		return errorcode.NotLeaderOrFollower
	}
	code := p.checkLeader(f.request.node, max(epoch, -1)) // any negative epoch is none to a Fetch
	if code == errorcode.NotLeaderOrFollower && f.follower && slices.Contains(p.replicas, f.request.node.id) {
		return errorcode.None
	}
	return code
}

// checkLeader checks that a node leads the partition, in the epoch that the client knows, -1 for any.
func (p *partition) checkLeader(n *node, epoch int32) int16 {
	switch {
	case !slices.Contains(p.replicas, n.id):
		return errorcode.NotLeaderOrFollower
	case epoch != -1 && epoch < p.leaderEpoch:
		return errorcode.FencedLeaderEpoch
	case epoch > p.leaderEpoch:
		return errorcode.UnknownLeaderEpoch
	case p.leader != n.id:
		return errorcode.NotLeaderOrFollower
	}
	return errorcode.None
}

// answer makes the answer of a fetch: all its partitions, or in a session those that have something to tell.
func (f *fetch) answer(r *fetchResults) *fetchAnswer {
	a := &fetchAnswer{version: f.request.header.Version, sessionID: f.view.finish(r)}
	for _, i := range f.answerOrder() {
		fp, result := f.view.partitions[i], r.list[i]
		if n := len(a.topics); n == 0 || a.topics[n-1].name != fp.topic || a.topics[n-1].id != fp.topicID {
			a.topics = append(a.topics, fetchAnswerTopic{name: fp.topic, id: fp.topicID})
		}
		t := &a.topics[len(a.topics)-1]
		t.partitions = append(t.partitions, result)
		a.size += result.size
		if result.leader != nil && f.replica < 0 {
			a.nodes = f.request.addEndpoint(a.nodes, result.leader)
		}
	}
	return a
}

// answerOrder are the places of the partitions that the answer lists. Those that were unknown from the start come last.
func (f *fetch) answerOrder() []int {
	order := make([]int, 0, len(f.view.partitions))
	for _, unknown := range []bool{false, true} {
		for i, fp := range f.view.partitions {
			if fp.unknown == unknown && !f.view.omits(i) {
				order = append(order, i)
			}
		}
	}
	return order
}

// fetchWaiter is a Fetch that waits for records.
type fetchWaiter struct {
	fetch   *fetch
	timer   clock.Timer
	missing int64 // bytes that must still be appended before it is worth reading again
}

// park puts a fetch on the waiting lists of its partitions.
func (f *fetch) park(wait time.Duration, r *fetchResults) {
	w := &fetchWaiter{fetch: f, missing: int64(f.minBytes) - int64(r.bytes)}
	for _, fp := range f.view.partitions {
		if fp.partition != nil {
			fp.partition.fetchWaiters.add(w)
		}
	}
	w.timer = f.request.cluster.after(wait, func() { w.finish(f.read()) })
	f.request.park(w.leave)
}

// leave takes the waiter off every list.
func (w *fetchWaiter) leave() {
	w.timer.Stop()
	for _, fp := range w.fetch.view.partitions {
		if fp.partition != nil {
			fp.partition.fetchWaiters.remove(w)
		}
	}
}

// finish answers the fetch.
func (w *fetchWaiter) finish(r *fetchResults) {
	w.leave()
	w.fetch.request.complete(w.fetch.answer(r))
}

// wakeFetches tells the fetches that wait for the partition how many bytes were appended.
func (p *partition) wakeFetches(appended int64) {
	p.fetchWaiters.each(func(w *fetchWaiter) {
		if w.missing -= appended; w.missing > 0 {
			return
		}
		r := w.fetch.read()
		if w.fetch.complete(r, 1) {
			w.finish(r)
			return
		}
		w.missing = int64(w.fetch.minBytes) - int64(r.bytes)
	})
}

// recheckFetches ends the wait of the fetches that the partition's new leader makes an error of: a node that follows now may still answer those that name no
// leader epoch.
func (p *partition) recheckFetches() {
	p.fetchWaiters.each(func(w *fetchWaiter) {
		if r := w.fetch.read(); w.fetch.complete(r, 1) {
			w.finish(r)
		}
	})
}

// wakeAllFetches ends the wait of every fetch of the partition, which is no more.
func (p *partition) wakeAllFetches() {
	p.fetchWaiters.each(func(w *fetchWaiter) { w.finish(w.fetch.read()) })
}
