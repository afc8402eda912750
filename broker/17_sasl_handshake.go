package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// SaslHandshake (17), v0 to v1.
//
// Behaviour:
//   - Every listener is a plaintext one, where the request comes out of turn: ILLEGAL_SASL_STATE, and the connection stays open.

const saslHandshakeKey = 17

func init() { handlers[saslHandshakeKey] = locked((*Cluster).saslHandshake) }

func (c *Cluster) saslHandshake(_ *request, q *kmsg.SASLHandshakeRequest) kmsg.Response {
	p := response[*kmsg.SASLHandshakeResponse](q)
	p.ErrorCode = errorcode.IllegalSASLState
	return p
}
