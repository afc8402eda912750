package replay

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"net"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

// playback is a server that answers from the recording itself, with other ids than recorded.
type playback struct {
	mu      sync.Mutex
	left    []*Step
	ids     *ids
	topics  map[string][16]byte
	conns   sync.WaitGroup
	unknown [][]byte
	unsent  map[*Step]bool // on a connection that was closed
}

// newPlayback answers a session with each id that the broker made up replaced by what rename makes of it.
func newPlayback(t *testing.T, s *Session, script *Script, rename func(idKind, any) any) *playback {
	p := &playback{left: append([]*Step(nil), s.Steps...), ids: newIDs(), topics: map[string][16]byte{}, unsent: map[*Step]bool{}}
	ended := map[string]bool{}
	for _, st := range s.Steps {
		p.unsent[st] = ended[st.Conn] && st.Outcome == Closed
		ended[st.Conn] = st.Outcome == Closed || ended[st.Conn] && p.unsent[st]
	}
	byEvent := map[int]string{}
	for _, e := range script.events {
		if l, ok := e.do.(learnTopicID); ok {
			byEvent[e.before] = l.topic
		}
	}
	for _, st := range s.Steps {
		if topic := byEvent[st.N]; topic != "" {
			for _, id := range topicIDs(st) {
				p.learn(uuidID, id, rename)
				p.topics[topic] = p.ids.ours[uuidID][id].([16]byte)
			}
		}
		if _, err := p.ids.rewrite(st); err != nil { // what it names first is the recorder's own
			t.Fatal(err)
		}
		for i, a := range st.Answers {
			if body := p.decode(st, i, a); body != nil {
				substitute(reflect.ValueOf(body.body).Elem(), "", func(k idKind, x any) any {
					p.learn(k, x, rename)
					return x
				}, func(s string) string { return s })
			}
		}
	}
	return p
}

func (p *playback) learn(k idKind, x any, rename func(idKind, any) any) {
	if _, known := p.ids.ours[k][x]; !known && !isAbsent(k, x) && !p.ids.literal[k][x] {
		p.ids.pair(k, x, rename(k, x))
	}
}

func (p *playback) decode(st *Step, i int, frame []byte) *answer {
	key, version := st.Key, st.Version
	if len(frame) < 4 {
		return nil // a message of SASL
	}
	if st.Raw {
		found := false
		for _, q := range requestHeads(st.Request) {
			if !found && q.correlation == binary.BigEndian.Uint32(frame) {
				key, version, found = q.key, q.version, true
			}
		}
		if !found {
			return nil
		}
	}
	a, err := decodeAnswer(key, version, frame)
	if err != nil {
		return nil
	}
	return a
}

// renamed returns the recorded answer with the ids of this server.
func (p *playback) renamed(st *Step, i int) []byte {
	p.mu.Lock() // ids are learned as requests come
	defer p.mu.Unlock()
	a := p.decode(st, i, st.Answers[i])
	if a == nil {
		return p.ids.bytes(st.Answers[i])
	}
	head := len(st.Answers[i]) - len(a.body.AppendTo(nil))
	substitute(reflect.ValueOf(a.body).Elem(), "", func(k idKind, x any) any {
		if our, ok := p.ids.ours[k][x]; ok && !p.ids.literal[k][x] {
			return our
		}
		return x
	}, p.ids.text)
	return a.body.AppendTo(bytes.Clone(st.Answers[i][:head]))
}

func (p *playback) Dial(context.Context, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns.Go(func() {
		defer server.Close()
		buf := make([]byte, 2<<20)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if !p.serve(server, bytes.Clone(buf[:n])) {
				return
			}
		}
	})
	return client, nil
}

// Kill loses nothing: what is left of the recording is what the broker answered after it.
func (p *playback) Kill() error { return nil }

func (p *playback) Start() error { return nil }

func (p *playback) Close() error {
	p.conns.Wait()
	p.left = slices.DeleteFunc(p.left, func(st *Step) bool { return p.unsent[st] })
	return nil
}

// take finds the step left whose request was written, of several the one that was sent first.
func (p *playback) take(written []byte) *Step {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := -1
	for i, st := range p.left {
		request, _ := p.ids.rewrite(st)
		if !st.Raw {
			request = withLength(request)
		}
		if bytes.Equal(request, written) {
			if found < 0 || st.Start() < p.left[found].Start() {
				found = i
			}
		}
		if found >= 0 && i > found+lookAhead {
			break
		}
	}
	if found < 0 {
		return nil
	}
	st := p.left[found]
	p.left = slices.Delete(p.left, found, found+1)
	return st
}

// lookAhead is how many lines behind a match one that was sent earlier may stand.
const lookAhead = 5

func (p *playback) serve(c net.Conn, written []byte) bool {
	st := p.take(written)
	if st == nil {
		return p.unrecorded(c, written)
	}
	least, _ := st.waitBounds()
	if st.Outcome == Silent || st.Outcome == AnsweredSilent {
		least = 0
	}
	time.Sleep(least)
	for i := range st.Answers {
		c.Write(withLength(p.renamed(st, i)))
	}
	switch st.Outcome {
	case Closed, AnsweredClosed:
		return false
	case Silent, AnsweredSilent:
		c.Read(make([]byte, 1)) // until the client gives up
		return false
	}
	return true
}

// unrecorded answers a request of the player's own.
func (p *playback) unrecorded(c net.Conn, written []byte) bool {
	h := requestHeads(written)
	if len(h) != 1 || h[0].correlation != 1<<30 {
		p.mu.Lock()
		p.unknown = append(p.unknown, written)
		p.mu.Unlock()
		return false
	}
	st := &Step{Key: h[0].key, Version: h[0].version, Request: h[0].frame}
	q, _, err := decodeRequest(st)
	if err != nil {
		return false
	}
	r := q.ResponseKind()
	switch r := r.(type) {
	case *kmsg.FindCoordinatorResponse:
		r.Coordinators = []kmsg.FindCoordinatorResponseCoordinator{{Key: q.(*kmsg.FindCoordinatorRequest).CoordinatorKeys[0]}}
	case *kmsg.ShareGroupHeartbeatResponse:
		r.MemberEpoch = 1
		r.Assignment = &kmsg.ShareGroupHeartbeatResponseAssignment{TopicPartitions: make([]kmsg.ShareGroupHeartbeatResponseAssignmentTopicPartition, 1)}
		r.Assignment.TopicPartitions[0].Partitions = []int32{0, 1}
	case *protocol.InitProducerIDResponse:
		r.ProducerEpoch = math.MaxInt16
	case *kmsg.MetadataResponse:
		topic := q.(*kmsg.MetadataRequest).Topics[0].Topic
		r.Topics = []kmsg.MetadataResponseTopic{{Topic: topic, TopicID: p.topics[*topic], Partitions: make([]kmsg.MetadataResponseTopicPartition, 1)}}
	}
	b := append([]byte(nil), h[0].frame[4:8]...)
	if r.IsFlexible() {
		b = append(b, 0)
	}
	c.Write(withLength(r.AppendTo(b)))
	return true
}

// other makes an id of the same form.
func other(k idKind, x any) any {
	switch x := x.(type) {
	case [16]byte:
		for i := range x {
			x[i] ^= 0x5a
		}
		return x
	case string:
		if k == memberID && kafkaIDForm.MatchString(x) || k == clusterID {
			return reversed(x)
		}
		at := uuidForm.FindStringIndex(x)
		if at == nil {
			return x
		}
		return x[:at[0]] + swapHex(x[at[0]:at[1]]) + x[at[1]:]
	case int64:
		return x + 7000
	}
	return x
}

func reversed(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// swapHex maps each hexadecimal digit to another.
func swapHex(s string) string {
	const digits = "0123456789abcdef"
	b := []byte(s)
	for i, c := range b {
		if at := bytes.IndexByte([]byte(digits), c); at >= 0 {
			b[i] = digits[at^5]
		}
	}
	return string(b)
}
