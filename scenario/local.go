package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"kshare"
	"kshare/clock"
)

// Local is a kshare in the process whose time passes when the script lets it. A run is a function of the script.
type Local struct {
	options []kshare.Option
	clock   *clock.Virtual
	started *kshare.Cluster
	settled []kshare.Option // how it was started, for a restart
	memory  *kshare.Memory
	disturb func([]byte) []byte   // what becomes of a frame before the broker gets it, nil for nothing
	stays   bool                  // the cluster is another's, which the scenario neither starts nor closes
	ids     map[string][][16]byte // what topics are to be called, by name, before ids are made up
	leaving []*kshare.Direct      // their clients have gone, which the broker has not noticed
	random  io.Reader             // the same in every run
}

// Began is the time at which a scenario in the process begins.
var Began = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// NewLocal makes a cluster of one node, unless the script or an option says otherwise.
func NewLocal(opts ...kshare.Option) *Local {
	return &Local{options: opts, clock: clock.NewVirtual(Began), memory: kshare.NewMemory(), random: rand.NewChaCha8(fingerprint("ids"))}
}

func (l *Local) setUp(s settings) error {
	if l.stays {
		return nil
	}
	if l.started != nil {
		return mistakef("cluster comes before every other command")
	}
	opts := []kshare.Option{kshare.WithBrokers(s.brokers)}
	if s.timing != nil {
		opts = append(opts, kshare.WithTiming(*s.timing))
	}
	if s.kafka != "" {
		opts = append(opts, kshare.WithKafkaVersion(s.kafka))
	}
	if s.kip1289 != nil {
		opts = append(opts, kshare.WithKIP1289(*s.kip1289...))
	}
	for _, key := range slices.Sorted(maps.Keys(s.config)) {
		opts = append(opts, kshare.WithConfig(key, s.config[key]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.features)) {
		opts = append(opts, kshare.WithFeature(name, s.features[name]))
	}
	if err := l.start(append(slices.Clone(l.options), opts...)); err != nil {
		return mistakef("%v", err)
	}
	return nil
}

func (l *Local) start(opts []kshare.Option) (err error) {
	ids := topicIDs{given: l.ids, made: map[string]int{}}
	l.settled = append(opts, kshare.WithInMemoryNetwork(), kshare.WithClock(l.clock), kshare.WithTopicIDs(ids.next), kshare.WithMemory(l.memory),
		kshare.WithRequestLog(remembered), kshare.WithRandom(l.random))
	l.started, err = kshare.Start(l.settled...)
	return err
}

// remembered is how many requests a scenario can ask for.
const remembered = 10_000

func (l *Local) restart() error {
	if l.stays {
		return mistakef("the cluster is not the script's to restart")
	}
	if err := l.started.Close(); err != nil {
		return err
	}
	var err error
	l.started, err = kshare.Start(l.settled...)
	return err
}

// topicIDs makes the ids of topics a function of their names, so that equal scripts have equal ids, unless others are given.
type topicIDs struct {
	given map[string][][16]byte
	made  map[string]int
}

func (t topicIDs) next(topic string) (id [16]byte) {
	n := t.made[topic]
	t.made[topic]++
	if n < len(t.given[topic]) {
		return t.given[topic][n]
	}
	h := fingerprint(fmt.Sprintf("topic %s %d", topic, n))
	copy(id[:], h[:])
	return id
}

// NewLive makes a target of a cluster in the process that goes on when the scenario is over. How it was started is up to who started it: a cluster command that wants other brokers
// or configurations is a mistake. On a virtual clock the scenario lets time pass and its connections are direct; on the machine's they go over the cluster's network, time passes
// by itself, and as with NewRemote only short times are waited for.
func NewLive(c *kshare.Cluster) Target {
	if v, ok := c.Clock().(*clock.Virtual); ok {
		return &Local{clock: v, started: c, stays: true}
	}
	r := NewRemote(c.Addrs()[0])
	r.dial, r.inside = c.Dial, c
	return r
}

func (l *Local) starts() bool { return !l.stays }

func (l *Local) cluster() *kshare.Cluster { return l.started }

func (l *Local) nodes() Nodes { return l.started }

func (*Local) virtual() bool { return true }

func (l *Local) now() time.Time { return l.clock.Now() }

func (l *Local) pass(_ context.Context, limit time.Time) {
	l.clock.AdvanceToNext(limit)
	l.notice()
}

// notice closes the connections whose clients have gone, once the broker notices.
func (l *Local) notice() { l.leaving = slices.DeleteFunc(l.leaving, (*kshare.Direct).Leave) }

func (l *Local) open(node int32, _ string) (conn, error) {
	if l.started == nil {
		return nil, errors.New("the cluster was not started")
	}
	if node != 0 {
		d, err := l.started.OpenDirect(node)
		return &direct{Direct: d, local: l}, err
	}
	nodes := l.started.InspectNodes()
	slices.SortStableFunc(nodes, func(a, b kshare.NodeState) int { // who answers comes first
		switch {
		case a.CutOff == b.CutOff:
			return 0
		case b.CutOff:
			return -1
		}
		return 1
	})
	for _, n := range nodes {
		if d, err := l.started.OpenDirect(n.ID); err == nil {
			return &direct{Direct: d, local: l}, nil
		}
	}
	return nil, errors.New("no node runs")
}

func (l *Local) close() error {
	for _, d := range l.leaving {
		d.Close()
	}
	l.leaving = nil
	if l.started == nil || l.stays {
		return nil
	}
	return l.started.Close()
}

// direct is a direct connection.
type direct struct {
	*kshare.Direct
	local *Local
	left  bool // by its client
}

func (d *direct) send(frame []byte) {
	d.local.notice()
	if d.local.disturb != nil {
		frame = d.local.disturb(frame)
	}
	d.Send(frame)
}

func (d *direct) receive() ([]byte, error) {
	if d.left {
		return nil, io.EOF
	}
	return d.Receive()
}

func (d *direct) close() {
	if d.left = true; !d.Leave() {
		d.local.leaving = append(d.local.leaving, d.Direct)
	}
}
