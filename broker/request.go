package broker

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/requestlog"
	"kshare/storage"
)

// answer is what a request is answered with: a kmsg response, or one that encodes itself.
type answer interface {
	// AppendTo appends the body of the answer.
	AppendTo([]byte) []byte
}

// splicedAnswer is an answer that may leave its record bytes where they lie in the log.
type splicedAnswer interface {
	answer
	AppendSpliced([]byte) ([]byte, []protocol.Splice)
}

// request is one request on its way through the broker.
type request struct {
	conn     *connection
	cluster  *Cluster
	node     *node // the node whose listener it came in on
	header   protocol.RequestHeader
	api      *protocol.API
	handler  *handler
	flexible bool
	body     []byte
	refused  error // why the body is not one to be decoded

	// commit stands for the writes that must be durable before the answer leaves. Guarded by the cluster's lock
	// until the answer is handed over.
	commit storage.Commit
	// wrote is set by a handler whose API does not always write, where it did.
	wrote bool
	// unstored is the code of the answer if its writes do not become durable, KAFKA_STORAGE_ERROR where it is 0.
	unstored int16
	// parked is set by a handler that answers later, through complete.
	parked bool
	done   chan answer
	// cancel removes what a parked request left in waiting lists. Called under the lock when its connection ends first.
	cancel func()
	// silent is set by a handler whose request has no answer, such as Produce with acks 0.
	silent bool
	// closing is why the connection is to be closed instead of an answer, closeAfter why it is to be closed behind it.
	closing, closeAfter error
	// unanswered becomes closing once the request has waited.
	unanswered error

	denials []denial // what the client has no right to and the answer is to say so of

	faulty *interception     // nil where no fault acts on the request
	logged *requestlog.Entry // nil without a request log or a follower
	number uint64            // of the request for the follower, 0 where it was not told of it
	// ready is when the answer was there, where the request waited for it and is logged.
	ready time.Time
}

// parse reads the header of a frame and finds who handles it.
func (c *connection) parse(frame []byte) (*request, error) {
	c.tapReceived(frame)
	h, err := protocol.ParseRequestStart(frame)
	if err != nil {
		return nil, err
	}
	r := &request{conn: c, cluster: c.node.cluster, node: c.node, header: h}
	r.api, r.handler = r.cluster.api(h.Key)
	if r.api == nil {
		return nil, fmt.Errorf("request with api key %d: Kafka 4.4 has no such api on a broker", h.Key)
	}
	// An ApiVersions request of a version that we do not know has a header that we can still read (KIP-511).
	r.flexible = r.api.IsFlexible(h.Version)
	if !r.cluster.offers(r.api, h.Version) && h.Key != apiVersionsKey || h.Key == produceKey && h.Version < firstProduceVersion {
		return nil, fmt.Errorf("%s v%d is not supported, this broker supports v%d to v%d", r.api.Name, h.Version, r.api.MinVersion, r.cluster.highest(r.api))
	}
	if r.body, err = protocol.ParseRequestRest(&r.header, frame, r.flexible); err != nil {
		return nil, fmt.Errorf("%s v%d: %w", r.api.Name, h.Version, err)
	}
	if c.auth != nil {
		if err := c.auth.admit(r); err != nil {
			return nil, err
		}
	}
	r.refused = r.admit()
	r.arrive()
	return r, nil
}

// run handles the request and returns its answer once there is one and what it wrote is durable. It returns
// neither answer nor error where the request has none, and an error where the connection is to be closed.
func (r *request) run() (answer, error) {
	a, err := r.start()
	if err != nil {
		return nil, err
	}
	if r.waits() {
		var ok bool
		if a, ok = r.wait(); !ok {
			return nil, r.abandoned()
		}
	}
	return r.finish(a)
}

// start handles the request. Where it waits the answer comes through done, otherwise it is the one returned; finish is to be given it.
func (r *request) start() (a answer, err error) {
	if r.conn.silenced.Load() {
		r.silent = true
		return nil, nil
	}
	switch {
	case r.refused != nil:
		err = r.refused
	case r.faulty != nil:
		a, err = r.guarded(r.faulty.start)
	default:
		a, err = r.guarded(r.handle)
	}
	if err != nil {
		return nil, fmt.Errorf("%s v%d: %w", r.api.Name, r.header.Version, err)
	}
	return a, nil
}

// waits tells whether the answer comes through done. Only the goroutine that started the request asks.
func (r *request) waits() bool { return r.done != nil }

// guarded calls a function that handles the request and makes an error of a panic.
func (r *request) guarded(f func() (answer, error)) (a answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.cluster.log.Error("a request made its handler panic", "api", r.api.Name, "version", r.header.Version, "panic", p, "stack", string(debug.Stack()))
			a, err = nil, fmt.Errorf("internal error: %v", p)
		}
	}()
	return f()
}

// finish returns the answer once what the request wrote is durable, as run does.
func (r *request) finish(a answer) (answer, error) {
	if r.closing != nil {
		return nil, fmt.Errorf("%s v%d: %w", r.api.Name, r.header.Version, r.closing)
	}
	if r.commit != nil {
		if err := r.commit.Wait(); err != nil {
			r.cluster.log.Error("a write did not become durable, its outcome is unknown", "api", r.api.Name, "error", err)
			if !unstored(a, r.unstored) {
				return nil, fmt.Errorf("%s v%d: its outcome is unknown, the write did not become durable: %w", r.api.Name, r.header.Version, err)
			}
		}
	}
	a, err := r.withDenials(a)
	if err != nil {
		return nil, err
	}
	if r.faulty != nil {
		return r.faulty.finish(a)
	}
	if r.silent {
		if len(r.denials) > 0 {
			return nil, fmt.Errorf("%s v%d: %w", r.api.Name, r.header.Version, errUnauthorized)
		}
		return nil, nil
	}
	return a, nil
}

// abandoned is the error of a parked request whose connection ended first.
func (r *request) abandoned() error {
	return fmt.Errorf("%s v%d: the connection ended while the request waited", r.api.Name, r.header.Version)
}

// handle calls the handler.
func (r *request) handle() (answer, error) {
	if r.heavy() {
		r.cluster.heavy.Lock()
		defer r.cluster.heavy.Unlock()
	}
	if r.cluster.authorizer != nil {
		if p, err := r.authorize(); p != nil || err != nil {
			return p, err
		}
	}
	return r.handler.handle(r)
}

// park says that the answer comes later, through complete. The cluster's lock is held.
func (r *request) park(cancel func()) {
	r.parked = true
	r.pause(cancel)
}

// pause says that the answer comes later, through deliver. cancel is what is to be undone if the connection ends first. The cluster's lock
// is held.
func (r *request) pause(cancel func()) {
	r.cancel = cancel
	if r.done == nil {
		r.done = make(chan answer, 1)
	}
}

// complete hands over the answer of a parked request, once. The cluster's lock is held.
func (r *request) complete(a answer) {
	r.cancel = nil
	r.takeCommit()
	if r.faulty != nil {
		r.faulty.after(a)
		return
	}
	r.deliver(a)
}

// deliver hands over the answer of a request that waits, once.
func (r *request) deliver(a answer) {
	if r.logged != nil {
		r.ready = r.cluster.clock.Now()
	}
	r.done <- a
}

// takeCommit notes what has been written so far as what the answer waits for.
func (r *request) takeCommit() {
	if r.handler.writes || r.wrote {
		r.commit = r.cluster.store.Commit()
	}
}

// wait waits until a parked request is completed, or is false where its connection is closed before.
func (r *request) wait() (answer, bool) {
	select {
	case a := <-r.done:
		return a, true
	case <-r.conn.gone:
		r.withdraw()
		return nil, false
	}
}

// withdraw takes a request that waits off the lists that it waits on.
func (r *request) withdraw() {
	if r.faulty != nil {
		r.faulty.step.Lock() // what goes on in another goroutine comes to its end first
		defer r.faulty.step.Unlock()
	}
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	if r.cancel != nil {
		r.cancel()
		r.cancel = nil
	}
	if r.faulty != nil {
		r.faulty.withdrawn = true
	}
}

// handler answers the requests of one API.
type handler struct {
	// writes tells that the API changes what must survive, so that its answers wait for the store.
	writes bool
	handle func(*request) (answer, error)
	// demands are the rights that its requests need.
	demands []demand
	// guarded tells that some of them are looked for before it is called.
	guarded bool
}

// locked makes a handler of a function that runs under the cluster's lock. A nil response means that the
// request was parked or has no answer.
func locked[Q kmsg.Request](f func(*Cluster, *request, Q) kmsg.Response) *handler {
	return &handler{handle: func(r *request) (answer, error) {
		q, err := decode[Q](r)
		if err != nil {
			return nil, err
		}
		r.cluster.mu.Lock()
		defer r.cluster.mu.Unlock()
		response := f(r.cluster, r, q)
		if r.closing != nil || response == nil {
			return nil, nil
		}
		r.takeCommit()
		return response, nil
	}}
}

// writing marks a handler's API as one that changes what must survive.
func writing(h *handler) *handler {
	h.writes = true
	return h
}

// decode reads the body of a request.
func decode[Q kmsg.Request](r *request) (Q, error) {
	q, err := r.decode()
	return q.(Q), err
}

// decode reads the body of a request whose key kmsg knows.
func (r *request) decode() (kmsg.Request, error) {
	q := r.api.NewRequest(r.header.Version)
	if err := r.read(q); err != nil {
		return q, err
	}
	if !utf8.Valid(r.body) { // binary fields make this common; strings that are wrong are not
		replaceMalformed(reflect.ValueOf(q).Elem())
	}
	return q, nil
}

// read decodes the body. Which of its bytes are wrong admit has said; kmsg's errors say nothing of them.
func (r *request) read(q kmsg.Request) error {
	err := q.ReadFrom(r.body)
	if err == nil || errors.Is(err, protocol.ErrMalformed) {
		return err
	}
	return fmt.Errorf("%w: its fields cannot be decoded", protocol.ErrMalformed)
}

// replaceMalformed replaces bytes of strings that are no UTF-8 by U+FFFD, each, as Java does where it reads a string.
func replaceMalformed(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); !utf8.ValidString(s) {
			v.SetString(string([]rune(s)))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			replaceMalformed(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				replaceMalformed(f)
			}
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k == reflect.String || k == reflect.Struct || k == reflect.Pointer {
			for i := range v.Len() {
				replaceMalformed(v.Index(i))
			}
		}
	}
}

// response makes the empty answer of a request, of the same version.
func response[R kmsg.Response](q kmsg.Request) R {
	p := q.ResponseKind()
	return p.(R)
}
