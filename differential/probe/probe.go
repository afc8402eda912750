package probe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/replay"
)

// Prober holds two brokers against each other.
type Prober struct {
	// Trace, if there is one, is told of each request and the first broker's answer.
	Trace func(line string)

	first, second *side
	pair          *replay.Pair
	rand          *rand.Rand
	world         *world
	versions      map[int16][2]int16 // offered by both, least and most
	correlation   int32

	mu  sync.Mutex
	ids map[string][][16]byte // what the second broker's new topics are to be called, by name
}

// Difference is a step whose answers differ.
type Difference struct {
	Step          int // 1 for the first
	Request       kmsg.Request
	First, Second string // the answers as JSON
	Diffs         []replay.Diff
}

func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "step %d, %s v%d", d.Step, kmsg.NameForKey(d.Request.Key()), d.Request.GetVersion())
	for _, x := range d.Diffs {
		fmt.Fprintf(&b, "\n    %s", x)
	}
	fmt.Fprintf(&b, "\nrequest %s\nfirst broker %s\nsecond broker %s", replay.RequestJSON(d.Request), d.First, d.Second)
	return b.String()
}

// New returns a prober. Its runs use topics and groups whose names begin with the seed.
func New() *Prober { return &Prober{ids: map[string][][16]byte{}} }

// TopicID is the id that the second broker is to give a new topic: that of the first broker's.
func (p *Prober) TopicID(topic string) (id [16]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := p.ids[topic]; len(left) > 0 {
		id, p.ids[topic] = left[0], left[1:]
	}
	return id
}

// Run sends a number of requests that follow from the seed to both brokers and returns the first whose answers
// differ, nil if none does.
func (p *Prober) Run(first, second Broker, seed uint64, steps int) (*Difference, error) {
	p.first, p.second = newSide(first), newSide(second)
	defer p.first.close()
	defer p.second.close()
	p.pair = replay.NewPair()
	p.rand = rand.New(rand.NewPCG(seed, 0))
	p.world = newWorld(p.rand, fmt.Sprintf("s%d-", seed))
	if err := p.learnVersions(); err != nil {
		return nil, err
	}
	if d, err := p.prepare(); d != nil || err != nil {
		return d, err
	}
	for n := 1; n <= steps; n++ {
		d, err := p.step(p.draw())
		if d != nil || err != nil {
			if d != nil {
				d.Step = n
			}
			return d, err
		}
	}
	return nil, nil
}

// draw makes a random request that both brokers offer.
func (p *Prober) draw() request {
	for {
		x := p.world.request()
		offered, ok := p.versions[x.Key()]
		if !ok {
			continue
		}
		least, most := max(offered[0], x.least), min(offered[1], x.most)
		x.SetVersion(least + int16(p.rand.IntN(int(most-least)+1)))
		// A question for offsets of a partition that does not exist takes Apache Kafka half a minute.
		_, slow := x.Request.(*kmsg.DescribeShareGroupOffsetsRequest)
		if p.rand.IntN(3) == 0 && !slow {
			spoil(p.rand, x.Request)
		}
		if f, ok := x.Request.(*kmsg.ShareFetchRequest); ok && f.MaxWaitMillis <= 0 && !f.IsRenewAck && !p.world.knowsStates(f) {
			f.MaxWaitMillis = 100 // else it would depend on Apache Kafka's speed whether it has found out by then what there is
		}
		return x
	}
}

// learnVersions asks both brokers which versions they offer.
func (p *Prober) learnVersions() error {
	p.versions = map[int16][2]int16{}
	offers := func(s *side) (map[int16][2]int16, error) {
		q := kmsg.NewPtrApiVersionsRequest()
		a, err := s.ask(0, encode(q, 0))
		if err != nil {
			return nil, err
		}
		r, _ := decode(q, a.frame).(*kmsg.ApiVersionsResponse)
		if r == nil {
			return nil, errors.New("no answer to ApiVersions")
		}
		all := map[int16][2]int16{}
		for _, k := range r.ApiKeys {
			all[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
		}
		return all, nil
	}
	a, err := offers(p.first)
	if err != nil {
		return err
	}
	b, err := offers(p.second)
	if err != nil {
		return err
	}
	for key, x := range a {
		known := protocol.RequestForKey(key)
		if y, ok := b[key]; ok && known != nil {
			p.versions[key] = [2]int16{max(x[0], y[0]), min(x[1], y[1], known.MaxVersion())}
		}
	}
	return nil
}

// attempts is how often a question is put that changes nothing, while the answers differ, and patience the time
// between: what Apache Kafka changes, it may show a little later.
const (
	attempts = 6
	patience = 250 * time.Millisecond
)

// step puts a question to both brokers.
func (p *Prober) step(x request) (*Difference, error) {
	for left := attempts; ; left-- {
		d, first, err := p.compare(x)
		if err != nil {
			return nil, err
		}
		if d == nil {
			p.settle(x, first)
			return nil, nil
		}
		if left <= 1 || !x.reads() {
			return d, nil
		}
		time.Sleep(patience)
	}
}

// compare asks both brokers once. What is settled after the first has answered, the second finds settled.
func (p *Prober) compare(x request) (d *Difference, first kmsg.Response, err error) {
	p.correlation++
	frame := encode(x.Request, p.correlation)
	theirs, err := p.pair.Request(x.Key(), x.GetVersion(), frame)
	if err != nil {
		return nil, nil, err
	}
	a, err := p.first.ask(x.conn, frame)
	if err != nil {
		return nil, nil, err
	}
	if p.Trace != nil {
		p.Trace(oneLine(fmt.Sprintf("%s v%d, connection %d: %s: %s", kmsg.NameForKey(x.Key()), x.GetVersion(), x.conn, replay.RequestJSON(x.Request), p.print(x, a))))
	}
	if a.frame != nil {
		first = decode(x.Request, a.frame)
		if err := p.follow(x, first); err != nil {
			return nil, nil, err
		}
	}
	b, err := p.second.ask(x.conn, theirs)
	if err != nil {
		return nil, nil, err
	}
	if a.ended != b.ended {
		d = &Difference{Diffs: []replay.Diff{{Field: "outcome", At: "outcome", Recorded: outcome(a), Ours: outcome(b)}}}
	} else if a.frame != nil {
		if diffs := p.pair.Compare(x.Key(), x.GetVersion(), frame, a.frame, b.frame); len(diffs) > 0 {
			d = &Difference{Diffs: diffs}
		}
	}
	if d != nil {
		d.Request, d.First, d.Second = x.Request, p.print(x, a), p.print(x, b)
	}
	return d, first, nil
}

// oneLine takes the line breaks out of JSON.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func outcome(r reply) string {
	if r.ended != "" {
		return r.ended
	}
	return "answered"
}

func (p *Prober) print(x request, r reply) string {
	if r.frame == nil {
		return r.ended
	}
	return replay.AnswerJSON(x.Key(), x.GetVersion(), r.frame)
}

// settleTime is how long a change of topics, configurations or share groups takes at most until the first broker's other parts know
// of it: the controller answers first.
const settleTime = 150 * time.Millisecond

// settle remembers what the answer tells, and waits for what it sets off.
func (p *Prober) settle(x request, first kmsg.Response) {
	if first != nil {
		p.world.learn(x, first)
	}
	if x.changes() {
		time.Sleep(settleTime)
	}
}
