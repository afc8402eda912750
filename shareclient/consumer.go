package shareclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// ConsumerConfig says what a consumer reads. Group and Topics are needed.
type ConsumerConfig struct {
	Group       string
	Topics      []string
	MaxRecords  int32         // of a ShareFetch and a Poll (max.poll.records); 0 stands for 500
	RecordLimit bool          // take no more than MaxRecords, though that splits batches (share.acquire.mode=record_limit)
	MaxWait     time.Duration // how long a broker waits for records (fetch.max.wait.ms); 0 stands for 500 ms
}

// Record is a record that was delivered to the consumer, which holds it until it is acknowledged or its lock ends.
type Record struct {
	Topic         string
	Partition     int32
	Offset        int64
	Key, Value    []byte
	Headers       []kgo.RecordHeader
	Timestamp     time.Time
	DeliveryCount int16 // 1 for the first delivery

	of Partition
}

// Consumer is a member of a share group that acknowledges explicitly. Its methods may be called by several goroutines.
type Consumer struct {
	cfg    ConsumerConfig
	client *kgo.Client
	// coordination carries what goes to the coordinator: nothing that takes long delays a heartbeat on its way.
	coordination *kgo.Client
	routes       *routes
	stop         context.CancelFunc
	life         context.Context // of what runs in the background, ends with Close
	work         sync.WaitGroup

	beating     context.Context // of the heartbeats, ends before the member leaves: one that comes later would have it join again
	stopBeating context.CancelFunc
	left        chan struct{} // closed when no heartbeat is sent any more

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when anything below changes that is waited for
	group    GroupMetadata
	full     bool                 // the next heartbeat names the topics
	assigned map[[16]byte][]int32 // partitions by topic id: the names may not be known yet
	nodes    map[int32]*node
	offers   map[int32]map[int16]int16     // the largest version of each API, by node
	askAt    time.Time                     // before which topics are not asked for again
	asked    int                           // how often in a row that has not told all
	lock     time.Duration                 // how long records are held at most, as a broker said last; 0 before
	ready    []*Record                     // fetched and not polled
	held     map[Partition]map[int64]*held // polled and not acknowledged
	fatal    error
	troubles []error           // for the next polls to tell, one each
	told     map[string]string // the last of an API, so that it is told once
}

// node is what the consumer has with a broker. Its requests that count in the session are sent one after the other.
type node struct {
	id       int32
	busy     bool
	session  session
	lost     int // how many sessions were lost: an answer of one says nothing of the next
	failures int // in a row
	// byItself is what the consumer says of acquired offsets that the application does not get, with the next fetch.
	byItself map[Partition]map[int64]AcknowledgeType
}

// lose has the next fetch open a session: the node has none, or its epoch is not known because no answer came.
func (n *node) lose() {
	n.session = session{}
	n.lost++
	clear(n.byItself)
}

// held is a record in the application's hands.
type held struct {
	record *Record // the delivery: one before it, whose lock has ended, counts no more
	node   int32   // that it came from
	said   AcknowledgeType
}

// NewConsumer makes a consumer, which joins its group in the background. opts are for the kgo.Client that carries the requests: seeds, dialer, TLS.
func NewConsumer(cfg ConsumerConfig, opts ...kgo.Opt) (*Consumer, error) {
	if cfg.Group == "" || len(cfg.Topics) == 0 {
		return nil, errors.New("a consumer needs a group and topics")
	}
	cfg.MaxRecords, cfg.MaxWait = cmp.Or(cfg.MaxRecords, 500), cmp.Or(cfg.MaxWait, 500*time.Millisecond)
	client, err := newClient(opts)
	if err != nil {
		return nil, err
	}
	coordination, err := newClient(opts)
	if err != nil {
		client.Close()
		return nil, err
	}
	c := &Consumer{
		cfg: cfg, client: client, coordination: coordination, routes: newRoutes(client), changed: make(chan struct{}),
		group: GroupMetadata{GroupID: cfg.Group, MemberID: newMemberID()}, full: true,
		nodes: map[int32]*node{}, held: map[Partition]map[int64]*held{}, offers: map[int32]map[int16]int16{}, told: map[string]string{},
	}
	c.life, c.stop = context.WithCancel(context.Background())
	c.beating, c.stopBeating = context.WithCancel(c.life)
	c.left = make(chan struct{})
	c.work.Go(c.heartbeats)
	return c, nil
}

// GroupMetadata is who the consumer is in its group now. Before it has joined the epoch is 0.
func (c *Consumer) GroupMetadata() GroupMetadata {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.group
}

// wake has those look again that wait for a change. c.mu is held.
func (c *Consumer) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Poll gives the next records, at least one, and waits for them until the context ends. Records of earlier polls that nothing was said of stay with the consumer.
// A fetch that is under way when the context ends goes on, and the next Poll has what it brings. An Error of class Retriable tells what keeps records away, once:
// the consumer goes on by itself, and Poll may be called again. One of class Fatal is the consumer's end.
func (c *Consumer) Poll(ctx context.Context) ([]*Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.fatal != nil:
			return nil, c.fatal
		case len(c.ready) > 0:
			return c.take(), nil
		case len(c.troubles) > 0:
			err := c.troubles[0]
			c.troubles = c.troubles[1:]
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		retry := c.fetches(ctx)
		if err := c.wait(ctx, retry); err != nil {
			return nil, err
		}
	}
}

// take hands out what is ready.
func (c *Consumer) take() []*Record {
	n := min(len(c.ready), int(c.cfg.MaxRecords))
	records := c.ready[:n:n]
	c.ready = c.ready[n:]
	return records
}

// wait waits for a change, or for the time if it is not 0. c.mu is held before and after, not meanwhile.
func (c *Consumer) wait(ctx context.Context, d time.Duration) error {
	changed := c.changed
	c.mu.Unlock()
	defer c.mu.Lock()
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-changed:
	case <-after:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// trouble has a poll tell of an error, unless it is the one that was told of its API last. c.mu is held.
func (c *Consumer) trouble(err *Error) {
	if text := err.Error(); c.told[err.API] != text {
		c.told[err.API] = text
		c.troubles = append(c.troubles, err)
		c.wake()
	}
}

// refresh asks for the topics, unless it has just done so in vain. c.mu is held before and after, not meanwhile.
func (c *Consumer) refresh(ctx context.Context) {
	if time.Now().Before(c.askAt) {
		return
	}
	c.mu.Unlock()
	refused, err := c.routes.refresh(ctx, c.cfg.Topics...)
	c.mu.Lock()
	for _, e := range refused {
		c.trouble(e)
	}
	if err == nil && len(refused) == 0 {
		delete(c.told, "Metadata")
	}
	c.askAt = time.Now().Add(backoff(c.asked))
	c.asked++
}

// leaders are the partitions that are to be fetched, by the nodes that lead them, and whether more of them will be known later. A partition without a known leader
// stays in the session that it is in: its assignment is as it was.
func (c *Consumer) leaders() (want map[int32]map[Partition]bool, all bool) {
	want, all = map[int32]map[Partition]bool{}, true
	add := func(id int32, p Partition) {
		if want[id] == nil {
			want[id] = map[Partition]bool{}
		}
		want[id][p] = true
	}
	for _, name := range c.cfg.Topics {
		if _, ok := c.routes.known(name); !ok {
			all = false
		}
	}
	for id, partitions := range c.assigned {
		name := c.routes.name(id)
		t, known := c.routes.known(name)
		if known && t.id != id { // it was deleted, and another one has its name: the assignment or the metadata is old
			all = false
			continue
		}
		for _, i := range partitions {
			p := Partition{id, name, i}
			switch {
			case i < 0: // there is none such
			case known && int(i) < len(t.leaders) && t.leaders[i] >= 0:
				add(t.leaders[i], p)
			default:
				all = false
				for _, n := range c.nodes {
					if n.session.partitions[p] {
						add(n.id, p)
					}
				}
			}
		}
	}
	return want, all
}

// fetches begins a fetch from each node that leads what is assigned and has none under way. It returns when to look again where not all leaders are known, or 0.
func (c *Consumer) fetches(ctx context.Context) (retry time.Duration) {
	want, all := c.leaders()
	if !all {
		c.refresh(ctx)
		if want, all = c.leaders(); !all {
			retry = max(time.Until(c.askAt), time.Millisecond)
		}
	}
	if all {
		c.asked = 0
	}
	for id := range want {
		if c.nodes[id] == nil {
			c.nodes[id] = &node{id: id, byItself: map[Partition]map[int64]AcknowledgeType{}}
		}
	}
	for _, n := range c.nodes {
		if n.busy || len(want[n.id])+len(n.session.partitions) == 0 {
			continue
		}
		partitions := want[n.id]
		if partitions == nil {
			partitions = map[Partition]bool{} // the session is to forget what it has
		}
		n.busy = true
		req := c.fetchRequest(n, partitions)
		lost := n.lost
		c.work.Go(func() { c.fetch(n, lost, req, partitions) })
	}
	return retry
}

// fetchRequest is the next ShareFetch of a node's session.
func (c *Consumer) fetchRequest(n *node, want map[Partition]bool) *kmsg.ShareFetchRequest {
	req := kmsg.NewPtrShareFetchRequest()
	req.GroupID, req.MemberID = &c.group.GroupID, &c.group.MemberID
	req.ShareSessionEpoch = n.session.epoch
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(c.cfg.MaxWait.Milliseconds()), 1, 50<<20
	req.MaxRecords, req.BatchSize = c.cfg.MaxRecords, c.cfg.MaxRecords
	if c.cfg.RecordLimit {
		req.ShareAcquireMode = 1
	}
	add, forget := n.session.plan(want)
	said := n.byItself // which is empty where a session begins: its first request acknowledges nothing
	n.byItself = map[Partition]map[int64]AcknowledgeType{}
	asked := map[Partition]bool{}
	for _, p := range add {
		asked[p] = true
	}
	for p := range said {
		asked[p] = true
	}
	for p := range asked {
		part := kmsg.ShareFetchRequestTopicPartition{Partition: p.Partition}
		for _, b := range batches(said[p]) {
			part.AcknowledgementBatches = append(part.AcknowledgementBatches, kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{
				FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, AcknowledgeTypes: b.wireTypes(),
			})
		}
		i := topicAt(req.Topics, func(t kmsg.ShareFetchRequestTopic) bool { return t.TopicID == p.TopicID })
		if i == len(req.Topics) {
			req.Topics = append(req.Topics, kmsg.ShareFetchRequestTopic{TopicID: p.TopicID})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
	}
	for _, p := range forget {
		i := topicAt(req.ForgottenTopicsData, func(t kmsg.ShareFetchRequestForgottenTopicsData) bool { return t.TopicID == p.TopicID })
		if i == len(req.ForgottenTopicsData) {
			req.ForgottenTopicsData = append(req.ForgottenTopicsData, kmsg.ShareFetchRequestForgottenTopicsData{TopicID: p.TopicID})
		}
		req.ForgottenTopicsData[i].Partitions = append(req.ForgottenTopicsData[i].Partitions, p.Partition)
	}
	return req
}

// topicAt is where a topic is in a request, the length where it is not.
func topicAt[T any](topics []T, is func(T) bool) int {
	for i, t := range topics {
		if is(t) {
			return i
		}
	}
	return len(topics)
}

// fetch sends a ShareFetch and takes its answer. Nothing but Close ends it early: a connection that is given up takes all that was acquired over it along.
func (c *Consumer) fetch(n *node, lost int, req *kmsg.ShareFetchRequest, want map[Partition]bool) {
	resp, err := c.askFetch(n.id, req)
	c.mu.Lock()
	ok := c.fetched(n, lost, resp, err, want)
	if n.failures++; ok {
		n.failures = 0
	}
	wait := backoff(n.failures)
	c.mu.Unlock()
	if !ok {
		pause(c.life, wait)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n.busy = false
	c.wake()
}

// askFetch sends a ShareFetch to a node that has what it takes.
func (c *Consumer) askFetch(node int32, req *kmsg.ShareFetchRequest) (*kmsg.ShareFetchResponse, error) {
	version := int16(1)
	if c.cfg.RecordLimit {
		version = 2 // which has ShareAcquireMode
	}
	if err := c.offered(c.life, c.client, node, req.Key(), version); err != nil {
		return nil, err
	}
	return ask[*kmsg.ShareFetchResponse](c.life, c.client, node, req)
}

// fetched takes the answer to a ShareFetch. It returns false where the next one is better sent a little later. c.mu is held.
func (c *Consumer) fetched(n *node, lost int, resp *kmsg.ShareFetchResponse, err error, want map[Partition]bool) bool {
	if n.lost != lost {
		return true // the session was given up meanwhile, and with it what the answer brings
	}
	if err != nil || resp.ErrorCode != errorcode.None {
		n.lose()
		c.forgetRoutes()
		switch {
		case err != nil:
			c.unanswered(n.id, err)
		case resp.ErrorCode == errorcode.UnsupportedVersion:
			c.fatal = &Error{API: "ShareFetch", Of: c.cfg.Group, Code: resp.ErrorCode, Message: textOf(resp.ErrorMessage), Class: Fatal}
		case resp.ErrorCode == errorcode.GroupAuthorizationFailed || resp.ErrorCode == errorcode.TopicAuthorizationFailed:
			c.trouble(&Error{API: "ShareFetch", Of: c.cfg.Group, Code: resp.ErrorCode, Message: textOf(resp.ErrorMessage), Class: Retriable})
		}
		return false
	}
	n.session.answered(want)
	if resp.AcquisitionLockTimeoutMillis > 0 {
		c.lock = time.Duration(resp.AcquisitionLockTimeoutMillis) * time.Millisecond
	}
	ok := true
	for _, t := range resp.Topics {
		for _, part := range t.Partitions {
			of := Partition{t.TopicID, c.routes.name(t.TopicID), part.Partition}
			if !want[of] {
				continue // nobody has asked for it
			}
			switch part.ErrorCode {
			case errorcode.None:
				delete(c.told, "ShareFetch of "+of.String())
			case errorcode.TopicAuthorizationFailed, errorcode.CorruptMessage, errorcode.UnsupportedCompressionType:
				c.trouble(&Error{API: "ShareFetch of " + of.String(), Of: c.cfg.Group, OfPartition: true, Code: part.ErrorCode, Message: textOf(part.ErrorMessage), Class: Retriable})
				ok = false
			default:
				c.routes.forget(of.Topic)
				ok = false
			}
			c.acquired(n, of, part)
		}
	}
	return ok
}

// unanswered takes an error of the way to a node. c.mu is held.
func (c *Consumer) unanswered(node int32, err error) {
	delete(c.offers, node)
	var e *Error
	if errors.As(err, &e) && e.Class == Fatal && c.fatal == nil {
		c.fatal = e
	}
}

// offered is an error where a node does not have an API in a version.
func (c *Consumer) offered(ctx context.Context, client *kgo.Client, node int32, key, version int16) error {
	c.mu.Lock()
	offers := c.offers[node]
	c.mu.Unlock()
	if offers == nil {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "kshare-shareclient", "1"
		resp, err := ask[*kmsg.ApiVersionsResponse](ctx, client, node, req)
		switch {
		case err != nil:
			return err
		case resp.ErrorCode == errorcode.UnsupportedVersion:
			return nil // the node is older than the question: what it has shows when it is asked for it
		case resp.ErrorCode != errorcode.None:
			return &Error{API: "ApiVersions", Of: c.cfg.Group, Code: resp.ErrorCode, Class: Retriable}
		}
		offers = map[int16]int16{}
		for _, k := range resp.ApiKeys {
			offers[k.ApiKey] = k.MaxVersion
		}
		c.mu.Lock()
		c.offers[node] = offers
		c.mu.Unlock()
	}
	if most, ok := offers[key]; !ok || most < version {
		return &Error{API: kmsg.NameForKey(key), Of: c.cfg.Group, Code: errorcode.UnsupportedVersion, Message: fmt.Sprintf("node %d does not have version %d", node, version), Class: Fatal}
	}
	return nil
}

// forgetRoutes has the next fetch ask who leads the topics.
func (c *Consumer) forgetRoutes() {
	for _, name := range c.cfg.Topics {
		c.routes.forget(name)
	}
}

// acquired takes the records of an answer that the member has acquired: whole batches come, of which others may hold a part.
func (c *Consumer) acquired(n *node, of Partition, part kmsg.ShareFetchResponseTopicPartition) {
	if len(part.AcquiredRecords) == 0 {
		return
	}
	read := contentOf(part.Records, of)
	if c.held[of] == nil {
		c.held[of] = map[int64]*held{}
	}
	for _, a := range part.AcquiredRecords {
		last := a.LastOffset
		if a.FirstOffset < 0 || last < a.FirstOffset || last == math.MaxInt64 {
			continue
		}
		if last-a.FirstOffset >= maxGaps {
			last = a.FirstOffset + maxGaps - 1
		}
		for offset := a.FirstOffset; offset <= last; offset++ {
			if r := read.records[offset]; r != nil {
				c.deliver(n, of, r, a.DeliveryCount)
			} else if t := read.without(offset); t != undecided {
				if n.byItself[of] == nil {
					n.byItself[of] = map[int64]AcknowledgeType{}
				}
				n.byItself[of][offset] = t
			}
		}
	}
}

// deliver takes a record that the member has acquired.
func (c *Consumer) deliver(n *node, of Partition, r *kgo.Record, count int16) {
	if before := c.held[of][r.Offset]; before != nil {
		c.ready = slices.DeleteFunc(c.ready, func(r *Record) bool { return r == before.record })
	}
	record := &Record{
		Topic: of.Topic, Partition: of.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp, DeliveryCount: count, of: of,
	}
	c.held[of][r.Offset] = &held{record, n.id, undecided}
	c.ready = append(c.ready, record)
}

// ErrNotHeld is the error of acknowledging a record that the consumer does not hold: it was acknowledged, lost with the
// membership, or its lock has ended and it was delivered to the consumer again, as another Record. What was made of it belongs in no transaction.
var ErrNotHeld = errors.New("the consumer does not hold the record")

// Acknowledge says what becomes of a record. Nothing is sent: Commit does that, or a producer with AcknowledgementsForTransaction. Said twice, the last counts.
func (c *Consumer) Acknowledge(r *Record, t AcknowledgeType) error {
	if t < Accept || t > Renew {
		return fmt.Errorf("there is no acknowledge type %d", t)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.held[r.of][r.Offset]
	if h == nil || h.record != r {
		return fmt.Errorf("%s offset %d: %w", r.of, r.Offset, ErrNotHeld)
	}
	h.said = t
	return nil
}

// AcknowledgementsForTransaction takes the records that were accepted and rejected out of the consumer's hands, for a transaction to decide. What was released or
// renewed, which a transaction cannot do, is left to Commit, and what nothing was said of stays.
func (c *Consumer) AcknowledgementsForTransaction() Acknowledgements {
	c.mu.Lock()
	defer c.mu.Unlock()
	acks := Acknowledgements{}
	for of, offsets := range c.held {
		types := map[int64]AcknowledgeType{}
		for offset, h := range offsets {
			if h.said == Accept || h.said == Reject {
				types[offset] = h.said
				delete(offsets, offset)
			}
		}
		if len(types) > 0 {
			acks[of] = batches(types)
		}
	}
	return acks
}

// said takes what was said of records of a node, renewals apart, which stay with the consumer.
func (c *Consumer) said(id int32) (types map[Partition]map[int64]AcknowledgeType, renew bool) {
	types = map[Partition]map[int64]AcknowledgeType{}
	for of, offsets := range c.held {
		for offset, h := range offsets {
			if h.node != id || h.said == undecided {
				continue
			}
			if types[of] == nil {
				types[of] = map[int64]AcknowledgeType{}
			}
			types[of][offset] = h.said
			if h.said == Renew {
				renew, h.said = true, undecided
				continue
			}
			delete(offsets, offset)
		}
	}
	return types, renew
}

// Commit sends what was said of records outside of any transaction (ShareAcknowledge). The error joins an Error for each partition that was refused; its records are
// delivered again, to this member or another.
func (c *Consumer) Commit(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, id := range c.holders() {
		n := c.nodes[id]
		for n.busy {
			if err := c.wait(ctx, 0); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
		types, renew := c.said(id)
		if len(types) == 0 {
			continue
		}
		errs = append(errs, c.acknowledge(ctx, n, n.session.epoch, types, renew))
	}
	return errors.Join(errs...)
}

// Renew begins the locks of all that the consumer holds and that nothing was said of anew, records that it has fetched and Poll has not given out yet among them,
// and sends that as Commit does, with what was said of others. Without such records it does nothing. Where a partition is refused, the locks of its records end as before.
func (c *Consumer) Renew(ctx context.Context) error {
	c.mu.Lock()
	for _, offsets := range c.held {
		for _, h := range offsets {
			if h.said == undecided {
				h.said = Renew
			}
		}
	}
	c.mu.Unlock()
	return c.Commit(ctx)
}

// AcquisitionLockTimeout is how long the group's members hold records before others may have them, as a broker said last (acquisitionLockTimeoutMs of the Java
// client). It is 0 before the first answer to a fetch.
func (c *Consumer) AcquisitionLockTimeout() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lock
}

// holders are the nodes that something is to be told.
func (c *Consumer) holders() (ids []int32) {
	seen := map[int32]bool{}
	for _, offsets := range c.held {
		for _, h := range offsets {
			if h.said != undecided && !seen[h.node] {
				seen[h.node] = true
				ids = append(ids, h.node)
			}
		}
	}
	return ids
}

// acknowledge sends a ShareAcknowledge in an epoch of the node's session. c.mu is held before and after, not meanwhile, and the node is busy.
func (c *Consumer) acknowledge(ctx context.Context, n *node, epoch int32, types map[Partition]map[int64]AcknowledgeType, renew bool) error {
	if epoch == 0 {
		return &Error{API: "ShareAcknowledge", Of: c.cfg.Group, Code: errorcode.ShareSessionNotFound, Message: fmt.Sprintf("the session with node %d was lost, and its records with it", n.id), Class: Abortable}
	}
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch, req.IsRenewAck = &c.group.GroupID, &c.group.MemberID, epoch, renew
	for p, offsets := range types {
		part := kmsg.ShareAcknowledgeRequestTopicPartition{Partition: p.Partition}
		for _, b := range batches(offsets) {
			part.AcknowledgementBatches = append(part.AcknowledgementBatches, kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{
				FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, AcknowledgeTypes: b.wireTypes(),
			})
		}
		i := topicAt(req.Topics, func(t kmsg.ShareAcknowledgeRequestTopic) bool { return t.TopicID == p.TopicID })
		if i == len(req.Topics) {
			req.Topics = append(req.Topics, kmsg.ShareAcknowledgeRequestTopic{TopicID: p.TopicID})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
	}
	n.busy = true
	lost := n.lost
	c.mu.Unlock()
	resp, err := c.askAcknowledge(ctx, n.id, req)
	c.mu.Lock()
	n.busy = false
	c.wake()
	if err == nil && n.lost != lost {
		return &Error{API: "ShareAcknowledge", Of: c.cfg.Group, Code: errorcode.ShareSessionNotFound, Message: fmt.Sprintf("the session with node %d was lost, and its records with it", n.id), Class: Abortable}
	}
	var refused *Error
	if errors.As(err, &refused) {
		return refused // nothing was sent
	}
	if err != nil {
		n.lose()
		delete(c.offers, n.id)
		return &Error{API: "ShareAcknowledge", Of: c.cfg.Group, Class: Abortable, Cause: err}
	}
	if resp.ErrorCode != errorcode.None {
		n.lose()
		return &Error{API: "ShareAcknowledge", Of: c.cfg.Group, Code: resp.ErrorCode, Message: textOf(resp.ErrorMessage), Class: Abortable}
	}
	if epoch != closing {
		n.session.answered(nil)
	}
	var errs []error
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			of := Partition{t.TopicID, c.routes.name(t.TopicID), p.Partition}
			delete(types, of)
			if p.ErrorCode != errorcode.None {
				errs = append(errs, &Error{API: "ShareAcknowledge", Of: of.String(), OfPartition: true, Code: p.ErrorCode, Message: textOf(p.ErrorMessage), Class: Abortable})
			}
		}
	}
	for of := range types {
		errs = append(errs, &Error{API: "ShareAcknowledge", Of: of.String(), OfPartition: true, Code: errorcode.UnknownServerError, Message: "the answer has no word of it", Class: Abortable})
	}
	return errors.Join(errs...)
}

// askAcknowledge sends a ShareAcknowledge to a node that has what it takes. An Error tells that it has not, and that nothing was sent.
func (c *Consumer) askAcknowledge(ctx context.Context, node int32, req *kmsg.ShareAcknowledgeRequest) (*kmsg.ShareAcknowledgeResponse, error) {
	if req.IsRenewAck {
		if err := c.offered(ctx, c.client, node, req.Key(), 2); err != nil {
			var e *Error
			if errors.As(err, &e) {
				e.Class = Abortable
			}
			return nil, err
		}
	}
	return ask[*kmsg.ShareAcknowledgeResponse](ctx, c.client, node, req)
}

// Close commits what was said of records, gives back the others and leaves the group. It does as much of that as the context has time for; the consumer is
// closed in any case.
func (c *Consumer) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.fatal == ErrClosed {
		c.mu.Unlock()
		return nil
	}
	c.fatal = ErrClosed
	c.wake()
	c.stopBeating()
	var errs []error
	for _, n := range c.nodes {
		for n.busy && ctx.Err() == nil {
			_ = c.wait(ctx, 0)
		}
		if n.session.epoch > 0 && ctx.Err() == nil {
			types, renew := c.said(n.id)
			errs = append(errs, c.acknowledge(ctx, n, closing, types, renew))
		}
	}
	c.mu.Unlock()
	select {
	case <-c.left:
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		errs = append(errs, c.leave(ctx))
	}
	c.stop()
	c.work.Wait()
	c.client.Close()
	c.coordination.Close()
	return errors.Join(append(errs, ctx.Err())...)
}
