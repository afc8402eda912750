package histories

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/broker"
	"kshare/fault"
	"kshare/protocol/errorcode"
)

// simulation is a run: producers and readers that take turns in an order drawn from a seed, and faults between.
type simulation struct {
	rand      *rand.Rand
	machine   *machine
	producers []*instance
	readers   []*reader
	history   history
	count     int64 // moments
	values    int
	refused   int // requests of producers that are fenced, or whose transaction is over
	leaving   []*broker.Direct
	markers   []*broker.WriteFault
	late      map[*broker.WriteFault]*lateMarker
	rules     []int
	slow      bool           // the network
	slowness  int            // its rule
	done      map[string]int // faults
	lines     []string
	spoil     spoil
}

// spoil makes a wrong server of a right one.
type spoil struct {
	request func(s *simulation, client string, q kmsg.Request)
	answer  func(s *simulation, q kmsg.Request, r kmsg.Response)
}

var coordinators = []broker.CoordinatorKind{broker.TransactionCoordinator, broker.GroupCoordinator}

// turns is how long a run is.
const turns = 600

// run makes a history.
func run(seed uint64, spoil spoil) (s *simulation, err error) {
	s = &simulation{rand: rand.New(rand.NewPCG(seed, 98)), history: history{partitions: partitions}, done: map[string]int{}, late: map[*broker.WriteFault]*lateMarker{}, spoil: spoil}
	level := pick[int16](s, 0, 1, 2, 2, 2, 2, 2, 2)
	s.machine, err = boot(pick(s, broker.TimingFast, broker.TimingKafka), level)
	if err != nil {
		return s, err
	}
	defer func() {
		if closing := s.machine.Close(); err == nil {
			err = closing
		}
	}()
	for _, x := range []struct {
		name, id string
		old      bool
	}{{"p1", "own", false}, {"p2", "shared", false}, {"p3", "shared", false}, {"p4", "old", true}, {"p5", "old-shared", true}, {"p6", "old-shared", true}} {
		s.producers = append(s.producers, newInstance(s, x.name, x.id, x.old || level < 2))
		for _, kind := range coordinators { // makes its topic
			if err := s.machine.MoveCoordinator(kind, x.id, 1+s.rand.Int32N(nodes), 0); err != nil {
				return s, err
			}
		}
	}
	for _, name := range []string{"r1", "r2"} {
		s.readers = append(s.readers, &reader{client: newClient(s, name)})
	}
	s.slow = s.one(2)
	if err := s.network(); err != nil {
		return s, err
	}
	for range turns {
		if err = s.turn(); err != nil {
			return s, err
		}
	}
	return s, s.finish()
}

// network has a slow network delay half of the requests, so that one that was sent later comes earlier.
func (s *simulation) network() (err error) {
	if s.slow {
		s.slowness, err = s.machine.AddFault(fault.Rule{Probability: 0.5, Seed: s.rand.Uint64(), Delay: 25 * time.Millisecond})
	}
	return err
}

func (s *simulation) one(in int) bool { return s.rand.IntN(in) == 0 }

func (s *simulation) trace(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%9s %s", s.machine.clock.Now().Sub(began), fmt.Sprintf(format, args...)))
}

// text is what a failing run shows.
func (s *simulation) text() string { return strings.Join(s.lines, "\n") + "\n\n" + s.history.String() }

func (s *simulation) moment() (int64, time.Duration) {
	s.count++
	return s.count, s.machine.clock.Now().Sub(began)
}

func (s *simulation) note(o *operation) { s.history.operations = append(s.history.operations, o) }

// turn lets one thing happen.
func (s *simulation) turn() (err error) {
	switch n := s.rand.IntN(100); {
	case n < 62:
		err = s.producers[s.rand.IntN(len(s.producers))].turn()
	case n < 74:
		err = s.readers[s.rand.IntN(len(s.readers))].turn()
	case n < 92:
		s.advance(pick(s, time.Millisecond, 5*time.Millisecond, 30*time.Millisecond, 200*time.Millisecond, 900*time.Millisecond))
	default:
		err = s.fault()
	}
	if err == nil {
		err = s.comeLate()
	}
	if err == nil && s.machine.killed != nil {
		s.trace("the machine was killed")
		err = s.restart()
	}
	return err
}

func pick[T any](s *simulation, from ...T) T { return from[s.rand.IntN(len(from))] }

func (s *simulation) advance(d time.Duration) {
	s.machine.clock.Advance(d)
	s.leaving = slices.DeleteFunc(s.leaving, (*broker.Direct).Leave)
}

// restart starts the machine again. What is on its way is lost, and faults are gone.
func (s *simulation) restart() error {
	err := s.machine.restart()
	s.leaving, s.markers, s.rules = nil, nil, nil
	for _, p := range s.producers {
		waits := p.request != nil
		p.forget()
		if waits {
			p.unsure()
		}
	}
	for _, r := range s.readers {
		r.forget()
	}
	if err != nil {
		return err
	}
	return s.network()
}

// fault has something go wrong, or ends it.
func (s *simulation) fault() error {
	node := 1 + s.rand.Int32N(nodes)
	p := pick(s, s.producers...)
	partition := s.rand.Int32N(partitions)
	switch s.rand.IntN(16) {
	case 0, 1:
		return s.tried("leader moved", s.machine.MoveLeader(topicName, partition, node, s.one(2)))
	case 2, 3:
		return s.tried("coordinator moved", s.machine.MoveCoordinator(pick(s, coordinators...), p.id, node, pick(s, 0, 0, 300*time.Millisecond, 2*time.Second)))
	case 4:
		return s.tried("node stopped or started", s.stopOrStart(node))
	case 5:
		return s.tried("node cut off or healed", s.cutOrHeal(node))
	case 6:
		return s.slowMarkers(p.id)
	case 7:
		if s.one(2) {
			return s.slowMarkers(p.id)
		}
		for _, f := range s.markers {
			f.Remove()
		}
		s.markers = nil
		return s.tried("markers go on", nil)
	case 8, 9:
		rule := fault.Rule{API: pick[fault.NameOrNumber](s, "Produce", "EndTxn", "InitProducerId", "AddPartitionsToTxn", "TxnOffsetCommit", "Fetch"), Times: 1 + s.rand.IntN(2), Close: true, Stage: pick(s, fault.Before, fault.After)}
		return s.add("connection dropped "+string(rule.Stage), rule)
	case 10, 11:
		rule := fault.Rule{Probability: 0.3, Times: 10, Seed: s.rand.Uint64(), Delay: pick(s, time.Millisecond, 20*time.Millisecond, time.Second, 4*time.Second), Stage: pick(s, fault.Before, fault.After)}
		return s.add("delayed "+string(rule.Stage), rule)
	case 12:
		return s.add("held", fault.Rule{Name: "hold", Client: p.name, Times: 1, Hold: true, Stage: pick(s, fault.Before, fault.After)})
	case 13:
		for _, id := range s.rules {
			if err := s.machine.RemoveFault(id); err != nil {
				return err
			}
		}
		s.rules = nil
		return s.tried("requests go on", nil)
	case 14:
		if s.machine.left < 0 {
			s.machine.left = 1 + s.rand.IntN(8)
			return s.tried("killed behind a batch", nil)
		}
	case 15:
		if s.one(2) {
			s.machine.kill()
			return s.tried("killed", nil)
		}
		s.machine.killed = s.machine.fs
		return s.tried("stopped and started", nil)
	}
	return nil
}

// lateMarker is a marker that is held. It comes late when another coordinator has ended the transaction, and perhaps the next one has begun.
type lateMarker struct {
	id    string
	moved bool
}

// comeLate has markers that are held come late.
func (s *simulation) comeLate() error {
	for _, f := range s.markers {
		m := s.late[f]
		switch {
		case m == nil:
		case m.moved && s.one(20):
			delete(s.late, f)
			f.Remove()
			return s.tried("markers late", nil)
		case !m.moved && f.Held() > 0 && s.one(4):
			m.moved = true
			return s.tried("coordinator moved", s.machine.MoveCoordinator(broker.TransactionCoordinator, m.id, 1+s.rand.Int32N(nodes), 0))
		}
	}
	return nil
}

// tried notes a fault. Some cannot be had at the moment.
func (s *simulation) tried(what string, err error) error {
	if err != nil {
		return nil
	}
	s.trace("fault: %s", what)
	s.done[what]++
	return nil
}

func (s *simulation) add(what string, r fault.Rule) error {
	id, err := s.machine.AddFault(r)
	if err != nil {
		return err
	}
	s.rules = append(s.rules, id)
	return s.tried(what, nil)
}

// goesOn has a producer take a transactional id over and end a transaction, now that nothing goes wrong any more.
func (s *simulation) goesOn(p *instance) error {
	for range 400 {
		if err := p.turn(); err != nil {
			return err
		}
		if n := len(s.history.operations); n > 0 && s.history.operations[n-1].kind == ended && s.history.operations[n-1].client == p.name {
			s.advance(time.Second) // its markers are written
			return nil
		}
		s.advance(50 * time.Millisecond)
	}
	s.history.stuck = append(s.history.stuck, p.id)
	return nil
}

func (s *simulation) stopOrStart(node int32) error {
	if s.machine.StartNode(node) == nil {
		return nil
	}
	if s.up() < nodes {
		return fmt.Errorf("another is down")
	}
	return s.machine.StopNode(node)
}

func (s *simulation) cutOrHeal(node int32) error {
	if s.machine.HealNode(node) == nil {
		return nil
	}
	if s.up() < nodes {
		return fmt.Errorf("another is down")
	}
	return s.machine.CutNode(node)
}

func (s *simulation) up() (n int) {
	for _, x := range s.machine.InspectNodes() {
		if x.Runs && !x.CutOff {
			n++
		}
	}
	return n
}

func (s *simulation) slowMarkers(id string) error {
	w := broker.MarkerWrites{TransactionalID: id, Count: 1 + s.rand.IntN(2)}
	if s.one(2) {
		w.Topic, w.Partition = topicName, s.rand.Int32N(partitions)
	} else if s.one(4) {
		w.Topic, w.Partition = "__consumer_offsets", -1
	}
	switch s.rand.IntN(3) {
	case 0:
		w.Hold = true
	case 1:
		w.Delay = pick(s, 10*time.Millisecond, time.Second, 5*time.Second)
	case 2:
		w.ErrorCode = pick(s, errorcode.NotLeaderOrFollower, errorcode.RequestTimedOut, errorcode.UnknownServerError)
	}
	f, err := s.machine.FaultMarkers(w)
	if err != nil {
		return err
	}
	s.markers = append(s.markers, f)
	if w.Hold {
		s.late[f] = &lateMarker{id: id}
	}
	return s.tried("markers slow or failing", nil)
}

// finish ends all faults, lets the transactions that are open run out, and reads everything.
func (s *simulation) finish() error {
	s.machine.left = -1
	for _, f := range s.markers {
		f.Remove()
	}
	if s.slow {
		s.rules = append(s.rules, s.slowness)
	}
	for _, id := range s.rules {
		if err := s.machine.RemoveFault(id); err != nil {
			return err
		}
	}
	for node := range int32(nodes) {
		_ = s.machine.StartNode(node + 1)
		_ = s.machine.HealNode(node + 1)
	}
	s.advance(20 * time.Second)
	for _, p := range s.producers {
		if p.doing == nil {
			continue
		}
		if p.request != nil {
			if err := p.listen(); err != nil {
				return err
			}
		}
		if p.doing != nil {
			p.lost = true
			p.giveUp()
		}
	}
	s.advance(20 * time.Second)
	for _, p := range s.producers {
		if err := s.goesOn(newInstance(s, "last "+p.name, p.id, p.old)); err != nil {
			return err
		}
	}
	last := &reader{client: newClient(s, "last")}
	for p := range partitions {
		for _, committed := range []bool{true, false} {
			noted := len(s.history.operations)
			if err := last.read(p, committed, true); err != nil {
				return err
			}
			if len(s.history.operations) == noted {
				return fmt.Errorf("partition %d cannot be read at the end", p)
			}
		}
	}
	for _, p := range s.producers {
		noted := len(s.history.operations)
		if err := last.fetchOffset(p.id, true); err != nil {
			return err
		}
		if len(s.history.operations) == noted {
			s.history.stuck = append(s.history.stuck, p.id) // its offset is not stable
		}
	}
	return nil
}
