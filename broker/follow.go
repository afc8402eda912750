package broker

import (
	"sync/atomic"
	"time"

	"kshare/protocol"
	"kshare/requestlog"
	"kshare/sharepartition"
)

// Follower is told what happens in a cluster, in its order. It calls nothing of the cluster, and is quick: brokers wait for it.
type Follower interface {
	// Requested is told of a request as it arrives, Answered of the same once something has become of it, both under a number of its own: of an answer
	// before it is sent, and again where it cannot be sent. They are called from several goroutines. The entries are the follower's.
	Requested(number uint64, e *requestlog.Entry)
	Answered(number uint64, e *requestlog.Entry)
	// Appended is told of a batch that was appended to a log, ShareChanged of a change of a share partition. They are called one at a time, and nothing of
	// their arguments is kept.
	Appended(a *Appended)
	ShareChanged(s *ShareChange)
}

// Followed is where the follower of a cluster is set. It may be set and taken away at any time, and stays when the cluster is reset or started again. Without a
// follower nothing is spent on it.
type Followed struct {
	follower atomic.Pointer[Follower]
	requests atomic.Uint64 // that the follower was told of
}

// By sets the follower, nil for none.
func (f *Followed) By(to Follower) {
	if to == nil {
		f.follower.Store(nil)
		return
	}
	f.follower.Store(&to)
}

// now returns the follower, nil for none.
func (f *Followed) now() Follower {
	if f == nil {
		return nil
	}
	if to := f.follower.Load(); to != nil {
		return *to
	}
	return nil
}

// Appended is a batch that was appended to a log.
type Appended struct {
	At        time.Time
	Topic     string
	Partition int32
	// DeadLetters tells that share groups may write what they give up to the topic.
	DeadLetters bool
	Header      *protocol.BatchHeader
	Batch       []byte
}

// Actions on a share partition.
const (
	ActionLoad         = "load"         // its leader has read its state
	ActionForget       = "forget"       // its leader knows nothing of it any more
	ActionAcquire      = "acquire"      // records are handed to a member
	ActionSkipAborted  = "skip-aborted" // of those, what aborted transactions have written is archived
	ActionAcknowledge  = "acknowledge"  // by a member: acks
	ActionRelease      = "release"      // of what a member held whose session has ended
	ActionExpire       = "expire"       // locks have ended
	ActionStage        = "stage"        // acknowledgements become part of a transaction: acks
	ActionResolve      = "resolve"      // a transaction has ended
	ActionWritten      = "written"      // the write of a change is answered: a code
	ActionArchived     = "archived"     // records are in the dead-letter queue, or given up
	ActionLogStartMove = "log-start"    // records were deleted
)

// ShareChange is a change of a share partition that its leader keeps.
type ShareChange struct {
	At        time.Time
	Action    string
	Group     string
	Topic     string
	Partition int32
	Member    string                           // of acquire, acknowledge, release and stage
	Acks      []sharepartition.Acknowledgement // of acknowledge and stage
	Staged    sharepartition.Staged            // of stage; of resolve the transaction of the first records
	Resolved  []sharepartition.StateBatch      // of resolve: what the records are afterwards
	ErrorCode int16                            // of written
	state     *sharepartition.Partition        // nil once it is forgotten
}

// Offsets are the share partition's start offset and the next offset that was never handed out, false where the leader has no state of it any more.
func (s *ShareChange) Offsets() (start, end int64, ok bool) {
	if s.state == nil {
		return 0, 0, false
	}
	return s.state.StartOffset(), s.state.EndOffset(), true
}

// Runs appends what is in flight to dst, in the order of offsets.
func (s *ShareChange) Runs(dst []sharepartition.Run) []sharepartition.Run {
	if s.state == nil {
		return dst
	}
	return describeFromStart(s.state, dst, s.At)
}

// describeFromStart is what is in flight from the start offset on: a batch stays whole while some of it is in flight.
func describeFromStart(p *sharepartition.Partition, dst []sharepartition.Run, now time.Time) []sharepartition.Run {
	all := p.Describe(dst, now)
	kept, start := all[:len(dst)], p.StartOffset()
	for _, r := range all[len(dst):] {
		if r.LastOffset >= start {
			r.FirstOffset = max(r.FirstOffset, start)
			kept = append(kept, r)
		}
	}
	return kept
}

// tell tells the follower what has happened to the share partition. more fills in what belongs to the action, nil for nothing.
func (sp *sharePartition) tell(action string, more func(*ShareChange)) {
	p := sp.partition
	to := p.cluster.followed.now()
	if to == nil {
		return
	}
	s := &ShareChange{At: p.cluster.clock.Now(), Action: action, Group: sp.group, Topic: p.topic.name, Partition: p.index, state: sp.state}
	if sp.forgotten() {
		s.state = nil
	}
	if more != nil {
		more(s)
	}
	to.ShareChanged(s)
}

// Follower is the follower that is set, nil for none.
func (f *Followed) Follower() Follower { return f.now() }
