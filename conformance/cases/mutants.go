package cases

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance/proxy"
)

// Mutant is a mistake that a client makes, and the case that must catch it. It stands between a client that passes the case and the judge, and changes what they say
// to each other: on the wire that client makes the mistake.
type Mutant struct {
	Case string
	Says string
	make func() proxy.Script
}

// mutation is a script of a mutant. One function runs at a time.
type mutation struct {
	mu       sync.Mutex
	asked    func(x *proxy.Exchange)
	answered func(x *proxy.Exchange) bool
}

func (*mutation) Opens(uint64, int32) bool { return true }

func (m *mutation) Asked(x *proxy.Exchange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked != nil {
		m.asked(x)
	}
}

func (m *mutation) Answered(x *proxy.Exchange) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answered != nil && m.answered(x)
}

// deadAfter is a client that is of no more use once it has had an answer.
func deadAfter(is func(kmsg.Response) bool) func() proxy.Script {
	return func() proxy.Script {
		dead := false
		return &mutation{
			asked:    func(x *proxy.Exchange) { x.Silent = dead },
			answered: func(x *proxy.Exchange) bool { dead = dead || is(x.Response); return false },
		}
	}
}

// Mutants are one for each family of cases: what it must catch and rules for all traffic do not.
var Mutants = []Mutant{
	{"neg.02", "it gives up where ShareFetch has version 1", func() proxy.Script {
		return &mutation{answered: func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ApiVersionsResponse)
			if !ok {
				return false
			}
			for i, k := range p.ApiKeys {
				if k.ApiKey == shareFetchKey && k.MaxVersion == 1 {
					p.ApiKeys = append(p.ApiKeys[:i:i], p.ApiKeys[i+1:]...)
					break
				}
			}
			return true
		}}
	}},
	{"mem.02", "it dies of an empty assignment", deadAfter(func(p kmsg.Response) bool {
		b, ok := p.(*kmsg.ShareGroupHeartbeatResponse)
		return ok && b.Assignment != nil && len(b.Assignment.TopicPartitions) == 0
	})},
	{"ses.15", "it waits for ever for the partition that an answer does not have", deadAfter(func(p kmsg.Response) bool {
		a, ok := p.(*kmsg.ShareAcknowledgeResponse)
		return ok && len(a.Topics) == 0
	})},
	{"fet.11", "it drops a whole answer for the error of a partition", func() proxy.Script {
		return &mutation{answered: func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ShareFetchResponse)
			if !ok || !eachPart(p, func(part *part) bool { return part.ErrorCode != 0 }) {
				return false
			}
			eachPart(p, func(part *part) bool { part.Records, part.AcquiredRecords = []byte{}, nil; return false })
			return true
		}}
	}},
	{"ack.04", "it loses the records that the application releases", func() proxy.Script {
		return &mutation{asked: func(x *proxy.Exchange) {
			x.Changed = dropAcks(x.Request, func(t int8) bool { return t == release })
		}}
	}},
	{"rnw.02", "it forgets records that are renewed", func() proxy.Script {
		return &mutation{asked: func(x *proxy.Exchange) {
			x.Changed = dropAcks(x.Request, func(t int8) bool { return t == renew })
		}}
	}},
	{"mod.01", "it ignores the limit of records", func() proxy.Script {
		return &mutation{asked: func(x *proxy.Exchange) {
			if q, ok := x.Request.(*kmsg.ShareFetchRequest); ok && q.ShareAcquireMode == 1 {
				q.ShareAcquireMode, q.MaxRecords, q.BatchSize = 0, 500, 500
				x.Changed = true
			}
		}}
	}},
	{"dlv.02", "it drops records with offsets below the last one that it saw", func() proxy.Script {
		last := int64(-1)
		return &mutation{answered: func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ShareFetchResponse)
			if !ok {
				return false
			}
			return eachPart(p, func(part *part) bool {
				kept := part.AcquiredRecords[:0]
				for _, a := range part.AcquiredRecords {
					if a.FirstOffset > last {
						kept = append(kept, a)
					}
				}
				for _, a := range kept {
					last = max(last, a.LastOffset)
				}
				changed := len(kept) != len(part.AcquiredRecords)
				part.AcquiredRecords = kept
				return changed
			})
		}}
	}},
	{"ldr.03", "it waits for the age of its metadata", func() proxy.Script {
		first := map[int16]*kmsg.MetadataResponse{}
		return &mutation{answered: func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.MetadataResponse)
			if !ok || len(p.Topics) == 0 {
				return false
			}
			if old := first[p.Version]; old != nil {
				*p = *old
				return true
			}
			kept := *p
			first[p.Version] = &kept
			return false
		}}
	}},
	{"mem.28", "it takes a lost connection for the end of its membership", func() proxy.Script {
		conn := uint64(0)
		return &mutation{asked: func(x *proxy.Exchange) {
			q, ok := x.Request.(*kmsg.ShareGroupHeartbeatRequest)
			if !ok {
				return
			}
			if conn != 0 && conn != x.Conn && q.MemberEpoch > 0 {
				q.MemberEpoch, q.SubscribedTopicNames = 0, []string{defaultTopic}
				x.Changed = true
			}
			conn = x.Conn
		}}
	}},
	{"top.02", "it keeps the id of a topic that was deleted", func() proxy.Script {
		return &mutation{asked: func(x *proxy.Exchange) {
			if q, ok := x.Request.(*kmsg.ShareFetchRequest); ok && len(q.ForgottenTopicsData) > 0 {
				q.ForgottenTopicsData = nil
				x.Changed = true
			}
		}}
	}},
	{"dat.06", "it delivers markers", func() proxy.Script {
		return &mutation{answered: func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ShareFetchResponse)
			return ok && eachPart(p, func(part *part) bool { return unmark(part.Records) })
		}}
	}},
	{"lck.04", "it acknowledges when the locks have ended", func() proxy.Script {
		return &mutation{asked: func(x *proxy.Exchange) {
			if len(acksIn(&Seen{Request: x.Request})) > 0 {
				pause(x, 1500*time.Millisecond)
			}
		}}
	}},
	{"cls.05", "it waits for ever where the end of its session fails", func() proxy.Script {
		return &mutation{asked: func(x *proxy.Exchange) {
			if q, ok := x.Request.(*kmsg.ShareGroupHeartbeatRequest); ok && q.MemberEpoch == -1 {
				x.Silent = true
			}
		}}
	}},
	{"nod.13", "it stops where an answer cannot be decoded", func() proxy.Script {
		dead := false
		return &mutation{asked: func(x *proxy.Exchange) {
			if q, ok := x.Request.(*kmsg.ShareFetchRequest); ok && q.ShareSessionEpoch == 0 {
				x.Silent, dead = dead, true
			}
		}}
	}},
	{"grp.03", "it dies where its epoch is fenced", deadAfter(func(p kmsg.Response) bool {
		b, ok := p.(*kmsg.ConsumerGroupHeartbeatResponse)
		return ok && b.ErrorCode == 110
	})},
	{"txp.13", "it reports success whatever its commit was answered", func() proxy.Script {
		return &mutation{answered: func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.EndTxnResponse)
			if ok && p.ErrorCode != 0 {
				q := x.Request.(*kmsg.EndTxnRequest)
				p.ErrorCode, p.ProducerID, p.ProducerEpoch = 0, q.ProducerID, q.ProducerEpoch+1
			}
			return ok
		}}
	}},
	{"sec.03", "it does not log in again", func() proxy.Script {
		return &mutation{answered: func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.SASLAuthenticateResponse)
			if ok {
				p.SessionLifetimeMillis = 0
			}
			return ok
		}}
	}},
	{"ktx.02", "it commits what it is told to abort", func() proxy.Script {
		return &mutation{asked: func(x *proxy.Exchange) {
			if q, ok := x.Request.(*kmsg.EndTxnRequest); ok {
				q.Commit, x.Changed = true, true
			}
		}}
	}},
	{"efc.15.once", "it dies where there is no coordinator", deadAfter(func(p kmsg.Response) bool {
		f, ok := p.(*kmsg.FindCoordinatorResponse)
		return ok && slices.ContainsFunc(f.Coordinators, func(c kmsg.FindCoordinatorResponseCoordinator) bool { return c.ErrorCode == 15 })
	})},
	{"emd.3.once", "it dies where a topic is not known", deadAfter(func(p kmsg.Response) bool {
		m, ok := p.(*kmsg.MetadataResponse)
		return ok && slices.ContainsFunc(m.Topics, func(t kmsg.MetadataResponseTopic) bool { return t.ErrorCode == 3 })
	})},
	{"eav.-1.once", "it dies where ApiVersions fails", deadAfter(func(p kmsg.Response) bool {
		v, ok := p.(*kmsg.ApiVersionsResponse)
		return ok && v.ErrorCode == -1
	})},
	{"e76.14.once", "it dies of COORDINATOR_LOAD_IN_PROGRESS", deadAfter(func(p kmsg.Response) bool {
		b, ok := p.(*kmsg.ShareGroupHeartbeatResponse)
		return ok && b.ErrorCode == 14
	})},
	{"e78.122.once", "it stops where its session is gone", deadAfter(func(p kmsg.Response) bool {
		f, ok := p.(*kmsg.ShareFetchResponse)
		return ok && f.ErrorCode == 122
	})},
	{"e79.-1.once", "it stops where ShareAcknowledge fails", deadAfter(func(p kmsg.Response) bool {
		a, ok := p.(*kmsg.ShareAcknowledgeResponse)
		return ok && a.ErrorCode == -1
	})},
	{"p78.3.once", "it stops for the error of a partition", deadAfter(func(p kmsg.Response) bool {
		f, ok := p.(*kmsg.ShareFetchResponse)
		return ok && eachPart(f, func(part *part) bool { return part.ErrorCode == 3 })
	})},
	{"a79.121.once", "it acknowledges nothing more once an acknowledgement was refused", deadAfter(func(p kmsg.Response) bool {
		a, ok := p.(*kmsg.ShareAcknowledgeResponse)
		return ok && refuses(a, 121)
	})},
	{"a78.121.once", "it acknowledges nothing more once an acknowledgement of a ShareFetch was refused", deadAfter(func(p kmsg.Response) bool {
		f, ok := p.(*kmsg.ShareFetchResponse)
		return ok && eachPart(f, func(part *part) bool { return part.AcknowledgeErrorCode == 121 })
	})},
}

// dropAcks takes acknowledgements out of a request, and tells whether there were any.
func dropAcks(q kmsg.Request, drop func(int8) bool) (changed bool) {
	switch q := q.(type) {
	case *kmsg.ShareAcknowledgeRequest:
		for i := range q.Topics {
			for j := range q.Topics[i].Partitions {
				changed = dropBatches(&q.Topics[i].Partitions[j].AcknowledgementBatches, func(b kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch) bool {
					return slices.ContainsFunc(b.AcknowledgeTypes, drop)
				}) || changed
			}
		}
	case *kmsg.ShareFetchRequest:
		for i := range q.Topics {
			for j := range q.Topics[i].Partitions {
				changed = dropBatches(&q.Topics[i].Partitions[j].AcknowledgementBatches, func(b kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch) bool {
					return slices.ContainsFunc(b.AcknowledgeTypes, drop)
				}) || changed
			}
		}
	}
	return changed
}

func dropBatches[B any](batches *[]B, drop func(B) bool) (changed bool) {
	n := len(*batches)
	*batches = slices.DeleteFunc(*batches, drop)
	return len(*batches) < n
}

// unmark makes ordinary batches of markers, and tells whether there were any.
func unmark(records []byte) (changed bool) {
	for at := 0; at+61 <= len(records); {
		size := 12 + int(binary.BigEndian.Uint32(records[at+8:]))
		if size < 61 || at+size > len(records) {
			break
		}
		if records[at+22]&0x20 != 0 {
			records[at+22] &^= 0x30
			sealed(records[at : at+size])
			changed = true
		}
		at += size
	}
	return changed
}

// Caught is what became of a mutant.
type Caught struct {
	Mutant
	Good, Bad Result // of the client as it is, and of the mutant
}

// OK tells whether the client passes the case and the mutant does not.
func (c *Caught) OK() bool {
	fine := c.Good.Verdict == Pass || c.Good.Verdict == Warn || c.Good.Verdict == Info
	return fine && (c.Bad.Verdict == Fail || (c.Bad.Verdict == Warn || c.Bad.Verdict == Info) && c.Good.Verdict == Pass)
}

// SelfTest puts clients that pass the cases of all mutants, and the mutants made of them, through those: of the clients the first that can do what the case needs.
// done is called with each, one at a time.
func SelfTest(ctx context.Context, clients [][]string, parallel int, done func(Caught)) (all []Caught, err error) {
	caps := make([][]string, len(clients))
	for i, client := range clients {
		hello, err := greet(ctx, client)
		if err != nil {
			return nil, err
		}
		caps[i] = hello.Caps
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	free := make(chan struct{}, max(1, parallel))
	for _, m := range Mutants {
		chosen, err := Select([]string{m.Case}, false)
		if err != nil {
			return nil, err
		}
		able := max(0, slices.IndexFunc(caps, func(caps []string) bool {
			return !slices.ContainsFunc(chosen[0].Needs, func(need string) bool { return !slices.Contains(caps, need) })
		}))
		wait.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			c := Caught{Mutant: m}
			for range 2 { // a busy machine may be what a good client fails for
				c.Good = one(ctx, &chosen[0], &Options{Client: clients[able]}, caps[able])
				c.Bad = one(ctx, &chosen[0], &Options{Client: clients[able], Mutant: m.make}, caps[able])
				if c.OK() {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, c)
			if done != nil {
				done(c)
			}
		})
	}
	wait.Wait()
	return all, ctx.Err()
}
