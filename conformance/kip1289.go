package conformance

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

// kip1289Rules are about acknowledgements in transactions. KIP-1289 is proposed only, so all are of level INFO; those that it would make a MUST tell when they are broken.
var kip1289Rules = []Rule{
	{ID: "ktx.gate.1", Level: Info, Needs: NeedsKTX, Source: "KIP-1289", Says: "TxnShareAcknowledge is sent where it is advertised and transaction.version is 2.", checks: on(func(x *exam, r *request, q *protocol.TxnShareAcknowledgeRequest) {
		_, advertised := r.conn.versions[r.header.Key]
		if !advertised || x.producers.level >= 0 && x.producers.level < 2 {
			x.note("TxnShareAcknowledge is sent, advertised: %t, transaction.version: %d", advertised, x.producers.level)
		} else {
			x.right()
		}
	})},
	{ID: "ktx.route.1", Level: Info, Needs: NeedsKTX, Source: "KIP-1289", Says: "TxnShareAcknowledge goes to the leaders of the partitions.", checks: onStaged(func(x *exam, r *request, q *protocol.TxnShareAcknowledgeRequest, p *sharePartition) {
		if l := r.conn.client.leaders[p.topicPartition]; l != nil && !x.believed(r, l) {
			x.note("%s is acknowledged at node %d, its leader is node %d", x.part(p.topicPartition), r.conn.node, l.node)
		} else {
			x.right()
		}
	})},
	{ID: "ktx.type.1", Level: Info, Needs: NeedsKTX, Source: "KIP-1289", Says: "The types are GAP, ACCEPT and REJECT.", checks: onStaged(func(x *exam, r *request, q *protocol.TxnShareAcknowledgeRequest, p *sharePartition) {
		for _, b := range p.batches {
			for _, t := range b.types {
				if t != ackGap && t != ackAccept && t != ackReject {
					x.note("an acknowledgement in a transaction has type %d", t)
					return
				}
			}
		}
		x.right()
	})},
	{ID: "ktx.owner.1", Level: Info, Needs: NeedsKTX, Source: "KIP-1289", Says: "What is acknowledged is open acquisitions of the member, in its present epoch.", checks: onStaged(func(x *exam, r *request, q *protocol.TxnShareAcknowledgeRequest, p *sharePartition) {
		m, ok := x.members.get(memberKey{q.GroupID, q.MemberID})
		if !ok {
			x.note("the member %q is not one of the group %q", q.MemberID, q.GroupID)
			return
		}
		if q.MemberEpoch != m.epoch && q.MemberEpoch != m.before {
			x.note("the member epoch is %d, it is at %d", q.MemberEpoch, m.epoch)
		}
		wrong := ""
		p.offsets(func(o int64, _ int8) bool {
			if e := m.held(p.topicPartition).at(o); e == nil || e.state != entryOpen {
				wrong = x.at(p.topicPartition, o)
			}
			return wrong == ""
		})
		if wrong != "" {
			x.note("%s is acknowledged in a transaction and is no open acquisition of the member", wrong)
		} else {
			x.right()
		}
	})},
	{ID: "ktx.dup.1", Level: Info, Needs: NeedsKTX, Source: "KIP-1289", Says: "What is part of a transaction is not acknowledged or renewed besides.", checks: onAcks(func(x *exam, r *request, p *sharePartition) {
		p.offsets(func(o int64, _ int8) bool {
			if e := r.member.held(p.topicPartition).at(o); e != nil && x.ktx.staged[e] {
				x.note("%s is acknowledged while it is part of a transaction", x.at(p.topicPartition, o))
				return false
			}
			return true
		})
		if len(x.ktx.staged) > 0 {
			x.right()
		}
	})},
	{ID: "ktx.end.1", Level: Info, Needs: NeedsKTX, Source: "KIP-1289", Says: "EndTxn follows the answers of all TxnShareAcknowledge, and aborts where one failed.", checks: onEnd(func(x *exam, r *request, q *kmsg.EndTxnRequest, t *transaction) {
		switch {
		case len(t.staging) > 0:
			x.note("EndTxn is sent before TxnShareAcknowledge is answered")
		case q.Commit && t.unstaged.is():
			x.note("EndTxn commits after TxnShareAcknowledge failed")
		default:
			x.right()
		}
	})},
	{ID: "ktx.only.1", Level: Info, Needs: NeedsKTX, Source: "KIP-1289", Says: "A transaction of acknowledgements alone ends with EndTxn too.", checks: checks{closed: func(x *exam, c *conn) {
		for _, id := range c.staging {
			if t := x.producers.transaction(id); t.work {
				x.note("a connection with acknowledgements in a transaction ends, and the transaction has had no EndTxn")
			} else {
				x.right()
			}
		}
	}}},
	{ID: "ktx.retry.1", Level: Info, Needs: NeedsKTX, Source: "KIP-1289", Says: "A TxnShareAcknowledge that is sent again has the same content.", checks: onStaged(func(x *exam, r *request, q *protocol.TxnShareAcknowledgeRequest, p *sharePartition) {
		k := fmt.Sprintf("%s|%s", orNull(q.TransactionalID), x.part(p.topicPartition))
		failed, was := x.ktx.failed.get(k)
		text := batchesText(p)
		if was && failed != text {
			x.note("%s was acknowledged in a transaction with %s, which failed, and is now with %s", x.part(p.topicPartition), failed, text)
		} else if was {
			x.right()
		}
	})},
}

// ktxModel is what the judge knows of acknowledgements in transactions.
type ktxModel struct {
	staged map[*entry]bool // acknowledged in a transaction that has not ended
	of     map[string][]*entry
	failed bounded[string, string] // what was refused, by transaction and partition
}

func newKTXModel() ktxModel {
	return ktxModel{map[*entry]bool{}, map[string][]*entry{}, newBounded[string, string](maxNames)}
}

// onStaged makes a check of the partitions of TxnShareAcknowledge.
func onStaged(f func(*exam, *request, *protocol.TxnShareAcknowledgeRequest, *sharePartition)) checks {
	return on(func(x *exam, r *request, q *protocol.TxnShareAcknowledgeRequest) {
		for _, p := range stagedPartitions(q) {
			f(x, r, q, &p)
		}
	})
}

func stagedPartitions(q *protocol.TxnShareAcknowledgeRequest) (all []sharePartition) {
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			sp := sharePartition{topicPartition: topicPartition{t.TopicID, p.Partition}}
			for _, b := range p.AcknowledgementBatches {
				sp.batches = append(sp.batches, ackBatch{b.FirstOffset, b.LastOffset, b.AcknowledgeTypes})
			}
			all = append(all, sp)
		}
	}
	return all
}

func batchesText(p *sharePartition) (s string) {
	for _, b := range p.batches {
		s += fmt.Sprintf("%d-%d=%v ", b.first, b.last, b.types)
	}
	return s
}

func (k *ktxModel) take(j *Judge, r *request) {
	q, ok := r.q.(*protocol.TxnShareAcknowledgeRequest)
	if !ok || q.TransactionalID == nil {
		return
	}
	t := j.producers.transaction(*q.TransactionalID)
	t.work = true
	t.next = mark{}
	t.staging[r.no] = true
	if !slices.Contains(r.conn.staging, *q.TransactionalID) {
		r.conn.staging = append(r.conn.staging, *q.TransactionalID)
	}
}

func (k *ktxModel) learn(j *Judge, a *answer) {
	switch q := a.q.(type) {
	case *protocol.TxnShareAcknowledgeRequest:
		if q.TransactionalID == nil {
			return
		}
		id := *q.TransactionalID
		t := j.producers.transaction(id)
		delete(t.staging, a.from())
		p, ok := a.p.(*protocol.TxnShareAcknowledgeResponse)
		if !ok {
			return
		}
		codes := map[topicPartition]int16{}
		for _, topic := range p.Topics {
			for _, pp := range topic.Partitions {
				codes[topicPartition{topic.TopicID, pp.Partition}] = pp.ErrorCode
			}
		}
		m, _ := j.members.get(memberKey{q.GroupID, q.MemberID})
		for _, sp := range stagedPartitions(q) {
			code := p.ErrorCode
			if code == errorcode.None {
				code = codes[sp.topicPartition]
			}
			if code != errorcode.None {
				t.unstaged = a.mark
				x := exam{Judge: j}
				k.failed.put(fmt.Sprintf("%q|%s", id, x.part(sp.topicPartition)), batchesText(&sp))
				continue
			}
			sp.offsets(func(o int64, _ int8) bool {
				if e := m.held(sp.topicPartition).at(o); e != nil && len(k.staged) < maxEntries {
					k.staged[e] = true
					k.of[id] = append(k.of[id], e)
				}
				return true
			})
		}
	case *kmsg.EndTxnRequest:
		if p, ok := a.p.(*kmsg.EndTxnResponse); ok && p.ErrorCode == errorcode.None {
			for _, e := range k.of[q.TransactionalID] {
				delete(k.staged, e)
				if q.Commit && e.state == entryOpen {
					e.state, e.ack = entryAcked, ackAccept
					e.session.open--
				}
			}
			delete(k.of, q.TransactionalID)
		}
	}
}
