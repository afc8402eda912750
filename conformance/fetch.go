package conformance

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// fetchRules are about how share consumers ask for records, and whom.
var fetchRules = []Rule{
	{ID: "share.fetch.renew.1", Level: Must, Source: "KIP-1222; KafkaApis: INVALID_REQUEST", Says: "A ShareFetch with IsRenewAck asks for nothing: MaxWaitMs, MinBytes, MaxBytes and MaxRecords are 0.", checks: on(func(x *exam, r *request, q *kmsg.ShareFetchRequest) {
		if q.IsRenewAck {
			x.expect(q.MaxWaitMillis == 0 && q.MinBytes == 0 && q.MaxBytes == 0 && q.MaxRecords == 0, nil,
				"IsRenewAck is true with MaxWaitMs %d, MinBytes %d, MaxBytes %d, MaxRecords %d", q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.MaxRecords)
		}
	})},
	{ID: "share.fetch.mode.1", Level: Should, Source: "KIP-1206", Says: "ShareAcquireMode stays as it was when the session was opened.", checks: on(func(x *exam, r *request, q *kmsg.ShareFetchRequest) {
		if q.Version >= 2 && q.ShareSessionEpoch > 0 && r.session.live() && !q.IsRenewAck {
			x.expect(q.ShareAcquireMode == r.session.mode, []int{r.session.opened.no}, "ShareAcquireMode is %d, the session was opened with %d", q.ShareAcquireMode, r.session.mode)
		}
	})},
	{ID: "share.fetch.limit.1", Level: Should, Needs: NeedsNodes, Source: "KIP-1206; KAFKA-19767", Says: "With ShareAcquireMode 1 all requests in flight together ask for no more records than one does.", checks: on(func(x *exam, r *request, q *kmsg.ShareFetchRequest) {
		if q.Version < 2 || q.ShareAcquireMode != 1 || !r.share.acquires() || r.member == nil {
			return
		}
		sum, most, frames := q.MaxRecords, max(r.member.maxRecords, q.MaxRecords), []int{}
		for _, other := range r.member.asking {
			if !other.conn.gone {
				sum += other.share.fetch.MaxRecords
				frames = append(frames, other.no)
			}
		}
		x.expect(sum <= most, frames, "the requests in flight ask for %d records, one asks for %d at most", sum, most)
	})},
	{ID: "share.fetch.idle.1", Level: Info, Source: "KIP-932", Needs: NeedsDriver, Says: "Whether records are fetched while the application does not poll."},
	{ID: "share.fetch.hold.1", Level: Should, Source: "KIP-932", Says: "A member does not go on to acquire while it holds twice the records that it asks for and acknowledges none.", checks: on(func(x *exam, r *request, q *kmsg.ShareFetchRequest) {
		s := r.session
		if q.Version < 1 || !s.live() || !r.share.acquires() || r.share.acknowledges() || s.open == 0 {
			return
		}
		x.expect(s.answers < 3 || int64(s.open) <= 2*int64(q.MaxRecords), []int{s.opened.no}, "the member holds %d records of %d answers and has acknowledged none since, MaxRecords is %d", s.open, s.answers, q.MaxRecords)
	})},
	{ID: "share.fetch.rate.1", Level: Should, Source: "KIP-932", Says: "Empty answers that waited for MaxWaitMs do not make a client spin.", checks: checks{answered: func(x *exam, a *answer) {
		p, ok := a.p.(*kmsg.ShareFetchResponse)
		if !ok || a.member == nil || p.ErrorCode != errorcode.None || !a.share.acquires() || a.share.acknowledges() {
			return
		}
		s := a.member.sessions[a.conn.node]
		q := a.share.fetch
		wait := time.Duration(q.MaxWaitMillis) * time.Millisecond
		if s == nil || !empty(p) || a.took < wait*9/10 {
			return
		}
		most := int(spinWindow*3/2/max(wait, leastWait)) + 5
		n := s.polls.add(a.mark, spinWindow, most+1)
		x.expect(n <= most, []int{s.polls.first()}, "more than %d empty fetches within %s, MaxWaitMs is %d", most, spinWindow, q.MaxWaitMillis)
		if n > most {
			s.polls.clear()
		}
	}}},
	{ID: "share.fetch.rate.2", Level: Should, Source: "KIP-580", Says: "After a ShareFetch or ShareAcknowledge that failed as a whole the client backs off: 20 failures in 2 s at most.", checks: checks{answered: func(x *exam, a *answer) {
		if a.share == nil || a.member == nil {
			return
		}
		code, failed := failure(a.p)
		s := a.member.sessions[a.conn.node]
		if !failed || s == nil {
			return
		}
		f := a.member.failures(a.conn.node)
		n := f.add(a.mark, failWindow, maxFailures+1)
		x.expect(n <= maxFailures, []int{f.first()}, "more than %d requests within %s failed, the last with %s", maxFailures, failWindow, codeName(code))
		if n > maxFailures {
			f.clear()
		}
	}}},
	{ID: "share.fetch.meta.1", Level: Should, Source: "KIP-932", Says: "NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH without a usable hint make the client ask for Metadata within 1 s.", checks: checks{answered: func(x *exam, a *answer) {
		p, ok := a.p.(*kmsg.ShareFetchResponse)
		if !ok || a.member == nil || !movedWithoutHint(p) {
			return
		}
		c, m := a.conn.client, a.member
		x.later(time.Second+x.grace, func(x *exam) {
			switch {
			case c.asked.no > a.no:
				x.right()
			case c.connected() && m.joined:
				x.wrong([]int{a.no}, "a partition was answered that it has another leader, without saying which, and the client %q asked for no Metadata since", c.id)
			}
		})
	}}},
	{ID: "share.fetch.meta.2", Level: Should, Source: "observation", Says: "A client asks for Metadata 10 times a second over a connection at most.", checks: on(func(x *exam, r *request, q *kmsg.MetadataRequest) {
		c := r.conn
		n := c.metadata.add(r.mark, metadataWindow, maxMetadata+1)
		x.expect(n <= maxMetadata, []int{c.metadata.first()}, "more than %d Metadata requests within %s on connection %d", maxMetadata, metadataWindow, c.id)
		if n > maxMetadata {
			c.metadata.clear()
		}
	})},
	{ID: "share.fetch.hint.1", Level: Must, Needs: NeedsNodes, Source: "the message files: CurrentLeader; franz-go #1519", Says: "CurrentLeader counts with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH only.", checks: onHinted(func(l *leader) map[int32]mark { return l.wrong },
		"%s is fetched from node %d, which a CurrentLeader without such an error named; its leader is node %d")},
	{ID: "share.fetch.hint.2", Level: Must, Needs: NeedsNodes, Source: "KIP-951", Says: "A CurrentLeader with an epoch that is not above the known one is ignored.", checks: onHinted(func(l *leader) map[int32]mark { return l.stale },
		"%s is fetched from node %d, which a CurrentLeader with an old epoch named; its leader is node %d")},
	{ID: "share.fetch.hint.3", Level: Info, Needs: NeedsNodes, Source: "KIP-951", Says: "Whether a usable CurrentLeader is followed without asking for Metadata.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if s.fetch == nil || s.epoch < 0 {
			return
		}
		for i := range s.partitions {
			l := r.conn.client.leaders[s.partitions[i].topicPartition]
			if l == nil || !l.hinted || l.node != r.conn.node || len(s.partitions[i].batches) > 0 {
				continue
			}
			l.hinted = false
			if r.conn.client.asked.no > l.told.no {
				x.note("Metadata is asked for before a CurrentLeader is followed")
			} else {
				x.note("a CurrentLeader is followed without asking for Metadata")
			}
		}
	})},
	{ID: "share.fetch.values.1", Level: Info, Source: "KIP-932", Says: "What a client asks for: MaxWaitMs, MinBytes, MaxBytes, MaxRecords and BatchSize.", checks: on(func(x *exam, r *request, q *kmsg.ShareFetchRequest) {
		if r.share.acquires() {
			x.note("MaxWaitMs %d, MinBytes %d, MaxBytes %d, MaxRecords %d, BatchSize %d", q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.MaxRecords, q.BatchSize)
		}
	})},
}

const (
	spinWindow     = 10 * time.Second
	leastWait      = 100 * time.Millisecond // what a MaxWaitMs below counts as
	failWindow     = 2 * time.Second
	maxFailures    = 20
	metadataWindow = 3 * time.Second
	maxMetadata    = 30
)

// onHinted makes a check that partitions are not fetched from nodes that answers named which do not count.
func onHinted(named func(*leader) map[int32]mark, format string) checks {
	return onShare(func(x *exam, r *request, s *shareRequest) {
		if s.fetch == nil || s.epoch < 0 {
			return
		}
		for i := range s.partitions {
			p := &s.partitions[i]
			l := r.conn.client.leaders[p.topicPartition]
			if len(p.batches) > 0 || l == nil || len(named(l)) == 0 {
				continue
			}
			at, was := named(l)[r.conn.node]
			if was && l.node != r.conn.node {
				if _, led := l.before[r.conn.node]; !led || x.old(at) || at.no > l.told.no {
					x.wrong([]int{at.no, l.told.no}, format, x.part(p.topicPartition), r.conn.node, l.node)
					return
				}
			}
			x.right()
		}
	})
}

// empty tells whether an answer has neither records nor errors.
func empty(p *kmsg.ShareFetchResponse) bool {
	for i := range p.Topics {
		for _, pp := range p.Topics[i].Partitions {
			if pp.ErrorCode != errorcode.None || len(pp.AcquiredRecords) > 0 {
				return false
			}
		}
	}
	return true
}

// failure tells whether an answer is an error, as a whole or for all partitions.
func failure(p kmsg.Response) (code int16, failed bool) {
	codes := []int16{}
	switch p := p.(type) {
	case *kmsg.ShareFetchResponse:
		if p.ErrorCode != errorcode.None {
			return p.ErrorCode, true
		}
		for i := range p.Topics {
			for _, pp := range p.Topics[i].Partitions {
				codes = append(codes, pp.ErrorCode)
			}
		}
	case *kmsg.ShareAcknowledgeResponse:
		if p.ErrorCode != errorcode.None {
			return p.ErrorCode, true
		}
		for i := range p.Topics {
			for _, pp := range p.Topics[i].Partitions {
				codes = append(codes, pp.ErrorCode)
			}
		}
	}
	for _, c := range codes {
		if c == errorcode.None {
			return 0, false
		}
		code = c
	}
	return code, len(codes) > 0
}

// movedWithoutHint tells whether a partition of an answer has another leader and does not say which.
func movedWithoutHint(p *kmsg.ShareFetchResponse) bool {
	for i := range p.Topics {
		for _, pp := range p.Topics[i].Partitions {
			moved := pp.ErrorCode == errorcode.NotLeaderOrFollower || pp.ErrorCode == errorcode.FencedLeaderEpoch
			if moved && (pp.CurrentLeader.LeaderID < 0 || pp.CurrentLeader.LeaderEpoch < 0) {
				return true
			}
		}
	}
	return false
}
