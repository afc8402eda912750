package kshare

import "kshare/broker"

// Follower is told what happens in a cluster, as it happens.
type Follower = broker.Follower

// Followed is where the follower of a cluster is set.
type Followed = broker.Followed

// What a snapshot consists of.
type (
	GroupPartitionState = broker.GroupPartitionState
	TransactionState    = broker.TransactionState
)

// TimerWait is the kind of a timer that ends the wait of a fetch.
const TimerWait = broker.TimerWait

// What a follower is told of.
type (
	Appended    = broker.Appended
	ShareChange = broker.ShareChange
)

// WithFollowed has a cluster tell what happens to the follower that is set there, from its start on.
func WithFollowed(f *Followed) Option {
	return func(o *options) error { o.broker.Followed = f; return nil }
}

// Followed is where the follower of the cluster is set: one at a time, which stays when the cluster is reset.
func (c *Cluster) Followed() *Followed { return c.options.broker.Followed }

// Limits bound what a Snapshot holds.
type Limits = broker.Limits

// Snapshot is everything that can be seen of a cluster at one moment.
type Snapshot = broker.Snapshot

// InspectAll returns all of it, as it is at one moment.
func (c *Cluster) InspectAll(l Limits) *Snapshot { return c.broker().InspectAll(l) }

// InspectRecords returns copies of batches of a partition's log: from that of an offset on, whole ones, as many as have maxBytes together but at least one, up to the
// high watermark. It fails for a partition that does not exist or whose log cannot be read.
func (c *Cluster) InspectRecords(topic string, partition int32, offset int64, maxBytes int) ([]byte, error) {
	return c.broker().InspectRecords(topic, partition, offset, maxBytes)
}

// Actions on share partitions.
const (
	ActionLoad         = broker.ActionLoad
	ActionForget       = broker.ActionForget
	ActionAcquire      = broker.ActionAcquire
	ActionSkipAborted  = broker.ActionSkipAborted
	ActionAcknowledge  = broker.ActionAcknowledge
	ActionRelease      = broker.ActionRelease
	ActionExpire       = broker.ActionExpire
	ActionStage        = broker.ActionStage
	ActionResolve      = broker.ActionResolve
	ActionWritten      = broker.ActionWritten
	ActionArchived     = broker.ActionArchived
	ActionLogStartMove = broker.ActionLogStartMove
)
