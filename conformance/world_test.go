package conformance_test

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/clock"
	"kshare/conformance"
	"kshare/protocol"
)

// world is a kshare on virtual time, and a judge between it and its clients. It may change answers, as a broker might answer that kshare is not.
type world struct {
	*testing.T
	cluster *kshare.Cluster
	clock   *clock.Virtual
	judge   *conformance.Judge
	frames  []conformance.Frame
	links   []*link
	conns   uint64
	// edit changes answers before the judge and the client see them.
	edit func(q kmsg.Request, p kmsg.Response)
	// lose drops the answers of requests for ever.
	lose func(q kmsg.Request) bool
	host string
}

const topic = "orders"

func newWorld(t *testing.T, opts ...kshare.Option) *world {
	v := clock.NewVirtual(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	opts = append([]kshare.Option{
		kshare.WithInMemoryNetwork(), kshare.WithClock(v), kshare.WithTopic(topic, 2), kshare.WithConfig("group.share.record.lock.duration.ms", "15000"),
		kshare.WithConfig("group.initial.rebalance.delay.ms", "0"),
	}, opts...)
	c, err := kshare.Start(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return &world{T: t, cluster: c, clock: v, judge: conformance.New(conformance.Options{}), host: "10.0.0.1"}
}

func (w *world) observe(f conformance.Frame) {
	f.At = w.clock.Now()
	f.Bytes = slices.Clone(f.Bytes)
	w.frames = append(w.frames, f)
	w.judge.Observe(f)
}

func (w *world) report() *conformance.Report { return w.judge.Report(w.clock.Now()) }

// wait lets time pass, in steps that are short beside what anything waits for, and takes the answers that come.
func (w *world) wait(d time.Duration) {
	const step = 20 * time.Millisecond
	for ; d > 0; d -= step {
		w.clock.Advance(min(step, d))
		w.drain()
	}
}

func (w *world) drain() {
	for _, l := range w.links {
		l.drain()
	}
}

// link is a connection of a client.
type link struct {
	*world
	direct *kshare.Direct
	id     uint64
	node   int32
	client string
	corr   int32
	asked  []kmsg.Request
	corrs  []int32
	got    map[kmsg.Request]kmsg.Response
	closed bool
}

// dial opens a connection, without a word.
func (w *world) dial(node int32, client string) *link {
	d, err := w.cluster.OpenDirect(node)
	require.NoError(w, err)
	w.conns++
	l := &link{world: w, direct: d, id: w.conns, node: node, client: client, got: map[kmsg.Request]kmsg.Response{}}
	w.links = append(w.links, l)
	w.observe(conformance.Frame{Kind: conformance.Opened, Conn: l.id, Node: node, Host: w.host})
	return l
}

// hello dials and asks for the versions.
func (w *world) hello(node int32, client string) *link {
	l := w.dial(node, client)
	q := kmsg.NewPtrApiVersionsRequest()
	q.Version, q.ClientSoftwareName, q.ClientSoftwareVersion = 4, "reference", "1"
	l.call(q)
	return l
}

// frame is a request as bytes, without length.
func (l *link) frame(q kmsg.Request) []byte {
	l.corr++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(l.client)).AppendRequest(nil, q, l.corr)[4:]
}

// post sends a request and does not wait for its answer.
func (l *link) post(q kmsg.Request) {
	frame := l.frame(q)
	l.raw(frame, q)
}

// raw sends bytes as the request.
func (l *link) raw(frame []byte, q kmsg.Request) {
	l.observe(conformance.Frame{Kind: conformance.Received, Conn: l.id, Bytes: frame})
	l.asked = append(l.asked, q)
	l.corrs = append(l.corrs, int32(binary.BigEndian.Uint32(frame[4:])))
	l.direct.Send(slices.Clone(frame))
}

// drain takes the answers that are there.
func (l *link) drain() {
	for !l.closed {
		b, err := l.direct.Receive()
		if errors.Is(err, io.EOF) {
			l.end()
			return
		}
		if b == nil {
			return
		}
		q := l.asked[0]
		l.asked, l.corrs = l.asked[1:], l.corrs[1:]
		p := q.ResponseKind()
		body := b[4:]
		flexible := q.IsFlexible() && q.Key() != 18
		if flexible {
			body = body[1:]
		}
		require.NoError(l, p.ReadFrom(body))
		if l.lose != nil && l.lose(q) {
			continue
		}
		if l.edit != nil {
			l.edit(q, p)
		}
		out := slices.Clone(b[:4])
		if flexible {
			out = append(out, 0)
		}
		l.observe(conformance.Frame{Kind: conformance.Sent, Conn: l.id, Bytes: p.AppendTo(out)})
		l.got[q] = p
	}
}

// call sends a request and lets time pass until it is answered.
func (l *link) call(q kmsg.Request) kmsg.Response {
	l.post(q)
	return l.await(q)
}

func (l *link) await(q kmsg.Request) kmsg.Response {
	for range 5000 {
		l.drain()
		if p := l.got[q]; p != nil {
			return p
		}
		if l.closed || !slices.Contains(l.asked, q) {
			return nil
		}
		l.clock.Advance(10 * time.Millisecond)
	}
	require.Fail(l, "no answer", "%T", q)
	return nil
}

// close ends the connection from the client's side.
func (l *link) close() {
	if !l.closed {
		l.direct.Close()
		l.end()
	}
}

func (l *link) end() {
	if !l.closed {
		l.closed = true
		l.observe(conformance.Frame{Kind: conformance.Closed, Conn: l.id})
	}
}

type tp struct {
	id        [16]byte
	partition int32
}

// consumer is a share consumer that keeps every rule, unless it is told to do something else: a reference as small as it can be.
type consumer struct {
	*world
	name, group, member string
	links               map[int32]*link
	coordinator         int32
	epoch               int32
	names               []string
	rack                *string
	leaders             map[tp]int32
	topicIDs            map[string][16]byte
	assigned            []tp
	sessions            map[int32]*session
	beatAt              time.Time
	maxWait             int32
	beside              []*consumer // whose heartbeats go on while time passes
}

type session struct {
	epoch int32
	parts map[tp]bool
	held  map[tp][]kmsg.ShareFetchResponseTopicPartitionAcquiredRecord
}

func (w *world) consumer(name string) *consumer {
	members := map[string]string{"": "7e0a7c3c-2f6b-4d2e-9f1a-6a4b2f1f0c01", "b": "7e0a7c3c-2f6b-4d2e-9f1a-6a4b2f1f0c02"}
	id := members[""]
	if name != "a" {
		id = members["b"]
	}
	return &consumer{
		world: w, name: name, group: "workers", member: id, links: map[int32]*link{}, coordinator: -1, names: []string{topic},
		leaders: map[tp]int32{}, topicIDs: map[string][16]byte{}, sessions: map[int32]*session{}, maxWait: 100,
	}
}

// link is the connection to a node, opened where there is none.
func (c *consumer) link(node int32) *link {
	if l := c.links[node]; l != nil && !l.closed {
		return l
	}
	c.links[node] = c.hello(node, c.name)
	return c.links[node]
}

func (c *consumer) first() int32 { return c.cluster.InspectNodes()[0].ID }

// metadata asks who leads what.
func (c *consumer) metadata() {
	q := kmsg.NewPtrMetadataRequest()
	q.Version = 12
	for _, n := range c.names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &n
		q.Topics = append(q.Topics, t)
	}
	p := c.link(c.first()).call(q).(*kmsg.MetadataResponse)
	for _, t := range p.Topics {
		if t.Topic != nil {
			c.topicIDs[*t.Topic] = t.TopicID
		}
		for _, pp := range t.Partitions {
			c.leaders[tp{t.TopicID, pp.Partition}] = pp.Leader
		}
	}
}

// find asks for the coordinator.
func (c *consumer) find() {
	for range 50 {
		q := kmsg.NewPtrFindCoordinatorRequest()
		q.Version, q.CoordinatorKeys = 6, []string{c.group}
		p := c.link(c.first()).call(q).(*kmsg.FindCoordinatorResponse)
		if p.Coordinators[0].ErrorCode == 0 {
			c.coordinator = p.Coordinators[0].NodeID
			return
		}
		c.wait(100 * time.Millisecond)
	}
}

func (c *consumer) heartbeat(epoch int32) *kmsg.ShareGroupHeartbeatRequest {
	q := kmsg.NewPtrShareGroupHeartbeatRequest()
	q.Version, q.GroupID, q.MemberID, q.MemberEpoch = 1, c.group, c.member, epoch
	if epoch == 0 {
		q.SubscribedTopicNames, q.RackID = c.names, c.rack
	}
	return q
}

// beat sends a heartbeat and takes in the answer.
func (c *consumer) beat(q *kmsg.ShareGroupHeartbeatRequest) *kmsg.ShareGroupHeartbeatResponse {
	c.beatAt = c.clock.Now()
	p, _ := c.link(c.coordinator).call(q).(*kmsg.ShareGroupHeartbeatResponse)
	if p == nil || p.ErrorCode != 0 {
		return p
	}
	c.epoch = p.MemberEpoch
	if p.Assignment != nil {
		c.assigned = nil
		for _, t := range p.Assignment.TopicPartitions {
			for _, i := range t.Partitions {
				c.assigned = append(c.assigned, tp{t.TopicID, i})
			}
		}
	}
	return p
}

// join joins and waits for an assignment.
func (c *consumer) join() {
	if c.coordinator < 0 {
		c.find()
		c.metadata()
	}
	p := c.beat(c.heartbeat(0))
	require.NotNil(c, p)
	for range 20 {
		if len(c.assigned) > 0 {
			return
		}
		c.pass(5 * time.Second)
	}
	require.Fail(c, "no assignment")
}

// pass lets time pass with heartbeats.
func (c *consumer) pass(d time.Duration) {
	for ; d > 0; d -= time.Second {
		c.wait(min(d, time.Second))
		for _, x := range append([]*consumer{c}, c.beside...) {
			if x.clock.Now().Sub(x.beatAt) >= 5*time.Second {
				x.beat(x.heartbeat(x.epoch))
			}
		}
	}
}

// share makes the next ShareFetch for a node, without acknowledgements.
func (c *consumer) share(node int32) *kmsg.ShareFetchRequest {
	q := kmsg.NewPtrShareFetchRequest()
	q.Version, q.GroupID, q.MemberID = 2, &c.group, &c.member
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.MaxRecords, q.BatchSize = c.maxWait, 1, 50<<20, 500, 500
	s := c.sessions[node]
	if s == nil {
		s = &session{parts: map[tp]bool{}, held: map[tp][]kmsg.ShareFetchResponseTopicPartitionAcquiredRecord{}}
		c.sessions[node] = s
	}
	q.ShareSessionEpoch = s.epoch
	for _, a := range c.assigned {
		if c.leaders[a] == node && !s.parts[a] {
			add(q, a)
		}
	}
	for p := range s.parts {
		if !slices.Contains(c.assigned, p) || c.leaders[p] != node {
			forget(q, p)
		}
	}
	return q
}

func add(q *kmsg.ShareFetchRequest, p tp) *kmsg.ShareFetchRequestTopicPartition {
	for i := range q.Topics {
		if q.Topics[i].TopicID == p.id {
			q.Topics[i].Partitions = append(q.Topics[i].Partitions, kmsg.ShareFetchRequestTopicPartition{Partition: p.partition})
			return &q.Topics[i].Partitions[len(q.Topics[i].Partitions)-1]
		}
	}
	q.Topics = append(q.Topics, kmsg.ShareFetchRequestTopic{TopicID: p.id, Partitions: []kmsg.ShareFetchRequestTopicPartition{{Partition: p.partition}}})
	return &q.Topics[len(q.Topics)-1].Partitions[0]
}

func forget(q *kmsg.ShareFetchRequest, p tp) {
	for i := range q.ForgottenTopicsData {
		if q.ForgottenTopicsData[i].TopicID == p.id {
			q.ForgottenTopicsData[i].Partitions = append(q.ForgottenTopicsData[i].Partitions, p.partition)
			return
		}
	}
	q.ForgottenTopicsData = append(q.ForgottenTopicsData, kmsg.ShareFetchRequestForgottenTopicsData{TopicID: p.id, Partitions: []int32{p.partition}})
}

// poll fetches from a node and takes in what came.
func (c *consumer) poll(node int32) *kmsg.ShareFetchResponse { return c.send(node, c.share(node)) }

// send sends a ShareFetch to a node and takes in what came.
func (c *consumer) send(node int32, q *kmsg.ShareFetchRequest) *kmsg.ShareFetchResponse {
	p, _ := c.link(node).call(q).(*kmsg.ShareFetchResponse)
	c.took(node, q, p)
	return p
}

func (c *consumer) took(node int32, q *kmsg.ShareFetchRequest, p *kmsg.ShareFetchResponse) {
	s := c.sessions[node]
	if p == nil || p.ErrorCode != 0 {
		return
	}
	s.next(q.ShareSessionEpoch)
	for _, t := range q.Topics {
		for _, pp := range t.Partitions {
			s.parts[tp{t.TopicID, pp.Partition}] = true
		}
	}
	for _, t := range q.ForgottenTopicsData {
		for _, i := range t.Partitions {
			delete(s.parts, tp{t.TopicID, i})
		}
	}
	for _, t := range p.Topics {
		for _, pp := range t.Partitions {
			at := tp{t.TopicID, pp.Partition}
			s.held[at] = append(s.held[at], pp.AcquiredRecords...)
		}
	}
}

func (s *session) next(epoch int32) {
	s.epoch = epoch + 1
	if epoch == 1<<31-1 {
		s.epoch = 1
	}
}

// batches acknowledges what is held of a partition with one type.
func batches(ranges []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord, kind int8) (all []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch) {
	for _, r := range ranges {
		all = append(all, kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{FirstOffset: r.FirstOffset, LastOffset: r.LastOffset, AcknowledgeTypes: []int8{kind}})
	}
	return all
}

// acknowledgement makes a ShareAcknowledge for all that is held of a node.
func (c *consumer) acknowledgement(node int32, kind int8) *kmsg.ShareAcknowledgeRequest {
	s := c.sessions[node]
	q := kmsg.NewPtrShareAcknowledgeRequest()
	q.Version, q.GroupID, q.MemberID, q.ShareSessionEpoch = 2, &c.group, &c.member, s.epoch
	for _, a := range c.order(s) {
		i := slices.IndexFunc(q.Topics, func(t kmsg.ShareAcknowledgeRequestTopic) bool { return t.TopicID == a.id })
		if i < 0 {
			q.Topics = append(q.Topics, kmsg.ShareAcknowledgeRequestTopic{TopicID: a.id})
			i = len(q.Topics) - 1
		}
		q.Topics[i].Partitions = append(q.Topics[i].Partitions, kmsg.ShareAcknowledgeRequestTopicPartition{Partition: a.partition, AcknowledgementBatches: batches(s.held[a], kind)})
	}
	return q
}

func (c *consumer) order(s *session) (all []tp) {
	for a, held := range s.held {
		if len(held) > 0 {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b tp) int { return int(a.partition - b.partition) })
	return all
}

// sendAck sends a ShareAcknowledge and takes in the answer.
func (c *consumer) sendAck(node int32, q *kmsg.ShareAcknowledgeRequest) *kmsg.ShareAcknowledgeResponse {
	p, _ := c.link(node).call(q).(*kmsg.ShareAcknowledgeResponse)
	if p != nil && p.ErrorCode == 0 {
		c.sessions[node].next(q.ShareSessionEpoch)
	}
	return p
}

// accept accepts all that is held of a node.
func (c *consumer) accept(node int32) {
	c.sendAck(node, c.acknowledgement(node, 1))
	clear(c.sessions[node].held)
}

// steady joins, fetches and accepts ten records of each partition.
func (c *consumer) steady() {
	c.produce(0, 10)
	c.produce(1, 10)
	c.join()
	for _, n := range c.nodes() {
		c.poll(n)
		c.poll(n)
		if len(c.order(c.sessions[n])) > 0 {
			c.accept(n)
		}
	}
}

// hold fetches until records are held of a node.
func (c *consumer) hold(node int32) tp {
	for range 5 {
		c.poll(node)
		if all := c.order(c.sessions[node]); len(all) > 0 {
			return all[0]
		}
	}
	require.Fail(c, "no records")
	return tp{}
}

// nodes are the nodes that lead what is assigned, and those that a session is open with.
func (c *consumer) nodes() (all []int32) {
	for n, s := range c.sessions {
		if s.epoch > 0 {
			all = append(all, n)
		}
	}
	for _, a := range c.assigned {
		if n := c.leaders[a]; !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// leave closes sessions, leaves and disconnects.
func (c *consumer) leave() {
	for _, n := range c.nodes() {
		if s := c.sessions[n]; s != nil && s.epoch > 0 {
			q := c.acknowledgement(n, 1)
			q.ShareSessionEpoch = -1
			c.link(n).call(q)
			s.epoch = -1
		}
	}
	c.beat(c.heartbeat(-1))
	c.disconnect()
}

func (c *consumer) disconnect() {
	for _, n := range c.cluster.InspectNodes() {
		if l := c.links[n.ID]; l != nil {
			l.close()
		}
	}
}

// produce writes records to a partition of the topic in one batch.
func (w *world) produce(partition int32, n int) {
	w.produceBatch(topic, partition, w.batch(n))
}

// batch makes a batch of records, which end may change.
func (w *world) batch(n int) []byte {
	b := protocol.NewBatchBuilder()
	for range n {
		require.NoError(w, b.Append(w.clock.Now().UnixMilli(), nil, []byte("value")))
	}
	out, err := b.Finish()
	require.NoError(w, err)
	return out
}

func (w *world) produceBatch(topic string, partition int32, batch []byte) {
	var leader int32
	for _, t := range w.cluster.InspectTopics() {
		if t.Name == topic {
			leader = t.Partitions[partition].Leader
		}
	}
	l := w.hello(leader, "producer")
	p := l.call(produceRequest(9, topic, partition, batch)).(*kmsg.ProduceResponse)
	require.Zero(w, p.Topics[0].Partitions[0].ErrorCode)
	l.close()
}

func produceRequest(version int16, topic string, partition int32, batch []byte) *kmsg.ProduceRequest {
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.Acks, q.TimeoutMillis = version, -1, 1000
	q.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: batch}}}}
	return q
}
