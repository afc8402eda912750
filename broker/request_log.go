package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/describe"
	"kshare/requestlog"
	"kshare/secrets"
	"kshare/sharesession"
)

// Requests returns the logged requests that a query picks, the oldest first. Without Options.RequestLog there are none.
func (c *Cluster) Requests(q requestlog.Query) ([]requestlog.Entry, error) {
	if c.requestLog == nil {
		return nil, nil
	}
	return c.requestLog.Find(q)
}

// arrive does what is to be done with a request before it is started: it logs it and finds the faults that act on it.
func (r *request) arrive() {
	c := r.cluster
	faulty := c.faults.any.Load() && !r.conn.silenced.Load() && r.refused == nil // what is no request is not what a fault is for
	follower := c.followed.now()
	logged := c.requestLog != nil || follower != nil
	if !logged && !faulty {
		return
	}
	q := r.message()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := r.subject(q)
	if faulty {
		r.intercept(q, s)
	}
	if !logged {
		return
	}
	r.logged = &requestlog.Entry{
		API: r.api.Name, Key: r.header.Key, Version: r.header.Version, Node: r.node.id, Connection: uint64(r.conn.id),
		ClientID: r.header.ClientID, CorrelationID: r.header.CorrelationID, Arrived: c.clock.Now(), Subject: s,
	}
	r.logged.SetRequest(secrets.FromRequest(q, r.body))
	if r.faulty != nil {
		r.logged.Faults = r.faulty.names()
	}
	if c.requestLog != nil {
		c.requestLog.Add(r.logged)
	}
	if follower != nil {
		e := *r.logged
		r.number = c.followed.requests.Add(1)
		follower.Requested(r.number, &e)
	}
}

// depart logs what became of a request: the answer that was sent, nil for none, or why the connection is closed.
func (r *request) depart(a answer, err error) {
	c := r.cluster
	at := r.ready
	if at.IsZero() {
		at = c.clock.Now()
	}
	change := func(e *requestlog.Entry) {
		e.Answered = at
		switch {
		case err != nil:
			e.Outcome, e.Reason = requestlog.Closed, err.Error()
		case a != nil:
			e.Outcome = requestlog.Answered
			e.SetAnswer(secrets.FromAnswer(r.header.Key, r.header.Version, encoded(a).body))
		case r.conn.silenced.Load():
			e.Outcome = requestlog.Silent
		default:
			e.Outcome = requestlog.NoAnswer
		}
	}
	if follower := c.followed.now(); follower != nil && r.number != 0 {
		e := *r.logged
		change(&e)
		follower.Answered(r.number, &e)
	}
	if c.requestLog != nil {
		c.requestLog.Update(r.logged, change)
	}
}

// message decodes the request, nil where it cannot be.
func (r *request) message() kmsg.Request {
	if r.refused != nil || !r.cluster.offers(r.api, r.header.Version) || r.api.NewRequest(r.header.Version) == nil {
		return nil
	}
	q, err := r.decode()
	if err != nil {
		return nil
	}
	return q
}

// subject is whom and what a request means: topics have their names, and the partitions that a session adds are there. The cluster's lock is held.
func (r *request) subject(q kmsg.Request) *describe.Subject {
	if q == nil {
		return nil
	}
	c := r.cluster
	s := describe.SubjectOf(q)
	switch q := q.(type) {
	case *kmsg.ShareFetchRequest:
		c.addShareSession(s, r.node, q)
	case *kmsg.FetchRequest:
		r.node.addFetchSession(s, q)
	}
	for i := range s.Topics {
		if t := &s.Topics[i]; t.Name == "" {
			t.Name = c.topicName(t.ID)
		}
	}
	return s
}

// topicName is the name of the topic with an id, "" where there is none. The lock is held.
func (c *Cluster) topicName(id [16]byte) string {
	if t := c.topicsByID[id]; t != nil {
		return t.name
	}
	return ""
}

// addShareSession adds the partitions that a ShareFetch fetches because its session has them.
func (c *Cluster) addShareSession(s *describe.Subject, n *node, q *kmsg.ShareFetchRequest) {
	if q.GroupID == nil || q.MemberID == nil || q.ShareSessionEpoch <= sharesession.InitialEpoch {
		return
	}
	for _, p := range c.share.sessions[n.id].Partitions(sharesession.Key{Group: *q.GroupID, Member: *q.MemberID}) {
		forgotten := slices.ContainsFunc(q.ForgottenTopicsData, func(t kmsg.ShareFetchRequestForgottenTopicsData) bool {
			return t.TopicID == p.TopicID && slices.Contains(t.Partitions, p.Partition)
		})
		if !forgotten {
			s.Topics = append(s.Topics, describe.Topic{ID: p.TopicID, Partitions: []int32{p.Partition}})
		}
	}
}

// addFetchSession adds the partitions that a Fetch fetches because its session has them.
func (n *node) addFetchSession(s *describe.Subject, q *kmsg.FetchRequest) {
	session := n.fetchSessions.sessions[q.SessionID]
	if session == nil || q.SessionEpoch <= initialFetchEpoch {
		return
	}
	for _, fp := range session.partitions.list {
		forgotten := slices.ContainsFunc(q.ForgottenTopics, func(t kmsg.FetchRequestForgottenTopic) bool {
			return t.Topic == fp.topic && t.TopicID == fp.topicID && slices.Contains(t.Partitions, fp.index)
		})
		if !forgotten {
			s.Topics = append(s.Topics, describe.Topic{Name: fp.topic, ID: fp.topicID, Partitions: []int32{fp.index}})
		}
	}
}
