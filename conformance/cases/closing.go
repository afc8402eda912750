package cases

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/proxy"
)

var locks = []Case{
	{ID: "lck.01", Level: conformance.Must, Says: "the locks end while the application has the records, which it then acknowledges: that fails, and they come again", Source: kip932, Needs: explicit, Setup: held, Expects: []string{"share.ack.done"}, Within: 110 * time.Second, run: func(s *Stage) {
		s.hold(10)
		from := len(s.Events())
		s.Pass(lockDuration + time.Second)
		s.settleHeld("accept")
		ok := s.until(5*time.Second, func() bool { return len(s.troubles(from)) > 0 })
		if !ok && !s.Settled("t", 0, 0) {
			s.Failf("the acknowledgements are without effect, and nobody is told")
		}
		s.Run()
		s.Resumes(15 * time.Second)
	}},
	{ID: "lck.02", Level: conformance.Must, Says: "the locks end while the application has the records, and another member gets them: the application's acknowledgements fail, are not sent again, and that member's count", Source: kip932, Needs: explicit, Setup: held, Expects: []string{"share.ack.done"}, Within: 60 * time.Second, run: func(s *Stage) {
		s.hold(10)
		from := len(s.Events())
		s.Pass(lockDuration + time.Second)
		other := s.rival()
		defer other.close()
		taken := other.take(10)
		if len(taken) == 0 {
			s.Inconclusivef("the client has the records again before the other member")
		}
		s.settleHeld("accept")
		s.Told(5*time.Second, from)
		s.Wait(2 * time.Second)
		for _, r := range taken {
			if code := other.accept(r.FirstOffset, r.LastOffset); code != 0 {
				s.Failf("the other member's acknowledgement of %d to %d fails with %d", r.FirstOffset, r.LastOffset, code)
			}
		}
		s.Run()
		s.Resumes(15 * time.Second)
	}},
	{ID: "lck.05", Level: conformance.Must, Says: "the application takes longer for each poll than a lock lasts: its acknowledgements fail or come in time for another delivery, and the client goes on", Source: kip932, Needs: explicit,
		Setup: Setup{Explicit: true, Records: 10, Headers: holdAll(100)}, Expects: []string{"share.ack.done"}, Within: 120 * time.Second, run: func(s *Stage) {
			for range 5 {
				s.Do(20*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
				s.Pass(lockDuration * 12 / 10)
				s.settleHeld("accept")
			}
			s.Run()
			s.Resumes(20 * time.Second)
			s.Pass(lockDuration)
			s.Drained(15*time.Second, "t", 0)
		}},
	{ID: "lck.04", Level: conformance.Must, Says: "locks last 1 s and the application takes 100 ms: none ends", Source: kip932, Setup: Setup{Group: map[string]string{"share.record.lock.duration.ms": "1000"}, Records: 300}, Within: 40 * time.Second, run: func(s *Stage) {
		s.Tell(driver.Op{"op": "run", "poll_ms": 200, "hold_ms": 100})
		s.Drained(25*time.Second, "t", 0)
		for _, e := range s.Delivered() {
			if e.Count > 1 {
				s.Failf("record %d is delivered with the count %d", e.Offset, e.Count)
			}
		}
	}},
}

// closes checks that the client closes in a time, with all sessions and the membership.
func (s *Stage) closes(within time.Duration) {
	mark := s.Mark()
	if took := s.closeDriver(within); took > within {
		s.Failf("closing takes %s", took.Round(time.Millisecond))
	}
	s.left(mark, time.Second)
}

// saysGoodbye tells whether the client has left the group, once its process has ended: what is on the wire is all there is.
func (s *Stage) saysGoodbye(mark int) bool {
	return s.first(mark, heartbeatKey, func(x *Seen) bool { return beatOf(x).MemberEpoch < 0 }) != nil
}

// closingQuiet: a client that closes need not keep its heartbeat interval, as long as its session lasts.
var closingQuiet = []string{"share.member.beat.1"}

const closeText = "KIP-932, close"

var closing = []Case{
	{ID: "cls.01", Level: conformance.Must, Says: "the client closes: each session is closed, then the group is left", Source: closeText, Expects: closingQuiet, Setup: threeNodes(3), run: func(s *Stage) {
		s.allDrained(3)
		s.closes(10 * time.Second)
	}},
	{ID: "cls.02", Level: conformance.Must, Says: "the client closes with acknowledgements that were not sent: they arrive", Source: closeText, Expects: closingQuiet, Needs: explicit, Setup: held, run: func(s *Stage) {
		s.hold(10)
		s.ack("accept", "all")
		s.closes(15 * time.Second)
		if !s.Settled("t", 0, 0) || !s.Settled("t", 0, 9) {
			s.Failf("the acknowledgements were not sent")
		}
	}},
	{ID: "cls.03", Level: conformance.Must, Says: "the client closes with records that were never handed out: they are not accepted", Source: closeText, Expects: closingQuiet, Setup: Setup{Records: 100, Props: map[string]any{"max_poll_records": 10}}, run: func(s *Stage) {
		s.pollSome()
		s.Wait(700 * time.Millisecond)
		s.closes(15 * time.Second)
		for offset := range int64(100) {
			if types := s.TypesOf(0, 0, offset); s.Times("t", 0, offset) == 0 && len(types) > 0 && types[0] == accept {
				s.Failf("record %d was not delivered, and is accepted", offset)
			}
		}
	}},
	{ID: "cls.04", Level: conformance.Must, Says: "the client closes while a ShareFetch waits for 5 s: it closes within 7 s", Source: closeText, Expects: closingQuiet, Setup: Setup{Props: map[string]any{"max_wait_ms": 5000}}, Within: 40 * time.Second, run: func(s *Stage) {
		s.Steady()
		s.Wait(500 * time.Millisecond)
		mark := s.Mark()
		if took := s.closeDriver(15 * time.Second); took > 7*time.Second {
			s.Failf("closing takes %s", took.Round(time.Millisecond))
		}
		if !s.saysGoodbye(mark) {
			s.Failf("the group is not left")
		}
	}},
	{ID: "cls.05", Level: conformance.Must, Says: "the request that closes the session is answered SHARE_SESSION_NOT_FOUND: the group is left, and the client closes", Source: closeText, Expects: closingQuiet, run: func(s *Stage) { s.closeAnswered(122) }},
	{ID: "cls.05.123", Level: conformance.Must, Says: "the request that closes the session is answered INVALID_SHARE_SESSION_EPOCH: the group is left, and the client closes", Source: closeText, Expects: closingQuiet, run: func(s *Stage) { s.closeAnswered(123) }},
	{ID: "cls.05.30", Level: conformance.Must, Says: "the request that closes the session is answered GROUP_AUTHORIZATION_FAILED: the group is left, and the client closes", Source: closeText, Expects: closingQuiet, run: func(s *Stage) { s.closeAnswered(30) }},
	{ID: "cls.05.-1", Level: conformance.Must, Says: "the request that closes the session is answered UNKNOWN_SERVER_ERROR: the group is left, and the client closes", Source: closeText, Expects: closingQuiet, run: func(s *Stage) { s.closeAnswered(-1) }},
	{ID: "cls.06", Level: conformance.Must, Says: "the request that closes the session is never answered: the client closes within 65 s", Source: closeText, Expects: closingQuiet, Full: true, Within: 120 * time.Second, run: func(s *Stage) {
		s.Steady()
		s.OnAsk(func(x *proxy.Exchange) {
			if q, ok := x.Request.(*kmsg.ShareAcknowledgeRequest); ok && q.ShareSessionEpoch == -1 {
				x.Silent = true
			}
		})
		if took := s.closeDriver(60 * time.Second); took > 65*time.Second {
			s.Failf("closing takes %s", took.Round(time.Millisecond))
		}
	}},
	{ID: "cls.07", Level: conformance.Must, Says: "the client closes before its join is answered, and leaving is answered GROUP_ID_NOT_FOUND: it closes without an error", Source: "apache/kafka#21239", Expects: closingQuiet, Setup: Setup{Late: true, Records: -1}, Within: 60 * time.Second, run: func(s *Stage) {
		s.OnAsk(func(x *proxy.Exchange) {
			q, ok := x.Request.(*kmsg.ShareGroupHeartbeatRequest)
			switch {
			case ok && q.MemberEpoch == 0:
				pause(x, 3*time.Second)
			case ok && q.MemberEpoch == -1:
				p := q.ResponseKind().(*kmsg.ShareGroupHeartbeatResponse)
				p.ErrorCode = 69
				x.Response = p
			}
		})
		s.Launch()
		s.Run()
		s.Next(20*time.Second, 0, heartbeatKey, "a heartbeat that joins", nil)
		from := len(s.Events())
		s.closeDriver(15 * time.Second)
		for _, e := range s.troubles(from) {
			s.Failf("closing fails: %s", e.Text)
		}
	}},
	{ID: "cls.08", Level: conformance.Must, Says: "the client is closed twice: nothing is sent behind the first time", Source: closeText, Expects: closingQuiet, Within: 40 * time.Second, run: func(s *Stage) {
		s.Steady()
		mark := s.Mark()
		s.closing = true
		e := s.Do(20*time.Second, driver.Op{"op": "close", "ms": 5000, "times": 2}, "closed")
		if e.N != 2 {
			panic(stop{Skip, "the driver cannot close twice"})
		}
		s.Wait(500 * time.Millisecond)
		left := s.first(mark, heartbeatKey, func(x *Seen) bool { return beatOf(x).MemberEpoch == -1 })
		if left == nil {
			s.Failf("the group is not left")
		}
		if again := s.first(left.N+1, heartbeatKey, nil); again != nil {
			s.Failf("a heartbeat with the epoch %d is sent behind the one that leaves", beatOf(again).MemberEpoch)
		}
	}},
	{ID: "cls.09", Level: conformance.Must, Says: "the client is given 100 ms to close: it returns within 1.5 s", Source: closeText, Expects: closingQuiet, Setup: Setup{Props: map[string]any{"close_timeout_ms": 100}}, run: func(s *Stage) {
		s.Steady()
		s.OnAsk(func(x *proxy.Exchange) {
			if q, ok := x.Request.(*kmsg.ShareAcknowledgeRequest); ok && q.ShareSessionEpoch == -1 {
				pause(x, 5*time.Second)
			}
		})
		if took := s.closeDriver(100 * time.Millisecond); took > 1500*time.Millisecond {
			s.Failf("closing takes %s", took.Round(time.Millisecond))
		}
	}},
	{ID: "cls.10", Level: conformance.Must, Says: "a heartbeat fails for ever (INVALID_REQUEST), then the client closes: its session is closed", Source: closeText, Expects: closingQuiet, Within: 60 * time.Second, run: func(s *Stage) {
		s.Steady()
		id := s.Fault("api=ShareGroupHeartbeat level=top error=42")
		if !s.until(8*time.Second, func() bool { return s.Acts(id) > 0 }) {
			s.Inconclusivef("no heartbeat was sent")
		}
		s.Wait(time.Second)
		s.closeDriver(20 * time.Second)
		for node := range s.sessions() {
			s.Failf("the session with node %d is left open", node)
		}
	}},
	{ID: "cls.11", Level: conformance.Must, Says: "the client closes with nothing to acknowledge but holes: they are gaps, or left to the end of the session", Source: closeText, Expects: closingQuiet, Setup: oneBatch(10), Within: 40 * time.Second, run: func(s *Stage) {
		done := s.acquired(func(p *part) {
			p.Records = bytesOf(0, 9, []int64{0, 1, 2, 6, 7, 8, 9}, nil)
			p.AcquiredRecords = ranges([3]int64{3, 5, 1})
		})
		s.Launch()
		for !done.Load() {
			s.Do(20*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
		}
		from := len(s.Events())
		s.closes(15 * time.Second)
		for _, e := range s.troubles(from) {
			s.Failf("closing fails: %s", e.Text)
		}
	}},
	{ID: "cls.12", Level: conformance.Must, Says: "the client closes with records that were renewed: they are released or left to the end of the session", Source: "KIP-1222", Expects: closingQuiet, Needs: renews, Setup: held, run: func(s *Stage) {
		s.hold(10)
		s.ack("renew", "all")
		s.closes(15 * time.Second)
	}},
	{ID: "cls.13", Level: conformance.Must, Says: "the subscription is ended, then the client closes: one end of each session, one of the membership", Source: closeText, Expects: closingQuiet, Within: 40 * time.Second, run: func(s *Stage) {
		s.Steady()
		mark := s.Mark()
		s.Do(10*time.Second, driver.Op{"op": "unsubscribe"}, "done")
		s.Wait(3 * time.Second)
		s.closeDriver(15 * time.Second)
		ends := 0
		for _, x := range s.Since(mark, heartbeatKey) {
			if beatOf(x).MemberEpoch == -1 {
				ends++
			}
		}
		if ends != 1 {
			s.Failf("the group is left %d times", ends)
		}
	}},
}

// closeAnswered has the end of the session answered with an error.
func (s *Stage) closeAnswered(code int16) {
	s.Steady()
	s.OnAsk(func(x *proxy.Exchange) {
		switch q := x.Request.(type) {
		case *kmsg.ShareAcknowledgeRequest:
			if q.ShareSessionEpoch == -1 {
				p := q.ResponseKind().(*kmsg.ShareAcknowledgeResponse)
				p.ErrorCode = code
				x.Response = p
			}
		case *kmsg.ShareFetchRequest:
			if q.ShareSessionEpoch == -1 {
				p := q.ResponseKind().(*kmsg.ShareFetchResponse)
				p.ErrorCode = code
				x.Response = p
			}
		}
	})
	mark := s.Mark()
	if took := s.closeDriver(15 * time.Second); took > 15*time.Second {
		s.Failf("closing takes %s", took.Round(time.Millisecond))
	}
	if !s.saysGoodbye(mark) {
		s.Failf("the group is not left")
	}
}
