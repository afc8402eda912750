package broker

import (
	"slices"

	"kshare/secrets"
)

// tapReceived tells the tap of a request, which may keep it: without secrets.
func (c *connection) tapReceived(frame []byte) {
	if c.tap != nil {
		c.tap.Received(uint64(c.id), secrets.FromRequestFrame(frame))
	}
}

// tapSent tells the tap of an answer, the frame of which, with its length, ends in the body.
func (c *connection) tapSent(r *request, frame, body []byte) {
	head := frame[4 : len(frame)-len(body) : len(frame)-len(body)]
	kept := frame[4:]
	if r.header.Key == saslAuthenticateKey {
		kept = append(slices.Clone(head), secrets.FromAnswer(r.header.Key, r.header.Version, body)...)
	}
	c.tap.Sent(uint64(c.id), kept)
}
