package cases

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/proxy"
)

const fetchSession = "KIP-932, share sessions"

// once has an answer to an API changed once, and tells whether it was.
func (s *Stage) once(key int16, f func(x *proxy.Exchange) bool) *atomic.Bool {
	done := &atomic.Bool{}
	s.Edit(func(x *proxy.Exchange) bool {
		return x.Header.Key == key && !done.Load() && f(x) && done.CompareAndSwap(false, true)
	})
	return done
}

// cutFetches closes the connections that the client fetches over.
func (s *Stage) cutFetches() {
	conns := map[uint64]bool{}
	for _, x := range s.Since(0, shareFetchKey) {
		conns[x.Conn] = true
	}
	s.proxy.Disconnect(func(c uint64, _ int32) bool { return conns[c] })
}

// reopened checks that the session is opened anew after a moment: at once, or after one request that is answered that there is none.
func (s *Stage) reopened(mark int) {
	s.Next(10*time.Second, mark, shareFetchKey, "a ShareFetch that opens a session", func(x *Seen) bool { return fetchOf(x).ShareSessionEpoch == 0 })
	late := 0
	for _, x := range s.Since(mark, shareFetchKey) {
		if fetchOf(x).ShareSessionEpoch == 0 {
			break
		}
		if late++; late > 1 {
			s.Failf("a second ShareFetch with the session epoch %d comes where there is no session", fetchOf(x).ShareSessionEpoch)
		}
	}
}

// settleHeld acknowledges what the application holds and commits.
func (s *Stage) settleHeld(do string) {
	s.Do(10*time.Second, driver.Op{"op": "ack", "do": do, "sel": "all"}, "acked")
	s.commit()
}

func (s *Stage) commit() { s.Do(70*time.Second, driver.Op{"op": "commit", "how": "sync"}, "done") }

// parts calls a function with the partitions of an answer to a ShareFetch, and tells whether it was true for any.
func parts(x *proxy.Exchange, f func(topic *kmsg.ShareFetchResponseTopic, p *part) bool) (is bool) {
	p, ok := x.Response.(*kmsg.ShareFetchResponse)
	if !ok {
		return false
	}
	for i := range p.Topics {
		for j := range p.Topics[i].Partitions {
			is = f(&p.Topics[i], &p.Topics[i].Partitions[j]) || is
		}
	}
	return is
}

// eachPart is parts without the topics.
func eachPart(p *kmsg.ShareFetchResponse, f func(*part) bool) (is bool) {
	return parts(&proxy.Exchange{Response: p}, func(_ *kmsg.ShareFetchResponseTopic, p *part) bool { return f(p) })
}

// refuses tells whether an answer to a ShareAcknowledge has an error for a partition.
func refuses(p *kmsg.ShareAcknowledgeResponse, code int16) bool {
	return slices.ContainsFunc(p.Topics, func(t kmsg.ShareAcknowledgeResponseTopic) bool {
		return slices.ContainsFunc(t.Partitions, func(part kmsg.ShareAcknowledgeResponseTopicPartition) bool { return part.ErrorCode == code })
	})
}

var explicit = []string{driver.Explicit}

var sessions = []Case{
	{ID: "ses.01", Level: conformance.Must, Says: "200 requests of a session: its epochs have no hole", Source: fetchSession, Within: 50 * time.Second, run: func(s *Stage) {
		s.Steady()
		deadline := time.Now().Add(35 * time.Second)
		for len(s.Since(0, shareFetchKey))+len(s.Since(0, shareAckKey)) < 200 && time.Now().Before(deadline) {
			s.Produce("t", 0, 1)
			s.Wait(50 * time.Millisecond)
		}
		s.Shouldf(time.Now().Before(deadline), "there were not 200 requests within 35 s")
	}},
	{ID: "ses.02", Level: conformance.Must, Says: "ShareFetch is answered SHARE_SESSION_NOT_FOUND once: a new session, without acknowledgements", Source: fetchSession, run: (&errorCase{&errorLevels[1], 122, session, true}).once},
	{ID: "ses.03", Level: conformance.Must, Says: "ShareFetch is answered INVALID_SHARE_SESSION_EPOCH once: a new session, without acknowledgements", Source: fetchSession, run: (&errorCase{&errorLevels[1], 123, session, true}).once},
	{ID: "ses.04", Level: conformance.Must, Says: "the first ShareFetch is answered SHARE_SESSION_LIMIT_REACHED once: it is tried again", Source: fetchSession, Setup: Setup{Late: true}, run: func(s *Stage) {
		s.Fault("api=ShareFetch level=top error=133 times=1")
		s.Launch()
		s.Steady()
		second := s.Since(0, shareFetchKey)[1]
		if epoch := fetchOf(second).ShareSessionEpoch; epoch != 0 {
			s.Failf("the second ShareFetch has the session epoch %d, there is no session", epoch)
		}
	}},
	{ID: "ses.05", Level: conformance.Must, Says: "ShareFetch is answered SHARE_SESSION_LIMIT_REACHED for ten seconds: the client floods nobody, and goes on", Source: fetchSession, Setup: Setup{Late: true}, Within: 60 * time.Second, run: func(s *Stage) {
		id := s.Fault("api=ShareFetch level=top error=133")
		s.Launch()
		s.Run()
		s.Await(15*time.Second, "a ShareFetch", func() bool { return s.Acts(id) > 0 })
		s.Calm(shareFetchKey, time.Now(), everTime)
		s.Unfault(id)
		s.steady(15 * time.Second)
	}},
	{ID: "ses.06", Level: conformance.Must, Says: "ShareAcknowledge is answered SHARE_SESSION_NOT_FOUND: a new session without the acknowledgements, each of which ends", Source: fetchSession, Needs: explicit,
		Setup: Setup{Explicit: true, Records: 10, Headers: holdAll(100)}, Within: 110 * time.Second, run: func(s *Stage) { s.lostAtAcknowledge(122) }},
	{ID: "ses.07", Level: conformance.Must, Says: "ShareAcknowledge is answered INVALID_SHARE_SESSION_EPOCH while the records are held: as SHARE_SESSION_NOT_FOUND", Source: fetchSession, Needs: explicit,
		Setup: Setup{Explicit: true, Records: 10, Headers: holdAll(100)}, Within: 110 * time.Second, run: func(s *Stage) { s.lostAtAcknowledge(123) }},
	{ID: "ses.08", Level: conformance.Must, Says: "the connection is closed while there is nothing to fetch: a new session on the next one", Source: fetchSession, run: func(s *Stage) {
		s.Steady()
		s.Next(15*time.Second, 0, shareFetchKey, "a session epoch of 5", func(x *Seen) bool { return fetchOf(x).ShareSessionEpoch >= 5 })
		mark := s.Mark()
		s.cutFetches()
		s.reopened(mark)
		s.Resumes(10 * time.Second)
	}},
	{ID: "ses.09", Level: conformance.Must, Says: "the connection is reset while a ShareFetch waits: a new session on the next one", Source: fetchSession, Setup: Setup{Props: map[string]any{"max_wait_ms": 5000}}, run: func(s *Stage) {
		s.Steady()
		s.Wait(time.Second)
		mark := s.Mark()
		s.cutFetches()
		s.reopened(mark)
		s.Resumes(12 * time.Second)
	}},
	{ID: "ses.10", Level: conformance.Should, Says: "the connection is reset while a ShareAcknowledge is under way: the acknowledgements fail, and the records come again", Source: fetchSession, Needs: explicit,
		Setup: Setup{Explicit: true, Records: 10, Headers: map[int]string{9: "commit"}}, Within: 60 * time.Second, run: func(s *Stage) {
			done := &atomic.Bool{}
			s.OnAsk(func(x *proxy.Exchange) {
				if x.Header.Key == shareAckKey && done.CompareAndSwap(false, true) {
					x.Close = true
				}
			})
			s.Run()
			if !s.until(15*time.Second, done.Load) {
				s.Inconclusivef("no ShareAcknowledge was sent")
			}
			s.Drained(30*time.Second, "t", 0)
		}},
	{ID: "ses.11", Level: conformance.Must, Says: "the session is gone between poll and acknowledgement: it is opened anew without acknowledgements", Source: fetchSession, Setup: Setup{Records: 10}, run: func(s *Stage) {
		s.Do(20*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
		if len(s.Delivered()) == 0 {
			s.Do(20*time.Second, driver.Op{"op": "poll", "n": 2}, "polled")
		}
		id := s.Fault("api=ShareFetch level=top error=122 times=1")
		mark := s.Mark()
		s.Run()
		if !s.until(10*time.Second, func() bool { return s.Acts(id) > 0 }) {
			s.Inconclusivef("no ShareFetch came")
		}
		s.newSession(s.Next(5*time.Second, mark, shareFetchKey, "the ShareFetch that fails", func(x *Seen) bool { p := fetched(x); return p != nil && p.ErrorCode == 122 }))
		s.Resumes(10 * time.Second)
	}},
	{ID: "ses.12", Level: conformance.Must, Says: "the broker restarts and metadata has no leader once while the application holds records: each acknowledgement ends once", Source: fetchSession, Needs: explicit,
		Setup: Setup{Explicit: true, Records: 10, Headers: holdAll(100)}, Within: 110 * time.Second, run: func(s *Stage) {
			s.hold(10)
			done := &atomic.Bool{}
			s.Edit(func(x *proxy.Exchange) bool {
				p, ok := x.Response.(*kmsg.MetadataResponse)
				if !ok || len(p.Topics) == 0 || !done.CompareAndSwap(false, true) {
					return false
				}
				for i := range p.Topics {
					for j := range p.Topics[i].Partitions {
						p.Topics[i].Partitions[j].Leader, p.Topics[i].Partitions[j].ErrorCode = -1, 5
					}
				}
				return true
			})
			mark := s.Mark()
			s.restart()
			s.settleHeld("accept")
			s.Run()
			s.reopened(mark)
			s.Resumes(20 * time.Second)
		}},
	{ID: "ses.13", Level: conformance.Must, Says: "the broker restarts, the leader is the same, and the application acknowledges: each acknowledgement has a result", Source: "KAFKA-20330", Needs: explicit,
		Setup: Setup{Explicit: true, Records: 10, Headers: holdAll(100)}, Within: 110 * time.Second, run: func(s *Stage) {
			s.hold(10)
			from := len(s.Events())
			s.restart()
			s.settleHeld("accept")
			ok := s.until(10*time.Second, func() bool { return len(results(s.driver.Events(from))) > 0 })
			s.Run()
			s.Resumes(20 * time.Second)
			if !ok && len(results(s.driver.Events(from))) == 0 {
				s.Failf("the acknowledgements have no result")
			}
		}},
	{ID: "ses.14", Level: conformance.Must, Says: "an answer has records of a partition that was never asked for: they are ignored or given back", Source: "a hostile broker", run: func(s *Stage) {
		s.Steady()
		done := s.once(shareFetchKey, func(x *proxy.Exchange) bool {
			return parts(x, func(t *kmsg.ShareFetchResponseTopic, p *part) bool {
				if len(p.AcquiredRecords) == 0 || len(t.Partitions) != 1 {
					return false
				}
				other := *p
				other.Partition = 7
				t.Partitions = append(t.Partitions, other)
				return true
			})
		})
		offset := s.Produce("t", 0, 1)
		s.Await(10*time.Second, "the delivery of a record", func() bool { return s.Times("t", 0, offset) > 0 })
		if !done.Load() {
			s.Inconclusivef("no answer was changed")
		}
		s.Wait(time.Second)
		if n := s.Times("t", 7, offset); n > 0 {
			s.Failf("a record of a partition that is not assigned is delivered")
		}
		s.Resumes(10 * time.Second)
	}},
	{ID: "ses.15", Level: conformance.Must, Says: "an answer to ShareAcknowledge has no word of a partition: its acknowledgements fail once, and the client goes on", Source: "a hostile broker", Needs: explicit,
		Setup: Setup{Explicit: true, Records: 10, Headers: map[int]string{9: "commit"}}, Within: 110 * time.Second, run: func(s *Stage) {
			done := s.once(shareAckKey, func(x *proxy.Exchange) bool {
				p, ok := x.Response.(*kmsg.ShareAcknowledgeResponse)
				if ok && len(p.Topics) > 0 {
					p.Topics = nil
					return true
				}
				return false
			})
			s.Run()
			if !s.until(15*time.Second, done.Load) {
				s.Inconclusivef("no ShareAcknowledge was answered")
			}
			s.Told(65*time.Second, 0)
			s.Resumes(10 * time.Second)
		}},
	{ID: "ses.16", Level: conformance.Must, Says: "an answer has a partition twice, with some of its records each: no record is delivered or acknowledged twice", Source: "a hostile broker", Setup: Setup{Records: 10, Late: true}, run: func(s *Stage) {
		done := s.once(shareFetchKey, func(x *proxy.Exchange) bool {
			return parts(x, func(t *kmsg.ShareFetchResponseTopic, p *part) bool {
				if len(t.Partitions) != 1 || len(p.AcquiredRecords) != 1 || p.AcquiredRecords[0].LastOffset != 9 {
					return false
				}
				other := *p
				p.AcquiredRecords = []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord{{FirstOffset: 0, LastOffset: 4, DeliveryCount: 1}}
				other.AcquiredRecords = []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord{{FirstOffset: 5, LastOffset: 9, DeliveryCount: 1}}
				t.Partitions = append(t.Partitions, other)
				return true
			})
		})
		s.Launch()
		s.Run()
		s.Await(15*time.Second, "the delivery of the records", func() bool { return len(s.Delivered()) >= 5 })
		if !done.Load() {
			s.Inconclusivef("no answer was changed")
		}
		s.Wait(2 * time.Second)
		for offset := range int64(10) {
			if n := s.Times("t", 0, offset); n > 1 {
				s.Failf("record %d is delivered %d times", offset, n)
			}
			if types := s.TypesOf(0, 0, offset); len(types) > 1 {
				s.Failf("record %d is acknowledged %d times", offset, len(types))
			}
		}
		s.Resumes(10 * time.Second)
	}},
	{ID: "ses.17", Level: conformance.Should, Says: "a ShareFetch is never answered: the client gives it up within 65 s", Source: "KIP-932, request timeouts", Full: true, Within: 100 * time.Second, run: func(s *Stage) {
		s.Steady()
		done := &atomic.Bool{}
		s.OnAsk(func(x *proxy.Exchange) {
			if x.Header.Key == shareFetchKey && done.CompareAndSwap(false, true) {
				x.Silent = true
			}
		})
		s.Await(5*time.Second, "a ShareFetch", done.Load)
		s.Resumes(75 * time.Second)
	}},
	{ID: "ses.19", Level: conformance.Should, Says: "records are acknowledged while a ShareFetch waits: the acknowledgement is sent within a second behind it", Source: "franz-go#922", Needs: explicit,
		Setup: Setup{Explicit: true, Records: 10, Headers: holdAll(100)}, run: func(s *Stage) {
			s.hold(10)
			mark := s.Mark()
			at := time.Now()
			s.settleHeld("accept")
			s.Await(5*time.Second, "the acknowledgement", func() bool { return len(s.TypesOf(mark, 0, 0)) > 0 })
			took := s.Acks(mark)[0].Of.At.Sub(at)
			s.Shouldf(took <= 1500*time.Millisecond, "the acknowledgement is sent after %s", took.Round(time.Millisecond))
		}},
	{ID: "ses.20", Level: conformance.Must, Says: "the first ShareFetch brings nothing: the second one goes on with the session", Source: fetchSession, Setup: Setup{Records: -1}, run: func(s *Stage) {
		s.Run()
		s.Await(20*time.Second, "a second ShareFetch", func() bool { return len(s.Since(0, shareFetchKey)) >= 2 })
		if epoch := fetchOf(s.Since(0, shareFetchKey)[1]).ShareSessionEpoch; epoch != 1 {
			s.Failf("the second ShareFetch has the session epoch %d", epoch)
		}
		s.Resumes(10 * time.Second)
	}},
	{ID: "ses.21", Level: conformance.Must, Says: "six partitions are assigned one after the other: each is added to the session once", Source: fetchSession, Setup: Setup{Topics: map[string]int{"t": 3, "u": 3}, Late: true, Records: -1}, Within: 45 * time.Second, run: func(s *Stage) {
		a := s.Assignments()
		t, u := s.TopicID("t"), s.TopicID("u")
		a.Give(map[[16]byte][]int32{t: {0}})
		s.Launch()
		s.Run()
		for _, given := range []map[[16]byte][]int32{{t: {0, 1}}, {t: {0, 1}, u: {0}}, {t: {0, 1, 2}, u: {0}}, {t: {0, 1, 2}, u: {0, 1}}, {t: {0, 1, 2}, u: {0, 1, 2}}} {
			mark := s.Mark()
			s.Next(15*time.Second, mark, heartbeatKey, "a heartbeat", nil)
			a.Give(given)
		}
		s.Await(10*time.Second, "a session with six partitions", func() bool { return len(s.sessions()[1]) == 6 })
		s.ResumesAt(10*time.Second, "u", 2)
	}},
	{ID: "ses.24", Level: conformance.Must, Says: "records are acknowledged one by one while connections that are idle for 5 s are closed: the session stays", Source: "franz-go 1.22.1", Needs: explicit,
		Setup: Setup{Explicit: true, Records: 1, Headers: map[int]string{0: "commit"}, Props: map[string]any{"max_wait_ms": 500}}, Within: 60 * time.Second, run: func(s *Stage) {
			s.Run()
			s.Drained(15*time.Second, "t", 0)
			mark := s.Mark()
			for range 12 {
				s.Produce("t", 0, 1, "commit")
				s.Wait(time.Second)
				s.closeIdle(5 * time.Second)
			}
			s.Drained(10*time.Second, "t", 0)
			if x := s.first(mark, -1, func(x *Seen) bool {
				p, ok := x.Response.(*kmsg.ShareAcknowledgeResponse)
				f := fetched(x)
				return ok && p.ErrorCode == 122 || f != nil && f.ErrorCode == 122
			}); x != nil {
				s.Failf("the session was lost with a connection that was idle")
			}
		}},
}

// lostAtAcknowledge has the session end with a ShareAcknowledge.
func (s *Stage) lostAtAcknowledge(code int16) {
	s.hold(10)
	from := len(s.Events())
	e := errorCase{&errorLevels[2], code, session, true}
	by := e.inject(s, 1)
	mark := s.Mark()
	s.settleHeld("accept")
	if by.acts() == 0 {
		s.Run()
		if !s.until(5*time.Second, func() bool { return by.acts() > 0 }) {
			s.Inconclusivef("no ShareAcknowledge was sent")
		}
	}
	x := s.Next(5*time.Second, mark, shareAckKey, "the ShareAcknowledge that fails", e.in)
	s.Run()
	next := s.Next(15*time.Second, x.N+1, shareFetchKey, "a ShareFetch", func(y *Seen) bool { return y.At.After(x.Answered) })
	if epoch := fetchOf(next).ShareSessionEpoch; epoch != 0 {
		s.Failf("the next ShareFetch has the session epoch %d, a new session begins with 0", epoch)
	}
	if len(acksIn(next)) > 0 {
		s.Failf("the ShareFetch that opens a session acknowledges offsets")
	}
	ok := s.until(10*time.Second, func() bool { return len(results(s.driver.Events(from))) > 0 })
	s.Shouldf(ok, "the acknowledgements have no result")
	s.Resumes(15 * time.Second)
}

// results are the results among events.
func results(events []driver.Event) (all []driver.Event) {
	return slices.DeleteFunc(slices.Clone(events), func(e driver.Event) bool { return e.Ev != "result" && e.Ev != "error" })
}

// restart stops the only node and starts it again on its port. What it has stored stays.
func (s *Stage) restart() {
	node := s.anyNode()
	if err := s.cluster.StopNode(node); err != nil {
		panic(err)
	}
	s.proxy.Disconnect(func(uint64, int32) bool { return true })
	if err := s.cluster.StartNode(node); err != nil {
		panic(err)
	}
}

// closeIdle closes connections over which nothing was asked for a time.
func (s *Stage) closeIdle(d time.Duration) {
	last := map[uint64]time.Time{}
	for _, x := range s.Since(0, -1) {
		last[x.Conn] = x.At
		if x.Answered.After(x.At) {
			last[x.Conn] = x.Answered
		}
	}
	s.proxy.Disconnect(func(c uint64, _ int32) bool { at, ok := last[c]; return ok && time.Since(at) > d })
}
