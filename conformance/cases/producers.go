package cases

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/proxy"
	"kshare/protocol"
)

const (
	initKey int16 = 22
	addKey  int16 = 24
	endKey  int16 = 26
)

// ofProducer is a case of a transactional producer, which writes to the three partitions of t.
func ofProducer(id string, level conformance.Level, says, source string, setup Setup, run func(*Stage)) Case {
	setup.Kind = "producer"
	setup.Topics, setup.Records = map[string]int{"t": 3}, -1
	setup.Props = map[string]any{"transactional_id": "judged-id"}
	return Case{ID: id, Level: level, Says: says, Source: source, Needs: []string{driver.Transactions}, Setup: setup, Within: 90 * time.Second, run: run}
}

// step has the producer do something and returns what it says came of it.
func (s *Stage) step(op driver.Op) driver.Event { return s.Do(50*time.Second, op, "result") }

func (s *Stage) begin() driver.Event { return s.step(driver.Op{"op": "begin"}) }

func (s *Stage) send(n int) driver.Event {
	return s.step(driver.Op{"op": "send", "topic": "t", "n": n})
}

func (s *Stage) end(commit bool) driver.Event {
	return s.step(driver.Op{"op": "end", "commit": commit})
}

// must fails the case where a step has failed.
func (s *Stage) must(e driver.Event) {
	if !e.OK {
		s.Failf("%s fails: %s", e.What, e.Text)
	}
}

// committed runs a transaction that is committed.
func (s *Stage) committed() {
	s.must(s.begin())
	s.must(s.send(3))
	s.must(s.end(true))
}

// ended are the EndTxn requests since a moment that were answered without an error.
func (s *Stage) ended(mark int, commit bool) (n int) {
	for _, x := range s.Since(mark, endKey) {
		p, ok := x.Response.(*kmsg.EndTxnResponse)
		if ok && p.ErrorCode == 0 && x.Request.(*kmsg.EndTxnRequest).Commit == commit {
			n++
		}
	}
	return n
}

// retriedIn is a case in which requests of an API fail a few times, and the transaction is committed all the same.
func retriedIn(words string, codes ...int16) func(*Stage) {
	return func(s *Stage) {
		s.committed()
		for _, code := range codes {
			id := s.Fault(fmt.Sprintf("%s times=2 error=%d", words, code))
			mark := s.Mark()
			s.committed()
			if s.Acts(id) == 0 {
				s.Inconclusivef("no request could be answered so")
			}
			if s.ended(mark, true) != 1 {
				s.Failf("the transaction is not committed, and its commit was reported")
			}
			s.Unfault(id)
		}
	}
}

// sequencesBeginWithZero checks that the first batch of each partition under each epoch has the sequence 0.
func (s *Stage) sequencesBeginWithZero() {
	type sender struct {
		id        int64
		epoch     int16
		partition int32
	}
	seen := map[sender]bool{}
	for _, x := range s.Since(0, produceKey) {
		for _, t := range x.Request.(*kmsg.ProduceRequest).Topics {
			for _, p := range t.Partitions {
				h, err := protocol.ParseBatchHeader(p.Records)
				if err != nil {
					s.Failf("a Produce has a batch that cannot be read: %v", err)
				}
				from := sender{h.ProducerID, h.ProducerEpoch, p.Partition}
				if !seen[from] && h.BaseSequence != 0 {
					s.Failf("the first batch of %s-%d under the epoch %d has the sequence %d", t.Topic, p.Partition, h.ProducerEpoch, h.BaseSequence)
				}
				seen[from] = true
			}
		}
	}
}

const txnText = "KIP-98, KIP-890"

var producers = []Case{
	ofProducer("txp.01", conformance.Must, "two transactions with transaction.version 2: no AddPartitionsToTxn, and each with the epoch that the one before has given", "KIP-890", Setup{}, func(s *Stage) {
		s.committed()
		s.committed()
		if x := s.first(0, endKey, func(x *Seen) bool { return x.Version < 5 }); x != nil {
			s.Inconclusivef("EndTxn has the version %d: the client knows transactions as they were before", x.Version)
		}
		s.none(addKey)
		epoch := int16(-1)
		for _, x := range s.Since(0, endKey) {
			q := x.Request.(*kmsg.EndTxnRequest)
			if epoch >= 0 && q.ProducerEpoch != epoch {
				s.Failf("EndTxn has the epoch %d, the answer before gave %d", q.ProducerEpoch, epoch)
			}
			epoch = x.Response.(*kmsg.EndTxnResponse).ProducerEpoch
		}
	}),
	ofProducer("txp.02", conformance.Must, "transaction.version 1 where EndTxn 5 is offered: AddPartitionsToTxn comes first, and EndTxn has version 4 at most", "KIP-890", Setup{Features: map[string]int16{"transaction.version": 1}}, func(s *Stage) {
		s.committed()
		if s.first(0, addKey, nil) == nil {
			s.Failf("no AddPartitionsToTxn is sent")
		}
		if x := s.first(0, endKey, func(x *Seen) bool { return x.Version > 4 }); x != nil {
			s.Failf("EndTxn has the version %d", x.Version)
		}
	}),
	expecting("txn.add.1", ofProducer("txp.03", conformance.Should, "transaction.version 2, and Produce is offered up to version 11, as behind a proxy that is older: AddPartitionsToTxn comes first", "KIP-890, franz-go 1.21.4", Setup{Late: true}, func(s *Stage) {
		s.Edit(func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ApiVersionsResponse)
			if !ok {
				return false
			}
			for i := range p.ApiKeys {
				if p.ApiKeys[i].ApiKey == produceKey {
					p.ApiKeys[i].MaxVersion = 11
				}
			}
			return true
		})
		s.Launch()
		s.committed()
		if s.first(0, addKey, nil) == nil {
			s.Failf("no AddPartitionsToTxn is sent, and Produce 11 adds none")
		}
	})),
	ofProducer("txp.04", conformance.Must, "InitProducerId is answered CONCURRENT_TRANSACTIONS five times: it is tried again", txnText, Setup{Late: true}, func(s *Stage) {
		s.Fault("api=InitProducerId error=51 times=5")
		s.Launch()
		s.committed()
		if n := len(s.Since(0, initKey)); n < 6 {
			s.Inconclusivef("InitProducerId was sent %d times", n)
		}
	}),
	ofProducer("txp.05", conformance.Must, "InitProducerId is answered COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR: the producer finds its coordinator", txnText, Setup{Late: true}, func(s *Stage) {
		for _, code := range []string{"14", "15", "16"} {
			s.Fault("api=InitProducerId times=1 error=" + code)
		}
		s.Launch()
		s.committed()
	}),
	ofProducer("txp.06", conformance.Must, "Produce is answered CONCURRENT_TRANSACTIONS: it is tried again", txnText, Setup{}, retriedIn("api=Produce topic=t level=partition", 51)),
	ofProducer("txp.07", conformance.Must, "AddPartitionsToTxn is answered TOPIC_AUTHORIZATION_FAILED for a partition: the transaction is aborted, and the next one is committed whole", txnText, Setup{Features: map[string]int16{"transaction.version": 1}}, func(s *Stage) {
		s.must(s.begin())
		s.must(s.send(1)) // to partition 0: the next one begins with 1
		s.must(s.end(true))
		s.must(s.begin())
		mark := s.Mark()
		id := s.Fault("api=AddPartitionsToTxn topic=t partition=1 level=partition error=29 times=1")
		e := s.send(3)
		if s.Acts(id) == 0 {
			s.Inconclusivef("no AddPartitionsToTxn could be answered so")
		}
		if e.OK {
			s.Failf("what was refused is reported as a success")
		}
		s.must(s.end(false))
		if s.ended(mark, true) > 0 {
			s.Failf("the transaction is committed")
		}
		s.committed()
	}),
	ofProducer("txp.08", conformance.Must, "Produce is answered TRANSACTION_ABORTABLE: the transaction is aborted, and the next one is committed", "KIP-890", Setup{}, func(s *Stage) {
		s.committed()
		s.must(s.begin())
		mark := s.Mark()
		s.Fault("api=Produce topic=t level=partition error=120 times=1")
		if e := s.send(3); e.OK {
			s.Failf("the failed Produce is reported as a success")
		}
		s.must(s.end(false))
		if s.ended(mark, true) > 0 {
			s.Failf("the transaction is committed")
		}
		s.committed()
	}),
	ofProducer("txp.09", conformance.Must, "Produce is answered INVALID_PRODUCER_EPOCH with another instance in its place: nothing is committed", txnText, Setup{}, func(s *Stage) {
		s.committed()
		s.must(s.begin())
		mark := s.Mark()
		s.Fault("api=Produce error=90 level=partition topic=t")
		s.Fault("api=EndTxn error=90")
		if e := s.send(3); e.OK {
			s.Failf("the failed Produce is reported as a success")
		}
		if e := s.end(true); e.OK {
			s.Failf("a commit is reported")
		}
		if s.ended(mark, true) > 0 {
			s.Failf("the transaction is committed")
		}
		from := time.Now()
		s.Wait(2 * time.Second)
		rate := s.Rate(initKey, from, time.Now())
		s.Shouldf(rate <= mostRequests, "InitProducerId is sent %.0f times a second", rate)
	}),
	ofProducer("txp.10", conformance.Must, "Produce is answered OUT_OF_ORDER_SEQUENCE_NUMBER, later UNKNOWN_PRODUCER_ID: the transaction is aborted or goes on with a new epoch, whose sequences begin with 0", "KIP-360", Setup{}, func(s *Stage) {
		s.committed()
		for _, code := range []string{"45", "59"} {
			s.must(s.begin())
			id := s.Fault("api=Produce topic=t level=partition times=1 error=" + code)
			e := s.send(3)
			if s.Acts(id) == 0 {
				s.Inconclusivef("no Produce was sent")
			}
			s.must(s.end(e.OK))
			s.committed()
		}
		s.sequencesBeginWithZero()
	}),
	ofProducer("txp.11", conformance.Must, "the connection is lost once a Produce was stored: the same batch is sent again, and is there once", "KIP-98", Setup{}, func(s *Stage) {
		s.committed()
		s.must(s.begin())
		done := s.once(produceKey, func(x *proxy.Exchange) bool { x.Close = true; return true })
		s.must(s.send(1))
		if !done.Load() {
			s.Inconclusivef("no Produce was lost")
		}
		s.must(s.end(true))
		var sequences []string
		for _, x := range s.Since(0, produceKey) {
			sequences = append(sequences, fmt.Sprint(x.Answered.IsZero()))
		}
		if !slices.Contains(sequences, "true") {
			s.Inconclusivef("every Produce was answered")
		}
	}),
	ofProducer("txp.13", conformance.Must, "the commit is answered UNKNOWN_SERVER_ERROR: it is not reported as a success", "franz-go 1.21.4", Setup{}, func(s *Stage) {
		s.committed()
		s.must(s.begin())
		s.must(s.send(1))
		id := s.Fault("api=EndTxn error=-1")
		e := s.end(true)
		if s.Acts(id) == 0 {
			s.Inconclusivef("no EndTxn was sent")
		}
		if e.OK {
			s.Failf("the commit is reported as a success")
		}
	}),
	ofProducer("txp.14", conformance.Must, "EndTxn is not answered, and the connection is lost: it is sent again before anything new", "franz-go 1.21.6", Setup{}, func(s *Stage) {
		s.committed()
		s.must(s.begin())
		s.must(s.send(1))
		mark := s.Mark()
		done := s.once(endKey, func(x *proxy.Exchange) bool { x.Close = true; return true })
		e := s.end(true)
		if !done.Load() {
			s.Inconclusivef("no EndTxn was lost")
		}
		if e.OK && len(s.Since(mark, endKey)) < 2 {
			s.Failf("the commit is reported as a success, and its answer never came")
		}
		if e.OK {
			s.committed()
		}
	}),
	ofProducer("txp.15", conformance.Must, "the abort is answered CONCURRENT_TRANSACTIONS twice: it is tried again, and the producer goes on", "franz-go#1534", Setup{}, func(s *Stage) {
		s.committed()
		s.must(s.begin())
		s.must(s.send(1))
		id := s.Fault("api=EndTxn error=51 times=2")
		s.must(s.end(false))
		if s.Acts(id) == 0 {
			s.Inconclusivef("no EndTxn was sent")
		}
		s.committed()
	}),
	ofProducer("txp.16", conformance.Must, "TxnOffsetCommit is answered NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE and COORDINATOR_LOAD_IN_PROGRESS: it is tried again; UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION: the transaction is aborted", "KIP-447", Setup{}, func(s *Stage) {
		s.committed()
		for _, code := range []int16{16, 15, 14, 25, 22} {
			s.must(s.begin())
			s.must(s.send(1))
			mark := s.Mark()
			id := s.Fault(fmt.Sprintf("api=TxnOffsetCommit level=partition times=1 error=%d", code))
			e := s.step(driver.Op{"op": "offsets"})
			if s.Acts(id) == 0 {
				s.Inconclusivef("no TxnOffsetCommit was sent")
			}
			if code == 16 || code == 15 || code == 14 {
				s.must(e)
				s.must(s.end(true))
				continue
			}
			if e.OK {
				s.Failf("offsets that were refused are reported as a success")
			}
			s.must(s.end(false))
			if s.ended(mark, true) > 0 {
				s.Failf("the transaction is committed")
			}
		}
		s.committed()
	}),
	ofProducer("txp.17", conformance.Must, "the coordinator moves within a transaction: EndTxn goes to the new one", "KIP-98", Setup{Brokers: 3, Config: map[string]string{"transaction.state.log.replication.factor": "3", "default.replication.factor": "3"}}, func(s *Stage) {
		s.committed()
		s.must(s.begin())
		s.must(s.send(3))
		at := s.first(0, endKey, nil).Node
		to := at%3 + 1
		if err := s.cluster.MoveCoordinator(kshare.TransactionCoordinator, "judged-id", to, 0); err != nil {
			panic(err)
		}
		mark := s.Mark()
		s.must(s.end(true))
		late := 0
		for _, x := range s.Since(mark, endKey) {
			if x.Node == at {
				late++
			}
		}
		if late > 3 {
			s.Failf("EndTxn is sent to the old coordinator %d times", late)
		}
		if s.first(mark, endKey, func(x *Seen) bool { return x.Node == to }) == nil {
			s.Failf("EndTxn does not go to the new coordinator")
		}
	}),
	ofProducer("txp.19", conformance.Should, "a transaction with nothing in it is committed: no EndTxn is sent", txnText, Setup{}, func(s *Stage) {
		s.committed()
		s.must(s.begin())
		mark := s.Mark()
		s.must(s.end(true))
		if len(s.Since(mark, endKey)) > 0 {
			s.Failf("EndTxn is sent")
		}
	}),
	ofProducer("txp.20", conformance.Must, "the producer is closed with an open transaction: it is not committed", txnText, Setup{}, func(s *Stage) {
		s.committed()
		s.must(s.begin())
		s.must(s.send(1))
		mark := s.Mark()
		s.closeDriver(20 * time.Second)
		if s.ended(mark, true) > 0 {
			s.Failf("it is committed")
		}
	}),
	ofProducer("txp.21", conformance.Must, "every Produce of a transaction is answered TOPIC_AUTHORIZATION_FAILED: it can be aborted at once", "franz-go 1.21.4", Setup{}, func(s *Stage) {
		s.committed()
		s.must(s.begin())
		id := s.Fault("api=Produce topic=t level=partition error=29")
		if e := s.send(3); e.OK {
			s.Failf("the failed Produce is reported as a success")
		}
		s.Unfault(id)
		at := time.Now()
		e := s.end(false)
		took := time.Since(at)
		if !e.OK || took > 10*time.Second {
			s.Failf("the abort takes %s: %s", took.Round(time.Millisecond), e.Text)
		}
		s.committed()
	}),
}
