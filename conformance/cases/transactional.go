package cases

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/proxy"
	"kshare/protocol"
)

const stageKey = protocol.TxnShareAcknowledgeKey

// atomically is a case of a client that acknowledges what it has read in the transaction in which it writes: records of t, to out.
func atomically(id, says string, setup Setup, run func(*Stage)) Case {
	setup.Atomic, setup.Explicit = true, true
	if setup.Topics == nil {
		setup.Topics = map[string]int{"t": 1, "out": 1}
	}
	setup.Subscribe = []string{"t"}
	setup.Records, setup.Headers = 10, holdAll(100)
	setup.Props = map[string]any{"transactional_id": "judged-id"}
	// who acknowledges in a transaction leaves the end of the acquisition to it
	expects := []string{"share.ack.done"}
	return Case{ID: id, Level: conformance.Info, Says: says, Source: "KIP-1289, proposed", Needs: []string{driver.Explicit, driver.Atomic}, Setup: setup, Expects: expects, Within: 60 * time.Second, run: run}
}

// staged are the requests since a moment that stage acknowledgements.
func (s *Stage) staged(mark int) []*Seen { return s.Since(mark, stageKey) }

func stagesOf(x *Seen) *protocol.TxnShareAcknowledgeRequest {
	return x.Request.(*protocol.TxnShareAcknowledgeRequest)
}

// stage stages what the application has said of records, and returns what the client says of that.
func (s *Stage) stage() driver.Event { return s.step(driver.Op{"op": "txnack"}) }

// inTransaction has the application take ten records, accept them and write ten.
func (s *Stage) inTransaction() {
	s.hold(10)
	s.must(s.begin())
	s.ack("accept", "all")
	s.must(s.step(driver.Op{"op": "send", "topic": "out", "n": 10}))
}

// decided waits until a transaction was decided, and returns how.
func (s *Stage) decided(mark int, commit bool) *Seen {
	return s.Next(15*time.Second, mark, endKey, fmt.Sprintf("EndTxn with commit %t", commit), func(x *Seen) bool {
		p, ok := x.Response.(*kmsg.EndTxnResponse)
		return ok && p.ErrorCode == 0 && x.Request.(*kmsg.EndTxnRequest).Commit == commit
	})
}

// neverCommits checks that no EndTxn since a moment commits.
func (s *Stage) neverCommits(mark int) {
	if x := s.first(mark, endKey, func(x *Seen) bool { return x.Request.(*kmsg.EndTxnRequest).Commit }); x != nil {
		s.Failf("EndTxn commits the transaction all the same")
	}
}

// afterRefusal is a case in which staging is refused for good: the transaction is aborted.
func afterRefusal(fault string) func(*Stage) {
	return func(s *Stage) {
		s.inTransaction()
		mark := s.Mark()
		s.Fault(fault)
		if e := s.stage(); e.OK {
			s.Failf("acknowledgements that were refused are reported as staged")
		}
		if e := s.end(true); e.OK {
			s.Failf("the transaction is reported as committed")
		}
		s.end(false)
		s.decided(mark, false)
		s.neverCommits(mark)
	}
}

// contentOf is what a request stages, without its header.
func contentOf(x *Seen) []byte { return stagesOf(x).AppendTo(nil) }

var transactional = []Case{
	atomically("ktx.01", "ten records are accepted and ten written in a transaction that commits: they are staged at their leader, then EndTxn commits, and nothing is acknowledged besides", Setup{}, func(s *Stage) {
		s.inTransaction()
		s.must(s.stage())
		s.must(s.end(true))
		end := s.decided(0, true)
		all := s.staged(0)
		switch {
		case len(all) == 0:
			s.Failf("nothing is staged")
		case all[0].Node != s.Leader("t", 0):
			s.Failf("TxnShareAcknowledge goes to node %d, node %d leads", all[0].Node, s.Leader("t", 0))
		case end.Version < 5:
			s.Failf("EndTxn has the version %d", end.Version)
		}
		if len(s.Acks(0)) > 0 {
			s.Failf("record %d is acknowledged outside of the transaction too", s.Acks(0)[0].First)
		}
		s.Await(5*time.Second, "records that are acknowledged", func() bool { return s.Settled("t", 0, 9) })
	}),
	atomically("ktx.02", "the transaction is aborted: its records are delivered again with the count 2, and nothing is acknowledged besides", Setup{}, func(s *Stage) {
		s.inTransaction()
		s.must(s.stage())
		mark := s.Mark()
		s.must(s.end(false))
		s.decided(mark, false)
		s.Await(20*time.Second, "another delivery of record 0", func() bool {
			s.Do(15*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
			return s.Times("t", 0, 0) > 1
		})
		for _, e := range s.Delivered()[10:] {
			if e.Count != 2 {
				s.Failf("record %d is delivered again with the count %d", e.Offset, e.Count)
			}
		}
		if len(s.Acks(0)) > 0 {
			s.Failf("record %d is acknowledged outside of the transaction", s.Acks(0)[0].First)
		}
	}),
	atomically("ktx.03", "staging is answered INVALID_RECORD_STATE for the partition: the transaction is aborted", Setup{}, afterRefusal("api=TxnShareAcknowledge level=partition error=121")),
	atomically("ktx.04", "staging is answered STALE_MEMBER_EPOCH: the transaction is aborted", Setup{}, afterRefusal("api=TxnShareAcknowledge level=top error=113")),
	atomically("ktx.05", "staging is answered NOT_LEADER_OR_FOLLOWER, then UNKNOWN_TOPIC_OR_PARTITION for the partition: the same is sent again, and the transaction commits", Setup{}, func(s *Stage) {
		s.inTransaction()
		s.Fault("api=TxnShareAcknowledge level=partition error=6 times=1")
		s.Fault("api=TxnShareAcknowledge level=partition error=3 nth=2 times=1")
		s.must(s.stage())
		s.must(s.end(true))
		all := s.staged(0)
		if len(all) < 3 {
			s.Failf("TxnShareAcknowledge is sent %d times", len(all))
		}
		for _, x := range all[1:] {
			if !bytes.Equal(contentOf(x), contentOf(all[0])) {
				s.Failf("what is sent again is not the same")
			}
		}
		s.decided(0, true)
	}),
	atomically("ktx.06", "staging is answered PRODUCER_FENCED: that is the end of the producer, and no EndTxn is sent", Setup{}, func(s *Stage) {
		s.inTransaction()
		mark := s.Mark()
		s.Fault("api=TxnShareAcknowledge level=top error=90")
		if e := s.stage(); e.OK {
			s.Failf("acknowledgements that were refused are reported as staged")
		}
		if e := s.end(true); e.OK {
			s.Failf("the transaction is reported as committed")
		}
		s.end(false)
		s.Wait(time.Second)
		if len(s.Since(mark, endKey)) > 0 {
			s.Failf("EndTxn is sent by a producer that was fenced")
		}
	}),
	atomically("ktx.07", "staging is answered CONCURRENT_TRANSACTIONS three times: it is tried again, and the transaction commits", Setup{}, func(s *Stage) {
		s.inTransaction()
		id := s.Fault("api=TxnShareAcknowledge level=top error=51 times=3")
		s.must(s.stage())
		if s.Acts(id) < 3 {
			s.Inconclusivef("TxnShareAcknowledge is sent %d times", s.Acts(id))
		}
		s.must(s.end(true))
		s.decided(0, true)
	}),
	atomically("ktx.08", "a transaction has nothing but acknowledgements: EndTxn is sent", Setup{}, func(s *Stage) {
		s.hold(10)
		s.must(s.begin())
		s.ack("accept", "all")
		s.must(s.stage())
		s.must(s.end(true))
		s.decided(0, true)
		s.Await(5*time.Second, "records that are acknowledged", func() bool { return s.Settled("t", 0, 9) })
	}),
	atomically("ktx.09", "records are accepted, released and renewed: what is staged has none of the last two", Setup{}, func(s *Stage) {
		s.hold(10)
		s.must(s.begin())
		s.ack("accept", list(0, 1, 2, 3))
		s.ack("release", list(4, 5, 6))
		s.ack("renew", list(7, 8, 9))
		s.stage()
		for _, x := range s.staged(0) {
			for _, t := range stagesOf(x).Topics {
				for _, p := range t.Partitions {
					for _, b := range p.AcknowledgementBatches {
						if slices.Contains(b.AcknowledgeTypes, release) || slices.Contains(b.AcknowledgeTypes, renew) {
							s.Failf("what is staged has the types %v", b.AcknowledgeTypes)
						}
					}
				}
			}
		}
	}),
	atomically("ktx.10", "transaction.version is 1: the client says that it cannot, and stages nothing", Setup{Features: map[string]int16{"transaction.version": 1}}, func(s *Stage) {
		s.hold(10)
		if s.begin().OK {
			s.ack("accept", "all")
			if s.stage().OK {
				s.Failf("acknowledgements are reported as staged")
			}
		}
		if len(s.staged(0)) > 0 {
			s.Failf("TxnShareAcknowledge is sent")
		}
	}),
	atomically("ktx.11", "a marker lies among the records: it is staged as a gap, or acknowledged as one", Setup{}, func(s *Stage) {
		done := s.acquired(func(p *part) {
			p.Records = slices.Concat(bytesOf(0, 4, span(0, 4), nil), marker(5), bytesOf(6, 9, span(6, 9), nil))
		})
		s.hold(9)
		if !done.Load() {
			s.Inconclusivef("no answer brought records")
		}
		s.must(s.begin())
		s.ack("accept", "all")
		s.must(s.stage())
		s.must(s.end(true))
		s.Tell(driver.Op{"op": "poll", "n": 1})
		s.Await(5*time.Second, "the end of offset 5", func() bool { return s.Settled("t", 0, 5) })
	}),
	atomically("ktx.12", "records of two partitions on two nodes: each node is asked, and has answered before EndTxn is sent", Setup{Brokers: 3, Topics: map[string]int{"t": 2, "out": 1}, Config: replicated}, func(s *Stage) {
		s.OnAsk(func(x *proxy.Exchange) {
			if x.Header.Key == stageKey {
				pause(x, 500*time.Millisecond)
			}
		})
		s.must(s.begin())
		s.Await(20*time.Second, "the delivery of all records", func() bool {
			s.Do(15*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
			s.ack("accept", "all")
			s.must(s.stage())
			return len(s.Delivered()) >= 20
		})
		s.must(s.end(true))
		end := s.decided(0, true)
		nodes := map[int32]bool{}
		for _, x := range s.staged(0) {
			nodes[x.Node] = true
			if x.Answered.IsZero() || x.Answered.After(end.At) {
				s.Failf("EndTxn is sent before node %d has answered", x.Node)
			}
		}
		if len(nodes) != 2 {
			s.Failf("%d nodes are asked", len(nodes))
		}
	}),
}
