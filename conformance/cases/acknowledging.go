package cases

import (
	"fmt"
	"slices"
	"time"

	"kshare/conformance"
	"kshare/conformance/driver"
)

const acknowledgement = "KIP-932, acknowledgements"

// Types of acknowledgements.
const (
	gap     int8 = 0
	accept  int8 = 1
	release int8 = 2
	reject  int8 = 3
	renew   int8 = 4
)

// held is ten records that the application keeps.
var held = Setup{Explicit: true, Records: 10, Headers: holdAll(100)}

// list selects records of t-0 by their offsets.
func list(offsets ...int64) (sel [][3]any) {
	for _, o := range offsets {
		sel = append(sel, [3]any{"t", 0, o})
	}
	return sel
}

func (s *Stage) ack(do string, sel any) {
	s.Do(10*time.Second, driver.Op{"op": "ack", "do": do, "sel": sel}, "acked")
}

// sentOnce waits until an acknowledgement of a record is on the wire, and fails where it is another one or there are two.
func (s *Stage) sentOnce(mark int, offset int64, want ...int8) {
	s.Await(8*time.Second, fmt.Sprintf("an acknowledgement of record %d", offset), func() bool { return len(s.TypesOf(mark, 0, offset)) > 0 })
	if got := s.TypesOf(mark, 0, offset); len(got) > 1 || !slices.Contains(want, got[0]) {
		s.Failf("record %d is acknowledged with the types %v, %v was asked for", offset, got, want)
	}
}

var acknowledging = []Case{
	{ID: "ack.01", Level: conformance.Must, Says: "implicit mode, poll and poll: what the first one brought is accepted with the second, not before", Source: acknowledgement, Setup: Setup{Records: 10}, run: func(s *Stage) {
		s.pollSome()
		s.Wait(1500 * time.Millisecond)
		if types := s.TypesOf(0, 0, 0); len(types) > 0 {
			s.Failf("record 0 is acknowledged before the second poll")
		}
		s.Do(15*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
		s.sentOnce(0, 0, accept)
	}},
	{ID: "ack.02", Level: conformance.Must, Says: "implicit mode, poll and commit: what the poll brought is accepted, once", Source: acknowledgement, Setup: Setup{Records: 10}, run: func(s *Stage) {
		s.pollSome()
		s.commit()
		s.sentOnce(0, 0, accept)
		s.Run()
		s.Wait(time.Second)
		s.sentOnce(0, 0, accept)
	}},
	{ID: "ack.03", Level: conformance.Info, Says: "implicit mode, poll and close", Source: "clients differ", Setup: Setup{Records: 10}, run: func(s *Stage) {
		s.pollSome()
		s.closeDriver(15 * time.Second)
		switch types := s.TypesOf(0, 0, 0); {
		case len(types) == 0:
			s.Tellf("the records are left to the end of the session")
		case types[0] == accept:
			s.Tellf("the records are accepted")
		default:
			s.Tellf("the records are acknowledged with the type %d", types[0])
		}
	}},
	{ID: "ack.04", Level: conformance.Must, Says: "records are accepted, released and rejected in turn: what is sent is what was chosen", Source: acknowledgement, Needs: explicit, Setup: Setup{Explicit: true, Headers: thirds}, run: func(s *Stage) {
		s.Run()
		s.Drained(25*time.Second, "t", 0)
		for offset := range int64(100) {
			want := [][]int8{{accept}, {release, accept}, {reject}}[offset%3]
			if got := s.TypesOf(0, 0, offset); !slices.Equal(got, want) {
				s.Failf("record %d is acknowledged with the types %v, %v was chosen", offset, got, want)
			}
		}
	}},
	{ID: "ack.05", Level: conformance.Must, Says: "the application acknowledges records backwards: ranges are sent in ascending order", Source: acknowledgement, Needs: explicit, Setup: held, Within: 60 * time.Second, run: func(s *Stage) {
		s.hold(10)
		for offset := range int64(10) {
			s.ack("accept", list(9-offset))
		}
		s.commit()
		s.Run()
		s.Drained(10*time.Second, "t", 0)
	}},
	{ID: "ack.06", Level: conformance.Must, Says: "even offsets are committed first, odd ones later: two sets that do not overlap", Source: acknowledgement, Needs: explicit, Setup: held, Within: 60 * time.Second, run: func(s *Stage) {
		s.hold(10)
		s.ack("accept", list(0, 2, 4, 6, 8))
		s.commit()
		if s.single() {
			return
		}
		s.ack("release", list(1, 3, 5, 7, 9))
		s.commit()
		s.sentOnce(0, 4, accept)
		s.sentOnce(0, 5, release)
	}},
	{ID: "ack.07", Level: conformance.Must, Says: "record 9 is committed asynchronously, then record 0 at once: ranges are sent in ascending order", Source: acknowledgement, Needs: explicit, Setup: held, Within: 60 * time.Second, run: func(s *Stage) {
		s.hold(10)
		s.ack("accept", list(9))
		s.Tell(driver.Op{"op": "commit", "how": "async"})
		s.ack("accept", list(0))
		s.Tell(driver.Op{"op": "commit", "how": "async"})
		s.ack("accept", list(1, 2, 3, 4, 5, 6, 7, 8))
		s.commit()
		s.Run()
		s.Drained(15*time.Second, "t", 0)
	}},
	{ID: "ack.08", Level: conformance.Must, Says: "0 to 9 and 20 to 29 are acquired, the records between are not: no range goes over them", Source: acknowledgement, Setup: Setup{Records: 30, Batch: 30, Late: true}, run: func(s *Stage) {
		s.acquired(func(p *part) { p.AcquiredRecords = ranges([3]int64{0, 9, 1}, [3]int64{20, 29, 1}) })
		s.Launch()
		s.Run()
		s.Await(15*time.Second, "the acknowledgement of record 25", func() bool { return len(s.TypesOf(0, 0, 25)) > 0 })
		s.Wait(500 * time.Millisecond)
		for offset := int64(10); offset < 20; offset++ {
			if len(s.TypesOf(0, 0, offset)) > 0 || s.Times("t", 0, offset) > 0 {
				s.Failf("record %d was not acquired, and is delivered or acknowledged", offset)
			}
		}
	}},
	{ID: "ack.09", Level: conformance.Must, Says: "runs of 9, 10, 11 and 12 records of a type between single others: what is sent is what was chosen", Source: acknowledgement, Needs: explicit, Setup: Setup{Explicit: true, Records: 60, Batch: 60, Headers: runsOfTypes}, run: func(s *Stage) {
		s.Run()
		s.Drained(20*time.Second, "t", 0)
		for offset := range int64(60) {
			want := accept
			if runsOfTypes[int(offset)] == "reject" {
				want = reject
			}
			if got := s.TypesOf(0, 0, offset); !slices.Equal(got, []int8{want}) {
				s.Failf("record %d is acknowledged with the types %v, %d was chosen", offset, got, want)
			}
		}
	}},
	{ID: "ack.11", Level: conformance.Must, Says: "the acknowledgements of one partition fail, those of another do not: one failing result, and nothing is sent again", Source: acknowledgement, Needs: explicit,
		Setup: Setup{Explicit: true, Topics: map[string]int{"t": 2}, Records: 10, Headers: holdAll(100)}, Within: 60 * time.Second, run: func(s *Stage) {
			s.hold(20)
			from := len(s.Events())
			both := "api=%s topic=t partition=0 level=%s error=121 times=1"
			id := s.Fault(fmt.Sprintf(both, "ShareAcknowledge", "partition"))
			s.ack("accept", "all")
			s.commit()
			if s.Acts(id) == 0 {
				s.Inconclusivef("no ShareAcknowledge was sent")
			}
			s.Told(5*time.Second, from)
			s.Wait(time.Second)
			if n := len(s.TypesOf(0, 0, 0)); n > 1 {
				s.Failf("the acknowledgement of record 0 was refused, and is sent %d times", n)
			}
			if !s.Settled("t", 1, 0) {
				s.Failf("the acknowledgements of t-1 did not take effect")
			}
		}},
	{ID: "ack.12", Level: conformance.Must, Says: "a record is accepted, then rejected, before anything is sent: one of them is sent, once", Source: acknowledgement, Needs: explicit, Setup: held, Within: 60 * time.Second, run: func(s *Stage) {
		s.hold(10)
		s.ack("accept", list(3))
		s.ack("reject", list(3))
		s.ack("accept", list(0, 1, 2, 4, 5, 6, 7, 8, 9))
		s.commit()
		s.sentOnce(0, 3, accept, reject)
	}},
	{ID: "ack.13", Level: conformance.Must, Says: "a record is accepted and that is answered, then it is rejected: nothing more is sent", Source: acknowledgement, Needs: explicit, Setup: held, Within: 60 * time.Second, run: func(s *Stage) {
		s.hold(10)
		s.ack("accept", "all")
		s.commit()
		s.sentOnce(0, 3, accept)
		s.Tell(driver.Op{"op": "ack", "do": "reject", "sel": list(3)})
		s.Tell(driver.Op{"op": "commit", "how": "sync"})
		s.Wait(2 * time.Second)
		s.sentOnce(0, 3, accept)
	}},
	{ID: "ack.14", Level: conformance.Info, Says: "explicit mode, a poll without having acknowledged", Source: "clients differ", Needs: explicit, Setup: held, run: func(s *Stage) {
		s.hold(10)
		from := len(s.Events())
		s.Do(20*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
		s.Wait(time.Second)
		switch types := s.TypesOf(0, 0, 0); {
		case len(s.troubles(from)) > 0:
			s.Tellf("the poll fails: %s", s.troubles(from)[0].Text)
		case len(types) > 0 && types[0] == accept:
			s.Tellf("the records are accepted")
		default:
			s.Tellf("the records are kept")
		}
	}},
	{ID: "ack.15", Level: conformance.Must, Says: "records of three nodes are acknowledged: each node gets its own alone", Source: acknowledgement, Needs: explicit, Setup: Setup{Explicit: true, Brokers: 3, Topics: map[string]int{"t": 3}, Records: 20}, run: func(s *Stage) {
		s.Run()
		for p := range int32(3) {
			s.Drained(20*time.Second, "t", p)
			for _, a := range s.Acks(0) {
				if leader := s.Leader("t", a.Partition); a.Of.Node != leader {
					s.Failf("t-%d is acknowledged at node %d, it is led by %d", a.Partition, a.Of.Node, leader)
				}
			}
		}
	}},
	{ID: "ack.16", Level: conformance.Should, Says: "records are acknowledged while a ShareFetch waits for 5 s: they are at the broker within 5.5 s", Source: acknowledgement, Needs: explicit,
		Setup: Setup{Explicit: true, Records: 10, Headers: holdAll(100), Props: map[string]any{"max_wait_ms": 5000}}, Within: 60 * time.Second, run: func(s *Stage) {
			s.hold(10)
			mark, at := s.Mark(), time.Now()
			s.settleHeld("accept")
			s.Run()
			s.Await(10*time.Second, "the acknowledgement", func() bool { return len(s.TypesOf(mark, 0, 0)) > 0 })
			took := s.Acks(mark)[0].Of.At.Sub(at)
			s.Shouldf(took <= 5500*time.Millisecond, "it is sent after %s", took.Round(time.Millisecond))
		}},
	{ID: "ack.17", Level: conformance.Must, Says: "a record cannot be deserialised: it is released, rejected or left to the application, and the others are as ever", Source: acknowledgement, Needs: explicit, Setup: Setup{Explicit: true, Records: 10, Late: true}, run: func(s *Stage) {
		s.Launch()
		s.Do(10*time.Second, driver.Op{"op": "fail", "off": 5}, "done")
		s.Run()
		s.Await(20*time.Second, "the acknowledgement of record 9", func() bool { return s.Settled("t", 0, 9) })
		for _, t := range s.TypesOf(0, 0, 5) {
			if t == accept || t == gap {
				s.Failf("record 5 is acknowledged with the type %d", t)
			}
		}
	}},
	{ID: "ack.18", Level: conformance.Must, Says: "a commit with nothing delivered: it returns", Source: acknowledgement, Setup: Setup{Records: -1}, run: func(s *Stage) {
		s.Do(20*time.Second, driver.Op{"op": "poll", "n": 2}, "polled")
		s.Do(15*time.Second, driver.Op{"op": "commit", "how": "sync"}, "done")
		for _, x := range s.Since(0, shareAckKey) {
			if len(acksIn(x)) > 0 {
				s.Failf("something is acknowledged")
			}
		}
	}},
	{ID: "ack.19", Level: conformance.Must, Says: "a ShareAcknowledge is answered after 5 s: its acknowledgements are not sent again", Source: acknowledgement, Needs: explicit, Setup: Setup{Explicit: true, Records: 10, Headers: map[int]string{9: "commit"}}, Within: 60 * time.Second, run: func(s *Stage) {
		s.Fault("api=ShareAcknowledge delay=5s times=1")
		s.Run()
		s.Drained(25*time.Second, "t", 0)
		s.Resumes(15 * time.Second)
		for offset := range int64(10) {
			if types := s.TypesOf(0, 0, offset); len(types) > 1 {
				s.Failf("record %d is acknowledged %d times", offset, len(types))
			}
		}
	}},
	{ID: "ack.22", Level: conformance.Must, Says: "acknowledgements of a ShareFetch are answered INVALID_REQUEST: a failing result, nothing is sent again, and the next fetch is as ever", Source: acknowledgement, run: (&errorCase{&errorLevels[4], 42, failing, false}).once, Within: 40 * time.Second},
}

var thirds = func() map[int]string {
	all := map[int]string{}
	for i := range 100 {
		all[i] = []string{"accept", "release/accept", "reject"}[i%3]
	}
	return all
}()

var runsOfTypes = func() map[int]string {
	all := map[int]string{}
	at := 0
	for _, n := range []int{9, 10, 11, 12} {
		for range n {
			all[at] = "accept"
			at++
		}
		all[at] = "reject"
		at++
	}
	return all
}()

// pollSome polls until there was something.
func (s *Stage) pollSome() {
	deadline := time.Now().Add(20 * time.Second)
	for len(s.Delivered()) == 0 {
		if time.Now().After(deadline) {
			s.Failf("within 20 s the application gets no records")
		}
		s.Do(15*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
	}
}

// single tells whether the client has settled all of a poll with a part of it: one that has no explicit mode of its own.
func (s *Stage) single() bool { return len(s.TypesOf(0, 0, 1)) > 0 }

// closeDriver has the client close, and returns how long that took. The end of its process is no mistake then.
func (s *Stage) closeDriver(within time.Duration) time.Duration {
	at := time.Now()
	s.closing = true
	s.Tell(driver.Op{"op": "close", "ms": int(within / time.Millisecond)})
	from := 0
	deadline := time.Now().Add(within + 10*time.Second)
	for time.Now().Before(deadline) {
		changed := s.driver.Changed()
		events := s.driver.Events(from)
		from += len(events)
		if slices.ContainsFunc(events, func(e driver.Event) bool { return e.Ev == "closed" }) {
			return time.Since(at)
		}
		if ended, err := s.driver.Ended(); ended {
			if err != nil {
				s.Failf("the client's process has ended while it closed: %v", err)
			}
			return time.Since(at)
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.Failf("the client has not closed within %s", within+10*time.Second)
	return 0
}
