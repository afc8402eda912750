package cases

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance"
	"kshare/conformance/proxy"
)

// threeNodes is a topic with a replica on each of three nodes.
func threeNodes(partitions int) Setup {
	return Setup{Brokers: 3, Topics: map[string]int{"t": partitions}, Records: 10, Config: replicated}
}

// move makes another node the leader of a partition.
func (s *Stage) move(partition, to int32, hint bool) {
	if err := s.cluster.MoveLeader("t", partition, to, hint); err != nil {
		panic(err)
	}
}

// elsewhere is a node that does not lead a partition.
func (s *Stage) elsewhere(partition int32) int32 { return s.Leader("t", partition)%3 + 1 }

// follows waits until the client has opened a session with a node that has a partition.
func (s *Stage) follows(within time.Duration, mark int, node, partition int32) *Seen {
	id := s.TopicID("t")
	return s.Next(within, mark, shareFetchKey, "a ShareFetch of the partition at its new leader", func(x *Seen) bool { return x.Node == node && asksFor(x, id, partition) })
}

// hints changes what answers to ShareFetch say of new leaders.
func (s *Stage) hints(f func(p *kmsg.ShareFetchResponse, part *part) bool) {
	s.Edit(func(x *proxy.Exchange) bool {
		p, ok := x.Response.(*kmsg.ShareFetchResponse)
		if !ok {
			return false
		}
		return eachPart(p, func(part *part) bool { return f(p, part) })
	})
}

var leaders = []Case{
	{ID: "ldr.01", Level: conformance.Should, Says: "the leader moves, and the answer names the new one: it is fetched from there within 2 s, and forgotten at the old one", Source: "KIP-951", Setup: threeNodes(1), run: func(s *Stage) {
		s.Steady()
		old, to, mark := s.Leader("t", 0), s.elsewhere(0), s.Mark()
		at := time.Now()
		s.move(0, to, true)
		x := s.follows(15*time.Second, mark, to, 0)
		s.Shouldf(x.At.Sub(at) <= 2500*time.Millisecond, "it is fetched from there after %s", x.At.Sub(at).Round(time.Millisecond))
		s.Resumes(10 * time.Second)
		s.Shouldf(s.until(5*time.Second, func() bool { return !s.InSession(old, s.TopicID("t"), 0) }), "it stays in the old leader's session")
	}},
	{ID: "ldr.02", Level: conformance.Must, Says: "the answer names a new leader without its endpoint, which metadata has: it is fetched from there", Source: "KIP-951", Setup: threeNodes(1), run: func(s *Stage) {
		s.hints(func(p *kmsg.ShareFetchResponse, _ *part) bool { p.NodeEndpoints = nil; return true })
		s.Steady()
		to, mark := s.elsewhere(0), s.Mark()
		s.move(0, to, true)
		s.follows(10*time.Second, mark, to, 0)
		s.Resumes(10 * time.Second)
	}},
	{ID: "ldr.03", Level: conformance.Must, Says: "the leader moves, and the answer names nobody: metadata is asked for, and it is fetched from the new leader", Source: "KIP-951", Setup: threeNodes(1), run: func(s *Stage) {
		s.Steady()
		to, mark := s.elsewhere(0), s.Mark()
		s.move(0, to, false)
		s.follows(10*time.Second, mark, to, 0)
		s.Resumes(10 * time.Second)
	}},
	{ID: "ldr.04", Level: conformance.Must, Says: "a ShareFetch is answered FENCED_LEADER_EPOCH for a partition: as NOT_LEADER_OR_FOLLOWER", Source: "KIP-951", run: (&errorCase{&errorLevels[3], 74, metadata, true}).once},
	{ID: "ldr.05", Level: conformance.Must, Says: "a new leader's answer names the old one with an older epoch: that is ignored", Source: "KIP-951", Setup: threeNodes(1), Within: 45 * time.Second, run: func(s *Stage) {
		s.Steady()
		old, to, mark := s.Leader("t", 0), s.elsewhere(0), s.Mark()
		s.move(0, to, true)
		s.follows(10*time.Second, mark, to, 0)
		s.Resumes(10 * time.Second)
		mark = s.Mark()
		n := 0
		s.Edit(func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ShareFetchResponse)
			if !ok || x.Node != to || n >= 2 {
				return false
			}
			n++
			id := s.TopicID("t")
			bad := kmsg.NewShareFetchResponseTopicPartition()
			bad.ErrorCode, bad.Records = 6, []byte{}
			bad.CurrentLeader.LeaderID, bad.CurrentLeader.LeaderEpoch = old, 0
			p.Topics = []kmsg.ShareFetchResponseTopic{{TopicID: id, Partitions: []part{bad}}}
			return true
		})
		s.Wait(3 * time.Second)
		if x := s.first(mark, shareFetchKey, func(x *Seen) bool { return x.Node == old && asksFor(x, s.TopicID("t"), 0) }); x != nil {
			s.Failf("it is fetched from the old leader again")
		}
		s.Resumes(10 * time.Second)
	}},
	{ID: "ldr.06", Level: conformance.Must, Says: "errors come with the leader 0 in epoch 0, which means nothing, and there is a node 0: nothing is fetched from it", Source: "franz-go#1519", Setup: Setup{Brokers: 2, FirstNode: 0, Nodes: true, Topics: map[string]int{"t": 2}, Records: 10}, Within: 50 * time.Second,
		run: func(s *Stage) {
			s.Run()
			s.Drained(20*time.Second, "t", 0)
			s.Drained(20*time.Second, "t", 1)
			partition := int32(0)
			if s.Leader("t", 0) == 0 {
				partition = 1
			}
			leader, mark := s.Leader("t", partition), s.Mark()
			codes := []int16{3, -1, 29, 100}
			n := 0
			s.Edit(func(x *proxy.Exchange) bool {
				p, ok := x.Response.(*kmsg.ShareFetchResponse)
				if !ok || x.Node != leader || n >= len(codes) {
					return false
				}
				bad := kmsg.NewShareFetchResponseTopicPartition()
				bad.Partition, bad.ErrorCode, bad.Records = partition, codes[n], []byte{}
				bad.CurrentLeader.LeaderID, bad.CurrentLeader.LeaderEpoch = 0, 0
				p.Topics = []kmsg.ShareFetchResponseTopic{{TopicID: s.TopicID("t"), Partitions: []part{bad}}}
				n++
				return true
			})
			s.until(8*time.Second, func() bool { return n >= len(codes) })
			s.Wait(time.Second)
			if x := s.first(mark, shareFetchKey, func(x *Seen) bool { return x.Node == 0 && asksFor(x, s.TopicID("t"), partition) }); x != nil {
				s.Failf("the partition is fetched from node 0, which never led it")
			}
			s.ResumesAt(12*time.Second, "t", partition)
		}},
	{ID: "ldr.07", Level: conformance.Must, Says: "the leader moves while the application has records, which it then acknowledges: to the node that gave them, or they fail", Source: kip932, Needs: explicit,
		Setup: Setup{Explicit: true, Brokers: 3, Topics: map[string]int{"t": 1}, Records: 10, Config: replicated, Headers: holdAll(100)}, Within: 110 * time.Second, run: func(s *Stage) {
			s.hold(10)
			from := s.Leader("t", 0)
			mark := s.Mark()
			s.move(0, s.elsewhere(0), true)
			s.Wait(1500 * time.Millisecond)
			s.settleHeld("accept")
			s.Run()
			s.Resumes(20 * time.Second)
			for _, a := range s.Acks(mark) {
				if a.First <= 9 && a.Of.Node != from && s.Times("t", 0, a.First) < 2 {
					s.Failf("record %d is acknowledged at node %d, it came from %d", a.First, a.Of.Node, from)
				}
			}
		}},
	{ID: "ldr.08", Level: conformance.Must, Says: "a ShareAcknowledge is answered NOT_LEADER_OR_FOLLOWER for a partition: the acknowledgements fail once", Source: kip932, Needs: explicit, Setup: Setup{Explicit: true}, Within: 40 * time.Second,
		run: (&errorCase{&errorLevels[5], 6, failing, false}).once},
	{ID: "ldr.09", Level: conformance.Must, Says: "all partitions leave a node: its session has none within 5 s, or is closed", Source: kip932, Setup: threeNodes(1), run: func(s *Stage) {
		s.Steady()
		old := s.Leader("t", 0)
		s.Drained(10*time.Second, "t", 0)
		s.move(0, s.elsewhere(0), true)
		s.Await(8*time.Second, "a session of the old leader without the partition", func() bool { return !s.InSession(old, s.TopicID("t"), 0) })
		s.Resumes(10 * time.Second)
	}},
	{ID: "ldr.10", Level: conformance.Must, Says: "the leader goes to and fro every half second: in the end the partition is consumed", Source: kip932, Setup: threeNodes(1), Within: 50 * time.Second, run: func(s *Stage) {
		s.Steady()
		s.pingPong(10)
		s.Resumes(20 * time.Second)
	}},
	{ID: "ldr.11", Level: conformance.Must, Says: "a partition has no leader for 5 s: it is not fetched meanwhile, and consumed afterwards", Source: kip932, Setup: Setup{Brokers: 2, Topics: map[string]int{"t": 2}, Records: 10}, Within: 50 * time.Second, run: func(s *Stage) {
		s.Run()
		s.Drained(20*time.Second, "t", 0)
		s.Drained(20*time.Second, "t", 1)
		coordinator := s.first(0, heartbeatKey, nil).Node
		partition := int32(0)
		if s.Leader("t", 0) == coordinator {
			partition = 1
		}
		node := s.Leader("t", partition)
		s.down(node)
		from := time.Now()
		s.Wait(5 * time.Second)
		rate := s.Rate(metadataKey, from.Add(time.Second), time.Now())
		s.Shouldf(rate <= mostRequests, "Metadata is asked for %.0f times a second", rate)
		s.up(node)
		s.ResumesAt(15*time.Second, "t", partition)
	}},
	{ID: "ldr.12", Level: conformance.Should, Says: "the answer names a new leader with an id that is new, and its endpoint, while metadata is slow: it is fetched from there within 5 s", Source: "KIP-951", Setup: threeNodes(1), Within: 40 * time.Second, Expects: []string{"share.session.node.1"}, run: func(s *Stage) {
		const newID = 99
		s.Steady()
		to, mark := s.elsewhere(0), s.Mark()
		s.OnAsk(func(x *proxy.Exchange) {
			switch q := x.Request.(type) {
			case *kmsg.MetadataRequest: // which would tell it too
				pause(x, 8*time.Second)
			case *kmsg.ApiVersionsRequest:
				if q.NodeID == newID { // the broker would say that it is another one
					q.NodeID, x.Changed = to, true
				}
			}
		})
		s.hints(func(p *kmsg.ShareFetchResponse, part *part) bool {
			if part.CurrentLeader.LeaderID != to {
				return false
			}
			part.CurrentLeader.LeaderID = newID
			for i := range p.NodeEndpoints {
				if p.NodeEndpoints[i].NodeID == to {
					p.NodeEndpoints[i].NodeID = newID
				}
			}
			return true
		})
		s.move(0, to, true)
		s.follows(5*time.Second, mark, to, 0)
		s.Resumes(20 * time.Second)
	}},
	{ID: "ldr.13", Level: conformance.Must, Says: "the leader moves while a ShareFetch waits, and it is answered at once: the client moves within 2 s", Source: "KIP-951", Setup: Setup{Brokers: 3, Topics: map[string]int{"t": 1}, Records: 10, Config: replicated, Props: map[string]any{"max_wait_ms": 5000}}, Within: 40 * time.Second,
		run: func(s *Stage) {
			s.Steady()
			s.Wait(time.Second)
			to, mark := s.elsewhere(0), s.Mark()
			s.move(0, to, true)
			s.follows(4*time.Second, mark, to, 0)
			s.Resumes(12 * time.Second)
		}},
	{ID: "ldr.14", Level: conformance.Must, Says: "the leader goes to and fro while the client closes: it closes within 10 s, and its sessions with it", Source: kip932, Setup: threeNodes(1), Within: 60 * time.Second, run: func(s *Stage) {
		s.Steady()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { _ = recover() }() // the case may have ended
			s.pingPong(8)
		}()
		s.Wait(1200 * time.Millisecond)
		took := s.closeDriver(10 * time.Second)
		<-ended
		if took > 10*time.Second {
			s.Failf("closing takes %s", took.Round(time.Millisecond))
		}
	}},
	{ID: "ldr.16", Level: conformance.Must, Says: "one of two partitions of a node moves: the session for the other one goes on", Source: kip932, Setup: threeNodes(4), Within: 40 * time.Second, run: func(s *Stage) {
		s.Run()
		for p := range int32(4) {
			s.Drained(20*time.Second, "t", p)
		}
		node := s.Leader("t", 0)
		other := int32(-1)
		for p := int32(1); p < 4; p++ {
			if s.Leader("t", p) == node {
				other = p
			}
		}
		if other < 0 {
			s.Inconclusivef("no node leads two partitions")
		}
		mark := s.Mark()
		s.move(0, s.elsewhere(0), true)
		s.ResumesAt(10*time.Second, "t", 0)
		s.ResumesAt(10*time.Second, "t", other)
		if x := s.first(mark, shareFetchKey, func(x *Seen) bool { return x.Node == node && fetchOf(x).ShareSessionEpoch == 0 }); x != nil {
			s.Failf("the session with the old leader is opened anew")
		}
	}},
}

// pingPong moves the leader of t-0 between two nodes.
func (s *Stage) pingPong(times int) {
	for range times {
		s.move(0, s.Leader("t", 0)%2+1, true)
		time.Sleep(500 * time.Millisecond)
	}
}

// down stops a node: its port is shut, its connections end.
func (s *Stage) down(node int32) {
	if err := s.proxy.Shut(node); err != nil {
		panic(err)
	}
	if err := s.cluster.StopNode(node); err != nil {
		panic(err)
	}
	s.proxy.Disconnect(func(_ uint64, n int32) bool { return n == node })
}

// up starts it again.
func (s *Stage) up(node int32) {
	if err := s.cluster.StartNode(node); err != nil {
		panic(err)
	}
	if err := s.proxy.Reopen(node, false); err != nil {
		panic(err)
	}
}
