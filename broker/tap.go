package broker

import (
	"encoding/binary"
	"slices"

	"kshare/protocol"
)

// secretKeys are the APIs whose requests carry what withoutSecrets leaves out: SaslAuthenticate, AlterUserScramCredentials, AlterConfigs, IncrementalAlterConfigs.
var secretKeys = []int16{saslAuthenticateKey, 51, 33, 44}

// tapReceived tells the tap of a request, which may keep it: without secrets. Of one that has some and cannot be decoded it gets the key, version and correlation
// id alone.
func (c *connection) tapReceived(frame []byte) {
	if c.tap == nil {
		return
	}
	if len(frame) >= 2 && slices.Contains(secretKeys, int16(binary.BigEndian.Uint16(frame))) {
		frame = c.frameWithoutSecrets(frame)
	}
	c.tap.Received(uint64(c.id), frame)
}

func (c *connection) frameWithoutSecrets(frame []byte) []byte {
	const known = 8 // key, version and correlation id
	start := frame[:min(len(frame), known)]
	h, err := protocol.ParseRequestStart(frame)
	if err != nil {
		return start
	}
	api, _ := c.node.cluster.api(h.Key)
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
	return append(slices.Clone(frame[:len(frame)-len(body)]), withoutSecrets(q, body)...)
}

// tapSent tells the tap of an answer, the frame of which, with its length, ends in the body.
func (c *connection) tapSent(r *request, frame, body []byte) {
	frame = frame[4:]
	if r.header.Key == saslAuthenticateKey {
		frame = append(slices.Clone(frame[:len(frame)-len(body)]), r.answerWithoutSecrets(body)...)
	}
	c.tap.Sent(uint64(c.id), frame)
}
