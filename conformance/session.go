package conformance

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"
)

// sessionRules are about share sessions.
var sessionRules = []Rule{
	{ID: "share.session.epoch.1", Level: Must, Source: "KIP-932: SHARE_SESSION_NOT_FOUND", Says: "The first request to a node opens a session with the epoch 0.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if r.member != nil && r.session == nil {
			x.expect(s.epoch == 0 || s.epoch == -1, nil, "%s has the session epoch %d and there is no session with node %d", r.api.Name, s.epoch, r.conn.node)
		}
	})},
	{ID: "share.session.epoch.2", Level: Must, Source: "KIP-932: INVALID_SHARE_SESSION_EPOCH", Says: "The session epoch moves on by one with each answered ShareFetch and ShareAcknowledge; 1 follows 2147483647.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if r.session.live() && !r.session.unsure.is() && s.epoch > 0 {
			x.expect(s.epoch == r.next, []int{r.session.opened.no}, "%s has the session epoch %d, the session is at %d", r.api.Name, s.epoch, r.next)
		}
	})},
	{ID: "share.session.epoch.3", Level: Must, Source: "SharePartitionManager: INVALID_REQUEST", Says: "A ShareFetch that opens a session carries no acknowledgements.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if s.fetch != nil && s.epoch == 0 {
			x.expect(!s.acknowledges(), nil, "the ShareFetch has the epoch 0 and acknowledges records")
		}
	})},
	{ID: "share.session.epoch.4", Level: Must, Source: "SharePartitionManager: INVALID_SHARE_SESSION_EPOCH", Says: "A ShareAcknowledge never has the epoch 0.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if s.fetch == nil {
			x.expect(s.epoch != 0, nil, "the ShareAcknowledge has the epoch 0")
		}
	})},
	{ID: "share.session.epoch.5", Level: Must, Source: "KIP-932", Says: "The session epoch is -1 or more.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		x.expect(s.epoch >= -1, nil, "%s has the session epoch %d", r.api.Name, s.epoch)
	})},
	{ID: "share.session.epoch.6", Level: Must, Source: "KIP-932", Says: "After SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH and SHARE_SESSION_LIMIT_REACHED the session begins anew with the epoch 0.", checks: onShare(
		func(x *exam, r *request, s *shareRequest) {
			if r.session != nil && r.session.ended == byError && s.epoch != -1 {
				x.expect(s.epoch == 0, []int{r.session.since.no}, "%s has the session epoch %d after %s", r.api.Name, s.epoch, codeName(r.session.code))
			}
		})},
	{ID: "share.session.epoch.7", Level: Info, Source: "ShareSessionHandler", Says: "Which epoch follows another error at the top of an answer.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if !r.session.live() || !r.session.unsure.is() || s.epoch == -1 {
			return
		}
		switch s.epoch {
		case 0:
			x.note("after %s the session begins anew with 0", codeName(r.session.code))
		case r.session.next:
			x.note("after %s the same epoch is used again", codeName(r.session.code))
		case following(r.session.next):
			x.note("after %s the next epoch is used", codeName(r.session.code))
		default:
			x.note("after %s the epoch is %d, the session was at %d", codeName(r.session.code), s.epoch, r.session.next)
		}
	})},
	{ID: "share.session.conn.1", Level: Info, Source: "KIP-932: a session ends with its connection", Says: "What a client sends on a new connection: a session begins with 0, or SHARE_SESSION_NOT_FOUND tells it so once.", checks: onShare(
		func(x *exam, r *request, s *shareRequest) {
			of := r.session
			switch {
			case of == nil || of.ended != byNetwork || s.epoch == -1:
			case s.epoch == 0:
				x.right()
			case of.missed.is():
				x.note("the epoch %d of a session whose connection has ended is used again, after it was used on another connection already", s.epoch)
			default:
				of.missed = r.mark
				x.note("the epoch of a session whose connection has ended is used on a new one")
			}
		})},
	{ID: "share.session.conn.2", Level: Must, Source: "ShareSessionCache: the session ends with the connection that opened it", Says: "The requests of a session go over the connection that opened it.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		of := r.session
		switch {
		case !of.live() || s.epoch == 0:
		case of.conn == r.conn && of.strayed.is():
			x.wrong([]int{of.strayed.no}, "connection %d of the session is in use, and a request went over another one", r.conn.id)
			of.strayed = mark{}
		case of.conn == r.conn:
			x.right()
		case len(of.flight) > 0: // whose end the broker may not have noticed
			of.strayed = r.mark
		default:
			x.wrong([]int{of.opened.no}, "%s goes over connection %d, the session was opened over connection %d", r.api.Name, r.conn.id, of.conn.id)
		}
	})},
	{ID: "share.session.full.1", Level: Must, Source: "KIP-932", Says: "The ShareFetch that opens a session and the next one list every assigned partition that the node leads.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		of := r.session
		if s.fetch == nil || !of.live() || s.epoch <= 0 || of.count != 0 || !r.member.assigned.is() {
			return
		}
		for _, tp := range ordered(r.member.assignment) {
			since := r.member.assignment[tp]
			l := r.conn.client.leaders[tp]
			if of.opened.at.Sub(since.at) <= x.grace || l == nil || l.node != r.conn.node || of.opened.at.Sub(l.told.at) <= x.grace || of.parts[tp] != nil || lists(s, tp) {
				continue
			}
			x.wrong([]int{of.opened.no, since.no}, "%s is assigned and led by node %d, and neither the first nor the second request of the session lists it", x.part(tp), r.conn.node)
			return
		}
		x.right()
	})},
	{ID: "share.session.incr.1", Level: Should, Source: "KIP-932", Says: "A later ShareFetch lists what it adds, and what it acknowledges.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if s.fetch == nil || s.epoch <= 0 || !r.session.live() || len(r.session.flight) > 0 || r.session.unsure.is() {
			return
		}
		for i := range s.partitions {
			p := &s.partitions[i]
			if have := r.session.parts[p.topicPartition]; have != nil && len(p.batches) == 0 && !have.failed {
				x.wrong([]int{have.added.no}, "%s is listed without acknowledgements and is in the session", x.part(p.topicPartition))
				return
			}
		}
		x.right()
	})},
	{ID: "share.session.forget.1", Level: Must, Source: "ShareSessionHandler", Says: "A partition that is listed only for its acknowledgements, and is not assigned, is forgotten in the same or the next ShareFetch.", checks: onShare(
		func(x *exam, r *request, s *shareRequest) {
			if s.fetch == nil || s.epoch <= 0 || !r.session.live() {
				return
			}
			for _, tp := range ordered(r.session.parts) {
				p := r.session.parts[tp]
				if _, wanted := r.member.assignment[tp]; !p.carrier || wanted {
					continue
				}
				if p.fetches >= 1 && !slices.Contains(s.forgotten, tp) && !acknowledged(s, tp) {
					p.carrier = false // told once
					x.wrong([]int{p.added.no}, "%s was listed for its acknowledgements alone and stays in the session", x.part(tp))
					return
				}
				if slices.Contains(s.forgotten, tp) {
					x.right()
				}
			}
			for i := range s.partitions {
				if p := &s.partitions[i]; len(p.batches) > 0 && r.session.parts[p.topicPartition] == nil && slices.Contains(s.forgotten, p.topicPartition) {
					x.right()
				}
			}
		})},
	{ID: "share.session.forget.2", Level: Should, Source: "KIP-932", Says: "A ShareFetch forgets partitions of the session, and none that it adds.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if len(s.forgotten) == 0 || !r.session.live() || s.epoch <= 0 || len(r.session.flight) > 0 {
			return
		}
		for _, tp := range s.forgotten {
			switch {
			case lists(s, tp) && !acknowledged(s, tp):
				x.wrong(nil, "%s is added and forgotten by one request", x.part(tp))
				return
			case r.session.parts[tp] == nil && !lists(s, tp):
				x.wrong([]int{r.session.opened.no}, "%s is forgotten and is not in the session", x.part(tp))
				return
			}
		}
		x.right()
	})},
	{ID: "share.session.close.1", Level: Must, Source: "KIP-932", Says: "A consumer that leaves closes each of its sessions once, with the epoch -1.", checks: checks{request: func(x *exam, r *request) {
		if r.share == nil || r.share.epoch != -1 || r.session == nil {
			return
		}
		x.expect(r.session.ended != byEpoch, []int{r.session.since.no}, "%s closes a session that was closed before", r.api.Name)
	}, closed: func(x *exam, c *conn) {
		for _, m := range c.speakers {
			for _, node := range m.nodes() {
				if s := m.sessions[node]; s.live() && s.conn == c && m.left.is() {
					x.wrong([]int{m.left.no, s.opened.no}, "the member %q has left, and its connection to node %d ends with the session open", m.id, node)
				}
			}
		}
	}}},
	{ID: "share.session.close.2", Level: Must, Source: "KIP-932: SHARE_SESSION_NOT_FOUND", Says: "A closed session is used no more.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if r.session != nil && r.session.ended == byEpoch && s.epoch != -1 {
			x.expect(s.epoch == 0, []int{r.session.since.no}, "%s has the epoch %d of a session that was closed", r.api.Name, s.epoch)
		}
	})},
	{ID: "share.session.close.3", Level: Info, Source: "KAFKA-20736", Says: "Whether a session without partitions and acknowledgements is closed.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if m := r.member; m != nil {
			for _, node := range m.nodes() {
				if of := m.sessions[node]; of.live() && of.empty.is() && x.now.Sub(of.empty.at) > emptyFor {
					x.note("a session without partitions stays open for more than %s", emptyFor)
				} else if of.ended == byEpoch && of.empty.is() {
					x.right()
				}
			}
		}
	})},
	{ID: "share.session.close.4", Level: Must, Source: "KIP-932", Says: "A ShareFetch that closes a session adds nothing to it.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if s.fetch == nil || s.epoch != -1 {
			return
		}
		for i := range s.partitions {
			if len(s.partitions[i].batches) == 0 {
				x.wrong(nil, "the ShareFetch has the epoch -1 and adds %s", x.part(s.partitions[i].topicPartition))
				return
			}
		}
		x.right()
	})},
	{ID: "share.session.node.1", Level: Must, Needs: NeedsNodes, Source: "KIP-932: NOT_LEADER_OR_FOLLOWER", Says: "Partitions are fetched from the node that leads them as far as the client was told.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if s.fetch == nil || s.epoch < 0 {
			return
		}
		for i := range s.partitions {
			p := &s.partitions[i]
			l := r.conn.client.leaders[p.topicPartition]
			if len(p.batches) > 0 || l == nil {
				continue
			}
			if !x.believed(r, l) {
				x.wrong([]int{l.told.no}, "%s is fetched from node %d, its leader is node %d", x.part(p.topicPartition), r.conn.node, l.node)
				return
			}
			x.right()
		}
	})},
}

const emptyFor = 10 * time.Second

// believed tells whether the client of a request may believe that its node leads the partition. Of consumers that share a client id one may know less than another.
func (x *exam) believed(r *request, l *leader) bool {
	if l.believes(x.Judge, r.conn.node) {
		return true
	}
	_, was := l.before[r.conn.node]
	return was && len(r.conn.client.members) > 1
}

// lists tells whether a request lists a partition.
func lists(s *shareRequest, tp topicPartition) bool {
	return slices.ContainsFunc(s.partitions, func(p sharePartition) bool { return p.topicPartition == tp })
}

// acknowledged tells whether a request lists a partition with acknowledgements.
func acknowledged(s *shareRequest, tp topicPartition) bool {
	return slices.ContainsFunc(s.partitions, func(p sharePartition) bool { return p.topicPartition == tp && len(p.batches) > 0 })
}

// ordered are the partitions of a map in an order that is always the same.
func ordered[V any](m map[topicPartition]V) []topicPartition {
	return slices.SortedFunc(maps.Keys(m), func(a, b topicPartition) int {
		if c := bytes.Compare(a.topic[:], b.topic[:]); c != 0 {
			return c
		}
		return cmp.Compare(a.index, b.index)
	})
}
