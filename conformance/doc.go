// Package conformance judges what a client of Kafka puts on the wire: does it speak share groups correctly?
//
// A [Judge] is fed with the frames of a client's connections in their order, requests as they were received and answers as they were sent, and with nothing
// else. From these it builds its own picture of sessions, acquired records, members and leaders, and holds each request against [Rules]. The same frames give
// the same [Report], so a recording can be judged again.
//
// Rules have a level. What breaks a MUST is refused by a stock broker, loses or duplicates data or lets others starve, or a KIP says so. What breaks a SHOULD
// works, but costs the cluster or the user. INFO is where good clients differ: it is told, and never fails.
//
// Nothing here has a goroutine, a clock or a socket. A judge is bounded in memory: what it remembers of records, members and topics beyond some bounds it
// forgets, and does not judge what it has forgotten.
package conformance
