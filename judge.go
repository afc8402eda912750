package kshare

import (
	"io"

	"kshare/clock"
	"kshare/conformance"
	"kshare/conformance/live"
	"kshare/protocol"
)

// Judge judges what clients put on the wire.
type Judge = live.Judge

// JudgeReport is what a judge has to say: of each rule a verdict with its evidence.
type JudgeReport = conformance.Report

// WithJudge has a judge watch all clients, for Cluster.Judge. It sees answers as clients do, changed by faults. Direct connections, which scenarios
// use, are not clients on a wire: they are not judged. Without it nothing is spent on it.
func WithJudge() Option {
	return func(o *options) error { o.judged = true; return nil }
}

// WithJudgeClock sets the clock that clients live by, where that is not the cluster's: the machine's beside a virtual clock that stands still while clients
// do not.
func WithJudgeClock(c clock.Clock) Option {
	return func(o *options) error { o.judgeClock = c; return nil }
}

// WithJudgeRecording writes every frame of the clients to w, as package conformance/recording describes, and has a judge as WithJudge.
func WithJudgeRecording(w io.Writer) Option {
	return func(o *options) error { o.judged, o.judgeRecord = true, w; return nil }
}

// Judge is the judge of the cluster's clients, nil without WithJudge. Reset of the cluster makes it forget everything.
func (c *Cluster) Judge() *Judge { return c.options.judge }

// makeJudge makes the judge that the options ask for.
func (o *options) makeJudge() {
	if !o.judged {
		return
	}
	of := conformance.Options{}
	if o.broker.KIP1289 != nil {
		of.APIs = protocol.WithTxnShareAcknowledge(o.broker.KIP1289.Key())
	}
	at := o.judgeClock
	if at == nil {
		at = o.broker.Clock
	}
	o.judge = live.New(of, at, o.judgeRecord)
	o.broker.Tap = o.judge
}
