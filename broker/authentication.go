package broker

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/fault"
	"kshare/protocol/errorcode"
	"kshare/sasl"
)

// authentication is how far a connection has come that has to say who it is (SaslServerAuthenticator): ApiVersions, once, then SaslHandshake, then what the
// mechanism wants, in SaslAuthenticate requests or, after a SaslHandshake v0, in frames of their own. Only its connection's requests use it, one at a time.
type authentication struct {
	state     authState
	mechanism string
	exchange  sasl.Exchange
	bare      bool // the mechanism's messages are frames of their own
	again     bool // it is authenticated and does so anew (KIP-368)
	// unfit is why the mechanism cannot be used to authenticate anew, "" where it can.
	unfit      string
	expires    time.Time // when it must have authenticated anew, zero for never
	beganAgain time.Time // when it has done so last
}

type authState uint8

const (
	authBegins    authState = iota // nothing has come
	authVersioned                  // ApiVersions was answered
	authExchanges                  // SaslHandshake was answered
	authDone
)

// minReauthInterval is the time from one attempt to authenticate anew to the next (KafkaChannel).
const minReauthInterval = time.Second

// pollTimeout is how long a processor of Apache Kafka sleeps while nothing comes in: what it holds back leaves only then (SocketServer.Processor.poll).
const pollTimeout = 300 * time.Millisecond

// authenticationDelay is how long a client that could not authenticate waits for its answer and its end (connection.failed.authentication.delay.ms).
func (c *Cluster) authenticationDelay() time.Duration {
	if c.timing == TimingKafka && c.failureDelay > 0 {
		return (c.failureDelay + pollTimeout - 1) / pollTimeout * pollTimeout
	}
	return c.failureDelay
}

// newAuthentication is the connection's authentication, nil where it needs none.
func newAuthentication(l *listener) *authentication {
	if l.SASL == nil {
		return nil
	}
	return &authentication{}
}

// takesBare tells whether the next frame is a message of the mechanism.
func (a *authentication) takesBare() bool {
	return a != nil && a.bare && a.state == authExchanges
}

// admit tells what is to become of a request of a connection that may not be authenticated. An error closes the connection.
func (a *authentication) admit(r *request) error {
	key := r.header.Key
	switch a.state {
	case authBegins, authVersioned:
		if key == apiVersionsKey && a.state == authBegins || key == saslHandshakeKey {
			return nil
		}
		return fmt.Errorf("%s before the client has authenticated", r.api.Name)
	case authExchanges:
		if key != saslAuthenticateKey {
			r.handler = unexpectedHandler
		}
		return nil
	}
	if key != saslHandshakeKey && !a.expires.IsZero() && !r.cluster.clock.Now().Before(a.expires) {
		return errors.New("the client's session has expired, and it has not authenticated anew")
	}
	return nil
}

// errUnauthenticated is why a connection is closed whose client could not authenticate.
var errUnauthenticated = errors.New("the client could not be authenticated")

// answerBeforeClosing answers a request of a client that could not authenticate, after the delay, and closes its connection then.
func (r *request) answerBeforeClosing(p kmsg.Response, why error) kmsg.Response {
	r.closeAfter = fmt.Errorf("%w: %w", errUnauthenticated, why)
	return r.answerLater(p)
}

// closeLater closes the connection of a client that could not authenticate, after the delay, without an answer.
func (r *request) closeLater(why error) kmsg.Response {
	r.unanswered = fmt.Errorf("%w: %w", errUnauthenticated, why)
	return r.answerLater(nil)
}

func (r *request) answerLater(p kmsg.Response) kmsg.Response {
	t := r.cluster.after(r.cluster.authenticationDelay(), func() {
		r.closing = r.unanswered
		r.complete(p)
	})
	r.park(func() { t.Stop() })
	return nil
}

// unexpectedHandler answers a request that comes while the mechanism's messages are exchanged.
var unexpectedHandler = &handler{handle: func(r *request) (answer, error) {
	q, err := r.decode()
	if err != nil {
		return nil, err
	}
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	why := fmt.Errorf("%s instead of SaslAuthenticate", r.api.Name)
	if p := fault.FailAll(q, r.api, errorcode.IllegalSASLState); p != nil {
		r.answerBeforeClosing(p, why)
	} else {
		r.closeLater(why)
	}
	return nil, nil
}}

// begin begins an exchange of a mechanism.
func (a *authentication) begin(c *Cluster, l *listener, mechanism string) {
	if a.again && mechanism != a.mechanism {
		a.unfit = fmt.Sprintf("SASL mechanism '%s' requested by client is not supported for re-authentication of mechanism '%s'", mechanism, a.mechanism)
	} else {
		a.mechanism, a.exchange = mechanism, sasl.New(mechanism, listenerUsers{c, l})
	}
	a.state = authExchanges
}

// mayAgain tells whether an authenticated client may authenticate anew.
func (a *authentication) mayAgain(now time.Time) bool {
	return !a.expires.IsZero() && (a.beganAgain.IsZero() || now.Sub(a.beganAgain) >= minReauthInterval)
}

// step takes a message of the mechanism. It returns what the client is answered and, where it is authenticated then, how long that counts, in ms, 0 for ever. The
// error is a *sasl.Refusal that says what the client is told. The cluster's lock is held.
func (a *authentication) step(conn *connection, token []byte) (answer []byte, lifetimeMs int64, err error) {
	now := conn.node.cluster.clock.Now()
	answer, err = a.exchange.Step(token, now)
	var no *sasl.Refusal
	if errors.As(err, &no) && no.Public == "" {
		again := ""
		if a.again {
			again = "re-"
		}
		no.Public = fmt.Sprintf("Authentication failed during %sauthentication due to invalid credentials with SASL mechanism %s", again, a.mechanism)
	}
	if err != nil || !a.exchange.Complete() {
		return answer, 0, err
	}
	principal := "User:" + a.exchange.User()
	if a.again && principal != conn.client.Principal {
		return nil, 0, &sasl.Refusal{Public: fmt.Sprintf("Cannot change principals during re-authentication from User.%s: User.%s", conn.client.Principal[len("User:"):], a.exchange.User())}
	}
	conn.client.Principal = principal
	conn.reader.max, conn.reader.limit = conn.node.cluster.maxFrame, "socket.request.max.bytes"
	a.expires = time.Time{}
	most := conn.listener.MaxReauth[a.mechanism]
	if until := a.exchange.Expires(); !until.IsZero() || most > 0 {
		lifetime := most
		if left := max(0, until.Sub(now)); !until.IsZero() && (most <= 0 || left < most) {
			lifetime = left
		}
		lifetimeMs, a.expires = lifetime.Milliseconds(), now.Add(lifetime.Truncate(time.Millisecond))
	}
	a.state, a.exchange = authDone, nil
	return answer, lifetimeMs, nil
}

// answerBare answers a frame that is a message of the mechanism. An error closes the connection.
func (c *connection) answerBare(token []byte) error {
	cluster := c.node.cluster
	cluster.mu.Lock()
	answer, _, err := c.auth.step(c, token)
	cluster.mu.Unlock()
	if err != nil {
		c.pause(cluster.authenticationDelay())
		return fmt.Errorf("%w: %w", errUnauthenticated, err)
	}
	c.allowIdle()
	_, err = c.net.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
	return err
}

// pause waits for a time of the cluster's clock, unless the connection ends before.
func (c *connection) pause(d time.Duration) {
	over := make(chan struct{})
	t := c.node.cluster.clock.AfterFunc(d, func() { close(over) })
	select {
	case <-over:
	case <-c.gone:
		t.Stop()
	}
}

// secure makes the connection's TLS handshake, if it has one, and learns from it who the client is.
func (c *connection) secure() error {
	t, ok := c.net.(*tls.Conn)
	if !ok {
		return nil
	}
	c.allowIdle()
	if err := t.Handshake(); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	if shown := t.ConnectionState().PeerCertificates; len(shown) > 0 {
		c.client.Principal = "User:" + shown[0].Subject.ToRDNSequence().String()
	}
	return nil
}

// overTLS is a connection as a listener wants it.
func (l *listener) overTLS(nc net.Conn) net.Conn {
	if l.TLS == nil {
		return nc
	}
	return tls.Server(nc, l.TLS)
}

// goodbyeTime is how long a TLS connection that ends tries to tell so, by the machine's time.
const goodbyeTime = 100 * time.Millisecond

// sayGoodbye tells a client that its TLS connection ends, so that it need not take the end for an attack.
func (c *connection) sayGoodbye() {
	if t, ok := c.net.(*tls.Conn); ok {
		if err := t.SetWriteDeadline(time.Now().Add(goodbyeTime)); err == nil {
			_ = t.CloseWrite() // nobody may be there to hear it
		}
	}
}
