package cases

import (
	"slices"
	"time"

	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/proxy"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var renews = []string{driver.Explicit, driver.Renew}

// renewed waits for an acknowledgement of the type renew of a record.
func (s *Stage) renewed(mark int, offset int64) {
	s.Await(10*time.Second, "a renewal on the wire", func() bool { return slices.Contains(s.TypesOf(mark, 0, offset), renew) })
}

// again acknowledges all that the application holds. A client that hands renewed records out again has to be polled for them first.
func (s *Stage) again(do string) {
	op := driver.Op{"op": "ack", "do": do, "sel": "all"}
	if s.Do(10*time.Second, op, "acked").N > 0 {
		return
	}
	s.Do(20*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
	s.Do(10*time.Second, op, "acked")
}

var renewing = []Case{
	{ID: "rnw.01", Level: conformance.Must, Says: "ten records are renewed, then polled: type 4 under IsRenewAck", Source: "KIP-1222", Needs: renews, Setup: held, run: func(s *Stage) {
		s.hold(10)
		s.ack("renew", "all")
		s.Tell(driver.Op{"op": "poll", "n": 1})
		s.Await(10*time.Second, "a renewal on the wire", func() bool { return len(s.TypesOf(0, 0, 0)) > 0 })
		switch types := s.TypesOf(0, 0, 0); types[0] {
		case renew:
		case accept:
			s.Tellf("the poll accepts the records instead of renewing them")
		default:
			s.Failf("record 0 is acknowledged with the types %v", types)
		}
	}},
	{ID: "rnw.02", Level: conformance.Must, Says: "records are renewed, then committed: type 4 under IsRenewAck", Source: "KIP-1222", Needs: renews, Setup: held, Within: 60 * time.Second, run: func(s *Stage) {
		s.hold(10)
		s.ack("renew", "all")
		s.commit()
		s.renewed(0, 0)
		x := s.first(0, shareAckKey, func(x *Seen) bool { return len(acksIn(x)) > 0 })
		if x != nil && !ackOf(x).IsRenewAck {
			s.Failf("ShareAcknowledge has renewals without IsRenewAck")
		}
	}},
	{ID: "rnw.03", Level: conformance.Must, Says: "five records are renewed and five accepted with one commit: both reach the broker", Source: "KIP-1222", Needs: renews, Setup: held, Within: 60 * time.Second, run: func(s *Stage) {
		s.hold(10)
		s.ack("renew", list(0, 1, 2, 3, 4))
		s.ack("accept", list(5, 6, 7, 8, 9))
		s.commit()
		s.renewed(0, 2)
		s.Await(8*time.Second, "the acknowledgement of record 7", func() bool { return s.Settled("t", 0, 7) })
	}},
	{ID: "rnw.04", Level: conformance.Must, Says: "a record is renewed, then accepted, before anything is sent: one final acknowledgement", Source: "KIP-1222", Needs: renews, Setup: held, Within: 60 * time.Second, run: func(s *Stage) {
		s.hold(10)
		s.ack("renew", list(3))
		s.ack("accept", "all")
		s.commit()
		s.Await(8*time.Second, "the acknowledgement of record 3", func() bool { return s.Settled("t", 0, 3) })
		types := s.TypesOf(0, 0, 3)
		if n := slices.Index(types, accept); n < 0 || n != len(types)-1 {
			s.Failf("record 3 is acknowledged with the types %v", types)
		}
	}},
	{ID: "rnw.05", Level: conformance.Must, Says: "records are renewed at half of the lock, five times, then accepted: they are not delivered again, and accepted once", Source: "KIP-1222", Needs: renews, Setup: held, Within: 100 * time.Second, run: func(s *Stage) {
		s.hold(10)
		for range 5 {
			s.Pass(lockDuration / 2)
			mark := s.Mark()
			s.again("renew")
			s.commit()
			s.renewed(mark, 0)
		}
		s.again("accept")
		s.commit()
		s.Await(8*time.Second, "the acknowledgement of the records", func() bool { return s.Settled("t", 0, 0) && s.Settled("t", 0, 9) })
		if n := s.Times("t", 0, 0); n > 1 {
			s.Tellf("the renewed records are handed to the application %d times", n)
		}
		if types := s.TypesOf(0, 0, 0); slices.Index(types, accept) != len(types)-1 {
			s.Failf("record 0 is acknowledged with the types %v", types)
		}
	}},
	{ID: "rnw.06", Level: conformance.Must, Says: "renewals are switched off: the application is told, and nothing is renewed without end", Source: "KIP-1222", Needs: renews, Setup: Setup{Explicit: true, Records: 10, Headers: holdAll(100), Group: map[string]string{"share.renew.acknowledge.enable": "false"}},
		Within: 60 * time.Second, run: func(s *Stage) {
			s.hold(10)
			from := len(s.Events())
			s.ack("renew", "all")
			s.commit()
			s.renewed(0, 0)
			s.Told(8*time.Second, from)
			s.Wait(time.Second)
			if n := len(s.TypesOf(0, 0, 0)); n > 2 {
				s.Failf("record 0 is renewed %d times", n)
			}
		}},
	{ID: "rnw.07", Level: conformance.Must, Says: "ShareFetch and ShareAcknowledge have version 1, and records are renewed: an error, and no type 4", Source: "KIP-1222", Needs: renews, Setup: Setup{Explicit: true, Records: 10, Headers: holdAll(100), Late: true}, Within: 90 * time.Second, run: func(s *Stage) {
		s.versions(-1, 1, 1, shareFetchKey, shareAckKey)
		s.Launch()
		s.hold(10)
		s.Tell(driver.Op{"op": "ack", "do": "renew", "sel": "all"})
		s.Tell(driver.Op{"op": "commit", "how": "sync"})
		s.Wait(3 * time.Second)
		if slices.Contains(s.TypesOf(0, 0, 0), renew) {
			s.Failf("type 4 is sent with version 1")
		}
		s.Told(5*time.Second, 0)
	}},
	{ID: "rnw.08", Level: conformance.Should, Says: "an answer to ShareAcknowledge tells another acquisition lock timeout: the application can learn of it", Source: "KIP-1222", Needs: renews, Setup: held, Within: 60 * time.Second, run: func(s *Stage) {
		s.Edit(func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ShareAcknowledgeResponse)
			if ok {
				p.AcquisitionLockTimeoutMillis = 20_000
			}
			return ok
		})
		s.hold(10)
		s.ack("renew", "all")
		s.commit()
		s.again("accept")
		s.commit()
		s.Run()
		s.Resumes(10 * time.Second)
		if !slices.ContainsFunc(s.Events(), func(e driver.Event) bool { return e.Ev == "lock" }) {
			panic(stop{Skip, "the driver does not tell the acquisition lock timeout"})
		}
	}},
	{ID: "rnw.09", Level: conformance.Info, Says: "a poll behind a renewal", Source: "clients differ", Needs: renews, Setup: held, Within: 60 * time.Second, run: func(s *Stage) {
		s.hold(10)
		s.ack("renew", "all")
		s.commit()
		s.Do(20*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
		s.Wait(time.Second)
		types := s.TypesOf(0, 0, 0)
		switch {
		case s.Times("t", 0, 0) > 1:
			s.Tellf("the renewed records are handed to the application again")
		case types[len(types)-1] == accept:
			s.Tellf("the renewed records are accepted")
		default:
			s.Tellf("the renewed records stay with the application")
		}
	}},
	{ID: "rnw.10", Level: conformance.Must, Says: "the answer to a renewal brings records all the same, which were not asked for: the client lives, and goes on", Source: "a hostile broker", Needs: renews, Setup: held, Expects: []string{"share.ack"}, Within: 60 * time.Second, run: func(s *Stage) {
		done := s.once(shareFetchKey, func(x *proxy.Exchange) bool {
			if !x.Request.(*kmsg.ShareFetchRequest).IsRenewAck {
				return false
			}
			return parts(x, func(_ *kmsg.ShareFetchResponseTopic, p *part) bool {
				p.Records, p.AcquiredRecords = bytesOf(10, 19, span(10, 19), nil), ranges([3]int64{10, 19, 1})
				return true
			})
		})
		s.hold(10)
		s.ack("renew", "all")
		s.Tell(driver.Op{"op": "poll", "n": 2})
		if !s.until(10*time.Second, done.Load) {
			s.Inconclusivef("no ShareFetch renews, or its answer has no partition")
		}
		s.again("accept")
		s.commit()
		s.Run()
		s.Resumes(20 * time.Second)
	}},
	{ID: "rnw.11", Level: conformance.Must, Says: "the connection is lost between renewal and acceptance: the records come again once", Source: "KIP-1222", Needs: renews, Setup: held, Within: 90 * time.Second, run: func(s *Stage) {
		s.hold(10)
		s.ack("renew", "all")
		s.commit()
		s.cutFetches()
		s.Wait(300 * time.Millisecond)
		s.again("accept")
		s.commit()
		s.Run()
		s.Resumes(15 * time.Second)
	}},
	{ID: "rnw.12", Level: conformance.Should, Says: "500 records are renewed, and new ones wait: they come within three polls", Source: "KIP-1222", Needs: renews, Setup: Setup{Explicit: true, Records: 500, Headers: holdAll(500)}, Within: 90 * time.Second, run: func(s *Stage) {
		s.hold(500)
		s.ack("renew", "all")
		s.commit()
		s.renewed(0, 0)
		offset := s.Produce("t", 0, 10)
		for range 3 {
			s.Do(20*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
			if s.Times("t", 0, offset) > 0 {
				return
			}
			s.again("accept")
		}
		s.Failf("three polls bring no new records")
	}},
}

var modes = []Case{
	{ID: "mod.01", Level: conformance.Must, Says: "record_limit with 5 records, batches of 100: each poll brings 5 at most, and all records come", Source: "KIP-1206", Needs: []string{driver.RecordLimit}, Setup: Setup{Batch: 100, Props: map[string]any{"acquire_mode": "record_limit", "max_poll_records": 5}}, Within: 60 * time.Second,
		run: func(s *Stage) {
			s.Run()
			s.Drained(40*time.Second, "t", 0)
			polls := map[int]int{}
			for _, e := range s.Delivered() {
				polls[e.Poll]++
			}
			for poll, n := range polls {
				if n > 5 {
					s.Failf("poll %d brings %d records, 5 is the limit", poll, n)
				}
			}
			for _, x := range s.Since(0, shareFetchKey) {
				if q := fetchOf(x); q.ShareAcquireMode != 1 && q.MaxRecords > 0 {
					s.Failf("ShareFetch has the acquire mode %d", q.ShareAcquireMode)
				}
			}
		}},
	{ID: "mod.03", Level: conformance.Should, Says: "record_limit with 5 records on three nodes: 5 are acquired at a time at most", Source: "KIP-1206", Needs: []string{driver.RecordLimit},
		Setup: Setup{Brokers: 3, Topics: map[string]int{"t": 3}, Records: 30, Props: map[string]any{"acquire_mode": "record_limit", "max_poll_records": 5}}, Within: 60 * time.Second, run: func(s *Stage) {
			most := int64(0)
			s.Run()
			s.until(40*time.Second, func() bool {
				sum, done := int64(0), true
				for p := range int32(3) {
					if x, err := s.cluster.InspectSharePartition(groupID, "t", p); err == nil {
						n := int64(0)
						for _, r := range x.Runs {
							if r.Member != "" {
								n += r.LastOffset - r.FirstOffset + 1
							}
						}
						sum += n
					}
					done = done && s.Settled("t", p, 29)
				}
				most = max(most, sum)
				return done
			})
			s.Shouldf(most <= 5, "%d records are acquired at a time", most)
		}},
	{ID: "mod.05", Level: conformance.Must, Says: "batch_optimized with 5 records and batches of 100: all are delivered over several polls and acknowledged", Source: "KIP-1206", Setup: Setup{Batch: 100, Props: map[string]any{"max_poll_records": 5}}, Within: 60 * time.Second, run: func(s *Stage) {
		s.Run()
		s.Drained(40*time.Second, "t", 0)
		for offset := range int64(100) {
			if slices.Contains(s.TypesOf(0, 0, offset), release) && s.Times("t", 0, offset) < 2 {
				s.Shouldf(false, "record %d is released without having been delivered", offset)
			}
		}
	}},
	{ID: "mod.06", Level: conformance.Must, Says: "record_limit is configured and ShareFetch has version 1: an error, and nothing is fetched as if it were kept", Source: "KIP-1206", Needs: []string{driver.RecordLimit}, Setup: Setup{Late: true, Props: map[string]any{"acquire_mode": "record_limit", "max_poll_records": 5}},
		run: func(s *Stage) {
			s.versions(-1, 1, 1, shareFetchKey, shareAckKey)
			s.Launch()
			s.Run()
			s.MustTold(20*time.Second, 0)
			s.none(shareFetchKey)
		}},
	{ID: "mod.07", Level: conformance.Must, Says: "record_limit with 1 record on three nodes that are full: every node is drained in turn", Source: "KAFKA-19929", Needs: []string{driver.RecordLimit},
		Setup: Setup{Brokers: 3, Topics: map[string]int{"t": 3}, Records: 20, Props: map[string]any{"acquire_mode": "record_limit", "max_poll_records": 1}}, Within: 90 * time.Second, run: func(s *Stage) {
			s.Run()
			for p := range int32(3) {
				s.Drained(60*time.Second, "t", p)
			}
		}},
}
