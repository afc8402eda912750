package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// SaslHandshake (17), v0 to v1.
//
// Behaviour (SaslServerAuthenticator):
//   - Begins an authentication, or one anew where the connection has a session lifetime, at most once a second.
//   - An unknown mechanism is UNSUPPORTED_SASL_MECHANISM with those that there are; the answer is held back, and the connection closed.
//   - Out of turn, and on a listener without SASL: ILLEGAL_SASL_STATE, and the connection stays open.
//   - After v0 the mechanism's messages come in frames of their own, after v1 in SaslAuthenticate requests.

const saslHandshakeKey = 17

func init() { handlers[saslHandshakeKey] = locked((*Cluster).saslHandshake) }

func (c *Cluster) saslHandshake(r *request, q *kmsg.SASLHandshakeRequest) kmsg.Response {
	p := response[*kmsg.SASLHandshakeResponse](q)
	a, l := r.conn.auth, r.conn.listener
	if a != nil && a.state == authDone && a.mayAgain(c.clock.Now()) {
		a.again, a.beganAgain = true, c.clock.Now()
	} else if a == nil || a.state == authDone {
		p.ErrorCode = errorcode.IllegalSASLState
		return p
	}
	p.SupportedMechanisms = l.SASL
	if !l.allows(q.Mechanism) {
		p.ErrorCode = errorcode.UnsupportedSASLMechanism
		return r.answerBeforeClosing(p, fmt.Errorf("SASL mechanism %q is not enabled on listener %s", q.Mechanism, l.Name))
	}
	a.bare = q.Version == 0 && !a.again
	a.begin(c, l, q.Mechanism)
	return p
}
