package scenario

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/protocol/errorcode"
)

// world is what a scenario knows of its cluster: topics, members, producers and the connections it has.
type world struct {
	ctx       context.Context // the run ends with it
	target    Target
	prefix    string // of the names of topics, groups and the like on the wire
	ready     bool   // set up
	names     *names
	nodes     map[int32]string // addresses by id
	offered   map[int16][2]int16
	conns     map[connKey]*link
	topics    map[string][16]byte   // latest ids by name
	made      map[string][][16]byte // all ids by name on the wire, in the order of their appearance
	byID      map[[16]byte]string
	members   map[memberKey]*member
	produced  int // bytes of keys and values
	producers map[string]*producer
	// transactions tells whether the transaction coordinators were made.
	transactions bool
	strands      []*strand // in the background, in the order of their start
	started      time.Time // the time at which the scenario began
	writeFaults  map[string]*kshare.ShareWriteFault
	wake         time.Time // when a waiting command is to be looked at again, zero for none
}

type connKey struct {
	client string
	node   int32
}

// link is a connection of a client to a node and how far it is.
type link struct {
	conn
	client      string
	node        int32
	correlation int32
	// asked and answered count the requests: they are answered in their order.
	asked, answered int
}

func newWorld(t Target, prefix string) *world {
	return &world{ctx: context.Background(), target: t, started: t.now(), prefix: prefix, names: newNames(prefix), conns: map[connKey]*link{}, topics: map[string][16]byte{}, made: map[string][][16]byte{},
		byID: map[[16]byte]string{}, members: map[memberKey]*member{}, producers: map[string]*producer{}}
}

// fingerprint makes ids out of names.
func fingerprint(s string) [32]byte { return sha256.Sum256([]byte(s)) }

// wire is a script's name as brokers know it.
func (w *world) wire(name string) string {
	if name == "" || strings.HasPrefix(name, "__") {
		return name
	}
	return w.prefix + name
}

// Kinds of coordinators (FindCoordinatorRequest.CoordinatorType).
const (
	groupCoordinator       = 0
	transactionCoordinator = 1
	shareCoordinator       = 2
)

// admin is the client that does what is no member's business.
const admin = "admin"

// as is the client id of what the step does itself: one in the background has connections of its own, so that others need not wait for it.
func (s *step) as(client string) string {
	if s.behind != "" {
		return client + "&" + s.behind
	}
	return client
}

// answerLimit is how long an answer is waited for.
const answerLimit = time.Minute

// step is one command on its way. It runs as a coroutine: where it has to wait it yields.
type step struct {
	*world
	out    strings.Builder
	yield  func(struct{}) bool
	behind string // the name under which it runs in the background, "" otherwise
	began  time.Time
}

func (s *step) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// errStopped ends a command that nobody waits for any more.
var errStopped = errors.New("the scenario has ended")

// pause lets other things happen.
func (s *step) pause() error {
	if !s.yield(struct{}{}) {
		return errStopped
	}
	return nil
}

// sleep lets time pass.
func (s *step) sleep(d time.Duration) error {
	for until := s.target.now().Add(d); s.target.now().Before(until); {
		s.wakeBy(until)
		if err := s.pause(); err != nil {
			return err
		}
	}
	return nil
}

// noAnswer is why a request has none, a result of a command.
type noAnswer struct{ why string }

func (n noAnswer) Error() string { return n.why }

// wakeBy asks to be looked at by a time.
func (w *world) wakeBy(t time.Time) {
	if w.wake.IsZero() || t.Before(w.wake) {
		w.wake = t
	}
}

// link returns the connection of a client to a node, 0 for any, which is opened where there is none.
func (s *step) link(client string, node int32) (*link, error) {
	k := connKey{client, node}
	if l := s.conns[k]; l != nil {
		return l, nil
	}
	c, err := s.target.open(node, s.nodes[node])
	if err != nil {
		return nil, noAnswer{"no connection"}
	}
	l := &link{conn: c, client: client, node: node}
	s.conns[k] = l
	return l, nil
}

// drop closes a client's connection to a node, if there is one.
func (w *world) drop(client string, node int32) bool {
	k := connKey{client, node}
	l := w.conns[k]
	if l == nil {
		return false
	}
	l.close()
	delete(w.conns, k)
	return true
}

// exchange sends a request as it stands and returns the frame that it is answered with.
func (s *step) exchange(l *link, frame []byte) ([]byte, error) {
	l.send(frame)
	l.asked++
	turn := l.asked
	until := s.target.now().Add(answerLimit)
	for {
		var answer []byte
		var err error
		if l.answered == turn-1 {
			answer, err = l.receive()
		}
		if answer != nil {
			l.answered++
			return answer, nil
		}
		if err != nil {
			l.answered++ // who waits for the next answer finds the end too
			if s.conns[connKey{l.client, l.node}] == l {
				s.drop(l.client, l.node)
			}
			if errors.Is(err, io.EOF) {
				return nil, noAnswer{"connection closed"}
			}
			return nil, err
		}
		if !s.target.now().Before(until) {
			l.answered++
			s.drop(l.client, l.node)
			return nil, noAnswer{"no answer within " + show(answerLimit)}
		}
		s.wakeBy(until)
		if err := s.pause(); err != nil {
			return nil, err
		}
	}
}

// ask sends a request, in the version that it has, and returns the answer. An error that is a noAnswer is a result.
func ask[R kmsg.Response](s *step, client string, node int32, q kmsg.Request) (r R, err error) {
	l, err := s.link(client, node)
	if err != nil {
		return r, err
	}
	l.correlation++
	asked := l.correlation
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID(client))
	answer, err := s.exchange(l, f.AppendRequest(nil, q, asked)[4:])
	if err != nil {
		return r, err
	}
	p, correlation, err := decodeAnswer(q, answer)
	if err != nil {
		return r, noAnswer{fmt.Sprintf("an answer that cannot be read: %v", err)}
	}
	if correlation != asked {
		return r, noAnswer{fmt.Sprintf("an answer to request %d, not %d", correlation, asked)}
	}
	return p.(R), nil
}

// tell sends a request that has no answer.
func (s *step) tell(client string, node int32, q kmsg.Request) error {
	l, err := s.link(client, node)
	if err != nil {
		return err
	}
	l.correlation++
	l.send(kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).AppendRequest(nil, q, l.correlation)[4:])
	return s.settle()
}

// settleTime is how long a real Kafka may take for what it does not answer to.
const settleTime = 200 * time.Millisecond

// settle waits, on a real Kafka, until what was not answered is done.
func (s *step) settle() error {
	if s.target.virtual() {
		return nil
	}
	return s.sleep(settleTime)
}

// decodeAnswer decodes a frame without its length.
func decodeAnswer(q kmsg.Request, frame []byte) (kmsg.Response, int32, error) {
	p := q.ResponseKind()
	if len(frame) < 4 {
		return nil, 0, io.ErrUnexpectedEOF
	}
	correlation := int32(frame[0])<<24 | int32(frame[1])<<16 | int32(frame[2])<<8 | int32(frame[3])
	body := frame[4:]
	if q.Key() == apiVersionsKey && len(body) >= 2 && body[0] == 0 && body[1] == byte(errorcode.UnsupportedVersion) {
		p.SetVersion(0)
	}
	if p.IsFlexible() && q.Key() != apiVersionsKey {
		if len(body) == 0 || body[0] != 0 {
			return nil, 0, errors.New("a header with tags")
		}
		body = body[1:]
	}
	return p, correlation, p.ReadFrom(body)
}

const apiVersionsKey = 18

// latest sets a request to the newest version that the broker offers and this program knows.
func (s *step) latest(q kmsg.Request) error {
	if s.offered == nil {
		v := kmsg.NewPtrApiVersionsRequest()
		p, err := ask[*kmsg.ApiVersionsResponse](s, s.as(admin), 0, v)
		if err != nil {
			return err
		}
		s.offered = map[int16][2]int16{}
		for _, k := range p.ApiKeys {
			s.offered[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
		}
	}
	o, ok := s.offered[q.Key()]
	if !ok {
		return noAnswer{kmsg.NameForKey(q.Key()) + " is not offered"}
	}
	q.SetVersion(min(o[1], q.MaxVersion()))
	return nil
}

// version sets a request to the version that the option asks for, or to the newest.
func (s *step) version(q kmsg.Request, c *call) error {
	if err := s.latest(q); err != nil {
		return err
	}
	v, err := c.numberOption("version", int64(q.GetVersion()), 0, int64(q.MaxVersion()))
	q.SetVersion(int16(v))
	return err
}

// request asks with the newest version.
func request[R kmsg.Response](s *step, client string, node int32, q kmsg.Request) (r R, err error) {
	if err := s.latest(q); err != nil {
		return r, err
	}
	return ask[R](s, client, node, q)
}

// setUp makes the cluster ready: it starts it, learns its nodes and has its coordinators made, which the first requests would otherwise show.
func (s *step) setUp(with settings) error {
	if s.ready {
		return mistakef("cluster comes before every other command")
	}
	s.ready = true
	if err := s.target.setUp(with); err != nil {
		return err
	}
	if err := s.learnNodes(); err != nil {
		return err
	}
	for _, kind := range []int8{groupCoordinator, shareCoordinator} {
		if err := s.makeCoordinator(kind); err != nil {
			return err
		}
	}
	return nil
}

func (s *step) learnNodes() error {
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = []kmsg.MetadataRequestTopic{}
	p, err := request[*kmsg.MetadataResponse](s, s.as(admin), 0, q)
	if err != nil {
		return err
	}
	s.nodes = map[int32]string{}
	for _, b := range p.Brokers {
		s.nodes[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	return nil
}

// settlePause is between questions for something that takes a broker a moment, settleLimit how often it is asked.
const (
	settlePause = 100 * time.Millisecond
	settleLimit = 300
)

// until asks again until something is so.
func (s *step) until(what string, so func() (bool, error)) error {
	for range settleLimit {
		ok, err := so()
		if ok || err != nil {
			return err
		}
		if err := s.sleep(settlePause); err != nil {
			return err
		}
	}
	return noAnswer{fmt.Sprintf("%s, which was waited for %s", what, show(settleLimit*settlePause))}
}

// makeCoordinator has the topic of a kind of coordinators made.
func (s *step) makeCoordinator(kind int8) error {
	key := "any"
	if kind == shareCoordinator {
		key = "any:" + base64.RawURLEncoding.EncodeToString(make([]byte, 16)) + ":0"
	}
	return s.until("no coordinator", func() (bool, error) {
		code, _, err := s.findCoordinator(kind, key)
		return code != errorcode.CoordinatorNotAvailable, err
	})
}

// findCoordinator asks for the node that is in charge of a key.
func (s *step) findCoordinator(kind int8, key string) (code int16, node int32, err error) {
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.CoordinatorType, q.CoordinatorKeys = kind, []string{key}
	p, err := request[*kmsg.FindCoordinatorResponse](s, s.as(admin), 0, q)
	if err != nil {
		return 0, 0, err
	}
	if len(p.Coordinators) != 1 {
		return p.ErrorCode, p.NodeID, nil
	}
	return p.Coordinators[0].ErrorCode, p.Coordinators[0].NodeID, nil
}

// coordinator is the node that coordinates a group.
func (s *step) coordinator(group string) (int32, error) {
	return s.coordinatorOf(groupCoordinator, s.wire(group))
}

// coordinatorOf is the node that coordinates a key.
func (s *step) coordinatorOf(kind int8, key string) (int32, error) {
	if len(s.nodes) <= 1 {
		return s.only(), nil
	}
	code, node, err := s.findCoordinator(kind, key)
	if err != nil {
		return 0, err
	}
	if code != 0 {
		return 0, noAnswer{"FindCoordinator: " + failure(code, nil)}
	}
	return node, nil
}

// only is the id of the only node.
func (w *world) only() int32 {
	for id := range w.nodes {
		return id
	}
	return 0
}

// metadata asks for a topic.
func (s *step) metadata(topic string) (*kmsg.MetadataResponseTopic, error) {
	q := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(s.wire(topic))
	q.Topics, q.AllowAutoTopicCreation = []kmsg.MetadataRequestTopic{t}, false
	p, err := request[*kmsg.MetadataResponse](s, s.as(admin), 0, q)
	if err != nil {
		return nil, err
	}
	if len(p.Topics) != 1 {
		return nil, noAnswer{fmt.Sprintf("metadata of %d topics", len(p.Topics))}
	}
	return &p.Topics[0], nil
}

// leader is the node that leads a partition.
func (s *step) leader(p topicPartition) (int32, error) {
	if len(s.nodes) <= 1 {
		return s.only(), nil
	}
	t, err := s.metadata(p.topic)
	if err != nil {
		return 0, err
	}
	for _, x := range t.Partitions {
		if x.Partition == p.partition && x.Leader >= 0 {
			return x.Leader, nil
		}
	}
	return s.someNode(), nil
}

// someNode is the running node with the smallest id.
func (w *world) someNode() int32 {
	best := int32(0)
	for id := range w.nodes {
		if best == 0 || id < best {
			best = id
		}
	}
	return best
}

// node is where a request goes that is about a partition: where the option says, else to its leader.
func (s *step) node(c *call, p topicPartition) (int32, error) {
	if v, ok := c.options["node"]; ok {
		n, err := number(v, 1, 1<<31-1)
		return int32(n), err
	}
	return s.leader(p)
}

// topicID is the id of a topic; a name that was never seen is asked for. An unknown topic has an id that no topic has.
func (s *step) topicID(topic string) ([16]byte, error) {
	if id, ok := s.topics[topic]; ok {
		return id, nil
	}
	t, err := s.metadata(topic)
	if err != nil {
		return [16]byte{}, err
	}
	if t.ErrorCode != 0 {
		h := fingerprint("no topic " + topic)
		id := [16]byte(h[:16])
		s.names.add(uuidText(id), "<no-topic:"+topic+">")
		return id, nil
	}
	s.knowTopic(topic, t.TopicID)
	return t.TopicID, nil
}

// knowTopic remembers the id of a topic.
func (w *world) knowTopic(topic string, id [16]byte) {
	if id == [16]byte{} || w.topics[topic] == id {
		return
	}
	w.topics[topic], w.byID[id] = id, topic
	w.made[w.wire(topic)] = append(w.made[w.wire(topic)], id)
	w.names.addTopic(topic, uuidText(id))
}

// topicName is the script's name for a topic in an answer.
func (w *world) topicName(id [16]byte) string {
	if name, ok := w.byID[id]; ok {
		return name
	}
	return uuidText(id)
}

func uuidText(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// script is a name on the wire as scripts have it.
func (w *world) script(name string) string { return strings.TrimPrefix(name, w.prefix) }

// end closes what is open and stops what runs.
func (w *world) end() error {
	for _, st := range w.strands {
		st.stop()
	}
	keys := make([]connKey, 0, len(w.conns))
	for k := range w.conns {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b connKey) int {
		if c := strings.Compare(a.client, b.client); c != 0 {
			return c
		}
		return int(a.node - b.node)
	})
	for _, k := range keys {
		w.drop(k.client, k.node)
	}
	return w.target.close()
}
