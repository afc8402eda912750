package cases

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/proxy"
)

// assignments decides what heartbeats are answered as assignments.
type assignments struct {
	mu    sync.Mutex
	given *kmsg.ShareGroupHeartbeatResponseAssignment // to be told next, nil for nothing
	last  *kmsg.ShareGroupHeartbeatResponseAssignment // the broker's own
	taken bool                                        // the broker's own are not told
}

// Assignments has the case decide about assignments from now on, once Give was called.
func (s *Stage) Assignments() *assignments {
	a := &assignments{}
	s.Edit(func(x *proxy.Exchange) bool {
		p, ok := x.Response.(*kmsg.ShareGroupHeartbeatResponse)
		if !ok || p.ErrorCode != 0 {
			return false
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if p.Assignment != nil {
			a.last = p.Assignment
		}
		if !a.taken {
			return false
		}
		p.Assignment, a.given = a.given, nil
		return true
	})
	return a
}

// Give has the next heartbeat answered with an assignment: partitions by topic ids.
func (a *assignments) Give(parts map[[16]byte][]int32) {
	given := &kmsg.ShareGroupHeartbeatResponseAssignment{}
	for id, partitions := range parts {
		given.TopicPartitions = append(given.TopicPartitions, kmsg.ShareGroupHeartbeatResponseAssignmentTopicPartition{TopicID: id, Partitions: partitions})
	}
	a.put(given)
}

func (a *assignments) put(given *kmsg.ShareGroupHeartbeatResponseAssignment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken, a.given = true, given
}

// beats changes answers to heartbeats.
func (s *Stage) beats(f func(*kmsg.ShareGroupHeartbeatResponse)) (undo func()) {
	return s.Edit(func(x *proxy.Exchange) bool {
		p, ok := x.Response.(*kmsg.ShareGroupHeartbeatResponse)
		if ok && p.ErrorCode == 0 {
			f(p)
		}
		return ok
	})
}

// rateOfBeats is how many heartbeats a second there were from a moment on.
func (s *Stage) rateOfBeats(from time.Time) float64 { return s.Rate(heartbeatKey, from, time.Now()) }

// sameMember fails where the client has joined again since a moment.
func (s *Stage) sameMember(mark int) {
	if x := s.first(mark, heartbeatKey, func(x *Seen) bool { return beatOf(x).MemberEpoch == 0 }); x != nil {
		s.Failf("the client joins again, with the member epoch 0")
	}
}

var membership = []Case{
	{ID: "mem.01", Level: conformance.Must, Says: "a plain start: the client joins with its topics and fetches what it was assigned", Source: kip932, run: func(s *Stage) {
		s.Steady()
		first := s.first(0, heartbeatKey, nil)
		if q := beatOf(first); q.MemberEpoch != 0 || !slices.Equal(q.SubscribedTopicNames, []string{"t"}) {
			s.Failf("the first heartbeat has the member epoch %d and the topics %v", q.MemberEpoch, q.SubscribedTopicNames)
		}
	}},
	{ID: "mem.02", Level: conformance.Must, Says: "the first three heartbeats bring an empty assignment: the client waits, then fetches within 2 s", Source: kip932, Setup: Setup{Late: true}, run: func(s *Stage) {
		var n atomic.Int32
		var kept *kmsg.ShareGroupHeartbeatResponseAssignment
		var at atomic.Int64
		s.beats(func(p *kmsg.ShareGroupHeartbeatResponse) {
			if p.Assignment != nil && kept == nil && len(p.Assignment.TopicPartitions) > 0 {
				kept = p.Assignment
			}
			switch i := n.Add(1); {
			case i <= 3:
				p.Assignment = &kmsg.ShareGroupHeartbeatResponseAssignment{}
			case kept != nil && at.Load() == 0:
				p.Assignment = kept
				at.Store(time.Now().UnixNano())
			}
		})
		s.Launch()
		s.Run()
		s.Await(15*time.Second, "a fourth heartbeat", func() bool { return at.Load() > 0 })
		s.Next(3*time.Second, 0, shareFetchKey, "a ShareFetch within 2 s of the assignment", nil)
		s.steady(10 * time.Second)
	}},
	{ID: "mem.03", Level: conformance.Must, Says: "the heartbeat interval is 1 s, then 3 s, then 1 s: the client keeps it", Source: kip932, run: func(s *Stage) {
		var interval atomic.Int32
		interval.Store(1000)
		s.beats(func(p *kmsg.ShareGroupHeartbeatResponse) { p.HeartbeatIntervalMillis = interval.Load() })
		s.Steady()
		for _, ms := range []int32{3000, 1000} {
			interval.Store(ms)
			mark := s.Mark()
			s.Await(15*time.Second, "four heartbeats", func() bool { return len(s.Since(mark, heartbeatKey)) >= 4 })
			all := s.Since(mark, heartbeatKey)
			gap := all[3].At.Sub(all[2].Answered)
			want := time.Duration(ms) * time.Millisecond
			if gap < want*8/10 || gap > want*12/10+500*time.Millisecond {
				s.Failf("heartbeats are %s apart, the interval is %s", gap.Round(time.Millisecond), want)
			}
		}
	}},
	{ID: "mem.04", Level: conformance.Info, Says: "the heartbeat interval is 100 ms", Source: "clients differ", run: func(s *Stage) {
		s.beats(func(p *kmsg.ShareGroupHeartbeatResponse) { p.HeartbeatIntervalMillis = 100 })
		s.Steady()
		from := time.Now()
		s.Wait(4 * time.Second)
		s.Tellf("%.1f heartbeats a second", s.rateOfBeats(from))
		s.Shouldf(s.rateOfBeats(from) <= 20, "%.0f heartbeats a second", s.rateOfBeats(from))
	}},
	{ID: "mem.05", Level: conformance.Must, Says: "the heartbeat interval is 0, then -1, then 2147483647 ms: the client neither spins nor dies", Source: "a hostile broker", Expects: []string{"share.member.beat"}, run: func(s *Stage) {
		var interval atomic.Int32
		interval.Store(1000)
		s.beats(func(p *kmsg.ShareGroupHeartbeatResponse) { p.HeartbeatIntervalMillis = interval.Load() })
		s.Steady()
		for _, ms := range []int32{0, -1, 1<<31 - 1} {
			interval.Store(ms)
			s.Wait(2 * time.Second)
			from := time.Now()
			s.Wait(2 * time.Second)
			if rate := s.rateOfBeats(from); rate > 20 {
				s.Failf("%.0f heartbeats a second with the interval %d", rate, ms)
			}
		}
	}},
	{ID: "mem.06", Level: conformance.Must, Says: "each heartbeat is answered after four intervals: one is under way at a time", Source: kip932, Within: 60 * time.Second, run: func(s *Stage) {
		s.Steady()
		s.OnAsk(func(x *proxy.Exchange) {
			if x.Header.Key == heartbeatKey {
				pause(x, 4*time.Second)
			}
		})
		mark := s.Mark()
		s.Wait(9 * time.Second)
		all := s.Since(mark, heartbeatKey)
		for i := 1; i < len(all); i++ {
			if all[i-1].Answered.IsZero() || all[i].At.Before(all[i-1].Answered) {
				s.Failf("a heartbeat is sent while the one before is not answered")
			}
		}
		s.Resumes(10 * time.Second)
	}},
	{ID: "mem.07", Level: conformance.Must, Says: "the connection is lost before a heartbeat is answered: the client repeats it and stays a member", Source: "KIP-932, the previous member epoch", run: func(s *Stage) {
		s.Steady()
		mark := s.Mark()
		var once atomic.Bool
		s.Edit(func(x *proxy.Exchange) bool {
			if x.Header.Key == heartbeatKey && once.CompareAndSwap(false, true) {
				x.Close = true
			}
			return false
		})
		s.Await(10*time.Second, "two heartbeats", func() bool { return len(s.Since(mark, heartbeatKey)) >= 2 && once.Load() })
		s.Wait(2 * time.Second)
		s.sameMember(mark)
		s.Resumes(10 * time.Second)
	}},
	{ID: "mem.08", Level: conformance.Must, Says: "the member epoch rises by 4: the next heartbeat has it", Source: kip932, run: func(s *Stage) {
		s.Steady()
		var raised atomic.Int32
		s.Edit(func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ShareGroupHeartbeatResponse)
			if !ok || p.ErrorCode != 0 || raised.Load() != 0 {
				return false
			}
			p.MemberEpoch += 4
			raised.Store(p.MemberEpoch)
			return true
		})
		s.OnAsk(func(x *proxy.Exchange) {
			if q, ok := x.Request.(*kmsg.ShareGroupHeartbeatRequest); ok && raised.Load() != 0 && q.MemberEpoch == raised.Load() {
				p := q.ResponseKind().(*kmsg.ShareGroupHeartbeatResponse)
				p.MemberID, p.MemberEpoch, p.HeartbeatIntervalMillis = &q.MemberID, q.MemberEpoch, 1000
				x.Response = p
			}
		})
		s.Await(5*time.Second, "a heartbeat", func() bool { return raised.Load() != 0 })
		mark := s.Mark()
		next := s.Next(5*time.Second, mark, heartbeatKey, "another heartbeat", nil)
		if epoch := beatOf(next).MemberEpoch; epoch != raised.Load() {
			s.Failf("the heartbeat has the member epoch %d, the answer before said %d", epoch, raised.Load())
		}
	}},
	{ID: "mem.09", Level: conformance.Must, Says: "ten heartbeats bring no assignment: what is fetched stays as it is", Source: kip932, run: func(s *Stage) {
		s.Steady()
		mark := s.Mark()
		s.Await(20*time.Second, "ten heartbeats", func() bool { return len(s.Since(mark, heartbeatKey)) >= 10 })
		if x := s.first(mark, shareFetchKey, func(x *Seen) bool { return forgets(x, s.TopicID("t"), 0) }); x != nil {
			s.Failf("t-0 is forgotten")
		}
		s.Resumes(10 * time.Second)
	}},
	{ID: "mem.10", Level: conformance.Must, Says: "the assignment becomes empty, then is back: partitions are forgotten within 5 s, and fetched again", Source: "KIP-932, KAFKA-20736", run: func(s *Stage) {
		a := s.Assignments()
		s.Steady()
		id := s.TopicID("t")
		s.Drained(10*time.Second, "t", 0)
		mark := s.Mark()
		a.Give(nil)
		s.Await(7*time.Second, "a session without t-0", func() bool { return !s.InSession(1, id, 0) })
		s.Await(5*time.Second, "heartbeats that go on", func() bool { return len(s.Since(mark, heartbeatKey)) >= 3 })
		s.sameMember(mark)
		a.Give(map[[16]byte][]int32{id: {0}})
		s.Resumes(10 * time.Second)
	}},
	{ID: "mem.11", Level: conformance.Must, Says: "one of two partitions is taken away while there is nothing to do: it is forgotten within 5 s", Source: kip932, Setup: Setup{Topics: map[string]int{"t": 2}}, run: func(s *Stage) {
		a := s.Assignments()
		s.Steady()
		id := s.TopicID("t")
		s.Drained(10*time.Second, "t", 0)
		s.Drained(10*time.Second, "t", 1)
		a.Give(map[[16]byte][]int32{id: {0}})
		s.Await(7*time.Second, "a session without t-1", func() bool { return !s.InSession(1, id, 1) })
		s.Resumes(10 * time.Second)
	}},
	{ID: "mem.12", Level: conformance.Must, Says: "a partition is taken away while its records are not acknowledged: the acknowledgements arrive, and it is not fetched any more", Source: kip932,
		Needs: []string{driver.Explicit}, Setup: Setup{Explicit: true, Topics: map[string]int{"t": 2}, Records: 10, Headers: holdAll(100)}, run: func(s *Stage) {
			a := s.Assignments()
			s.hold(10)
			id := s.TopicID("t")
			part := s.Delivered()[0].Partition
			a.Give(map[[16]byte][]int32{id: {1 - part}})
			mark := s.Mark()
			s.Await(5*time.Second, "two heartbeats", func() bool { return len(s.Since(mark, heartbeatKey)) >= 2 })
			s.Do(10*time.Second, driver.Op{"op": "ack", "do": "accept", "sel": "all"}, "acked")
			s.Do(40*time.Second, driver.Op{"op": "commit", "how": "sync"}, "done")
			s.Run()
			s.Await(6*time.Second, "the acknowledgement of a record of the partition", func() bool { return slices.Contains(s.TypesOf(mark, part, s.Delivered()[0].Offset), 1) })
			s.Await(7*time.Second, "a session without the partition", func() bool { return !s.InSession(1, id, part) })
		}},
	{ID: "mem.13", Level: conformance.Must, Says: "a partition is taken and given again and again: in the end it is consumed", Source: kip932, Setup: Setup{Topics: map[string]int{"t": 2}}, Within: 50 * time.Second, run: func(s *Stage) {
		a := s.Assignments()
		s.beats(func(p *kmsg.ShareGroupHeartbeatResponse) { p.HeartbeatIntervalMillis = 300 })
		s.Steady()
		id := s.TopicID("t")
		for i := range 20 {
			parts := []int32{0, 1}
			if i%2 == 0 {
				parts = parts[:1]
			}
			mark := s.Mark()
			a.Give(map[[16]byte][]int32{id: parts})
			s.Next(5*time.Second, mark, heartbeatKey, "a heartbeat", nil)
			s.Wait(100 * time.Millisecond)
		}
		s.ResumesAt(15*time.Second, "t", 1)
	}},
	{ID: "mem.14", Level: conformance.Must, Says: "the assignment has a topic that metadata does not have for 3 s: it is asked for, then consumed", Source: kip932, Setup: Setup{Topics: map[string]int{"t": 1, "u": 1}, Late: true}, run: func(s *Stage) {
		until := time.Now().Add(4 * time.Second)
		id := s.TopicID("u")
		s.Edit(func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.MetadataResponse)
			if !ok || time.Now().After(until) {
				return false
			}
			for i := range p.Topics {
				if t := &p.Topics[i]; t.TopicID == id {
					t.ErrorCode, t.TopicID, t.Partitions = 3, [16]byte{}, nil
				}
			}
			return true
		})
		s.Launch()
		s.Run()
		from := time.Now()
		s.ResumesAt(20*time.Second, "u", 0)
		s.Shouldf(s.Rate(metadataKey, from, until) <= mostRequests, "Metadata is asked for %.0f times a second", s.Rate(metadataKey, from, until))
		s.ResumesAt(10*time.Second, "t", 0)
	}},
	{ID: "mem.15", Level: conformance.Must, Says: "a topic gets a partition, and metadata does not have it for 3 s: it is consumed within 10 s", Source: kip932, Within: 50 * time.Second, run: func(s *Stage) {
		s.Steady()
		until := time.Now().Add(4 * time.Second)
		s.Edit(func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.MetadataResponse)
			if !ok || time.Now().After(until) {
				return false
			}
			for i := range p.Topics {
				p.Topics[i].Partitions = slices.DeleteFunc(p.Topics[i].Partitions, func(x kmsg.MetadataResponseTopicPartition) bool { return x.Partition == 1 })
			}
			return true
		})
		s.grow("t", 2)
		s.Wait(4 * time.Second)
		s.ResumesAt(20*time.Second, "t", 1)
	}},
	{ID: "mem.16", Level: conformance.Must, Says: "the assignment has the partitions 0 and -1: 0 is consumed, -1 is not fetched", Source: "a hostile broker", run: func(s *Stage) {
		a := s.Assignments()
		s.Steady()
		mark := s.Mark()
		a.Give(map[[16]byte][]int32{s.TopicID("t"): {0, -1}})
		s.Next(5*time.Second, mark, heartbeatKey, "a heartbeat", nil)
		s.Wait(time.Second)
		s.Resumes(10 * time.Second)
		if x := s.first(mark, shareFetchKey, func(x *Seen) bool { return asksFor(x, s.TopicID("t"), -1) }); x != nil {
			s.Failf("the partition -1 is fetched")
		}
	}},
	{ID: "mem.17", Level: conformance.Should, Says: "the assignment has a topic twice, and a partition twice: each is fetched once", Source: "a hostile broker", run: func(s *Stage) {
		a := s.Assignments()
		s.Steady()
		id := s.TopicID("t")
		mark := s.Mark()
		a.put(&kmsg.ShareGroupHeartbeatResponseAssignment{TopicPartitions: []kmsg.ShareGroupHeartbeatResponseAssignmentTopicPartition{{TopicID: id, Partitions: []int32{0, 0}}, {TopicID: id, Partitions: []int32{0}}}})
		s.Next(5*time.Second, mark, heartbeatKey, "a heartbeat", nil)
		s.Wait(time.Second)
		s.Resumes(10 * time.Second)
	}},
	{ID: "mem.18", Level: conformance.Must, Says: "1,000 partitions on a node are assigned: all are in the session after three requests", Source: kip932, Setup: Setup{Topics: map[string]int{"t": 1000}, Records: -1}, Within: 50 * time.Second, run: func(s *Stage) {
		s.Run()
		id := s.TopicID("t")
		s.Joined(20 * time.Second)
		s.Await(10*time.Second, "a session with all partitions", func() bool {
			n := 0
			for tp := range s.sessions()[1] {
				if tp.topic == id {
					n++
				}
			}
			return n == 1000
		})
		s.ResumesAt(15*time.Second, "t", 999)
	}},
	{ID: "mem.19", Level: conformance.Must, Says: "the application subscribes to a second topic: the next or second heartbeat has both", Source: kip932, Setup: Setup{Topics: map[string]int{"t": 1, "u": 1}, Subscribe: []string{"t"}}, run: func(s *Stage) {
		s.Steady()
		mark := s.Mark()
		s.Do(10*time.Second, driver.Op{"op": "subscribe", "topics": []string{"t", "u"}}, "done")
		s.names(mark, "t", "u")
		s.ResumesAt(15*time.Second, "u", 0)
	}},
	{ID: "mem.20", Level: conformance.Must, Says: "the application ends its subscription to one of two topics: the list has the other, and the first is forgotten", Source: kip932, Expects: []string{"share.member.assign.4"}, Setup: Setup{Topics: map[string]int{"t": 1, "u": 1}}, run: func(s *Stage) {
		s.Steady()
		s.Drained(10*time.Second, "t", 0)
		mark := s.Mark()
		s.Do(10*time.Second, driver.Op{"op": "subscribe", "topics": []string{"u"}}, "done")
		s.names(mark, "u")
		s.Await(8*time.Second, "a session without t-0", func() bool { return !s.InSession(1, s.TopicID("t"), 0) })
		s.ResumesAt(10*time.Second, "u", 0)
	}},
	{ID: "mem.21", Level: conformance.Must, Says: "the application ends its subscription: the session is closed and the group is left", Source: kip932, run: func(s *Stage) {
		s.Steady()
		mark := s.Mark()
		s.Do(10*time.Second, driver.Op{"op": "unsubscribe"}, "done")
		s.Tell(driver.Op{"op": "pause"})
		s.left(mark, 10*time.Second)
	}},
	{ID: "mem.22", Level: conformance.Must, Says: "the application ends its subscription and subscribes again: the client joins anew", Source: kip932, Within: 40 * time.Second, run: func(s *Stage) {
		s.Steady()
		mark := s.Mark()
		s.Do(10*time.Second, driver.Op{"op": "unsubscribe"}, "done")
		s.Wait(500 * time.Millisecond)
		s.Do(10*time.Second, driver.Op{"op": "subscribe", "topics": []string{"t"}}, "done")
		s.Next(10*time.Second, mark, heartbeatKey, "a heartbeat that joins", func(x *Seen) bool {
			return beatOf(x).MemberEpoch == 0 && slices.Contains(beatOf(x).SubscribedTopicNames, "t")
		})
		s.Resumes(15 * time.Second)
	}},
	{ID: "mem.23", Level: conformance.Must, Says: "a heartbeat is answered FENCED_MEMBER_EPOCH once: the client joins again with its id", Source: kip932, run: (&errorCase{&errorLevels[0], 110, fenced, true}).once},
	{ID: "mem.24", Level: conformance.Must, Says: "a heartbeat is answered UNKNOWN_MEMBER_ID while the application has records: it joins again, and what it acknowledges ends", Source: kip932, Needs: []string{driver.Explicit},
		Setup: Setup{Explicit: true, Records: 10, Headers: holdAll(100)}, Within: 90 * time.Second, run: func(s *Stage) {
			s.hold(10)
			mark := s.Mark()
			e := errorCase{&errorLevels[0], 25, fenced, true}
			e.rejoins(s, e.hit(s, mark, e.inject(s, 1)))
			s.Do(10*time.Second, driver.Op{"op": "ack", "do": "accept", "sel": "all"}, "acked")
			s.Do(45*time.Second, driver.Op{"op": "commit", "how": "sync"}, "done")
			s.Run()
			s.Resumes(15 * time.Second)
		}},
	{ID: "mem.25", Level: conformance.Should, Says: "every heartbeat is answered FENCED_MEMBER_EPOCH for ten seconds: the client floods nobody, and goes on", Source: kip932, Within: 60 * time.Second, Expects: []string{"share.member.rate"},
		run: (&errorCase{&errorLevels[0], 110, fenced, true}).ever},
	{ID: "mem.26", Level: conformance.Must, Says: "the group moves to another coordinator: heartbeats go there, with the same epoch", Source: kip932, Setup: Setup{Brokers: 3, Config: replicated}, run: func(s *Stage) {
		s.Steady()
		at := s.first(0, heartbeatKey, nil).Node
		mark := s.Mark()
		to := at%3 + 1
		if err := s.cluster.MoveCoordinator(kshare.GroupCoordinator, groupID, to, 0); err != nil {
			panic(err)
		}
		next := s.Next(15*time.Second, mark, heartbeatKey, "a heartbeat at the new coordinator", func(x *Seen) bool { return x.Node == to })
		if beatOf(next).MemberEpoch == 0 {
			s.Failf("the heartbeat at the new coordinator has the member epoch 0")
		}
		s.Resumes(15 * time.Second)
	}},
	{ID: "mem.27", Level: conformance.Must, Says: "the coordinator is not available for 5 s: the client backs off, then joins", Source: kip932, Setup: Setup{Late: true}, Within: 45 * time.Second, run: func(s *Stage) {
		id := s.Fault("api=FindCoordinator level=coordinator error=15")
		s.Launch()
		s.Run()
		began := time.Now()
		s.Await(10*time.Second, "a question for the coordinator", func() bool { return s.Acts(id) > 0 })
		s.Wait(5 * time.Second)
		rate := s.Rate(findKey, began.Add(time.Second), time.Now())
		s.Shouldf(rate <= mostRequests, "FindCoordinator is sent %.0f times a second", rate)
		s.Unfault(id)
		s.steady(20 * time.Second)
	}},
	{ID: "mem.28", Level: conformance.Must, Says: "the connection to the coordinator is reset every 2 s: the client stays a member", Source: kip932, Within: 40 * time.Second, run: func(s *Stage) {
		s.Steady()
		mark := s.Mark()
		for range 4 {
			last := s.Since(0, heartbeatKey)
			conn := last[len(last)-1].Conn
			s.proxy.Disconnect(func(c uint64, _ int32) bool { return c == conn })
			s.Wait(2 * time.Second)
		}
		s.sameMember(mark)
		s.Resumes(10 * time.Second)
	}},
	{ID: "mem.29", Level: conformance.Info, Says: "the application takes 8 s for a record, and max.poll.interval is 3 s: what the client does", Source: "clients differ", Needs: []string{driver.Explicit}, Expects: []string{"share.member.leave", "share.member.join", "share.session"},
		Setup: Setup{Explicit: true, Records: 10, Headers: map[int]string{0: "slow:8000"}, Props: map[string]any{"max_poll_interval_ms": 3000}}, Within: 50 * time.Second, run: func(s *Stage) {
			s.Run()
			s.Await(20*time.Second, "the delivery of record 0", func() bool { return s.Times("t", 0, 0) > 0 })
			mark := s.Mark()
			s.Wait(9 * time.Second)
			if s.first(mark, heartbeatKey, func(x *Seen) bool { return beatOf(x).MemberEpoch == -1 }) == nil {
				s.Tellf("it stays a member")
			} else {
				s.Tellf("it leaves the group")
			}
			s.Resumes(20 * time.Second)
		}},
	{ID: "mem.30", Level: conformance.Must, Says: "client.rack is set: the heartbeat that joins has it", Source: kip932, Setup: Setup{Props: map[string]any{"rack": "r1"}}, run: func(s *Stage) {
		s.Run()
		x := s.Next(15*time.Second, 0, heartbeatKey, "a heartbeat", nil)
		if rack := beatOf(x).RackID; rack == nil || *rack != "r1" {
			s.Failf("the heartbeat that joins has another rack")
		}
	}},
	{ID: "mem.31", Level: conformance.Info, Says: "the answer to a heartbeat has another member id", Source: "clients differ", Expects: []string{"share", "wire.member"}, run: func(s *Stage) {
		s.Steady()
		other := "AAAAAAAAAAAAAAAAAAAAAQ"
		own := beatOf(s.first(0, heartbeatKey, nil)).MemberID
		undo := s.beats(func(p *kmsg.ShareGroupHeartbeatResponse) { p.MemberID = &other })
		mark := s.Mark()
		s.Await(10*time.Second, "two heartbeats", func() bool { return len(s.Since(mark, heartbeatKey)) >= 2 })
		all := s.Since(mark, heartbeatKey)
		if id := beatOf(all[len(all)-1]).MemberID; id == other {
			s.Tellf("the client takes the id over")
		} else if id == own {
			s.Tellf("the client keeps its id")
		}
		undo()
	}},
	{ID: "mem.33", Level: conformance.Must, Says: "two consumers of a process are two members", Source: kip932, run: func(s *Stage) {
		s.Steady()
		s.Do(15*time.Second, driver.Op{"op": "second"}, "done")
		ids := map[string]bool{}
		s.Await(15*time.Second, "heartbeats of two members", func() bool {
			for _, x := range s.Since(0, heartbeatKey) {
				ids[beatOf(x).MemberID] = true
			}
			return len(ids) >= 2
		})
	}},
	{ID: "mem.35", Level: conformance.Must, Says: "the broker has ended the membership without a word: the client joins again, and opens a new session", Source: kip932, Within: 60 * time.Second, Expects: []string{"share.member.fence", "share.member.assign"}, run: func(s *Stage) {
		s.Steady()
		mark := s.Mark()
		s.Pass(46 * time.Second)
		s.Next(10*time.Second, mark, heartbeatKey, "a heartbeat that joins again", func(x *Seen) bool { return beatOf(x).MemberEpoch == 0 })
		s.Resumes(20 * time.Second)
	}},
}

// holdAll has the application keep the first n records, which polls of their own bring.
func holdAll(n int) map[int]string {
	all := map[int]string{}
	for i := range n {
		all[i] = "hold"
	}
	return all
}

// replicated has topics on all nodes.
var replicated = map[string]string{"default.replication.factor": "3", "offsets.topic.replication.factor": "3", "share.coordinator.state.topic.replication.factor": "3"}

// hold polls until the application has n records that it has not acknowledged.
func (s *Stage) hold(n int) {
	deadline := time.Now().Add(20 * time.Second)
	for len(s.Delivered()) < n {
		if time.Now().After(deadline) {
			s.Failf("within 20 s the application does not get %d records", n)
		}
		s.Do(15*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
	}
}

// names waits for a heartbeat with exactly these topics.
func (s *Stage) names(mark int, names ...string) {
	s.Next(10*time.Second, mark, heartbeatKey, "a heartbeat with the topics "+names[0], func(x *Seen) bool {
		got := slices.Sorted(slices.Values(beatOf(x).SubscribedTopicNames))
		return slices.Equal(got, names)
	})
}

// left waits until all sessions are closed and the group is left.
func (s *Stage) left(mark int, within time.Duration) {
	s.Next(within, mark, heartbeatKey, "a heartbeat that leaves the group", func(x *Seen) bool { return beatOf(x).MemberEpoch == -1 })
	s.until(3*time.Second, func() bool { return len(s.sessions()) == 0 })
	for node := range s.sessions() {
		s.Failf("the session with node %d is left open", node)
	}
}

// grow gives a topic partitions.
func (s *Stage) grow(topic string, partitions int32) {
	q := kmsg.NewPtrCreatePartitionsRequest()
	q.Version, q.TimeoutMillis = 3, 5000
	q.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: topic, Count: partitions}}
	p := s.ask(s.anyNode(), q).(*kmsg.CreatePartitionsResponse)
	if code := p.Topics[0].ErrorCode; code != 0 {
		panic(code)
	}
}
