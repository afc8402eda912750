package broker

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/clock"
	"kshare/fault"
	"kshare/internal/javamap"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
	"kshare/sharesession"
)

// ShareFetch (78), v1 to v2.
//
// Behaviour:
//   - The session is checked first (package sharesession), then the acknowledgements that the request carries are applied, then records are
//     acquired (package sharepartition).
//   - Nothing is fetched with the final epoch, with IsRenewAck (whose limits must all be 0), and where MaxRecords or MaxBytes are 0: partitions that are not
//     there are told all the same. A negative MaxRecords waits for records like any other and then acquires none.
//   - Beside acknowledgements that make sense every partition that the request names has a result of acknowledgements.
//   - A fetch that finds nothing waits: for an append, the end of a lock, and with timing=fast for any release. Partitions that are not there do not end
//     the wait while others are. A session that finds no room is refused only after MaxWaitMs.
//   - While the state of a share partition cannot be read the fetch waits, and its answer leaves the partition out. Acknowledgements are answered once the
//     share coordinator has stored them.
//   - MinBytes are counted before anything is acquired, and end the wait whatever is acquired then. MaxBytes are divided evenly among the partitions; the
//     first that has records gives its first batch whatever its size.
//   - Records are whole batches, with timing=kafka all from the first to the last acquired record, else those that hold an acquired one. With timing=kafka
//     a batch that is all that MaxBytes leave room for is followed by as much of the next one as there is room for.

const shareFetchKey = 78

func init() {
	handlers[shareFetchKey] = needing(&handler{writes: true, handle: handleShareFetch},
		looksItself(acl.Read, acl.Group, "the session is not looked at without"),
		looksItself(acl.Read, acl.Topic, "each partition; nothing is acquired, and acknowledgements are refused"),
	)
}

func handleShareFetch(r *request) (answer, error) {
	q, err := r.conn.shareRequests().Fetch(r.header.Version, r.body)
	if err != nil {
		return nil, err
	}
	c := r.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.shareFetch(r, q)
	if a == nil {
		return nil, nil
	}
	r.takeCommit()
	return a, nil
}

// shareFetch answers a ShareFetch, or parks it and returns nil.
func (c *Cluster) shareFetch(r *request, q *kmsg.ShareFetchRequest) answer {
	caller, code := newShareCaller(r, q.GroupID, q.MemberID)
	if code != errorcode.None {
		return &shareFetchAnswer{errorCode: code}
	}
	if q.IsRenewAck && (q.MaxWaitMillis != 0 || q.MinBytes != 0 || q.MaxBytes != 0 || q.MaxRecords != 0) {
		return &shareFetchAnswer{errorCode: errorcode.InvalidRequest}
	}
	asked := newShareFetchRequest(&caller, q)
	session, code := caller.sessions().Fetch(&asked, int(c.brokerInt("group.share.max.share.sessions")))
	if code == errorcode.ShareSessionLimitReached && q.MaxWaitMillis > 0 {
		timer := c.after(time.Duration(q.MaxWaitMillis)*time.Millisecond, func() { r.complete(&shareFetchAnswer{errorCode: code}) })
		r.park(func() { timer.Stop() })
		return nil
	}
	if code != errorcode.None {
		return &shareFetchAnswer{errorCode: code}
	}
	f := &shareFetch{caller: caller, session: session, q: q, mode: sharepartition.AcquireMode(q.ShareAcquireMode)}
	session.Rotate(f.exists)
	failed := f.acknowledge(asked.Acks)
	if failed != nil || session.Final || q.IsRenewAck || c.timing == TimingFast {
		f.settle()
	}
	if failed != nil {
		return &shareFetchAnswer{errorCode: failed.code}
	}
	if session.Final {
		caller.closeSession()
		return f.reply(nil)
	}
	if q.IsRenewAck {
		return f.reply(nil)
	}
	f.failing = c.traits.UnknownTopicsFailFetches && f.hasUnknownTopic()
	if f.mode != sharepartition.BatchOptimized && f.mode != sharepartition.RecordLimit && f.knowsAny() {
		f.settle()
		return &shareFetchAnswer{errorCode: errorcode.UnknownServerError}
	}
	results := f.begin()
	if f.settle() && results == nil {
		results = f.attempt(false)
	}
	if results != nil {
		return f.reply(results)
	}
	f.park()
	return nil
}

// reply answers the request, or parks it until its acknowledgements are written and returns nil.
func (f *shareFetch) reply(results shareResults) answer {
	if f.writes.n == 0 {
		return f.answer(results)
	}
	r := f.caller.request
	f.writes.then = func() { r.complete(f.answer(results)) }
	r.park(nil)
	return nil
}

// complete answers the parked request as soon as its acknowledgements are written.
func (f *shareFetch) complete(results shareResults) {
	r := f.caller.request
	if f.writes.n == 0 {
		r.complete(f.answer(results))
		return
	}
	f.writes.then = func() { r.complete(f.answer(results)) }
}

// newShareFetchRequest is what of a request concerns its session.
func newShareFetchRequest(caller *shareCaller, q *kmsg.ShareFetchRequest) sharesession.FetchRequest {
	c := caller.request.cluster
	asked := sharesession.FetchRequest{
		Key: caller.key(), Connection: caller.request.conn.id, Epoch: q.ShareSessionEpoch,
		TopicName: c.topicName,
	}
	for i := range q.Topics {
		for j := range q.Topics[i].Partitions {
			p := &q.Topics[i].Partitions[j]
			asked.Partitions = append(asked.Partitions, sharesession.Partition{TopicID: q.Topics[i].TopicID, Partition: p.Partition})
			asked.Acks = asked.Acks || len(p.AcknowledgementBatches) > 0
		}
	}
	for _, t := range q.ForgottenTopicsData {
		for _, index := range t.Partitions {
			asked.Forgotten = append(asked.Forgotten, sharesession.Partition{TopicID: t.TopicID, Partition: index})
		}
	}
	return asked
}

// shareFetch is a ShareFetch on its way.
type shareFetch struct {
	caller   shareCaller
	session  *sharesession.Fetch
	q        *kmsg.ShareFetchRequest
	mode     sharepartition.AcquireMode
	acks     map[sharesession.Partition]*shareAckResult
	ackOrder []sharesession.Partition
	// unsettled are the acknowledgements that have not taken effect. With timing=kafka that is only after the first attempt to acquire, so that
	// what they release does not spare the request its wait: Apache Kafka acquires while their write is under way.
	unsettled []*shareAckResult
	writes    openWrites
	// failing tells that there is no answer for the partitions, which fails the answer as a whole once there would be one.
	failing bool
	// loaded are the share partitions whose state this request was the first to ask for, early tells that there was no share coordinator to ask.
	// cold are those that it has not asked for yet: with timing=kafka their states come in one by one.
	// joining is the one of them that has just been asked for, nil for none: what is wrong with its state is told only later.
	loaded  map[*sharePartition]bool
	cold    map[sharesession.Partition]bool
	joining *sharesession.Partition
	early   bool
	// loads are what came of the session's partitions. With timing=kafka that is settled once for a request, however long it waits.
	loads map[sharesession.Partition]shareLoad
}

// acknowledge applies the acknowledgements that the request carries. It returns a result only where the whole answer fails.
func (f *shareFetch) acknowledge(some bool) *shareAckResult {
	if !some {
		return nil
	}
	last := f.lastNamed()
	f.acks = map[sharesession.Partition]*shareAckResult{}
	sound := false
	for i := range f.q.Topics {
		for j := range f.q.Topics[i].Partitions {
			p := &f.q.Topics[i].Partitions[j]
			at := sharesession.Partition{TopicID: f.q.Topics[i].TopicID, Partition: p.Partition}
			if last != nil && last[at] != p {
				continue
			}
			result := f.acknowledgePartition(at, p.AcknowledgementBatches)
			if result.whole {
				return result
			}
			sound = sound || result.sound
			f.ackOrder = append(f.ackOrder, at)
			f.acks[at] = result
			f.unsettled = append(f.unsettled, result)
		}
	}
	if !sound {
		maps.DeleteFunc(f.acks, func(_ sharesession.Partition, r *shareAckResult) bool { return r.empty })
		f.ackOrder = slices.DeleteFunc(f.ackOrder, func(at sharesession.Partition) bool { return f.acks[at] == nil })
	}
	return nil
}

// acknowledgePartition is the result for a partition that the request names. Beside others with sound acknowledgements one without has a result too.
func (f *shareFetch) acknowledgePartition(at sharesession.Partition, batches []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch) *shareAckResult {
	if len(batches) == 0 {
		return f.caller.acknowledgeNothing(at)
	}
	c := f.caller.request.cluster
	acks := c.share.acks
	for _, b := range batches {
		acks = append(acks, sharepartition.Acknowledgement{FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, Types: b.AcknowledgeTypes})
	}
	c.share.acks = kept(acks)
	return f.caller.acknowledge(at, acks, f.q.Version >= 2 && f.q.IsRenewAck)
}

// lastNamed finds the entry of each partition whose acknowledgements count, the last; nil where the request names one partition at most.
func (f *shareFetch) lastNamed() map[sharesession.Partition]*kmsg.ShareFetchRequestTopicPartition {
	n := 0
	for i := range f.q.Topics {
		n += len(f.q.Topics[i].Partitions)
	}
	if n < 2 {
		return nil
	}
	last := make(map[sharesession.Partition]*kmsg.ShareFetchRequestTopicPartition, n)
	for i := range f.q.Topics {
		for j := range f.q.Topics[i].Partitions {
			p := &f.q.Topics[i].Partitions[j]
			last[sharesession.Partition{TopicID: f.q.Topics[i].TopicID, Partition: p.Partition}] = p
		}
	}
	return last
}

// settle lets the acknowledgements take effect. It returns whether they have moved a start offset.
func (f *shareFetch) settle() (moved bool) {
	for _, result := range f.unsettled {
		moved = result.settle(&f.writes) || moved
	}
	f.unsettled = nil
	return moved
}

// shareAcquisition is what is left of a fetch's limits as it goes from partition to partition.
type shareAcquisition struct {
	member     string
	mode       sharepartition.AcquireMode
	batchSize  int32
	maxRecords int32
	maxBytes   int  // for each partition
	roomBytes  int  // for all partitions together
	filled     bool // a partition had records: of the others no batch is given that exceeds the limits
}

// within gives the bytes that may be read of the next partition, and tells whether its first batch may exceed them.
func (a *shareAcquisition) within() (maxBytes int, atLeastOne bool) {
	return min(a.maxBytes, a.roomBytes), !a.filled
}

// took counts the bytes that were read of a partition.
func (a *shareAcquisition) took(bytes int) {
	a.roomBytes, a.filled = max(0, a.roomBytes-bytes), a.filled || bytes > 0
}

// shareResults are the results of a fetch in the order of the session's partitions.
type shareResults []shareResult

type shareResult struct {
	shareFetchResult
	known bool // otherwise there is nothing to say of the partition
}

// shareOpen is a share partition that has room in flight, and the place of its result.
type shareOpen struct {
	*sharePartition
	at    int
	fresh bool // it was not known before where in the log its next fetch offset lies
}

// begin attempts for the first time to acquire what there is. With timing=kafka the partitions whose state is read first join one after the other, as the
// share coordinator answers, and the request is answered as soon as it has something: the answer leaves out those that have not joined. The share coordinator
// is asked to store the acknowledgements before that, and so what they release is there once the first of them joins, or the start offset has moved.
func (f *shareFetch) begin() shareResults {
	cold := f.findCold()
	results := f.attempt(false)
	if results == nil && len(cold) > 0 && f.settle() {
		results = f.attempt(false)
	}
	for first := true; results == nil && len(cold) > 0; first = false {
		f.joining = &cold[0]
		delete(f.cold, cold[0])
		if first || f.joins(cold[0]) { // the first attempt finds what the acknowledgements have released
			results = f.attempt(false)
		}
		cold = cold[1:]
	}
	f.joining, f.cold = nil, nil
	for _, at := range cold {
		if p, code := f.find(at); code == errorcode.None {
			f.read(&shareLoad{}, at, p)
		}
	}
	return results
}

// findCold finds the partitions whose state is not known yet, of which a request that may wait reads one after the other, in the order of the session.
func (f *shareFetch) findCold() (cold []sharesession.Partition) {
	if f.caller.request.cluster.timing == TimingFast || f.q.MaxWaitMillis <= 0 || f.asksNothing() {
		return nil
	}
	for _, at := range f.session.Partitions {
		if p, code := f.find(at); code == errorcode.None && f.known(at, p) == nil {
			cold = append(cold, at)
		}
	}
	f.cold = make(map[sharesession.Partition]bool, len(cold))
	for _, at := range cold {
		f.cold[at] = true
	}
	return cold
}

// joins reads the state of the partition that joins, and tells whether another attempt may acquire more than the one before: of thousands of partitions without
// records each would look at all of them.
func (f *shareFetch) joins(at sharesession.Partition) bool {
	loaded := f.load(at)
	switch sp := loaded.sp; {
	case loaded.unready, sp == nil && loaded.late:
		return false
	case sp == nil, f.q.MinBytes <= 0:
		return true
	case !sp.mayAcquire():
		return false
	case sp.beyondLog(true), sp.available(1, int(f.q.MaxBytes)) > 0:
		return true
	default:
		sp.lookUp() // as the attempt would have
		return false
	}
}

// asksNothing tells whether the limits leave no room for a record: only what is wrong with the partitions is told then.
func (f *shareFetch) asksNothing() bool { return f.q.MaxBytes == 0 || f.q.MaxRecords == 0 }

// attempt acquires what there is. It returns nil where the fetch has to wait, which it does not where last is set or it may not.
func (f *shareFetch) attempt(last bool) shareResults {
	results := make(shareResults, len(f.session.Partitions))
	if f.asksNothing() {
		for i, at := range f.session.Partitions {
			l, _ := f.look(at)
			results[i] = shareResult{l.result, l.absent}
		}
		return results
	}
	var open []shareOpen
	failed := false
	absent := 0
	for i, at := range f.session.Partitions {
		loaded := f.load(at)
		switch sp := loaded.sp; {
		case loaded.unready, loaded.late && f.joining != nil && *f.joining == at:
			continue
		case loaded.absent:
			absent++
		case sp == nil:
			failed = failed || !loaded.late
		case sp.mayAcquire():
			open = append(open, shareOpen{sharePartition: sp, at: i})
		default:
			continue
		}
		results[i] = shareResult{loaded.result, true}
	}
	if absent == len(results) { // as where there are none
		return results
	}
	if !last && f.enough(open) {
		f.acquire(freshBehind(open), results)
		return results
	}
	if last || failed || f.q.MaxWaitMillis <= 0 {
		for i := range open {
			open[i].fresh = false
		}
		f.acquire(open, results)
		return results
	}
	return nil
}

// freshBehind puts those that had not been looked up behind the others: Apache Kafka has read them before it reads the others, and so has them last.
func freshBehind(open []shareOpen) []shareOpen {
	isFresh := func(o shareOpen) bool { return o.fresh }
	if i := slices.IndexFunc(open, isFresh); i < 0 || !slices.ContainsFunc(open[i:], func(o shareOpen) bool { return !o.fresh }) {
		return open
	}
	fresh := slices.Clone(open)
	known := slices.DeleteFunc(open, isFresh)
	return append(known, slices.DeleteFunc(fresh, func(o shareOpen) bool { return !o.fresh })...)
}

// enough tells whether the open partitions have what ends the wait, MinBytes to read or something to find out, and looks up where they are to be read.
func (f *shareFetch) enough(open []shareOpen) bool {
	if len(open) == 0 {
		return false
	}
	beyond, left := false, int(min(f.q.MinBytes, f.q.MaxBytes))
	for i := range open {
		sp := open[i].sharePartition
		open[i].fresh = !sp.lookUp()
		beyond = beyond || sp.beyondLog(open[i].fresh)
		left -= sp.available(left, int(f.q.MaxBytes)/len(open))
	}
	return beyond || left <= 0
}

// find returns the partition that an entry of the session means, if the node leads it.
func (f *shareFetch) find(at sharesession.Partition) (*partition, int16) {
	p, code := f.named(at)
	if f.forbidden(at, p) {
		return nil, errorcode.TopicAuthorizationFailed
	}
	if injected := f.caller.request.injectedByID(fault.Partition, at.TopicID, at.Partition); injected != errorcode.None {
		return p, injected
	}
	if code == errorcode.None && p.leader != f.caller.request.node.id {
		code = errorcode.NotLeaderOrFollower
	}
	return p, code
}

// forbidden tells whether the client may not read the partition of an entry of the session. What does not exist under its id is not forbidden but unknown.
func (f *shareFetch) forbidden(at sharesession.Partition, p *partition) bool {
	if p != nil {
		return !f.caller.request.may(acl.Read, acl.Topic, p.topic.name)
	}
	return !f.caller.request.mayOnTopicID(acl.Read, at.TopicID)
}

// named finds the partition that an entry of the session means. A topic that was deleted under the session is known by its name from then on: a partition of one
// that was made anew is found, as Apache Kafka finds it, though nothing is kept of it under the old id.
func (f *shareFetch) named(at sharesession.Partition) (*partition, int16) {
	c := f.caller.request.cluster
	p, code := c.sharePartitionNamed(at)
	name := f.session.TopicName(at)
	if code != errorcode.UnknownTopicID || name == "" {
		return p, code
	}
	if t := c.topics[name]; t != nil {
		p = t.partition(at.Partition)
	}
	if p == nil {
		return nil, errorcode.UnknownTopicOrPartition
	}
	return p, errorcode.None
}

// known is the group's share partition for an entry of the session that means a partition, nil where the leader does not have it.
func (f *shareFetch) known(at sharesession.Partition, p *partition) *sharePartition {
	if p.topic.id != at.TopicID {
		return nil
	}
	return p.shareGroups[f.caller.group]
}

// shareLoad is a partition of a session on its way to its share partition.
type shareLoad struct {
	sp     *sharePartition // nil with an error
	result shareFetchResult
	// late means that the error does not end the wait, unready that the partition is not in the answer. Both stand for what Apache Kafka takes its time
	// for, reading the state from the share coordinator, and are set with timing=kafka alone, unready also while the share coordinator is not there.
	late, unready bool
	// absent means that the node does not lead the partition or that there is none, which ends the wait only where it is so of all.
	absent bool
}

// exists tells whether there is the partition that an entry of the session means.
func (f *shareFetch) exists(at sharesession.Partition) bool {
	_, code := f.named(at)
	return code == errorcode.None
}

// knowsAny tells whether one of the session's partitions exists, so that there is something to acquire from.
func (f *shareFetch) knowsAny() bool { return slices.ContainsFunc(f.session.Partitions, f.exists) }

// hasUnknownTopic tells whether there is no topic with the id of one of the session's partitions.
func (f *shareFetch) hasUnknownTopic() bool {
	return slices.ContainsFunc(f.session.Partitions, func(at sharesession.Partition) bool {
		return f.caller.request.cluster.topicsByID[at.TopicID] == nil
	})
}

// load finds the share partition of an entry, or the result that says why there is none. A share partition that the leader has forgotten since is not in
// the answer.
func (f *shareFetch) load(at sharesession.Partition) shareLoad {
	if l, ok := f.loads[at]; ok {
		if l.sp != nil && l.sp.forgotten() {
			return shareLoad{unready: true}
		}
		return l
	}
	l := f.loadNow(at)
	if f.caller.request.cluster.timing == TimingKafka && !l.unready {
		if f.loads == nil {
			f.loads = make(map[sharesession.Partition]shareLoad, len(f.session.Partitions))
		}
		f.loads[at] = l
	}
	return l
}

func (f *shareFetch) loadNow(at sharesession.Partition) shareLoad {
	l, p := f.look(at)
	if !l.absent {
		f.read(&l, at, p)
	}
	if l.result.errorCode == errorcode.NotLeaderOrFollower {
		l.result.leader = p.hint()
	}
	if l.result.errorCode == errorcode.None && f.q.MaxBytes < 0 {
		l.sp, l.result.errorCode, l.late = nil, errorcode.UnknownServerError, false
	}
	return l
}

// look finds out whether the partition of an entry is there.
func (f *shareFetch) look(at sharesession.Partition) (shareLoad, *partition) {
	p, code := f.find(at)
	return shareLoad{result: shareFetchResult{index: at.Partition, errorCode: code}, absent: code != errorcode.None}, p
}

// read fills in the share partition of a partition that the node leads. The first request that asks for it has its state read.
func (f *shareFetch) read(l *shareLoad, at sharesession.Partition, p *partition) {
	c, n := f.caller.request.cluster, f.caller.request.node
	known := f.known(at, p) != nil
	if f.cold[at] || !known && n.unreachable(c.shareStatePartition(p.shareKey(f.caller.group))) != errorcode.None {
		l.unready = true
		return
	}
	if c.timing == TimingKafka && !known && c.topics[shareStateTopic] == nil {
		f.early = true
		if _, err := c.internalTopic(shareStateTopic); err != nil {
			c.log.Error("the share coordinator's topic could not be made", "error", err)
		}
	}
	if p.topic.id == at.TopicID {
		l.sp, l.result.errorCode = c.sharePartitionOf(p, f.caller.group)
	} else {
		_, _, no := c.share.coordinator.Read(c.now(), sharecoordinator.Key{Group: f.caller.group, Topic: at.TopicID, Partition: at.Partition}, p.leaderEpoch)
		l.result.errorCode = fetchErrorOf(no.ErrorCode) // it knows no topic of that id, and so refuses always
	}
	if c.timing == TimingFast {
		return
	}
	if l.sp == nil {
		l.late = f.caller.group != "" // which no coordinator is asked for
		l.unready = f.early || l.late && f.q.MaxWaitMillis <= 0
		return
	}
	if !known {
		if f.loaded == nil {
			f.loaded = map[*sharePartition]bool{}
		}
		f.loaded[l.sp] = true
	}
	l.unready = f.loaded[l.sp] && f.q.MaxWaitMillis <= 0
}

// acquire acquires records in each of the partitions as far as the limits go. The bytes are divided among all of them, those too that have no records.
func (f *shareFetch) acquire(open []shareOpen, results shareResults) {
	c := f.caller.request.cluster
	maxBytes := int(min(f.q.MaxBytes, c.brokerInt("fetch.max.bytes")))
	left := &shareAcquisition{
		member:     f.caller.member,
		mode:       f.mode,
		batchSize:  f.q.BatchSize,
		maxRecords: f.q.MaxRecords,
		maxBytes:   maxBytes / max(1, len(open)),
		roomBytes:  maxBytes,
	}
	for i, sp := range open {
		if left.maxRecords <= 0 {
			sp.noteLogStart(c.shareLimits(sp.group)) // it is read with the others, although nothing is acquired there
			continue
		}
		if sp.fresh && i > 0 && !open[i-1].fresh {
			left.roomBytes, left.filled = maxBytes, false // they were read within limits of their own
		}
		result := &results[sp.at]
		acquired, records, err := sp.acquire(left)
		if err != nil {
			c.log.Error("a share partition could not be read", "group", sp.group, "partition", sp.partition, "error", err)
			result.errorCode = errorcode.KafkaStorageError
		}
		result.acquired, result.records = acquired, records
		result.size += sizeOf(records)
	}
}

// answer makes the answer from what was fetched and how the acknowledgements ended.
func (f *shareFetch) answer(results shareResults) *shareFetchAnswer {
	if f.failing {
		return &shareFetchAnswer{errorCode: errorcode.UnknownServerError}
	}
	if !f.session.Current() {
		return &shareFetchAnswer{errorCode: errorcode.InvalidShareSessionEpoch}
	}
	a := &shareFetchAnswer{lockTimeoutMs: f.caller.lockTimeoutMs()}
	add := func(at sharesession.Partition, result shareFetchResult) {
		ack := f.acks[at]
		if ack != nil {
			ack.answered = true
			result.acknowledged, result.ackCode, result.ackMessage = !ack.empty, ack.code, ack.message
			if ack.leader != nil {
				result.leader = ack.leader
			}
		}
		t := a.topic(at.TopicID)
		t.partitions = append(t.partitions, result)
		a.size += result.size
		if result.leader != nil {
			a.nodes = f.caller.request.addEndpoint(a.nodes, result.leader)
		}
	}
	var room [8]hashed
	order := room[:0]
	for i := range results {
		if results[i].known {
			order = append(order, hashed{f.hash(f.session.Partitions[i]), i})
		}
	}
	scalaResultOrder(order)
	for _, o := range order {
		at, result := f.session.Partitions[o.at], results[o.at].shareFetchResult
		if f.session.Listed(at, len(result.acquired) > 0, result.errorCode) {
			add(at, result)
		}
	}
	for _, at := range acknowledgedOrder(f.ackOrder) {
		if !f.acks[at].answered {
			add(at, shareFetchResult{index: at.Partition})
		}
	}
	return a
}

// acknowledgedOrder is the order in which a ShareFetch lists the results of acknowledgements that nothing else is told with: topic by topic, from a map by id
// of maps by partition.
func acknowledgedOrder(all []sharesession.Partition) []sharesession.Partition {
	if len(all) < 2 {
		return all
	}
	var topics []hashed
	partitions := map[[16]byte][]hashed{}
	for i, at := range all {
		if partitions[at.TopicID] == nil {
			topics = append(topics, hashed{javamap.UUID(at.TopicID), i})
		}
		partitions[at.TopicID] = append(partitions[at.TopicID], hashed{at.Partition, i})
	}
	scalaMapOrder(topics)
	ordered := make([]sharesession.Partition, 0, len(all))
	for _, t := range topics {
		of := partitions[all[t.at].TopicID]
		scalaMapOrder(of)
		for _, p := range of {
			ordered = append(ordered, all[p.at])
		}
	}
	return ordered
}

// hash is that of Kafka's key for a partition.
func (f *shareFetch) hash(at sharesession.Partition) int32 {
	return topicIDPartitionHash(at.TopicID, f.session.TopicName(at), at.Partition)
}

// shareWaiter is a ShareFetch that waits for records.
type shareWaiter struct {
	fetch   *shareFetch
	timer   clock.Timer
	waiting []*sharePartition
	loading []*partition // where the state of the share partition is not read yet
	left    bool         // it waits no more
}

// park puts the fetch on the waiting lists of its share partitions.
func (f *shareFetch) park() {
	r := f.caller.request
	w := &shareWaiter{fetch: f}
	w.join()
	w.timer = r.cluster.after(time.Duration(f.q.MaxWaitMillis)*time.Millisecond, w.expire)
	r.park(w.leave)
}

// join puts the fetch on every waiting list that concerns it.
func (w *shareWaiter) join() {
	for _, at := range w.fetch.session.Partitions {
		p, code := w.fetch.find(at)
		if code != errorcode.None {
			continue
		}
		if sp := w.fetch.known(at, p); sp != nil {
			w.waiting = append(w.waiting, sp)
			sp.waiters.add(w)
		} else {
			w.loading = append(w.loading, p)
			p.shareLoads.add(w)
		}
	}
}

// part takes the fetch off every waiting list.
func (w *shareWaiter) part() {
	for _, sp := range w.waiting {
		sp.waiters.remove(w)
	}
	for _, p := range w.loading {
		p.shareLoads.remove(w)
	}
	w.waiting, w.loading = nil, nil
}

// leave ends the wait.
func (w *shareWaiter) leave() {
	w.left = true
	w.timer.Stop()
	w.part()
}

// loaded answers the fetch if there is something for it now that state could be read that it waited for.
func (w *shareWaiter) loaded() {
	if w.try(); !w.left {
		w.part()
		w.join()
	}
}

// try answers the fetch if there is something for it by now.
func (w *shareWaiter) try() {
	if results := w.fetch.attempt(false); results != nil {
		w.leave()
		w.fetch.complete(results)
	}
}

// expire ends a wait that has lasted for MaxWaitMs.
func (w *shareWaiter) expire() {
	w.fetch.caller.request.cluster.share.counters.expiredFetches++
	w.finish()
}

// finish answers the fetch with whatever there is.
func (w *shareWaiter) finish() {
	w.leave()
	w.fetch.complete(w.fetch.attempt(true))
}
