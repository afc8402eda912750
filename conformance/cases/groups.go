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
	"kshare/protocol"
)

const (
	offsetCommitKey int16 = 8
	offsetFetchKey  int16 = 9
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

// expecting is a case in which a client may break a rule for all traffic.
func expecting(rule string, c Case) Case {
	c.Expects = append(c.Expects, rule)
	return c
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

// revokes leaves a member t-0 alone, and tells whether the member was told.
func (s *Stage) revokes() *atomic.Bool {
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
	return done
}

// spinning is how many requests of an API a second are more than a mistake in a back-off makes.
const spinning = 100

// acted waits until a fault has acted.
func (s *Stage) acted(id int, what string) time.Time {
	if !s.until(15*time.Second, func() bool { return s.Acts(id) > 0 }) {
		s.Inconclusivef("no %s was sent", what)
	}
	return time.Now()
}

// owned is how many partitions a JoinGroup says that the member has, -1 where it does not say.
func owned(x *Seen) int {
	for _, p := range x.Request.(*kmsg.JoinGroupRequest).Protocols {
		var m kmsg.ConsumerMemberMetadata
		if m.ReadFrom(p.Metadata) != nil || m.Version < 1 {
			continue
		}
		n := 0
		for _, t := range m.OwnedPartitions {
			n += len(t.Partitions)
		}
		return n
	}
	return -1
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
		s.revokes()
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
	expecting("group.commit.3", ofGroup("grp.04", conformance.Must, true, "OffsetFetch is answered STALE_MEMBER_EPOCH for 8 s, later an OffsetCommit once: it is tried again at a bearable rate, and the member goes on", "KAFKA-20765", Setup{Late: true}, func(s *Stage) {
		id := s.Fault("api=OffsetFetch level=group error=113")
		s.Launch()
		s.Run()
		at := s.acted(id, "OffsetFetch")
		s.Calm(offsetFetchKey, at, 8*time.Second)
		if rate := s.Rate(offsetFetchKey, at, time.Now()); rate > spinning {
			s.Failf("OffsetFetch is sent %.0f times a second", rate)
		}
		s.Unfault(id)
		s.consumes(20 * time.Second)
		from := len(s.Events())
		id = s.Fault("api=OffsetCommit level=partition error=113 times=1")
		s.goesOn(10*time.Second, 0)
		s.acted(id, "OffsetCommit")
		mark := s.Mark()
		s.goesOn(10*time.Second, 0)
		s.Await(15*time.Second, "another OffsetCommit, or word to the application", func() bool {
			return len(s.troubles(from)) > 0 || s.first(mark, offsetCommitKey, nil) != nil
		})
	})),
	ofGroup("grp.05", conformance.Must, true, "OffsetFetch is answered UNKNOWN_TOPIC_ID for partitions for 2 s: the member waits, and the application is not troubled", "KAFKA-20165", Setup{Late: true}, func(s *Stage) {
		id := s.Fault("api=OffsetFetch level=partition error=100")
		s.Launch()
		s.Run()
		s.acted(id, "OffsetFetch")
		s.Wait(2 * time.Second)
		s.Unfault(id)
		s.consumes(20 * time.Second)
		if all := s.troubles(0); len(all) > 0 {
			s.Failf("the application is told: %s", all[0].Text)
		}
	}),
	ofGroup("grp.06", conformance.Must, true, "joining is answered UNRELEASED_INSTANCE_ID: the application is told, or the client tries again at a bearable rate", "KIP-848", Setup{Late: true}, func(s *Stage) {
		id := s.Fault("api=ConsumerGroupHeartbeat error=111")
		s.Launch()
		s.Run()
		at := s.acted(id, "heartbeat")
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
	ofGroup("grp.08", conformance.Must, true, "a topic that the subscription's regular expression matches is created later: it is consumed", "franz-go 1.21.6", Setup{Topics: map[string]int{"r1": 1}, Subscribe: []string{"r[0-9]"}, Props: map[string]any{"regex": true}}, func(s *Stage) {
		s.consumes(20 * time.Second)
		s.create("r2", 1)
		s.Produce("r2", 0, 5)
		s.Await(25*time.Second, "the delivery of the new topic's records", func() bool { return s.Times("r2", 0, 4) > 0 })
	}),
	ofGroup("grp.09", conformance.Must, true, "a partition is revoked between two polls: the next ones bring none of its records", "KAFKA-20332", Setup{Props: map[string]any{"max_poll_records": 1}}, func(s *Stage) {
		s.Await(20*time.Second, "records of both partitions", func() bool {
			s.Do(10*time.Second, driver.Op{"op": "poll", "n": 1}, "polled")
			return s.Times("t", 1, 0) > 0
		})
		told := s.revokes()
		if !s.until(10*time.Second, told.Load) {
			s.Inconclusivef("no heartbeat was sent")
		}
		s.Wait(time.Second)
		before := len(s.Delivered())
		s.Do(30*time.Second, driver.Op{"op": "poll", "n": 5}, "polled")
		for _, e := range s.Delivered()[before:] {
			if e.Partition == 1 {
				s.Failf("record %d of t-1, which is revoked, is delivered", e.Offset)
			}
		}
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
	ofGroup("grp.13", conformance.Must, false, "another member joins, and the assignor is cooperative: only the partition that goes is given up, with a second JoinGroup", "KIP-429", Setup{Props: map[string]any{"assignor": "cooperative-sticky"}}, func(s *Stage) {
		s.consumes(20 * time.Second)
		member := ""
		for _, x := range s.Since(0, joinKey) {
			member = x.Request.(*kmsg.JoinGroupRequest).MemberID
		}
		mark := s.Mark()
		s.Do(15*time.Second, driver.Op{"op": "second"}, "done")
		joins := func(n int) func(*Seen) bool {
			return func(x *Seen) bool {
				return x.Request.(*kmsg.JoinGroupRequest).MemberID == member && owned(x) == n
			}
		}
		x := s.Next(30*time.Second, mark, joinKey, "a JoinGroup of the member with both partitions", joins(2))
		s.Next(30*time.Second, x.N+1, joinKey, "a JoinGroup of the member with the one that it keeps", joins(1))
		s.goesOn(20*time.Second, 0)
		s.goesOn(20*time.Second, 1)
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
	ofGroup("grp.17", conformance.Must, true, "read_committed; the aborted transactions come in no order, their markers later and apart, with a later epoch: what is committed is delivered, all of it and nothing else", "franz-go#1530", Setup{Late: true, Topics: map[string]int{"t": 1}, Records: 10, Props: map[string]any{"isolation": "read_committed"}}, func(s *Stage) {
		of := func(producer int64) func(*protocol.BatchBuilder) {
			return func(b *protocol.BatchBuilder) {
				b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Transactional = producer, 0, 0, true
			}
		}
		done := s.once(fetchKey, func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.FetchResponse)
			if !ok || len(p.Topics) != 1 || len(p.Topics[0].Partitions) != 1 || len(p.Topics[0].Partitions[0].RecordBatches) == 0 {
				return false
			}
			part := &p.Topics[0].Partitions[0]
			part.RecordBatches = slices.Concat(bytesOf(0, 1, span(0, 1), of(1)), bytesOf(2, 3, span(2, 3), of(2)), bytesOf(4, 5, span(4, 5), of(3)), bytesOf(6, 6, span(6, 6), nil),
				markerOf(7, 2, 1, false), markerOf(8, 1, 1, false), markerOf(9, 3, 1, true))
			part.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 2, FirstOffset: 2}, {ProducerID: 1, FirstOffset: 0}}
			return true
		})
		s.Launch()
		s.Run()
		if !s.until(20*time.Second, done.Load) {
			s.Inconclusivef("no answer brought records")
		}
		s.goesOn(15*time.Second, 0)
		var got []int64
		for _, e := range s.Delivered() {
			got = append(got, e.Offset)
		}
		if want := []int64{4, 5, 6, 10}; !slices.Equal(got, want) {
			s.Failf("the records %v are delivered, %v are committed", got, want)
		}
	}),
	ofGroup("grp.18", conformance.Must, true, "OffsetCommit is answered COORDINATOR_LOAD_IN_PROGRESS for 5 s: it is tried again, or its failure is told", "KIP-848", Setup{}, func(s *Stage) {
		s.consumes(20 * time.Second)
		from := len(s.Events())
		id := s.Fault("api=OffsetCommit level=partition error=14")
		s.Produce("t", 0, 1)
		s.acted(id, "OffsetCommit")
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
