// Package secrets takes out of messages what logs, recordings and reports may not keep: what proves who a client is, and values of configurations that are
// passwords or the like.
package secrets

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/config"
	"kshare/protocol"
)

const saslAuthenticateKey int16 = 36

// keys are the APIs whose requests have secrets: SaslAuthenticate, AlterUserScramCredentials, AlterConfigs, IncrementalAlterConfigs.
var keys = []int16{saslAuthenticateKey, 51, 33, 44}

// FromRequest returns the body of a request without secrets, which q, the request, loses too. q is nil where the body could not be decoded: it is returned as it is.
func FromRequest(q kmsg.Request, body []byte) []byte {
	switch q := q.(type) {
	case *kmsg.SASLAuthenticateRequest:
		q.SASLAuthBytes = []byte{}
	case *kmsg.AlterUserSCRAMCredentialsRequest:
		for i := range q.Upsertions {
			q.Upsertions[i].Salt, q.Upsertions[i].SaltedPassword = []byte{}, []byte{}
		}
	case *kmsg.IncrementalAlterConfigsRequest:
		for i := range q.Resources {
			for j := range q.Resources[i].Configs {
				if c := &q.Resources[i].Configs[j]; config.IsSecret(c.Name) {
					c.Value = nil
				}
			}
		}
	case *kmsg.AlterConfigsRequest:
		for i := range q.Resources {
			for j := range q.Resources[i].Configs {
				if c := &q.Resources[i].Configs[j]; config.IsSecret(c.Name) {
					c.Value = nil
				}
			}
		}
	default:
		return body
	}
	return q.AppendTo(nil)
}

// FromRequestFrame returns a request with its header, without its length, without secrets. Of one that may have some and cannot be decoded there is the key, version
// and correlation id alone. The frame is not changed.
func FromRequestFrame(frame []byte) []byte {
	if len(frame) < 2 || !slices.Contains(keys, int16(binary.BigEndian.Uint16(frame))) {
		return frame
	}
	const known = 8 // key, version and correlation id
	start := frame[:min(len(frame), known)]
	h, err := protocol.ParseRequestStart(frame)
	if err != nil {
		return start
	}
	api := protocol.APIByKey(h.Key)
	if api == nil || api.NewRequest(h.Version) == nil {
		return start
	}
	body, err := protocol.ParseRequestRest(&h, frame, api.IsFlexible(h.Version))
	if err != nil {
		return start
	}
	q := api.NewRequest(h.Version)
	if q.ReadFrom(body) != nil {
		return start
	}
	return append(slices.Clone(frame[:len(frame)-len(body)]), FromRequest(q, body)...)
}

// FromAnswer returns the body of an answer without secrets, nil where it may have some and cannot be decoded: what a server says of SCRAM lets passwords be tried.
func FromAnswer(key, version int16, body []byte) []byte {
	if key != saslAuthenticateKey {
		return body
	}
	p := kmsg.SASLAuthenticateResponse{Version: version}
	if p.ReadFrom(body) != nil {
		return nil
	}
	p.SASLAuthBytes = []byte{}
	return p.AppendTo(nil)
}

// FromAnswerFrame returns an answer without secrets, whose header, of head bytes, stands before the body. The frame is not changed.
func FromAnswerFrame(key, version int16, frame []byte, head int) []byte {
	if key != saslAuthenticateKey || len(frame) < head {
		return frame
	}
	return append(slices.Clone(frame[:head]), FromAnswer(key, version, frame[head:])...)
}
