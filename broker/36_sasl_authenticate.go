package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// SaslAuthenticate (36), v0 to v2.
//
// Behaviour:
//   - Every listener is a plaintext one, where the request comes out of turn: ILLEGAL_SASL_STATE, and the connection stays open.

const saslAuthenticateKey = 36

func init() { handlers[saslAuthenticateKey] = locked((*Cluster).saslAuthenticate) }

func (c *Cluster) saslAuthenticate(_ *request, q *kmsg.SASLAuthenticateRequest) kmsg.Response {
	p := response[*kmsg.SASLAuthenticateResponse](q)
	p.ErrorCode = errorcode.IllegalSASLState
	p.ErrorMessage = kmsg.StringPtr("SaslAuthenticate request received after successful authentication")
	return p
}
