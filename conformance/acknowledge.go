package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// acknowledgeRules are about acknowledgements.
var acknowledgeRules = []Rule{
	{ID: "share.ack.owner.1", Level: Must, Source: "KIP-932: INVALID_RECORD_STATE", Says: "A member acknowledges only what it has acquired.", checks: onAcks(func(x *exam, r *request, p *sharePartition) {
		if r.member == nil {
			return
		}
		h := r.member.held(p.topicPartition)
		judged := false
		wrong := int64(-1)
		p.offsets(func(offset int64, _ int8) bool {
			switch {
			case h.at(offset) != nil:
				judged = true
			case h != nil && h.forgotten:
			default:
				wrong = offset
			}
			return wrong < 0
		})
		switch {
		case wrong >= 0:
			x.wrong(nil, "%s was never acquired by the member", x.at(p.topicPartition, wrong))
		case judged:
			x.right()
		default:
			x.unsure()
		}
	})},
	{ID: "share.ack.owner.2", Level: Must, Needs: NeedsNodes, Source: "KIP-932", Says: "Records are acknowledged to the node that they were acquired from.", checks: onOffsets(func(x *exam, r *request, a *acked) (bool, string, []int) {
		if a.entry.session.node == r.conn.node {
			return true, "", nil
		}
		return true, fmt.Sprintf("acknowledged to node %d, acquired from node %d", r.conn.node, a.entry.session.node), []int{a.entry.acquired.no}
	})},
	{ID: "share.ack.once.1", Level: Should, Source: "KIP-932: INVALID_RECORD_STATE", Says: "An acquisition is acknowledged once with a type that ends it.", checks: onOffsets(func(x *exam, r *request, a *acked) (bool, string, []int) {
		switch {
		case a.kind == ackRenew:
			return false, "", nil
		case a.entry.state == entryAcked:
			return true, "acknowledged again after it was with success", []int{a.entry.acked.no, a.entry.acquired.no}
		case a.entry.flight > 0 && a.entry.attempts > 0 && !x.lostRequest(a.entry):
			return true, "acknowledged again before the first was answered", []int{a.entry.acked.no, a.entry.acquired.no}
		}
		return true, "", nil
	})},
	{ID: "share.ack.once.2", Level: Must, Source: "KIP-932", Says: "The type of an acknowledgement that succeeded does not change.", checks: onOffsets(func(x *exam, r *request, a *acked) (bool, string, []int) {
		if a.entry.state != entryAcked || a.entry.ack == a.kind {
			return true, "", nil
		}
		return true, fmt.Sprintf("acknowledged with type %d after type %d had succeeded", a.kind, a.entry.ack), []int{a.entry.acked.no, a.entry.acquired.no}
	})},
	{ID: "share.ack.order.1", Level: Must, Source: "KafkaApis: INVALID_REQUEST", Says: "The batches of a partition ascend and do not overlap.", checks: onAcks(func(x *exam, r *request, p *sharePartition) {
		for i := 1; i < len(p.batches); i++ {
			if p.batches[i].first <= p.batches[i-1].last {
				x.wrong(nil, "%s: the batch %d-%d follows the batch %d-%d", x.part(p.topicPartition), p.batches[i].first, p.batches[i].last, p.batches[i-1].first, p.batches[i-1].last)
				return
			}
		}
		if len(p.batches) > 1 {
			x.right()
		}
	})},
	{ID: "share.ack.order.2", Level: Must, Source: "KafkaApis: INVALID_REQUEST", Says: "A batch begins at 0 or later and does not end before it begins.", checks: onBatches(func(x *exam, r *request, p *sharePartition, b *ackBatch) string {
		if b.first < 0 || b.last < b.first {
			return fmt.Sprintf("the batch is %d-%d", b.first, b.last)
		}
		return ""
	})},
	{ID: "share.ack.types.1", Level: Must, Source: "KafkaApis: INVALID_REQUEST", Says: "A batch has one type, or one for each offset.", checks: onBatches(func(x *exam, r *request, p *sharePartition, b *ackBatch) string {
		if n := b.last - b.first + 1; len(b.types) != 1 && int64(len(b.types)) != n {
			return fmt.Sprintf("the batch %d-%d has %d types", b.first, b.last, len(b.types))
		}
		return ""
	})},
	{ID: "share.ack.types.2", Level: Must, Source: "KafkaApis: INVALID_REQUEST", Says: "The types are 0 to 3, and 4 from version 2 on.", checks: onBatches(func(x *exam, r *request, p *sharePartition, b *ackBatch) string {
		for _, t := range b.types {
			if t < 0 || t > ackRenew || t == ackRenew && r.header.Version < 2 {
				return fmt.Sprintf("the batch %d-%d has the type %d in version %d", b.first, b.last, t, r.header.Version)
			}
		}
		return ""
	})},
	{ID: "share.ack.renew.1", Level: Must, Source: "KIP-1222: INVALID_REQUEST", Says: "Acknowledgements of type 4 (RENEW) go with IsRenewAck.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if r.header.Version >= 2 && s.has(ackRenew) {
			x.expect(s.renew, nil, "%s has an acknowledgement of type 4 and IsRenewAck is false", r.api.Name)
		}
	})},
	{ID: "share.ack.renew.2", Level: Should, Source: "KIP-1222", Says: "IsRenewAck is false where nothing is renewed.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if r.header.Version >= 2 && !s.has(ackRenew) {
			x.expect(!s.renew, nil, "%s has IsRenewAck and no acknowledgement of type 4", r.api.Name)
		}
	})},
	{ID: "share.ack.gap.1", Level: Must, Source: "ShareCompletedFetch", Says: "GAP is for offsets at which no record was sent.", checks: onOffsets(func(x *exam, r *request, a *acked) (bool, string, []int) {
		if a.kind == ackGap && a.entry.kind == kindData {
			return true, "acknowledged as GAP, and the answer had a record there", []int{a.entry.acquired.no}
		}
		return a.kind == ackGap || a.entry.kind == kindData, "", nil
	})},
	{ID: "share.ack.gap.2", Level: Should, Source: "KIP-932", Says: "Offsets without data are acknowledged within 5 s, or half the lock.", checks: onShare(func(x *exam, r *request, s *shareRequest) {
		if s.fetch == nil || !r.session.live() || s.epoch <= 0 || len(r.session.gaps) == 0 {
			return
		}
		of := r.session
		kept := of.gaps[:0]
		told := false
		for _, g := range of.gaps {
			switch {
			case g.entry.acked.is():
				x.right()
			case g.entry.state != entryOpen:
			case x.now.After(g.due) && !acknowledgesOffset(s, g.topicPartition, g.offset):
				if !told {
					told = true
					x.wrong([]int{g.entry.acquired.no}, "%s has %s and is not acknowledged %s after it was acquired", x.at(g.topicPartition, g.offset), g.entry.kind, x.now.Sub(g.entry.acquired.at).Round(time.Millisecond))
				}
			default:
				kept = append(kept, g)
			}
		}
		clear(of.gaps[len(kept):])
		of.gaps = kept
	})},
	{ID: "share.ack.gap.3", Level: Should, Source: "KIP-932", Says: "Offsets of control records are acknowledged as GAP, not accepted.", checks: onOffsets(func(x *exam, r *request, a *acked) (bool, string, []int) {
		if a.entry.kind != kindControl {
			return false, "", nil
		}
		if a.kind == ackAccept {
			return true, "accepted, and the answer had a control record there", []int{a.entry.acquired.no}
		}
		return true, "", nil
	})},
	{ID: "share.ack.bad.1", Level: Must, Source: "ShareCompletedFetch; kgo", Says: "Records of a batch that cannot be decoded are neither accepted nor acknowledged as GAP: that archives them unread.", checks: onOffsets(func(x *exam, r *request, a *acked) (bool, string, []int) {
		if a.entry.kind != kindUndecodable {
			return false, "", nil
		}
		if a.kind == ackAccept || a.kind == ackGap {
			return true, fmt.Sprintf("acknowledged with type %d, and its batch cannot be decoded", a.kind), []int{a.entry.acquired.no}
		}
		return true, "", nil
	})},
	{ID: "share.ack.bad.2", Level: Info, Source: "observation", Says: "How records of a batch that cannot be decoded are acknowledged.", checks: onAcks(func(x *exam, r *request, p *sharePartition) {
		p.offsets(func(offset int64, kind int8) bool {
			if e := r.member.held(p.topicPartition).at(offset); e != nil && e.kind == kindUndecodable {
				x.note("records of a batch that cannot be decoded are acknowledged with type %d", kind)
			}
			return true
		})
	})},
	{ID: "share.ack.done.1", Level: Must, Source: "KIP-932", Says: "When a member that has left disconnects, no acquisition of it is open.", checks: checks{closed: func(x *exam, c *conn) {
		for _, m := range c.speakers {
			for _, node := range m.nodes() {
				if s := m.sessions[node]; s.conn == c && m.left.is() {
					x.expect(!s.live() || s.open == 0, []int{m.left.no}, "the member %q has left and %d records that it acquired from node %d are neither acknowledged nor released", m.id, s.open, node)
				}
			}
		}
	}}},
	{ID: "share.ack.done.2", Level: Should, Source: "KIP-932", Says: "No acquisition ends by its lock while the member goes on.", checks: checks{answered: func(x *exam, a *answer) {
		p, ok := a.p.(*kmsg.ShareFetchResponse)
		if !ok || a.member == nil || p.AcquisitionLockTimeoutMillis <= 0 {
			return
		}
		m, s := a.member, a.member.sessions[a.conn.node]
		for i := range p.Topics {
			for k := range p.Topics[i].Partitions {
				pp := &p.Topics[i].Partitions[k]
				if len(pp.AcquiredRecords) > 0 {
					x.watch(m, s, topicPartition{p.Topics[i].TopicID, pp.Partition}, a.mark, ranges(pp.AcquiredRecords))
				}
			}
		}
	}}},
	{ID: "share.ack.impl.1", Level: Must, Source: "ShareConsumerImpl", Needs: NeedsDriver, Says: "In implicit mode a record is accepted once an earlier poll has returned it."},
	{ID: "share.ack.expl.1", Level: Must, Source: "KIP-932", Needs: NeedsDriver, Says: "In explicit mode the application's choices are sent, each once."},
	{ID: "share.ack.retry.1", Level: Should, Source: "ShareConsumeRequestManager handlePartitionError", Says: "An acknowledgement that was refused for good is not sent again.", checks: onOffsets(func(x *exam, r *request, a *acked) (bool, string, []int) {
		e := a.entry
		if e.error == errorcode.None {
			return false, "", nil
		}
		if slices.Contains(finalCodes, e.error) {
			return true, "acknowledged again after " + codeName(e.error), []int{e.errorAt.no}
		}
		return true, "", nil
	})},
	{ID: "share.ack.retry.2", Level: Must, Source: "KIP-932", Says: "An acknowledgement is retried until its lock ends, and 20 times at most.", checks: onOffsets(func(x *exam, r *request, a *acked) (bool, string, []int) {
		e := a.entry
		switch {
		case a.kind == ackRenew || e.attempts == 0:
			return false, "", nil
		case e.attempts >= maxAttempts:
			return true, fmt.Sprintf("acknowledged for the %dth time", e.attempts+1), []int{e.acquired.no, e.acked.no}
		case x.now.After(e.deadline.Add(x.grace)) && e.state != entryAcked:
			return true, fmt.Sprintf("acknowledged again %s after its lock ended", x.now.Sub(e.deadline).Round(time.Millisecond)), []int{e.acquired.no, e.acked.no}
		}
		return true, "", nil
	})},
	{ID: "share.ack.lost.1", Level: Should, Source: "KIP-932: records of a lost session are released", Says: "What was acquired in a session whose connection was lost is not acknowledged in a later one.", checks: onOffsets(func(x *exam, r *request, a *acked) (bool, string, []int) {
		of := a.entry.session
		if of.ended != byNetwork || r.session == of {
			return r.session == of, "", nil
		}
		return true, "acknowledged in another session than it was acquired in, which was lost with its connection", []int{of.since.no, a.entry.acquired.no}
	})},
	{ID: "share.ack.report.1", Level: Must, Source: "KIP-932", Needs: NeedsDriver, Says: "Each acknowledgement has one result at the application."},
	{ID: "share.ack.size.1", Level: Info, Source: "ShareSessionHandler", Says: "Whether equal neighbours are one batch.", checks: onAcks(func(x *exam, r *request, p *sharePartition) {
		for i := 1; i < len(p.batches); i++ {
			a, b := &p.batches[i-1], &p.batches[i]
			if len(a.types) == 1 && len(b.types) == 1 && a.types[0] == b.types[0] && a.last+1 == b.first {
				x.note("neighbouring batches of the same type are not one")
				return
			}
		}
		x.right()
	})},
}

// applicationRules are about what an application gets, which only a driver can tell.
var applicationRules = []Rule{
	{ID: "share.app.filter.1", Level: Must, Source: "KIP-932", Needs: NeedsDriver, Says: "Only acquired records reach the application."},
	{ID: "share.app.once.1", Level: Must, Source: "KIP-932", Needs: NeedsDriver, Says: "An acquisition is delivered at most once."},
	{ID: "share.app.count.1", Level: Must, Source: "KIP-932", Needs: NeedsDriver, Says: "The delivery count that the application sees is that of the acquired range."},
	{ID: "share.app.all.1", Level: Must, Source: "KIP-932", Needs: NeedsDriver, Says: "Each acquired record is delivered, released, or given back when the session closes."},
	{ID: "share.app.order.1", Level: Should, Source: "KIP-932", Needs: NeedsDriver, Says: "Records of an answer are delivered in the order of their offsets."},
}

// maxAttempts is how often an acknowledgement may be sent.
const maxAttempts = 20

// finalCodes are the errors of acknowledgements that do not go away.
var finalCodes = []int16{
	errorcode.InvalidRecordState, errorcode.InvalidRequest, errorcode.NotLeaderOrFollower, errorcode.FencedLeaderEpoch,
	errorcode.UnknownTopicOrPartition, errorcode.UnknownTopicID, errorcode.TopicAuthorizationFailed,
}

// onBatches makes a check of batches of acknowledgements that says what is wrong with one.
func onBatches(f func(*exam, *request, *sharePartition, *ackBatch) string) checks {
	return onAcks(func(x *exam, r *request, p *sharePartition) {
		for i := range p.batches {
			if wrong := f(x, r, p, &p.batches[i]); wrong != "" {
				x.wrong(nil, "%s: %s", x.part(p.topicPartition), wrong)
				return
			}
		}
		x.right()
	})
}

// acknowledgesOffset tells whether a request acknowledges an offset.
func acknowledgesOffset(s *shareRequest, tp topicPartition, offset int64) bool {
	for i := range s.partitions {
		if s.partitions[i].topicPartition == tp {
			for _, b := range s.partitions[i].batches {
				if b.first <= offset && offset <= b.last {
					return true
				}
			}
		}
	}
	return false
}

// lostRequest tells whether the request that acknowledged an entry last will not be answered any more.
func (x *exam) lostRequest(e *entry) bool {
	for _, r := range e.session.flight {
		if r.no == e.acked.no {
			return false
		}
	}
	return true
}

// offsetRange is acquired offsets.
type offsetRange struct{ first, last int64 }

func ranges(all []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord) (rs []offsetRange) {
	for _, r := range all {
		if r.LastOffset-r.FirstOffset < maxRange {
			rs = append(rs, offsetRange{r.FirstOffset, r.LastOffset})
		}
	}
	return rs
}

// watch looks at acquired offsets when their lock ends, and again when they were renewed.
func (x *exam) watch(m *member, s *session, tp topicPartition, acquired mark, rs []offsetRange) {
	h := m.held(tp)
	var next time.Time
	expired := int64(-1)
	for _, r := range rs {
		for o := r.first; o <= r.last; o++ {
			e := h.at(o)
			if e == nil || e.acquired != acquired || e.state != entryOpen || e.acked.is() && e.attempts > 0 {
				continue
			}
			if e.deadline.After(x.now) {
				if next.IsZero() || e.deadline.Before(next) {
					next = e.deadline
				}
				continue
			}
			e.state = entryExpired
			e.session.open--
			if expired < 0 {
				expired = o
			}
		}
	}
	switch {
	case expired >= 0 && s.live() && m.joined:
		x.wrong([]int{acquired.no}, "%s: the lock ended and the member %q had not acknowledged it", x.at(tp, expired), m.id)
	case next.IsZero():
		x.right()
	}
	if !next.IsZero() {
		x.later(next.Sub(x.now), func(x *exam) { x.watch(m, s, tp, acquired, rs) })
	}
}
