// Package live judges clients while they are served: it gives the frames that it is told of their times and an order, and records them.
package live

import (
	"io"
	"sync"

	"kshare/clock"
	"kshare/conformance"
	"kshare/conformance/recording"
)

// Judge judges connections as they are told to it. It may be used from several goroutines.
type Judge struct {
	options conformance.Options
	clock   clock.Clock
	record  io.Writer // nil for nowhere

	mu       sync.Mutex
	judge    *conformance.Judge
	recorded error // why recording has ended
}

// New makes a judge that takes its times from a clock and writes what it is told to record, unless that is nil.
func New(o conformance.Options, c clock.Clock, record io.Writer) *Judge {
	return &Judge{options: o, clock: c, record: record, judge: conformance.New(o)}
}

// Opened tells that a client has connected to a node.
func (j *Judge) Opened(conn uint64, node int32, host string) {
	j.observe(conformance.Frame{Kind: conformance.Opened, Conn: conn, Node: node, Host: host})
}

// Received tells of a request that has arrived, without its length.
func (j *Judge) Received(conn uint64, frame []byte) {
	j.observe(conformance.Frame{Kind: conformance.Received, Conn: conn, Bytes: frame})
}

// Sent tells of an answer that is about to be sent, without its length.
func (j *Judge) Sent(conn uint64, frame []byte) {
	j.observe(conformance.Frame{Kind: conformance.Sent, Conn: conn, Bytes: frame})
}

// Closed tells that a connection ends.
func (j *Judge) Closed(conn uint64) {
	j.observe(conformance.Frame{Kind: conformance.Closed, Conn: conn})
}

func (j *Judge) observe(f conformance.Frame) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f.At = j.clock.Now()
	if j.record != nil && j.recorded == nil {
		j.recorded = recording.Write(j.record, f)
	}
	j.judge.Observe(f)
}

// Report tells the verdicts up to now.
func (j *Judge) Report() *conformance.Report {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.judge.Report(j.clock.Now())
}

// Reset forgets the verdicts. What is known of connections that are open, of members and sessions stays.
func (j *Judge) Reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.judge.Reset()
}

// Restart forgets everything, for a cluster that begins from nothing and has no connections.
func (j *Judge) Restart() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.judge = conformance.New(j.options)
}

// Recorded is the error that ended the recording, nil while there is none.
func (j *Judge) Recorded() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.recorded
}
