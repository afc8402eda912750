package cases

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/proxy"
)

const (
	offsetCommitKey int16 = 8
	joinKey         int16 = 11
	nextBeatKey     int16 = 68
)

// ofGroup is a case of a member of a consumer group, of KIP-848 or of the classic protocol.
func ofGroup(id string, level conformance.Level, next bool, says, source string, setup Setup, run func(*Stage)) Case {
	protocol := "classic"
	if next {
		protocol = "consumer"
	}
	setup.Kind = "consumer"
	props := map[string]any{"protocol": protocol}
	for k, v := range setup.Props {
		props[k] = v
	}
	setup.Props = props
	if setup.Topics == nil {
		setup.Topics = map[string]int{"t": 2}
	}
	if setup.Records == 0 {
		setup.Records = 20
	}
	return Case{ID: id, Level: level, Says: says, Source: source, Needs: []string{driver.Consumer}, Setup: setup, Within: 60 * time.Second, run: run}
}

// consumes polls until all records that there are were delivered.
func (s *Stage) consumes(within time.Duration) {
	s.Run()
	n := 0
	for _, partitions := range s.topicsOfSetup() {
		n += partitions * s.c.Setup.Records
	}
	s.Await(within, "the delivery of all records", func() bool { return len(s.Delivered()) >= n })
}

// goesOn produces a record and waits until it is delivered.
func (s *Stage) goesOn(within time.Duration, partition int32) {
	offset := s.Produce("t", partition, 1)
	s.Await(within, "the delivery of a new record", func() bool { return s.Times("t", partition, offset) > 0 })
}

func nextBeat(x *Seen) *kmsg.ConsumerGroupHeartbeatRequest {
	return x.Request.(*kmsg.ConsumerGroupHeartbeatRequest)
}

// fetches tells whether a Fetch asks for a partition of t.
func (s *Stage) fetches(x *Seen, partition int32) bool {
	id := s.TopicID("t")
	return slices.ContainsFunc(x.Request.(*kmsg.FetchRequest).Topics, func(t kmsg.FetchRequestTopic) bool {
		return (t.TopicID == id || t.Topic == "t") && slices.ContainsFunc(t.Partitions, func(p kmsg.FetchRequestTopicPartition) bool { return p.Partition == partition })
	})
}

// rejoins waits for a JoinGroup.
func (s *Stage) rejoins(mark int) {
	x := s.Next(20*time.Second, mark, joinKey, "a JoinGroup", nil)
	offset := s.Produce("t", 0, 1)
	delivered := func() bool { return s.Times("t", 0, offset) > 0 }
	if !s.until(5*time.Second, delivered) && x.Response == nil { // the member that the client was is waited for: it is not there any more
		s.Pass(time.Minute)
	}
	s.Await(20*time.Second, "the delivery of a new record", delivered)
}

var groups = []Case{
	ofGroup("grp.01", conformance.Must, true, "a member of a KIP-848 group joins: it confirms its assignment, then fetches", "KIP-848", Setup{}, func(s *Stage) {
		s.consumes(20 * time.Second)
		first := s.first(0, nextBeatKey, nil)
		if nextBeat(first).MemberEpoch != 0 {
			s.Failf("the first heartbeat has the member epoch %d", nextBeat(first).MemberEpoch)
		}
		s.Next(10*time.Second, 0, nextBeatKey, "a heartbeat that confirms both partitions", func(x *Seen) bool {
			return slices.ContainsFunc(nextBeat(x).Topics, func(t kmsg.ConsumerGroupHeartbeatRequestTopic) bool { return len(t.Partitions) == 2 })
		})
	}),
	ofGroup("grp.02", conformance.Must, true, "a partition is revoked: it is not fetched any more, and a heartbeat says so", "KIP-848", Setup{}, func(s *Stage) {
		s.consumes(20 * time.Second)
		mark := s.Mark()
		done := &atomic.Bool{}
		id := s.TopicID("t")
		s.Edit(func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.ConsumerGroupHeartbeatResponse)
			if !ok || p.ErrorCode != 0 {
				return false
			}
			p.Assignment = nil
			if done.CompareAndSwap(false, true) {
				p.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{Topics: []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{{TopicID: id, Partitions: []int32{0}}}}
			}
			return true
		})
		x := s.Next(20*time.Second, mark, nextBeatKey, "a heartbeat with t-0 alone", func(x *Seen) bool {
			return slices.ContainsFunc(nextBeat(x).Topics, func(t kmsg.ConsumerGroupHeartbeatRequestTopic) bool { return slices.Equal(t.Partitions, []int32{0}) })
		})
		s.goesOn(10*time.Second, 0)
		s.Wait(time.Second)
		if late := s.first(x.N+1, fetchKey, func(y *Seen) bool { return s.fetches(y, 1) }); late != nil {
			s.Failf("t-1 is fetched behind the heartbeat that gave it up")
		}
	}),
	ofGroup("grp.03", conformance.Must, true, "a heartbeat is answered FENCED_MEMBER_EPOCH once: the member joins again", "KIP-848", Setup{}, func(s *Stage) {
		s.consumes(20 * time.Second)
		mark := s.Mark()
		s.Fault("api=ConsumerGroupHeartbeat error=110 times=1")
		s.Next(20*time.Second, mark, nextBeatKey, "a heartbeat that joins again", func(x *Seen) bool { return nextBeat(x).MemberEpoch == 0 })
		s.goesOn(20*time.Second, 1)
	}),
	ofGroup("grp.06", conformance.Must, true, "joining is answered UNRELEASED_INSTANCE_ID: the application is told, or the client tries again at a bearable rate", "KIP-848", Setup{Late: true}, func(s *Stage) {
		id := s.Fault("api=ConsumerGroupHeartbeat error=111")
		s.Launch()
		s.Run()
		if !s.until(15*time.Second, func() bool { return s.Acts(id) > 0 }) {
			s.Inconclusivef("no heartbeat was sent")
		}
		at := time.Now()
		s.Told(10*time.Second, 0)
		s.Calm(nextBeatKey, at, 8*time.Second)
	}),
	ofGroup("grp.07", conformance.Must, true, "a static member closes: its last heartbeat has the epoch -2", "KIP-848", Setup{Props: map[string]any{"instance_id": "i1"}}, func(s *Stage) {
		s.consumes(20 * time.Second)
		mark := s.Mark()
		s.closeDriver(15 * time.Second)
		if s.first(mark, nextBeatKey, func(x *Seen) bool { return nextBeat(x).MemberEpoch == -1 }) != nil {
			s.Failf("a static member leaves with the epoch -1")
		}
		s.Shouldf(s.first(mark, nextBeatKey, func(x *Seen) bool { return nextBeat(x).MemberEpoch == -2 }) != nil, "no heartbeat with the epoch -2 is sent")
	}),
	ofGroup("grp.10", conformance.Must, false, "a member of a classic group joins: MEMBER_ID_REQUIRED, then with the id that it was given", "KIP-394", Setup{}, func(s *Stage) {
		s.consumes(20 * time.Second)
		joins := s.Since(0, joinKey)
		for _, x := range joins[1:] {
			if x.Request.(*kmsg.JoinGroupRequest).MemberID == "" {
				s.Failf("a second JoinGroup has no member id")
			}
		}
	}),
	ofGroup("grp.11", conformance.Must, false, "a Heartbeat is answered REBALANCE_IN_PROGRESS: the member joins again", "Kafka's group protocol", Setup{}, func(s *Stage) {
		s.consumes(20 * time.Second)
		mark := s.Mark()
		s.Fault("api=Heartbeat error=27 times=1")
		s.rejoins(mark)
	}),
	ofGroup("grp.12", conformance.Must, false, "a Heartbeat is answered ILLEGAL_GENERATION, later UNKNOWN_MEMBER_ID: the member joins again", "Kafka's group protocol", Setup{}, func(s *Stage) {
		s.consumes(20 * time.Second)
		for _, code := range []string{"22", "25"} {
			mark := s.Mark()
			s.Fault("api=Heartbeat times=1 error=" + code)
			s.rejoins(mark)
		}
	}),
	ofGroup("grp.14", conformance.Must, true, "a Fetch is answered FETCH_SESSION_ID_NOT_FOUND, another INVALID_FETCH_SESSION_EPOCH: a full fetch follows", "KIP-227", Setup{}, func(s *Stage) {
		s.consumes(20 * time.Second)
		for _, code := range []int16{70, 71} {
			mark := s.Mark()
			s.Fault(fmt.Sprintf("api=Fetch level=top times=1 error=%d", code))
			var failed *Seen
			if !s.until(8*time.Second, func() bool {
				failed = s.first(mark, fetchKey, func(x *Seen) bool { p, ok := x.Response.(*kmsg.FetchResponse); return ok && p.ErrorCode == code })
				return failed != nil
			}) {
				s.Inconclusivef("no Fetch was sent")
			}
			s.Next(8*time.Second, failed.N+1, fetchKey, "a full Fetch", func(x *Seen) bool { e := x.Request.(*kmsg.FetchRequest).SessionEpoch; return e == 0 || e == -1 })
			s.goesOn(10*time.Second, 0)
		}
	}),
	ofGroup("grp.15", conformance.Must, true, "a Fetch is answered OFFSET_OUT_OF_RANGE for a partition: it is read from the beginning, as it was configured, or the application is told", "auto.offset.reset", Setup{}, func(s *Stage) {
		s.consumes(20 * time.Second)
		from := len(s.Events())
		s.Fault("api=Fetch topic=t partition=0 level=partition error=1 times=1")
		s.Await(15*time.Second, "the first record again, or word to the application", func() bool { return s.Times("t", 0, 0) > 1 || len(s.troubles(from)) > 0 })
	}),
	ofGroup("grp.16", conformance.Must, true, "the leader moves, and the answer names the new one: reading goes on there, where it was", "KIP-951", Setup{Brokers: 3, Topics: map[string]int{"t": 1}, Config: replicated}, func(s *Stage) {
		s.consumes(20 * time.Second)
		to, mark := s.elsewhere(0), s.Mark()
		s.move(0, to, true)
		s.Next(15*time.Second, mark, fetchKey, "a Fetch at the new leader", func(x *Seen) bool { return x.Node == to })
		s.goesOn(15*time.Second, 0)
		if n := s.Times("t", 0, 0); n > 1 {
			s.Failf("record 0 is read %d times", n)
		}
	}),
	ofGroup("grp.18", conformance.Must, true, "OffsetCommit is answered COORDINATOR_LOAD_IN_PROGRESS for 5 s: it is tried again, or its failure is told", "KIP-848", Setup{}, func(s *Stage) {
		s.consumes(20 * time.Second)
		from := len(s.Events())
		id := s.Fault("api=OffsetCommit level=partition error=14")
		s.Produce("t", 0, 1)
		if !s.until(15*time.Second, func() bool { return s.Acts(id) > 0 }) {
			s.Inconclusivef("no OffsetCommit was sent")
		}
		s.Wait(5 * time.Second)
		mark := s.Mark()
		s.Unfault(id)
		s.Await(30*time.Second, "the commit of the record, or word of its failure", func() bool {
			return len(s.troubles(from)) > 0 || s.first(mark, offsetCommitKey, func(x *Seen) bool { return x.Response != nil }) != nil
		})
		s.goesOn(20*time.Second, 0)
	}),
	ofGroup("grp.20", conformance.Should, false, "the client closes during a rebalance that does not end: it closes within 35 s", "franz-go#1500", Setup{}, func(s *Stage) {
		s.consumes(20 * time.Second)
		s.OnAsk(func(x *proxy.Exchange) {
			if x.Header.Key == joinKey {
				pause(x, 50*time.Second)
			}
		})
		mark := s.Mark()
		s.Fault("api=Heartbeat error=27 times=1")
		s.Next(15*time.Second, mark, joinKey, "a JoinGroup", nil)
		if took := s.closeDriver(30 * time.Second); took > 35*time.Second {
			s.Failf("closing takes %s", took.Round(time.Millisecond))
		}
	}),
}
