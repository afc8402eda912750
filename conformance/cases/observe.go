package cases

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance/driver"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
)

// Failf ends the case: what it asks for was not kept.
func (s *Stage) Failf(format string, args ...any) { panic(stop{Fail, fmt.Sprintf(format, args...)}) }

// Shouldf notes that something is missing that the case asks for with less weight, and goes on.
func (s *Stage) Shouldf(ok bool, format string, args ...any) {
	if ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed = true
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// Tellf notes what there is to tell of the client, without weight.
func (s *Stage) Tellf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.telling = append(s.telling, fmt.Sprintf(format, args...))
}

// Inconclusivef ends the case: what was to go wrong did not.
func (s *Stage) Inconclusivef(format string, args ...any) {
	panic(stop{Inconclusive, fmt.Sprintf(format, args...)})
}

// Mark is a moment: the number of the next exchange.
func (s *Stage) Mark() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

// Since are the exchanges of an API from a moment on, of all APIs with -1.
func (s *Stage) Since(mark int, key int16) (all []*Seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.seen[min(mark, len(s.seen)):] {
		if key < 0 || x.Key == key {
			c := *x
			all = append(all, &c)
		}
	}
	return all
}

// until waits for a condition, and tells whether it came. It ends early where the client's process does.
func (s *Stage) until(within time.Duration, ok func() bool) bool {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	look := time.NewTicker(10 * time.Millisecond) // the state of the cluster tells nobody that it changes
	defer look.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if ok() {
			return true
		}
		s.alive()
		select {
		case <-changed:
		case <-look.C:
		case <-deadline.C:
			return ok()
		case <-s.ctx.Done():
			panic(stop{HarnessFailed, "it was ended"})
		}
	}
}

// alive fails the case where the client's process has ended, unless the case has closed it.
func (s *Stage) alive() {
	if s.driver == nil || s.closing {
		return
	}
	if ended, err := s.driver.Ended(); ended {
		s.mayLack()
		s.Failf("the client's process has ended: %v", exitText(err))
	}
}

// mayLack skips the case where the driver has said that it lacks something.
func (s *Stage) mayLack() {
	for _, e := range s.Events() {
		if e.Ev == "unsupported" {
			panic(stop{Skip, "the driver has no " + e.What})
		}
	}
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// Await waits for something that a client must do.
func (s *Stage) Await(within time.Duration, what string, ok func() bool) {
	if !s.until(within, ok) {
		s.Failf("within %s there was not: %s", within, what)
	}
}

// Wait lets real time pass.
func (s *Stage) Wait(d time.Duration) { s.until(d, func() bool { return false }) }

// Next waits for a request of an API from a moment on.
func (s *Stage) Next(within time.Duration, mark int, key int16, what string, match func(*Seen) bool) (found *Seen) {
	s.Await(within, what, func() bool { found = s.first(mark, key, match); return found != nil })
	return found
}

func (s *Stage) first(mark int, key int16, match func(*Seen) bool) *Seen {
	for _, x := range s.Since(mark, key) {
		if match == nil || match(x) {
			return x
		}
	}
	return nil
}

// event waits for a line of the driver from number from on; without it the driver is at fault.
func (s *Stage) event(what string, within time.Duration, from int, match func(driver.Event) bool) driver.Event {
	ctx, cancel := context.WithTimeout(s.ctx, within)
	defer cancel()
	e, err := s.driver.Await(ctx, from, match)
	if err != nil {
		if ended, how := s.driver.Ended(); ended {
			s.mayLack()
			panic(stop{HarnessFailed, fmt.Sprintf("the driver has ended (%s) before %s", exitText(how), what)})
		}
		panic(stop{HarnessFailed, fmt.Sprintf("the driver does not say %s within %s", what, within)})
	}
	return e
}

// Events are the lines of the driver so far.
func (s *Stage) Events() []driver.Event { return s.driver.Events(0) }

// Tell has the driver do something, without waiting.
func (s *Stage) Tell(op driver.Op) {
	if err := s.driver.Send(op); err != nil {
		s.Wait(2 * time.Second) // a driver that ends closes its input first: how it ends is the reason
		panic(stop{HarnessFailed, err.Error()})
	}
}

// Do has the driver do something and waits until it says that it has: by one of the events.
func (s *Stage) Do(within time.Duration, op driver.Op, says ...string) driver.Event {
	from := len(s.Events())
	s.Tell(op)
	return s.event(fmt.Sprintf("%v after %v", says, op["op"]), within, from, func(e driver.Event) bool {
		if e.Ev == "unsupported" {
			panic(stop{Skip, "the driver cannot " + e.What})
		}
		return slices.Contains(says, e.Ev)
	})
}

// Run has the driver poll until it is told otherwise.
func (s *Stage) Run() { s.Tell(driver.Op{"op": "run", "poll_ms": 200, "hold_ms": 0}) }

// Delivered are the records that the application got, in their order.
func (s *Stage) Delivered() (recs []driver.Event) {
	for _, e := range s.Events() {
		if e.Ev == "rec" {
			recs = append(recs, e)
		}
	}
	return recs
}

// Times is how often the application got a record.
func (s *Stage) Times(topic string, partition int32, offset int64) (n int) {
	for _, e := range s.Delivered() {
		if e.Topic == topic && e.Partition == partition && e.Offset == offset {
			n++
		}
	}
	return n
}

// troubles are what the application was told since an event: errors, and results that failed.
func (s *Stage) troubles(from int) (all []driver.Event) {
	for _, e := range s.driver.Events(from) {
		if e.Ev == "error" || e.Ev == "result" && !e.OK {
			all = append(all, e)
		}
	}
	return all
}

// Settled tells what is persisted or known of a record: acknowledged (or archived, or below the start offset).
func (s *Stage) Settled(topic string, partition int32, offset int64) bool {
	p, err := s.cluster.InspectSharePartition(groupID, topic, partition)
	if err != nil {
		return false
	}
	if !p.Known { // the leader has forgotten it, with the last member
		return p.Persisted != nil && (offset < p.Persisted.StartOffset || slices.ContainsFunc(p.Persisted.Batches, func(b sharecoordinator.Batch) bool {
			return b.FirstOffset <= offset && offset <= b.LastOffset && (b.State == int8(sharepartition.Acknowledged) || b.State == int8(sharepartition.Archived))
		}))
	}
	if offset < p.StartOffset {
		return true
	}
	for _, r := range p.Runs {
		if r.FirstOffset <= offset && offset <= r.LastOffset {
			return (r.State == sharepartition.Acknowledged || r.State == sharepartition.Archived) && !r.Pending
		}
	}
	return false
}

// Joined waits until the client is a member that has fetched.
func (s *Stage) Joined(within time.Duration) {
	s.Await(within, "a share session of a member", func() bool {
		return s.first(0, shareFetchKey, func(x *Seen) bool { return x.Response != nil && fetchOf(x).ShareSessionEpoch >= 1 }) != nil
	})
}

// Steady waits until the client is a member, its share session has gone on, and a batch was delivered and acknowledged.
func (s *Stage) Steady() {
	s.Run()
	s.steady(20 * time.Second)
}

func (s *Stage) steady(within time.Duration) {
	topic, partition := s.watched()
	s.Joined(within)
	s.Await(within, "a record that was delivered and acknowledged", func() bool {
		return s.Settled(topic, partition, 0) && len(s.Delivered()) > 0
	})
	s.Await(within, "a share session that goes on", func() bool {
		return s.first(0, shareFetchKey, func(x *Seen) bool { return x.Response != nil && fetchOf(x).ShareSessionEpoch >= 2 }) != nil
	})
}

// Drained waits until all records that were produced are acknowledged, and a moment more: what the broker knows may be ahead of what is read of the driver.
func (s *Stage) Drained(within time.Duration, topic string, partition int32) {
	s.mu.Lock()
	end := s.sent[fmt.Sprintf("%s-%d", topic, partition)]
	s.mu.Unlock()
	s.Await(within, fmt.Sprintf("the acknowledgement of all %d records of %s-%d", end, topic, partition), func() bool {
		for offset := range end {
			if !s.Settled(topic, partition, offset) {
				return false
			}
		}
		return true
	})
	s.Wait(200 * time.Millisecond)
}

// watched is the partition that a case looks at where it names none.
func (s *Stage) watched() (string, int32) {
	if s.c.Setup.Topics == nil {
		return defaultTopic, 0
	}
	if len(s.c.Setup.Subscribe) > 0 {
		return s.c.Setup.Subscribe[0], 0
	}
	if _, ok := s.c.Setup.Topics[defaultTopic]; ok {
		return defaultTopic, 0
	}
	for name := range s.c.Setup.Topics {
		return name, 0
	}
	return defaultTopic, 0
}

// Resumes produces a record and waits until it is delivered and acknowledged.
func (s *Stage) Resumes(within time.Duration) {
	topic, partition := s.watched()
	s.ResumesAt(within, topic, partition)
}

// ResumesAt does so with a partition. A record that goes to what the client has just given up stays there until its lock ends: then another one counts.
func (s *Stage) ResumesAt(within time.Duration, topic string, partition int32) {
	var produced []int64
	began := time.Now()
	s.Await(within, fmt.Sprintf("a new record of %s-%d that is delivered and acknowledged", topic, partition), func() bool {
		if len(produced) == 0 || len(produced) < 4 && time.Since(began) > time.Duration(len(produced))*within/4 {
			produced = append(produced, s.Produce(topic, partition, 1, "accept"))
		}
		return slices.ContainsFunc(produced, func(offset int64) bool {
			return s.Times(topic, partition, offset) > 0 && s.Settled(topic, partition, offset)
		})
	})
}

// Rate is how many requests of an API a second a node got at most, from one moment to another.
func (s *Stage) Rate(key int16, from, to time.Time) float64 {
	counts := map[int32]int{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.seen {
		if x.Key == key && !x.At.Before(from) && x.At.Before(to) {
			counts[x.Node]++
		}
	}
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	return float64(most) / max(to.Sub(from).Seconds(), 0.001)
}

// Connects is how many connections were opened from one moment to another, to all nodes with -1.
func (s *Stage) Connects(node int32, from, to time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if (node < 0 || c.node == node) && !c.at.Before(from) && c.at.Before(to) {
			n++
		}
	}
	return n
}

// most is what criterion G allows: requests of an API a second, and connections a second.
const mostRequests, mostConnects = 10, 5

// Calm watches the client for a time that begins with a moment: behind the first two seconds it is to send no more than G allows of an API.
func (s *Stage) Calm(key int16, began time.Time, d time.Duration) {
	if left := time.Until(began.Add(d)); left > 0 {
		s.Wait(left)
	}
	from, to := began.Add(min(2*time.Second, d/2)), began.Add(d)
	if key >= 0 {
		rate := s.Rate(key, from, to)
		s.Shouldf(rate <= mostRequests, "%s is sent %.0f times a second, at most %d are bearable", kmsg.NameForKey(key), rate, mostRequests)
	}
	connects := float64(s.Connects(-1, from, to)) / to.Sub(from).Seconds()
	s.Shouldf(connects <= mostConnects, "%.0f connections are opened a second, at most %d are bearable", connects, mostConnects)
}

// Told waits until the application is told of trouble, which is a SHOULD.
func (s *Stage) Told(within time.Duration, from int) {
	if !s.until(within, func() bool { return len(s.troubles(from)) > 0 }) {
		s.Shouldf(false, "the application is not told within %s", within)
	}
}

// MustTold waits until the application is told of trouble.
func (s *Stage) MustTold(within time.Duration, from int) {
	s.Await(within, "word of it to the application", func() bool { return len(s.troubles(from)) > 0 })
}

func fetchOf(x *Seen) *kmsg.ShareFetchRequest { return x.Request.(*kmsg.ShareFetchRequest) }
func fetched(x *Seen) *kmsg.ShareFetchResponse {
	p, _ := x.Response.(*kmsg.ShareFetchResponse)
	return p
}
func ackOf(x *Seen) *kmsg.ShareAcknowledgeRequest { return x.Request.(*kmsg.ShareAcknowledgeRequest) }
func beatOf(x *Seen) *kmsg.ShareGroupHeartbeatRequest {
	return x.Request.(*kmsg.ShareGroupHeartbeatRequest)
}

// Ack is a range that a request acknowledges, with the types of its offsets.
type Ack struct {
	Topic       [16]byte
	Partition   int32
	First, Last int64
	Types       []int8
	Of          *Seen
}

// typeOf is the type of an offset of the range.
func (a Ack) typeOf(offset int64) int8 {
	if len(a.Types) == 1 {
		return a.Types[0]
	}
	if i := offset - a.First; i >= 0 && int(i) < len(a.Types) {
		return a.Types[i]
	}
	return -1
}

// acksIn are the ranges that a request acknowledges.
func acksIn(x *Seen) (all []Ack) {
	eachRange(x.Request, func(topic [16]byte, partition int32, first, last *int64, types []int8) {
		all = append(all, Ack{topic, partition, *first, *last, types, x})
	})
	return all
}

// eachRange calls a function with the ranges that a request acknowledges, which it may change.
func eachRange(q kmsg.Request, f func(topic [16]byte, partition int32, first, last *int64, types []int8)) {
	switch q := q.(type) {
	case *kmsg.ShareFetchRequest:
		for _, t := range q.Topics {
			for _, p := range t.Partitions {
				for i := range p.AcknowledgementBatches {
					b := &p.AcknowledgementBatches[i]
					f(t.TopicID, p.Partition, &b.FirstOffset, &b.LastOffset, b.AcknowledgeTypes)
				}
			}
		}
	case *kmsg.ShareAcknowledgeRequest:
		for _, t := range q.Topics {
			for _, p := range t.Partitions {
				for i := range p.AcknowledgementBatches {
					b := &p.AcknowledgementBatches[i]
					f(t.TopicID, p.Partition, &b.FirstOffset, &b.LastOffset, b.AcknowledgeTypes)
				}
			}
		}
	}
}

// Acks are the ranges that were acknowledged since a moment.
func (s *Stage) Acks(mark int) (all []Ack) {
	for _, x := range s.Since(mark, -1) {
		all = append(all, acksIn(x)...)
	}
	return all
}

// TypesOf are the types that were sent for a record since a moment, in their order.
func (s *Stage) TypesOf(mark int, partition int32, offset int64) (types []int8) {
	for _, a := range s.Acks(mark) {
		if a.Partition == partition && a.First <= offset && offset <= a.Last {
			types = append(types, a.typeOf(offset))
		}
	}
	return types
}

// asksFor tells whether a fetch adds a partition to its session.
func asksFor(x *Seen, topic [16]byte, partition int32) bool {
	for _, t := range fetchOf(x).Topics {
		if t.TopicID == topic && slices.ContainsFunc(t.Partitions, func(p kmsg.ShareFetchRequestTopicPartition) bool { return p.Partition == partition }) {
			return true
		}
	}
	return false
}

// forgets tells whether a fetch takes a partition out of its session.
func forgets(x *Seen, topic [16]byte, partition int32) bool {
	for _, t := range fetchOf(x).ForgottenTopicsData {
		if t.TopicID == topic && slices.Contains(t.Partitions, partition) {
			return true
		}
	}
	return false
}

// TopicID is the id of a topic, zero where it does not exist.
func (s *Stage) TopicID(name string) [16]byte {
	for _, t := range s.cluster.InspectTopics() {
		if t.Name == name {
			return t.ID
		}
	}
	return [16]byte{}
}

// sessions replays the share sessions of the client since the beginning: the partitions of each node, by topic id and index.
func (s *Stage) sessions() map[int32]map[topicPartition]bool {
	all := map[int32]map[topicPartition]bool{}
	for _, x := range s.Since(0, -1) {
		switch q := x.Request.(type) {
		case *kmsg.ShareFetchRequest:
			p := fetched(x)
			if p == nil {
				continue
			}
			if p.ErrorCode != 0 || q.ShareSessionEpoch == -1 {
				delete(all, x.Node)
				continue
			}
			if q.ShareSessionEpoch == 0 || all[x.Node] == nil {
				all[x.Node] = map[topicPartition]bool{}
			}
			for _, t := range q.Topics {
				for _, part := range t.Partitions {
					all[x.Node][topicPartition{t.TopicID, part.Partition}] = true
				}
			}
			for _, t := range q.ForgottenTopicsData {
				for _, part := range t.Partitions {
					delete(all[x.Node], topicPartition{t.TopicID, part})
				}
			}
		case *kmsg.ShareAcknowledgeRequest:
			if p, ok := x.Response.(*kmsg.ShareAcknowledgeResponse); ok && (p.ErrorCode != 0 || q.ShareSessionEpoch == -1) {
				delete(all, x.Node)
			}
		}
	}
	return all
}

type topicPartition struct {
	topic     [16]byte
	partition int32
}

// InSession tells whether a node's session has a partition.
func (s *Stage) InSession(node int32, topic [16]byte, partition int32) bool {
	return s.sessions()[node][topicPartition{topic, partition}]
}
