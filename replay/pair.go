package replay

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/describe"
)

// Pair compares what two running brokers answer to the same requests, by the rules that hold between a recording and
// a broker: the first broker has the place of the recording.
type Pair struct{ compare *comparer }

// NewPair begins with brokers that know of nothing in common. Times that a broker took from its clock are those from
// now on.
func NewPair() *Pair {
	now := time.Now().UnixMilli()
	const forever = int64(1) << 62
	return &Pair{&comparer{ids: newIDs(), from: now - clockTolerance, to: forever, sent: map[uint64]bool{}, masked: map[*Rule]int{}}}
}

// Request makes the request for the second broker of the one for the first: a whole frame without its length, of a key
// and version that kmsg knows.
func (p *Pair) Request(key, version int16, frame []byte) ([]byte, error) {
	p.compare.noteSent(frame)
	return p.compare.ids.rewrite(&Step{Name: kmsg.NameForKey(key), Key: key, Version: version, Request: frame})
}

// Compare returns how the answer of the second broker to a request, as the first was sent it, differs from the first's.
func (p *Pair) Compare(key, version int16, request, first, second []byte) []Diff {
	known := p.compare.ids.clone()
	p.compare.begin(kmsg.NameForKey(key), request)
	p.compare.frames(key, version, first, second)
	if len(p.compare.diffs) > 0 {
		p.compare.ids = known // what answers show that differ stands for nothing
	}
	return p.compare.diffs
}

// AnswerJSON prints an answer frame as JSON.
func AnswerJSON(key, version int16, frame []byte) string {
	return printFrames(&Step{Key: key, Version: version}, [][]byte{frame})
}

// RequestJSON prints a request as JSON.
func RequestJSON(q kmsg.Request) string {
	var b strings.Builder
	describe.Message(q).Print(&b, "")
	return b.String()
}
