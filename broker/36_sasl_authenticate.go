package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
	"kshare/sasl"
)

// SaslAuthenticate (36), v0 to v2.
//
// Behaviour (SaslServerAuthenticator):
//   - Carries a message of the mechanism that SaslHandshake has named: package sasl. v1+ tells how long the client has until it must authenticate anew.
//   - A client that is refused is told so with SASL_AUTHENTICATION_FAILED, held back by connection.failed.authentication.delay.ms; then the connection is closed.
//     What it is told gives away neither secrets nor which users there are.
//   - Out of turn, and on a listener without SASL: ILLEGAL_SASL_STATE, and the connection stays open.

const saslAuthenticateKey = 36

func init() { handlers[saslAuthenticateKey] = locked((*Cluster).saslAuthenticate) }

func (c *Cluster) saslAuthenticate(r *request, q *kmsg.SASLAuthenticateRequest) kmsg.Response {
	p := response[*kmsg.SASLAuthenticateResponse](q)
	a := r.conn.auth
	if a == nil || a.state != authExchanges {
		p.ErrorCode = errorcode.IllegalSASLState
		p.ErrorMessage = kmsg.StringPtr("SaslAuthenticate request received after successful authentication")
		return p
	}
	if a.unfit != "" {
		return r.closeLater(errors.New(a.unfit))
	}
	p.ErrorMessage = kmsg.StringPtr("")
	answer, lifetimeMs, err := a.step(r.conn, q.SASLAuthBytes)
	var no *sasl.Refusal
	if errors.As(err, &no) {
		p.ErrorCode, p.ErrorMessage = errorcode.SASLAuthenticationFailed, &no.Public
		return r.answerBeforeClosing(p, err)
	}
	p.SASLAuthBytes, p.SessionLifetimeMillis = answer, lifetimeMs
	return p
}
