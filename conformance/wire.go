package conformance

import (
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wireRules are about connections, versions and the form of requests.
var wireRules = []Rule{
	{ID: "wire.api.1", Level: Must, Source: "KIP-35", Says: "A connection learns ApiVersions before its first request of share groups.", checks: onShareKeys(
		func(x *exam, r *request) {
			x.expect(r.conn.versions != nil, nil, "%s came before ApiVersions was answered on connection %d", r.api.Name, r.conn.id)
		})},
	{ID: "wire.api.2", Level: Must, Source: "KIP-35", Says: "Each request has a version that was advertised on its own connection.", checks: checks{request: func(x *exam, r *request) {
		if r.conn.versions == nil || r.header.Key == apiVersionsKey || r.header.Key == saslHandshakeKey {
			return
		}
		v, ok := r.conn.versions[r.header.Key]
		switch {
		case !ok:
			x.wrong([]int{r.conn.versionsAt.no}, "%s was not advertised on connection %d", x.apiName(r.header.Key), r.conn.id)
		default:
			x.expect(v[0] <= r.header.Version && r.header.Version <= v[1], []int{r.conn.versionsAt.no},
				"%s has version %d, versions %d to %d were advertised", r.api.Name, r.header.Version, v[0], v[1])
		}
	}}},
	{ID: "wire.api.3", Level: Should, Source: "KIP-35", Says: "Requests of share groups have the highest version that Kafka 4.4 and the broker have in common.", checks: checks{request: func(x *exam, r *request) {
		v, ok := r.conn.versions[r.header.Key]
		if !ok || !isShareKey(r.header.Key) {
			return
		}
		want := min(r.api.MaxVersion, v[1])
		x.expect(r.header.Version >= want, []int{r.conn.versionsAt.no}, "%s has version %d, version %d was advertised", r.api.Name, r.header.Version, want)
	}}},
	{ID: "wire.api.4", Level: Must, Source: "KIP-932: version 0 was that of the early access, which is incompatible", Says: "Version 0 of the APIs of share groups is never sent.", checks: onShareKeys(
		func(x *exam, r *request) { x.expect(r.header.Version != 0, nil, "%s has version 0", r.api.Name) })},
	{ID: "wire.api.5", Level: Must, Source: "KIP-1222; KafkaApis validateAcknowledgementBatches", Says: "Below version 2 nothing is renewed: no acknowledgement has type 4.", checks: checks{request: func(x *exam, r *request) {
		if r.share != nil && r.header.Version < 2 && r.share.acknowledges() {
			x.expect(!r.share.has(ackRenew), nil, "%s v%d has an acknowledgement of type 4 (RENEW), which version 2 brings", r.api.Name, r.header.Version)
		}
	}}},
	{ID: "wire.schema.1", Level: Must, Source: "the message files of Apache Kafka 4.4", Says: "A request decodes exactly: no byte is left, nothing is null that may not be, strings are UTF-8.", checks: checks{request: func(x *exam, r *request) {
		x.expect(r.bad == "", nil, "%s v%d: %s", r.api.Name, r.header.Version, r.bad)
	}}},
	{ID: "wire.schema.2", Level: Must, Source: "the message files of Apache Kafka 4.4: mapKey", Says: "A partition is listed once in a request.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		seen := map[topicPartition]bool{}
		for i := range s.partitions {
			tp := s.partitions[i].topicPartition
			if seen[tp] {
				x.wrong(nil, "%s lists %s twice", r.api.Name, x.part(tp))
				return
			}
			seen[tp] = true
		}
		clear(seen)
		for _, tp := range s.forgotten {
			if seen[tp] {
				x.wrong(nil, "%s forgets %s twice", r.api.Name, x.part(tp))
				return
			}
			seen[tp] = true
		}
		x.right()
	})},
	{ID: "wire.schema.3", Level: Should, Source: "the message files of Apache Kafka 4.4", Says: "A topic is one entry of a list.", checks: checks{request: func(x *exam, r *request) {
		for _, list := range topicEntries(r.q) {
			seen := map[[16]byte]bool{}
			for _, id := range list.ids {
				if seen[id] {
					x.wrong(nil, "%s has several entries for the topic %s in %s", r.api.Name, x.topicName(id), list.name)
					return
				}
				seen[id] = true
			}
		}
		if r.share != nil {
			x.right()
		}
	}}},
	{ID: "wire.schema.4", Level: Must, Source: "KafkaApis: UNKNOWN_TOPIC_ID", Says: "No topic id is zero.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		for _, list := range topicEntries(r.q) {
			if slices.Contains(list.ids, [16]byte{}) {
				x.wrong(nil, "%s has the zero uuid for a topic id", r.api.Name)
				return
			}
		}
		x.right()
	})},
	{ID: "wire.head.1", Level: Must, Source: "Kafka protocol guide", Says: "The correlation ids of requests in flight on a connection differ.", checks: checks{request: func(x *exam, r *request) {
		for _, other := range r.conn.flight {
			if other.header.CorrelationID == r.header.CorrelationID {
				x.wrong([]int{other.no}, "correlation id %d is that of a %s that is not answered yet", r.header.CorrelationID, other.api.Name)
				return
			}
		}
		x.right()
	}}},
	{ID: "wire.head.2", Level: Info, Source: "KIP-511", Says: "The client id is the same on all requests of a connection, and the software's name and version are legal in ApiVersions.", checks: checks{request: func(x *exam, r *request) {
		if r.conn.requests > 1 && r.conn.firstID != r.header.ClientID {
			x.note("the client id changes from %q to %q on a connection", r.conn.firstID, r.header.ClientID)
		}
		if q, ok := r.q.(*kmsg.ApiVersionsRequest); ok && q.Version >= 3 {
			if legalSoftware.MatchString(q.ClientSoftwareName) && legalSoftware.MatchString(q.ClientSoftwareVersion) {
				x.right()
			} else {
				x.note("the software is called %q, version %q", q.ClientSoftwareName, q.ClientSoftwareVersion)
			}
		}
	}}},
	{ID: "wire.bounds.1", Level: Must, Source: "measured: a partition error -1, or no records", Says: "MaxWaitMs, MinBytes, MaxBytes and MaxRecords are not negative.", checks: on(func(x *exam, r *request, q *kmsg.ShareFetchRequest) {
		for _, f := range []struct {
			name  string
			value int32
		}{{"MaxWaitMs", q.MaxWaitMillis}, {"MinBytes", q.MinBytes}, {"MaxBytes", q.MaxBytes}, {"MaxRecords", q.MaxRecords}} {
			if f.value < 0 {
				x.wrong(nil, "%s is %d", f.name, f.value)
				return
			}
		}
		x.right()
	})},
	{ID: "wire.bounds.2", Level: Should, Source: "KIP-932", Says: "A fetch that is to return records asks for at least one record and one byte.", checks: on(func(x *exam, r *request, q *kmsg.ShareFetchRequest) {
		if r.share.keepsSession() && q.Version >= 1 && !(q.MaxRecords == 0 && q.MaxBytes == 0) {
			x.expect(q.MaxRecords != 0 && q.MaxBytes != 0 && q.BatchSize >= 1, nil, "MaxRecords is %d, MaxBytes %d, BatchSize %d, and the request does nothing else", q.MaxRecords, q.MaxBytes, q.BatchSize)
		}
	})},
	{ID: "wire.bounds.3", Level: Must, Source: "KIP-1206; measured: top-level error -1", Says: "ShareAcquireMode is 0 or 1.", checks: on(func(x *exam, r *request, q *kmsg.ShareFetchRequest) {
		if q.Version >= 2 {
			x.expect(q.ShareAcquireMode == 0 || q.ShareAcquireMode == 1, nil, "ShareAcquireMode is %d", q.ShareAcquireMode)
		}
	})},
	{ID: "wire.group.1", Level: Must, Source: "KIP-932: INVALID_REQUEST", Says: "GroupId is there, and the same in all requests of a member.", checks: checks{request: func(x *exam, r *request) {
		group, id, ok := whoAsks(r)
		switch {
		case !ok:
		case group == nil || *group == "":
			x.wrong(nil, "GroupId is %s", orNull(group))
		case id == nil:
		default:
			known, there := x.byID.get(*id)
			if there && known.group != *group {
				x.wrong([]int{known.beat.no}, "GroupId is %q, the member %q has the group %q in other requests", *group, *id, known.group)
			} else {
				x.right()
			}
		}
	}}},
	{ID: "wire.member.1", Level: Must, Source: "KIP-932", Says: "MemberId has 1 to 36 characters and is the same in heartbeats, fetches and acknowledgements.", checks: checks{request: func(x *exam, r *request) {
		_, id, ok := whoAsks(r)
		switch {
		case !ok:
		case id == nil || *id == "" || len(*id) > 36:
			x.wrong(nil, "MemberId is %s", orNull(id))
		case r.share != nil && r.member != nil && !r.member.beat.is():
			x.wrong(nil, "%s is of the member %q, which has sent no heartbeat", r.api.Name, *id)
		default:
			x.right()
		}
	}}},
	{ID: "wire.member.2", Level: Should, Source: "KIP-932", Says: "MemberId is a random UUID as text, and no two consumers share one.", checks: on(func(x *exam, r *request, q *kmsg.ShareGroupHeartbeatRequest) {
		m := r.member
		switch {
		case q.MemberEpoch != 0:
		case !uuidText.MatchString(q.MemberID):
			x.wrong(nil, "MemberId is %q", q.MemberID)
		case m.joined && m.over != nil && !m.over.gone && m.over.client != r.conn.client:
			x.wrong([]int{m.beat.no}, "the client %q joins with the MemberId of the client %q", r.header.ClientID, m.over.clientID)
		default:
			x.right()
		}
	})},
	{ID: "wire.flight.1", Level: Must, Source: "SharePartitionManager: the second is answered INVALID_SHARE_SESSION_EPOCH", Says: "Two requests with the same session epoch are never in flight.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if r.session == nil {
			return
		}
		for _, other := range r.session.flight {
			if other.share.epoch == s.epoch {
				x.wrong([]int{other.no}, "%s has the session epoch %d of a %s that is not answered yet", r.api.Name, s.epoch, other.api.Name)
				return
			}
		}
		x.right()
	})},
	{ID: "wire.flight.2", Level: Should, Source: "ShareConsumeRequestManager: nodesWithPendingRequests", Says: "A member has one ShareFetch or ShareAcknowledge in flight per node.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if r.session == nil {
			return
		}
		if n := len(r.session.flight); n > 0 && s.epoch >= 0 {
			x.wrong([]int{r.session.flight[0].no}, "%s comes while a %s is not answered yet", r.api.Name, r.session.flight[0].api.Name)
		} else {
			x.right()
		}
	})},
	{ID: "wire.throttle.1", Level: Should, Source: "KIP-219", Says: "A connection is silent for ThrottleTimeMs after an answer that has it.", checks: checks{request: func(x *exam, r *request) {
		c := r.conn
		if !c.throttled.is() || x.now.Sub(c.throttled.at) < throttleGrace {
			return
		}
		x.expect(!x.now.Before(c.silentUntil), []int{c.throttled.no}, "%s comes %d ms after an answer that throttles the connection", r.api.Name, x.now.Sub(c.throttled.at).Milliseconds())
		if !x.now.Before(c.silentUntil) {
			c.throttled = mark{}
		}
	}}},
	{ID: "wire.conn.1", Level: Should, Source: "KIP-144", Says: "A client backs off before it connects again where a connection was of no use: 20 times in 2 s at most.", checks: checks{request: func(x *exam, r *request) {
		if r.conn.requests > 1 {
			return
		}
		o := r.conn.client.reopening(r.conn.node)
		if o.closed == 0 {
			x.right()
			return
		}
		o.closed--
		n := o.opened.add(r.conn.opened, reconnectWindow, maxReconnects+1)
		x.expect(n <= maxReconnects, []int{o.opened.first()}, "the client has connected to node %d more than %d times within %s", r.conn.node, maxReconnects, reconnectWindow)
	}, closed: func(_ *exam, c *conn) {
		if c.client != nil && c.requests <= 1 { // one that was of use is no failure to back off from
			o := c.client.reopening(c.node)
			o.closed = min(o.closed+1, maxReconnects)
		}
	}}},
	{ID: "wire.conn.2", Level: Info, Source: "observation", Says: "How many connections a client has to a node at a time.", checks: checks{request: func(x *exam, r *request) {
		if r.conn.requests > 1 {
			return
		}
		if n := r.conn.client.peak[r.conn.node]; n > 1 {
			x.note("the client %q has had %d connections to a node at a time", r.conn.clientID, n)
		} else {
			x.right()
		}
	}}},
}

const saslHandshakeKey = 17

const (
	// throttleGrace is how long after a throttling answer requests may come that were on their way.
	throttleGrace   = 50 * time.Millisecond
	reconnectWindow = 2 * time.Second
	maxReconnects   = 20
)

var (
	legalSoftware = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)
	// uuidText is a UUID in its common form, or in base64: 22 characters, as Kafka writes it, perhaps padded.
	uuidText = regexp.MustCompile(`^(?:[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-fA-F]{32}|[A-Za-z0-9_\-+/]{22}(?:==)?)$`)
)

// reopening counts how often a client has connected to a node again.
type reopening struct {
	closed int
	opened ring
}

func (c *client) reopening(node int32) *reopening {
	if c.reopened == nil {
		c.reopened = map[int32]*reopening{}
	}
	if c.reopened[node] == nil {
		c.reopened[node] = &reopening{}
	}
	return c.reopened[node]
}

// onShareKeys makes a check of the requests of share consumers, whether they can be decoded or not.
func onShareKeys(f func(*exam, *request)) checks {
	return checks{request: func(x *exam, r *request) {
		if isShareKey(r.header.Key) {
			f(x, r)
		}
	}}
}

// whoAsks is the group and the member of a request of a share consumer.
func whoAsks(r *request) (group, member *string, ok bool) {
	switch q := r.q.(type) {
	case *kmsg.ShareGroupHeartbeatRequest:
		return &q.GroupID, &q.MemberID, true
	case *kmsg.ShareFetchRequest:
		return q.GroupID, q.MemberID, true
	case *kmsg.ShareAcknowledgeRequest:
		return q.GroupID, q.MemberID, true
	}
	return nil, nil, false
}

// topicEntries are the topic ids of the lists of a share request, as they stand.
func topicEntries(q kmsg.Request) []topicList {
	var topics, forgotten topicList
	topics.name, forgotten.name = "Topics", "ForgottenTopicsData"
	switch q := q.(type) {
	case *kmsg.ShareFetchRequest:
		for _, t := range q.Topics {
			topics.ids = append(topics.ids, t.TopicID)
		}
		for _, t := range q.ForgottenTopicsData {
			forgotten.ids = append(forgotten.ids, t.TopicID)
		}
	case *kmsg.ShareAcknowledgeRequest:
		for _, t := range q.Topics {
			topics.ids = append(topics.ids, t.TopicID)
		}
	}
	return []topicList{topics, forgotten}
}

// topicList is a list of topics by their ids.
type topicList struct {
	name string
	ids  [][16]byte
}
