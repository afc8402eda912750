package cases

import (
	"slices"
	"time"

	"kshare/conformance"
	"kshare/conformance/driver"
)

// DriverChecks are what a driver is put through before its client is judged: a stock broker, and each operation is to have its effect.
func DriverChecks() []Case {
	all := slices.Clone(driverChecks)
	for i := range all {
		all[i].Level, all[i].Source, all[i].Expects = conformance.Must, "docs/drivers.md", []string{"wire", "share", "group", "txn"}
		if all[i].Within == 0 {
			all[i].Within = time.Minute
		}
	}
	return all
}

var driverChecks = []Case{
	{ID: "driver.run", Says: "run: each record is told once, before it is acknowledged, with its delivery count, its checksum and the number of the poll", run: func(s *Stage) {
		s.Run()
		s.Drained(30*time.Second, "t", 0)
		s.deliveredOnce(0, 99)
		last := 0
		for _, e := range s.Delivered() {
			switch {
			case e.Count != 1:
				s.Failf("rec of record %d has the delivery count (dc) %d, it is 1", e.Offset, e.Count)
			case e.Hash != checksum(nil, valueOf(e.Offset)):
				s.Failf("rec of record %d has the checksum (h) %q, it is %q: CRC-32C of key, value, and key and value of each header, in hexadecimal", e.Offset, e.Hash, checksum(nil, valueOf(e.Offset)))
			case e.Poll < last || e.Poll < 1:
				s.Failf("rec of record %d has the poll %d behind %d", e.Offset, e.Poll, last)
			}
			last = e.Poll
		}
	}},
	{ID: "driver.pause", Says: "pause: nothing is polled any more, and done is said", run: func(s *Stage) {
		s.Steady()
		s.Do(10*time.Second, driver.Op{"op": "pause"}, "done")
		n := len(s.Delivered())
		s.Produce("t", 0, 5)
		s.Wait(2 * time.Second)
		if len(s.Delivered()) > n {
			s.Failf("records are told while it is paused")
		}
		s.Run()
		s.Drained(15*time.Second, "t", 0)
	}},
	{ID: "driver.poll", Says: "poll: as many polls as n says, then polled with the number of records", Setup: Setup{Records: 10}, run: func(s *Stage) {
		n := 0
		for range 10 {
			if e := s.Do(20*time.Second, driver.Op{"op": "poll", "n": 1}, "polled"); e.N > 0 {
				n += e.N
				break
			}
		}
		if n != len(s.Delivered()) || n == 0 {
			s.Failf("polled says %d records, and %d are told", n, len(s.Delivered()))
		}
	}},
	{ID: "driver.commit", Says: "commit: what was polled is acknowledged, and done is said", Setup: Setup{Records: 10}, run: func(s *Stage) {
		s.pollSome()
		s.commit()
		s.Await(10*time.Second, "the acknowledgement of record 0", func() bool { return s.Settled("t", 0, 0) })
	}},
	{ID: "driver.words", Says: "the header ksj: accept, release, reject and commit are obeyed in explicit mode, ksj2 where the record comes again", Needs: explicit, Setup: Setup{Explicit: true, Records: 4, Headers: map[int]string{0: "accept", 1: "release/accept", 2: "reject", 3: "commit"}},
		run: func(s *Stage) {
			s.Run()
			s.Drained(30*time.Second, "t", 0)
			for offset, want := range [][]int8{{accept}, {release, accept}, {reject}, {accept}} {
				if got := s.TypesOf(0, 0, int64(offset)); !slices.Equal(got, want) {
					s.Failf("record %d is acknowledged with the types %v, its header asks for %v", offset, got, want)
				}
			}
			s.results()
		}},
	{ID: "driver.ack", Says: "ack: the chosen ones of what is held are acknowledged; hold keeps records in polls of their own alone", Needs: explicit, Setup: held, run: func(s *Stage) {
		s.hold(10)
		if e := s.Do(10*time.Second, driver.Op{"op": "ack", "do": "accept", "sel": list(0, 1, 2)}, "acked"); e.N != 3 {
			s.Failf("acked says %d, three were chosen by topic, partition and offset", e.N)
		}
		if e := s.Do(10*time.Second, driver.Op{"op": "ack", "do": "release", "sel": "all"}, "acked"); e.N == 0 {
			s.Failf("acked says 0 for all")
		}
		s.commit()
		s.Await(10*time.Second, "acknowledgements", func() bool { return len(s.TypesOf(0, 0, 9)) > 0 })
		s.results()
		s.Run()
		s.Drained(30*time.Second, "t", 0)
	}},
	{ID: "driver.renew", Says: "ack with renew: records are renewed", Needs: renews, Setup: held, run: func(s *Stage) {
		s.hold(10)
		s.ack("renew", "all")
		s.commit()
		s.renewed(0, 0)
	}},
	{ID: "driver.subscribe", Says: "subscribe: the topics are those that are said; unsubscribe and second are done, or unsupported", Setup: Setup{Topics: map[string]int{"t": 1, "u": 1}, Subscribe: []string{"t"}}, Within: 90 * time.Second, run: func(s *Stage) {
		s.Steady()
		s.Do(10*time.Second, driver.Op{"op": "subscribe", "topics": []string{"t", "u"}}, "done")
		s.ResumesAt(20*time.Second, "u", 0)
		s.Do(30*time.Second, driver.Op{"op": "second"}, "done")
	}},
	{ID: "driver.settings", Says: "KSJ_PROPS: what is not known is said to be unsupported", Setup: Setup{Late: true, Props: map[string]any{"no_such_setting": 1}}, run: func(s *Stage) {
		defer func() {
			if end, ok := recover().(stop); ok && end.verdict != Skip {
				panic(end)
			}
		}()
		s.Launch()
		s.Run()
		s.event("that no_such_setting is unsupported", 15*time.Second, 0, func(e driver.Event) bool { return e.Ev == "unsupported" })
	}},
	{ID: "driver.unknown", Says: "an operation that is not known is said to be unsupported, and the next one is obeyed", run: func(s *Stage) {
		from := 0
		s.Tell(driver.Op{"op": "no-such-operation"})
		s.event("that the operation is unsupported", 10*time.Second, from, func(e driver.Event) bool { return e.Ev == "unsupported" })
		s.Steady()
	}},
	{ID: "driver.close", Says: "close: the client is closed, closed is said, and the process ends with status 0", run: func(s *Stage) {
		s.Steady()
		s.closeDriver(15 * time.Second)
		ended := func() bool { is, err := s.driver.Ended(); return is && err == nil }
		s.Await(10*time.Second, "the end of the process with status 0", ended)
		if !slices.ContainsFunc(s.Events(), func(e driver.Event) bool { return e.Ev == "closed" }) {
			s.Failf("closed is not said")
		}
	}},
}

// results waits for results of acknowledgements.
func (s *Stage) results() {
	s.Await(10*time.Second, "result lines for acknowledgements", func() bool {
		return slices.ContainsFunc(s.Events(), func(e driver.Event) bool { return e.Ev == "result" && e.OK })
	})
}
