package cases

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/proxy"
	"kshare/protocol/errorcode"
)

// errorRow is an error code and what a client is to make of it at each level: letters of reactions, "" where no broker answers so.
type errorRow struct {
	code                 int16
	beat, top, part, ack string
	level                conformance.Level
	// beatLevel is another level for answers to heartbeats, "" for the same.
	beatLevel conformance.Level
}

// Reactions to an error. With + the client is to go on by itself once the error is over.
const (
	transient   = "T" // it goes on, nobody need be told
	coordinator = "C" // the coordinator is looked for again, the epoch stays
	fenced      = "F" // it joins again with the same id and the whole list
	session     = "S" // a new share session, without acknowledgements
	metadata    = "M" // metadata is asked for, the application is not troubled
	tells       = "A" // the application is told, and the client goes on
	fatal       = "X" // the application is told; then silence, or bearable rates
	quiet       = "Q" // it is logged at most
	failing     = "P" // the acknowledgement fails once and is not sent again
	retry       = "R" // the acknowledgement may be sent again while the lock lasts
	bounded     = "B" // good clients differ: anything bounded
)

var errorRows = []errorRow{
	{-1, "X", "T+", "Q+", "P", conformance.Must, ""},
	{2, "", "", "A+", "", conformance.Should, ""},
	{3, "", "", "M+", "P", conformance.Must, ""},
	{5, "", "", "B", "R", conformance.Info, ""},
	{6, "", "", "M+", "P", conformance.Must, ""},
	{7, "T+", "T+", "B", "R", conformance.Should, ""},
	{9, "", "", "M+", "R", conformance.Should, ""},
	{14, "C+", "T+", "B", "R", conformance.Should, conformance.Must},
	{15, "C+", "T+", "B", "R", conformance.Should, conformance.Must},
	{16, "C+", "T+", "B", "R", conformance.Should, conformance.Must},
	{24, "X", "", "", "", conformance.Should, ""},
	{25, "F+", "T+", "", "", conformance.Must, ""},
	{29, "A+", "A+", "A+", "P", conformance.Must, ""},
	{30, "X", "A+", "", "P", conformance.Must, ""},
	{35, "X", "X", "", "", conformance.Must, ""},
	{42, "X", "T+", "", "P", conformance.Must, ""},
	{56, "", "", "M+", "R", conformance.Must, ""},
	{69, "B", "T+", "B", "P", conformance.Info, ""},
	{74, "", "", "M+", "P", conformance.Must, ""},
	{75, "", "", "Q+", "R", conformance.Must, ""},
	{76, "", "", "A+", "", conformance.Should, ""},
	{78, "", "", "Q+", "R", conformance.Must, ""},
	{81, "X", "", "", "", conformance.Must, ""},
	{89, "B", "T+", "", "R", conformance.Info, ""},
	{100, "", "T+", "M+", "P", conformance.Must, ""},
	{103, "", "", "M+", "P", conformance.Should, ""},
	{110, "F+", "T+", "", "", conformance.Must, ""},
	{113, "B", "", "", "", conformance.Info, ""},
	{121, "", "", "", "P", conformance.Must, ""},
	{122, "", "S+", "", "", conformance.Must, ""},
	{123, "", "S+", "", "", conformance.Must, ""},
	{124, "", "", "M+", "P", conformance.Should, ""},
	{133, "", "S+", "", "", conformance.Must, ""},
	{9999, "X", "T+", "B", "P", conformance.Must, ""},
}

// errorLevel is a place of answers that may have an error.
type errorLevel struct {
	name   string
	key    int16
	fault  string // api and level, as package fault has them; "" for a78
	letter func(*errorRow) string
	says   string
	// acknowledges tells that it takes acknowledgements.
	acknowledges bool
}

var errorLevels = []errorLevel{
	{"e76", heartbeatKey, "api=ShareGroupHeartbeat level=top", func(r *errorRow) string { return r.beat }, "a heartbeat", false},
	{"e78", shareFetchKey, "api=ShareFetch level=top", func(r *errorRow) string { return r.top }, "a ShareFetch", false},
	{"e79", shareAckKey, "api=ShareAcknowledge level=top", func(r *errorRow) string { return r.top }, "a ShareAcknowledge", true},
	{"p78", shareFetchKey, "api=ShareFetch level=partition topic=t partition=0", func(r *errorRow) string { return r.part }, "a ShareFetch, for a partition", false},
	{"a78", shareFetchKey, "", func(r *errorRow) string { return r.ack }, "a ShareFetch, for its acknowledgements", true},
	{"a79", shareAckKey, "api=ShareAcknowledge level=partition topic=t partition=0", func(r *errorRow) string { return r.ack }, "a ShareAcknowledge, for a partition", true},
}

var reactionSays = map[string]string{
	transient: "the client goes on", coordinator: "the client asks for its coordinator and goes on with its epoch", fenced: "the client joins again with its id",
	session: "the client opens a new share session, without acknowledgements", metadata: "the client asks for metadata and goes on", tells: "the application is told, and the client goes on",
	fatal: "the application is told, and the client floods nobody", quiet: "the client goes on without a word", failing: "the acknowledgement fails once, and is not sent again",
	retry: "the acknowledgement fails or is sent again in time", bounded: "the client does something bounded",
}

// everTime is how long every answer is the error in cases of the form ever.
const everTime = 10 * time.Second

// errorCases are two cases of each cell: the error once, and for a time; and heartbeats that are answered so at the join.
func errorCases() (all []Case) {
	for li := range errorLevels {
		l := &errorLevels[li]
		seen := map[string]bool{} // classes of reactions that the short form has of the form ever
		for ri := range errorRows {
			row := &errorRows[ri]
			letter := l.letter(row)
			if letter == "" || l.name == "e79" && row.code == 133 {
				continue
			}
			kind, plus := strings.TrimSuffix(letter, "+"), strings.HasSuffix(letter, "+")
			level := row.level
			if l.name == "e76" && row.beatLevel != "" {
				level = row.beatLevel
			}
			e := errorCase{l, row.code, kind, plus}
			name := errorcode.Name(row.code)
			each := func(form, says string, within time.Duration, full bool, run func(*Stage)) {
				c := Case{
					ID: fmt.Sprintf("%s.%d.%s", l.name, row.code, form), Level: level, Within: within, Full: full, run: run,
					Says:   fmt.Sprintf("%s is answered %s %s: %s", l.says, name, says, reactionSays[kind]),
					Source: "KIP-932, error codes; Kafka's share consumer",
				}
				c.Expects = expected(l.name, kind)
				c.Setup.Explicit = l.name == "a79" || l.name == "e79"
				if c.Setup.Explicit {
					c.Needs = []string{driver.Explicit}
				}
				all = append(all, c)
			}
			each("once", "once", 40*time.Second, false, e.once)
			each("ever", "for ten seconds", 60*time.Second, seen[letter], e.ever)
			seen[letter] = true
			if l.name == "e76" {
				each("join", "once, when the client joins", 40*time.Second, true, e.join)
				all[len(all)-1].Setup.Late = true
			}
		}
	}
	return all
}

// expected are rules for all traffic that a client may break because of the error itself: who is refused heartbeats sends them later, or none; who may send an
// acknowledgement again does so.
func expected(level, reaction string) []string {
	switch {
	case level == "e76":
		return []string{"share.member.beat.1"}
	case reaction == retry || reaction == bounded:
		return []string{"share.ack.retry"}
	}
	return nil
}

type errorCase struct {
	level  *errorLevel
	code   int16
	letter string
	plus   bool
}

// provoke has the client send what is to be answered so.
func (e *errorCase) provoke(s *Stage) {
	switch e.level.name {
	case "e79", "a79":
		s.Produce(defaultTopic, 0, 1, "commit")
	case "a78":
		s.Produce(defaultTopic, 0, 1, "accept")
	}
}

// injected is an error that answers have.
type injected struct {
	acts   func() int
	remove func()
}

// inject has answers be the error, as often as times says, without end with 0.
func (e *errorCase) inject(s *Stage, times int) injected {
	if e.level.name != "a78" {
		words := fmt.Sprintf("%s error=%d", e.level.fault, e.code)
		if times > 0 {
			words += fmt.Sprintf(" times=%d", times)
		}
		id := s.Fault(words)
		return injected{func() int { return s.Acts(id) }, func() { s.Unfault(id) }}
	}
	// only requests that acknowledge something can be answered so, and no fault tells them apart: the broker has applied them
	var n atomic.Int32
	undo := s.Edit(func(x *proxy.Exchange) bool {
		q, ok := x.Request.(*kmsg.ShareFetchRequest)
		if !ok || len(acksIn(&Seen{Request: q})) == 0 || times > 0 && int(n.Load()) >= times {
			return false
		}
		return parts(x, func(_ *kmsg.ShareFetchResponseTopic, p *part) bool {
			if !slices.ContainsFunc(acksIn(&Seen{Request: q}), func(a Ack) bool { return a.Partition == p.Partition }) {
				return false
			}
			p.AcknowledgeErrorCode = e.code
			n.Add(1)
			return true
		})
	})
	return injected{func() int { return int(n.Load()) }, undo}
}

// hit waits until the error was answered, and returns the exchange.
func (e *errorCase) hit(s *Stage, mark int, by injected) (x *Seen) {
	began := time.Now()
	if !s.until(12*time.Second, func() bool {
		if e.level.acknowledges && time.Since(began) > time.Second && by.acts() == 0 {
			began = time.Now()
			e.provoke(s)
		}
		if by.acts() == 0 {
			return false
		}
		x = s.first(mark, e.level.key, func(x *Seen) bool { return e.in(x) })
		return x != nil
	}) {
		s.Inconclusivef("no request came that could be answered so")
	}
	return x
}

// in tells whether an answer has the error at the level.
func (e *errorCase) in(x *Seen) bool {
	switch p := x.Response.(type) {
	case *kmsg.ShareGroupHeartbeatResponse:
		return p.ErrorCode == e.code
	case *kmsg.ShareFetchResponse:
		if e.level.name == "e78" {
			return p.ErrorCode == e.code
		}
		return eachPart(p, func(part *part) bool {
			return e.level.name == "p78" && part.ErrorCode == e.code || e.level.name == "a78" && part.AcknowledgeErrorCode == e.code
		})
	case *kmsg.ShareAcknowledgeResponse:
		if e.level.name == "e79" {
			return p.ErrorCode == e.code
		}
		return refuses(p, e.code)
	}
	return false
}

func (e *errorCase) once(s *Stage) {
	s.Steady()
	mark, told := s.Mark(), len(s.Events())
	by := e.inject(s, 1)
	e.provoke(s)
	x := e.hit(s, mark, by)
	e.react(s, x, told)
}

func (e *errorCase) join(s *Stage) {
	by := e.inject(s, 1)
	s.Launch()
	s.Run()
	x := e.hit(s, 0, by)
	switch e.letter {
	case fatal:
		s.Told(10*time.Second, 0)
		s.Calm(e.level.key, x.Answered, 6*time.Second)
	case bounded:
		s.until(10*time.Second, func() bool { return len(s.troubles(0)) > 0 || s.Settled(defaultTopic, 0, 0) })
	default:
		s.Await(20*time.Second, "records that are delivered and acknowledged", func() bool { return s.Settled(defaultTopic, 0, 0) })
	}
}

// react checks what the client does once it has the answer.
func (e *errorCase) react(s *Stage, x *Seen, told int) {
	switch e.letter {
	case coordinator:
		next := s.Next(10*time.Second, x.N+1, heartbeatKey, "another heartbeat", nil)
		if epoch := beatOf(next).MemberEpoch; epoch != beatOf(x).MemberEpoch {
			s.Failf("the next heartbeat has the member epoch %d, it was %d", epoch, beatOf(x).MemberEpoch)
		}
		if e.code != errorcode.CoordinatorLoadInProgress && s.first(x.N+1, findKey, nil) == nil {
			s.Failf("the coordinator is not looked up again")
		}
	case fenced:
		e.rejoins(s, x)
	case session:
		s.newSession(x)
	case metadata:
		ok := s.until(2*time.Second, func() bool { return s.first(x.N+1, metadataKey, nil) != nil })
		s.Shouldf(ok, "metadata is not asked for within 2 s")
		defer func() {
			if n := len(s.troubles(told)); e.level.name == "p78" && n > 0 {
				s.Shouldf(false, "the application is troubled with it: %s", s.troubles(told)[0].Text)
			}
		}()
	case tells:
		s.Told(5*time.Second, told)
	case fatal:
		s.Told(10*time.Second, told)
		s.Calm(e.level.key, x.Answered, 6*time.Second)
		return
	case failing:
		s.failsOnce(x, told)
	case bounded:
		offset := s.Produce(defaultTopic, 0, 1, "accept")
		ok := s.until(10*time.Second, func() bool { return s.Settled(defaultTopic, 0, offset) || len(s.troubles(told)) > 0 })
		s.Shouldf(ok, "the client neither goes on nor tells the application anything")
		return
	}
	s.Resumes(10 * time.Second)
}

func (e *errorCase) rejoins(s *Stage, x *Seen) {
	next := s.Next(10*time.Second, x.N+1, heartbeatKey, "another heartbeat", nil)
	q := beatOf(next)
	switch {
	case q.MemberEpoch != 0:
		s.Failf("the next heartbeat has the member epoch %d, it is to join again with 0", q.MemberEpoch)
	case q.MemberID != beatOf(x).MemberID:
		s.Failf("it joins again with another member id")
	case !slices.Contains(q.SubscribedTopicNames, defaultTopic):
		s.Failf("it joins again with the topics %v, it subscribes to %s", q.SubscribedTopicNames, defaultTopic)
	}
}

// newSession checks that the session that an answer has ended is opened anew, with all partitions and no acknowledgements.
func (s *Stage) newSession(x *Seen) {
	next := s.Next(10*time.Second, x.N+1, shareFetchKey, "a ShareFetch that opens a new session", func(y *Seen) bool { return y.Node == x.Node && y.At.After(x.Answered) })
	q := fetchOf(next)
	switch {
	case q.ShareSessionEpoch != 0:
		s.Failf("the next ShareFetch has the session epoch %d, a new session begins with 0", q.ShareSessionEpoch)
	case len(acksIn(next)) > 0:
		s.Failf("the ShareFetch that opens a session acknowledges offsets from %d on", acksIn(next)[0].First)
	case len(q.Topics) == 0:
		s.Failf("the ShareFetch that opens a session has no partitions")
	}
}

// failsOnce checks that acknowledgements that were refused are reported, and not sent again while nobody has delivered the records again.
func (s *Stage) failsOnce(x *Seen, told int) {
	s.Told(5*time.Second, told)
	s.Wait(2 * time.Second)
	for _, refused := range acksIn(x) {
		for _, again := range s.Acks(x.N + 1) {
			if again.Partition != refused.Partition || again.First > refused.Last || again.Last < refused.First || again.Of.At.Before(x.Answered) {
				continue
			}
			offset := max(again.First, refused.First)
			if s.deliveredAfter(x, refused.Partition, offset, again.Of) {
				continue
			}
			s.Failf("the acknowledgement of record %d was refused, and is sent again", offset)
		}
	}
}

// deliveredAfter tells whether a record was acquired again between an answer and a request.
func (s *Stage) deliveredAfter(x *Seen, partition int32, offset int64, before *Seen) bool {
	return s.first(x.N, shareFetchKey, func(y *Seen) bool {
		p := fetched(y)
		if p == nil || y.Answered.After(before.At) || !y.Answered.After(x.Answered) {
			return false
		}
		return eachPart(p, func(part *part) bool {
			return part.Partition == partition && slices.ContainsFunc(part.AcquiredRecords, func(a kmsg.ShareFetchResponseTopicPartitionAcquiredRecord) bool {
				return a.FirstOffset <= offset && offset <= a.LastOffset
			})
		})
	}) != nil
}

func (e *errorCase) ever(s *Stage) {
	s.Steady()
	mark := s.Mark()
	by := e.inject(s, 0)
	e.provoke(s)
	x := e.hit(s, mark, by)
	if e.level.acknowledges { // there is to be something to acknowledge all the time
		for range int(everTime / time.Second) {
			e.provoke(s)
			s.Wait(time.Second)
		}
	}
	s.Calm(e.level.key, x.Answered, everTime)
	by.remove()
	if e.plus {
		s.Resumes(10 * time.Second)
	}
}
