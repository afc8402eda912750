package broker

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/fault"
	"kshare/protocol"
	"kshare/protocol/describe"
	"kshare/protocol/errorcode"
)

// faults are the rules of what goes wrong on purpose, and the requests that they hold.
type faults struct {
	any  atomic.Bool // there are rules
	set  fault.Set   // guarded by the cluster's lock, as is held
	held map[*heldRequest]struct{}
	last uint64 // number of the request that was held last
}

// heldRequest is a request that waits until the rule is released that holds it.
type heldRequest struct {
	action *fault.Action
	number uint64 // in the order in which they were held
	goOn   func() // called without the lock
}

// maxHeldRequests is how many requests may be held at a time: of one more the connection is closed.
const maxHeldRequests = 10_000

// full tells why an action cannot hold one more request, nil where it can. The cluster's lock is held.
func (f *faults) full(act *fault.Action) error {
	if len(f.held) < maxHeldRequests {
		return nil
	}
	return fmt.Errorf("%s holds no more: %d requests are held already; release some", act, maxHeldRequests)
}

// AddFault adds a rule of what goes wrong and returns its id. It acts on requests that arrive from now on.
func (c *Cluster) AddFault(r fault.Rule) (id int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, err = c.faults.set.Add(r); err != nil {
		return 0, err
	}
	c.faults.any.Store(true)
	return id, nil
}

// RemoveFault removes a rule and lets the requests go on that it holds.
func (c *Cluster) RemoveFault(id int) error {
	c.mu.Lock()
	err := c.faults.set.Remove(id)
	c.faults.any.Store(!c.faults.set.Empty())
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.release(func(h *heldRequest) bool { return h.action.ID == id })
	return nil
}

// ReleaseFault lets the requests go on that rules of a name hold, in the order of their arrival, and returns how many. The rules stay. It fails
// where no rule has the name.
func (c *Cluster) ReleaseFault(name string) (released int, err error) {
	c.mu.Lock()
	known := c.faults.set.HasName(name)
	c.mu.Unlock()
	if !known {
		return 0, fmt.Errorf("no fault has the name %q", name)
	}
	return c.release(func(h *heldRequest) bool { return h.action.Rule.Name == name }), nil
}

// release lets held requests go on.
func (c *Cluster) release(which func(*heldRequest) bool) int {
	c.mu.Lock()
	var going []*heldRequest
	for h := range c.faults.held {
		if which(h) {
			going = append(going, h)
			delete(c.faults.held, h)
		}
	}
	c.mu.Unlock()
	slices.SortFunc(going, func(a, b *heldRequest) int { return cmp.Compare(a.number, b.number) })
	for _, h := range going {
		h.goOn()
	}
	return len(going)
}

// Faults tells the rules and what they have done, in the order in which they were added.
func (c *Cluster) Faults() []fault.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := map[int]int{}
	for h := range c.faults.held {
		held[h.action.ID]++
	}
	all := c.faults.set.Status()
	for i := range all {
		all[i].Held = held[all[i].ID]
	}
	return all
}

// interception is what faults do to a request.
//
// Before the request is applied it goes through the actions of that stage one by one, then its handler is called, and its answer goes through those of
// the stage after. A wait ends in a timer or in a call that releases: what follows happens there, so that it happens at that time, and the
// connection gets the answer through deliver.
type interception struct {
	request *request
	message kmsg.Request // nil where it cannot be decoded

	beforeActions, afterActions []fault.Action
	// refused is the answer of a request that is not applied, nil where it is.
	refused answer
	// injected are errors of partitions that their handler gives while it goes through them.
	injected []*fault.Action

	edits  []edit // of the answer's errors
	alters []*fault.Action
	closes error // why the connection is closed after the request was applied

	// step is held, before the cluster's lock, while the request goes on in another goroutine than its connection's.
	step      sync.Mutex
	withdrawn bool // its connection has ended; guarded by the cluster's lock
}

// edit is an error to be put into an answer.
type edit struct {
	selector fault.Selector
	place    fault.Place
	code     int16
	taken    fault.Taken // out of the request
}

// intercept finds the rules that act on a request. The cluster's lock is held.
func (r *request) intercept(q kmsg.Request, s *describe.Subject) {
	actions := r.cluster.faults.set.Match(&fault.Request{
		Key: r.header.Key, Version: r.header.Version, Node: r.node.id, Client: r.header.ClientID, Subject: s,
	})
	if len(actions) == 0 {
		return
	}
	x := &interception{request: r, message: q}
	for _, a := range actions {
		if a.Rule.Acts() == fault.Before {
			x.beforeActions = append(x.beforeActions, a)
		} else {
			x.afterActions = append(x.afterActions, a)
		}
	}
	r.faulty = x
}

// names are the rules that act on the request.
func (x *interception) names() (names []string) {
	for _, actions := range [][]fault.Action{x.beforeActions, x.afterActions} {
		for i := range actions {
			names = append(names, actions[i].String())
		}
	}
	return names
}

// start handles the request as far as it goes without waiting.
func (x *interception) start() (answer, error) {
	a, _, err := x.goOn()
	return a, err
}

// goOn goes through what is left to do before the request is applied, and applies it. settled tells that the answer, or that there is none, is known and
// has not been delivered.
func (x *interception) goOn() (a answer, settled bool, err error) {
	for len(x.beforeActions) > 0 {
		act := &x.beforeActions[0]
		x.beforeActions = x.beforeActions[1:]
		switch {
		case act.Rule.Delay > 0 || act.Rule.Hold:
			if err := x.waitBefore(act); err != nil {
				return nil, true, err
			}
			return nil, false, nil
		case act.Rule.Close:
			return nil, true, injectedClose(act)
		case act.Rule.Silence:
			x.silence()
			return nil, true, nil
		default:
			x.failBefore(act)
		}
	}
	r := x.request
	if x.refused != nil {
		a = x.refused
	} else if a, err = r.handle(); err != nil || r.parked || r.closing != nil {
		return nil, err != nil || !r.parked, err
	}
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	return x.goOnAfter(a)
}

func injectedClose(act *fault.Action) error { return fmt.Errorf("closed by %s", act) }

// silence makes the connection one that answers nothing any more.
func (x *interception) silence() {
	x.request.silent = true
	x.request.conn.silenced.Store(true)
}

// waitBefore lets the request wait before it is applied. It fails where no more may be held.
func (x *interception) waitBefore(act *fault.Action) error {
	c := x.request.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if act.Rule.Hold {
		if err := c.faults.full(act); err != nil {
			return err
		}
		x.hold(act, x.resume)
		return nil
	}
	t := c.clock.AfterFunc(act.Rule.Delay, x.resume)
	x.request.pause(func() { t.Stop() })
	return nil
}

// hold lets the request wait for a release. The cluster's lock is held.
func (x *interception) hold(act *fault.Action, goOn func()) {
	c := x.request.cluster
	c.faults.last++
	h := &heldRequest{act, c.faults.last, goOn}
	if c.faults.held == nil {
		c.faults.held = map[*heldRequest]struct{}{}
	}
	c.faults.held[h] = struct{}{}
	x.request.pause(func() { delete(c.faults.held, h) })
}

// resume goes on with a request that has waited before it was applied, in the goroutine that ended the wait.
func (x *interception) resume() {
	x.step.Lock()
	defer x.step.Unlock()
	r := x.request
	c := r.cluster
	c.mu.Lock()
	if x.withdrawn || c.closed {
		c.mu.Unlock()
		return
	}
	r.cancel = nil
	c.goroutines.Add(1) // Close waits for it, as for a connection's goroutine
	c.mu.Unlock()
	defer c.goroutines.Done()
	settled := true
	a, err := r.guarded(func() (a answer, err error) {
		a, settled, err = x.goOn()
		return a, err
	})
	if err != nil {
		settled, r.closing = true, err
	}
	if settled {
		r.deliver(a)
	}
}

// after takes the answer of a parked request and delivers it in the end. The cluster's lock is held.
func (x *interception) after(a answer) {
	if x.withdrawn {
		return // nobody waits for it
	}
	if a, settled, _ := x.goOnAfter(a); settled {
		x.request.deliver(a)
	}
}

// goOnAfter goes through what is left to do once the request was applied. settled tells that the answer can be given. The cluster's lock is held.
func (x *interception) goOnAfter(a answer) (_ answer, settled bool, err error) {
	for len(x.afterActions) > 0 {
		act := &x.afterActions[0]
		x.afterActions = x.afterActions[1:]
		switch {
		case act.Rule.Delay > 0 || act.Rule.Hold:
			if err := x.request.cluster.faults.full(act); err != nil && act.Rule.Hold {
				x.closes = err
				continue
			}
			x.waitAfter(act, a)
			return nil, false, nil
		case act.Rule.Close:
			x.closes = injectedClose(act)
		case act.Rule.Silence:
			x.silence()
		case act.Rule.Error != "":
			x.failAfter(act)
		default:
			x.alters = append(x.alters, act)
		}
	}
	return a, true, nil
}

// waitAfter lets the answer wait. The cluster's lock is held.
func (x *interception) waitAfter(act *fault.Action, a answer) {
	r, c := x.request, x.request.cluster
	if !act.Rule.Hold {
		t := c.after(act.Rule.Delay, func() { x.resumeAfter(a) })
		r.pause(func() { t.Stop() })
		return
	}
	x.hold(act, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.closed {
			x.resumeAfter(a)
		}
	})
}

// resumeAfter goes on with an answer that has waited. The cluster's lock is held.
func (x *interception) resumeAfter(a answer) {
	x.request.cancel = nil
	x.after(a)
}

// selector picks the entries that an action means. It takes the cluster's lock for the names of topics.
func (x *interception) selector(act *fault.Action) fault.Selector {
	c := x.request.cluster
	return fault.Selector{Rule: act.Rule, TopicName: func(id [16]byte) string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.topicName(id)
	}}
}

// failBefore makes an error of the request or of some of its entries, which are not applied.
func (x *interception) failBefore(act *fault.Action) {
	r := x.request
	place, ok := act.Rule.Place(r.api, r.header.Version)
	code := act.Rule.Code()
	switch {
	case !ok || x.refused != nil:
		return
	case x.message == nil:
		if r.header.Key == apiVersionsKey {
			x.refused = failedApiVersions(r, code)
		}
		return // what cannot be read has no entries, and its handler closes the connection
	case place.Level == fault.Top:
		x.refused = x.failTop(code)
		return
	case handlesInjected(r.header.Key) && (place.Level == fault.Partition || place.Level == fault.Acknowledge):
		x.injected = append(x.injected, act)
		return
	}
	e := edit{selector: x.selector(act), place: place, code: code}
	var rest bool
	e.taken, rest = e.selector.Take(x.message, place)
	x.edits = append(x.edits, e)
	q, isMetadata := x.message.(*kmsg.MetadataRequest)
	switch {
	case rest || isMetadata && q.Version > 0: // whose answer has the brokers too
		r.body = x.message.AppendTo(nil)
	case !isMetadata: // a Metadata of version 0 without topics would ask for all
		x.refused = x.message.ResponseKind()
	}
	if q, ok := x.message.(*kmsg.ProduceRequest); ok && q.Acks == 0 {
		r.silent = true
	}
}

// failAfter makes an error of the answer or of some of its entries.
func (x *interception) failAfter(act *fault.Action) {
	if place, ok := act.Rule.Place(x.request.api, x.request.header.Version); ok && x.message != nil {
		x.edits = append(x.edits, edit{selector: x.selector(act), place: place, code: act.Rule.Code()})
	}
}

// failTop is the answer to a request that fails as a whole.
func (x *interception) failTop(code int16) kmsg.Response {
	if x.request.header.Key == apiVersionsKey {
		return failedApiVersions(x.request, code)
	}
	return fault.FailTop(x.message, code)
}

// failedApiVersions is the answer to an ApiVersions that fails. UNSUPPORTED_VERSION is said in version 0 (KIP-511), as is anything to a version that is not known.
func failedApiVersions(r *request, code int16) kmsg.Response {
	if code == errorcode.UnsupportedVersion {
		return r.cluster.unsupportedApiVersions(r.api)
	}
	p := &kmsg.ApiVersionsResponse{ErrorCode: code}
	if r.cluster.offers(r.api, r.header.Version) {
		p.Version = r.header.Version
	}
	return p
}

// finish makes the answer what the faults want it to be.
func (x *interception) finish(a answer) (answer, error) {
	r := x.request
	if r.conn.silenced.Load() {
		return nil, nil
	}
	if r.silent {
		if len(x.edits) > 0 {
			return nil, fmt.Errorf("%s v%d: acks is 0 and a fault says %s", r.api.Name, r.header.Version, errorcode.Name(x.edits[0].code))
		}
		a = nil
	}
	if a != nil && len(x.edits) > 0 {
		var err error
		if a, err = x.edited(a); err != nil {
			return nil, err
		}
	}
	if a != nil && len(x.alters) > 0 {
		e := encoded(a)
		for _, act := range x.alters {
			altered := &encodedAnswer{length: e.length}
			body, length := act.Alter(e.body)
			altered.body = body
			if length != nil {
				altered.length = length
			}
			e = altered
		}
		a = e
	}
	if x.closes != nil {
		return nil, fmt.Errorf("%s v%d: %w", r.api.Name, r.header.Version, x.closes)
	}
	return a, nil
}

// edited puts errors into a copy of an answer. Of several for one entry the first holds, so the last are put in first.
func (x *interception) edited(a answer) (answer, error) {
	p, err := x.request.reread(a)
	if err != nil {
		return nil, err
	}
	for i := range x.edits {
		e := &x.edits[i]
		e.selector.Put(p, e.place, e.taken, e.code)
	}
	for _, e := range slices.Backward(x.edits) {
		if e.place.Level == fault.Top {
			p = x.failTop(e.code)
		} else {
			e.selector.Fail(p, e.place, e.code)
		}
	}
	return p, nil
}

// reread makes a copy of an answer that can be changed.
func (r *request) reread(a answer) (kmsg.Response, error) {
	body := a.AppendTo(nil)
	p := r.api.NewResponse(protocol.AnswerVersion(r.header.Key, r.header.Version, body))
	if err := p.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s v%d: the answer that is to be changed cannot be read: %w", r.api.Name, r.header.Version, err)
	}
	return p, nil
}

// encodedAnswer is an answer that was encoded before, perhaps with the wrong length.
type encodedAnswer struct {
	body   []byte
	length *int32 // to claim in front of it, nil for the right one
}

// encoded encodes an answer.
func encoded(a answer) *encodedAnswer {
	if e, ok := a.(*encodedAnswer); ok {
		return e
	}
	return &encodedAnswer{body: a.AppendTo(nil)}
}

// AppendTo implements answer.
func (e *encodedAnswer) AppendTo(b []byte) []byte { return append(b, e.body...) }

// claim is the length in front of a frame of n bytes.
func (e *encodedAnswer) claim(n int) int {
	if e.length != nil {
		return int(*e.length)
	}
	return n
}

// handlesInjected tells whether the handler of an API gives the errors of partitions itself, because it keeps a session about them.
func handlesInjected(key int16) bool {
	return key == fetchKey || key == shareFetchKey || key == shareAcknowledgeKey
}

// injectedByID is the error that faults give a partition at a level, 0 for none. The topic is looked up only where there are faults.
func (r *request) injectedByID(level fault.Level, topic [16]byte, partition int32) int16 {
	if r.faulty == nil {
		return errorcode.None
	}
	return r.injected(level, r.cluster.topicName(topic), partition)
}

// injected is injectedByID for a topic that is known by its name.
func (r *request) injected(level fault.Level, topic string, partition int32) int16 {
	if r.faulty == nil {
		return errorcode.None
	}
	for _, act := range r.faulty.injected {
		rule := act.Rule
		if (rule.Topic == "" || rule.Topic == topic) && (rule.Partition == nil || *rule.Partition == partition) &&
			(rule.Level == fault.Acknowledge) == (level == fault.Acknowledge) {
			return rule.Code()
		}
	}
	return errorcode.None
}
