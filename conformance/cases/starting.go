package cases

import (
	"fmt"
	"strings"
	"time"

	"kshare/conformance"
	"kshare/protocol/errorcode"
)

// startingError is an error of what a client asks for before it is a member.
type startingError struct {
	family, says, fault string
	key                 int16
	errors              []startingReaction
}

// startingReaction is what a client is to make of an error code, a letter of reactions.
type startingReaction struct {
	code   int16
	letter string
}

var startingErrors = []startingError{
	{"efc", "FindCoordinator", "api=FindCoordinator level=coordinator", findKey, []startingReaction{{15, "T+"}, {16, "T+"}, {14, "T+"}, {30, "X"}, {42, "T+"}, {-1, "T+"}}},
	{"emd", "Metadata, for the topic,", "api=Metadata level=topic topic=t", metadataKey, []startingReaction{{3, "T+"}, {5, "T+"}, {17, "A+"}, {29, "A+"}, {100, "T+"}, {-1, "T+"}}},
	{"eav", "ApiVersions", "api=ApiVersions", apiVersionsKey, []startingReaction{{35, "T+"}, {-1, "T+"}}},
}

// startingCases are two cases of each error: once, and for ten seconds.
func startingCases() (all []Case) {
	for _, e := range startingErrors {
		for i, r := range e.errors {
			code := r.code
			kind, plus := strings.CutSuffix(r.letter, "+")
			says := fmt.Sprintf("%s is answered %s %%s as the client starts: %s", e.says, errorcode.Name(code), reactionSays[kind])
			c := Case{Level: conformance.Should, Source: "KIP-932, error codes; Kafka's share consumer", Within: 60 * time.Second, Setup: Setup{Late: true}}
			c.ID, c.Says = fmt.Sprintf("%s.%d.once", e.family, code), fmt.Sprintf(says, "once")
			c.run = func(s *Stage) { e.once(s, code, kind) }
			all = append(all, c)
			c.ID, c.Says, c.Full = fmt.Sprintf("%s.%d.ever", e.family, code), fmt.Sprintf(says, "for ten seconds"), i > 0
			c.run = func(s *Stage) { e.ever(s, code, plus) }
			all = append(all, c)
		}
	}
	return all
}

// start starts the client, which is answered so as often as times says, without end with 0, and returns when it was first.
func (e *startingError) start(s *Stage, code int16, times int) (at time.Time, id int) {
	words := fmt.Sprintf("%s error=%d", e.fault, code)
	if times > 0 {
		words += fmt.Sprintf(" times=%d", times)
	}
	id = s.Fault(words)
	s.Launch()
	s.Run()
	return s.acted(id, "request that could be answered so"), id
}

func (e *startingError) once(s *Stage, code int16, kind string) {
	at, _ := e.start(s, code, 1)
	switch kind {
	case fatal:
		s.Told(10*time.Second, 0)
		s.Calm(e.key, at, 6*time.Second)
		return
	case tells:
		s.Told(10*time.Second, 0)
	}
	s.startsAfterAll(30 * time.Second)
}

func (e *startingError) ever(s *Stage, code int16, plus bool) {
	at, id := e.start(s, code, 0)
	s.Calm(e.key, at, everTime)
	s.Unfault(id)
	if plus {
		s.startsAfterAll(30 * time.Second)
	}
}

func (s *Stage) startsAfterAll(within time.Duration) {
	s.Await(within, "records that are delivered and acknowledged", func() bool { return s.Settled(defaultTopic, 0, 0) })
}
