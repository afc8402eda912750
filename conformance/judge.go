package conformance

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/fields"
)

// Options are what a judge is made with.
type Options struct {
	// APIs are those that the cluster has.
	APIs protocol.Catalog
	// Grace is how long a client may act on what it knew before an answer, 0 for DefaultGrace.
	Grace time.Duration
}

// DefaultGrace is how long a client may act on old knowledge after an answer is written.
const DefaultGrace = 500 * time.Millisecond

// Bounds of what a judge remembers.
const (
	maxConns      = 20_000  // connections at a time
	maxMembers    = 10_000  // members of share groups
	maxClients    = 10_000  // clients, by host and client id
	maxInFlight   = 1_000   // requests of a connection that wait for their answers
	maxEntries    = 200_000 // acquired offsets
	maxLeaders    = 100_000 // partitions of a client whose leaders it was told
	maxDue        = 100_000 // looks at a later time
	maxGroups     = 10_000  // members of consumer groups, fetch sessions, producers, transactional ids: each
	maxRange      = 100_000 // offsets of one range
	maxNames      = 10_000  // coordinators and topics of a client
	maxRequestMax = 4 << 10 // bytes of a decoded request in evidence
)

// Judge judges the clients of a cluster. It belongs to one goroutine.
type Judge struct {
	apis  protocol.Catalog
	grace time.Duration

	tallies []tally // as Rules

	first, now time.Time
	frame      int // number of the frame at hand, from 1 on

	// What is looked at, for evidence.
	acting  bool // a frame is, not the time
	current *conn
	asking  *request

	conns    map[uint64]*conn
	clients  bounded[string, *client] // by host and client id
	members  bounded[memberKey, *member]
	byID     bounded[string, *member] // by member id alone: the latest
	acquired []acquired               // entries in the order in which they came to be
	leaders  int                      // partitions whose leaders clients were told
	nodes    map[int32]bool

	groups    groupModel
	producers producerModel
	ktx       ktxModel

	due dueHeap
	seq int
}

// New makes a judge that has seen nothing.
func New(o Options) *Judge {
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	return &Judge{
		apis: o.APIs, grace: o.Grace, tallies: make([]tally, len(Rules)),
		conns: map[uint64]*conn{}, clients: newBounded[string, *client](maxClients), members: newBounded[memberKey, *member](maxMembers),
		byID: newBounded[string, *member](maxMembers), nodes: map[int32]bool{},
		groups: newGroupModel(), producers: newProducerModel(), ktx: newKTXModel(),
	}
}

// mark is a frame and its time. The zero mark stands for none.
type mark struct {
	no int
	at time.Time
}

func (m mark) is() bool { return m.no > 0 }

func (j *Judge) mark() mark { return mark{j.frame, j.now} }

// old tells whether a client must know by now what it was told then.
func (j *Judge) old(m mark) bool { return m.is() && j.now.Sub(m.at) > j.grace }

// Observe takes in a frame. Times do not go back: a frame that is earlier than the last counts as of the same time.
func (j *Judge) Observe(f Frame) {
	j.pass(f.At)
	j.frame++
	j.acting = true
	defer func() { j.acting, j.current, j.asking = false, nil, nil }()
	if f.Kind == Opened {
		j.open(&f)
		return
	}
	c := j.conns[f.Conn]
	if c == nil {
		return // of a connection that was there before the judge, or beyond its bounds
	}
	j.current = c
	switch f.Kind {
	case Received:
		j.receive(c, f.Bytes)
	case Sent:
		j.send(c, f.Bytes)
	case Closed:
		j.close(c)
	}
}

// pass lets time pass: what is to be looked at on the way is.
func (j *Judge) pass(at time.Time) {
	if j.first.IsZero() {
		j.first, j.now = at, at
	}
	for len(j.due) > 0 && !j.due[0].at.After(at) {
		d := heap.Pop(&j.due).(due)
		j.now = d.at
		d.look(&exam{j, d.rule, &j.tallies[d.index]})
	}
	if at.After(j.now) {
		j.now = at
	}
}

// later has a rule look at something at a later time, unless too much waits to be looked at already.
func (x *exam) later(after time.Duration, look func(*exam)) {
	if len(x.due) >= maxDue {
		return
	}
	x.seq++
	heap.Push(&x.due, due{x.now.Add(after), x.seq, x.rule, int(x.t.index), look})
}

// due is a look of a rule at a later time.
type due struct {
	at    time.Time
	seq   int
	rule  *Rule
	index int
	look  func(*exam)
}

type dueHeap []due

func (h dueHeap) Len() int { return len(h) }
func (h dueHeap) Less(a, b int) bool {
	if h[a].at.Equal(h[b].at) {
		return h[a].seq < h[b].seq
	}
	return h[a].at.Before(h[b].at)
}
func (h dueHeap) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h *dueHeap) Push(x any)   { *h = append(*h, x.(due)) }
func (h *dueHeap) Pop() any {
	all := *h
	last := all[len(all)-1]
	all[len(all)-1] = due{}
	*h = all[:len(all)-1]
	return last
}

// each calls a kind of check of each rule that has one.
func (j *Judge) each(f func(x *exam, c *checks)) {
	for i := range Rules {
		j.tallies[i].index = i
		f(&exam{j, &Rules[i], &j.tallies[i]}, &Rules[i].checks)
	}
}

// conn is a connection.
type conn struct {
	id       uint64
	node     int32
	host     string
	opened   mark
	clientID string
	client   *client // nil before the first request
	requests int

	versions    map[int16][2]int16 // what ApiVersions was answered with, nil before
	versionsAt  mark
	flight      []*request // whose answers are to come
	lost        bool       // answers cannot be told from each other any more
	silentUntil time.Time  // by a throttle
	throttled   mark
	gone        bool
	firstID     string    // the client id of the first request
	beats       *member   // whose heartbeat came over it last
	speakers    []*member // whose requests did
	speaks      map[*member]bool

	nextBeats    *nextMember                  // whose heartbeat of a consumer group came over it last
	metadata     ring                         // requests for it
	given        map[string]givenID           // member ids that MEMBER_ID_REQUIRED gave, by group
	positions    map[namedPartition]committed // where the records of the last Fetch ended
	fetchRefused mark                         // the last Fetch was answered that its session is unknown
	staging      []string                     // transactional ids of its TxnShareAcknowledge
}

// request is a request.
type request struct {
	mark
	conn    *conn
	header  protocol.RequestHeader
	api     *protocol.API
	flex    bool
	q       kmsg.Request // nil where it cannot be decoded
	bad     string       // why it is malformed, "" where it is not
	share   *shareRequest
	member  *member  // of a share group
	session *session // of ShareFetch and ShareAcknowledge, as it was when the request came; nil for none
	next    int32    // the epoch that the session expected
	extra   any      // what the model of an API keeps until the answer
}

// answer is an answer.
type answer struct {
	mark
	*request
	p    kmsg.Response // nil where it cannot be decoded
	took time.Duration
}

func (a *answer) from() int { return a.request.no }

// client is a client: what connections of a host and a client id have in common.
type client struct {
	host, id string
	conns    int
	peak     map[int32]int // most connections at a time, by node
	perNode  map[int32]int
	members  map[*member]bool
	leaders  map[topicPartition]*leader
	coords   bounded[string, *coordinator] // by key type and key
	ids      bounded[string, *topicID]     // of topics, by name
	asked    mark                          // the last Metadata request
	reopened map[int32]*reopening
	next     map[*nextMember]bool // members of consumer groups
	reset    mark                 // the last request for offsets
}

// topicID is the id of a topic that a client was told, and the one before.
type topicID struct {
	id, before [16]byte
	told       mark
}

// coordinator is what FindCoordinator was answered with.
type coordinator struct {
	node, before int32
	told         mark
}

// open takes in a connection.
func (j *Judge) open(f *Frame) {
	if len(j.conns) >= maxConns {
		return
	}
	c := &conn{id: f.Conn, node: f.Node, host: f.Host, opened: j.mark()}
	j.conns[f.Conn] = c
	j.current = c
	j.nodes[f.Node] = true
	j.each(func(x *exam, of *checks) {
		if of.opened != nil {
			of.opened(x, c)
		}
	})
}

// receive takes in a request.
func (j *Judge) receive(c *conn, frame []byte) {
	r := &request{mark: j.mark(), conn: c}
	j.decode(r, frame)
	if r.api == nil {
		r.api = &protocol.API{Key: r.header.Key, Name: fmt.Sprintf("API %d", r.header.Key), FirstFlexible: -1}
	}
	j.asking = r
	if c.client == nil || c.clientID != r.header.ClientID {
		j.attribute(c, r.header.ClientID)
	}
	if c.requests++; c.requests == 1 {
		c.firstID = r.header.ClientID
	}
	j.prepare(r)
	j.each(func(x *exam, of *checks) {
		if of.request != nil {
			of.request(x, r)
		}
	})
	j.take(r)
	if q, ok := r.q.(*kmsg.ProduceRequest); ok {
		for i := range q.Topics {
			for k := range q.Topics[i].Partitions {
				q.Topics[i].Partitions[k].Records = nil // which are the caller's
			}
		}
		if q.Acks == 0 {
			return
		}
	}
	if len(c.flight) >= maxInFlight {
		c.lost = true
		c.flight = nil
	}
	if !c.lost {
		c.flight = append(c.flight, r)
	}
}

// decode reads a request.
func (j *Judge) decode(r *request, frame []byte) {
	var err error
	if r.header, err = protocol.ParseRequestStart(frame); err != nil {
		r.bad = err.Error()
		return
	}
	if r.api = j.apis.ByKey(r.header.Key); r.api == nil {
		return
	}
	r.flex = r.api.IsFlexible(r.header.Version)
	body, err := protocol.ParseRequestRest(&r.header, frame, r.flex)
	if err != nil {
		r.bad = err.Error()
		return
	}
	q := r.api.NewRequest(r.header.Version)
	if q == nil || r.header.Version < 0 || r.header.Version > q.MaxVersion() {
		return
	}
	rest, err := fields.Trailing(r.api, r.header.Version, body)
	switch {
	case err != nil:
		r.bad = err.Error()
		return
	case rest > 0:
		r.bad = fmt.Sprintf("%d bytes are left behind the last field", rest)
	}
	if err := q.ReadFrom(body); err != nil {
		r.bad = "its fields cannot be decoded"
		return
	}
	if r.bad == "" {
		r.bad = malformedText(q)
	}
	r.q = q
}

// attribute finds out whose connection it is.
func (j *Judge) attribute(c *conn, id string) {
	j.detach(c)
	c.clientID = id
	key := c.host + "|" + id
	cl, ok := j.clients.get(key)
	if !ok {
		cl = &client{
			host: c.host, id: id, peak: map[int32]int{}, perNode: map[int32]int{}, members: map[*member]bool{},
			leaders: map[topicPartition]*leader{}, coords: newBounded[string, *coordinator](maxNames), ids: newBounded[string, *topicID](maxNames),
		}
		if _, old, evicted := j.clients.put(key, cl); evicted {
			j.leaders -= len(old.leaders)
		}
	}
	c.client = cl
	c.client.conns++
	c.client.perNode[c.node]++
	c.client.peak[c.node] = max(c.client.peak[c.node], c.client.perNode[c.node])
}

func (j *Judge) detach(c *conn) {
	if c.client != nil {
		c.client.conns--
		c.client.perNode[c.node]--
	}
}

// send takes in an answer.
func (j *Judge) send(c *conn, frame []byte) {
	if c.lost || len(c.flight) == 0 || len(frame) < 4 {
		return
	}
	r := c.flight[0]
	if int32(binary.BigEndian.Uint32(frame)) != r.header.CorrelationID {
		c.lost = true
		return
	}
	c.flight = c.flight[1:]
	j.asking = r
	a := &answer{mark: j.mark(), request: r, took: j.now.Sub(r.at)}
	body := frame[4:]
	var err error
	if r.flex && r.header.Key != apiVersionsKey {
		body, err = protocol.SkipTags(body)
	}
	if err == nil && r.q != nil { // an answer to what is no request tells nothing
		if p := r.api.NewResponse(protocol.AnswerVersion(r.header.Key, r.header.Version, body)); p != nil && p.ReadFrom(body) == nil {
			a.p = p
		}
	}
	j.each(func(x *exam, of *checks) {
		if of.answer != nil {
			of.answer(x, a)
		}
	})
	j.learn(a)
	j.each(func(x *exam, of *checks) {
		if of.answered != nil {
			of.answered(x, a)
		}
	})
}

// close takes in the end of a connection.
func (j *Judge) close(c *conn) {
	c.gone = true
	j.each(func(x *exam, of *checks) {
		if of.closed != nil {
			of.closed(x, c)
		}
	})
	j.lose(c)
	j.detach(c)
	delete(j.conns, c.id)
}

// ring counts moments in a window.
type ring struct{ at []mark }

// add adds a moment and returns how many there are within the window up to it; at most most are kept.
func (r *ring) add(m mark, window time.Duration, most int) int {
	r.at = append(r.at, m)
	for len(r.at) > most || len(r.at) > 0 && m.at.Sub(r.at[0].at) > window {
		r.at = r.at[1:]
	}
	return len(r.at)
}

func (r *ring) first() int {
	if len(r.at) == 0 {
		return 0
	}
	return r.at[0].no
}

func (r *ring) clear() { r.at = r.at[:0] }
