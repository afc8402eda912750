package replay

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// compareStep fills in how a played step differs from the recorded one.
func (p *player) compareStep(r *Played) {
	c, st := p.compare, r.Step
	c.begin(st.API, st.Request)
	if r.Outcome != st.Outcome {
		c.differ("outcome", "outcome", string(st.Outcome), string(r.Outcome))
	}
	switch {
	case len(r.Answers) != len(st.Answers):
		if r.Outcome == st.Outcome {
			c.differ("frames", "frames", fmt.Sprint(len(st.Answers)), fmt.Sprint(len(r.Answers)))
		}
	case st.Raw:
		p.compareRaw(r)
	case len(st.Answers) == 1:
		c.frames(st.Key, st.Version, st.Answers[0], r.Answers[0])
	}
	if p.script.Patience == 0 && (len(c.diffs) == 0 || st.Outcome == r.Outcome) {
		c.waits(r)
	}
	r.Diffs = c.diffs
}

// compareRaw compares the answers to bytes as they stand: each as the answer to the request of its correlation
// id, where one of those sent has it.
func (p *player) compareRaw(r *Played) {
	used := map[int]bool{}
	requests := requestHeads(r.Step.Request)
	for i, recorded := range r.Step.Answers {
		found := -1
		for j, q := range requests {
			if !used[j] && len(recorded) >= 4 && q.correlation == binary.BigEndian.Uint32(recorded) {
				found = j
				break
			}
		}
		if found < 0 {
			p.compare.undecoded(recorded, r.Answers[i])
			continue
		}
		used[found] = true
		q := requests[found]
		all := p.compare.all
		p.compare.api = ""
		if q.key >= 0 && q.key <= kmsg.MaxKey {
			p.compare.api = kmsg.NameForKey(q.key)
		}
		p.compare.all = p.compare.api == "Metadata" && asksForAll(q.frame)
		p.compare.frames(q.key, q.version, recorded, r.Answers[i])
		p.compare.all = all
	}
}

// The rule for waits. The recording's machine was busy, so a recorded time says at most how long a wait was:
//
//  1. Ours is never longer, but for the rounding of the recording.
//  2. A Fetch or ShareFetch whose recorded time reaches its MaxWait, by no more than waitSlack beyond, waited it
//     out: ours takes exactly MaxWait.
//  3. A request that others overtook (it was waiting when they were sent) takes ours no less than the recorded
//     time without waitSlack.
//  4. Any other request that took longWait takes ours half of it: nothing else makes an answer that slow.
const (
	roundingError = 2 * time.Millisecond
	waitSlack     = 150 * time.Millisecond
	longWait      = time.Second
)

// waits compares the time that a step took by the rule above.
func (c *comparer) waits(r *Played) {
	least, most := r.Step.waitBounds()
	if r.Step.Repeats > 1 {
		least = 0
	}
	if r.Took < least || r.Took > most {
		c.differ("wait", "wait", fmt.Sprintf("%v (so %v to %v)", r.Step.Took.Round(time.Microsecond), least, most), r.Took.String())
	}
}

// waitBounds are the least and the most time that a step may take.
func (s *Step) waitBounds() (least, most time.Duration) {
	most = s.Took + roundingError
	wait, fetches := s.maxWait()
	switch {
	case fetches && wait > 0 && s.Took >= wait && s.Took <= wait+waitSlack:
		return wait, wait
	case s.overtaken:
		least = s.Took - waitSlack
	case !fetches && s.Took >= longWait:
		least = s.Took / 2
	}
	return max(0, least), most
}

// maxWait is the MaxWait of a Fetch or ShareFetch, the longest where a step sends several.
func (s *Step) maxWait() (wait time.Duration, fetches bool) {
	heads := []requestHead{{s.Key, s.Version, 0, s.Request}}
	if s.Raw {
		heads = requestHeads(s.Request)
	}
	for _, h := range heads {
		if h.key != 1 && h.key != 78 {
			continue
		}
		fetches = true
		req, _, err := decodeRequest(&Step{Key: h.key, Version: h.version, Request: h.frame})
		if err != nil {
			continue
		}
		switch q := req.(type) {
		case *kmsg.FetchRequest:
			wait = max(wait, time.Duration(q.MaxWaitMillis)*time.Millisecond)
		case *kmsg.ShareFetchRequest:
			wait = max(wait, time.Duration(q.MaxWaitMillis)*time.Millisecond)
		}
	}
	return wait, fetches
}
