package cases

import (
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"kshare/conformance"
	"kshare/conformance/proxy"
)

var errCut = errors.New("cut by the case")

// wrongBytes has the first answer to a ShareFetch behind the steady state written by a function, and the client go on with it.
func wrongBytes(write func(c net.Conn, frame []byte) error) func(*Stage) {
	return func(s *Stage) {
		s.Steady()
		done := &atomic.Bool{}
		s.Edit(func(x *proxy.Exchange) bool {
			if x.Header.Key == shareFetchKey && done.CompareAndSwap(false, true) {
				x.Write = write
			}
			return false
		})
		s.Await(10*time.Second, "a ShareFetch", done.Load)
		at := time.Now()
		s.Resumes(50 * time.Second)
		took := time.Since(at)
		s.Shouldf(took <= 15*time.Second, "the client goes on after %s", took.Round(time.Second))
	}
}

// allDrained waits until the records of n partitions of t are acknowledged.
func (s *Stage) allDrained(n int32) {
	s.Run()
	for p := range n {
		s.Drained(20*time.Second, "t", p)
	}
}

// ledBy is a partition of t that a node leads, -1 without.
func (s *Stage) ledBy(node int32, partitions int32) int32 {
	for p := range partitions {
		if s.Leader("t", p) == node {
			return p
		}
	}
	return -1
}

// notCoordinator is a node that leads a partition and does not coordinate the group.
func (s *Stage) notCoordinator() (node, partition int32) {
	at := s.first(0, heartbeatKey, nil).Node
	for n := range int32(3) {
		if p := s.ledBy(n+1, 3); n+1 != at && p >= 0 {
			return n + 1, p
		}
	}
	s.Inconclusivef("every leader coordinates the group")
	return 0, 0
}

var nodes = []Case{
	{ID: "nod.01", Level: conformance.Must, Says: "a node leaves the cluster: others are consumed, and what it led at its new leader", Source: kip932, Setup: threeNodes(3), Within: 50 * time.Second, run: func(s *Stage) {
		s.allDrained(3)
		node, partition := s.notCoordinator()
		s.down(node)
		at := time.Now()
		s.ResumesAt(15*time.Second, "t", (partition+1)%3)
		s.ResumesAt(15*time.Second, "t", partition)
		s.Wait(time.Until(at.Add(6 * time.Second)))
		n := s.Connects(node, at.Add(4*time.Second), time.Now())
		s.Shouldf(n <= 3, "%d connections to the node that is gone are tried within 2 s", n)
	}},
	{ID: "nod.02", Level: conformance.Must, Says: "a node refuses connections for 10 s and still is in metadata: others are consumed, then it is too", Source: kip932, Setup: Setup{Brokers: 3, Topics: map[string]int{"t": 3}, Records: 10}, Within: 60 * time.Second, run: func(s *Stage) {
		s.allDrained(3)
		node, partition := s.notCoordinator()
		refused := atomic.Bool{}
		refused.Store(true)
		s.OnOpen(func(n int32) bool { return n != node || !refused.Load() })
		s.proxy.Disconnect(func(_ uint64, n int32) bool { return n == node })
		at := time.Now()
		s.ResumesAt(10*time.Second, "t", (partition+1)%3)
		s.Wait(time.Until(at.Add(10 * time.Second)))
		rate := float64(s.Connects(node, at.Add(2*time.Second), time.Now())) / 8
		s.Shouldf(rate <= mostConnects, "%.0f connections a second are tried", rate)
		refused.Store(false)
		s.ResumesAt(20*time.Second, "t", partition)
	}},
	{ID: "nod.03", Level: conformance.Must, Says: "a node takes connections and never answers: others are consumed", Source: kip932, Setup: Setup{Brokers: 3, Topics: map[string]int{"t": 3}, Records: 10}, Within: 60 * time.Second, run: func(s *Stage) {
		s.allDrained(3)
		node, partition := s.notCoordinator()
		s.OnAsk(func(x *proxy.Exchange) {
			if x.Node == node {
				x.Silent = true
			}
		})
		s.ResumesAt(20*time.Second, "t", (partition+1)%3)
		s.ResumesAt(20*time.Second, "t", (partition+2)%3)
	}},
	{ID: "nod.04", Level: conformance.Must, Says: "the node comes back on another port, which metadata has: it is found there", Source: kip932, Setup: Setup{Brokers: 3, Topics: map[string]int{"t": 3}, Records: 10}, Within: 50 * time.Second, run: func(s *Stage) {
		s.allDrained(3)
		node, partition := s.notCoordinator()
		if err := s.proxy.Shut(node); err != nil {
			panic(err)
		}
		s.proxy.Disconnect(func(_ uint64, n int32) bool { return n == node })
		if err := s.proxy.Reopen(node, true); err != nil {
			panic(err)
		}
		s.ResumesAt(25*time.Second, "t", partition)
	}},
	{ID: "nod.05", Level: conformance.Must, Says: "the client closes while no node is there: it closes within 35 s", Source: kip932, Within: 80 * time.Second, run: func(s *Stage) {
		s.Steady()
		s.down(1)
		if took := s.closeDriver(30 * time.Second); took > 35*time.Second {
			s.Failf("closing takes %s", took.Round(time.Millisecond))
		}
	}},
	{ID: "nod.06", Level: conformance.Must, Says: "nothing listens for 10 s: the client keeps trying at a bearable rate, and joins", Source: kip932, Setup: Setup{Late: true}, Within: 60 * time.Second, run: func(s *Stage) {
		if err := s.proxy.Shut(1); err != nil {
			panic(err)
		}
		s.Launch()
		s.Run()
		s.Wait(10 * time.Second)
		if err := s.proxy.Reopen(1, false); err != nil {
			panic(err)
		}
		s.steady(30 * time.Second)
	}},
	{ID: "nod.07", Level: conformance.Must, Says: "the coordinator's node goes down, leaders stay: fetching goes on, and heartbeats reach the new coordinator", Source: kip932, Setup: threeNodes(3), Within: 60 * time.Second, run: func(s *Stage) {
		s.allDrained(3)
		at := s.first(0, heartbeatKey, nil).Node
		other := s.ledBy(at%3+1, 3)
		mark := s.Mark()
		s.down(at)
		s.ResumesAt(15*time.Second, "t", other)
		s.Next(20*time.Second, mark, heartbeatKey, "a heartbeat at another node", func(x *Seen) bool { return x.Node != at && x.Response != nil })
	}},
	{ID: "nod.08", Level: conformance.Must, Within: 90 * time.Second, Says: "the connection is reset in the middle of an answer: nothing of it is delivered, and a new session is opened", Source: "TCP", run: wrongBytes(func(c net.Conn, frame []byte) error {
		b := prefixed(frame, len(frame))
		_, err := c.Write(b[:len(b)/2])
		return errors.Join(err, errCut)
	})},
	{ID: "nod.09", Level: conformance.Must, Within: 90 * time.Second, Says: "an answer claims to be 2147483647 bytes long: the connection is given up, and the memory is not taken", Source: "a hostile broker", run: func(s *Stage) {
		wrongBytes(func(c net.Conn, frame []byte) error {
			_, err := c.Write(prefixed(frame, 1<<31-1))
			if err == nil {
				time.Sleep(500 * time.Millisecond)
			}
			return errors.Join(err, errCut)
		})(s)
		if rss := s.memory(); rss > 1<<30 {
			s.Failf("the client takes %d MiB", rss>>20)
		}
	}},
	{ID: "nod.10", Level: conformance.Must, Within: 90 * time.Second, Says: "an answer has another correlation id: it is not taken for the answer, and the client goes on", Source: "Kafka's protocol", run: wrongBytes(func(c net.Conn, frame []byte) error {
		binary.BigEndian.PutUint32(frame, binary.BigEndian.Uint32(frame)+1000)
		_, err := c.Write(prefixed(frame, len(frame)))
		return err
	})},
	{ID: "nod.11", Level: conformance.Must, Says: "nothing comes through for 10 s, and no connection ends: the client goes on afterwards", Source: "a network partition", Within: 70 * time.Second, run: func(s *Stage) {
		s.Steady()
		until := time.Now().Add(10 * time.Second)
		s.OnAsk(func(x *proxy.Exchange) {
			if left := time.Until(until); left > 0 {
				pause(x, left)
			}
		})
		s.Wait(10 * time.Second)
		s.Resumes(40 * time.Second)
	}},
	{ID: "nod.12", Level: conformance.Must, Says: "connections that are idle for 3 s are closed: the client stays a member and goes on", Source: "connections.max.idle.ms", Within: 50 * time.Second, run: func(s *Stage) {
		s.Steady()
		mark := s.Mark()
		for range 8 {
			s.Wait(time.Second)
			s.closeIdle(3 * time.Second)
		}
		s.sameMember(mark)
		s.Resumes(10 * time.Second)
	}},
	{ID: "nod.13", Level: conformance.Should, Within: 90 * time.Second, Says: "the body of an answer is cut, and its length is right: the client goes on", Source: "a hostile broker", Expects: []string{"share.session"}, run: wrongBytes(func(c net.Conn, frame []byte) error {
		frame = frame[:len(frame)-3]
		_, err := c.Write(prefixed(frame, len(frame)))
		return err
	})},
}
