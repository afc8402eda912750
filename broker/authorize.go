package broker

import (
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/fault"
	"kshare/protocol/errorcode"
)

// errUnauthorized is why a connection is closed whose client may not write and wants no answer.
var errUnauthorized = errors.New("acks is 0 and the client has no right to write")

// may tells whether the client that sent a request has a right. Without an authorizer everybody has every right. The cluster's lock is held.
func (r *request) may(op acl.Operation, kind acl.ResourceType, name string) bool {
	return r.cluster.authorizer == nil || r.cluster.authorizer.Allows(r.conn.client, op, kind, name)
}

// mayOnCluster is may for the cluster as a whole.
func (r *request) mayOnCluster(op acl.Operation) bool { return r.may(op, acl.Cluster, acl.ClusterName) }

// mayOnTopicID is may for the topic with an id. What is no topic is not refused: Kafka says that it does not know it.
func (r *request) mayOnTopicID(op acl.Operation, id [16]byte) bool {
	if r.cluster.authorizer == nil {
		return true
	}
	t := r.cluster.topicsByID[id]
	return t == nil || r.may(op, acl.Topic, t.name)
}

// operations are what the client may do to a resource, as the bit field that answers have.
func (r *request) operations(kind acl.ResourceType, name string) int32 {
	if r.cluster.authorizer != nil {
		return r.cluster.authorizer.Operations(r.conn.client, kind, name)
	}
	return allOperations[kind]
}

// allOperations are the operations that there are on each type of resource, as bit fields.
var allOperations = func() map[acl.ResourceType]int32 {
	all := map[acl.ResourceType]int32{}
	for _, kind := range []acl.ResourceType{acl.Topic, acl.Group, acl.Cluster} {
		for _, op := range kind.Supported() {
			all[kind] |= 1 << op
		}
	}
	return all
}()

// demand is a right that the requests of an API need.
type demand struct {
	op   acl.Operation
	kind acl.ResourceType
	// levels are where answers say that the right is missing. The first that the version of the answer has counts.
	levels []fault.Level
	// instead is another operation whose right does as well, 0 for none.
	instead acl.Operation
	// of are the resources that a request is about as a whole. nil: what is at the level names its own.
	of func(kmsg.Request) []string
	// only picks the requests and, without one, the entries that need the right; nil for all.
	only      func(kmsg.Request) bool
	onlyEntry func(fault.Element) bool
	// inside tells that the handler looks itself, since what it answers depends on more.
	inside bool
	silent bool    // nothing says that the right is missing
	code   int16   // 0 for that of the kind
	says   *string // the message beside the code where there is room for one, nil for none
	// doc is what stands in docs/security.md about who needs the right and what comes without it, beside the code; "" for nothing.
	doc string
}

// needing makes an API one that needs rights.
func needing(h *handler, demands ...demand) *handler {
	h.demands = append(h.demands, demands...)
	for i := range demands {
		h.guarded = h.guarded || !demands[i].inside
	}
	return h
}

// deniedCodes are the errors of a missing right, by the type of its resource.
var deniedCodes = map[acl.ResourceType]int16{
	acl.Topic:           errorcode.TopicAuthorizationFailed,
	acl.Group:           errorcode.GroupAuthorizationFailed,
	acl.Cluster:         errorcode.ClusterAuthorizationFailed,
	acl.TransactionalID: errorcode.TransactionalIDAuthorizationFailed,
}

func (d *demand) deniedCode() int16 {
	if d.code != 0 {
		return d.code
	}
	return deniedCodes[d.kind]
}

// Messages of answers that are refused, where Kafka has one (Errors.java).
var (
	saysNothing     = kmsg.StringPtr("")
	saysTopic       = kmsg.StringPtr("Topic authorization failed.")
	saysGroup       = kmsg.StringPtr("Group authorization failed.")
	saysCluster     = kmsg.StringPtr("Cluster authorization failed.")
	saysTransaction = kmsg.StringPtr("Transactional Id authorization failed.")
	// Apache Kafka has its request object, with addresses of memory, where the dots are.
	saysAlter    = kmsg.StringPtr("Request Request(...) needs ALTER permission.")
	saysDescribe = kmsg.StringPtr("Request Request(...) needs DESCRIBE permission.")
)

// onCluster is a right to the cluster that a request needs as a whole.
func onCluster(op acl.Operation, says *string, levels ...fault.Level) demand {
	return demand{op: op, kind: acl.Cluster, says: says, levels: wholeRequest(levels), of: func(kmsg.Request) []string { return []string{acl.ClusterName} }}
}

// onOne is a right to the one resource that a request names.
func onOne[Q kmsg.Request](op acl.Operation, kind acl.ResourceType, name func(Q) string, levels ...fault.Level) demand {
	return onAll(op, kind, func(q Q) []string { return []string{name(q)} }, levels...)
}

// onAll is a right to each resource that a request names, without one of which it fails as a whole.
func onAll[Q kmsg.Request](op acl.Operation, kind acl.ResourceType, names func(Q) []string, levels ...fault.Level) demand {
	return demand{op: op, kind: kind, levels: wholeRequest(levels), of: func(q kmsg.Request) []string { return names(q.(Q)) }}
}

// wholeRequest is where a request fails as a whole: at the top, or at all its entries of the levels where the version has no error there.
func wholeRequest(levels []fault.Level) []fault.Level {
	return append([]fault.Level{fault.Top}, levels...)
}

// onEach is a right to each resource that the entries of a level name.
func onEach(op acl.Operation, kind acl.ResourceType, levels ...fault.Level) demand {
	return demand{op: op, kind: kind, levels: levels}
}

// looksItself is a right that the handler of an API looks for.
func looksItself(op acl.Operation, kind acl.ResourceType, doc string) demand {
	return demand{op: op, kind: kind, inside: true, doc: doc}
}

// onResources is a right to the resources of a type that a request for configurations names. Those of brokers and of clients' metrics are the cluster's.
func onResources(op acl.Operation, kind acl.ResourceType, says *string) demand {
	d := onEach(op, kind, fault.Resource)
	d.says = says
	d.onlyEntry = func(e fault.Element) bool {
		n, _ := e.Number("ResourceType")
		switch kmsg.ConfigResourceType(n) {
		case kmsg.ConfigResourceTypeTopic:
			return kind == acl.Topic
		case kmsg.ConfigResourceTypeGroupConfig:
			return kind == acl.Group
		case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics:
			return kind == acl.Cluster
		}
		return false
	}
	return d
}

func (d demand) saying(says *string) demand               { d.says = says; return d }
func (d demand) silently() demand                         { d.silent = true; return d }
func (d demand) with(code int16) demand                   { d.code = code; return d }
func (d demand) or(op acl.Operation) demand               { d.instead = op; return d }
func (d demand) when(only func(kmsg.Request) bool) demand { d.only = only; return d }

// before are the requests of versions below one.
func before(version int16) func(kmsg.Request) bool {
	return func(q kmsg.Request) bool { return q.GetVersion() < version }
}

// since are the requests of versions from one on.
func since(version int16) func(kmsg.Request) bool {
	return func(q kmsg.Request) bool { return q.GetVersion() >= version }
}

// denial is what was taken out of a request because the client has no right to it.
type denial struct {
	selector fault.Selector
	place    fault.Place
	taken    fault.Taken
	code     int16
}

// authorize takes out of a request what its client has no right to. The answer is not nil where nothing is left to be handled.
func (r *request) authorize() (kmsg.Response, error) {
	if !r.handler.guarded {
		return nil, nil
	}
	q, err := r.decode()
	if err != nil {
		return nil, err
	}
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	for i := range r.handler.demands {
		d := &r.handler.demands[i]
		if d.inside || d.only != nil && !d.only(q) {
			continue
		}
		place, ok := r.placeOf(d)
		if !ok {
			continue
		}
		if d.of != nil {
			if r.lacksAny(d, d.of(q)) {
				r.denials = nil
				return r.denied(q, fault.FailAt(q, place, d.deniedCode(), d.says)), nil
			}
			continue
		}
		s := fault.Selector{Message: d.says, Picks: func(e fault.Element) bool { return r.lacks(d, e) }}
		taken, rest := s.Take(q, place)
		if len(taken) == 0 {
			continue
		}
		r.denials = append(r.denials, denial{s, place, taken, d.deniedCode()})
		if !rest {
			return r.denied(q, q.ResponseKind()), nil
		}
		r.body = q.AppendTo(nil)
	}
	return nil, nil
}

// denied is the answer of which nothing is left to be handled.
func (r *request) denied(q kmsg.Request, p kmsg.Response) kmsg.Response {
	if q, ok := q.(*kmsg.ProduceRequest); ok && q.Acks == 0 {
		r.closing = errUnauthorized
	}
	return p
}

// placeOf is where the answer says that a right is missing.
func (r *request) placeOf(d *demand) (fault.Place, bool) {
	for _, level := range d.levels {
		if place, ok := fault.PlaceOf(r.api, r.header.Version, level); ok {
			return place, true
		}
	}
	return fault.Place{}, false
}

// lacksAny tells whether the client lacks the right to one of the resources that a request is about.
func (r *request) lacksAny(d *demand, names []string) bool {
	for _, name := range names {
		if !r.may(d.op, d.kind, name) && (d.instead == 0 || !r.may(d.instead, d.kind, name)) {
			return true
		}
	}
	return false
}

// lacks tells whether the client lacks the right that an entry needs. What is below an entry goes with it.
func (r *request) lacks(d *demand, e fault.Element) bool {
	if d.onlyEntry != nil && !d.onlyEntry(e) {
		return false
	}
	if d.kind == acl.Cluster {
		return !r.mayOnCluster(d.op)
	}
	for _, field := range resourceFields[d.kind] {
		name, named := e.Text(field)
		switch {
		case !named:
		case name == "" && field == "Topic":
			return !r.mayOnTopicID(d.op, e.TopicID())
		default:
			return !r.may(d.op, d.kind, name)
		}
	}
	if id := e.TopicID(); d.kind == acl.Topic && id != [16]byte{} {
		return !r.mayOnTopicID(d.op, id)
	}
	return true
}

// resourceFields are the fields that an entry names a resource of a type in.
var resourceFields = map[acl.ResourceType][]string{
	acl.Topic:           {"Topic", "ResourceName"},
	acl.Group:           {"Group", "GroupID", "Key", "ResourceName"},
	acl.TransactionalID: {"TransactionalID", "Key"},
}

// withDenials puts what was taken out of the request into its answer.
func (r *request) withDenials(a answer) (answer, error) {
	if len(r.denials) == 0 || a == nil {
		return a, nil
	}
	p, err := r.reread(a)
	if err != nil {
		return nil, err
	}
	for i := range r.denials {
		d := &r.denials[i]
		d.selector.Put(p, d.place, d.taken, d.code)
	}
	return p, nil
}

// String is the right as people write it, as in READ TOPIC.
func (d *demand) String() string {
	return strings.ReplaceAll(d.op.String(), "_", " ") + " " + strings.ReplaceAll(d.kind.String(), "_", " ")
}
