package scenario

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

// link is a connection of a client to a node and how far it is.
type link struct {
	conn
	client      string
	node        int32
	user        string
	correlation int32
	// asked and answered count the requests: they are answered in their order.
	asked, answered int
	arrived         []byte // an answer that was found before it was asked for, nil for none
}

func (l *link) key() connKey { return connKey{l.client, l.node, l.user} }

// receive is conn's.
func (l *link) receive() ([]byte, error) {
	if frame := l.arrived; frame != nil {
		l.arrived = nil
		return frame, nil
	}
	return l.conn.receive()
}

// ended tells whether the connection has ended and all its answers were received.
func (l *link) ended() bool {
	frame, err := l.receive()
	l.arrived = frame
	return frame == nil && err != nil
}

// answerLimit is how long an answer is waited for.
const answerLimit = time.Minute

// link returns the connection of a client to a node, 0 for one that answers, which is opened where there is none.
func (s *step) link(client string, node int32) (*link, error) {
	if node == 0 && len(s.nodes) > 0 {
		node = s.someNode()
	}
	k := connKey{client, node, s.user}
	if l := s.conns[k]; l != nil {
		return l, nil
	}
	c, err := s.target.open(node, s.nodes[node])
	if err != nil {
		return nil, noAnswer{"no connection"}
	}
	if s.user != "" {
		d, ok := c.(*direct)
		if !ok {
			c.close()
			return nil, mistakef("as is for clusters on a virtual clock, where nobody has to log in")
		}
		d.Authenticate("User:" + s.user)
	}
	l := &link{conn: c, client: client, node: node, user: s.user}
	s.conns[k] = l
	return l, nil
}

// drop closes a client's connection to a node, if there is one.
func (w *world) drop(client string, node int32) bool {
	return w.dropLink(connKey{client, node, w.user})
}

// dropLink closes a connection, if there is one.
func (w *world) dropLink(k connKey) bool {
	l := w.conns[k]
	if l == nil {
		return false
	}
	l.close()
	delete(w.conns, k)
	return true
}

// next is the frame, without its length, of the next request, which has the next correlation id.
func (l *link) next(q kmsg.Request) []byte {
	l.correlation++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(l.client)).AppendRequest(nil, q, l.correlation)[4:]
}

// put sends a frame and returns which answer is its own.
func (l *link) put(frame []byte) (turn int) {
	l.send(frame)
	l.asked++
	return l.asked
}

// await waits for the answer whose turn it is, so long.
func (s *step) await(l *link, turn int, limit time.Duration) ([]byte, error) {
	until := s.target.now().Add(limit)
	for {
		var answer []byte
		var err error
		if l.answered == turn-1 {
			answer, err = l.receive()
		}
		if answer != nil {
			l.answered++
			return answer, nil
		}
		if err != nil {
			l.answered++ // who waits for the next answer finds the end too
			if k := l.key(); s.conns[k] == l {
				s.dropLink(k)
			}
			if errors.Is(err, io.EOF) {
				return nil, noAnswer{"connection closed"}
			}
			return nil, err
		}
		if !s.target.now().Before(until) {
			l.answered++
			s.dropLink(l.key())
			return nil, noAnswer{"no answer within " + show(limit)}
		}
		s.wakeBy(until)
		if err := s.pause(); err != nil {
			return nil, err
		}
	}
}

// ask sends a request, in the version that it has, and returns the answer. An error that is a noAnswer is a result.
func ask[R kmsg.Response](s *step, client string, node int32, q kmsg.Request) (r R, err error) {
	a, err := s.put(client, node, q)
	if err != nil {
		return r, err
	}
	return take[R](s, a)
}

// asked is a request whose answer is to be taken.
type asked struct {
	link        *link
	turn        int
	correlation int32
	request     kmsg.Request
}

// put sends a request without waiting for its answer.
func (s *step) put(client string, node int32, q kmsg.Request) (*asked, error) {
	l, err := s.link(client, node)
	if err != nil {
		return nil, err
	}
	frame := l.next(q)
	return &asked{l, l.put(frame), l.correlation, q}, nil
}

// take waits for the answer to a request.
func take[R kmsg.Response](s *step, a *asked) (r R, err error) {
	answer, err := s.await(a.link, a.turn, answerLimit+maxWait(a.request))
	if err != nil {
		return r, err
	}
	p, correlation, err := decodeAnswer(a.request, answer)
	if err != nil {
		return r, noAnswer{fmt.Sprintf("an answer that cannot be read: %v", err)}
	}
	if correlation != a.correlation {
		return r, noAnswer{fmt.Sprintf("an answer to request %d, not %d", correlation, a.correlation)}
	}
	return p.(R), nil
}

// maxWait is how long a request itself asks the broker to wait.
func maxWait(q kmsg.Request) time.Duration {
	ms := int32(0)
	switch q := q.(type) {
	case *kmsg.ShareFetchRequest:
		ms = q.MaxWaitMillis
	case *kmsg.FetchRequest:
		ms = q.MaxWaitMillis
	}
	return time.Duration(max(0, ms)) * time.Millisecond
}

// tell sends a request that has no answer.
func (s *step) tell(client string, node int32, q kmsg.Request) error {
	l, err := s.link(client, node)
	if err != nil {
		return err
	}
	l.send(l.next(q))
	return s.settle()
}

// settleTime is how long a real Kafka may take for what it does not answer to.
const settleTime = 200 * time.Millisecond

// settle waits, on a real Kafka, until what was not answered is done. The command took as long without it.
func (s *step) settle() error {
	if s.target.virtual() {
		return nil
	}
	return s.settleEverywhere()
}

// virtualSettleTime is how long a kshare with timing=kafka may take for what it does not answer to.
const virtualSettleTime = 20 * time.Millisecond

// settleEverywhere is settle for what a kshare with timing=kafka takes its time for too.
func (s *step) settleEverywhere() error {
	from, d := s.target.now(), settleTime
	if s.target.virtual() {
		d = virtualSettleTime
	}
	err := s.sleep(d)
	s.began = s.began.Add(s.target.now().Sub(from))
	return err
}

// decodeAnswer decodes a frame without its length.
func decodeAnswer(q kmsg.Request, frame []byte) (kmsg.Response, int32, error) {
	p := q.ResponseKind()
	if len(frame) < 4 {
		return nil, 0, io.ErrUnexpectedEOF
	}
	correlation := int32(binary.BigEndian.Uint32(frame))
	body := frame[4:]
	p.SetVersion(protocol.AnswerVersion(q.Key(), q.GetVersion(), body))
	if p.IsFlexible() && q.Key() != apiVersionsKey {
		if len(body) == 0 || body[0] != 0 {
			return nil, 0, errors.New("a header with tags")
		}
		body = body[1:]
	}
	return p, correlation, p.ReadFrom(body)
}

const apiVersionsKey = 18

// latest sets a request to the newest version that the broker offers and this program knows.
func (s *step) latest(q kmsg.Request) error {
	if s.offered == nil {
		v := kmsg.NewPtrApiVersionsRequest()
		p, err := ask[*kmsg.ApiVersionsResponse](s, s.as(admin), 0, v)
		if err != nil {
			return err
		}
		s.offered = map[int16][2]int16{}
		for _, k := range p.ApiKeys {
			s.offered[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
		}
	}
	o, ok := s.offered[q.Key()]
	if !ok {
		return noAnswer{kmsg.NameForKey(q.Key()) + " is not offered"}
	}
	q.SetVersion(min(o[1], q.MaxVersion()))
	return nil
}

// version sets a request to the version that the option asks for, or to the newest.
func (s *step) version(q kmsg.Request, c *call) error {
	if err := s.latest(q); err != nil {
		return err
	}
	v, err := c.numberOption("version", int64(q.GetVersion()), 0, int64(q.MaxVersion()))
	q.SetVersion(int16(v))
	return err
}

// request asks with the newest version.
func request[R kmsg.Response](s *step, client string, node int32, q kmsg.Request) (r R, err error) {
	if err := s.latest(q); err != nil {
		return r, err
	}
	return ask[R](s, client, node, q)
}
