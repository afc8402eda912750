package broker

import "kshare/secrets"

// tapReceived tells the tap of a request, which may keep it: without secrets.
func (c *connection) tapReceived(frame []byte) {
	if c.tap != nil {
		c.tap.Received(uint64(c.id), secrets.FromRequestFrame(frame))
	}
}

// tapSent tells the tap of an answer, the frame of which, with its length, ends in the body.
func (c *connection) tapSent(r *request, frame, body []byte) {
	frame = frame[4:]
	c.tap.Sent(uint64(c.id), secrets.FromAnswerFrame(r.header.Key, r.header.Version, frame, len(frame)-len(body)))
}
