package cases

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance"
	"kshare/conformance/proxy"
)

// create makes a topic.
func (s *Stage) create(topic string, partitions int32) {
	q := kmsg.NewPtrCreateTopicsRequest()
	q.Version, q.TimeoutMillis = 5, 5000
	q.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}}
	p := s.ask(s.anyNode(), q).(*kmsg.CreateTopicsResponse)
	if code := p.Topics[0].ErrorCode; code != 0 {
		panic(code)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sent)
}

// remove deletes a topic.
func (s *Stage) remove(topic string) {
	q := kmsg.NewPtrDeleteTopicsRequest()
	q.Version, q.TimeoutMillis, q.TopicNames = 4, 5000, []string{topic}
	p := s.ask(s.anyNode(), q).(*kmsg.DeleteTopicsResponse)
	if code := p.Topics[0].ErrorCode; code != 0 {
		panic(code)
	}
}

const topicLife = "KIP-932, topics"

var topics = []Case{
	{ID: "top.01", Level: conformance.Must, Says: "the topic does not exist at first, and is made after 3 s: it is consumed", Source: topicLife, Setup: Setup{Topics: map[string]int{}, Subscribe: []string{"t"}}, Within: 50 * time.Second, run: func(s *Stage) {
		s.Run()
		from := time.Now()
		s.Wait(3 * time.Second)
		rate := s.Rate(metadataKey, from, time.Now())
		s.Shouldf(rate <= mostRequests, "Metadata is asked for %.0f times a second", rate)
		s.Shouldf(s.first(0, heartbeatKey, nil) != nil, "the client does not join before the topic exists")
		s.create("t", 1)
		s.ResumesAt(25*time.Second, "t", 0)
	}},
	{ID: "top.02", Level: conformance.Must, Says: "the topic is deleted: it is forgotten, and heartbeats go on", Source: topicLife, Expects: []string{"share.fetch.meta"}, Within: 45 * time.Second, run: func(s *Stage) {
		s.Steady()
		s.Drained(10*time.Second, "t", 0)
		id := s.TopicID("t")
		s.remove("t")
		mark, from := s.Mark(), time.Now()
		s.Await(15*time.Second, "a session without the topic", func() bool { return !s.InSession(1, id, 0) })
		s.Await(5*time.Second, "heartbeats", func() bool { return len(s.Since(mark, heartbeatKey)) >= 3 })
		rate := s.Rate(metadataKey, from.Add(time.Second), time.Now())
		s.Shouldf(rate <= mostRequests, "Metadata is asked for %.0f times a second", rate)
	}},
	{ID: "top.03", Level: conformance.Must, Says: "the topic is deleted and made again: it is consumed by its new id", Source: topicLife, Expects: []string{"share.fetch.meta"}, Within: 60 * time.Second, run: func(s *Stage) {
		s.Steady()
		s.Drained(10*time.Second, "t", 0)
		old := s.TopicID("t")
		s.remove("t")
		s.Wait(1500 * time.Millisecond)
		s.create("t", 1)
		s.ResumesNew(30*time.Second, old)
	}},
	{ID: "top.04", Level: conformance.Must, Says: "the topic is deleted and made again with fewer partitions: the old indexes are not fetched", Source: topicLife, Setup: Setup{Topics: map[string]int{"t": 3}, Records: 10}, Expects: []string{"share.fetch.meta"}, Within: 60 * time.Second, run: func(s *Stage) {
		s.allDrained(3)
		old := s.TopicID("t")
		s.remove("t")
		s.Wait(1500 * time.Millisecond)
		s.create("t", 1)
		mark := s.Mark()
		s.ResumesNew(30*time.Second, old)
		if x := s.first(mark, shareFetchKey, func(x *Seen) bool { return asksFor(x, s.TopicID("t"), 2) }); x != nil {
			s.Failf("t-2 is fetched, which is not there any more")
		}
	}},
	{ID: "top.05", Level: conformance.Must, Says: "the topic gets two more partitions: they are consumed", Source: topicLife, Within: 50 * time.Second, run: func(s *Stage) {
		s.Steady()
		s.grow("t", 3)
		s.ResumesAt(25*time.Second, "t", 1)
		s.ResumesAt(15*time.Second, "t", 2)
	}},
	{ID: "top.06", Level: conformance.Should, Says: "heartbeats are answered TOPIC_AUTHORIZATION_FAILED for 5 s: the application is told, and the client goes on", Source: topicLife, Within: 45 * time.Second, run: func(s *Stage) {
		s.Steady()
		told := len(s.Events())
		id := s.Fault("api=ShareGroupHeartbeat level=top error=29")
		if !s.until(8*time.Second, func() bool { return s.Acts(id) > 0 }) {
			s.Inconclusivef("no heartbeat was sent")
		}
		s.Wait(5 * time.Second)
		s.Told(time.Second, told)
		s.Unfault(id)
		s.Resumes(15 * time.Second)
	}},
	{ID: "top.07", Level: conformance.Must, Says: "the name of the topic is not valid: the application is told", Source: topicLife, Setup: Setup{Subscribe: []string{"not/valid"}}, Expects: []string{"share"}, run: func(s *Stage) {
		s.Run()
		from := time.Now()
		s.Told(15*time.Second, 0)
		rate := s.Rate(metadataKey, from.Add(time.Second), time.Now())
		s.Shouldf(rate <= mostRequests, "Metadata is asked for %.0f times a second", rate)
	}},
	{ID: "top.11", Level: conformance.Must, Says: "metadata has no topic id once: none is sent that is zero", Source: "KIP-516", Setup: Setup{Late: true}, run: func(s *Stage) {
		n := 0
		s.Edit(func(x *proxy.Exchange) bool {
			p, ok := x.Response.(*kmsg.MetadataResponse)
			if !ok || n > 0 || len(p.Topics) == 0 {
				return false
			}
			n++
			for i := range p.Topics {
				p.Topics[i].TopicID = [16]byte{}
			}
			return true
		})
		s.Launch()
		s.Steady()
		if x := s.first(0, shareFetchKey, func(x *Seen) bool { return asksFor(x, [16]byte{}, 0) }); x != nil {
			s.Failf("a topic id that is zero is sent")
		}
	}},
	{ID: "top.12", Level: conformance.Must, Says: "the topic is deleted while the application has records, which it then acknowledges: that fails at once", Source: "KAFKA-20052", Needs: explicit, Setup: held, Expects: []string{"share.fetch.meta"}, Within: 90 * time.Second, run: func(s *Stage) {
		s.hold(10)
		from := len(s.Events())
		s.remove("t")
		at := time.Now()
		s.settleHeld("accept")
		took := time.Since(at)
		if took > 12*time.Second {
			s.Failf("the commit takes %s", took.Round(time.Millisecond))
		}
		s.Told(5*time.Second, from)
	}},
	{ID: "top.13", Level: conformance.Must, Says: "the topic is another one from one Metadata to the next: it is consumed by its new id", Source: topicLife, Expects: []string{"share.fetch.meta"}, Within: 60 * time.Second, run: func(s *Stage) {
		s.Steady()
		s.Drained(10*time.Second, "t", 0)
		old := s.TopicID("t")
		s.remove("t")
		s.create("t", 1)
		s.ResumesNew(30*time.Second, old)
	}},
}

// ResumesNew waits until a record of a topic that was made again is delivered and acknowledged.
func (s *Stage) ResumesNew(within time.Duration, old [16]byte) {
	delivered := len(s.Delivered())
	for range 5 {
		s.Produce("t", 0, 1)
	}
	s.Await(within, "the delivery of records of the new topic", func() bool { return len(s.Delivered()) >= delivered+5 })
	s.Await(10*time.Second, "the acknowledgement of records of the new topic", func() bool { return s.Settled("t", 0, 4) })
	s.Await(10*time.Second, "a session without the old topic id", func() bool { return !s.InSession(1, old, 0) })
}
