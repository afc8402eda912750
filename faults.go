package kshare

import (
	"fmt"

	"kshare/fault"
	"kshare/requestlog"
)

// Fault is a rule that says what goes wrong on purpose with which requests; package fault describes its fields.
type Fault = fault.Rule

// FaultStatus is a rule and what it has done.
type FaultStatus = fault.Status

// AddFault adds a rule of what goes wrong and returns its id, which counts up from 1. It acts on requests that arrive from now on. It fails for a rule that
// could never act or contradicts itself.
func (c *Cluster) AddFault(r Fault) (id int, err error) { return c.broker().AddFault(r) }

// RemoveFault removes a rule by its id and lets the requests go on that it holds. It fails where there is no such rule.
func (c *Cluster) RemoveFault(id int) error { return c.broker().RemoveFault(id) }

// ReleaseFault lets the requests go on that rules of a name hold, in the order of their arrival, and returns how many. What they do is done when it
// returns, on direct connections too. The rules stay, and hold later requests. It fails where no rule has the name.
func (c *Cluster) ReleaseFault(name string) (released int, err error) {
	return c.broker().ReleaseFault(name)
}

// Faults tells the rules in the order in which they were added, and how many requests each has matched, acted on and holds.
func (c *Cluster) Faults() []FaultStatus { return c.broker().Faults() }

// RequestQuery picks requests of the log: those that have everything that is not zero.
type RequestQuery = requestlog.Query

// Request is a request of the log and what became of it. Its methods decode what was asked and answered; as JSON it has both.
type Request = requestlog.Entry

// Requests returns the requests that a query picks among those that WithRequestLog remembers, the oldest first. It fails for an API that Kafka has not.
func (c *Cluster) Requests(q RequestQuery) ([]Request, error) { return c.broker().Requests(q) }

// RequestLog is how many requests are remembered at most, 0 without WithRequestLog.
func (c *Cluster) RequestLog() int { return c.options.broker.RequestLog }

// WithRequestLog remembers the last n requests and how they were answered, for Cluster.Requests, and of those as many as take 64 MiB together. Of a body of
// more than 64 KiB the records are left out, of one that is longer than 1 MiB without them only the size is kept; Request.LeftOut says so. Without it nothing is
// remembered, and nothing is spent on it.
func WithRequestLog(n int) Option {
	return func(o *options) error {
		if n < 1 || n > maxRequestLog {
			return fmt.Errorf("a request log has 1 to %d requests, not %d", maxRequestLog, n)
		}
		o.broker.RequestLog = n
		return nil
	}
}

// WithRequestLogBytes bounds what the request log takes, in bytes, where that is to be less than 64 MiB.
func WithRequestLogBytes(n int) Option {
	return func(o *options) error {
		if n < 1 {
			return fmt.Errorf("a request log takes 1 byte or more, not %d", n)
		}
		o.broker.RequestLogBytes = n
		return nil
	}
}

const maxRequestLog = 1_000_000
